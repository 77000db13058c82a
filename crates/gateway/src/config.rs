//! What a gateway's configuration file may say, and what it means once it is valid.

mod error;
mod file;
mod options;
mod types;
mod validate;

pub use error::ConfigError;
pub use options::{PathOption, PathOptionError, SimpleConfig};
pub(crate) use types::family_of;
pub use types::{Config, Local, Path, Plane, Remote, Side, Translation};
pub(crate) use validate::greatest_common_divisor;
