//! Experiments on several paths: one flow between two sites, each with a host behind a gateway, and what the gateways'
//! planes, a single path and Multipath TCP make of it.
//!
//! A [`MultipathExperiment`] consists of [`MultipathCase`]s (sets of paths), each run with several [`Contender`]s and
//! seeds; each run gives a [`MultipathRow`], and the rows a [`MultipathReport`].
//!
//! A new kind of traffic is a variant of [`Workload`] and a file that runs it, beside `transfer.rs`; a new way to divide
//! packets is a variant of [`Plane`].

mod block_spectrum;
mod block_sweep;
mod blocks;
mod comparison;
mod contender;
mod draw;
mod file;
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
mod scenario;
mod sparse_flow;
mod study;
mod summary;
mod tcp_stack;
mod trace;
mod transfer;
mod tuning;
mod udp_flood;
mod virtual_time;
mod virtual_tunnel;

pub use block_sweep::{BlockRange, BlockRate, BlockSweep};
pub use comparison::{Comparison, ComparisonResult, ContenderFigure};
pub(crate) use file::check_path;

pub use contender::{Contender, PathShares};
pub use observation::MultipathObservation;
pub use peer_program::PeerProgram;
pub use plane::Plane;
pub use published::PublishedGoodput;
pub use reordering::Reordering;
pub use report::MultipathReport;
pub use row::MultipathRow;
pub use scenario::{MultipathCase, MultipathExperiment, MultipathPoint, PathOutage, PathSettings, Workload};
pub use summary::{MultipathSummary, PointSummary};
pub use tcp_stack::TcpStack;
pub use trace::{TcpLayer, TraceSegment};
pub use tuning::{AdaptationPart, HostRto, Tuning};
