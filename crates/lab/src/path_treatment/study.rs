#[cfg(target_os = "linux")]
use super::realtime;
use super::report::PathTreatmentReport;
use super::row::TreatmentRow;
use super::scenario::{PathTreatmentExperiment, TreatmentPoint};
use crate::error::RunError;
use crate::study::{Exclusion, Outcome, RunOutcome, Study, repeatable_rows};
use anyhow::anyhow;

repeatable_rows!(TreatmentRow);

impl Study for PathTreatmentExperiment {
    type Point<'a> = TreatmentPoint<'a>;
    type Row = TreatmentRow;
    #[cfg(target_os = "linux")]
    type Testbed = ();
    type Report = PathTreatmentReport;

    /// By case and run.
    fn points(&self) -> Vec<TreatmentPoint<'_>> {
        self.cases.iter().flat_map(|case| (1..=self.runs).map(move |run| TreatmentPoint { case, run })).collect()
    }

    fn describe_point(&self, TreatmentPoint { case, .. }: &TreatmentPoint<'_>) -> String {
        format!("{}, {}", case.label, case.version.word())
    }

    fn expected_time(&self) -> String {
        format!("{} measurements of some seconds in real time", self.points().len())
    }

    fn run_virtually(&self, _: &TreatmentPoint<'_>) -> Result<TreatmentRow, RunError> {
        Err(RunError { doing: "run this virtually", cause: anyhow!("what is done to real packets is real time") })
    }

    #[cfg(target_os = "linux")]
    fn testbed(&self) -> Result<(), RunError> {
        Ok(())
    }

    #[cfg(target_os = "linux")]
    fn missing_requirement(&self, _: &mut (), point: &TreatmentPoint<'_>) -> Option<Exclusion> {
        realtime::missing_requirement(self.bottleneck, point.case)
    }

    #[cfg(target_os = "linux")]
    fn run_really(&self, _: &mut (), point: &TreatmentPoint<'_>) -> Result<RunOutcome<TreatmentRow>, RunError> {
        realtime::measure(self, point)
    }

    fn report(&self, started: String, outcome: Outcome<TreatmentRow>) -> PathTreatmentReport {
        PathTreatmentReport::new(self, started, outcome)
    }
}
