//! The rate on which the undelayed bursts of all shapes agree.

use super::burst::BurstSample;
use super::cross_traffic::CrossTraffic;
use super::long_train::LongTrainRate;
use super::reason::CapacityReason;
use super::sample::{
    MIN_DISPERSION_RATIO, REPLICATES, STAMP_SCATTER_SECONDS, SizeSample, UndelayedBursts, resample, samples,
};
use super::shape::BurstShape;
use crate::cross_traffic::CROSS_PACKET_BITS;
use crate::stats::{median, quantile};
use kumade_probe_train::Estimate;
use kumade_units::{Rate, Span};

/// Shapes whose rates differ by less than this part agree, however exact each seems.
const MAX_RELATIVE_DISAGREEMENT: f64 = 0.02;
/// What lower layers may add to each packet, in bits: smaller packets are slower by it.
const MAX_OVERHEAD_BITS: f64 = 60.0 * 8.0;
/// A burst whose dispersion is at most this many times its sending time shows the sender's rate, not the path's.
const MAX_SENDER_LIMITED_RATIO: f64 = 1.1;
/// A long train is no slower than this part of the capacity, even with cross traffic between its packets.
const MIN_LONG_TRAIN_RATIO: f64 = 0.5;
/// A long train may seem faster than the link by this factor.
const MAX_LONG_TRAIN_RATIO: f64 = 1.03;
/// One that seems faster by this factor was held back by a host and delivered at once.
const STALLED_RATIO: f64 = 1.5;
const CONFIDENCE_LEVEL: f64 = 0.95;
/// No value is given where half the interval's width is more than this part of it.
const MAX_RELATIVE_HALF_WIDTH: f64 = 0.1;

/// The result of all bursts, in bit/s.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct CapacityEstimate {
    value: f64,
    low: f64,
    high: f64,
    /// The value if cross traffic was in all bursts, as far as it may have been.
    corrected_value: f64,
}

/// The result of the undelayed bursts of one shape.
#[derive(Debug, Clone)]
struct SizeEstimate {
    shape: BurstShape,
    /// In bit/s.
    rate: f64,
    /// What as many bursts, chosen at random from these, tell.
    replicates: Vec<f64>,
    /// How far it may be off, as a part.
    relative_uncertainty: f64,
    /// Which part of the time that the bursts took cross traffic may have taken in all of them.
    cross_traffic_part: f64,
}

/// Reads all bursts; `long` is the rates of long trains, and `seed` is the bootstrap's.
///
/// # Errors
/// Why there is no result.
pub(super) fn estimate_capacity(
    bursts: &[BurstSample],
    long: &[LongTrainRate],
    seed: u64,
) -> Result<CapacityEstimate, CapacityReason> {
    let (samples, stretched): (Vec<SizeSample>, Vec<SizeSample>) =
        samples(bursts).into_iter().partition(|sample| sample.shape.interval == Span::ZERO);
    if samples.len() < 2 {
        return Err(CapacityReason::PacketsLost);
    }
    check_batches(&samples)?;
    check_sending_rate(&samples, long)?;
    let mut state = seed;
    let least = |size| {
        let firsts = samples
            .iter()
            .filter(|s| s.shape.size == size)
            .flat_map(|s| &s.bursts)
            .map(|burst| burst.first_packet_delay);
        firsts.fold(f64::INFINITY, f64::min)
    };
    let cross = CrossTraffic::from_samples(&samples, &stretched, &mut state);
    let rate = |sample: &SizeSample| {
        SizeEstimate::from_sample(sample, least(sample.shape.size), cross.max_link_share, &mut state)
    };
    let mut ratings: Vec<SizeEstimate> = samples.iter().map(rate).collect();
    ratings.sort_by(|a, b| a.rate.total_cmp(&b.rate));
    let agreed = agreeing_estimates(&ratings).ok_or_else(|| disagreement_reason(&ratings))?;
    let undelayed = combine_estimates(agreed);
    let reading = undelayed.raised_by_cross_traffic(&cross);
    if reading.half_width() > MAX_RELATIVE_HALF_WIDTH
        || undelayed.corrected_value > undelayed.value * (1.0 + MAX_RELATIVE_HALF_WIDTH)
    {
        return Err(CapacityReason::TooMuchCrossTraffic(Rate::from_f64(reading.low), Rate::from_f64(reading.high)));
    }
    if !samples.iter().all(SizeSample::has_settled) {
        return Err(CapacityReason::TooFewPackets);
    }
    check_long_trains(reading.value, reading.high, long)?;
    Ok(reading)
}

