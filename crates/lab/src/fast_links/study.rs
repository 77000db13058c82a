use super::realtime::{MeasureOnPath, build_path};
use super::report::FastLinksReport;
use super::row::FastLinkRow;
use super::scenario::{FastLinkPath, FastLinkPoint, FastLinksExperiment};
use crate::error::RunError;
use crate::study::{Outcome, RunOutcome, Study, repeatable_rows};
use anyhow::anyhow;

repeatable_rows!(FastLinkRow);

/// The network that was built last; there is one for each path.
pub struct BuiltPath(Option<(FastLinkPath, MeasureOnPath)>);

impl Study for FastLinksExperiment {
    type Point<'a> = FastLinkPoint;
    type Row = FastLinkRow;
    type Testbed = BuiltPath;
    type Report = FastLinksReport;

    /// By network, load, transport and run.
    fn points(&self) -> Vec<FastLinkPoint> {
        self.paths().into_iter().flat_map(|path| self.points_on(path)).collect()
    }

    fn describe_point(&self, FastLinkPoint { path, transport, .. }: &FastLinkPoint) -> String {
        format!("{}, MTU {}, over {transport}", path.rate, path.mtu)
    }

    fn expected_time(&self) -> String {
        format!("{} measurements of about 1 s in real time, repeated where disturbed", self.points().len())
    }

    fn run_virtually(&self, _: &FastLinkPoint) -> Result<FastLinkRow, RunError> {
        Err(RunError { doing: "run this virtually", cause: anyhow!("fast links are real time") })
    }

    fn testbed(&self) -> Result<BuiltPath, RunError> {
        Ok(BuiltPath(None))
    }

    fn run_really(&self, built: &mut BuiltPath, point: &FastLinkPoint) -> Result<RunOutcome<FastLinkRow>, RunError> {
        // The one before goes before the next is built.
        let kept = built.0.take().filter(|(path, _)| *path == point.path);
        let kept = kept.map_or_else(|| Ok((point.path, build_path(self, point.path)?)), Ok);
        let (_, measure) = built.0.insert(kept?);
        measure(point)
    }

    fn report(&self, started: String, outcome: Outcome<FastLinkRow>) -> FastLinksReport {
        FastLinksReport::new(self, started, outcome.rows)
    }
}
