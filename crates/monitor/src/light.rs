//! Light probes: single small packets, all day, by which delay and loss of the idle path are known.

mod prober;
mod session;
mod socket;
mod target_address;

pub use prober::{PausedProber, ProbeReport, ProbedTarget, Prober};
pub use session::{OneWayDelays, ProbeReply, ProbeResult, ReplyLimits};
pub use socket::ProbeKind;
