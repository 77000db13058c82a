//! What stamps that scatter leave of a value: a rate is a train's bytes by the time between two stamps.

use crate::report::{CapacityReport, ShaperReport};
use kumade_estimate::{Bound, Capacity, CapacityReason, Outcome, Reason};
use kumade_probe_train::Estimate;
use kumade_units::{Rate, Span};

/// A value is refused where stamps alone make it uncertain by more than this part of it: by choice, a wider interval than from three quarters to
/// five quarters of a value does not pass for a value.
const MAX_RELATIVE_ERROR: f64 = 0.25;

/// How far stamps of a host that reads a clock for each packet may be off, and what that means for trains.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StampError {
    /// By how much they differ from each other.
    pub scatter: Span,
    /// Within which time trains arrive.
    pub train: Span,
    /// The rate of the narrow link, or the fastest that was seen, where none is known.
    pub narrow_link: Option<Rate>,
}

impl StampError {
    /// By which part the rate of a train may be off.
    fn relative_error(&self) -> f64 {
        relative_error(self.scatter, self.train)
    }
}

/// By which part the rate may be off of what arrived within this time: at either end.
fn relative_error(scatter: Span, arrival_time: Span) -> f64 {
    2.0 * scatter.as_secs_f64() / arrival_time.as_secs_f64().max(1e-9)
}

/// The outcome with the interval and the bound that the stamps allow, and the fair share of one flow; none of them where they do not suffice.
pub(crate) fn widen_by_scatter(
    stamps: &StampError,
    outcome: Outcome,
    fair_share: Option<Estimate<Rate>>,
) -> (Outcome, Option<Estimate<Rate>>) {
    if stamps.scatter == Span::ZERO {
        return (outcome, fair_share);
    }
    let error = stamps.relative_error();
    let is_too_coarse = error > MAX_RELATIVE_ERROR;
    // What is available is the difference of two rates, of which that of the link is the larger one.
    let margin = |found: Estimate<Rate>| {
        let largest = [Some(found.value), outcome.capacity, stamps.narrow_link].into_iter().flatten().max();
        largest.unwrap_or(found.value).as_f64() * error
    };
    let is_vague = |found: Estimate<Rate>| margin(found) > MAX_RELATIVE_ERROR * found.value.as_f64();
    let is_withdrawn = is_too_coarse && (outcome.bound.is_some() || fair_share.is_some());
    if outcome.available.is_some_and(is_vague) || is_withdrawn {
        let reason = Some(Reason::CoarseStamps(stamps.scatter, stamps.train));
        return (Outcome { available: None, bound: None, reason, spread: None, ..outcome }, None);
    }
    let available = outcome.available.map(|found| widen(found, margin(found)));
    let bound = outcome.bound.map(|bound| match bound {
        Bound::AtLeast(rate, kind) => Bound::AtLeast(Rate::from_f64(rate.as_f64() * (1.0 - error)), kind),
        Bound::AtMost(rate, kind) => Bound::AtMost(Rate::from_f64(rate.as_f64() * (1.0 + error)), kind),
    });
    let fair_share = fair_share.map(|share| widen(share, share.value.as_f64() * error));
    (Outcome { available, bound, ..outcome }, fair_share)
}

/// The capacity and its token bucket with the intervals that the stamps allow; none of them where they do not suffice. What bursts average out
/// to is not counted on.
pub(crate) fn widen_capacity(scatter: Span, found: &Capacity, report: CapacityReport) -> CapacityReport {
    if scatter == Span::ZERO {
        return report;
    }
    let error = |rate: Rate, bits: f64| relative_error(scatter, Span::from_secs_f64(bits / rate.as_f64().max(1.0)));
    let widened = |rate: Estimate<Rate>, bits: f64| {
        let part = error(rate.value, bits);
        (part <= MAX_RELATIVE_ERROR).then(|| widen(rate, rate.value.as_f64() * part))
    };
    // A bucket of a few packets shows in bursts already.
    let has_large_bucket = found.shaper.is_some() && !found.has_small_bucket;
    let bits = if has_large_bucket { found.longest_train_bits } else { found.longest_burst_bits };
    let bottleneck = report.bottleneck_bits_per_second.and_then(|rate| widened(rate, bits));
    let bound = report.at_least_bits_per_second.map(|rate| (rate, error(rate, found.longest_burst_bits)));
    let bound = bound.filter(|(_, part)| *part <= MAX_RELATIVE_ERROR);
    let shaper = report.shaper.and_then(|shaper| {
        let peak_rate = shaper.peak_rate.and_then(|rate| widened(rate, found.longest_burst_bits));
        let passing = shaper.peak_rate.unwrap_or(shaper.committed_rate).value;
        let Estimate { low, high, .. } = shaper.burst_bytes;
        let margin = passing.bytes_in(scatter * 2);
        let burst_bytes = Estimate { low: low.saturating_sub(margin), high: high + margin, ..shaper.burst_bytes };
        Some(ShaperReport { peak_rate, committed_rate: widened(shaper.committed_rate, bits)?, burst_bytes, ..shaper })
    });
    let withdrawn = report.bottleneck_bits_per_second.filter(|_| bottleneck.is_none()).map(|rate| {
        let arrival_time = Span::from_secs_f64(bits / rate.value.as_f64().max(1.0));
        CapacityReason::CoarseStamps(scatter, arrival_time)
    });
    CapacityReport {
        bottleneck_bits_per_second: bottleneck,
        at_least_bits_per_second: bound.map(|(rate, part)| Rate::from_f64(rate.as_f64() * (1.0 - part))),
        reason: withdrawn.or(report.reason),
        shaper,
        ..report
    }
}

