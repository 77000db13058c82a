//! What many trains say together.

use super::sample::{TrainPart, VaryingTrainSample};
use crate::stats::{self, quantile, random, standard_deviation, student_t_95};
use kumade_probe_train::Estimate;
use kumade_units::Rate;

/// Of the bootstrap (Efron, 1979).
const REPLICATES: usize = 400;
/// By this part of what the link carries at least, values are uncertain to either side: trains span so many turns only.
const MIN_RELATIVE_HALF_WIDTH: f64 = 0.02;
/// Cross traffic gives way if the link seems to carry this part more at the end of trains, …
const MIN_YIELDED_PART: f64 = 0.1;
/// … of so many at least.
const MIN_YIELD_TRAINS: usize = 6;

/// A reading, and how many seconds it stands for.
pub(super) type WeightedSample = (f64, VaryingTrainSample);

/// What many trains say, in bit/s.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct VaryingLinkFit {
    /// Mean of what the link carried.
    pub(super) carried: f64,
    /// Rate of the cross traffic.
    pub(super) cross_rate: f64,
    /// Mean of what was available; below zero where the cross traffic was more than the link carried.
    pub(super) available: f64,
}

/// What a link left on average while its rate varied.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VaryingLink {
    /// The mean of what was available.
    pub available: Estimate<Rate>,
    /// The standard deviation of what the link carried, from train to train.
    pub spread: Rate,
    /// What it carried at the least, and at the most, during one train.
    pub carried: (Rate, Rate),
    /// The rate of the cross traffic, as far as it shares the queue of the trains.
    pub cross_rate: Rate,
    /// Trains that tell.
    pub trains: u32,
    /// Whether cross traffic gave way to trains while these lasted, so that the mean over a train is not what is available.
    pub cross_traffic_yields: bool,
    /// Whether packets were dropped though no queue was full, as a policer does: what arrived of whole trains does not last.
    pub is_policed: bool,
}

impl VaryingLinkFit {
    /// None where the trains do not tell of cross traffic.
    pub(super) fn fit_samples(readings: &[WeightedSample]) -> Option<Self> {
        // What the link carried is the same for both parts of a train, but for chance.
        let rates = weighted_mean(readings, |reading| reading.parts.map(|(fast, slow)| fast.rate() - slow.rate()))?;
        let ratios = weighted_mean(readings, |reading| reading.parts.map(|(fast, slow)| slow.ratio() - fast.ratio()))?;
        let rate = weighted_mean(readings, |reading| Some(reading.whole_train.rate()))?;
        let ratio = weighted_mean(readings, |reading| Some(reading.whole_train.ratio()))?;
        (ratios > 0.0).then(|| {
            let cross = (rates / ratios).max(0.0);
            let carried = rate + cross * ratio;
            VaryingLinkFit { carried, cross_rate: cross, available: carried - cross }
        })
    }
}

impl VaryingLink {
    pub(super) fn from_samples(readings: &[WeightedSample], is_policed: bool, seed: u64) -> Option<Self> {
        let fit = VaryingLinkFit::fit_samples(readings).filter(|fit| fit.available > 0.0)?;
        let (mut state, count) = (seed, readings.len());
        let mut drawn = || readings[(random(&mut state) * count as f64) as usize];
        let replicates: Vec<f64> = (0..REPLICATES)
            .filter_map(|_| VaryingLinkFit::fit_samples(&(0..count).map(|_| drawn()).collect::<Vec<_>>()))
            .map(|fit| fit.available)
            .collect();
        // Few trains know their own scatter badly.
        let wider = (count as f64 / (count as f64 - 1.0)).sqrt() * student_t_95(count) / 1.96;
        let least = MIN_RELATIVE_HALF_WIDTH * fit.carried;
        let away = |part: f64| quantile(&replicates, part).map(|end| (end - fit.available) * wider);
        let (low, high) = (fit.available + away(0.025)?.min(-least), fit.available + away(0.975)?.max(least));
        let carried =
            |(_, reading): &WeightedSample| reading.whole_train.rate() + fit.cross_rate * reading.whole_train.ratio();
        let carried: Vec<f64> = readings.iter().map(carried).collect();
        let rate = |rate: f64| Rate::from_f64(rate.max(0.0));
        let (slowest, fastest) = (quantile(&carried, 0.0)?, quantile(&carried, 1.0)?);
        Some(VaryingLink {
            available: Estimate { value: rate(fit.available), low: rate(low), high: rate(high), confidence: 0.95 },
            spread: rate(standard_deviation(&carried)),
            carried: (rate(slowest), rate(fastest)),
            cross_rate: rate(fit.cross_rate),
            trains: count as u32,
            cross_traffic_yields: cross_traffic_yields(readings, &fit),
            is_policed,
        })
    }
}

/// Whether the link seems to have carried more in the second half of slow parts than in the first one, by the same cross traffic: then there
/// was less of it.
fn cross_traffic_yields(readings: &[WeightedSample], fit: &VaryingLinkFit) -> bool {
    let carried = |part: TrainPart| part.rate() + fit.cross_rate * part.ratio();
    let more: Vec<f64> = readings
        .iter()
        .filter_map(|(_, reading)| reading.halves.map(|(first, second)| carried(second) - carried(first)))
        .map(|more| more / fit.carried)
        .collect();
    let error = standard_deviation(&more) / (more.len().max(1) as f64).sqrt();
    more.len() >= MIN_YIELD_TRAINS && stats::mean(&more) > MIN_YIELDED_PART.max(student_t_95(more.len()) * error)
}

/// Of a value over the time that its readings stand for; none where no reading has one.
fn weighted_mean(readings: &[WeightedSample], value: impl Fn(&VaryingTrainSample) -> Option<f64>) -> Option<f64> {
    let valued = readings.iter().filter_map(|(weight, reading)| Some((weight, value(reading)?)));
    let (sum, weights) =
        valued.fold((0.0, 0.0), |(sum, weights), (weight, value)| (sum + weight * value, weights + weight));
    (weights > 0.0).then(|| sum / weights)
}
