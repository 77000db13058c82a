//! STAMP (RFC 8762): measuring any standard reflector, and being one.

mod count;
mod flight;
mod reflector;
mod sender;
mod sources;

pub use reflector::{Reflector, ReflectorConfig, ReflectorError};
pub(crate) use sender::fill_in;
pub use sender::{StampConfig, measure_stamp};
pub use wire::stamp::PORT as STAMP_PORT;
