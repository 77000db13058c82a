//! Bursts that nothing delayed, and the rate on which their shapes agree.

use super::burst::Burst;
use super::plan::Shape;
use crate::Estimate;
use crate::fit::lower_hull;
use crate::stats::{mean, quantile, random};
use std::collections::BTreeMap;
use thiserror::Error;
use units::Rate;

/// Stamps of one burst are good to this, in seconds.
const STAMPS: f64 = 3e-6;
/// Sums of delays that differ by less than this part of the dispersion count as equal.
const EQUAL: f64 = 0.01;
/// Shapes whose rates differ by less than this part agree, however exact each seems.
const AGREEMENT: f64 = 0.02;
/// What lower layers may add to each packet, in bits: smaller packets are slower by it.
const OVERHEAD: f64 = 60.0 * 8.0;
/// The usual packet of others, in bits.
const OTHERS_PACKET: f64 = 12_000.0;
/// A burst that came no more than so many times as long as it was sent tells of its sending.
const INFORMATIVE: f64 = 1.1;
/// No clock runs faster or slower than another by more.
const MOST_SKEW: f64 = 200e-6;
/// A long train is no slower than this, as a part, even where others' packets get between.
const SLOWER: f64 = 0.5;
/// A long train may seem faster than the link by so much.
const FASTER: f64 = 1.03;
/// One that seems faster by so much was held up by a machine that stalled, and let go at once.
const STALLED: f64 = 1.5;
/// So many bursts of a shape do even where most were delayed.
const MANY: usize = 8;
const REPLICATES: usize = 200;
const CONFIDENCE: f64 = 0.95;
/// An interval wider than this part of the value, to either side, is no knowledge.
const TOO_WIDE: f64 = 0.1;

/// What all bursts together tell, in bit/s.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Reading {
    value: f64,
    low: f64,
    high: f64,
    /// The value if others' packets were in all bursts, as far as they may have been.
    uncrossed: f64,
}

/// Why they tell nothing.
#[derive(Debug, Clone, PartialEq, Error)]
pub(super) enum Refusal {
    #[error("too many packets were lost")]
    Lost,
    #[error("sending is slower than the path: its capacity is beyond {0}")]
    SendingSlower(Rate),
    #[error("the receiver's device reports packets in batches")]
    Batches,
    #[error("sizes disagree: {0}")]
    Disagreement(String),
    #[error("the path is too busy for so few packets")]
    TooFew,
    #[error("the path is too busy: the capacity is anywhere in {0} … {1}")]
    Busy(Rate, Rate),
}

/// One shape's bursts, with what the clocks gained removed.
struct Sample {
    shape: Shape,
    bursts: Vec<Burst>,
}

/// What the undelayed bursts of one shape tell.
#[derive(Debug, Clone, Copy)]
struct Rating {
    shape: Shape,
    rate: f64,
    /// How far it may be off, as a part.
    doubt: f64,
    /// Which part of the time that the bursts took may have been taken by others' packets in all of them.
    crossed: f64,
}

/// Reads all bursts; long trains came at the rates `long`, in bit/s, and `seed` is the bootstrap's.
pub(super) fn read(bursts: &[Burst], long: &[f64], seed: u64) -> Result<Reading, Refusal> {
    let samples = samples(bursts);
    if samples.len() < 2 {
        return Err(Refusal::Lost);
    }
    check_sending(&samples, long)?;
    check_batches(&samples)?;
    let mut state = seed;
    let least = |size| {
        let firsts = samples.iter().filter(|s| s.shape.size == size).flat_map(|s| &s.bursts).map(|burst| burst.head);
        firsts.fold(f64::INFINITY, f64::min)
    };
    let busy = mean(&samples.iter().map(Sample::busy).collect::<Vec<_>>());
    let rate = |sample: &Sample| sample.rate(least(sample.shape.size), busy, &mut state);
    let mut ratings: Vec<(Rating, Vec<f64>)> = samples.iter().map(rate).collect();
    ratings.sort_by(|a, b| a.0.rate.total_cmp(&b.0.rate));
    let agreed = agreement(&ratings).ok_or_else(|| disagreement(&ratings))?;
    let reading = combine(agreed);
    if reading.half_width() > TOO_WIDE || reading.uncrossed > reading.value * (1.0 + TOO_WIDE) {
        return Err(Refusal::Busy(Rate::from_f64(reading.low), Rate::from_f64(reading.high)));
    }
    if !samples.iter().all(Sample::settled) {
        return Err(Refusal::TooFew);
    }
    check_long(reading.value, reading.high, long)?;
    Ok(reading)
}

