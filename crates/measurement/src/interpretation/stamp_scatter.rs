//! What stamps that scatter leave of a value: a rate is a train's bytes by the time between two stamps.

use kumade_estimate::{Bound, Capacity, CapacityReason, Outcome, Reason, Shaper};
use kumade_probe_train::Estimate;
use kumade_units::{Rate, Span};

/// A value is refused where stamps alone make it uncertain by more than this part of it: by choice, a wider interval than from three quarters to
/// five quarters of a value does not pass for a value.
pub(crate) const MAX_RELATIVE_ERROR: f64 = 0.25;

/// How far stamps of a host that reads a clock for each packet may be off, and what that means for trains.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StampError {
    /// By how much they differ from each other.
    pub scatter: Span,
    /// Within which time trains arrive.
    pub train: Span,
    /// The rate of the narrow link, or where none is known the fastest of whole trains: a few packets in a row arrive as fast as the path's own jitter
    /// has it, which is no matter of the stamps.
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

/// The capacity and its token bucket with the intervals that the stamps allow, before anything follows from them. Where these do not suffice for
/// a rate, that is the reason: there is no value then, and the report has no bound and no token bucket of which too little is known. What bursts average
/// out to is not counted on.
pub(crate) fn widen_capacity(scatter: Span, found: Capacity) -> Capacity {
    if scatter == Span::ZERO {
        return found;
    }
    let arrival_time = |rate: Rate, bits: f64| Span::from_secs_f64(bits.max(0.0) / rate.as_f64().max(1.0));
    let error = |rate: Rate, bits: f64| relative_error(scatter, arrival_time(rate, bits));
    let widened = |rate: Estimate<Rate>, bits: f64| widen(rate, rate.value.as_f64() * error(rate.value, bits));
    let burst_bits = found.median_burst_bits;
    // A bucket of a few packets shows in bursts already; a larger one behind as many bits as pass at once.
    let bits = match found.shaper.filter(|_| !found.has_small_bucket) {
        Some(shaper) => found.median_train_bits - 8.0 * shaper.burst_bytes.value as f64,
        None => burst_bits,
    };
    let peak_rate = found.shaper.and_then(|shaper| shaper.peak_rate);
    let bottleneck = found.bottleneck_rate.map(|rate| (rate.value, bits));
    let others = [found.lower_bound, peak_rate.map(|rate| rate.value)].map(|rate| Some((rate?, burst_bits)));
    let is_too_coarse = |(rate, bits): &(Rate, f64)| error(*rate, *bits) > MAX_RELATIVE_ERROR;
    let coarse = bottleneck.into_iter().chain(others.into_iter().flatten()).find(is_too_coarse);
    let shaper = found.shaper.map(|shaper| {
        let margin = peak_rate.unwrap_or(shaper.committed_rate).value.bytes_in(scatter * 2);
        let Estimate { low, high, .. } = shaper.burst_bytes;
        let burst_bytes = Estimate { low: low.saturating_sub(margin), high: high + margin, ..shaper.burst_bytes };
        let peak_rate = peak_rate.map(|rate| widened(rate, burst_bits));
        Shaper { peak_rate, committed_rate: widened(shaper.committed_rate, bits), burst_bytes }
    });
    // Where the report has none, a sender is still known to be slow.
    let least = |rate: Rate| Rate::from_f64(rate.as_f64() * (1.0 - error(rate, burst_bits).min(MAX_RELATIVE_ERROR)));
    let known = found.bottleneck_rate.filter(|rate| !is_too_coarse(&(rate.value, bits)));
    Capacity {
        bottleneck_rate: known.map(|rate| widened(rate, bits)),
        lower_bound: found.lower_bound.map(least),
        reason: coarse
            .map(|(rate, bits)| CapacityReason::CoarseStamps(scatter, arrival_time(rate, bits)))
            .or(found.reason),
        burst_rate_error: found.fastest_burst_rate.map_or(0.0, |rate| error(rate, burst_bits)),
        shaper,
        ..found
    }
}

