use super::report::NatSessionReport;
use super::row::NatSessionRow;
use super::scenario::{NatPoint, NatSessionExperiment};
use super::{realtime, virtual_time};
use crate::error::RunError;
use crate::study::{Outcome, RunOutcome, Study, describe_time, repeatable_rows};
use kumade_units::Span;

repeatable_rows!(NatSessionRow);

/// How long it takes to build the sites, and until the gateways have met.
const SETUP_TIME: Span = Span::from_secs(3);

impl Study for NatSessionExperiment {
    type Point<'a> = NatPoint<'a>;
    type Row = NatSessionRow;
    type Testbed = ();
    type Report = NatSessionReport;

    /// Runs come outermost, so that a disturbance of some minutes spoils one run of many points and not all runs of one.
    fn points(&self) -> Vec<NatPoint<'_>> {
        (1..=self.runs).flat_map(|run| self.cases.iter().map(move |case| NatPoint { case, run })).collect()
    }

    fn describe_point(&self, point: &NatPoint<'_>) -> String {
        point.case.label.clone()
    }

    fn expected_time(&self) -> String {
        let points = self.points();
        let seconds: f64 = points.iter().map(|point| self.run_duration(point.case).as_secs_f64()).sum();
        describe_time(points.len(), seconds, self.virtual_time, SETUP_TIME)
    }

    fn longest_run(&self) -> Option<Span> {
        let longest = self.points().iter().map(|point| self.run_duration(point.case)).max();
        longest.filter(|_| !self.virtual_time).map(|longest| longest + SETUP_TIME)
    }

    fn run_virtually(&self, point: &NatPoint<'_>) -> Result<NatSessionRow, RunError> {
        Ok(virtual_time::run(self, point))
    }

    fn testbed(&self) -> Result<(), RunError> {
        Ok(())
    }

    fn run_really(&self, (): &mut (), point: &NatPoint<'_>) -> Result<RunOutcome<NatSessionRow>, RunError> {
        realtime::run(self, point)
    }

    fn report(&self, started: String, outcome: Outcome<NatSessionRow>) -> NatSessionReport {
        NatSessionReport::new(self, started, outcome.rows)
    }
}