impl Reading {
    pub(super) fn estimate(&self) -> Estimate<Rate> {
        let [value, low, high] = [self.value, self.low, self.high].map(Rate::from_f64);
        Estimate { value, low, high, confidence: CONFIDENCE }
    }

    /// As a part of the value.
    pub(super) fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0 / self.value
    }
}

fn samples(bursts: &[Burst]) -> Vec<Sample> {
    let skew = skew(bursts);
    let mut shapes: BTreeMap<Shape, Vec<Burst>> = BTreeMap::new();
    for burst in bursts {
        let gained = skew * burst.sent;
        let burst =
            Burst { head: burst.head - gained, first: burst.first - gained, last: burst.last - gained, ..*burst };
        shapes.entry(burst.shape).or_default().push(burst);
    }
    shapes.into_iter().filter(|(_, bursts)| bursts.len() >= 2).map(|(shape, bursts)| Sample { shape, bursts }).collect()
}

/// How much faster the receiver's clock runs: the slope, in the middle of the time, of the line below all first packets'
/// delays (Moon, Skelly, Towsley).
fn skew(bursts: &[Burst]) -> f64 {
    let Some(largest) = bursts.iter().map(|burst| burst.shape.size).max() else { return 0.0 };
    let firsts = bursts.iter().filter(|burst| burst.shape.size == largest);
    let mut points: Vec<(f64, f64)> = firsts.map(|burst| (burst.sent, burst.head)).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    points.dedup_by_key(|point| point.0);
    let ([first, .., last], hull) = (&points[..], lower_hull(points.iter().copied())) else { return 0.0 };
    let middle = (first.0 + last.0) / 2.0;
    let spanning = hull.windows(2).find(|pair| pair[1].0 >= middle && pair[1].0 > pair[0].0);
    let slope = spanning.map_or(0.0, |pair| (pair[1].1 - pair[0].1) / (pair[1].0 - pair[0].0));
    slope.clamp(-MOST_SKEW, MOST_SKEW)
}

fn check_sending(samples: &[Sample], long: &[f64]) -> Result<(), Refusal> {
    let slower = |sample: &&Sample| {
        let undelayed = undelayed(&sample.bursts);
        let ratio: Vec<f64> = undelayed.iter().map(|burst| burst.dispersion() - INFORMATIVE * burst.sending).collect();
        mean(&ratio) < 0.0
    };
    if samples.iter().filter(slower).count() * 2 <= samples.len() {
        return Ok(());
    }
    let rates = samples.iter().flat_map(|sample| &sample.bursts).filter(|burst| burst.sending > 0.0);
    let rates: Vec<f64> = rates.map(|burst| burst.bits / burst.sending).collect();
    let rate = quantile(&rates, 0.5).unwrap_or(0.0);
    check_long(rate, rate, long)?;
    Err(Refusal::SendingSlower(Rate::from_f64(rate)))
}

/// Bursts that say `value`, at most `high`, are not to be believed where a long train came much slower, as behind a shaper
/// that others kept from showing clearly, or a little faster, as none could. (Others may delay a long train's first packet,
/// which makes it look a little faster than the link.)
fn check_long(value: f64, high: f64, long: &[f64]) -> Result<(), Refusal> {
    let contradicts = |rate: &&f64| **rate < SLOWER * value || (FASTER * high..STALLED * high).contains(*rate);
    let Some(rate) = long.iter().find(contradicts) else { return Ok(()) };
    let [value, rate] = [value, *rate].map(Rate::from_f64);
    Err(Refusal::Disagreement(format!("bursts say {value}, a long train came at {rate}")))
}

