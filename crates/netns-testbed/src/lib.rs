//! Hosts in network namespaces, joined by emulated links, and traffic between them: the lab's testbeds, and an ordinary
//! dev-dependency of every crate whose tests need a network.
//!
//! | to build | use |
//! | --- | --- |
//! | a bottleneck that this process emulates between any number of hosts | [`Network`] of a [`NetworkSpec`] |
//! | the same by the kernel's shapers, as an outside reference | [`HtbNetwork`] |
//! | either, by what they have in common | [`ExperimentNetwork`] |
//! | a bottleneck of gigabits per second, emulated or by the kernel's HTB | [`FastNetwork`], [`FastHtb`], which are [`FastFabric`]s |
//! | two sites, each with a host behind a gateway, joined by several paths | [`Sites`] |
//! | hosts of which each two have a path, behind links of their own | [`StarNetwork`] |
//! | two hosts, and a third one in the middle for what is to be tested | [`VethHosts`] |
//! | a proxy that ends TCP connections on the way | [`TcpProxy`] |
//! | two bottlenecks with such a proxy between them | [`ProxiedNetwork`] |
//! | traffic between hosts, and a count of it | [`Traffic`], [`DepartureMeter`] |
//! | what arrives at a host, packet by packet | [`ArrivalRecorder`], with [`NumberedPackets`] |
//! | how long a packet takes to a host and back, beside other traffic | [`UdpEcho`] |
//! | a time server with a wrong clock | [`ReferenceClock`] |
//!
//! [`in_namespaces`] runs a test where it may build a network, as root or in a user namespace. Everything ends when its
//! value is dropped. Real time is never exact: a test waits for a condition with [`eventually`].
#![forbid(unsafe_code)]

mod count;
mod device;
mod directed_link;
mod fabric;
mod fast_fabric;
mod fast_htb;
mod fast_network;
mod htb;
mod iproute2;
mod kernel_link;
mod kernel_middlebox;
mod kernel_stamps;
mod namespaces;
mod network;
mod proxied_network;
mod reference_clock;
mod routed_hosts;
mod sites;
mod star;
mod tcp_proxy;
mod traffic;
mod veth_hosts;

pub use directed_link::{Lateness, MAX_UNDISTURBED_LATENESS, RECORD_LENGTH, WaitHistogram};
pub use fabric::ExperimentNetwork;
pub use fast_fabric::FastFabric;
pub use fast_htb::{BurstCrossTraffic, FastHtb};
pub use fast_network::FastNetwork;
pub use htb::{HtbNetwork, RouterSide};
pub use iproute2::{add_veth, run_ip, wait_for_cables};
pub use kernel_link::{
    drop_commands, htb_burst_bytes, htb_class_command, htb_commands, policer_commands, shaper_root, tbf_command,
};
pub use kernel_stamps::keep_receive_stamps_on;
pub use namespaces::{TEST_DEADLINE, eventually, in_namespaces};
pub use network::{AccessSpec, Host, HostSpec, Network, NetworkError, NetworkSpec, VerifiedLink};
pub use proxied_network::ProxiedNetwork;
pub use reference_clock::ReferenceClock;
pub use sites::{PathLinks, Sites};
pub use star::{StarHostSpec, StarNetwork};
pub use tcp_proxy::{ProxyFaults, TcpProxy};
pub use traffic::{
    ArrivalRecorder, BlockWrites, DepartureMeter, EchoedPackets, NumberedPackets, PacketContent, RecordedPacket,
    TcpEnds, Traffic, UdpEcho, received_packets, retransmitted_segments,
};
pub use veth_hosts::VethHosts;

/// Its example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
