//! Pairs of paths drawn at random, and the fixed ratios among which the best one for each is searched.

use crate::multipath::{PathSettings, PathShares};
use crate::study::checks::reject_if;
use crate::values::{rate, ratio, span};
use kumade_units::{Rate, Span};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::Deserialize;

/// `[draw]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DrawSection {
    /// How many pairs of paths.
    pairs: u32,
    /// The same seed draws the same pairs.
    seed: u64,
    #[serde(deserialize_with = "rate")]
    min_rate: Rate,
    #[serde(deserialize_with = "rate")]
    max_rate: Rate,
    #[serde(deserialize_with = "span")]
    min_delay: Span,
    #[serde(deserialize_with = "span")]
    max_delay: Span,
    /// Of the paths with loss, which are six of ten.
    #[serde(deserialize_with = "ratio")]
    max_loss: f64,
}

/// Two paths.
#[derive(Debug)]
pub(super) struct DrawnPair {
    pub(super) label: String,
    pub(super) paths: Vec<PathSettings>,
    /// Each path alone, the ratio of the rates, and others around it.
    pub(super) ratios: Vec<PathShares>,
}

const MAX_PAIRS: u32 = 1000;
/// The part of the paths that lose no packets.
const LOSSLESS_PART: f64 = 0.4;
/// By which the ratio of the rates is multiplied.
const RATIO_FACTORS: [f64; 5] = [1.0, 0.8, 1.25, 0.5, 2.0];
/// The sum of a ratio's shares.
const SHARES_SUM: u32 = 100;

impl DrawSection {
    pub(super) fn check(&self) -> Result<(), String> {
        reject_if(!(1..=MAX_PAIRS).contains(&self.pairs), || format!("draw 1 to {MAX_PAIRS} pairs of paths"))?;
        let is_empty = self.min_rate > self.max_rate || self.min_delay > self.max_delay;
        let is_zero = self.min_rate == Rate::ZERO || self.min_delay <= Span::ZERO;
        reject_if(is_empty || is_zero, || {
            "paths are drawn between a minimum and a maximum rate and delay, above 0".into()
        })
    }

    /// Rates and delays are distributed uniformly on a logarithmic scale.
    pub(super) fn draw_pairs(&self) -> Vec<DrawnPair> {
        let mut random = Pcg64Mcg::seed_from_u64(self.seed);
        (1..=self.pairs).map(|number| self.draw_pair(number, &mut random)).collect()
    }

    fn draw_pair(&self, number: u32, random: &mut Pcg64Mcg) -> DrawnPair {
        let paths = [self.draw_path(random), self.draw_path(random)];
        let words = paths.each_ref().map(PathSettings::in_words);
        let ratios = candidate_ratios(paths[0].rate.as_f64() / paths[1].rate.as_f64());
        DrawnPair {
            label: format!("pair {number} of seed {}: {}", self.seed, words.join(" + ")),
            paths: paths.into(),
            ratios,
        }
    }

    fn draw_path(&self, random: &mut Pcg64Mcg) -> PathSettings {
        let between = |random: &mut Pcg64Mcg, low: f64, high: f64| low * (high / low).powf(random.random::<f64>());
        let rate = between(random, self.min_rate.as_f64(), self.max_rate.as_f64());
        let delay = between(random, self.min_delay.as_secs_f64(), self.max_delay.as_secs_f64());
        let has_loss = random.random::<f64>() >= LOSSLESS_PART;
        let loss = self.max_loss * random.random::<f64>();
        PathSettings {
            rate: Rate::from_bits_per_second((rate / 1e5).round().max(1.0) as u64 * 100_000),
            delay: Span::from_micros((delay * 1e4).round().max(1.0) as i64 * 100),
            loss: if has_loss { (loss * 1e4).round() / 1e4 } else { 0.0 },
            queue: PathSettings::DEFAULT_QUEUE,
        }
    }
}

fn candidate_ratios(of_rates: f64) -> Vec<PathShares> {
    let share = |ratio: f64| ((f64::from(SHARES_SUM) * ratio / (1.0 + ratio)).round() as u32).clamp(1, SHARES_SUM - 1);
    let mut firsts: Vec<u32> = RATIO_FACTORS.iter().map(|factor| share(of_rates * factor)).collect();
    firsts.sort_unstable();
    firsts.dedup();
    let divided = firsts.into_iter().map(|first| vec![first, SHARES_SUM - first]);
    [vec![1, 0], vec![0, 1]].into_iter().chain(divided).filter_map(PathShares::new).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(seed: u64) -> DrawSection {
        DrawSection {
            pairs: 200,
            seed,
            min_rate: Rate::from_mbit(2),
            max_rate: Rate::from_mbit(200),
            min_delay: Span::from_millis(1),
            max_delay: Span::from_millis(80),
            max_loss: 0.005,
        }
    }

    #[test]
    fn pairs_are_within_their_bounds_and_the_same_for_a_seed() {
        let labels = |seed| section(seed).draw_pairs().into_iter().map(|pair| pair.label).collect::<Vec<_>>();
        assert_eq!(labels(1), labels(1));
        assert_ne!(labels(1), labels(2));
        let paths: Vec<_> = section(1).draw_pairs().into_iter().flat_map(|pair| pair.paths).collect();
        assert!(paths.iter().all(|path| (2_000_000..=200_000_000).contains(&path.rate.bits_per_second())));
        assert!(paths.iter().all(|path| (1..=80).contains(&(path.delay.as_nanos() / 1_000_000))));
        assert!(paths.iter().all(|path| (0.0..=0.005).contains(&path.loss)));
        let lossless = paths.iter().filter(|path| path.loss == 0.0).count();
        assert!((120..200).contains(&lossless), "{lossless}");
    }

    #[test]
    fn each_path_alone_and_the_ratio_of_the_rates_are_tried() {
        let tried = |ratio| candidate_ratios(ratio).iter().map(PathShares::to_string).collect::<Vec<_>>();
        assert_eq!(tried(1.0), ["1:0", "0:1", "33:67", "44:56", "50:50", "56:44", "67:33"]);
        assert_eq!(tried(1000.0), ["1:0", "0:1", "99:1"]);
    }
}