/// A link needs its time for each packet: where many bursts have packets that came at once, it was the receiver.
fn check_batches(samples: &[Sample]) -> Result<(), Refusal> {
    let bursts = || samples.iter().flat_map(|sample| &sample.bursts);
    let pace = |burst: &Burst| burst.dispersion() / f64::from(burst.gaps);
    let at_once = bursts().filter(|burst| burst.shape.packets > 2 && burst.shortest_gap < 0.05 * pace(burst));
    let all = bursts().filter(|burst| burst.shape.packets > 2).count();
    if all > 0 && at_once.count() * 3 > all { Err(Refusal::Batches) } else { Ok(()) }
}

/// Means over the bursts that nothing delayed, in seconds.
struct Undelayed {
    /// In bit/s.
    rate: f64,
    dispersion: f64,
    /// Of the first packet.
    delay: f64,
    /// From the first packet's sending to the last one's.
    sending: f64,
}

impl Undelayed {
    fn of(bursts: &[Burst]) -> Self {
        let undelayed = undelayed(bursts);
        let mean_of = |of: fn(&Burst) -> f64| mean(&undelayed.iter().map(of).collect::<Vec<_>>());
        let dispersion = mean_of(Burst::dispersion).max(1e-9);
        let whole = |burst: &Burst| burst.sending * f64::from(burst.shape.packets - 1) / f64::from(burst.gaps);
        Undelayed {
            rate: mean_of(|burst| burst.bits) / dispersion,
            dispersion,
            delay: mean_of(|burst| burst.head),
            sending: mean_of(whole),
        }
    }
}

/// Those with the least sum of the first and last packets' delays: what remains may differ by the stamps.
fn undelayed(bursts: &[Burst]) -> Vec<Burst> {
    let sum = |burst: &Burst| burst.first + burst.last;
    let Some(least) = bursts.iter().min_by(|a, b| sum(a).total_cmp(&sum(b))) else { return Vec::new() };
    let most = sum(least) + STAMPS.max(EQUAL * least.dispersion());
    bursts.iter().filter(|burst| sum(burst) <= most).copied().collect()
}

impl Sample {
    /// Whether there are many bursts, or most of them were as long as those that were undelayed.
    fn settled(&self) -> bool {
        let dispersions: Vec<f64> = undelayed(&self.bursts).iter().map(Burst::dispersion).collect();
        let dispersion = mean(&dispersions);
        let equal = |burst: &&Burst| (burst.dispersion() - dispersion).abs() < STAMPS.max(EQUAL * dispersion);
        self.bursts.len() >= MANY || self.bursts.iter().filter(equal).count() * 3 >= self.bursts.len() * 2
    }

    /// How often others' packets were found on the path: which part of the bursts was delayed at its beginning by more than
    /// the quarter of a packet's time, which others' do in three of four cases.
    fn busy(&self) -> f64 {
        let least = self.bursts.iter().map(|burst| burst.first).fold(f64::INFINITY, f64::min);
        let pace = |burst: &Burst| burst.dispersion() / f64::from(burst.gaps);
        let delayed = self.bursts.iter().filter(|burst| burst.first - least > STAMPS.max(pace(burst) / 4.0));
        (delayed.count() as f64 / self.bursts.len() as f64 / 0.75).min(1.0)
    }

