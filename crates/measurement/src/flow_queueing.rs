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
