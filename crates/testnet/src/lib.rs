//! Hosts in network namespaces, joined by emulated links, and traffic between them: what the lab measures on, and what
//! every crate's tests may build.
//!
//! [`Network`] is a bottleneck that this process emulates between any number of hosts; [`Htb`] the same by the kernel's
//! shaper, as an outside reference. [`Traffic`] sends real packets between their hosts. [`in_namespaces`] runs a test
//! where it may build such a network. Everything ends with the value that stands for it.

mod count;
mod fabric;
mod htb;
mod namespaces;
mod network;
mod traffic;

pub use fabric::Fabric;
pub use htb::Htb;
pub use namespaces::{TEST_DEADLINE, eventually, in_namespaces};
pub use network::{
    AccessSpec, Host, HostSpec, Lateness, Network, NetworkError, NetworkSpec, RECORD_LENGTH, STALL, Verified, Waits,
};
pub use traffic::{Meter, Traffic};