    /// `least` is how long the path takes at least, and `busy` how often others were found on it.
    fn rate(&self, least: f64, busy: f64, state: &mut u64) -> (Rating, Vec<f64>) {
        let Undelayed { rate: value, dispersion, delay, sending } = Undelayed::of(&self.bursts);
        let delayed = delay - least;
        let replicates: Vec<f64> = (0..REPLICATES)
            .map(|_| {
                let pick = |_| self.bursts[(random(state) * self.bursts.len() as f64) as usize];
                Undelayed::of(&(0..self.bursts.len()).map(pick).collect::<Vec<_>>()).rate
            })
            .collect();
        let spread = quantile(&replicates, 0.975).unwrap_or(value) - quantile(&replicates, 0.025).unwrap_or(value);
        let stamps = STAMPS / dispersion / (self.bursts.len() as f64).sqrt();
        // The last packet may have been delayed by as much as the first was (CapProbe's condition of convergence).
        let doubt = (spread / 2.0 / value).max(stamps).max((delayed - STAMPS) / dispersion);
        // Where others may send as much as a packet while a burst is sent, none may have been free of them.
        let others = busy * sending * value / OTHERS_PACKET;
        let crossed = busy * (sending / dispersion).min(0.9) * others.min(1.0);
        (Rating { shape: self.shape, rate: value, doubt, crossed }, replicates)
    }
}

/// The most shapes next to each other in order of rate that agree: more than half of them, and the fastest of the full-sized
/// ones, since others' packets make a shape slow.
fn agreement(ratings: &[(Rating, Vec<f64>)]) -> Option<&[(Rating, Vec<f64>)]> {
    let full = ratings.iter().map(|(rating, _)| rating.shape.size).max()?;
    let agree = |slow: &Rating, fast: &Rating| {
        let overhead = if slow.shape.size < full { OVERHEAD / (8.0 * f64::from(slow.shape.size)) } else { 0.0 };
        let doubt = (slow.doubt.powi(2) + fast.doubt.powi(2)).sqrt();
        fast.rate / slow.rate - 1.0 <= AGREEMENT + overhead + doubt.max(slow.crossed)
    };
    let least = (ratings.len() / 2 + 1).max(2);
    let fastest = ratings.iter().rposition(|(rating, _)| rating.shape.size == full)? + 1;
    let ends = |from: usize| fastest.max(from + least)..=ratings.len();
    let runs = (0..ratings.len()).flat_map(|from| ends(from).map(move |to| (from, to)));
    let runs = runs.filter(|&(from, to)| agree(&ratings[from].0, &ratings[to - 1].0));
    runs.max_by_key(|(from, to)| to - from).map(|(from, to)| &ratings[from..to])
}

fn disagreement(ratings: &[(Rating, Vec<f64>)]) -> Refusal {
    let say = |(rating, _): &(Rating, Vec<f64>)| {
        let Shape { packets, size } = rating.shape;
        format!("{packets} × {size} bytes say {}", Rate::from_f64(rating.rate))
    };
    Refusal::Disagreement(ratings.iter().map(say).collect::<Vec<_>>().join(", "))
}

