//! From which queueing delay on a queue marks packets: a change point in what became of packets that are sorted by their delays.
//!
//! Two models are fitted by their likelihood: a step (Linux's `ce_threshold`, DCTCP's queue length, the low-latency queue of RFC 9332), with no
//! marks below it and some probability above; and a ramp from never to always (RFC 9332, appendix A). The interval has all thresholds that are
//! not much less likely than the best one.

use kumade_units::Span;

/// The queueing delay of a packet that arrived, and whether it came with CE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DelaySample {
    pub(super) delay: Span,
    pub(super) is_marked: bool,
}

/// From which delay on packets are marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MarkingThreshold {
    pub(super) low: Span,
    pub(super) high: Span,
    /// Whether only some are marked at first, and more where the delay is longer.
    pub(super) is_gradual: bool,
}

/// Fewer marks are none that a threshold could be told from.
const MIN_MARKS: usize = 3;
/// A threshold explains the marks if they are e^10, twenty thousand times, less likely at one probability for all delays: the best of some
/// hundred thresholds explains more than it should.
const MIN_LOG_GAIN: f64 = 10.0;
/// Thresholds are in the interval unless the samples are e^4 times less likely with them: with 99.5 % of probability (Wilks), had samples no
/// errors in common.
const INTERVAL_LOG_LOSS: f64 = 4.0;
/// No packet is sure to be marked or not: one in so many has another delay at the receiver's clock than in the queue.
const MAX_CERTAINTY: f64 = 0.995;
/// Ends of ramps that are tried.
const RAMP_POINTS: usize = 48;
/// Ramps that end beyond all delays, in multiples of the longest one.
const LONG_RAMPS: [f64; 3] = [1.5, 3.0, 10.0];

/// The threshold; none where the marks do not depend on the delay, or are too few.
pub(super) fn find_threshold(samples: &[DelaySample]) -> Option<MarkingThreshold> {
    let mut sorted = samples.to_vec();
    sorted.sort_by_key(|sample| sample.delay);
    let marks = sorted.iter().filter(|sample| sample.is_marked).count();
    if marks < MIN_MARKS {
        return None;
    }
    let constant = log_likelihood(sorted.len(), marks);
    let (step_log, step) = fit_step(&sorted)?;
    let (ramp_log, ramp) = fit_ramp(&sorted)?;
    let is_ramp = ramp_log > step_log + INTERVAL_LOG_LOSS;
    let (log, threshold) = if is_ramp { (ramp_log, ramp) } else { (step_log, step) };
    (log > constant + MIN_LOG_GAIN).then_some(threshold)
}

/// The natural logarithm of the probability of so many marks of so many packets, at the most likely probability for each.
fn log_likelihood(packets: usize, marks: usize) -> f64 {
    let (packets, marks) = (packets as f64, marks as f64);
    let probability = (marks / packets.max(1.0)).clamp(1.0 - MAX_CERTAINTY, MAX_CERTAINTY);
    marks * probability.ln() + (packets - marks) * (1.0 - probability).ln()
}

/// The same where none should be marked.
fn unmarked_log_likelihood(packets: usize, marks: usize) -> f64 {
    marks as f64 * (1.0 - MAX_CERTAINTY).ln() + (packets - marks) as f64 * MAX_CERTAINTY.ln()
}

/// The best step, and how likely the samples are with it.
fn fit_step(sorted: &[DelaySample]) -> Option<(f64, MarkingThreshold)> {
    let all = sorted.len();
    let marks = sorted.iter().filter(|sample| sample.is_marked).count();
    let mut marks_below = 0;
    // Between two packets each.
    let mut steps = Vec::with_capacity(all);
    for (below, sample) in sorted.iter().enumerate() {
        let (above, marks_above) = (all - below, marks - marks_below);
        // Otherwise it is the short delays that are marked.
        if marks_above * below >= marks_below * above {
            steps.push((below, unmarked_log_likelihood(below, marks_below) + log_likelihood(above, marks_above)));
        }
        marks_below += usize::from(sample.is_marked);
    }
    let best = steps.iter().map(|(_, log)| *log).fold(f64::NEG_INFINITY, f64::max);
    let likely = || steps.iter().filter(|(_, log)| *log >= best - INTERVAL_LOG_LOSS).map(|(below, _)| *below);
    let (first, last) = (likely().min()?, likely().max()?);
    let low = first.checked_sub(1).map_or(Span::ZERO, |before| sorted[before].delay);
    Some((best, MarkingThreshold { low, high: sorted[last].delay, is_gradual: false }))
}