fn widen(found: Estimate<Rate>, margin: f64) -> Estimate<Rate> {
    let [low, value, high] = [found.low, found.value, found.high].map(Rate::as_f64);
    let low = Rate::from_f64((value - (value - low).hypot(margin)).max(0.0));
    let high = Rate::from_f64(value + (high - value).hypot(margin));
    Estimate { low, high, ..found }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_estimate::BoundKind;

    const TRAIN: Span = Span::from_millis(100);

    fn outcome(value: Rate) -> Outcome {
        let [low, high] = [0.98, 1.02].map(|part| Rate::from_f64(value.as_f64() * part));
        let available = Some(Estimate { value, low, high, confidence: 0.95 });
        Outcome { available, reason: None, trains_used: 9, ..Outcome::without_value(Reason::NearlyFull) }
    }

    fn widened_outcome(stamps: &StampError, outcome: Outcome) -> Outcome {
        widen_by_scatter(stamps, outcome, None).0
    }

    fn scattering_by(scatter: Span) -> StampError {
        StampError { scatter, train: TRAIN, narrow_link: Some(Rate::from_mbit(100)) }
    }

    #[test]
    fn intervals_widen_with_the_scatter_until_there_is_no_value() {
        let found = outcome(Rate::from_mbit(50));
        assert_eq!(widened_outcome(&scattering_by(Span::ZERO), found.clone()), found);
        let mut widths = Vec::new();
        for micros in [100, 500, 2_000, 6_000] {
            let widened = widened_outcome(&scattering_by(Span::from_micros(micros)), found.clone()).available.unwrap();
            assert_eq!(widened.value, Rate::from_mbit(50));
            widths.push(widened.high.as_f64() - widened.low.as_f64());
        }
        assert!(widths[0] > 2e6 && widths.is_sorted());
        let refused = widened_outcome(&scattering_by(Span::from_millis(7)), found);
        let reason = Some(Reason::CoarseStamps(Span::from_millis(7), TRAIN));
        assert_eq!((refused.available, refused.reason, refused.trains_used), (None, reason, 9));
    }

    #[test]
    fn little_that_is_left_of_a_fast_link_is_as_uncertain_as_the_link() {
        let stamps = scattering_by(Span::from_micros(500));
        assert_eq!(widened_outcome(&stamps, outcome(Rate::from_mbit(3))).available, None);
        let widened = widened_outcome(&stamps, outcome(Rate::from_mbit(10))).available.unwrap();
        assert!(
            widened.low < Rate::from_bits_per_second(9_010_000)
                && widened.high > Rate::from_bits_per_second(10_990_000),
            "{widened:?}"
        );
    }

    #[test]
    fn bounds_give_way() {
        let bounded = |bound| Outcome { bound: Some(bound), ..Outcome::without_value(Reason::NearlyFull) };
        let (rate, kind) = (Rate::from_mbit(50), BoundKind::Sender);
        let stamps = scattering_by(Span::from_millis(1));
        let least = widened_outcome(&stamps, bounded(Bound::AtLeast(rate, kind))).bound;
        assert_eq!(least, Some(Bound::AtLeast(Rate::from_mbit(49), kind)));
        let most = widened_outcome(&stamps, bounded(Bound::AtMost(rate, kind))).bound;
        assert_eq!(most, Some(Bound::AtMost(Rate::from_mbit(51), kind)));
        assert_eq!(widened_outcome(&scattering_by(TRAIN), bounded(Bound::AtLeast(rate, kind))).bound, None);
    }

    #[test]
    fn a_fair_share_is_none_of_coarse_stamps() {
        let share = outcome(Rate::from_mbit(20)).available;
        let refused = || Outcome::without_value(Reason::FairShareOfFlow);
        let (told, widened) = widen_by_scatter(&scattering_by(Span::from_millis(1)), refused(), share);
        assert_eq!(told.reason, Some(Reason::FairShareOfFlow));
        assert!(widened.unwrap().high > share.unwrap().high && widened.unwrap().low < share.unwrap().low);
        let (told, withdrawn) = widen_by_scatter(&scattering_by(TRAIN), refused(), share);
        assert_eq!((told.reason, withdrawn), (Some(Reason::CoarseStamps(TRAIN, TRAIN)), None));
        let lost = Outcome::without_value(Reason::NearlyFull);
        assert_eq!(widened_outcome(&scattering_by(TRAIN), lost.clone()), lost);
    }
}
