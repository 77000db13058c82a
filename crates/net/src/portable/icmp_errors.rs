pub use crate::system_facts::IcmpError;

use crate::portable::unsupported;
use rustix::fd::AsFd;
use std::io;

/// Lets the system keep ICMP errors, which it does not.
///
/// # Errors
/// Where they are to be kept.
pub fn report_icmp_errors(_socket: &impl AsFd, are_reported: bool) -> io::Result<()> {
    if are_reported { unsupported("what routers answer (ICMP errors)") } else { Ok(()) }
}

/// None.
///
/// # Errors
/// None.
pub fn next_icmp_error(_socket: &impl AsFd, _payload: &mut [u8]) -> io::Result<Option<IcmpError>> {
    Ok(None)
}
