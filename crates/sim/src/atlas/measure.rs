//! A measurement of a drawn path, as `kumade measure` makes it.

use super::draw::DrawnPath;
use super::truth::PathTruth;
use crate::elastic::FlowImpact;
use crate::run::VirtualPaths;
use kumade_estimate::MethodSettings;
use kumade_evidence::EvidenceCollector;
use kumade_link::Medium;
use kumade_measurement::report::DirectionReport;
use kumade_measurement::{Directions, Event, Failure, Measurement, MeasurementPlan, TransportChoice};
use kumade_probe_train::Transport;
use kumade_units::{ConfigError, Direction, Rate};
use thiserror::Error;

/// What was measured of a path, and what was true.
#[derive(Debug, Clone, PartialEq)]
pub struct AtlasMeasurement {
    /// The direction that is measured.
    pub report: DirectionReport,
    /// While trains were sent to measure what is available.
    pub truth: PathTruth,
    /// What that did to TCP connections, where these are the cross traffic.
    pub impact: Option<FlowImpact>,
}

/// Why there is no result.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MeasureError {
    /// A setting of the path is out of range.
    #[error(transparent)]
    Path(#[from] ConfigError),
    /// The measurement ended without a report.
    #[error("the measurement ended without a report: {0:?}")]
    Measurement(Failure),
    /// The report has not the direction that was asked for.
    #[error("the report does not have the direction that was measured")]
    NoDirection,
}

impl DrawnPath {
    /// Measures its capacity and what is available, over this transport, by this method.
    ///
    /// # Errors
    /// The path cannot be made or not be measured, which no path of the atlas brings about over a transport that it
    /// [passes](super::PathKind::can_carry).
    pub fn measure(&self, transport: Transport, method: &MethodSettings) -> Result<AtlasMeasurement, MeasureError> {
        self.measure_with_facts(transport, method).map(|(measured, _)| measured)
    }

    /// The same, with the facts of the method's trains. Where connections take several links, trains of one of them say nothing of the others: there
    /// are none.
    ///
    /// # Errors
    /// As those of [`measure`](Self::measure).
    pub fn measure_with_facts(
        &self,
        transport: Transport,
        method: &MethodSettings,
    ) -> Result<(AtlasMeasurement, EvidenceCollector), MeasureError> {
        let mut paths = VirtualPaths {
            up: self.build()?,
            down: self.build_return_path()?,
            passes_udp: self.kind.can_carry(Transport::Udp),
        };
        let started = paths.up.now();
        let plan = MeasurementPlan {
            directions: Directions::Up,
            transport: TransportChoice::Fixed(transport),
            method: method.clone(),
            seed: self.seed,
            ..MeasurementPlan::default()
        };
        let mut facts = EvidenceCollector::default();
        let mut collect = |event: &Event| {
            if let Event::Train { train, record, .. } = event {
                facts.add_train(record, train);
            }
        };
        let measured =
            paths.measure(Measurement::new(plan, paths.session()), &mut collect).map_err(MeasureError::Measurement)?;
        facts.set_idle_delays(&measured.idle_delays[Direction::Up as usize]);
        let report = measured.report.up.ok_or(MeasureError::NoDirection)?;
        if report.load_balancing.is_some() {
            facts = EvidenceCollector::default();
        }
        let expected = || {
            let mean = Rate::from_f64(self.sustained_rate.as_f64() - self.cross_rate.as_f64());
            if self.elastic_flows.is_empty() { mean } else { paths.up.true_available(started, paths.up.now()) }
        };
        let carried = match (&self.hops[0].link.medium, measured.windows[0]) {
            (Some(Medium::Schedule(schedule)), Some((from, to))) => schedule.mean_rate(from, to),
            _ => self.sustained_rate,
        };
        let truth = PathTruth::new(self, measured.truth[0].unwrap_or_else(expected), carried);
        let truth = match measured.windows[0].filter(|_| self.has_ecmp_links) {
            Some((from, to)) => {
                truth.over_ecmp_links(&paths.up.true_available_per_link(from, to), transport, paths.up.link_of_flow(0))
            }
            None => truth,
        };
        Ok((AtlasMeasurement { report, truth, impact: paths.up.elastic_impact() }, facts))
    }
}
