#[cfg(target_os = "linux")]
use super::realtime;
use super::report::PathAtlasReport;
use super::row::AtlasRow;
use super::scenario::{AtlasPoint, PathAtlas};
use crate::error::RunError;
#[cfg(target_os = "linux")]
use crate::study::CheckedKind;
use crate::study::{Exclusion, Outcome, RunOutcome, RunRow, Study};
use kumade_estimate::MethodSettings;
#[cfg(target_os = "linux")]
use kumade_sim::atlas::PathKind;
use kumade_sim::atlas::PathResult;

impl RunRow for (AtlasRow, PathResult) {
    fn set_repetition(&mut self, repeats: u32, disturbed: bool) {
        (self.0.repeats, self.0.disturbed) = (repeats, disturbed);
    }
}

/// Kinds that cannot be built in real time, or not on this machine, are left out, and so are transports that a kind does not pass, and
/// single paths in real time that the system refuses after it has built others.
impl Study for PathAtlas {
    type Point<'a> = AtlasPoint;
    type Row = (AtlasRow, PathResult);
    #[cfg(target_os = "linux")]
    type Testbed = CheckedKind<PathKind>;
    type Report = PathAtlasReport;

    fn points(&self) -> Vec<AtlasPoint> {
        self.points_of_all_kinds()
    }

    fn describe_point(&self, point: &AtlasPoint) -> String {
        format!("{} over {}", point.kind, point.transport)
    }

    fn expected_time(&self) -> String {
        let clock =
            if self.is_virtual() { "in virtual time" } else { "of 4 to 20 s in real time, repeated where disturbed" };
        format!("{} measurements {clock}", self.points().len())
    }

    fn exclusions(&self) -> Vec<Exclusion> {
        self.excluded_kinds()
    }

    fn run_virtually(&self, point: &AtlasPoint) -> Result<Self::Row, RunError> {
        let path = self.path(point);
        let measured = path.measure(point.transport.full_measurement_transport()?, &MethodSettings::default());
        let measured = measured.map_err(RunError::during("measure a path of the atlas"))?;
        let verdict = PathResult::evaluate(&path, &measured);
        Ok((AtlasRow::new(point, &path, &measured, &verdict), verdict))
    }

    #[cfg(target_os = "linux")]
    fn testbed(&self) -> Result<CheckedKind<PathKind>, RunError> {
        Ok(CheckedKind::default())
    }

    #[cfg(target_os = "linux")]
    fn missing_requirement(&self, checked: &mut CheckedKind<PathKind>, point: &AtlasPoint) -> Option<Exclusion> {
        let build = || realtime::build_network(&self.path(point), self.bottleneck);
        let reason = checked.missing_requirement(point.kind, build)?;
        Some(Exclusion { kind: point.kind.name().to_owned(), reason })
    }

    #[cfg(target_os = "linux")]
    fn run_really(&self, _: &mut CheckedKind<PathKind>, point: &AtlasPoint) -> Result<RunOutcome<Self::Row>, RunError> {
        realtime::measure(self, &self.path(point), point, point.transport.full_measurement_transport()?)
    }

    fn excluded_by_failure(&self, point: &AtlasPoint, error: &RunError) -> Option<Exclusion> {
        let AtlasPoint { kind, transport, .. } = point;
        let seed = self.path(point).seed;
        Some(Exclusion { kind: format!("{kind} over {}, seed {seed},", transport.word()), reason: error.to_string() })
    }

    fn report(&self, started: String, outcome: Outcome<Self::Row>) -> PathAtlasReport {
        PathAtlasReport::new(self, started, outcome)
    }
}
