//! STAMP (RFC 8762): measuring any standard reflector.

mod config;
mod count;
mod flight;
mod sender;

pub use config::StampConfig;
pub use sender::measure_stamp;
pub use wire::stamp::PORT as STAMP_PORT;