/// The best ramp, and how likely the samples are with it.
fn fit_ramp(sorted: &[DelaySample]) -> Option<(f64, MarkingThreshold)> {
    let longest = sorted.last()?.delay;
    let place = |point: usize| point * (sorted.len() - 1) / (RAMP_POINTS - 1);
    let mut starts: Vec<Span> = (0..RAMP_POINTS).map(|point| sorted[place(point)].delay).collect();
    starts.insert(0, Span::ZERO);
    starts.dedup();
    let beyond = LONG_RAMPS.map(|times| Span::from_secs_f64(longest.as_secs_f64() * times));
    let ends: Vec<Span> = starts.iter().copied().chain(beyond).collect();
    let profile = |start: Span| {
        let ramps = ends.iter().filter(|end| **end > start);
        ramps.map(|end| ramp_log_likelihood(sorted, start, *end)).fold(f64::NEG_INFINITY, f64::max)
    };
    let logs: Vec<f64> = starts.iter().map(|start| profile(*start)).collect();
    let best = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let likely = || logs.iter().enumerate().filter(|(_, log)| **log >= best - INTERVAL_LOG_LOSS).map(|(at, _)| at);
    let (first, last) = (likely().min()?, likely().max()?);
    // Between the points, nothing was tried.
    let low = starts[first.saturating_sub(1)];
    let high = starts.get(last + 1).copied().unwrap_or(longest);
    Some((best, MarkingThreshold { low, high, is_gradual: true }))
}

fn ramp_log_likelihood(sorted: &[DelaySample], start: Span, end: Span) -> f64 {
    let (start, width) = (start.as_secs_f64(), (end - start).as_secs_f64());
    let log = |sample: &DelaySample| {
        let marked = (sample.delay.as_secs_f64() - start) / width;
        let marked = marked.clamp(1.0 - MAX_CERTAINTY, MAX_CERTAINTY);
        if sample.is_marked { marked.ln() } else { (1.0 - marked).ln() }
    };
    sorted.iter().map(log).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    /// Delays that grow to 20 ms, with errors of up to 20 µs and one in a hundred of several ms, and marks with this probability.
    fn samples(seed: u64, probability: impl Fn(f64) -> f64) -> Vec<DelaySample> {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let sample = |number: i64| {
            let delay = Span::from_micros(100 * number);
            let is_marked = random.random_bool(probability(delay.as_secs_f64() * 1e3));
            let outlier = if random.random_bool(0.01) { random.random_range(0..5_000) } else { 0 };
            DelaySample { delay: delay + Span::from_micros(random.random_range(0..20) + outlier), is_marked }
        };
        (0..200).map(sample).collect()
    }

    /// How often the threshold, in milliseconds, is in the interval, which is no wider than this.
    fn covered(threshold: f64, max_width: f64, probability: impl Fn(f64) -> f64 + Copy) -> usize {
        let covers = |seed: &u64| {
            let Some(found) = find_threshold(&samples(*seed, probability)) else { return false };
            let [low, high] = [found.low, found.high].map(|span| span.as_secs_f64() * 1e3);
            assert!(high - low <= max_width, "{seed}: {found:?}");
            low - 0.02 <= threshold && threshold <= high
        };
        (0..100).filter(covers).count()
    }

    #[test]
    fn a_step_is_found_between_two_packets_and_a_ramp_within_its_resolution() {
        for threshold in [0.5, 1.0, 5.0, 15.0] {
            let step = |delay: f64| f64::from(u8::from(delay > threshold));
            assert!(covered(threshold, 1.2, step) >= 99, "{threshold}");
        }
        for threshold in [6.0, 15.0] {
            // A part of the packets above it.
            let some = |delay: f64| if delay > threshold { 0.3 } else { 0.0 };
            assert!(covered(threshold, 6.0, some) >= 97, "{threshold}");
        }
        let ramp = |delay: f64| ((delay - 2.0) / 8.0).clamp(0.0, 1.0);
        let found = covered(2.0, 5.5, ramp);
        assert!(found >= 95, "{found}");
    }

    #[test]
    fn marks_that_have_nothing_to_do_with_the_delay_have_no_threshold() {
        let none = |probability: f64| {
            (0..300).filter(|seed| find_threshold(&samples(*seed, |_| probability)).is_some()).count()
        };
        assert_eq!([0.0, 0.01, 0.3, 1.0].map(none), [0; 4]);
        assert_eq!(find_threshold(&[]), None);
        let sample = DelaySample { delay: Span::ZERO, is_marked: true };
        assert_eq!(find_threshold(&[sample; 9]), None);
    }
}
