//! What the path does to packets: ECN, DSCP, hop limits, sizes, TCP's options, addresses and ports.
//!
//! [`MarkProbe`] decides which marked packets are sent and what their fate means; [`PathFacts`] is what the kernels of both ends know without
//! a packet more. [`TraceProbe`] has the routers on the way answer. [`report_path`] puts all together.

mod dscp;
mod ecn;
mod facts;
mod fisher;
mod hop_limit;
mod icmp;
mod mapping;
mod marks;
mod nat;
mod report;
mod syn;
mod tcp;
mod trace;

pub(crate) use facts::PathFacts;
pub use facts::{MappingFacts, SynProbeFacts, SynProbeKind, TcpEndFacts, TcpFacts, UdpFacts, UnsolicitedFacts};
pub(crate) use marks::MarkProbe;
pub(crate) use report::{PathObservation, report_path, routers_up};
pub use syn::syn_source;
pub(crate) use trace::{TraceProbe, TraceStep};
