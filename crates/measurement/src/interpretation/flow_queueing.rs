//! Whether one flow was measured in a queue of its own: flow queueing, as FQ-CoDel (RFC 8290) has it.
//!
//! There the packets of one flow are served in turn with those of others that wait. A single flow then sees its fair share,
//! however fast it sends: back-to-back trains arrive no faster than the estimate of what is available, though the first
//! packets of each pass at the rate of the link. In one queue for all, back-to-back trains arrive at nearly that rate.

use crate::interpretation::flow_queueing_test::ServiceOrder;
use crate::interpretation::jitter::PACKET_BYTES;
use kumade_estimate::{Bound, BoundKind, Capacity, Outcome, PolicingResult, Reason, Warning};
use kumade_probe_train::Estimate;
use kumade_units::{Rate, Span};

/// A token bucket of fewer bytes is more likely a queue in which the second or third packet has to wait for its turn.
const MAX_ROUND_BYTES: u64 = 6_000;
/// Back-to-back trains arrive at the fair share if this part of their rate is found available.
const MIN_PART_OF_TRAIN_RATE: f64 = 0.88;
/// Less than the fair share is in use beyond this factor of it: others that need less leave more to this flow for moments.
const MAX_FAIR_SHARE_EXCESS_RATIO: f64 = 1.1;
/// From this part of the capacity on, nobody else wants more than is left: the fair share is what is available.
const MAX_CONTENDED_SHARE: f64 = 0.6;

/// A link of which this part is found available is idle but for this …
const MIN_IDLE_SHARE: f64 = 0.85;
/// … part of the time, in which packets wait for others'.
const MAX_WAITING_SHARE: f64 = 0.22;

/// More than the part of the link that is not available may wait by chance, but by this.
const MAX_EXCESS_WAITING_SHARE: f64 = 0.2;

/// No more is available than trains sent back to back arrive at, but for this factor, or this one where a host may have held
/// a train back.
const MAX_AVAILABLE_TO_FASTEST_LONG_TRAIN_RATIO: f64 = 1.1;
const MAX_AVAILABLE_TO_LONG_TRAIN_RATIO: f64 = 1.5;

/// A link is idle if this part of its rate may be available, …
const MIN_WHOLLY_IDLE_SHARE: f64 = 0.985;
/// … and no larger part of the packets then waits for others.
const MAX_WAITING_SHARE_ON_IDLE: f64 = 0.1;

/// No more is available than bursts show, but for this factor.
const MAX_AVAILABLE_TO_BURST_RATIO: f64 = 1.03;

/// Bursts tell flow queueing from one queue for all where they arrive so many times as fast as long trains, …
const MIN_BURST_TO_LONG_TRAIN_RATIO: f64 = 1.2;
/// … and delays change by less than this part of a packet's time on the link from one idle packet to the next.
const MAX_DELAY_CHANGE_PACKETS: f64 = 0.7;

/// One of the many trains may have been disturbed.
const MIN_DISORDERED_TRAINS: u32 = 2;

/// The outcome over one flow, and its fair share where there seems to be flow queueing. `idle_change` is by how much delays change from
/// one idle packet to the next: more than half of the times.
///
/// `in_bursts` tells whether the trains were sent in bursts: packets sent one by one, from which alone the capacity is known, are then
/// as slow as the path or slower, and do not tell a fair share from a link.
pub(crate) fn interpret_one_flow(
    capacity: &Capacity,
    in_bursts: bool,
    idle_change: Option<Span>,
    outcome: Outcome,
) -> (Outcome, Option<Estimate<Rate>>) {
    match outcome.available {
        Some(_) if in_bursts && capacity.bottleneck_rate.is_none() => {
            let mut warnings = outcome.warnings;
            warnings.push(Warning::MaybeFairShare);
            (Outcome { warnings, ..outcome }, None)
        }
        Some(share) if may_be_round_robin(capacity, share.value) => {
            let reason = if is_flow_queueing_certain(capacity, idle_change) {
                Reason::FairShareOfFlow
            } else {
                Reason::MaybeFairShare
            };
            (limit_to_fair_share(share, reason, outcome), Some(share))
        }
        _ => (outcome, None),
    }
}

fn limit_to_fair_share(share: Estimate<Rate>, reason: Reason, outcome: Outcome) -> Outcome {
    let most = Rate::from_f64(share.high.as_f64() * MAX_FAIR_SHARE_EXCESS_RATIO);
    let bound = Some(Bound::AtMost(most, BoundKind::FlowQueueing));
    Outcome { available: None, bound, refused: Some(share), reason: Some(reason), spread: None, ..outcome }
}

