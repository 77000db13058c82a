//! What people say of one end of a tunnel, on the command line or in a file: keys are still in their files, and names are not
//! looked up.

mod file;
mod types;

pub use file::{FileOptions, TunnelFile};
pub use types::{EndSettings, FarEndError, TunnelSettings, parse_buffer_size, parse_device_address};
