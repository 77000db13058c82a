use super::experiment::AccuracyExperiment;
#[cfg(target_os = "linux")]
use super::realtime::RealTime;
use super::report::Report;
use super::row::Row;
use super::scenario::{AccuracyPoint, AccuracyScenario};
use super::virtual_time;
use crate::error::RunError;
use crate::study::{Exclusion, Outcome, RunOutcome, Study, repeatable_rows};

repeatable_rows!(Row);

impl Study for AccuracyExperiment {
    type Point<'a> = (&'a AccuracyScenario, AccuracyPoint);
    type Row = Row;
    #[cfg(target_os = "linux")]
    type Testbed = RealTime;
    type Report = Report;

    const MAX_REPEATS: u32 = 3;

    fn points(&self) -> Vec<(&AccuracyScenario, AccuracyPoint)> {
        let points = |scenario| AccuracyScenario::points(scenario).into_iter().map(move |point| (scenario, point));
        self.scenarios.iter().flat_map(points).collect()
    }

    fn describe_point(&self, (_, point): &(&AccuracyScenario, AccuracyPoint)) -> String {
        format!("{} {}, cross {}", point.transport, point.method, point.cross)
    }

    fn expected_time(&self) -> String {
        format!("{} runs", self.points().len())
    }

    fn exclusions(&self) -> Vec<Exclusion> {
        let tcp = || Exclusion { kind: "TCP cross traffic".into(), reason: "it requires real time".into() };
        self.excludes_tcp.then(tcp).into_iter().collect()
    }

    fn run_virtually(&self, (scenario, point): &(&AccuracyScenario, AccuracyPoint)) -> Result<Row, RunError> {
        virtual_time::measure(scenario, point)
    }

    #[cfg(target_os = "linux")]
    fn testbed(&self) -> Result<RealTime, RunError> {
        RealTime::from_scenario(self.scenarios.first().unwrap_or(&self.base_scenario))
    }

    #[cfg(target_os = "linux")]
    fn run_really(
        &self,
        testbed: &mut RealTime,
        (scenario, point): &(&AccuracyScenario, AccuracyPoint),
    ) -> Result<RunOutcome<Row>, RunError> {
        testbed.measure(scenario, point)
    }

    fn report(&self, started: String, outcome: Outcome<Row>) -> Report {
        Report::new(self, started, outcome.rows)
    }
}
