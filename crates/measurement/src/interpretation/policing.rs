//! Whether what short trains found lasts: what is tried, and what follows for the result.

use crate::plan::MeasurementPlan;
use crate::series::{Cost, DeliveredTrain};
use kumade_estimate::{
    Bound, BoundKind, Capacity, ExcessAction, Outcome, PolicerOrShaper, PolicingConfig, PolicingProbe, PolicingResult,
    Reason, RequestedBudget, Warning,
};
use kumade_probe_train::{Estimate, Train, TrainRecord, Transport};
use kumade_units::{Rate, Span};
use std::collections::BTreeSet;

/// The part of the least that is believed to be available at which the longer train is sent.
const TRIED_PART: f64 = 0.95;
/// Where packets are lost, what seems to be available is tried itself, if it is so many times the least.
const CLEARLY_MORE_RATIO: f64 = 1.04;
/// Longer trains leave more slowly than short ones below this part of what was planned.
const SLOWER_RATIO: f64 = 0.98;
/// Below this part of what short trains could be sent at, longer ones were held up.
const HELD_UP_RATE_PART: f64 = 0.3;
/// Less cross traffic than this part of the narrow link does not tell how fast the tight link is.
const MIN_CROSS_PART: f64 = 0.1;
/// A train of which a larger part of the packets has no receive stamps tells nothing.
const MAX_UNSTAMPED_PART: f64 = 0.7;
/// At such a rate and above, hosts build queues as links do.
const HOST_LIMITED_RATE: Rate = Rate::from_mbit(500);
/// Where the tight link is not the narrow one, a bucket is slower than this part of the latter; else it is that link itself.
const MAX_BUCKET_PART: f64 = 0.5;
/// A bucket that fills at less than this part of the link's rate is not the link: long trains show that rate within a tenth (as in
/// `MAX_LONG_TRAIN_RATIO` of the look at the link).
const MIN_PART_OF_LINK: f64 = 0.9;
/// What arrives of a part of a train may be less than what lasts, by chance.
const DELIVERED_MARGIN_RATIO: f64 = 1.15;
/// IP bytes of a direction, unless the user has requested a budget: only links of many Gbit/s take nearly as much.
const MAX_BYTES: u64 = 60_000_000;
/// Those of all longer trains, …
const BUDGET_BYTES: u64 = 10_000_000;
/// … and where other trains hint at a large token bucket.
const HINTED_BUDGET_BYTES: u64 = 16_000_000;
/// All longer trains take less than this, unless the user has requested a shorter time.
const MAX_TIME: Span = Span::from_secs(60);
/// Such a bucket is used up at so many times the rate at which trains arrived in the end.
const HINTED_RATE_RATIO: f64 = 5.0;

/// What the longer trains are subject to.
pub(crate) struct PolicingLimits {
    /// Of the transport, in bytes.
    pub(crate) max_packet: u32,
    /// Open TCP connections; none for UDP.
    pub(crate) connections: Option<u32>,
    /// What was spent so far.
    pub(crate) spent: Cost,
    /// See [`PolicingConfig::min_delay`].
    pub(crate) min_delay: Option<Span>,
    /// Whether packets arrive in batches, which looks like a token bucket.
    pub(crate) is_batched: bool,
    /// Whether packets catch up with those before: in batches or one by one.
    pub(crate) is_catching_up: bool,
    /// See [`PolicingConfig::idle_delay_variation`].
    pub(crate) idle_variation: Span,
    /// See [`PolicingConfig::is_lossy`].
    pub(crate) is_lossy: bool,
    /// Whether trains lost packets.
    pub(crate) has_lost: bool,
}

impl PolicingLimits {
    /// The longest train, in packets.
    pub(crate) fn max_packets(&self) -> u32 {
        self.connections
            .map_or(Train::MAX_PACKETS, |connections| connections.saturating_mul(Transport::MAX_PACKETS_PER_CONNECTION))
    }

