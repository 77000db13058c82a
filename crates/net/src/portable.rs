//! Sockets of any system, and what can be told with them: a program's own clock readings in place of the kernel's stamps. They carry
//! measurements where there is no Linux, and with the feature `portable` also there, so that they can be compared with Linux's own.

pub mod datagram;
pub mod readiness;
pub mod stamp;
pub mod tcp;
pub mod udp;

use std::io;

/// No datagram is longer. Windows gives nothing of one that is longer than the memory for it.
const MAX_DATAGRAM_BYTES: usize = 1 << 16;
/// Of Ethernet: what the path's is, portable options do not tell.
const ASSUMED_MTU: u32 = 1500;

/// What systems other than Linux do not say, or to no program without privileges.
pub(crate) fn unsupported<T>(what: &str) -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::Unsupported, format!("this system tells a program nothing of {what}")))
}
