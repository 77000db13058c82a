use super::row::MultipathRow;
use super::scenario::{MultipathExperiment, MultipathPoint};
use crate::error::RunError;
use kumade_units::Span;

/// Where experiments on several paths are made: the runner does not know whether its clock is real.
pub trait MultipathTestbed {
    /// Builds the paths of `point`, runs its traffic, and removes them.
    ///
    /// # Errors
    /// Where the testbed itself failed, so that no further run makes sense.
    fn run(
        &mut self,
        experiment: &MultipathExperiment,
        point: &MultipathPoint<'_>,
    ) -> Result<MultipathAttempt, RunError>;
}

/// One run, and how host scheduling delay disturbed it.
#[derive(Debug, Clone, PartialEq)]
pub struct MultipathAttempt {
    /// The result.
    pub row: MultipathRow,
    /// 99th percentile of the delay behind schedule of delivered packets, on the path where it was greatest.
    pub lateness: Span,
    /// Packets that were lost because the lab read them too late.
    pub missed_packets: u64,
}
