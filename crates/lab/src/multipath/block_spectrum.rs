//! Periods in what a connection carries by the length of writes, looked for in the spectrum of consecutive lengths.

use super::block_sweep::BlockRate;
use crate::statistics::median;
use serde::Serialize;
use std::f64::consts::TAU;
use std::ops::RangeInclusive;

/// Whole periods that are looked for. At two samples a period, noise has another distribution.
const PERIODS_BYTES: RangeInclusive<u32> = 3..=16;
/// Fewer lengths have no spectrum worth the name.
const MIN_LENGTHS: usize = 32;
/// Slower changes than the longest period are no periods: they are taken away as the median of so many lengths before and after.
const TREND_LENGTHS: usize = *PERIODS_BYTES.end() as usize;
/// What lies farther from the trend than this many median deviations is a disturbance of that run, and counts as this.
const MAX_DEVIATIONS: f64 = 5.0;
/// Noise alone reaches the power that counts as a period at any of these in one spectrum of a hundred: exp(−power) each.
const FALSE_ALARM_RATIO: f64 = 0.01;

/// How much of the variance of consecutive lengths is of one period.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct PeriodPower {
    /// The first of the lengths, …
    pub(crate) first_bytes: u32,
    /// … and the last.
    pub(crate) last_bytes: u32,
    /// The period.
    pub(crate) period_bytes: u32,
    /// Its power, by that which noise of the same variance has on average.
    pub(crate) power: f64,
}

/// The power from which on a period is told from noise.
pub(crate) fn significant_power() -> f64 {
    (PERIODS_BYTES.count() as f64 / FALSE_ALARM_RATIO).ln()
}

/// All periods of each run of consecutive lengths that is long enough, of those written as programs do that set nothing.
pub(crate) fn block_spectra(rates: &[BlockRate]) -> Vec<PeriodPower> {
    let mut all: Vec<_> = rates.iter().filter(|rate| !rate.no_delay).collect();
    all.sort_by_key(|rate| rate.block_bytes);
    let runs = all.chunk_by(|one, next| next.block_bytes - one.block_bytes <= 1);
    runs.filter(|run| run.len() >= MIN_LENGTHS).flat_map(run_spectrum).collect()
}

fn run_spectrum(run: &[&BlockRate]) -> Vec<PeriodPower> {
    let (Some(first), Some(last)) = (run.first(), run.last()) else { return Vec::new() };
    // Time for a given amount, as the paper has it, on a scale on which small lengths don't outweigh the others.
    // One at which nothing arrived is a disturbance like others.
    let values: Vec<f64> = run.iter().map(|rate| -rate.goodput_bits_per_second.max(1.0).ln()).collect();
    let residuals = remove_trend(&values);
    let variance = residuals.iter().map(|value| value * value).sum::<f64>() / residuals.len() as f64;
    let power = |period_bytes: u32| PeriodPower {
        first_bytes: first.block_bytes,
        last_bytes: last.block_bytes,
        period_bytes,
        power: if variance > 0.0 { period_power(&residuals, period_bytes) / variance } else { 0.0 },
    };
    PERIODS_BYTES.map(power).collect()
}

/// The periodogram at one frequency.
fn period_power(values: &[f64], period: u32) -> f64 {
    let angle = |place: usize| TAU * place as f64 / f64::from(period);
    let sum =
        |part: fn(f64) -> f64| values.iter().enumerate().map(|(place, value)| value * part(angle(place))).sum::<f64>();
    (sum(f64::cos).powi(2) + sum(f64::sin).powi(2)) / values.len() as f64
}

fn remove_trend(values: &[f64]) -> Vec<f64> {
    let residual = |(place, value): (usize, &f64)| {
        let around = &values[place.saturating_sub(TREND_LENGTHS)..(place + TREND_LENGTHS + 1).min(values.len())];
        value - median(around).unwrap_or(*value)
    };
    let residuals: Vec<f64> = values.iter().enumerate().map(residual).collect();
    let distances: Vec<f64> = residuals.iter().map(|value| value.abs()).collect();
    let limit = median(&distances).unwrap_or(0.0) * MAX_DEVIATIONS;
    // Where most lengths are alike, what differs is what is looked for.
    let clipped = |value: &f64| if limit > 0.0 { value.clamp(-limit, limit) } else { *value };
    let clipped: Vec<f64> = residuals.iter().map(clipped).collect();
    let mean = clipped.iter().sum::<f64>() / clipped.len().max(1) as f64;
    clipped.into_iter().map(|value| value - mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    fn spectrum(mut of: impl FnMut(u32) -> f64) -> Vec<PeriodPower> {
        let rate = |block_bytes| BlockRate { block_bytes, no_delay: false, goodput_bits_per_second: of(block_bytes) };
        block_spectra(&(500..=600).map(rate).collect::<Vec<_>>())
    }

    fn strongest(spectrum: &[PeriodPower]) -> PeriodPower {
        *spectrum.iter().max_by(|one, other| one.power.total_cmp(&other.power)).unwrap()
    }

    fn noise(random: &mut Pcg64Mcg) -> f64 {
        1.0 + 0.02 * (random.random::<f64>() - 0.5)
    }

    #[test]
    fn a_period_is_found_in_noise_beside_a_trend_and_an_outlier() {
        let mut random = Pcg64Mcg::seed_from_u64(1);
        for period in [4, 7] {
            let found = strongest(&spectrum(|bytes| {
                let outlier = if bytes == 555 { 0.0 } else { 1.0 };
                f64::from(bytes) * outlier * noise(&mut random) * if bytes % period == 0 { 1.03 } else { 1.0 }
            }));
            assert_eq!((found.period_bytes, found.first_bytes, found.last_bytes), (period, 500, 600));
            assert!(found.power > significant_power(), "{found:?}");
        }
    }

    #[test]
    fn noise_has_no_period_but_in_one_of_a_hundred() {
        let mut random = Pcg64Mcg::seed_from_u64(2);
        let mut found =
            || strongest(&spectrum(|bytes| f64::from(bytes) * noise(&mut random))).power > significant_power();
        let alarms = (0..400).filter(|_| found()).count();
        assert!(alarms <= 12, "{alarms} of 400");
    }

    #[test]
    fn few_lengths_gaps_and_equal_values_have_no_period() {
        let rate = |block_bytes| BlockRate { block_bytes, no_delay: false, goodput_bits_per_second: 1.0 };
        assert_eq!(block_spectra(&(1..=25).map(rate).collect::<Vec<_>>()), []);
        assert_eq!(block_spectra(&(1..=150).map(|tens| rate(tens * 10)).collect::<Vec<_>>()), []);
        assert!(spectrum(|_| 5.0).iter().all(|period| period.power == 0.0));
    }
}