/// What trains show besides the rates at which they arrived.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FlowQueueingEvidence<'s> {
    /// Of the longer train.
    pub(crate) long_train_result: Option<&'s PolicingResult>,
    /// Trains of which many packets arrived before others that were sent earlier.
    pub(crate) disordered_trains: u32,
    /// In which order connections are served; none where no train has been sent to tell.
    pub(crate) service_order: Option<ServiceOrder>,
}

/// The outcome over many flows of few packets each. Where each flow has a queue of its own, these are served at once and see
/// nothing of the cross traffic, but for the packet that is on the link when one comes; and packets of different flows overtake each
/// other. Where they are known to be served as they are sent, they wait for other reasons.
pub(crate) fn interpret_many_flows(capacity: &Capacity, signs: FlowQueueingEvidence<'_>, outcome: Outcome) -> Outcome {
    let FlowQueueingEvidence { long_train_result: sustained, disordered_trains, service_order: order } = signs;
    let is_one_queue = order == Some(ServiceOrder::Fifo);
    if order == Some(ServiceOrder::RoundRobin) {
        // What arrives late of a longer train, behind those of others, is not told from what was lost.
        let is_limited = matches!(sustained, Some(PolicingResult::Limited(_)));
        let most =
            outcome.available.filter(|_| !is_limited).map(|found| found.high.as_f64() * MAX_FAIR_SHARE_EXCESS_RATIO);
        let bound = most.map(|most| Bound::AtMost(Rate::from_f64(most), BoundKind::FlowQueueing));
        let reason = Some(Reason::Overtaking);
        return Outcome { available: None, bound, refused: outcome.available, reason, spread: None, ..outcome };
    }
    if !is_one_queue && (capacity.is_disordered || disordered_trains >= MIN_DISORDERED_TRAINS) {
        let reason = Some(Reason::Overtaking);
        return Outcome { available: None, bound: None, reason, spread: None, ..outcome };
    }
    if let Some(share) = outcome.available
        && capacity.shaper.is_some()
        && may_be_round_robin(capacity, share.value)
    {
        return limit_to_fair_share(share, Reason::FairShareOfHost, outcome);
    }
    let fastest = capacity.fastest_burst_rate.map(Rate::as_f64);
    // A link that seems idle lets no packet wait.
    let waits_on_idle = |found: Estimate<Rate>| {
        let is_idle = fastest.is_some_and(|fastest| found.high.as_f64() > MIN_WHOLLY_IDLE_SHARE * fastest);
        is_idle
            && matches!(sustained, Some(PolicingResult::Sustainable { waiting_part: Some(part), .. }) if *part > MAX_WAITING_SHARE_ON_IDLE)
    };
    let seems_idle = |found: Estimate<Rate>| {
        capacity.fastest_burst_rate.is_some_and(|fastest| found.value.as_f64() > MIN_IDLE_SHARE * fastest.as_f64())
    };
    // No more packets wait than the part of the time in which the link is busy with others' packets.
    let used = |found: Estimate<Rate>| fastest.map_or(1.0, |fastest| 1.0 - found.value.as_f64() / fastest);
    let waits_too_often = |found: Estimate<Rate>| {
        capacity.waiting_fraction.is_some_and(|waiting| waiting > used(found) + MAX_EXCESS_WAITING_SHARE)
    };
    let waits = capacity.waiting_fraction.is_some_and(|waiting| waiting > MAX_WAITING_SHARE);
    let exceeds = |found: Estimate<Rate>| {
        let beyond = |long: Option<Rate>, factor| long.is_some_and(|long| found.low.as_f64() > factor * long.as_f64());
        beyond(capacity.fastest_long_train_rate, MAX_AVAILABLE_TO_FASTEST_LONG_TRAIN_RATIO)
            || beyond(capacity.slowest_long_train_rate, MAX_AVAILABLE_TO_LONG_TRAIN_RATIO)
    };
    let is_waiting =
        |found: Estimate<Rate>| seems_idle(found) && waits || waits_too_often(found) || waits_on_idle(found);
    match outcome.available {
        Some(found) if !is_one_queue && is_waiting(found) || exceeds(found) => {
            let bound = Some(Bound::AtMost(found.high, BoundKind::FlowQueueing));
            let reason = Some(Reason::WaitingThoughIdle);
            Outcome { available: None, bound, refused: Some(found), reason, spread: None, ..outcome }
        }
        // Packets that pass each other seem to arrive faster than the link carries them.
        None if outcome.bound.and_then(|bound| bound.lower_bound()).is_some_and(|rate| {
            fastest.is_some_and(|fastest| rate.as_f64() > MAX_AVAILABLE_TO_BURST_RATIO * fastest)
        }) =>
        {
            Outcome { bound: None, reason: Some(Reason::WaitingThoughIdle), ..outcome }
        }
        _ => outcome,
    }
}

