//! The only crate that touches Linux: stamped sockets, exact waits, namespaces, TUN devices and packet capture.
//!
//! Everything here is small and does one thing to the operating system; what to do is decided elsewhere, by pure
//! code. All `unsafe` of the project is here, with its reason beside it.
//!
//! Clocks: stamps of packets are on [`clock::realtime`], which the kernel uses for them; waits and budgets are on
//! [`clock::monotonic`].

mod binding;
mod bpf;
pub mod capture;
pub mod clock;
pub mod coalescing;
pub mod congestion;
mod control_messages;
pub mod cpu;
pub mod datagram;
mod echo;
pub mod fast_path;
#[cfg(feature = "fault-injection")]
pub mod fault_injection;
pub mod forwarding;
pub mod gro;
mod host_claim;
pub mod host_routing;
pub mod host_rules;
mod icmp_errors;
mod icmp_listener;
mod index;
pub mod interface;
pub mod interface_address;
pub mod listener;
pub mod low_latency;
mod messages;
pub mod namespace;
mod netlink;
pub mod nftables;
pub mod offloads;
mod option;
pub mod pacing;
pub mod packet_socket;
pub mod policy_routing;
pub mod privileges;
pub mod readiness;
mod resolved_host;
pub mod responder;
mod ring;
pub mod route_watch;
pub mod sandbox;
mod scoped_address;
mod segment_coalescing;
mod setup;
pub mod stamp;
pub mod sysctl;
pub mod tcp;
pub mod tun;
pub mod udp;
pub mod waker;

pub use binding::{SocketBinding, is_address_gone, is_own_address};
pub use echo::{EchoReply, EchoSocket};
pub use host_claim::{HostClaim, HostClaimError, HostClaimHolder};
pub use icmp_errors::{IcmpError, next_icmp_error, report_icmp_errors};
pub use icmp_listener::IcmpListener;
pub use resolved_host::ResolvedHost;
pub use scoped_address::{ScopedAddress, ScopedAddressError};
pub use setup::SetupError;

/// Its example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