    /// IP bytes that are left of the requested budget, or of what a measurement takes at most.
    pub(crate) fn bytes_left(&self, requested: Option<u64>) -> u64 {
        requested.unwrap_or(MAX_BYTES).saturating_sub(self.spent.bytes)
    }
}

/// The trial of what was found; none where nothing was, or the budget is spent.
pub(crate) fn plan_probe(
    capacity: &Capacity,
    outcome: &Outcome,
    plan: &MeasurementPlan,
    limits: &PolicingLimits,
) -> Option<PolicingProbe> {
    let RequestedBudget { bytes, time } = plan.budget;
    let hint = outcome.hidden_bucket.filter(|_| !limits.is_batched);
    let is_bucket_hinted = hint.is_some();
    let most = if is_bucket_hinted { HINTED_BUDGET_BYTES } else { BUDGET_BYTES };
    // Whoever allows for more wants to know of larger buckets, of which half of it leaves enough to tell what they let pass in the end.
    let left = limits.bytes_left(bytes);
    let least_bytes = bytes.map_or(0, |_| left / 2);
    let budget_bytes = bytes.map_or(left.min(most), |_| left);
    // A long train would take most of what others have on a path that is nearly full, and tell nothing.
    let is_full = outcome.bound.is_some_and(|bound| bound.kind() == BoundKind::NearlyFull);
    if is_full || time.is_some_and(|time| limits.spent.duration + Span::from_secs(1) > time) {
        return None;
    }
    let narrow = capacity.bottleneck_rate.map(|capacity| capacity.value).or(outcome.capacity);
    // A lower bound by what could be sent is of short trains, too.
    let carried = outcome.bound.filter(|bound| bound.kind() == BoundKind::Sender).and_then(|bound| bound.lower_bound());
    // But no faster than the bucket passes bursts.
    let burst = [capacity.bottleneck_rate.map(|link| link.value), capacity.lower_bound, capacity.fastest_burst_rate];
    let burst = burst.into_iter().flatten().max();
    let hinted = hint.map(|rate| Rate::from_f64(rate.as_f64() * HINTED_RATE_RATIO));
    let hinted = hinted.map(|rate| burst.map_or(rate, |burst| rate.min(burst)));
    let tried = outcome.available.map(|found| found.low).or(carried).or(hinted).or(narrow)?;
    let rate = Rate::from_f64(tried.as_f64() * TRIED_PART);
    let carries = |rate: Rate| narrow.map_or(rate, |narrow| rate.min(Rate::from_f64(TRIED_PART * narrow.as_f64())));
    let uncertain = outcome.available.filter(|found| found.value.as_f64() > CLEARLY_MORE_RATIO * found.low.as_f64());
    let faster = uncertain.map(|found| carries(found.value));
    let beyond =
        |rate: Rate| narrow.map_or(Rate::ZERO, |narrow| Rate::from_f64((narrow.as_f64() - rate.as_f64()).max(0.0)));
    (rate > Rate::ZERO).then(|| {
        PolicingProbe::new(PolicingConfig {
            rate,
            faster_rate: faster.filter(|_| limits.has_lost),
            max_cross_rate: beyond(rate),
            expected_cross_rate: beyond(outcome.available.map_or(rate, |found| found.value)),
            max_packet: limits.max_packet,
            max_packets: limits.max_packets(),
            connections: limits.connections,
            is_bucket_hinted,
            is_lossy: limits.is_lossy,
            arrives_one_by_one: !limits.is_catching_up,
            min_trial_bytes: least_bytes,
            budget_bytes,
            budget_time: time.map_or(MAX_TIME, |time| time - limits.spent.duration),
            spent_bytes: limits.spent.bytes,
            min_delay: limits.min_delay,
            idle_delay_variation: limits.idle_variation,
            seed: plan.seed,
        })
    })
}

