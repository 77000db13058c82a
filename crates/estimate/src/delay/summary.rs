use super::feasible_lines::MAX_SKEW_RATIO;
use super::model::{ClockModel, DelayRange};
use crate::stats::quantile;
use kumade_probe_train::Estimate;
use kumade_units::{Direction, Span};

/// The delays of one direction. Each figure is the most likely one if the path is symmetric, with the least and the
/// greatest that it may be (confidence 1: a bound, not a probability).
#[derive(Debug, Clone, PartialEq)]
pub struct Delays {
    /// Packets that went into the figures.
    pub packets: u32,
    /// The least.
    pub minimum: Estimate<Span>,
    /// Half of the packets took no longer.
    pub median: Estimate<Span>,
    /// 95 % of the packets took no longer.
    pub percentile_95: Estimate<Span>,
    /// 99 % of the packets took no longer.
    pub percentile_99: Estimate<Span>,
    /// Packet delay variation (RFC 5481, 4.2: delay less the least delay) of which 95 % of the packets had no more.
    pub variation_95: Span,
    /// The same for 99 %.
    pub variation_99: Span,
}

impl ClockModel {
    /// The delays of those packets of one direction that `choose` takes, by their places in what the model was made from;
    /// none where none has a place between the clocks' steps.
    pub fn delays(&self, direction: Direction, choose: impl Fn(usize) -> bool) -> Option<Delays> {
        summarise(self.delay_ranges(direction, choose).into_iter().map(|placed| placed.delays))
    }
}

impl ClockModel {
    /// Round trips of a packet that `up` chooses and one that `down` chooses, each with each: as if the peer had answered at
    /// once. Other than one-way delays they do not depend on the clocks' offset, only on how it changed between the two.
    pub fn round_trips(&self, up: impl Fn(usize) -> bool, down: impl Fn(usize) -> bool) -> Option<Delays> {
        let [up, down] = [
            sample_evenly(self.delay_ranges(Direction::Up, up)),
            sample_evenly(self.delay_ranges(Direction::Down, down)),
        ];
        summarise(up.iter().flat_map(|up| down.iter().map(|down| round_trip_range(up, down))))
    }
}

/// Delays as quantiles, so that there are not too many.
fn sample_evenly(mut placed: Vec<DelayRange>) -> Vec<DelayRange> {
    if placed.len() <= MAX_PAIRED_PACKETS {
        return placed;
    }
    placed.sort_by(|one, other| one.delays[0].total_cmp(&other.delays[0]));
    let at = |i: usize| placed[i * (placed.len() - 1) / (MAX_PAIRED_PACKETS - 1)];
    (0..MAX_PAIRED_PACKETS).map(at).collect()
}

/// The round trip of two packets: most likely, least, greatest.
fn round_trip_range(up: &DelayRange, down: &DelayRange) -> [f64; 3] {
    let likely = up.delays[0] + down.delays[0];
    if up.piece_index != down.piece_index {
        return [likely, up.delays[1] + down.delays[1], up.delays[2] + down.delays[2]];
    }
    let (between, change) = (MAX_SKEW_RATIO * (down.far_time - up.far_time).abs(), down.offset - up.offset);
    // What the clocks' rates make of so short a time is left out.
    let late = up.stamp_lateness + down.stamp_lateness;
    [likely, likely - change - between, likely - change + between + late]
}

/// Maximum number of delays of one direction that are joined with those of the other.
const MAX_PAIRED_PACKETS: usize = 256;

/// A round trip by one clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundTrip {
    /// From when it was sent to when its answer came, without the time that the other end took.
    pub delay: Span,
    /// The same from when it was [submitted](super::OneWaySample::submitted): it took no longer.
    pub max_delay: Span,
}

/// The same figures of round trips. None of nothing.
pub fn round_trips(delays: &[RoundTrip]) -> Option<Delays> {
    let bounds = |trip: &RoundTrip| [trip.delay, trip.delay, trip.max_delay].map(Span::as_secs_f64);
    summarise(delays.iter().map(bounds))
}

/// Of each packet's most likely, least and greatest delay, in seconds.
fn summarise(delays: impl Iterator<Item = [f64; 3]>) -> Option<Delays> {
    // No packet arrives before it was sent.
    let delays: Vec<[f64; 3]> = delays.map(|delay| delay.map(|seconds| seconds.max(0.0))).collect();
    let column = |i: usize| delays.iter().map(|delay| delay[i]).collect::<Vec<f64>>();
    let [likely, least, most] = [column(0), column(1), column(2)];
    let at = |share: f64| {
        let value = quantile(&likely, share)?;
        let (low, high) = (quantile(&least, share)?, quantile(&most, share)?);
        let [value, low, high] = [value.clamp(low, high), low, high].map(Span::from_secs_f64);
        Some(Estimate { value, low, high, confidence: 1.0 })
    };
    let minimum = at(0.0)?;
    let (percentile_95, percentile_99) = (at(0.95)?, at(0.99)?);
    Some(Delays {
        packets: u32::try_from(delays.len()).unwrap_or(u32::MAX),
        minimum,
        median: at(0.5)?,
        percentile_95,
        percentile_99,
        variation_95: percentile_95.value - minimum.value,
        variation_99: percentile_99.value - minimum.value,
    })
}
