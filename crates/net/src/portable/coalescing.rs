//! How long interfaces hold received packets back, which only Linux tells.

pub use crate::system_facts::InterruptCoalescing;

use std::io;
use std::net::IpAddr;

impl InterruptCoalescing {
    /// Not known.
    ///
    /// # Errors
    /// None.
    pub fn of_interface(_interface: &str) -> io::Result<Option<Self>> {
        Ok(None)
    }
}

/// None.
pub fn interface_with_address(_address: IpAddr) -> Option<String> {
    None
}
