//! STAMP (RFC 8762): a session sender for any standard reflector.

mod config;
mod count;
mod exchange;
mod sender;

pub use config::StampConfig;
pub use sender::measure_stamp;
pub use wire::stamp::PORT as STAMP_PORT;
