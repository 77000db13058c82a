//! Whether delays vary on the idle path by far more than queues explain: as on radio links, or where a host is busy. Trains then show
//! what looks like token buckets, flow queueing or a host that holds packets back.

use crate::delay;
use kumade_estimate::{Bound, BoundKind, Outcome, Reason};
use kumade_probe_train::Estimate;
use kumade_units::{Rate, Span, Time};

/// Cross traffic lets packets of an idle path wait for less than so many others, …
const MAX_WAITING_PACKETS: i64 = 5;
/// … and where packets of trains catch up with those before, waiting for more than so many has that same cause.
const MAX_CAUGHT_UP_PACKETS: i64 = 2;
pub(crate) const PACKET_BYTES: u64 = 1500;
/// Delays that vary at random from the least to the most change by a third of that on average.
const MIN_DELAY_CHANGES: i64 = 3;
/// Stamps and schedulers of ordinary hosts vary by less.
const MIN_VARIATION: Span = Span::from_micros(300);

/// Delays that differ by no more than this part of their variation are the same, but for the hosts.
const SAME_DELAY_DIVISOR: i64 = 30;
/// Delays drawn evenly, or as of a Poisson process, deviate by so much in less than one case of two hundred, in both ways together.
const MIN_STANDARD_DEVIATIONS: f64 = 5.0;
/// Packets arrive together when less than this part of the time between them is left.
const SIMULTANEOUS_DIVISOR: i64 = 20;
/// Packets of one idle train are sent less than so many of its intervals apart: a host may have held one up.
const MAX_INTERVALS: i64 = 2;

/// The outcome, and the fair share of one flow, with the right cause where delays on the idle path vary notably and there is no value, or
/// none that is believed since they hide queues: what seems to bound it then has this cause, too.
pub(crate) fn interpret_with_jitter(
    notable: Option<Span>,
    hides_queues: bool,
    outcome: Outcome,
    fair_share: Option<Estimate<Rate>>,
) -> (Outcome, Option<Estimate<Rate>>) {
    // A path that is nearly full has long queues.
    let is_full = matches!(outcome.bound, Some(Bound::AtMost(_, BoundKind::NearlyFull)));
    let is_told = !hides_queues && (outcome.available.is_some() || is_full);
    let Some(variation) = notable.filter(|_| !is_told) else {
        return (outcome, fair_share);
    };
    let reason = Some(Reason::IdleDelaysVary(variation));
    (Outcome { available: None, bound: None, reason, spread: None, ..outcome }, None)
}

/// The variation of delays on the idle path, where queues before a link of the rate `narrow` do not explain it. `is_catching_up` tells
/// whether packets of trains catch up with those before.
pub(crate) fn notable_variation(variation: Option<Span>, is_catching_up: bool, narrow: Option<Rate>) -> Option<Span> {
    let packets = if is_catching_up { MAX_CAUGHT_UP_PACKETS } else { MAX_WAITING_PACKETS };
    let queued = narrow?.time_for(PACKET_BYTES) * packets;
    variation.filter(|variation| *variation >= MIN_VARIATION.max(queued))
}

/// Whether delays change as much from one idle packet to the next, which queues that TCP connections fill do not. `change` is what the
/// median one is.
pub(crate) fn is_explained_by_packets(change: Option<Span>, narrow: Option<Rate>) -> bool {
    notable_variation(change.map(|change| change * MIN_DELAY_CHANGES), false, narrow).is_some()
}

/// Whether these delays of packets on the idle path, in the order in which they were sent, are those of a queue that others fill at times: more of
/// them than by chance are the least, as where packets find it empty, and more fall than rise, as where it drains while several pass.
pub(crate) fn is_explained_by_queue(idle: &[(Time, Span)]) -> bool {
    let mut delays: Vec<Span> = idle.iter().map(|(_, delay)| *delay).collect();
    delays.sort_unstable();
    let Some(variation) = delay::delay_variation(&delays) else { return false };
    let same = variation / SAME_DELAY_DIVISOR;
    let least = delays.partition_point(|delay| *delay - delays[0] <= same);
    // Of delays spread evenly, so many are as short as the least by chance; that they are rare makes this a Poisson distribution.
    let by_chance = (delays.len() - 1) as f64 * 0.75 / SAME_DELAY_DIVISOR as f64;
    let empty = ((least - 1) as f64 - by_chance) / by_chance.sqrt();
    empty + falling_deviations(idle, same) >= MIN_STANDARD_DEVIATIONS
}

