//! Sockets of any system, and what can be told with them: a program's own clock readings in place of the kernel's stamps. They carry
//! measurements where there is no Linux, and with the feature `portable` also there, so that they can be compared with Linux's own.

pub mod datagram;
pub mod readiness;
mod scatter;
pub mod stamp;
pub mod tcp;
pub mod udp;

pub use scatter::loopback_scatter;

use std::io;

/// What systems other than Linux do not say, or to no program without privileges.
pub(crate) fn unsupported<T>(what: &str) -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::Unsupported, format!("this system tells a program nothing of {what}")))
}
