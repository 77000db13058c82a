//! Several paths between two gateways as one: which path takes the next packet, how each path does, and in which order
//! packets come out at the far end.
//!
//! Nothing here sends or receives. A gateway that sends asks for a path for each packet and numbers it; one that receives
//! hands over what arrived, and is told what to deliver. The [`dataplane`] adds addresses and encryption: IP packets become sealed
//! datagrams, and come back. Sockets are the caller's.
//!
//! **Loop contract.** Times come in with each call and never go back. Hand over each packet and each event when it
//! happened; then drain what came of it; then sleep until the earliest deadline that is told, or the next event. Nothing
//! happens between calls.
#![forbid(unsafe_code)]

mod bond;
mod congestion_control;
pub mod dataplane;
mod header_contexts;
mod large_packets;
mod loss_repair;
pub mod measured;
pub mod message;
pub mod nat_session;
mod outer_transport;
mod path;
mod path_health;
mod predecessor;
pub mod resequencer;
mod scheduler;
mod sequencer;
mod tcp_over_tcp_tuning;

pub use bond::config::BondConfig;
pub use bond::outgoing::{Divide, FirstSegment, OutgoingPacket, Transmission};
pub use bond::{Bond, MergePackets, PathEvent, ReadPayloadFn, Shorten};
pub use header_contexts::{HeaderCompression, SAVED_ACKNOWLEDGMENT_BYTES, SAVED_DATAGRAM_BYTES, SAVED_SEGMENT_BYTES};
pub use large_packets::MAX_LARGE_PACKET_BYTES;
pub use loss_repair::missing::{MissingDatagrams, MissingReport};
pub use outer_transport::in_flight_control::StreamDelivery;
pub use outer_transport::kind::OuterTransport;
pub use outer_transport::selector::{TransportSample, TransportSelector};
pub use outer_transport::stream_writer::{StreamWriter, TcpSenderState};
pub use path::id::PathId;
pub use path::mtu::{MtuProbe, PathMtuDiscovery};
pub use path::report::{PathReceiver, PathReport};
pub use path::shared_set::SharedPaths;
pub use path::state::{MAX_UNREPORTED_DATAGRAMS, PathConfig, PathStatus};
pub use path_health::health::PathState;
pub use predecessor::Predecessor;
pub use resequencer::{ArrivedData, DelayRange, Resequencer, ResequencerConfig, ResequencerStatistics, WaitStatistics};
pub use scheduler::path_scheduler::{PathEstimate, PathScheduler, PathSet, best_path_set, expected_rate};
pub use scheduler::policy::{PathPolicy, ShareUnit, TrafficClass, UnorderedFlows};
pub use sequencer::{Assignment, Sequencer};
pub use tcp_over_tcp_tuning::TcpOverTcpTuning;

/// Its example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
