//! Experiments on several paths: one flow between two sites, each with a host behind a gateway, and what the gateways'
//! planes, a single path and Multipath TCP make of it.
//!
//! A [`MultipathExperiment`] consists of [`MultipathCase`]s (sets of paths), each run with several [`Contender`]s and
//! seeds on a [`MultipathTestbed`]; each run gives a [`MultipathRow`], and the rows a [`MultipathReport`].
//!
//! A new kind of traffic is a variant of [`Workload`] and a file that runs it, beside `transfer.rs`; a new way to divide
//! packets is a variant of [`Plane`].

mod block_sweep;
mod blocks;
mod comparison;
mod contender;
mod framing;
mod gateways;
mod numbered_packets;
mod observation;
mod path_counters;
mod peer_processes;
mod peer_program;
mod plane;
mod published;
mod realtime;
mod reordering;
mod report;
mod row;
mod runner;
mod scenario;
mod sparse_flow;
mod summary;
mod tcp_stack;
mod testbed;
mod trace;
mod transfer;
mod tuning;
mod udp_flood;
mod virtual_time;
mod virtual_tunnel;

pub use block_sweep::{BlockRate, BlockSweep};
pub use comparison::{Comparison, ComparisonResult, ContenderFigure};
pub use contender::{Contender, PathShares};
pub use observation::MultipathObservation;
pub use peer_program::PeerProgram;
pub use plane::Plane;
pub use published::PublishedGoodput;
pub use realtime::RealTime;
pub use reordering::Reordering;
pub use report::MultipathReport;
pub use row::MultipathRow;
pub use runner::{MultipathProgress, expected_time, run};
pub use scenario::{MultipathCase, MultipathExperiment, MultipathPoint, PathOutage, PathSettings, Workload};
pub use summary::{MultipathSummary, PointSummary};
pub use tcp_stack::TcpStack;
pub use testbed::{MultipathAttempt, MultipathTestbed};
pub use trace::{TcpLayer, TraceSegment};
pub use tuning::{AdaptationPart, Tuning};
pub use virtual_time::VirtualTime;

/// Where an experiment is made: in real or in virtual time.
pub fn new_testbed(experiment: &MultipathExperiment) -> Box<dyn MultipathTestbed> {
    if experiment.virtual_time { Box::new(VirtualTime) } else { Box::new(RealTime) }
}
