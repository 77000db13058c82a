use super::report::MonitorMeshReport;
use super::runner::{MeshRunSettings, run};
use super::scenario::MonitorMeshExperiment;
use crate::error::RunError;
use crate::report::{ReportDocument, Statement};
use crate::study::{AnyScenario, Head, Observer, ReportWithRuns, RunRecord, Scenario};
use kumade_units::Span;

/// It is one run with many rows, which may be seen while it lasts, and no study.
impl AnyScenario for MonitorMeshExperiment {
    fn head(&self) -> Head<'_> {
        Scenario::head(self)
    }

    fn run_count(&self) -> usize {
        self.measurement_count()
    }

    fn expected_time(&self) -> String {
        let (sites, period, duration) = (self.sites.len(), self.period, self.duration);
        format!("{sites} sites, each measured to each other every {period}, for {duration}")
    }

    /// It ends at once.
    fn longest_run(&self) -> Option<Span> {
        None
    }

    fn is_divisible(&self) -> bool {
        false
    }

    fn check_statements(&self, statements: &[Statement]) -> Result<(), String> {
        MonitorMeshReport::new(self, String::new(), Vec::new()).check_statements(statements)
    }

    /// What was seen of it before it was interrupted is of no use to another run.
    fn run(
        &self,
        record: &mut RunRecord,
        observer: &mut Observer<'_>,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<(ReportWithRuns, bool), RunError> {
        record.check_complete(self.measurement_count()).map_err(RunError::during("put the runs together"))?;
        let program = std::env::current_exe();
        let program = program.map_err(RunError::during("find this program"))?;
        let (rows, is_whole) = run(self, MeshRunSettings { program, page: None }, observer, stop)?;
        let measured = rows.len();
        let report = MonitorMeshReport::new(self, record.head().started.clone(), rows);
        Ok(((Box::new(report), measured), is_whole))
    }
}