impl CapacityEstimate {
    /// Where all bursts together show a faster link than those that seem undelayed, cross traffic was in all of these, in
    /// packets too small to be seen. Then the value is the least that all bursts together allow, and the interval reaches
    /// from the rate of the seemingly undelayed ones to the most.
    fn raised_by_cross_traffic(self, cross: &CrossTraffic) -> Self {
        let Some((least, most)) = cross.link_rate_range.filter(|(least, _)| *least > self.value) else { return self };
        CapacityEstimate { value: least, high: self.high.max(most), ..self }
    }

    /// In bit/s.
    pub(super) fn value(&self) -> f64 {
        self.value
    }

    pub(super) fn estimate(&self) -> Estimate<Rate> {
        let [value, low, high] = [self.value, self.low, self.high].map(Rate::from_f64);
        Estimate { value, low, high, confidence: CONFIDENCE_LEVEL }
    }

    /// As a part of the value.
    pub(super) fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0 / self.value
    }
}

fn check_sending_rate(samples: &[SizeSample], long: &[LongTrainRate]) -> Result<(), CapacityReason> {
    let slower = |sample: &&SizeSample| {
        let UndelayedBursts { dispersion, input_dispersion: sending, .. } = sample.undelayed;
        (MIN_DISPERSION_RATIO * sending..MAX_SENDER_LIMITED_RATIO * sending).contains(&dispersion)
    };
    if samples.iter().filter(slower).count() * 2 <= samples.len() {
        return Ok(());
    }
    let rates = samples.iter().flat_map(|sample| &sample.bursts).filter(|burst| burst.input_dispersion > 0.0);
    let rates: Vec<f64> = rates.map(|burst| burst.bits / burst.input_dispersion).collect();
    let rate = median(&rates).unwrap_or(0.0);
    check_long_trains(rate, rate, long)?;
    Err(CapacityReason::SendingSlower(Rate::from_f64(rate / MAX_SENDER_LIMITED_RATIO)))
}

/// Bursts that show `value`, at most `high`, are refused where a long train was much slower, as behind a shaper that cross
/// traffic hides, or slightly faster, which is impossible.
fn check_long_trains(value: f64, high: f64, long: &[LongTrainRate]) -> Result<(), CapacityReason> {
    let faster = |rate: f64| (MAX_LONG_TRAIN_RATIO * high..STALLED_RATIO * high).contains(&rate);
    let contradicts =
        |rate: &&LongTrainRate| rate.observed < MIN_LONG_TRAIN_RATIO * value || faster(rate.delay_corrected);
    let Some(rate) = long.iter().find(contradicts) else { return Ok(()) };
    let [value, rate] = [value, rate.observed].map(Rate::from_f64);
    Err(CapacityReason::LongTrainDisagrees(value, rate))
}

/// A link takes its transmission time for each packet: where many bursts have packets that arrived at once, the receiving
/// device reports them in batches.
pub(super) fn check_batches(samples: &[SizeSample]) -> Result<(), CapacityReason> {
    let bursts = || samples.iter().flat_map(|sample| &sample.bursts);
    let pace = |burst: &BurstSample| burst.dispersion() / f64::from(burst.gap_count);
    let at_once = bursts().filter(|burst| burst.shape.packets > 2 && burst.shortest_gap <= 0.05 * pace(burst));
    let all = bursts().filter(|burst| burst.shape.packets > 2).count();
    if all > 0 && at_once.count() * 3 > all { Err(CapacityReason::Batches) } else { Ok(()) }
}

