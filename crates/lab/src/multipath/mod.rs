//! Experiments on several paths: one flow between two sites, each with a host behind a gateway, and what the gateways'
//! planes, a single path and Multipath TCP make of it.
//!
//! A [`MultipathExperiment`] consists of [`MultipathCase`]s (sets of paths), each run with several [`Contender`]s and
//! seeds; each run gives a [`MultipathRow`], and the rows a [`MultipathReport`].
//!
//! A new kind of traffic is a variant of [`Workload`] and a file that runs it, beside `transfer.rs`; a new way to divide
//! packets is a variant of [`Plane`].

#[cfg(target_os = "linux")]
mod block_spectrum;
#[cfg(target_os = "linux")]
mod block_sweep;
#[cfg(target_os = "linux")]
mod blocks;
#[cfg(target_os = "linux")]
mod comparison;
#[cfg(target_os = "linux")]
mod contender;
#[cfg(target_os = "linux")]
mod draw;
#[cfg(target_os = "linux")]
mod file;
#[cfg(target_os = "linux")]
mod framing;
#[cfg(target_os = "linux")]
mod gateways;
#[cfg(target_os = "linux")]
mod numbered_packets;
#[cfg(target_os = "linux")]
mod observation;
#[cfg(target_os = "linux")]
mod path_counters;
#[cfg(target_os = "linux")]
mod peer_processes;
mod peer_program;
mod plane;
#[cfg(target_os = "linux")]
mod published;
#[cfg(target_os = "linux")]
mod realtime;
#[cfg(target_os = "linux")]
mod reordering;
#[cfg(target_os = "linux")]
mod report;
#[cfg(target_os = "linux")]
mod row;
#[cfg(target_os = "linux")]
mod scenario;
#[cfg(target_os = "linux")]
mod sparse_flow;
#[cfg(target_os = "linux")]
mod study;
#[cfg(target_os = "linux")]
mod summary;
#[cfg(target_os = "linux")]
mod tcp_stack;
#[cfg(target_os = "linux")]
mod trace;
#[cfg(target_os = "linux")]
mod transfer;
#[cfg(target_os = "linux")]
mod tuning;
#[cfg(target_os = "linux")]
mod udp_flood;
#[cfg(target_os = "linux")]
mod virtual_time;
#[cfg(target_os = "linux")]
mod virtual_tunnel;

#[cfg(target_os = "linux")]
pub use block_sweep::{BlockRange, BlockRate, BlockSweep};
#[cfg(target_os = "linux")]
pub use comparison::{Comparison, ComparisonResult, ContenderFigure};
#[cfg(target_os = "linux")]
pub(crate) use file::check_path;

#[cfg(target_os = "linux")]
pub use contender::{Contender, PathShares};
#[cfg(target_os = "linux")]
pub use observation::MultipathObservation;
pub use peer_program::PeerProgram;
pub use plane::Plane;
#[cfg(target_os = "linux")]
pub use published::PublishedGoodput;
#[cfg(target_os = "linux")]
pub use reordering::Reordering;
#[cfg(target_os = "linux")]
pub use report::MultipathReport;
#[cfg(target_os = "linux")]
pub use row::MultipathRow;
#[cfg(target_os = "linux")]
pub use scenario::{MultipathCase, MultipathExperiment, MultipathPoint, PathOutage, PathSettings, Workload};
#[cfg(target_os = "linux")]
pub use summary::{MultipathSummary, PointSummary};
#[cfg(target_os = "linux")]
pub use tcp_stack::TcpStack;
#[cfg(target_os = "linux")]
pub use trace::{TcpLayer, TraceSegment};
#[cfg(target_os = "linux")]
pub use tuning::{AdaptationPart, HostRto, Tuning};