/// The record of a longer train, in which packets that arrived without a stamp count as a part of the next one that has a stamp; none
/// where most have none. Over connections, a receiver that does not read as fast as packets come gets them joined, with one stamp for
/// all: the others would look as if they were dropped. And where many were dropped, only what was sent as planned is left.
pub(crate) fn usable_record(carried: &DeliveredTrain) -> Option<TrainRecord> {
    if carried.unstamped_packets.len() as f64 > MAX_UNSTAMPED_PART * carried.packets as f64 {
        return None;
    }
    let mut record = carried.record.clone();
    let mut joined = 0;
    let unstamped: BTreeSet<usize> = carried.unstamped_packets.iter().map(|place| *place as usize).collect();
    for (place, packet) in record.packets.iter_mut().enumerate() {
        if unstamped.contains(&place) && packet.received.is_none() {
            joined += if packet.sent.take().is_some() { packet.size } else { 0 };
        } else if packet.received.is_some() {
            packet.size = packet.size.saturating_add(std::mem::take(&mut joined));
        }
    }
    Some(if carried.connections > 0 { record.until_timeouts() } else { record })
}

/// What longer trains have found, but for a token bucket that fills as fast as short ones found the link to be: that is the link, whose queue
/// longer ones filled, as where others began to send during the first of them. (Where short ones found no value, a bucket may have passed them as fast as they were sent.)
pub(crate) fn without_bucket_of_link(found: PolicingResult, outcome: &Outcome) -> PolicingResult {
    match found {
        PolicingResult::Limited(PolicerOrShaper {
            excess_action,
            available: Some(_),
            committed_rate: Some(rate),
            sent_rate,
            ..
        }) if excess_action != Some(ExcessAction::Drops)
            && outcome.available.is_some()
            && outcome.capacity.is_some_and(|link| is_rate_of_link(rate, link)) =>
        {
            PolicingResult::Overloads { rate: sent_rate, available: None }
        }
        found => found,
    }
}

/// Whether a bucket fills as fast as a link of this rate, rather than being known so badly that it may.
fn is_rate_of_link(rate: Estimate<Rate>, link: Rate) -> bool {
    rate.high >= link && rate.value.as_f64() >= MIN_PART_OF_LINK * link.as_f64()
}

/// The outcome in the light of the longer trains.
pub(crate) fn interpret_policing(found: &PolicingResult, outcome: Outcome) -> Outcome {
    match found {
        PolicingResult::NotTried(_) | PolicingResult::PassesPartly { .. } => outcome,
        PolicingResult::Sustainable { rate, max_growth, .. } => lower_estimate(*rate, *max_growth, outcome),
        PolicingResult::Overloads { rate, available: Some(found) } => raise_to_grown_rate(*rate, *found, outcome),
        PolicingResult::Overloads { rate, available: None } => refuse_rate(*rate, outcome),
        PolicingResult::LosesPackets { rate } => {
            refuse_value(BoundKind::Loss, Reason::LossOfUnknownCause(*rate), outcome)
        }
        PolicingResult::Limited(limiter) => apply_limiter(limiter, outcome),
    }
}

/// Whether far more is believed to be available than what was found to last: sparse packets find tokens in a bucket, whatever passes in the
/// long run.
pub(crate) fn is_beyond_tried_rate(outcome: &Outcome, sustained: Option<&PolicingResult>) -> bool {
    const MAX_UNTRIED_RATIO: f64 = 2.0;
    match (sustained, outcome.available) {
        (Some(PolicingResult::Sustainable { rate, .. }), Some(found)) => {
            TRIED_PART * found.low.as_f64() > MAX_UNTRIED_RATIO * rate.as_f64()
        }
        // Nothing is tried where trains say that the path is nearly full.
        (None, found) => found.is_some(),
        _ => false,
    }
}