impl SizeEstimate {
    /// `least` is how long the path takes at least, and `cross` which part of the link cross traffic takes at most.
    fn from_sample(sample: &SizeSample, least: f64, cross: f64, state: &mut u64) -> Self {
        let UndelayedBursts { rate, dispersion, delay, input_dispersion: sending, is_even: even } = sample.undelayed;
        let replicates: Vec<f64> =
            (0..REPLICATES).map(|_| UndelayedBursts::select(&resample(&sample.bursts, state)).rate).collect();
        let spread = quantile(&replicates, 0.975).unwrap_or(rate) - quantile(&replicates, 0.025).unwrap_or(rate);
        let stamps = STAMP_SCATTER_SECONDS / dispersion / (sample.bursts.len() as f64).sqrt();
        // The last packet may have been delayed by as much as the first was (CapProbe's condition of convergence).
        let doubt = (spread / 2.0 / rate).max(stamps).max((delay - least - STAMP_SCATTER_SECONDS) / dispersion);
        // How many packets may have got into all bursts; into all steps between their packets, where these are even.
        let steps = if even { sample.bursts[0].gap_count } else { 1 };
        let between = cross * sending / f64::from(steps) * rate / CROSS_PACKET_BITS;
        let crossed = cross * (sending / dispersion).min(0.9) * between.min(1.0).powi(steps as i32);
        SizeEstimate { shape: sample.shape, rate, replicates, relative_uncertainty: doubt, cross_traffic_part: crossed }
    }
}

/// The most shapes next to each other in order of rate that agree: more than half of them, and the fastest of the full-sized
/// ones, since cross traffic makes a shape slow.
fn agreeing_estimates(ratings: &[SizeEstimate]) -> Option<&[SizeEstimate]> {
    let full = ratings.iter().map(|rating| rating.shape.size).max()?;
    let agree = |slow: &SizeEstimate, fast: &SizeEstimate| {
        let overhead =
            if slow.shape.size < full { MAX_OVERHEAD_BITS / (8.0 * f64::from(slow.shape.size)) } else { 0.0 };
        let doubt = (slow.relative_uncertainty.powi(2) + fast.relative_uncertainty.powi(2)).sqrt();
        fast.rate / slow.rate - 1.0 <= MAX_RELATIVE_DISAGREEMENT + overhead + doubt.max(slow.cross_traffic_part)
    };
    let least = (ratings.len() / 2 + 1).max(2);
    let fastest = ratings.iter().rposition(|rating| rating.shape.size == full)? + 1;
    let ends = |from: usize| fastest.max(from + least)..=ratings.len();
    let runs = (0..ratings.len()).flat_map(|from| ends(from).map(move |to| (from, to)));
    let runs = runs.filter(|&(from, to)| agree(&ratings[from], &ratings[to - 1]));
    runs.max_by_key(|(from, to)| to - from).map(|(from, to)| &ratings[from..to])
}

fn disagreement_reason(ratings: &[SizeEstimate]) -> CapacityReason {
    let show = |rating: &SizeEstimate| {
        let BurstShape { packets, size, .. } = rating.shape;
        (packets, size, Rate::from_f64(rating.rate))
    };
    CapacityReason::BurstsDisagree(ratings.iter().map(show).collect())
}