/// With so much more on either side, if both are independent.
pub(crate) fn widen(found: Estimate<Rate>, margin: f64) -> Estimate<Rate> {
    let [low, value, high] = [found.low, found.value, found.high].map(Rate::as_f64);
    let low = Rate::from_f64((value - (value - low).hypot(margin)).max(0.0));
    let high = Rate::from_f64(value + (high - value).hypot(margin));
    Estimate { low, high, ..found }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interpretation::utilization;
    use crate::report::CapacityReport;
    use crate::series::Cost;
    use kumade_estimate::BoundKind;
    use std::collections::BTreeMap;

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

    /// Of bursts of ten packets at 20 Mbit/s, 6 ms, and long trains of 300, of which a bucket of 100 passes at once.
    fn capacity(shaper: Option<Shaper>) -> Capacity {
        let bottleneck_rate = Some(shaper.map_or(rates(20), |shaper| shaper.committed_rate));
        Capacity {
            bottleneck_rate,
            lower_bound: None,
            is_indefinite: false,
            reason: None,
            is_sender_limited: false,
            shaper,
            fastest_burst_rate: Some(Rate::from_mbit(20)),
            waiting_fraction: None,
            is_disordered: false,
            has_small_bucket: false,
            may_be_round_robin: true,
            slowest_long_train_rate: None,
            fastest_long_train_rate: None,
            median_burst_bits: 120e3,
            median_train_bits: 3.6e6,
            burst_rate_error: 0.0,
            bursts_used: 20,
            trains_rejected: BTreeMap::new(),
        }
    }

    fn rates(mbit: u64) -> Estimate<Rate> {
        outcome(Rate::from_mbit(mbit)).available.unwrap()
    }

    fn shaped(peak_mbit: u64, burst_bytes: u64) -> Capacity {
        let burst_bytes = Estimate { value: burst_bytes, low: burst_bytes, high: burst_bytes, confidence: 0.95 };
        capacity(Some(Shaper { peak_rate: Some(rates(peak_mbit)), committed_rate: rates(10), burst_bytes }))
    }

    fn reported(found: Capacity) -> CapacityReport {
        CapacityReport::new(found, false, &Cost::default())
    }

    #[track_caller]
    fn assert_coarse(report: &CapacityReport, millis: i64) {
        let is_named =
            matches!(report.reason, Some(CapacityReason::CoarseStamps(by, _)) if by == Span::from_millis(millis));
        assert!(is_named, "{report:?}");
    }

    /// Half of the width, as part of the value.
    fn part(found: Estimate<Rate>) -> f64 {
        (found.high.as_f64() - found.low.as_f64()) / 2.0 / found.value.as_f64()
    }

    #[test]
    fn a_capacity_is_as_uncertain_as_a_burst_is_short() {
        assert_eq!(widen_capacity(Span::ZERO, capacity(None)), capacity(None));
        let found = widen_capacity(Span::from_micros(300), capacity(None));
        let wide = found.bottleneck_rate.unwrap();
        // Twice 0.3 ms of 6 ms, and the 2 % that it was uncertain before.
        assert!((part(wide) - 0.1_f64.hypot(0.02)).abs() < 1e-3, "{wide:?}");
        assert!(found.reason.is_none() && (found.burst_rate_error - 0.1).abs() < 1e-3);
        let withdrawn = widen_capacity(Span::from_millis(1), capacity(None));
        assert_eq!((withdrawn.bottleneck_rate, withdrawn.shaping()), (None, kumade_estimate::Shaping::Unknown));
        let reason = CapacityReason::CoarseStamps(Span::from_millis(1), Span::from_millis(6));
        assert_eq!(withdrawn.reason, Some(reason));
        assert_eq!(utilization::narrow_link_rate(&withdrawn), None, "nor do bursts tell it otherwise");
    }

    #[test]
    fn a_committed_rate_is_as_uncertain_as_what_arrives_at_it_is_short() {
        let scatter = Span::from_millis(1);
        // 3.6 Mbit less 1.2 Mbit take 240 ms; at the peak rate bursts take 6 ms, which is too little.
        let found = widen_capacity(scatter, shaped(20, 150_000));
        assert!((part(found.bottleneck_rate.unwrap()) - 0.02_f64.hypot(2.0 / 240.0)).abs() < 1e-4, "{found:?}");
        assert_eq!(found.shaper.unwrap().committed_rate, found.bottleneck_rate.unwrap());
        let report = reported(found);
        assert_coarse(&report, 1);
        let shaper = report.shaper.unwrap();
        assert_eq!(shaper.peak_rate, None);
        // 2 ms at the peak rate.
        assert_eq!((shaper.burst_bytes.low, shaper.burst_bytes.high), (145_000, 155_000));
        assert!(report.to_string().contains("peak rate unknown (time stamps of this host scatter by 1 ms"), "{report}");
        // Hardly anything is behind a bucket of 449 kB, and the method still knows that there is one.
        let hidden = widen_capacity(scatter, shaped(20, 449_000));
        assert!(matches!(hidden.shaping(), kumade_estimate::Shaping::Shaped(_)) && hidden.bottleneck_rate.is_none());
        let report = reported(hidden);
        assert_coarse(&report, 1);
        assert_eq!(report.shaper, None);
        let small = Capacity { has_small_bucket: true, ..shaped(20, 4_500) };
        let found = widen_capacity(Span::from_micros(300), small).bottleneck_rate.unwrap();
        assert!((part(found) - 0.05_f64.hypot(0.02)).abs() < 1e-3, "bursts of 12 ms: {found:?}");
    }

    #[test]
    fn a_bound_of_the_capacity_gives_way_or_is_withdrawn_with_the_reason() {
        let slow = Rate::from_mbit(20);
        let bounded = || Capacity {
            bottleneck_rate: None,
            lower_bound: Some(slow),
            is_sender_limited: true,
            reason: Some(CapacityReason::SendingSlower(slow)),
            ..capacity(None)
        };
        let reduced = reported(widen_capacity(Span::from_micros(300), bounded()));
        assert_eq!(reduced.at_least_bits_per_second, Some(Rate::from_mbit(18)));
        assert_eq!(reduced.reason, Some(CapacityReason::SendingSlower(slow)));
        let coarse = widen_capacity(Span::from_millis(1), bounded());
        let report = reported(coarse.clone());
        assert_coarse(&report, 1);
        assert_eq!(report.at_least_bits_per_second, None);
        // The sender is slow all the same: no value is believed above half of what it sends.
        let refused = coarse.refuse_above_capacity(outcome(Rate::from_mbit(19)), None);
        assert!(matches!(refused.reason, Some(Reason::FasterThanSender(_))), "{refused:?}");
    }

    #[test]
    fn nothing_else_is_named_as_the_reason_later() {
        let coarse = reported(widen_capacity(Span::from_millis(1), capacity(None)));
        let carried = Some(Bound::AtLeast(Rate::from_mbit(15), BoundKind::Sender));
        for outcome in [
            Outcome { capacity: Some(Rate::from_mbit(20)), ..outcome(Rate::from_mbit(9)) },
            Outcome { bound: carried, ..Outcome::without_value(Reason::NearlyFull) },
        ] {
            let mut report = coarse.clone();
            report.warn_if_below_bursts(&outcome);
            assert_eq!(report, coarse);
        }
    }
}
