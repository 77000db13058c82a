//! What a gateway does between IP packets of hosts and sealed datagrams on several paths. A tunnel is the same with one
//! path.
//!
//! A [`Node`] knows its peers by their keys ([`kumade_noise_session`]), and which networks each of them has. A packet goes to the peer that
//! has its destination, waits in that peer's queue discipline until a path has room ([`crate::Bond`]), is numbered and
//! sealed. A datagram is opened, put in its order ([`crate::Resequencer`]), and its packet delivered, if its source is
//! in a network of the peer that sealed it.
//!
//! Nothing here sends or receives: the same code runs over sockets and under a virtual clock.
//!
//! # Loop contract
//!
//! Times come in with each call and never go back. Hand over packets of hosts ([`Node::send`]) and datagrams
//! ([`Node::receive`]) as they arrive; then call [`Node::drain`], and transmit and deliver all that it returns; then sleep
//! until [`Node::deadline`] or the next arrival.
//!
//! # Paths
//!
//! A path has the same number at both of its ends, and a datagram is answered on the path by which it came. Each node says
//! by which address a peer is reached on a path, or waits until the peer writes first. An authentic datagram from elsewhere
//! moves the path's far end there, so that a peer behind address translation, or with a new address, is followed. What carries
//! a path, datagrams or a connection, is seen from what comes, too: an end that listens need not know what the peer uses.
//!
//! # Lengths of packets
//!
//! The MTU of each path is discovered ([`crate::PathMtuDiscovery`]). A packet that is too long for a path takes another one; for
//! one that is too long for all of them, its host gets an ICMP error. TCP connections are kept from that: the maximum
//! segment size that their ends announce is lowered, both ways, to what all paths pass.
//!
//! # Congestion marks
//!
//! A datagram has the ECN field of its packet (RFC 6040 §4.1, normal mode: every peer that speaks this protocol
//! decapsulates as §4.2 has it), and what a queue on the path has marked arrives as a mark of the packet. A full queue of
//! this node marks packets of ECN-capable transports, too, before it drops them (RFC 3168).
//!
//! # Shards
//!
//! A node may have several shards, each for a thread with a queue of the hosts' device and sockets of its own. A flow is one
//! shard's, which numbers, seals and delivers by itself; it talks to the shard of the same number at the other end. The shards
//! share the pace of each path ([`crate::SharedPaths`]), and the sessions, of which each has the counters of its own paths.
//! The first one shakes hands. Whether a path passes its datagrams, how long they may be and where the peer is, each shard
//! finds out for itself, since to the network its datagrams are a flow of their own. While none of its paths passes any, the
//! first one sends its packets.
//!
//! # Restarts
//!
//! Packets are numbered from the start of a peer's life on, across changes of keys. When a handshake shows that the peer
//! has restarted, both ends begin anew: queued packets are lost, learnt rates are kept.

mod agenda;
mod config;
mod handshakes;
mod networks;
mod node;
mod notice;
mod outer_headers;
mod packet_buffer;
mod path_mtus;
mod remote;
mod shard_message;
mod statistics;

pub use config::{NodeConfig, NodeError, RemoteConfig};
pub use node::{Node, Outbound, Output, Received};
pub use notice::{NodeNotice, NoticeContent, RemoteChange};
pub use outer_headers::OuterHeaders;
pub use packet_buffer::{HEADROOM_BYTES, OVERHEAD_BYTES, PacketBuffer};
pub use shard_message::{MAX_SHARDS, ShardMessage, ShardSeed};
pub use statistics::{NodeStatistics, RemotePath, RemoteStatus};

/// Its example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
