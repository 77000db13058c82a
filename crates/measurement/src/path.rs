//! What the path does to packets: ECN, DSCP, hop limits, sizes, TCP's options, addresses and ports.
//!
//! [`MarkProbe`] decides which marked packets are sent and what their fate means; [`PathFacts`] is what the kernels of both ends know without
//! a packet more. [`MarkingProbe`] fills the queue of the narrow link for moments, to see which packets it marks,
//! [`LastingQueueProbe`] for a second, [`QueueClassProbe`] to see which have a queue of their own. [`TraceProbe`] has the routers on the way answer, [`PortsProbe`] tries ports, [`IdleTimeoutProbe`] looks for the time after which
//! idle flows are forgotten. [`report_path`] puts all together.

mod dscp;
mod ecn;
mod facts;
mod fisher;
mod hop_limit;
mod icmp;
mod idle_timeouts;
mod lasting_queue;
mod mapping;
mod marking;
mod marking_threshold;
mod marks;
mod nat;
mod overload;
mod pie;
mod ports;
mod queue_classes;
mod report;
mod syn;
mod tcp;
mod trace;
mod trace_changes;
mod trace_paths;

pub(crate) use facts::PathFacts;
pub use facts::{MappingFacts, SynProbeFacts, SynProbeKind, TcpEndFacts, TcpFacts, UdpFacts, UnsolicitedFacts};
pub(crate) use idle_timeouts::IdleTimeoutProbe;
pub use idle_timeouts::{FlowKind, IdleFlowResult, IdleRound};
pub(crate) use lasting_queue::LastingQueueProbe;
pub(crate) use marking::MarkingProbe;
pub(crate) use marks::MarkProbe;
pub(crate) use overload::QueueFillingProbe;
pub(crate) use ports::PortsProbe;
pub use ports::{PortRound, PortRoundRecord, PortTarget, PortTry, PortTryAnswer, UnopenedPort};
pub(crate) use queue_classes::QueueClassProbe;
pub(crate) use report::{PathObservation, report_path, routers_towards};
pub(crate) use trace::{TraceProbe, TraceStep};
