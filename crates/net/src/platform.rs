//! What carries measurements: sockets, their readiness, stamps and pacing, of Linux where this is Linux, and the portable ones elsewhere or
//! where the feature `portable` asks for them. Both have the same items; what a system does not tell is none or an error.

pub use crate::pacing;
#[cfg(any(feature = "portable", not(target_os = "linux")))]
pub use crate::portable::{datagram, readiness, stamp, tcp, udp};
#[cfg(not(any(feature = "portable", not(target_os = "linux"))))]
pub use crate::{datagram, readiness, stamp, tcp, udp};
pub use rustix::fd::{AsFd, BorrowedFd};
