//! What many trains say together.

use super::reading::Reading;
use crate::stats::{quantile, random, standard_deviation, student_t_95};
use train::Estimate;
use units::Rate;

const REPLICATES: usize = 400;

/// What many trains say, in bit/s.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Fit {
    /// Mean of what the link carried.
    pub(super) carried: f64,
    /// Rate of the cross traffic.
    pub(super) cross: f64,
    /// Mean of what was available.
    pub(super) available: f64,
}

/// What the link left on average while its rate varied.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Varying {
    /// The mean of what was available.
    pub available: Estimate<Rate>,
    /// The standard deviation of what the link carried, from train to train.
    pub spread: Rate,
    /// What it carried at the least, and at the most.
    pub carried: (Rate, Rate),
    /// Trains that tell.
    pub trains: u32,
}

impl Fit {
    /// None where the trains do not tell of cross traffic.
    pub(super) fn of(readings: &[(f64, Reading)]) -> Option<Self> {
        let of = |value: &dyn Fn(&Reading) -> Option<f64>| {
            let (sum, weights) = readings
                .iter()
                .filter_map(|(weight, reading)| Some((weight * value(reading)?, weight)))
                .fold((0.0, 0.0), |(sum, weights), (value, weight)| (sum + value, weights + weight));
            if weights > 0.0 { sum / weights } else { 0.0 }
        };
        // What the link carries is the same for both parts of a train, but for chance.
        let rates = of(&|reading| reading.parts.map(|(fast, slow)| fast.rate() - slow.rate()));
        let ratios = of(&|reading| reading.parts.map(|(fast, slow)| slow.ratio() - fast.ratio()));
        let rate = of(&|reading| Some(reading.whole.rate()));
        let ratio = of(&|reading| Some(reading.whole.ratio()));
        if readings.is_empty() || ratios <= 0.0 {
            return None;
        }
        // No more than the link carries, of which the trains have had their part.
        let cross = (rates / ratios).max(-super::tune("NEG", 0.0)*rate);
        let carried = rate + cross * ratio;
        Some(Fit { carried, cross, available: carried - cross })
    }
}
impl Varying {
    pub(super) fn of(readings: &[(f64, Reading)], seed: u64) -> Option<Self> {
        let fit = Fit::of(readings)?;
        let mut state = seed;
        let count = readings.len();
        let mut again = |_| {
            let drawn: Vec<(f64, Reading)> =
                (0..count).map(|_| readings[(random(&mut state) * count as f64) as usize]).collect();
            Fit::of(&drawn).map(|fit| fit.available)
        };
        let replicates: Vec<f64> = (0..REPLICATES).filter_map(&mut again).collect();
        // Few trains know their own scatter badly.
        let wider = (count as f64 / (count as f64 - 1.0)).sqrt() * student_t_95(count) / 1.96 * super::tune("WIDER", 1.0);
        let floor = super::tune("FLOOR", 0.02) * fit.carried;
        let value = fit.available;
        let end = |part: f64| quantile(&replicates, part).map(|end| (end - value) * wider);
        let low = value + end(0.025)?.min(-floor);
        let high = value + end(0.975)?.max(floor);
        if high - low > super::tune("VAGUE", 1.0) * value { return None; }
        let carried: Vec<f64> = readings.iter().map(|(_, reading)| reading.whole.carried(fit.cross)).collect();
        let rate = |rate: f64| Rate::from_f64(rate.max(0.0));
        let range = (carried.iter().copied().fold(f64::INFINITY, f64::min), carried.iter().copied().fold(0.0, f64::max));
        Some(Varying {
            available: Estimate { value: rate(value), low: rate(low), high: rate(high), confidence: 0.95 },
            spread: rate(standard_deviation(&carried)),
            carried: (rate(range.0), rate(range.1)),
            trains: count as u32,
        })
    }
}
