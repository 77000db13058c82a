//! The only crate that touches Linux: stamped sockets, exact waits, namespaces, TUN devices and packet capture; and what carries
//! measurements on other systems ([`platform`]), of which nothing else is there.
//!
//! Everything here is small and does one thing to the operating system; what to do is decided elsewhere, by pure
//! code. All `unsafe` of the project is here, with its reason beside it.
//!
//! Clocks: stamps of packets are on [`clock::realtime`], which the kernel uses for them; waits and budgets are on
//! [`clock::monotonic`].

mod binding;
#[cfg(target_os = "linux")]
mod bpf;
#[cfg(target_os = "linux")]
pub mod capture;
pub mod clock;
#[cfg_attr(not(target_os = "linux"), path = "portable/coalescing.rs")]
pub mod coalescing;
#[cfg(target_os = "linux")]
pub mod congestion;
mod connect;
#[cfg(target_os = "linux")]
mod control_messages;
#[cfg(target_os = "linux")]
pub mod cpu;
#[cfg(target_os = "linux")]
pub mod datagram;
#[cfg(target_os = "linux")]
mod echo;
mod family;
#[cfg(target_os = "linux")]
pub mod fast_path;
#[cfg(all(feature = "fault-injection", target_os = "linux"))]
pub mod fault_injection;
#[cfg(target_os = "linux")]
pub mod forwarding;
#[cfg(target_os = "linux")]
pub mod gro;
mod header_bytes;
mod host_claim;
#[cfg(target_os = "linux")]
pub mod host_routing;
#[cfg(target_os = "linux")]
pub mod host_rules;
#[cfg_attr(not(target_os = "linux"), path = "portable/icmp_errors.rs")]
mod icmp_errors;
#[cfg_attr(not(target_os = "linux"), path = "portable/icmp_listener.rs")]
mod icmp_listener;
#[cfg_attr(not(target_os = "linux"), path = "portable/index.rs")]
mod index;
#[cfg(target_os = "linux")]
pub mod interface;
#[cfg(target_os = "linux")]
pub mod interface_address;
#[cfg(target_os = "linux")]
pub mod listener;
#[cfg(target_os = "linux")]
pub mod low_latency;
#[cfg(target_os = "linux")]
mod messages;
#[cfg(target_os = "linux")]
pub mod namespace;
#[cfg(target_os = "linux")]
mod netlink;
#[cfg(target_os = "linux")]
pub mod nftables;
#[cfg(target_os = "linux")]
pub mod offloads;
#[cfg(target_os = "linux")]
mod option;
pub mod pacing;
#[cfg(target_os = "linux")]
pub mod packet_socket;
pub mod platform;
#[cfg(target_os = "linux")]
pub mod policy_routing;
mod poll;
pub mod portable;
#[cfg(target_os = "linux")]
pub mod privileges;
#[cfg(target_os = "linux")]
pub mod readiness;
#[cfg(target_os = "linux")]
mod resolved_host;
#[cfg(target_os = "linux")]
pub mod responder;
#[cfg(target_os = "linux")]
mod ring;
#[cfg(target_os = "linux")]
pub mod route_watch;
#[cfg(target_os = "linux")]
pub mod sandbox;
mod scoped_address;
#[cfg(target_os = "linux")]
mod segment_coalescing;
mod setup;
#[cfg(target_os = "linux")]
pub mod stamp;
#[cfg_attr(not(target_os = "linux"), path = "portable/sysctl.rs")]
pub mod sysctl;
mod system_facts;
#[cfg(target_os = "linux")]
pub mod tcp;
#[cfg(target_os = "linux")]
pub mod tun;
#[cfg(target_os = "linux")]
pub mod udp;
mod udp_socket;
#[cfg(target_os = "linux")]
pub mod waker;

#[cfg(target_os = "linux")]
pub use binding::is_own_address;
pub use binding::{SocketBinding, is_address_gone};
#[cfg(target_os = "linux")]
pub use echo::{EchoReply, EchoSocket};
pub use family::Family;
pub use host_claim::{HostClaim, HostClaimError, HostClaimHolder};
pub use icmp_errors::{IcmpError, next_icmp_error, report_icmp_errors};
pub use icmp_listener::IcmpListener;
#[cfg(target_os = "linux")]
pub use resolved_host::ResolvedHost;
pub use scoped_address::{ScopedAddress, ScopedAddressError};
pub use setup::SetupError;

/// Its example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
