//! Sockets of any system, and what can be told with them: a program's own clock readings in place of the kernel's stamps. They carry
//! measurements where there is no Linux, and with the feature `portable` also there, so that they can be compared with Linux's own.

#[cfg(not(target_os = "linux"))]
pub(crate) mod absent;
pub mod datagram;
pub mod pacing;
pub mod readiness;
mod scatter;
pub mod stamp;
pub mod tcp;
pub mod udp;

pub use scatter::loopback_scatter;
