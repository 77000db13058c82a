#[cfg(target_os = "linux")]
use super::kernel_network::KernelControllers;
#[cfg(target_os = "linux")]
use super::realtime;
use super::report::FairnessReport;
use super::row::FairnessRow;
use super::scenario::{FairnessExperiment, FairnessPoint};
use super::virtual_time;
use crate::error::RunError;
use crate::study::{Outcome, RunOutcome, Study, repeatable_rows};
use kumade_units::Span;

repeatable_rows!(FairnessRow);

/// How long it takes to build a network and to close its connections.
pub(crate) const SETUP_TIME: Span = Span::from_millis(1500);

impl Study for FairnessExperiment {
    type Point<'a> = FairnessPoint<'a>;
    type Row = FairnessRow;
    #[cfg(target_os = "linux")]
    type Testbed = KernelControllers;
    type Report = FairnessReport;

    /// Runs come outermost, so that a disturbance of some minutes spoils one run of many points and not all runs of one.
    fn points(&self) -> Vec<FairnessPoint<'_>> {
        let mut points = Vec::new();
        for run in 1..=self.runs {
            for case in &self.cases {
                let pairs = self.disciplines.iter().zip(&case.queues);
                points.extend(pairs.map(|(discipline, queue)| FairnessPoint { case, discipline, queue, run }));
            }
        }
        points
    }

    fn describe_point(&self, point: &FairnessPoint<'_>) -> String {
        format!("{}, {}", point.discipline, point.case.label)
    }

    fn expected_time(&self) -> String {
        let runs = self.points().len();
        let each = (self.warm_up + self.duration).as_secs_f64();
        if self.virtual_time {
            return format!("{runs} runs of {each:.0} s each in virtual time");
        }
        let minutes = runs as f64 * (each + SETUP_TIME.as_secs_f64()) / 60.0;
        format!("{runs} runs of {each:.0} s each, about {minutes:.0} minutes in total")
    }

    fn longest_run(&self) -> Option<Span> {
        (!self.virtual_time).then(|| self.warm_up + self.duration + SETUP_TIME)
    }

    fn run_virtually(&self, point: &FairnessPoint<'_>) -> Result<FairnessRow, RunError> {
        virtual_time::run(self, point)
    }

    #[cfg(target_os = "linux")]
    fn testbed(&self) -> Result<KernelControllers, RunError> {
        KernelControllers::load_controls(self.cases.iter().flat_map(|case| &case.groups))
    }

    #[cfg(target_os = "linux")]
    fn run_really(
        &self,
        kernel: &mut KernelControllers,
        point: &FairnessPoint<'_>,
    ) -> Result<RunOutcome<FairnessRow>, RunError> {
        realtime::run(kernel, self, point)
    }

    fn report(&self, started: String, outcome: Outcome<FairnessRow>) -> FairnessReport {
        FairnessReport::new(self, started, outcome.rows)
    }
}
