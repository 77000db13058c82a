//! Whether delays vary on the idle path by far more than queues explain: as on radio links, or where a host is busy. Trains then show
//! what looks like token buckets, flow queueing or a host that holds packets back.

use estimate::{Bound, Limit, Outcome};
use train::Estimate;
use units::{Rate, Span};

/// Cross traffic lets packets of an idle path wait for less than so many others.
const MAX_WAITING_PACKETS: i64 = 5;
const PACKET_BYTES: u64 = 1500;
/// Stamps and schedulers of ordinary hosts vary by less.
const MIN_VARIATION: Span = Span::from_micros(300);

/// The outcome, and the fair share of one flow, with the right cause where delays on the idle path vary by so much and there is no
/// value: what seems to bound it then has this cause, too. `narrow` is the rate of the narrow link, where the capacity phase saw it.
pub(crate) fn judge(
    variation: Option<Span>,
    narrow: Option<Rate>,
    outcome: Outcome,
    fair_share: Option<Estimate<Rate>>,
) -> (Outcome, Option<Estimate<Rate>>) {
    // A path that is nearly full has long queues.
    let is_full = matches!(outcome.bound, Some(Bound::AtMost(_, Limit::NearlyFull)));
    let is_told = outcome.available.is_some() || is_full;
    let Some(variation) = notable(variation, narrow, &outcome).filter(|_| !is_told) else {
        return (outcome, fair_share);
    };
    let reason = format!("delays on the idle path vary by {variation} and more, which hides queues from trains");
    (Outcome { bound: None, reason: Some(reason), ..outcome }, None)
}

/// The variation of delays on the idle path, where it is by far more than queues explain.
pub(crate) fn notable(variation: Option<Span>, narrow: Option<Rate>, outcome: &Outcome) -> Option<Span> {
    let narrow = narrow.or(outcome.capacity)?;
    variation.filter(|variation| *variation >= MIN_VARIATION.max(narrow.time_for(PACKET_BYTES) * MAX_WAITING_PACKETS))
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
            trains_used: 5,
            trains_rejected: BTreeMap::new(),
            warnings: Vec::new(),
        };
        let share = Some(Estimate { value: rate, low: rate, high: rate, confidence: 0.95 });
        let (found, none) = judge(Some(Span::from_millis(4)), None, refused.clone(), share);
        assert_eq!((found.bound, none), (None, None));
        assert!(found.reason.unwrap().contains("idle path vary by 4 ms"));
        // Five packets of cross traffic take 1.2 ms.
        for little in [None, Some(Span::from_millis(1))] {
            assert_eq!(judge(little, None, refused.clone(), share), (refused.clone(), share));
        }
        let full = Outcome { bound: Some(Bound::AtMost(rate, Limit::NearlyFull)), ..refused.clone() };
        assert_eq!(judge(Some(Span::from_millis(4)), None, full.clone(), None), (full, None));
        let value = Outcome { available: share, reason: None, bound: None, ..refused };
        assert_eq!(judge(Some(Span::from_millis(4)), None, value.clone(), None), (value, None));
    }
}