/// The same of an outcome that is a mean over long trains: a single one gives no bound where delays vary.
pub(crate) fn interpret_mean_rate(found: &PolicingResult, outcome: Outcome) -> Outcome {
    match found {
        PolicingResult::NotTried(_) | PolicingResult::PassesPartly { .. } => outcome,
        PolicingResult::Sustainable { rate, max_growth, .. } => lower_estimate(*rate, *max_growth, outcome),
        // Slower trains take it that only cross traffic varies.
        PolicingResult::Overloads { rate, .. } => Outcome { bound: None, ..refuse_rate(*rate, outcome) },
        other => Outcome { bound: None, ..interpret_policing(other, outcome) },
    }
}

/// Lowers the interval's low end where a growing queue may have gone unseen at this rate.
///
/// Let the narrow link carry C, and the tight link T, of which A is left. A train that keeps the narrow link busy makes the tight
/// link's queue grow by (C − A) / T seconds a second. Whoever takes it that this is the narrow link's reads from that what seemed
/// available, V: (C − V) / C. So T = C · (C − A) / (C − V), which is at most C² / (C − V); and at the tried rate, growth by g means
/// that g · T less is available.
fn lower_estimate(rate: Rate, max_growth: f64, outcome: Outcome) -> Outcome {
    let Some(found) = outcome.available else { return without_sender_bound_of_bursts(rate, outcome) };
    let [value, low, high] = [found.value, found.low, found.high].map(Rate::as_f64);
    let narrow = outcome.capacity.map_or(high, Rate::as_f64).max(high);
    let tight = narrow * narrow / (narrow - value).max(MIN_CROSS_PART * narrow);
    let unseen = (max_growth * tight - (low - rate.as_f64())).max(0.0);
    let low = Rate::from_f64((low - unseen).max(0.0));
    Outcome { available: Some(Estimate { low, ..found }), ..outcome }
}

/// What could be sent in short trains is no lower bound where longer ones left at less; where they left at far less, it is not known why.
fn without_sender_bound_of_bursts(rate: Rate, outcome: Outcome) -> Outcome {
    if let Some(Bound::AtLeast(least, BoundKind::Sender)) = outcome.bound
        && rate.as_f64() < HELD_UP_RATE_PART * least.as_f64()
    {
        return Outcome { bound: None, reason: Some(Reason::LongTrainsHeldUp(least, rate)), ..outcome };
    }
    let bound = outcome.bound.map(|bound| match bound {
        Bound::AtLeast(least, BoundKind::Sender) if rate.as_f64() < SLOWER_RATIO * TRIED_PART * least.as_f64() => {
            Bound::AtLeast(rate, BoundKind::Sender)
        }
        other => other,
    });
    Outcome { bound, ..outcome }
}

/// A queue grew at this rate.
fn refuse_rate(rate: Rate, outcome: Outcome) -> Outcome {
    refuse_value(BoundKind::QueueGrowth, Reason::LongTrainQueued(rate), outcome)
}

/// What slower trains have found, where a queue grew at this rate.
fn raise_to_grown_rate(rate: Rate, found: Estimate<Rate>, outcome: Outcome) -> Outcome {
    let mut warnings = outcome.warnings;
    warnings.push(Warning::QueueGrowth(rate));
    Outcome { available: Some(found), bound: None, reason: None, spread: None, warnings, ..outcome }
}

/// As much does not pass in the end as short trains have shown, for this reason.
fn refuse_value(kind: BoundKind, reason: Reason, outcome: Outcome) -> Outcome {
    let high = outcome.available.map(|found| Bound::AtMost(found.high, kind));
    // That so much passes was true of short trains only.
    let kept = outcome.bound.filter(|bound| bound.lower_bound().is_none());
    let is_refuted = outcome.bound != kept;
    Outcome {
        available: None,
        bound: high.or(kept),
        refused: outcome.available,
        reason: outcome.reason.filter(|_| !is_refuted).or(Some(reason)),
        spread: None,
        ..outcome
    }
}

