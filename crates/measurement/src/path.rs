//! What the path does to packets: ECN, DSCP, hop limits, sizes, TCP's options, addresses and ports.
//!
//! [`MarkProbe`] decides which marked packets are sent and what their fate means; [`PathFacts`] is what the kernels of both ends know without
//! a packet more. [`report_path`] puts both together.

mod dscp;
mod ecn;
mod facts;
mod fisher;
mod hop_limit;
mod marks;
mod nat;
mod report;
mod syn;
mod tcp;

pub(crate) use facts::PathFacts;
pub use facts::{SynProbeFacts, SynProbeKind, TcpEndFacts, TcpFacts, UdpFacts};
pub(crate) use marks::MarkProbe;
pub(crate) use report::{PathObservation, report_path};