/// The mean of the full-sized shapes, the surer ones counting for more. Cross traffic that gets into all bursts of a long
/// shape makes it slow and sure of itself, and shorter ones unsure: up to the fastest of all, the capacity may be anywhere.
fn combine_estimates(agreed: &[SizeEstimate]) -> CapacityEstimate {
    let full = agreed.iter().map(|rating| rating.shape.size).max().unwrap_or(0);
    let used: Vec<&SizeEstimate> = agreed.iter().filter(|rating| rating.shape.size == full).collect();
    let sureness = |doubt: f64| 1.0 / (doubt.powi(2) + 1e-6);
    let weights: Vec<f64> =
        used.iter().map(|rating| sureness(rating.relative_uncertainty.max(rating.cross_traffic_part))).collect();
    let total: f64 = weights.iter().sum();
    let weighted = |of: &dyn Fn(&SizeEstimate) -> f64| {
        used.iter().zip(&weights).map(|(rating, weight)| weight * of(rating)).sum::<f64>() / total
    };
    let value = weighted(&|rating| rating.rate);
    let replicates: Vec<f64> = (0..REPLICATES).map(|index| weighted(&|rating| rating.replicates[index])).collect();
    let scatter = weighted(&|rating| (rating.rate - value).powi(2)).sqrt();
    let stamps = value * used.iter().map(|rating| sureness(rating.relative_uncertainty)).sum::<f64>().sqrt().recip();
    let margin = scatter.max(stamps);
    let low = quantile(&replicates, 0.025).unwrap_or(value).min(value) - margin;
    let fastest = used.iter().map(|rating| rating.rate).fold(value, f64::max);
    let uncrossed = value / (1.0 - weighted(&|rating| rating.cross_traffic_part));
    let high = (quantile(&replicates, 0.975).unwrap_or(value).max(value) + margin).max(fastest).max(uncrossed);
    CapacityEstimate { value, low, high, corrected_value: uncrossed }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A burst on a path of 100 Mbit/s whose first and last packets were delayed by so many µs, on clocks that drift
    /// apart by 50 ppm.
    fn burst(packets: u32, number: u32, first: f64, last: f64) -> BurstSample {
        let bits = f64::from(packets - 1) * 12e3;
        let sent = f64::from(number) * 0.01;
        let first = first * 1e-6 + 50e-6 * sent;
        let last = last * 1e-6 + 50e-6 * sent + bits / 100e6;
        let shape = BurstShape { packets, size: 1500, interval: Span::ZERO };
        let (sending, gaps) = (f64::from(packets) * 5e-6, packets - 1);
        BurstSample {
            shape,
            sent,
            first_packet_delay: first,
            dispersion_start: first,
            last_packet_delay: last,
            input_dispersion: sending,
            bits,
            gap_count: gaps,
            shortest_gap: 1e-4,
            unevenness: 0.0,
        }
    }

    /// Three shapes, 20 bursts of each; of five, one is delayed by neither end.
    fn bursts() -> Vec<BurstSample> {
        let delays = [(90.0, 10.0), (0.0, 70.0), (0.0, 0.0), (40.0, 130.0), (60.0, 0.0)];
        let all = (0..20).flat_map(|round| [2, 4, 8].map(move |packets| (round, packets)));
        all.map(|(round, packets)| {
            let (first, last) = delays[(round as usize + packets as usize) % 5];
            burst(packets, round * 3 + packets / 4, first, last)
        })
        .collect()
    }

    /// Long trains of these rates.
    fn long(rates: &[f64]) -> Vec<LongTrainRate> {
        rates.iter().map(|&rate| LongTrainRate { observed: rate, delay_corrected: rate }).collect()
    }

    #[test]
    fn no_bound_is_zero() {
        let busy = |low| CapacityReason::TooMuchCrossTraffic(low, Rate::from_mbit(9)).lower_bound();
        assert_eq!((busy(Rate::ZERO), busy(Rate::from_mbit(2))), (None, Some(Rate::from_mbit(2))));
    }

    /// Behind delays that varied by a millisecond, from 40 to 88 Mbit/s were said to be available where 125 were; bursts showed from 0 to 201.
    #[test]
    fn a_capacity_from_zero_on_is_indefinite() {
        let is_indefinite = |low| CapacityReason::TooMuchCrossTraffic(low, Rate::from_mbit(201)).is_indefinite();
        assert!(is_indefinite(Rate::ZERO) && !is_indefinite(Rate::from_mbit(2)));
    }

    #[test]
    fn only_what_nothing_delayed_is_read() {
        let reading = estimate_capacity(&bursts(), &[], 1).unwrap();
        assert!((reading.value / 100e6 - 1.0).abs() < 0.002, "{reading:?}");
        assert!(reading.low <= 100e6 && reading.high >= 100e6, "{reading:?}");
        assert_eq!(
            estimate_capacity(&bursts(), &[], 1),
            estimate_capacity(&bursts(), &[], 1),
            "the same seed gives the same interval"
        );
    }

    #[test]
    fn bursts_that_something_got_between_are_passed_over_where_there_are_even_ones() {
        let crossed = |packets, number| BurstSample { unevenness: 30e-6, ..burst(packets, number, 0.0, 30.0) };
        let both = |number| [2, 4, 8].map(|packets| [crossed(packets, number), burst(packets, number, 20.0, 20.0)]);
        let bursts: Vec<BurstSample> = (0..20).flat_map(both).flatten().collect();
        let reading = estimate_capacity(&bursts, &[], 1).unwrap();
        assert!((reading.value / 100e6 - 1.0).abs() < 0.002, "{reading:?}");
    }

    #[test]
    fn a_burst_that_the_sender_stamped_late_is_passed_over() {
        let late = |burst: BurstSample| {
            let [head, first, last] =
                [burst.first_packet_delay, burst.dispersion_start, burst.last_packet_delay].map(|at| at - 500e-6);
            BurstSample { first_packet_delay: head, dispersion_start: first, last_packet_delay: last + 40e-6, ..burst }
        };
        let mut bursts = bursts();
        bursts[4] = late(bursts[4]);
        let reading = estimate_capacity(&bursts, &[], 1).unwrap();
        assert!((reading.value / 100e6 - 1.0).abs() < 0.002, "{reading:?}");
    }

    #[test]
    fn there_is_no_value_where_the_shapes_disagree() {
        let stretched = [(2, 0.0), (4, 30.0), (8, 200.0)];
        let bursts_of = |round| stretched.map(|(packets, late)| burst(packets, round, 0.0, late));
        let refusal = estimate_capacity(&(0..10).flat_map(bursts_of).collect::<Vec<_>>(), &[], 1).unwrap_err();
        assert!(matches!(&refusal, CapacityReason::BurstsDisagree(bursts) if bursts[0].0 == 8), "{refusal}");
        let refusal = estimate_capacity(&bursts(), &long(&[120e6]), 1).unwrap_err();
        assert!(
            matches!(refusal, CapacityReason::LongTrainDisagrees(_, rate) if rate == Rate::from_mbit(120)),
            "{refusal}"
        );
        let refusal = estimate_capacity(&bursts(), &long(&[95e6, 20e6]), 1).unwrap_err();
        assert!(
            matches!(refusal, CapacityReason::LongTrainDisagrees(_, rate) if rate == Rate::from_mbit(20)),
            "{refusal}"
        );
        assert!(estimate_capacity(&bursts(), &long(&[95e6, 1e9]), 1).is_ok(), "a machine that stalled");
    }

    #[test]
    fn a_path_faster_than_sending_is_out_of_range() {
        let slow = |burst: BurstSample| BurstSample { input_dispersion: burst.bits / 100e6, ..burst };
        let refusal = estimate_capacity(&bursts().into_iter().map(slow).collect::<Vec<_>>(), &[], 1).unwrap_err();
        assert_eq!(refusal, CapacityReason::SendingSlower(Rate::from_f64(100e6 / MAX_SENDER_LIMITED_RATIO)));
        assert_eq!(estimate_capacity(&[], &[], 1), Err(CapacityReason::PacketsLost));
    }
}