fn apply_limiter(limiter: &PolicerOrShaper, outcome: Outcome) -> Outcome {
    let PolicerOrShaper {
        excess_action: policing,
        delivered_rate: delivered,
        sent_rate: sent,
        available_uncertainty: doubt,
        committed_rate,
        ..
    } = limiter;
    let available = limiter.available.filter(|_| !are_two_queues(limiter, &outcome));
    // As much arrived of other trains in the end.
    let delivered = outcome.hidden_bucket.map_or(*delivered, |rate| rate.max(*delivered));
    let most = Rate::from_f64(delivered.as_f64() * DELIVERED_MARGIN_RATIO + doubt.as_f64()).min(*sent);
    let is_host_possible = *policing != Some(ExcessAction::Drops) && *sent > HOST_LIMITED_RATE;
    // Where no later train tells what lasts, others may just have begun to send: before that, short trains found more.
    let is_confirmed = limiter.available.is_some() || *policing == Some(ExcessAction::Drops);
    if !is_confirmed && !is_host_possible && outcome.available.is_some() {
        return refuse_rate(*sent, outcome);
    }
    let reason = match is_host_possible {
        true => Reason::HeldUpSomewhere(*policing, delivered),
        false => Reason::DoesNotLast(*policing, most),
    };
    let bound = (!is_host_possible).then_some(Bound::AtMost(most, BoundKind::TokenBucket));
    // What delays trains has another rate than they have shown, but what drops packets may be a short queue of this link.
    let link = outcome.capacity.filter(|_| available.is_none() && *policing != Some(ExcessAction::Delays));
    let mut warnings = outcome.warnings;
    warnings.extend(available.map(|_| Warning::BurstsDoNotLast(*policing)));
    Outcome {
        available,
        bound: bound.filter(|_| available.is_none()),
        reason: available.is_none().then_some(reason),
        spread: None,
        capacity: committed_rate.map(|rate| rate.value).or(link),
        warnings,
        ..outcome
    }
}

/// Whether it is no bucket that the trains have found, but the queue of the narrow link, where a queue also grows at another link: a line through
/// the growth of both begins above what either leaves.
fn are_two_queues(limiter: &PolicerOrShaper, outcome: &Outcome) -> bool {
    let is_narrow = |rate: Estimate<Rate>| {
        outcome.capacity.is_some_and(|narrow| rate.value.as_f64() > MAX_BUCKET_PART * narrow.as_f64())
    };
    outcome.tight_link.is_some() && limiter.committed_rate.is_some_and(is_narrow)
}

/// Whether a policer was found, and what it leaves.
pub(crate) fn is_policed(found: &PolicingResult) -> bool {
    matches!(
        found,
        PolicingResult::Limited(PolicerOrShaper { excess_action: Some(ExcessAction::Drops), available: Some(_), .. })
    )
}

/// Whether the value is what the longer trains found; else they confirm or refute what was found before.
pub(crate) fn replaces_value(found: &PolicingResult) -> bool {
    matches!(
        found,
        PolicingResult::Overloads { available: Some(_), .. }
            | PolicingResult::Limited(PolicerOrShaper { available: Some(_), .. })
    )
}

/// Whether more passed before packets were dropped than a short queue holds: a policer with a bucket, whether its rate is known or not.
pub(crate) fn has_bucket(limiter: &PolicerOrShaper) -> bool {
    const MAX_SHORT_QUEUE_BYTES: u64 = 45_000;
    limiter.excess_action == Some(ExcessAction::Drops) && limiter.excess_bytes > MAX_SHORT_QUEUE_BYTES
}

