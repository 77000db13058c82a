//! STAMP (RFC 8762, 8972): a session sender for any standard reflector.

mod config;
mod deliveries;
mod exchange;
mod extensions;
mod probe_pacing;
mod reply_timeout;
mod sender;

pub use config::StampConfig;
pub use kumade_packet::{DsField, Dscp, Ecn};
pub use kumade_wire::stamp::PORT as STAMP_PORT;
pub use sender::measure_stamp;
