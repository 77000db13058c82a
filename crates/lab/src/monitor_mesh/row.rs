use super::status::{FigureReading, PairReading, RunReading};
use kumade_units::{Rate, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One measurement of the monitor in one direction, beside the truth.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MeshRow {
    /// The site from which.
    pub from: String,
    /// The site to which.
    pub to: String,
    /// When the measurement began: seconds since 1970 (UTC).
    pub started_seconds: f64,
    /// How long it took.
    pub duration_seconds: f64,
    /// What was available meanwhile.
    pub truth_bits_per_second: Rate,
    /// The estimate; null if there is none.
    pub available_bits_per_second: Option<Rate>,
    /// Lower end of its interval.
    pub available_low_bits_per_second: Option<Rate>,
    /// Upper end.
    pub available_high_bits_per_second: Option<Rate>,
    /// Why there is no value; null if there is one.
    pub reason: Option<String>,
    /// |value − truth| as a part of the truth; null without a value.
    pub error_ratio: Option<f64>,
    /// Whether the interval contains the truth; null without a value.
    pub covers_truth: Option<bool>,
    /// The links' delays, there and back.
    pub base_round_trip_seconds: f64,
    /// The median that light probes found in the 15 minutes before; null without any.
    pub round_trip_seconds: Option<f64>,
    /// The part of light probes that was lost in that time, in either direction; null without any.
    pub loss_ratio: Option<f64>,
    /// Whether the emulated links were late meanwhile: it shows this machine, not the links, and is not judged.
    pub disturbed: bool,
}

/// What is known of a direction besides the monitor.
#[derive(Debug, Clone, Copy)]
pub(super) struct DirectionTruth {
    pub(super) available: Rate,
    pub(super) base_round_trip: Span,
    pub(super) disturbed: bool,
}

impl MeshRow {
    pub(super) fn new(
        [from, to]: [&str; 2],
        pair: &PairReading,
        run: &RunReading,
        figure: Option<&FigureReading>,
        truth: DirectionTruth,
    ) -> Self {
        let rate = |read: fn(&FigureReading) -> Option<f64>| figure.and_then(read).map(Rate::from_f64);
        let (value, low, high) = (rate(|figure| figure.value), rate(|figure| figure.low), rate(|figure| figure.high));
        let available = truth.available;
        let reason = figure.and_then(|figure| figure.reason.clone()).or_else(|| run.error.clone());
        MeshRow {
            from: from.to_owned(),
            to: to.to_owned(),
            started_seconds: run.start_seconds,
            duration_seconds: run.duration_seconds,
            truth_bits_per_second: available,
            available_bits_per_second: value,
            available_low_bits_per_second: low,
            available_high_bits_per_second: high,
            reason: if value.is_some() { None } else { Some(reason.unwrap_or_else(|| "it failed".to_owned())) },
            error_ratio: value.map(|value| (value.as_f64() / available.as_f64() - 1.0).abs()),
            covers_truth: low.zip(high).map(|(low, high)| (low..=high).contains(&available)),
            base_round_trip_seconds: truth.base_round_trip.as_secs_f64(),
            round_trip_seconds: pair.round_trip_seconds(),
            loss_ratio: pair.loss.as_ref().map(|loss| loss.ratio),
            disturbed: truth.disturbed,
        }
    }
}
