use super::draw::KernelPath;
use super::realtime;
use super::report::KernelPathsReport;
use super::row::KernelPathRow;
use super::scenario::{KernelPathKind, KernelPathPoint, KernelPaths};
use crate::error::RunError;
use crate::study::{Exclusion, Outcome, RunOutcome, Study, repeatable_rows};
use anyhow::anyhow;
use kumade_netns_testbed::NetworkError;

repeatable_rows!(KernelPathRow);

/// The kind of path that was built last, and what this machine lacks for it.
#[derive(Debug, Default)]
pub struct CheckedKernelKind(Option<(KernelPathKind, Option<String>)>);

impl Study for KernelPaths {
    type Point<'a> = KernelPathPoint;
    type Row = KernelPathRow;
    type Testbed = CheckedKernelKind;
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

    fn testbed(&self) -> Result<CheckedKernelKind, RunError> {
        Ok(CheckedKernelKind::default())
    }

    fn missing_requirement(&self, checked: &mut CheckedKernelKind, point: &KernelPathPoint) -> Option<Exclusion> {
        if checked.0.as_ref().is_none_or(|(kind, _)| *kind != point.kind) {
            let missing = match realtime::build_network(&KernelPath::new(point.kind, point.seed)) {
                Err(NetworkError::NoShaper(error)) => Some(error.to_string()),
                Ok(_) | Err(_) => None,
            };
            checked.0 = Some((point.kind, missing));
        }
        let reason = checked.0.as_ref()?.1.clone()?;
        Some(Exclusion { kind: point.kind.name(), reason })
    }

    fn run_really(
        &self,
        _: &mut CheckedKernelKind,
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
