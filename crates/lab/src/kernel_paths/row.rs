use super::judgement::{KernelPathTruth, PathVerdict, judge_report};
use super::scenario::KernelPathPoint;
use kumade_measurement::report::DirectionReport;
use kumade_probe_train::Estimate;
use kumade_units::Rate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One measurement of one path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KernelPathRow {
    /// The kind of the path.
    pub kind: String,
    /// What carried the trains.
    pub transport: String,
    /// Draws the same path again.
    pub seed: u64,
    /// What the shapers sustain, in the order of the way up.
    pub rates_bits_per_second: Vec<Rate>,
    /// What else was sent through each while it was measured.
    pub cross_bits_per_second: Vec<Rate>,
    /// What was available in the time that the value is an average over (`window_start_seconds` and `window_seconds` of the report);
    /// without a value, while the method's trains passed.
    pub truth_bits_per_second: Rate,
    /// What was available during the whole measurement.
    pub whole_truth_bits_per_second: Rate,
    /// What one more flow could have; null where flows share a queue.
    pub truth_fair_share_bits_per_second: Option<Rate>,
    /// The estimate of the available bandwidth; null if there is none.
    pub available_bits_per_second: Option<Estimate<Rate>>,
    /// The estimate of the fair share; null if there is none.
    pub fair_share_bits_per_second: Option<Estimate<Rate>>,
    /// The estimate of the capacity; null if there is none.
    pub capacity_bits_per_second: Option<Estimate<Rate>>,
    /// A lower bound; null if there is none.
    pub at_least_bits_per_second: Option<Rate>,
    /// An upper bound; null if there is none.
    pub at_most_bits_per_second: Option<Rate>,
    /// Why there is no value; null if there is one.
    pub reason: Option<String>,
    /// Whether the report is right.
    pub verdict: PathVerdict,
    /// Whether it would be, if it spoke of the whole measurement.
    pub whole_verdict: PathVerdict,
    /// The statement that is wrong, with the report in one line; null if there is none.
    pub fault: Option<String>,
    /// Bytes of the longest train that passed at about the value.
    pub sustained_bytes: Option<u64>,
    /// IP bytes sent.
    pub bytes_sent: u64,
    /// Duration of the whole measurement.
    pub duration_seconds: f64,
    /// The machine's mean number of running programs in the minute before; null if that is unknown.
    pub load_average: Option<f64>,
    /// How often it was repeated: never.
    pub repeats: u32,
    /// Whether it was disturbed: that is not known.
    pub disturbed: bool,
}

/// What was measured, and under which circumstances.
pub(super) struct KernelPathMeasurement {
    /// Or why there is none.
    pub(super) report: Result<DirectionReport, String>,
    pub(super) truth: KernelPathTruth,
    pub(super) whole_truth: Rate,
    pub(super) rates: Vec<Rate>,
    pub(super) cross: Vec<Rate>,
    pub(super) seconds: f64,
    pub(super) load_average: Option<f64>,
}

impl KernelPathRow {
    pub(super) fn new(point: &KernelPathPoint, measured: KernelPathMeasurement) -> Self {
        let KernelPathMeasurement { report, truth, whole_truth, rates, cross, seconds, load_average } = measured;
        let report = report.as_ref();
        let judge = |truth| report.map_or((PathVerdict::Failed, None), |report| judge_report(report, &truth));
        let (verdict, fault) = judge(truth);
        let (whole_verdict, _) = judge(KernelPathTruth { available: whole_truth, ..truth });
        let found = report.ok();
        let capacity = found.and_then(|report| report.capacity.as_ref());
        KernelPathRow {
            kind: point.kind.name(),
            transport: point.transport.word().to_owned(),
            seed: point.seed,
            rates_bits_per_second: rates,
            cross_bits_per_second: cross,
            truth_bits_per_second: truth.available,
            whole_truth_bits_per_second: whole_truth,
            truth_fair_share_bits_per_second: truth.fair_share,
            available_bits_per_second: found.and_then(|report| report.available_bits_per_second),
            fair_share_bits_per_second: found.and_then(|report| report.fair_share_bits_per_second),
            capacity_bits_per_second: capacity.and_then(|capacity| capacity.bottleneck_bits_per_second),
            at_least_bits_per_second: found.and_then(|report| report.at_least_bits_per_second),
            at_most_bits_per_second: found.and_then(|report| report.at_most_bits_per_second),
            reason: report
                .map_or_else(|error| Some(error.clone()), |report| report.reason.as_ref().map(ToString::to_string)),
            verdict,
            whole_verdict,
            fault,
            sustained_bytes: found.and_then(|report| report.sustained_bytes),
            bytes_sent: found.map_or(0, |report| report.bytes_sent)
                + capacity.map_or(0, |capacity| capacity.bytes_sent),
            duration_seconds: seconds,
            load_average,
            repeats: 0,
            disturbed: false,
        }
    }
}
