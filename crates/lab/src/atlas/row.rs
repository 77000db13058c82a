use super::scenario::AtlasPoint;
use kumade_probe_train::Estimate;
use kumade_sim::atlas::{AtlasMeasurement, DrawnPath, EstimateFault, PathResult};
use kumade_units::Rate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One measurement of one path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AtlasRow {
    /// The kind of the path.
    pub kind: String,
    /// What carried the trains.
    pub transport: String,
    /// The path's seed: it draws the same path again.
    pub seed: u64,
    /// What the path carries in the long run without cross traffic.
    pub sustained_bits_per_second: Rate,
    /// The rate of its link, at which bursts pass.
    pub link_bits_per_second: Option<Rate>,
    /// The burst of its policer or shaper; null if there is none.
    pub burst_bytes: Option<u64>,
    /// Mean rate of the cross traffic that does not react.
    pub cross_bits_per_second: Rate,
    /// Flows of cross traffic.
    pub cross_flows: u32,
    /// What was available while it was measured.
    pub truth_bits_per_second: Rate,
    /// What one more flow could have; null without flow queueing.
    pub truth_fair_share_bits_per_second: Option<Rate>,
    /// The estimate of the available bandwidth; null if there is none.
    pub available_bits_per_second: Option<Estimate<Rate>>,
    /// The estimate of the fair share of one flow; null if there is none.
    pub fair_share_bits_per_second: Option<Estimate<Rate>>,
    /// A lower bound; null if there is none.
    pub at_least_bits_per_second: Option<Rate>,
    /// An upper bound; null if there is none.
    pub at_most_bits_per_second: Option<Rate>,
    /// Why there is no value; null if there is one.
    pub reason: Option<String>,
    /// Whether a policer was reported.
    pub policed: bool,
    /// The committed rate of a policer or shaper, as measured; null if none was.
    pub committed_bits_per_second: Option<Estimate<Rate>>,
    /// Bytes of the longest train that passed at about the value.
    pub sustained_bytes: Option<u64>,
    /// The statement that is wrong with confidence; null if there is none.
    pub fault: Option<FaultKind>,
    /// IP bytes sent.
    pub bytes_sent: u64,
    /// From the first train to the result.
    pub duration_seconds: f64,
    /// How often it was repeated because host scheduling delay had disturbed it; 0 in virtual time.
    #[serde(default)]
    pub repeats: u32,
    /// Whether the last repetition was disturbed as well.
    #[serde(default)]
    pub disturbed: bool,
}

/// A statement that is wrong with confidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[serde(rename = "FaultWord")]
pub enum FaultKind {
    /// The interval misses the truth by more than 5 % of it.
    Value,
    /// More is said to be available at least than there is, by more than 5 %.
    LowerBound,
    /// Less is said to be available at most than there is, by more than 5 %.
    UpperBound,
}

impl From<EstimateFault> for FaultKind {
    fn from(fault: EstimateFault) -> Self {
        match fault {
            EstimateFault::Value => FaultKind::Value,
            EstimateFault::LowerBound => FaultKind::LowerBound,
            EstimateFault::UpperBound => FaultKind::UpperBound,
        }
    }
}

impl AtlasRow {
    pub(super) fn new(point: &AtlasPoint, path: &DrawnPath, measured: &AtlasMeasurement, verdict: &PathResult) -> Self {
        let (report, truth) = (&measured.report, measured.truth);
        let capacity = report.capacity.as_ref();
        let policer = capacity.and_then(|capacity| capacity.policer);
        let shaper = capacity.and_then(|capacity| capacity.shaper);
        AtlasRow {
            kind: point.kind.name().to_owned(),
            transport: point.transport.word().to_owned(),
            seed: path.seed,
            sustained_bits_per_second: path.sustained_rate,
            link_bits_per_second: path.hops.first().and_then(|hop| hop.link.rate),
            burst_bytes: path.token_bucket.map(|bucket| bucket.burst_bytes),
            cross_bits_per_second: path.cross_rate,
            cross_flows: path.cross_flows,
            truth_bits_per_second: truth.available,
            truth_fair_share_bits_per_second: truth.fair_share,
            available_bits_per_second: report.available_bits_per_second,
            fair_share_bits_per_second: report.fair_share_bits_per_second,
            at_least_bits_per_second: report.at_least_bits_per_second,
            at_most_bits_per_second: report.at_most_bits_per_second,
            reason: report.reason.as_ref().map(ToString::to_string),
            policed: policer.is_some(),
            committed_bits_per_second: policer
                .and_then(|policer| policer.rate_bits_per_second)
                .or(shaper.map(|shaper| shaper.committed_rate)),
            sustained_bytes: report.sustained_bytes,
            fault: verdict.fault.map(FaultKind::from),
            bytes_sent: verdict.bytes,
            duration_seconds: verdict.seconds,
            repeats: 0,
            disturbed: false,
        }
    }
}
