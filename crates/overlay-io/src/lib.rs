//! The bonded data plane of gateways and tunnels: packets travel encrypted and numbered over several paths at once, and leave
//! the far end in the order in which they came.
//!
//! Packets for remote networks reach this process by a TUN device. A thread owns it (or a queue of it) and what carries the
//! packets, and drives a [`kumade_multipath::dataplane::Node`]. A path is carried either by a UDP socket, and paced here, or by a TCP
//! connection, which takes what it has room for; each sealed datagram is then a record of the stream ([`kumade_noise_session::stream`]).
//! One end of connections listens for those of all its remotes, the other opens them and opens those again that end. Where either
//! may carry ([`OuterTransportConfig::UdpOrTcp`]), one path is by UDP and the others are connections, of which two stay open while
//! datagrams carry; [`kumade_multipath::TransportSelector`] says which of them take packets. An end that listens takes whatever comes.
//!
//! # Threads
//!
//! Over UDP, packets may be carried by several threads ([`DatagramConfig::threads`]). Each is a shard with a queue of the TUN
//! device and a socket of its own on each path, and each packet passes one of them, from arrival to departure. The kernel leaves
//! a flow on the queue to which its other direction is written, so that a flow stays on a thread. No single flow becomes faster:
//! more threads pay where a gateway has to carry more than one thread does, on a machine with processors to spare.
//!
//! Shard *i* has port + *i* and talks to shard *i* of the other end. One port for all (`SO_REUSEPORT`) would need a program in
//! the kernel that finds the shard in a datagram's header, and each address translator on the way would still have one binding
//! for all: ports of their own are what firewalls, receive-side scaling and load balancing by flow understand. One handshake
//! serves all shards, with sessions that own numbers of paths ([`kumade_noise_session::Session::take_paths`]: the shard in the high four
//! bits, the path in the low four). Each shard numbers and resequences its flows by itself, and its own paths are all that the
//! frontier rule knows.
//!
//! A path is one nevertheless, with one pace and one rate ([`kumade_multipath::SharedPaths`]): a shard that sends takes the next place
//! in it, by single atomic numbers and without a lock. The first shard shakes hands, and tells the others of sessions between
//! two packets. Whether a path passes a shard's datagrams, their greatest length, and where the far end is, each shard finds out
//! by itself: to firewalls, translators and routers its datagrams are a flow of their own. While a shard reaches a remote by no
//! path (the other end has fewer threads, its port is blocked), the first one sends its packets.
//!
//! Connections are all on one thread. If a thread ends, the plane does, with its error.
//!
//! # What is seen of it
//!
//! The [`status`] is what documents, tables and metrics of gateways and tunnels have in common.
#![forbid(unsafe_code)]

mod address_follower;
mod bonded_status;
mod config;
mod connection;
mod connections;
mod datagrams;
mod device_routes;
mod dialer;
mod error;
mod file_values;
mod handover;
mod node;
mod outer_dscp;
mod outer_transports;
mod overhead_watch;
mod overload_limit;
mod own_sockets;
mod plane;
mod policy_routes;
mod receive_turn;
mod restore_schedule;
mod shard;
mod shard_link;
pub mod status;
mod system_watch;

pub use bonded_status::BondedStatus;
pub use config::{
    BondedConfig, BondedRemote, ConnectionConfig, ConnectionRole, ConnectionTuning, DatagramConfig, MAX_THREADS,
    OuterTransportConfig,
};
pub use device_routes::ROUTES_LOCK;
pub use error::BondedError;
pub use file_values::{DEFAULT_DEVICE, parse_outer_dscp, validate_mtu};
pub use handover::Handover;
pub use kumade_multipath::dataplane::{NodeNotice, NoticeContent, RemoteChange};
pub use outer_dscp::{OuterDscp, ParseOuterDscpError};
pub use plane::BondedPlane;
pub use policy_routes::RouteError;

/// Its example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
