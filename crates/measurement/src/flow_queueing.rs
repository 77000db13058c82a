//! Whether one flow was measured in a queue of its own: flow queueing, as FQ-CoDel (RFC 8290) has it.
//!
//! There the packets of one flow are served in turn with those of others that wait. A single flow then sees its fair share,
//! however fast it sends: back-to-back trains arrive no faster than the estimate of what is available, though the first
//! packets of each pass at the rate of the link. In one queue for all, back-to-back trains arrive at nearly that rate.

use estimate::{Bound, Capacity, Limit, Outcome};
use train::Estimate;
use units::Rate;

/// A token bucket of fewer bytes is more likely a queue in which the second or third packet has to wait for its turn.
const MAX_TURN_BYTES: u64 = 6_000;
/// Back-to-back trains arrive at the fair share if this part of their rate is found available.
const MIN_SHARE: f64 = 0.88;
/// Less than the fair share is in use beyond this factor of it: others that need less leave more to this flow for moments.
const MAX_EXCESS: f64 = 1.1;
/// From this part of the capacity on, nobody else wants more than is left: the fair share is what is available.
const MAX_CONTENDED: f64 = 0.6;

/// A link of which this part is found available is idle but for this …
const MIN_IDLE: f64 = 0.85;
/// … part of the time, in which packets wait for others'.
const MAX_WAITING: f64 = 0.22;

/// No more is available than trains sent back to back arrive at, but for this factor, or this one where a host may have held
/// a train back.
const MAX_OF_FASTEST: f64 = 1.1;
const MAX_OF_SLOWEST: f64 = 1.5;

const MANY_REASON: &str = "packets wait for others though the link seems idle, or longer trains arrive at less: flows may have \
    queues of their own, where many connections see nothing of the cross traffic";
const REASON: &str = "flows have queues of their own: one flow sees its fair share, which may be more than nobody uses";

/// The outcome over one flow, and its fair share where there seems to be flow queueing.
pub(crate) fn judge(capacity: &Capacity, outcome: Outcome) -> (Outcome, Option<Estimate<Rate>>) {
    match outcome.available {
        Some(share) if takes_turns(capacity, share.value) => {
            let most = Rate::from_f64(share.high.as_f64() * MAX_EXCESS);
            let bound = Some(Bound::AtMost(most, Limit::FlowQueueing));
            let reason = Some(REASON.to_owned());
            (Outcome { available: None, bound, reason, spread: None, ..outcome }, Some(share))
        }
        _ => (outcome, None),
    }
}

/// The outcome over many flows of few packets each. Where each flow has a queue of its own, these are served at once and see
/// nothing of the cross traffic, but for the packet that is on the link when one comes.
pub(crate) fn judge_many(capacity: &Capacity, outcome: Outcome) -> Outcome {
    let seems_idle = |found: Estimate<Rate>| {
        capacity.fastest_burst.is_some_and(|fastest| found.value.as_f64() > MIN_IDLE * fastest.as_f64())
    };
    let waits = capacity.waiting.is_some_and(|waiting| waiting > MAX_WAITING);
    let exceeds = |found: Estimate<Rate>| {
        let beyond = |long: Option<Rate>, factor| long.is_some_and(|long| found.low.as_f64() > factor * long.as_f64());
        beyond(capacity.fastest_long_train, MAX_OF_FASTEST) || beyond(capacity.long_train, MAX_OF_SLOWEST)
    };
    match outcome.available {
        Some(found) if seems_idle(found) && waits || exceeds(found) => {
            let bound = Some(Bound::AtMost(found.high, Limit::FlowQueueing));
            let reason = Some(MANY_REASON.to_owned());
            Outcome { available: None, bound, reason, spread: None, ..outcome }
        }
        _ => outcome,
    }
}

fn takes_turns(capacity: &Capacity, available: Rate) -> bool {
    let all_arrives = |rate: Rate| available.as_f64() > MIN_SHARE * rate.as_f64();
    match (&capacity.shaper, &capacity.fastest_burst) {
        (Some(shaper), _) => shaper.burst_bytes.value < MAX_TURN_BYTES && all_arrives(shaper.committed_rate.value),
        (None, Some(fastest)) => {
            let contended = available.as_f64() < MAX_CONTENDED * fastest.as_f64();
            contended && capacity.long_train.is_some_and(all_arrives)
        }
        (None, None) => false,
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
            trains_used: 11,
            trains_rejected: BTreeMap::new(),
            warnings: Vec::new(),
        }
    }

    /// Of bursts at 50 Mbit/s, of which this part waited, and of trains that arrived at this rate.
    fn capacity(waiting: f64, long: u64) -> Capacity {
        Capacity {
            bottleneck: Some(rates(50)),
            at_least: None,
            reason: None,
            shaper: None,
            fastest_burst: Some(Rate::from_mbit(50)),
            waiting: Some(waiting),
            long_train: Some(Rate::from_mbit(long)),
            fastest_long_train: Some(Rate::from_mbit(long)),
            bursts_used: 20,
            trains_rejected: BTreeMap::new(),
        }
    }

    #[test]
    fn one_flow_that_gets_no_more_however_fast_it_sends_sees_its_share() {
        let (found, share) = judge(&capacity(0.5, 25), outcome(25));
        assert_eq!((found.available, share), (None, Some(rates(25))));
        assert!(found.bound.unwrap().at_most().unwrap() >= Rate::from_mbit(25));
        // In one queue for all, back-to-back trains arrive faster than is available; and an idle link is no share.
        for (long, available) in [(48, 25), (50, 50)] {
            assert_eq!(judge(&capacity(0.5, long), outcome(available)), (outcome(available), None));
        }
    }

    #[test]
    fn many_flows_that_wait_on_an_idle_link_see_nothing_of_cross_traffic() {
        assert_eq!(judge_many(&capacity(0.4, 50), outcome(49)).available, None);
        assert_eq!(judge_many(&capacity(0.0, 20), outcome(49)).available, None);
        for possible in [judge_many(&capacity(0.4, 48), outcome(20)), judge_many(&capacity(0.05, 50), outcome(49))] {
            assert!(possible.available.is_some());
        }
    }
}