/// Bytes that passed at the rate.
pub(crate) fn bucket_bytes(found: Option<&PolicingResult>) -> Option<u64> {
    match found? {
        PolicingResult::Sustainable { bytes, .. } | PolicingResult::PassesPartly { bytes, .. } => Some(*bytes),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_probe_train::PacketRecord;
    use kumade_units::Time;
    use std::collections::BTreeMap;

    /// At 10 Gbit/s, long trains came on top of what short ones had taken: 87 MB in all.
    #[test]
    fn a_measurement_takes_no_more_than_this_unless_it_is_requested() {
        let spent = Cost { bytes: 52_000_000, ..Cost::default() };
        let (is_batched, is_catching_up) = (false, false);
        let limits = PolicingLimits {
            max_packet: 1500,
            connections: None,
            spent,
            min_delay: None,
            is_batched,
            is_catching_up,
            idle_variation: Span::ZERO,
            is_lossy: false,
            has_lost: false,
        };
        assert_eq!(limits.bytes_left(None), 8_000_000);
        assert_eq!(limits.bytes_left(Some(50_000_000)), 0);
        assert_eq!(limits.bytes_left(Some(100_000_000)), 48_000_000);
    }

    /// At 1 Gbit/s over connections, packets that the receiver's kernel had joined were taken for dropped, and a policer for the cause.
    #[test]
    fn packets_without_stamps_of_their_own_are_no_losses() {
        let at = |micros| Some(Time::ZERO + Span::from_micros(micros));
        let packet = |number: i64| PacketRecord {
            size: 1500,
            sent: at(number * 12),
            submitted: None,
            received: at(number * 12 + 50).filter(|_| number % 2 == 0),
        };
        let carried = |packets: i64, unstamped| {
            DeliveredTrain::over_connections(TrainRecord { packets: (0..packets).map(packet).collect() }, unstamped)
        };
        // The third place is that of a packet that was lost.
        let read = usable_record(&carried(7, vec![1, 5])).unwrap();
        let sizes: Vec<_> = read.packets.iter().filter(|p| p.sent.is_some()).map(|p| p.size).collect();
        assert_eq!(sizes, [1500, 3000, 1500, 1500, 3000]);
        assert_eq!(read.packets[3], packet(3));
        assert_eq!(usable_record(&carried(7, vec![0, 1, 2, 4, 5])), None);
    }

    fn outcome() -> Outcome {
        let [low, value, high] = [78, 80, 82].map(Rate::from_mbit);
        Outcome {
            available: Some(Estimate { value, low, high, confidence: 0.95 }),
            bound: None,
            reason: None,
            spread: None,
            capacity: Some(Rate::from_mbit(100)),
            tight_link: None,
            hidden_bucket: None,
            refused: None,
            trains_used: 11,
            trains_rejected: BTreeMap::new(),
            warnings: Vec::new(),
        }
    }

    /// What a single longer train shows that was sent and delivered at these rates, in Mbit/s.
    fn unconfirmed(excess_action: Option<ExcessAction>, [sent, delivered]: [u64; 2]) -> PolicerOrShaper {
        PolicerOrShaper {
            excess_action,
            delivered_rate: Rate::from_mbit(delivered),
            sent_rate: Rate::from_mbit(sent),
            available_uncertainty: Rate::ZERO,
            excess_bytes: 0,
            available: None,
            committed_rate: None,
            burst_bytes: None,
        }
    }

    fn lasts(max_growth: f64) -> PolicingResult {
        PolicingResult::Sustainable { bytes: 1_000_000, rate: Rate::from_mbit(74), max_growth, waiting_part: None }
    }

    #[test]
    fn the_low_end_allows_for_growth_that_cross_traffic_may_hide() {
        assert_eq!(interpret_policing(&lasts(0.0), outcome()), outcome());
        // A tight link of at most 500 Mbit/s: its queue grows by 0.01 seconds a second where 5 Mbit/s less than 74 are available.
        let found = interpret_policing(&lasts(0.01), outcome()).available.unwrap();
        assert_eq!((found.low, found.value), (Rate::from_mbit(77), Rate::from_mbit(80)));
        assert_eq!(interpret_policing(&lasts(0.5), outcome()).available.unwrap().low, Rate::ZERO);
    }

    /// On an idle link of 89 Mbit/s, others began to send 66 while a longer train passed: a bucket was said to fill at 89, and 23 to be available
    /// over a time in which 37 were.
    #[test]
    fn a_bucket_that_fills_as_fast_as_the_link_is_the_link() {
        let rates = |low, value, high| {
            let [low, value, high] = [low, value, high].map(Rate::from_mbit);
            Estimate { value, low, high, confidence: 0.95 }
        };
        let limited = |excess_action, committed| {
            let (available, committed_rate) = (Some(rates(19, 23, 26)), Some(committed));
            PolicingResult::Limited(PolicerOrShaper {
                available,
                committed_rate,
                ..unconfirmed(Some(excess_action), [95, 60])
            })
        };
        let found = without_bucket_of_link(limited(ExcessAction::Delays, rates(94, 98, 103)), &outcome());
        assert_eq!(found, PolicingResult::Overloads { rate: Rate::from_mbit(95), available: None });
        assert_eq!(interpret_policing(&found, outcome()).available, None);
        // The link is not nearer for an interval that is wide: a shaper at four fifths of the line was taken for it.
        let others = [
            limited(ExcessAction::Delays, rates(48, 50, 52)),
            limited(ExcessAction::Drops, rates(94, 98, 103)),
            limited(ExcessAction::Delays, rates(60, 80, 105)),
        ];
        for bucket in others {
            assert_eq!(without_bucket_of_link(bucket.clone(), &outcome()), bucket);
        }
    }

    /// Behind a bucket of 650 kB, 8 Mbit/s lasted, and 52 were said to be available where 15 were.
    #[test]
    fn far_more_than_was_tried_is_tried_again() {
        let lasted = |rate| PolicingResult::Sustainable {
            bytes: 1_500_000,
            rate: Rate::from_mbit(rate),
            max_growth: 0.0,
            waiting_part: None,
        };
        assert!(is_beyond_tried_rate(&outcome(), Some(&lasted(8))));
        assert!(!is_beyond_tried_rate(&outcome(), Some(&lasted(74))));
        // Nothing was tried where trains said that the path is nearly full, and sparse packets then found it idle.
        assert!(is_beyond_tried_rate(&outcome(), None));
        assert!(!is_beyond_tried_rate(&Outcome { available: None, ..outcome() }, None));
    }

    /// Behind two loaded links, means over long trains were up to two thirds too high, and one train at a little less hid how a queue grew.
    #[test]
    fn the_low_end_of_a_mean_allows_for_hidden_growth_as_well() {
        for growth in [0.0, 0.01, 0.5] {
            assert_eq!(interpret_mean_rate(&lasts(growth), outcome()), interpret_policing(&lasts(growth), outcome()));
        }
    }

    #[test]
    fn a_rate_that_builds_a_queue_is_no_value() {
        let found =
            interpret_policing(&PolicingResult::Overloads { rate: Rate::from_mbit(74), available: None }, outcome());
        assert_eq!(
            (found.available, found.bound),
            (None, Some(Bound::AtMost(Rate::from_mbit(82), BoundKind::QueueGrowth)))
        );
        let bound = Some(Bound::AtLeast(Rate::from_mbit(90), BoundKind::Sender));
        let sender_limited =
            Outcome { available: None, bound, reason: Some(Reason::SenderLimited(Rate::from_mbit(90))), ..outcome() };
        let slower = PolicingResult::Sustainable {
            bytes: 1_500_000,
            rate: Rate::from_mbit(57),
            max_growth: 0.0,
            waiting_part: None,
        };
        let lowered = interpret_policing(&slower, sender_limited.clone()).bound;
        assert_eq!(lowered, Some(Bound::AtLeast(Rate::from_mbit(57), BoundKind::Sender)));
        let refuted = interpret_policing(
            &PolicingResult::Overloads { rate: Rate::from_mbit(85), available: None },
            sender_limited,
        );
        assert!(refuted.bound.is_none() && refuted.reason == Some(Reason::LongTrainQueued(Rate::from_mbit(85))));
        assert_eq!(found.reason, Some(Reason::LongTrainQueued(Rate::from_mbit(74))));
    }

    /// Through the queues of a link of 100 Mbit/s and of one of 950 before it, a line told from 35 to 40 Mbit/s where 13 were available.
    #[test]
    fn a_line_through_the_queues_of_two_links_is_no_value() {
        let rate = |mbit| Estimate { value: Rate::from_mbit(mbit), ..outcome().available.unwrap() };
        let limited = |committed| PolicerOrShaper {
            excess_action: Some(ExcessAction::Delays),
            delivered_rate: Rate::from_mbit(60),
            sent_rate: Rate::from_mbit(95),
            available_uncertainty: Rate::ZERO,
            excess_bytes: 0,
            available: Some(rate(38)),
            committed_rate: Some(rate(committed)),
            burst_bytes: None,
        };
        let judged = |committed, tight_link| {
            interpret_policing(&PolicingResult::Limited(limited(committed)), Outcome { tight_link, ..outcome() })
        };
        let tight = Some(Rate::from_mbit(1170));
        let refused = judged(95, tight);
        assert_eq!(
            (refused.available, refused.bound),
            (None, Some(Bound::AtMost(Rate::from_mbit(69), BoundKind::TokenBucket)))
        );
        // A bucket is slower than the line behind it, and without another queue the line tells.
        assert!(judged(40, tight).available.is_some() && judged(95, None).available.is_some());
    }

    /// Behind a policer of 2.2 Mbit/s on a link of 5, a train of 739 kB passed at the full rate, and then none did: 4.0 were said, which the link
    /// left idle.
    #[test]
    fn what_passed_before_tells_a_policer_from_a_short_queue() {
        let limiter = |policing, excess_bytes| PolicerOrShaper { excess_bytes, ..unconfirmed(policing, [4, 3]) };
        assert!(has_bucket(&limiter(Some(ExcessAction::Drops), 200_000)));
        assert!(!has_bucket(&limiter(Some(ExcessAction::Drops), 15_000)) && !has_bucket(&limiter(None, 200_000)));
    }

    /// Beside traffic that came and went, "at most 37 Mbit/s" were said where 48.5 were available on average: it had begun in the longer train.
    #[test]
    fn what_only_one_train_shows_may_be_others_that_have_begun() {
        let judged = |action| {
            let found = interpret_policing(&PolicingResult::Limited(unconfirmed(action, [76, 20])), outcome());
            assert_eq!(found.available, None);
            (found.bound, found.reason)
        };
        let [most, lasting, sent] = [82, 23, 76].map(Rate::from_mbit);
        let by_growth = (Some(Bound::AtMost(most, BoundKind::QueueGrowth)), Some(Reason::LongTrainQueued(sent)));
        assert_eq!((judged(Some(ExcessAction::Delays)), judged(None)), (by_growth.clone(), by_growth));
        let drops = Some(ExcessAction::Drops);
        let by_policer =
            (Some(Bound::AtMost(lasting, BoundKind::TokenBucket)), Some(Reason::DoesNotLast(drops, lasting)));
        assert_eq!(judged(drops), by_policer);
    }

    /// Over connections, hosts held up what a link of 2 Gbit/s carried: "at most 863 Mbit/s" was said where 1400 were available.
    #[test]
    fn what_a_host_may_hold_up_is_no_bound() {
        let limited = |mbit: u64, policing| {
            let unknown = unconfirmed(policing, [3 * mbit, 2 * mbit]);
            interpret_policing(&PolicingResult::Limited(unknown), Outcome { available: None, ..outcome() })
        };
        let found = limited(400, Some(ExcessAction::Delays));
        assert!(found.bound.is_none() && matches!(found.reason, Some(Reason::HeldUpSomewhere(..))));
        assert!(
            limited(40, Some(ExcessAction::Delays)).bound.is_some()
                && limited(400, Some(ExcessAction::Drops)).bound.is_some()
        );
    }
}
