//! Whether delays vary on the idle path by far more than queues explain: as on radio links, or where a host is busy. Trains then show
//! what looks like token buckets, flow queueing or a host that holds packets back.

use estimate::{Bound, Limit, Outcome};
use train::Estimate;
use units::{Rate, Span};

/// Cross traffic lets packets of an idle path wait for less than so many others, …
const MAX_WAITING_PACKETS: i64 = 5;
/// … and where packets of trains catch up with those before, waiting for more than so many has that same cause.
const MAX_CAUGHT_UP_PACKETS: i64 = 2;
const PACKET_BYTES: u64 = 1500;
/// Delays that vary at random from the least to the most change by a third of that on average.
const CHANGES: i64 = 3;
/// Stamps and schedulers of ordinary hosts vary by less.
const MIN_VARIATION: Span = Span::from_micros(300);

/// The outcome, and the fair share of one flow, with the right cause where delays on the idle path vary notably and there is no value, or
/// none that is believed since they hide queues: what seems to bound it then has this cause, too.
pub(crate) fn judge(
    notable: Option<Span>,
    hides_queues: bool,
    outcome: Outcome,
    fair_share: Option<Estimate<Rate>>,
) -> (Outcome, Option<Estimate<Rate>>) {
    // A path that is nearly full has long queues.
    let is_full = matches!(outcome.bound, Some(Bound::AtMost(_, Limit::NearlyFull)));
    let is_told = !hides_queues && (outcome.available.is_some() || is_full);
    let Some(variation) = notable.filter(|_| !is_told) else {
        return (outcome, fair_share);
    };
    let reason = format!("delays on the idle path vary by {variation} and more, which hides queues from trains");
    (Outcome { available: None, bound: None, reason: Some(reason), spread: None, ..outcome }, None)
}

/// The variation of delays on the idle path, where queues before a link of the rate `narrow` do not explain it. `is_catching_up` tells
/// whether packets of trains catch up with those before.
pub(crate) fn notable(variation: Option<Span>, is_catching_up: bool, narrow: Option<Rate>) -> Option<Span> {
    let packets = if is_catching_up { MAX_CAUGHT_UP_PACKETS } else { MAX_WAITING_PACKETS };
    let queued = narrow?.time_for(PACKET_BYTES) * packets;
    variation.filter(|variation| *variation >= MIN_VARIATION.max(queued))
}

/// Whether delays change as much from one idle packet to the next, which queues that TCP connections fill do not. `change` is what the
/// median one is.
pub(crate) fn is_of_packets(change: Option<Span>, narrow: Option<Rate>) -> bool {
    notable(change.map(|change| change * CHANGES), false, narrow).is_some()
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
            bound: Some(Bound::AtMost(rate, Limit::FlowQueueing)),
            reason: Some("flows have queues of their own".to_owned()),
            spread: None,
            capacity: Some(Rate::from_mbit(50)),
            tight_link: None,
            hidden_bucket: None,
            trains_used: 5,
            trains_rejected: BTreeMap::new(),
            warnings: Vec::new(),
        };
        let share = Some(Estimate { value: rate, low: rate, high: rate, confidence: 0.95 });
        let variation = |millis| notable(Some(Span::from_millis(millis)), false, refused.capacity);
        let (found, none) = judge(variation(4), false, refused.clone(), share);
        assert_eq!((found.bound, none), (None, None));
        assert!(found.reason.unwrap().contains("idle path vary by 4 ms"));
        // Five packets of cross traffic take 1.2 ms.
        assert_eq!(judge(variation(1), true, refused.clone(), share), (refused.clone(), share));
        let full = Outcome { bound: Some(Bound::AtMost(rate, Limit::NearlyFull)), ..refused.clone() };
        assert_eq!(judge(variation(4), false, full.clone(), None), (full, None));
        let value = Outcome { available: share, reason: None, bound: None, ..refused.clone() };
        assert_eq!(judge(variation(4), false, value.clone(), None), (value.clone(), None));
        assert_eq!(judge(variation(4), true, value, share).0.available, None);
    }
}
