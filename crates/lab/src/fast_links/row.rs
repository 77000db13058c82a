use super::scenario::FastLinkPoint;
use crate::atlas::FaultKind;
use kumade_measurement::report::DirectionReport;
use kumade_probe_train::Estimate;
use kumade_sim::atlas::{EstimateError, EstimateFault};
use kumade_units::Rate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One measurement of one fast link. Rates count IP packets.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FastLinkRow {
    /// The bottleneck's rate.
    pub bottleneck_bits_per_second: Rate,
    /// Of all devices.
    pub mtu_bytes: u16,
    /// Mean rate that the cross traffic was set to.
    pub cross_bits_per_second: Rate,
    /// What carried the trains.
    pub transport: String,
    /// Counted from 1 for each combination of the fields above.
    pub run: u32,
    /// What this machine carried on that link of bursts that were sent at a tenth more than its rate, before the measurements.
    pub carried_bits_per_second: Rate,
    /// The bottleneck's rate, to packets of the trains' size, less the cross traffic that was sent meanwhile.
    pub truth_bits_per_second: Rate,
    /// The estimate of the available bandwidth; null if there is none.
    pub available_bits_per_second: Option<Estimate<Rate>>,
    /// A lower bound; null if there is none.
    pub at_least_bits_per_second: Option<Rate>,
    /// An upper bound; null if there is none.
    pub at_most_bits_per_second: Option<Rate>,
    /// Why there is no more than a bound, in the words of kumade.measure; null if there is no bound.
    pub limited_by: Option<String>,
    /// Why there is no value; null if there is one.
    pub reason: Option<String>,
    /// |value − truth| as a part of the truth; null without a value.
    pub error_ratio: Option<f64>,
    /// Whether the interval contains the truth; null without a value.
    pub covers_truth: Option<bool>,
    /// The statement that is wrong with confidence; null if there is none.
    pub fault: Option<FaultKind>,
    /// The measurement's warnings.
    pub warnings: Vec<String>,
    /// IP bytes sent.
    pub bytes_sent: u64,
    /// From the first train to the result.
    pub duration_seconds: f64,
    /// How often it was repeated because the emulated link had been late.
    pub repeats: u32,
    /// Whether the last repetition was disturbed as well: it shows this machine, not the link, and is not judged.
    pub disturbed: bool,
}

impl FastLinkRow {
    /// A machine that carries less than this part of a link's rate is the limit itself.
    const MIN_CARRIED_PART: f64 = 0.98;

    /// Of a report, or the reason why there is none.
    pub(super) fn new(
        point: &FastLinkPoint,
        carried: Rate,
        truth: Rate,
        report: Result<DirectionReport, String>,
    ) -> Self {
        let mut row = FastLinkRow {
            bottleneck_bits_per_second: point.path.rate,
            mtu_bytes: point.path.mtu,
            cross_bits_per_second: point.cross,
            transport: point.transport.word().to_owned(),
            run: point.run,
            carried_bits_per_second: carried,
            truth_bits_per_second: truth,
            ..FastLinkRow::default()
        };
        match report {
            Ok(report) => row.fill_result(report),
            Err(reason) => row.reason = Some(reason),
        }
        row
    }

    fn fill_result(&mut self, report: DirectionReport) {
        let truth = self.truth_bits_per_second;
        let judgement = |found: Estimate<Rate>| EstimateError::compare(&found, truth, self.bottleneck_bits_per_second);
        let judgement = report.available_bits_per_second.map(judgement);
        let bounds = (report.at_least_bits_per_second, report.at_most_bits_per_second);
        let fault =
            judgement.map_or_else(|| EstimateFault::compare_bounds(bounds.0, bounds.1, truth), |judged| judged.fault());
        let (bytes, seconds) =
            report.capacity.as_ref().map_or((0, 0.0), |capacity| (capacity.bytes_sent, capacity.duration_seconds));
        self.available_bits_per_second = report.available_bits_per_second;
        (self.at_least_bits_per_second, self.at_most_bits_per_second) = bounds;
        self.limited_by = report.limited_by;
        self.reason = report.reason.map(String::from);
        let error = |found: Estimate<Rate>| (found.value.as_f64() / truth.as_f64() - 1.0).abs();
        self.error_ratio = report.available_bits_per_second.map(error);
        self.covers_truth = judgement.map(|judged| judged.covers_truth);
        self.fault = fault.map(FaultKind::from);
        self.warnings = report.warnings.into_iter().map(String::from).collect();
        self.bytes_sent = report.bytes_sent + bytes;
        self.duration_seconds = report.duration_seconds + seconds;
    }

    /// Whether this machine does not carry the link's rate, whoever sends.
    pub fn is_beyond_machine(&self) -> bool {
        self.carried_bits_per_second.as_f64() < Self::MIN_CARRIED_PART * self.bottleneck_bits_per_second.as_f64()
    }

    /// Whether the report says that the sender was the limit.
    pub fn is_limited_by_sender(&self) -> bool {
        self.limited_by.as_deref() == Some("sender")
    }
}