/// The mean of the full-sized shapes, the surer ones counting for more. Others' packets that get into all bursts of a long
/// shape make it slow and sure of itself, and shorter ones unsure: up to the fastest of all, the capacity may be anywhere.
fn combine(agreed: &[(Rating, Vec<f64>)]) -> Reading {
    let full = agreed.iter().map(|(rating, _)| rating.shape.size).max().unwrap_or(0);
    let used: Vec<&(Rating, Vec<f64>)> = agreed.iter().filter(|(rating, _)| rating.shape.size == full).collect();
    let sureness = |doubt: f64| 1.0 / (doubt.powi(2) + 1e-6);
    let weights: Vec<f64> = used.iter().map(|(rating, _)| sureness(rating.doubt.max(rating.crossed))).collect();
    let total: f64 = weights.iter().sum();
    let weighted = |value: &dyn Fn(usize) -> f64| {
        weights.iter().enumerate().map(|(index, weight)| weight * value(index)).sum::<f64>() / total
    };
    let value = weighted(&|index| used[index].0.rate);
    let replicates: Vec<f64> = (0..REPLICATES).map(|replicate| weighted(&|index| used[index].1[replicate])).collect();
    let apart = weighted(&|index| (used[index].0.rate - value).powi(2)).sqrt();
    let stamps = value * used.iter().map(|(rating, _)| sureness(rating.doubt)).sum::<f64>().sqrt().recip();
    let margin = apart.max(stamps);
    let low = quantile(&replicates, 0.025).unwrap_or(value).min(value) - margin;
    let fastest = used.iter().map(|(rating, _)| rating.rate).fold(value, f64::max);
    let uncrossed = value / (1.0 - weighted(&|index| used[index].0.crossed));
    let high = (quantile(&replicates, 0.975).unwrap_or(value).max(value) + margin).max(fastest).max(uncrossed);
    Reading { value, low, high, uncrossed }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A burst on a path of 100 Mbit/s whose first and last packets were delayed by so many µs, on clocks that drift
    /// apart by 50 ppm.
    fn burst(packets: u32, number: u32, first: f64, last: f64) -> Burst {
        let bits = f64::from(packets - 1) * 12e3;
        let sent = f64::from(number) * 0.01;
        let first = first * 1e-6 + 50e-6 * sent;
        let last = last * 1e-6 + 50e-6 * sent + bits / 100e6;
        let shape = Shape { packets, size: 1500 };
        let (sending, gaps) = (f64::from(packets) * 5e-6, packets - 1);
        Burst { shape, sent, head: first, first, last, sending, bits, gaps, shortest_gap: 1e-4 }
    }

    /// Three shapes, 20 bursts of each; of five, one is delayed by neither end.
    fn bursts() -> Vec<Burst> {
        let delays = [(90.0, 10.0), (0.0, 70.0), (0.0, 0.0), (40.0, 130.0), (60.0, 0.0)];
        let all = (0..20).flat_map(|round| [2, 4, 8].map(move |packets| (round, packets)));
        all.map(|(round, packets)| {
            let (first, last) = delays[(round as usize + packets as usize) % 5];
            burst(packets, round * 3 + packets / 4, first, last)
        })
        .collect()
    }

    #[test]
    fn only_what_nothing_delayed_is_read() {
        let reading = read(&bursts(), &[], 1).unwrap();
        assert!((reading.value / 100e6 - 1.0).abs() < 0.002, "{reading:?}");
        assert!(reading.low <= 100e6 && reading.high >= 100e6, "{reading:?}");
        assert_eq!(read(&bursts(), &[], 1), read(&bursts(), &[], 1), "the same seed gives the same interval");
    }

    #[test]
    fn there_is_no_value_where_the_shapes_disagree() {
        let stretched = [(2, 0.0), (4, 30.0), (8, 200.0)];
        let bursts_of = |round| stretched.map(|(packets, late)| burst(packets, round, 0.0, late));
        let refusal = read(&(0..10).flat_map(bursts_of).collect::<Vec<_>>(), &[], 1).unwrap_err();
        assert!(refusal.to_string().starts_with("sizes disagree: 8 × 1500 bytes say"), "{refusal}");
        let refusal = read(&bursts(), &[120e6], 1).unwrap_err();
        assert!(refusal.to_string().contains("a long train came at 120 Mbit/s"), "{refusal}");
        let refusal = read(&bursts(), &[95e6, 20e6], 1).unwrap_err();
        assert!(refusal.to_string().contains("a long train came at 20 Mbit/s"), "{refusal}");
        assert!(read(&bursts(), &[95e6, 1e9], 1).is_ok(), "a machine that stalled");
    }

    #[test]
    fn a_path_faster_than_sending_is_out_of_range() {
        let slow = |burst: Burst| Burst { sending: burst.bits / 100e6, ..burst };
        let refusal = read(&bursts().into_iter().map(slow).collect::<Vec<_>>(), &[], 1).unwrap_err();
        assert_eq!(refusal, Refusal::SendingSlower(Rate::from_mbit(100)));
        assert_eq!(read(&[], &[], 1), Err(Refusal::Lost));
    }
}
