use super::draw::KernelPath;
use super::realtime;
use super::report::KernelPathsReport;
use super::row::KernelPathRow;
use super::scenario::{KernelPathKind, KernelPathPoint, KernelPaths};
use crate::error::RunError;
use crate::study::{CheckedKind, Exclusion, Outcome, RunOutcome, Study, repeatable_rows};
use anyhow::anyhow;

repeatable_rows!(KernelPathRow);

impl Study for KernelPaths {
    type Point<'a> = KernelPathPoint;
    type Row = KernelPathRow;
    type Testbed = CheckedKind<KernelPathKind>;
    type Report = KernelPathsReport;

    /// By kind, path and transport.
    fn points(&self) -> Vec<KernelPathPoint> {
        let of_path =
            |kind, seed| self.transports.iter().map(move |&transport| KernelPathPoint { kind, seed, transport });
        let of_kind = |kind| (0..u64::from(self.runs)).flat_map(move |run| of_path(kind, self.seed.wrapping_add(run)));
        self.kinds.iter().copied().flat_map(of_kind).collect()
    }

    fn describe_point(&self, KernelPathPoint { kind, seed, transport }: &KernelPathPoint) -> String {
        format!("{} of seed {seed} over {transport}", kind.name())
    }

    fn expected_time(&self) -> String {
        format!("{} measurements of 3 to 10 s in real time", self.points().len())
    }

    fn run_virtually(&self, _: &KernelPathPoint) -> Result<KernelPathRow, RunError> {
        Err(RunError { doing: "run this virtually", cause: anyhow!("the kernel's shapers are real time") })
    }

    fn testbed(&self) -> Result<CheckedKind<KernelPathKind>, RunError> {
        Ok(CheckedKind::default())
    }

    fn missing_requirement(
        &self,
        checked: &mut CheckedKind<KernelPathKind>,
        point: &KernelPathPoint,
    ) -> Option<Exclusion> {
        let build = || realtime::build_network(&KernelPath::new(point.kind, point.seed));
        let reason = checked.missing_requirement(point.kind, build)?;
        Some(Exclusion { kind: point.kind.name(), reason })
    }

    fn run_really(
        &self,
        _: &mut CheckedKind<KernelPathKind>,
        point: &KernelPathPoint,
    ) -> Result<RunOutcome<KernelPathRow>, RunError> {
        realtime::measure(point)
    }

    fn excluded_by_failure(&self, point: &KernelPathPoint, error: &RunError) -> Option<Exclusion> {
        Some(Exclusion { kind: self.describe_point(point), reason: error.to_string() })
    }

    fn report(&self, started: String, outcome: Outcome<KernelPathRow>) -> KernelPathsReport {
        KernelPathsReport::new(self, started, outcome)
    }
}