/// Whether a train that tells in which order connections are served would tell whether the value holds, or why there is none.
pub(crate) fn needs_service_order(sustained: Option<&PolicingResult>, outcome: &Outcome) -> bool {
    let is_limited = matches!(sustained, Some(PolicingResult::Limited(_)));
    let is_suspected = is_due_to_overtaking(outcome) || outcome.reason == Some(Reason::WaitingThoughIdle);
    let is_full = outcome.bound.is_some_and(|bound| bound.kind() == BoundKind::NearlyFull);
    is_limited || is_suspected || is_full || outcome.available.is_some()
}

/// Whether that is why there is no value: packets of different connections overtake each other.
pub(crate) fn is_due_to_overtaking(outcome: &Outcome) -> bool {
    outcome.reason == Some(Reason::Overtaking)
}

/// Whether bursts show that flows take turns, rather than that delays vary, which keeps the capacity from showing, too.
fn is_flow_queueing_certain(capacity: &Capacity, idle_change: Option<Span>) -> bool {
    let Capacity { shaper, fastest_burst_rate: fastest_burst, slowest_long_train_rate: long_train, .. } = capacity;
    let passing = fastest_burst.map_or(Span::ZERO, |fastest| fastest.time_for(PACKET_BYTES));
    let is_steady =
        idle_change.is_none_or(|change| change.as_secs_f64() < MAX_DELAY_CHANGE_PACKETS * passing.as_secs_f64());
    // Stamps of the host alone may make a burst seem faster.
    let certain_part = 1.0 - capacity.burst_rate_error;
    let is_faster =
        |(fastest, long): (Rate, Rate)| fastest.as_f64() * certain_part > MIN_BURST_TO_LONG_TRAIN_RATIO * long.as_f64();
    shaper.is_some() || is_steady && fastest_burst.zip(*long_train).is_some_and(is_faster)
}

