#[cfg(target_os = "linux")]
use super::realtime;
use super::report::ContentionReport;
use super::row::ContentionRow;
use super::scenario::{ContentionCase, ContentionExperiment, ContentionPoint};
use super::{search, virtual_time};
use crate::error::RunError;
#[cfg(target_os = "linux")]
use crate::fairness::KernelControllers;
use crate::fairness::SETUP_TIME;
use crate::study::parallel::run_in_parallel;
use crate::study::{Observer, Outcome, Progress, RunOutcome, Study, repeatable_rows};
use kumade_units::Span;
use std::collections::BTreeMap;

repeatable_rows!(ContentionRow);

/// No case has as many runs.
const MAX_RUNS_PER_CASE: u32 = 1 << 16;

impl Study for ContentionExperiment {
    type Point<'a> = ContentionPoint<'a>;
    type Row = ContentionRow;
    #[cfg(target_os = "linux")]
    type Testbed = KernelControllers;
    type Report = ContentionReport;

    fn points(&self) -> Vec<ContentionPoint<'_>> {
        let mut points = Vec::new();
        for (index, case) in self.cases.iter().enumerate() {
            for discipline in &case.disciplines {
                points.extend((1..=case.runs).map(|run| {
                    let seed = self.seeds.seeds().seed(index as u32 * MAX_RUNS_PER_CASE + run);
                    ContentionPoint { case, discipline, run, seed }
                }));
            }
        }
        points
    }

    fn run_count(&self) -> usize {
        let searches = self.attack_searches();
        let searched =
            searches.first().map(|first| self.search_run_count() + searches.len() * first.base_case.runs as usize);
        searched.unwrap_or_else(|| self.points().len())
    }

    /// Each part would search for all attackers.
    fn is_divisible(&self) -> bool {
        self.search.is_none()
    }

    fn describe_point(&self, point: &ContentionPoint<'_>) -> String {
        format!("{}, {}", point.discipline, point.case.label)
    }

    fn expected_time(&self) -> String {
        let each = (self.warm_up + self.duration).as_secs_f64();
        let clock = if self.virtual_time { "virtual time" } else { "real time, repeated where disturbed" };
        format!("{} runs of {each:.0} s each in {clock}", self.run_count())
    }

    fn longest_run(&self) -> Option<Span> {
        (!self.virtual_time).then(|| self.warm_up + self.duration + SETUP_TIME)
    }

    /// The worst attackers, in place of the cases' own, where they are to be searched for.
    fn find_points(
        &self,
        observer: &mut Observer<'_>,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<(Self, bool)>, RunError> {
        let Some(search) = self.search else { return Ok(None) };
        let mut cases = BTreeMap::new();
        let mut done = |place: usize, case: ContentionCase| {
            observer(Progress::Done(&format!("found {}", case.label), search.evaluations as usize));
            cases.insert(place, case);
            Ok(())
        };
        let worst = |searched: &_| search::worst_attack(self, search, searched);
        let is_whole = run_in_parallel(&self.attack_searches(), &mut done, stop, &worst)?;
        Ok(Some((ContentionExperiment { cases: cases.into_values().collect(), ..self.clone() }, is_whole)))
    }

    fn run_virtually(&self, point: &ContentionPoint<'_>) -> Result<ContentionRow, RunError> {
        virtual_time::run(self, point)
    }

    #[cfg(target_os = "linux")]
    fn testbed(&self) -> Result<KernelControllers, RunError> {
        KernelControllers::load_controls(self.cases.iter().flat_map(|case| &case.bulk))
    }

    #[cfg(target_os = "linux")]
    fn run_really(
        &self,
        kernel: &mut KernelControllers,
        point: &ContentionPoint<'_>,
    ) -> Result<RunOutcome<ContentionRow>, RunError> {
        realtime::run(kernel, self, point)
    }

    fn report(&self, started: String, outcome: Outcome<ContentionRow>) -> ContentionReport {
        ContentionReport::new(self, started, outcome.rows)
    }
}
