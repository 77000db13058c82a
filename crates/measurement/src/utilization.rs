//! What the utilization of the narrow link says of a result that trains leave open.
//!
//! Small packets do not push TCP connections aside, as trains do, and see a packet of others on the link even where flows have
//! queues of their own. But they see the load of all links: where another link than the narrow one is loaded, they make it
//! out that less is left than is. So they narrow down what trains found, or decide where it is known that one link matters, or
//! widen the interval where both disagree.

use crate::flow_queueing;
use estimate::{Bound, Capacity, Limit, Outcome, Utilization};
use train::Estimate;
use units::{Rate, Span};

/// How long it is looked.
pub(crate) const TIME: Span = Span::from_secs(2);
/// An interval narrower than this part of the link needs no other opinion, …
const NARROW: f64 = 0.035;
/// … nor does a link of which so much is found available at least.
const MIN_IDLE: f64 = 0.93;
/// Of an interval whose low end is below this part of its high end, it is not known whether anything is available.
const VAGUE: f64 = 0.5;
/// Where flows have queues of their own, so few packets wait for longer than for one other, if flows are many, …
const MAX_QUEUED_OF_MANY: f64 = 0.08;
/// … or of one flow, which also meets sparse packets of others, …
const MAX_QUEUED: f64 = 0.3;
/// … and those that wait do so on average for this part of one at least: on a faster link, they wait for less.
const MIN_MEAN_WAIT: f64 = 0.42;
/// A fair share is less than this part of the link.
const MAX_SHARE: f64 = 0.75;
/// TCP connections leave this part of a link idle for moments, BBR once in ten seconds: a short look does not tell it from none.
const RESOLUTION: f64 = 0.08;

/// The rate of the narrow link, as far as it is known.
pub(crate) fn narrow(capacity: &Capacity) -> Option<Rate> {
    capacity.bottleneck.map(|bottleneck| bottleneck.value).or(capacity.fastest_burst)
}

/// The rate of the narrow link, where the outcome leaves open what its utilization can tell.
pub(crate) fn needed(capacity: &Capacity, outcome: &Outcome) -> Option<Rate> {
    let rate = narrow(capacity).filter(|_| capacity.shaper.is_none())?;
    let part = |of: Rate| of.as_f64() / rate.as_f64();
    let is_open = match (outcome.available, outcome.bound) {
        (Some(found), _) => {
            (part(found.high) - part(found.low) > NARROW || is_vague(&found)) && part(found.low) < MIN_IDLE
        }
        (None, Some(bound)) => matches!(bound.limit(), Limit::NearlyFull | Limit::FlowQueueing),
        (None, None) => flow_queueing::is_overtaking(outcome),
    };
    is_open.then_some(rate)
}

/// The outcome in the light of how busy the narrow link, of this rate, was.
pub(crate) fn judge(found: &Utilization, rate: Rate, outcome: Outcome, fair_share: Option<Estimate<Rate>>) -> Outcome {
    let left = found.left(rate);
    match outcome.available {
        Some(value) if overlap(&value, &left) => Outcome { available: Some(combined(&value, &left)), ..outcome },
        Some(value) => Outcome { available: Some(hull(&value, &left)), ..outcome },
        None if is_flow_queueing(&outcome) && is_of_one_link(found, rate, fair_share) => {
            Outcome { available: Some(left), bound: None, reason: None, ..outcome }
        }
        None => outcome,
    }
}

/// The outcome with what a short look at a nearly full path cannot tell.
pub(crate) fn resolve(rate: Option<Rate>, outcome: Outcome) -> Outcome {
    let Some(rate) = rate.or(outcome.capacity) else { return outcome };
    let least = Rate::from_f64(rate.as_f64() * RESOLUTION);
    let bound = outcome.bound.map(|bound| match bound {
        Bound::AtMost(most, Limit::NearlyFull) => Bound::AtMost(most.max(least), Limit::NearlyFull),
        other => other,
    });
    let available = outcome.available.map(|found| match is_vague(&found) {
        true => Estimate {
            high: found.high.max(least),
            low: if found.low < least { Rate::ZERO } else { found.low },
            ..found
        },
        false => found,
    });
    Outcome { available, bound, ..outcome }
}

fn is_vague(found: &Estimate<Rate>) -> bool {
    found.low.as_f64() < VAGUE * found.high.as_f64()
}

fn is_flow_queueing(outcome: &Outcome) -> bool {
    let is_bound = outcome.bound.is_some_and(|bound| bound.limit() == Limit::FlowQueueing);
    is_bound || flow_queueing::is_overtaking(outcome)
}

/// Whether packets waited for packets of the narrow link, and for one at a time.
fn is_of_one_link(found: &Utilization, rate: Rate, fair_share: Option<Estimate<Rate>>) -> bool {
    let is_share = |share: Estimate<Rate>| share.value.as_f64() < MAX_SHARE * rate.as_f64();
    let most_queued = if fair_share.is_some() { MAX_QUEUED } else { MAX_QUEUED_OF_MANY };
    found.queued <= most_queued && found.mean_wait >= MIN_MEAN_WAIT && fair_share.is_none_or(is_share)
}

fn overlap(one: &Estimate<Rate>, other: &Estimate<Rate>) -> bool {
    one.low <= other.high && other.low <= one.high
}

/// Both, each with the weight of its precision.
fn combined(one: &Estimate<Rate>, other: &Estimate<Rate>) -> Estimate<Rate> {
    let half = |of: &Estimate<Rate>| ((of.high.as_f64() - of.low.as_f64()) / 2.0).max(1.0);
    let [weight, other_weight] = [half(one).powi(-2), half(other).powi(-2)];
    let sum = weight + other_weight;
    let mean = |of: fn(&Estimate<Rate>) -> Rate| (of(one).as_f64() * weight + of(other).as_f64() * other_weight) / sum;
    let value = mean(|of| of.value);
    let margin = sum.sqrt().recip().max((one.value.as_f64() - other.value.as_f64()).abs());
    let [low, high] = [value - margin, value + margin].map(|end| Rate::from_f64(end.max(0.0)));
    Estimate { value: Rate::from_f64(value), low, high, confidence: one.confidence }
}

/// The first, with an interval from the lowest to the highest of both.
fn hull(one: &Estimate<Rate>, other: &Estimate<Rate>) -> Estimate<Rate> {
    Estimate { low: one.low.min(other.low), high: one.high.max(other.high), ..*one }
}