fn may_be_round_robin(capacity: &Capacity, available: Rate) -> bool {
    let all_arrives = |rate: Rate| available.as_f64() > MIN_PART_OF_TRAIN_RATE * rate.as_f64();
    match (&capacity.shaper, &capacity.fastest_burst_rate) {
        _ if !capacity.may_be_round_robin => false,
        (Some(shaper), _) => shaper.burst_bytes.value < MAX_ROUND_BYTES && all_arrives(shaper.committed_rate.value),
        (None, Some(fastest)) => {
            let contended =
                capacity.bottleneck_rate.is_none() || available.as_f64() < MAX_CONTENDED_SHARE * fastest.as_f64();
            contended && capacity.slowest_long_train_rate.is_some_and(all_arrives)
        }
        // That bursts do not tell the capacity is itself a sign.
        (None, None) => capacity.bottleneck_rate.is_none() && capacity.slowest_long_train_rate.is_some_and(all_arrives),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn rates(value: u64) -> Estimate<Rate> {
        let rate = Rate::from_mbit(value);
        Estimate { value: rate, low: rate, high: rate, confidence: 0.95 }
    }

    fn outcome(available: u64) -> Outcome {
        Outcome {
            available: Some(rates(available)),
            bound: None,
            reason: None,
            spread: None,
            capacity: None,
            tight_link: None,
            hidden_bucket: None,
            refused: None,
            trains_used: 11,
            trains_rejected: BTreeMap::new(),
            warnings: Vec::new(),
        }
    }

    /// Of bursts at 50 Mbit/s, of which this part waited, and of trains that arrived at this rate.
    fn capacity(waiting: f64, long: u64) -> Capacity {
        Capacity {
            bottleneck_rate: Some(rates(50)),
            lower_bound: None,
            is_indefinite: false,
            reason: None,
            is_sender_limited: false,
            shaper: None,
            fastest_burst_rate: Some(Rate::from_mbit(50)),
            waiting_fraction: Some(waiting),
            is_disordered: false,
            has_small_bucket: false,
            may_be_round_robin: true,
            slowest_long_train_rate: Some(Rate::from_mbit(long)),
            fastest_long_train_rate: Some(Rate::from_mbit(long)),
            median_burst_bits: 84e3,
            median_train_bits: 0.0,
            burst_rate_error: 0.0,
            bursts_used: 20,
            trains_rejected: BTreeMap::new(),
        }
    }

    #[test]
    fn one_flow_that_gets_no_more_however_fast_it_sends_sees_its_share() {
        let change = Some(Span::from_micros(20));
        let (found, share) = interpret_one_flow(&capacity(0.5, 25), false, change, outcome(25));
        assert_eq!((found.available, share), (None, Some(rates(25))));
        assert!(found.bound.unwrap().upper_bound().unwrap() >= Rate::from_mbit(25));
        assert_eq!(found.reason, Some(Reason::FairShareOfFlow));
        // A packet of the link takes 240 µs.
        let varying = interpret_one_flow(&capacity(0.5, 25), false, Some(Span::from_micros(200)), outcome(25));
        assert_eq!(varying.0.reason, Some(Reason::MaybeFairShare));
        // In one queue for all, back-to-back trains arrive faster than is available; and an idle link is no share.
        for (long, available) in [(48, 25), (50, 50)] {
            assert_eq!(
                interpret_one_flow(&capacity(0.5, long), false, change, outcome(available)),
                (outcome(available), None)
            );
        }
    }

    fn signs(sustained: Option<&PolicingResult>, disordered_trains: u32) -> FlowQueueingEvidence<'_> {
        FlowQueueingEvidence { long_train_result: sustained, disordered_trains, service_order: None }
    }

    #[test]
    fn packets_of_a_longer_train_that_wait_on_an_idle_link_tell_it_too() {
        let lasts = |waiting| {
            let rate = Rate::from_mbit(47);
            Some(PolicingResult::Sustainable { bytes: 1_000_000, rate, max_growth: 0.0, waiting_part: waiting })
        };
        let judged = |waiting, available| {
            interpret_many_flows(&capacity(0.1, 50), signs(lasts(waiting).as_ref(), 0), outcome(available))
        };
        assert_eq!(judged(Some(0.2), 50).available, None);
        for possible in [judged(Some(0.01), 50), judged(None, 50), judged(Some(0.9), 40)] {
            assert!(possible.available.is_some());
        }
    }

    #[test]
    fn packets_that_overtake_those_of_other_connections_tell_it_as_well() {
        let disordered = Capacity { is_disordered: true, ..capacity(0.0, 50) };
        assert_eq!(interpret_many_flows(&disordered, signs(None, 0), outcome(20)).available, None);
        assert_eq!(interpret_many_flows(&capacity(0.0, 50), signs(None, 2), outcome(20)).available, None);
        assert!(interpret_many_flows(&capacity(0.0, 50), signs(None, 1), outcome(20)).available.is_some());
    }

    #[test]
    fn many_flows_that_wait_on_an_idle_link_see_nothing_of_cross_traffic() {
        assert_eq!(interpret_many_flows(&capacity(0.4, 50), signs(None, 0), outcome(49)).available, None);
        assert_eq!(interpret_many_flows(&capacity(0.0, 20), signs(None, 0), outcome(49)).available, None);
        for possible in [
            interpret_many_flows(&capacity(0.4, 48), signs(None, 0), outcome(20)),
            interpret_many_flows(&capacity(0.05, 50), signs(None, 0), outcome(49)),
        ] {
            assert!(possible.available.is_some());
        }
    }

    /// Proxies and receivers that read late, and a second link, made packets wait though they had one queue.
    #[test]
    fn packets_that_are_served_as_they_were_sent_wait_for_other_reasons() {
        let judged = |order, capacity: &Capacity, disordered_trains| {
            interpret_many_flows(
                capacity,
                FlowQueueingEvidence { service_order: order, ..signs(None, disordered_trains) },
                outcome(49),
            )
        };
        let (waits, passes) = (capacity(0.4, 50), capacity(0.0, 50));
        for (capacity, disordered_trains) in [(&waits, 0), (&passes, 2)] {
            assert!(needs_service_order(None, &judged(None, capacity, disordered_trains)));
            assert!(needs_service_order(None, &judged(Some(ServiceOrder::Unknown), capacity, disordered_trains)));
            assert_eq!(judged(Some(ServiceOrder::Fifo), capacity, disordered_trains), outcome(49));
        }
        let in_turn = judged(Some(ServiceOrder::RoundRobin), &passes, 0);
        assert!(is_due_to_overtaking(&in_turn));
        assert_eq!(in_turn.bound, Some(Bound::AtMost(Rate::from_f64(53.9e6), BoundKind::FlowQueueing)));
        assert_eq!(judged(Some(ServiceOrder::Fifo), &capacity(0.0, 20), 0).available, None);
    }

    #[test]
    fn where_hosts_take_turns_many_flows_of_one_see_its_share() {
        let burst = |bytes| Estimate { value: bytes, low: bytes, high: bytes, confidence: 0.95 };
        let shaped = |bytes| {
            let shaper =
                kumade_estimate::Shaper { peak_rate: None, committed_rate: rates(25), burst_bytes: burst(bytes) };
            interpret_many_flows(&Capacity { shaper: Some(shaper), ..capacity(0.1, 25) }, signs(None, 0), outcome(25))
        };
        assert_eq!(shaped(3_000).reason, Some(Reason::FairShareOfHost));
        assert!(shaped(20_000).available.is_some());
    }
}
