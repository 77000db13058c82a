//! The bonded data plane of gateways and tunnels: packets travel encrypted and numbered over several paths at once, and leave
//! the far end in the order in which they came.
//!
//! Packets for remote networks reach this process by a TUN device. One thread owns it and what carries the packets, and
//! drives a [`dataplane::Node`]. A path is carried either by a UDP socket, and paced here, or by a TCP connection, which takes
//! what it has room for; each sealed datagram is then a record of the stream ([`secure::stream`]). One end of connections
//! listens for those of all its remotes, the other opens them and opens those again that end.
//!
//! # Threads
//!
//! All packets of a gateway pass on one thread, from arrival to departure. A flow has to stay on one thread in any case, so that
//! more threads make no single flow faster.
//!
//! What more of them would look like, for many flows: shard *i* has queue *i* of the TUN device and a socket of its own on
//! each path (port + *i*), so that shard *i* of one gateway talks to shard *i* of the other, and the kernel leaves a flow on the
//! queue to which its other direction is written. Keys are ready for that: one handshake, and sessions that own numbers of
//! paths ([`secure::Session::take_paths`]: the shard in the high four bits, the path in the low four). Each shard numbers and
//! resequences its flows by itself, and each (shard, path) is a path of its own to the frontier rule.
//!
//! What stands in the way is that a path is one: [`multipath::Bond`] paces it, and learns from all that it carries how
//! fast. Bonds that do not know of each other would each take the others' packets for cross traffic, and together fill the
//! queue that each of them keeps empty. Either one bond decides for all shards, and every packet passes its thread; or
//! shards get their parts of each path's pace from one that sums up what they have sent and seen, a few hundred times per
//! second. The latter is the one to build, and pays where a gateway has to carry more than one thread does, on a machine with
//! more processors than a gateway of that speed keeps busy otherwise.
#![forbid(unsafe_code)]

mod carriers;
mod config;
mod connection;
mod connections;
mod datagrams;
mod dialer;
mod error;
mod handover;
mod node;
mod path_routes;
mod plane;
mod shard;
mod status;

pub use config::{
    BondedConfig, BondedRemote, CarrierConfig, ConnectionConfig, ConnectionRole, ConnectionTuning, DatagramConfig,
};
pub use error::BondedError;
pub use handover::Handover;
pub use path_routes::RouteError;
pub use plane::BondedPlane;
pub use status::BondedStatus;