/// By how many standard deviations more delays fall from one packet to the next than half of them, as do delays drawn at random (descents of a
/// permutation). Differences up to `same` do not count, nor do packets that arrive together: they were held back, which no queue does.
fn falling_deviations(idle: &[(Time, Span)], same: Span) -> f64 {
    let trains = idle.chunk_by(|before, next| next.0 - before.0 < delay::MAX_IDLE_INTERVAL * MAX_INTERVALS);
    let (mut falls, mut rises, mut variance) = (0.0, 0.0, 0.0);
    for train in trains {
        variance += (train.len() + 1) as f64 / 12.0;
        for pair in train.windows(2) {
            let (interval, change) = (pair[1].0 - pair[0].0, pair[1].1 - pair[0].1);
            let is_together = interval + change <= interval / SIMULTANEOUS_DIVISOR;
            rises += if change > same { 1.0 } else { 0.0 };
            falls += if change < -same && !is_together { 1.0 } else { 0.0 };
        }
    }
    (falls - rises) / 2.0 / f64::sqrt(variance)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn delays_that_vary_are_the_cause_where_there_is_no_value() {
        let rate = Rate::from_mbit(20);
        let refused = Outcome {
            available: None,
            bound: Some(Bound::AtMost(rate, BoundKind::FlowQueueing)),
            reason: Some(Reason::FairShareOfFlow),
            spread: None,
            capacity: Some(Rate::from_mbit(50)),
            tight_link: None,
            hidden_bucket: None,
            refused: None,
            trains_used: 5,
            trains_rejected: BTreeMap::new(),
            warnings: Vec::new(),
        };
        let share = Some(Estimate { value: rate, low: rate, high: rate, confidence: 0.95 });
        let variation = |millis| notable_variation(Some(Span::from_millis(millis)), false, refused.capacity);
        let (found, none) = interpret_with_jitter(variation(4), false, refused.clone(), share);
        assert_eq!((found.bound, none), (None, None));
        assert_eq!(found.reason, Some(Reason::IdleDelaysVary(Span::from_millis(4))));
        // Five packets of cross traffic take 1.2 ms.
        assert_eq!(interpret_with_jitter(variation(1), true, refused.clone(), share), (refused.clone(), share));
        let full = Outcome { bound: Some(Bound::AtMost(rate, BoundKind::NearlyFull)), ..refused.clone() };
        assert_eq!(interpret_with_jitter(variation(4), false, full.clone(), None), (full, None));
        let value = Outcome { available: share, reason: None, bound: None, ..refused.clone() };
        assert_eq!(interpret_with_jitter(variation(4), false, value.clone(), None), (value.clone(), None));
        assert_eq!(interpret_with_jitter(variation(4), true, value, share).0.available, None);
    }

    /// Packets of idle trains, eight in each, 3 ms apart, with these delays in µs.
    fn idle(delays: impl IntoIterator<Item = i64>) -> Vec<(Time, Span)> {
        let sent = |i: i64| Time::from_nanos(((i / 8) * 50 + (i % 8) * 3) * 1_000_000);
        delays.into_iter().zip(0..).map(|(delay, i)| (sent(i), Span::from_micros(delay))).collect()
    }

    /// As measured: HTB at 100 Mbit/s beside two threads that never sleep, with 60 and 20 Mbit/s available.
    #[test]
    fn cross_traffic_of_a_busy_host_makes_a_queue_and_no_jitter() {
        let often_empty = [
            5, 502, 3, 7, 1039, 6, 582, 2, 121, 1279, 80, 448, 51, 6, 287, 48, 570, 8, 1850, 536, 3, 638, 199, 3, 989,
            4, 188, 0, 1, 910, 105, 305,
        ];
        let draining = [
            0, 2032, 1295, 1147, 695, 2, 2272, 1664, 2983, 2271, 1321, 1089, 126, 1329, 733, 1, 1510, 924, 315, 1464,
            915, 148, 1068, 466, 329, 1227, 513, 4, 932, 332, 181, 1135,
        ];
        assert!(is_explained_by_queue(&idle(often_empty)) && is_explained_by_queue(&idle(draining)));
        assert!(!is_explained_by_queue(&[]));
    }

    #[test]
    fn delays_drawn_at_random_are_hardly_ever_those_of_a_queue() {
        let mut state = 1_u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as f64 / (1_u64 << 31) as f64
        };
        for count in [8, 16, 32] {
            let even = (0..2000)
                .filter(|_| is_explained_by_queue(&idle((0..count).map(|_| (random() * 4000.0) as i64))))
                .count();
            let exponential = |random: f64| (-(1.0 - random).ln() * 1500.0) as i64;
            let skewed =
                (0..2000).filter(|_| is_explained_by_queue(&idle((0..count).map(|_| exponential(random()))))).count();
            assert!(even <= 10 && skewed <= 20, "{count}: {even} and {skewed} of 2000");
        }
    }

    /// A link that serves what has gathered every 10 ms: delays fall by as much as packets are sent apart.
    #[test]
    fn packets_that_are_held_back_and_arrive_together_are_no_queue() {
        let held = (0..32).map(|i| 9000 - (i / 8 * 1700 + (i % 8) * 3000) % 9001);
        assert!(!is_explained_by_queue(&idle(held)));
    }
}
