//! When the value is accurate enough, and the outcome.

use super::bottleneck::CROSS_PACKET_BITS;
use super::control;
use super::knowledge::{Knowledge, MIN_TRAINS};
use super::reading::Reading;
use super::state::State;
use crate::method::{Outcome, Rejection};
use crate::stats::{mean, student_t_95};
use std::collections::BTreeMap;
use train::Estimate;
use units::{Rate, Span};

/// Value and half width of the interval, in bit/s.
struct Interval {
    value: f64,
    half: f64,
    spread: f64,
}

/// However well they agree, fewer trains are not enough: traffic that is often silent could have been missed.
const MIN_SETTLED_TRAINS: usize = 11;

/// A time budget that is shorter than this many packets of cross traffic is stretched where half the interval's width is
/// more than this part of the value.
const SHORT_BUDGET_PACKETS: f64 = 100.0;
const MAX_SHORT_HALF_WIDTH: f64 = 0.04;

/// An interval of which the half is wider than so many times the capacity says nothing.
const MAX_HALF_WIDTH: f64 = 3.0;

/// Whether nothing more need be sent.
pub(super) fn enough(state: &State, elapsed: Span) -> bool {
    if state.failures_in_row >= 8 || out_of_reach(state) {
        return true;
    }
    let used = used(state);
    let capacity = state.knowledge.capacity.unwrap_or(0.0);
    if used.len() < MIN_SETTLED_TRAINS || telling(&used, capacity) < MIN_TRAINS {
        return false;
    }
    let interval = interval(&used, elapsed.as_secs_f64(), &state.knowledge);
    interval.half <= (interval.value * state.config.precision).max(capacity * 0.0025)
}

/// Whether the path carried the highest rate that could be sent.
fn out_of_reach(state: &State) -> bool {
    !state.knowledge.saturated && state.knowledge.readings.len() >= 2 * MIN_TRAINS
}

/// The time budget, stretched where the path is so slow that it would not give a value, or only a coarse one.
pub(super) fn time_limit(state: &State, elapsed: Span) -> Span {
    let used = used(state);
    let stretched = used.len() < MIN_TRAINS + 2 || coarse(state, &used, elapsed);
    state.budget.time * if stretched { 6 } else { 1 }
}

/// Whether the time budget is so few packets long on this path that a single packet of cross traffic shows in the value,
/// and the interval is accordingly wide.
fn coarse(state: &State, used: &[Reading], elapsed: Span) -> bool {
    let capacity = state.knowledge.capacity.unwrap_or(0.0);
    let packets = capacity * state.budget.time.as_secs_f64() / CROSS_PACKET_BITS;
    let interval = interval(used, elapsed.as_secs_f64(), &state.knowledge);
    // Behind a token bucket trains are longer, and fewer.
    let few = if state.shaping.shaper().is_some() { 2.0 * SHORT_BUDGET_PACKETS } else { SHORT_BUDGET_PACKETS };
    packets < few && interval.half > MAX_SHORT_HALF_WIDTH * interval.value
}

/// The readings that count: not those of trains sent so much too fast that an error of the capacity would show, and not
/// those whose delay jumped or whose queue overflowed, unless so many did that this is how the traffic or the path is.
pub(super) fn used(state: &State) -> Vec<Reading> {
    let readings = &state.knowledge.readings;
    let Some(aim) = control::aim(&state.knowledge) else { return Vec::new() };
    let near: Vec<Reading> = readings.iter().filter(|r| r.rate <= 1.3 * aim).copied().collect();
    let capacity = state.knowledge.capacity.unwrap_or(0.0);
    let mut used = if telling(&near, capacity) >= MIN_TRAINS { near } else { readings.clone() };
    if stalls(&used) > 0 {
        used.retain(|r| !r.jumped);
    }
    if !short_queue(&used) {
        used.retain(|r| !r.overflowed());
    }
    used
}

/// Whether many of these overflowed a queue, though trains were made gentler each time.
fn short_queue(readings: &[Reading]) -> bool {
    readings.iter().filter(|r| r.overflowed()).count() * 6 > readings.len()
}

/// How many of these met a stall: jumps are stalls as long as they are rare.
fn stalls(readings: &[Reading]) -> usize {
    let jumped = readings.iter().filter(|r| r.jumped).count();
    if jumped * 4 <= readings.len() { jumped } else { 0 }
}

/// The mean of what the trains found.
pub(super) fn value(used: &[Reading], capacity: f64) -> f64 {
    weighted(used, capacity).iter().map(|(value, weight)| value * weight).sum()
}

/// Values with weights that add up to one. Where the queue ran empty, only a lower bound is known: its weight goes, in
/// equal parts, to all that found more (Efron's redistribution to the right, which gives the Kaplan-Meier estimate).
fn weighted(used: &[Reading], capacity: f64) -> Vec<(f64, f64)> {
    let mut sorted = used.to_vec();
    sorted.sort_by(|a, b| a.available.total_cmp(&b.available));
    let mut out: Vec<(f64, f64)> = Vec::with_capacity(sorted.len());
    let mut weight = 1.0 / sorted.len() as f64;
    for (i, reading) in sorted.iter().enumerate() {
        let right = sorted.len() - i - 1;
        match (is_bound(reading, capacity), right) {
            (true, 0) => out.push(((reading.available + capacity) / 2.0, weight)),
            (true, _) => weight += weight / right as f64,
            (false, _) => out.push((reading.available, weight)),
        }
    }
    out
}

/// Whether a reading tells no more than the least that was available. At the capacity's own rate an empty queue tells
/// all: nobody else was there.
fn is_bound(reading: &Reading, capacity: f64) -> bool {
    reading.emptied && reading.rate < 0.9 * capacity
}

/// Trains that tell how much was available, not only how much at least.
fn telling(used: &[Reading], capacity: f64) -> usize {
    used.iter().filter(|r| !is_bound(r, capacity)).count()
}

fn interval(used: &[Reading], elapsed: f64, knowledge: &Knowledge) -> Interval {
    let capacity = knowledge.capacity.unwrap_or(0.0);
    let weighted = weighted(used, capacity);
    let n = weighted.len() as f64;
    let value: f64 = weighted.iter().map(|(v, w)| v * w).sum();
    let variance: f64 = weighted.iter().map(|(v, w)| w * (v - value).powi(2)).sum::<f64>() * n / (n - 1.0).max(0.5);
    let spread = variance.sqrt();
    // The trains are a sample of the measurement's own time, whose mean is asked for: what was watched is known.
    let watched = (used.iter().map(|r| r.duration).sum::<f64>() / elapsed.max(1e-9)).min(0.9);
    // Few trains know their own spread too badly even for Student, where the traffic is not normal but on or off.
    let few = 1.0 + 5.0 / n;
    let sampling = few * student_t_95(weighted.len()) * spread / n.sqrt() * (1.0 - watched).sqrt();
    // What all trains have in common: an error of the capacity, which cross traffic within the prime makes too small, has
    // an effect as far as the body's rate was too high; what cross traffic lost; and that the true value itself consists
    // of whole packets.
    let excess = used.iter().map(|r| (r.rate - r.available).max(0.0)).sum::<f64>() / used.len() as f64;
    let crossed = 0.5 * knowledge.prime_gap_ratio * (1.0 - value / capacity).clamp(0.0, 1.0);
    let capacity_error = excess * (knowledge.capacity_scatter / capacity + crossed);
    let dropped = used.iter().map(|r| r.dropped).sum::<f64>() / used.len() as f64;
    let granularity = CROSS_PACKET_BITS / elapsed.max(1e-9);
    let half = sampling.hypot(capacity_error).hypot(granularity).hypot(capacity * 0.001).hypot(capacity * dropped);
    Interval { value, half, spread }
}

/// The measurement's outcome as far as it got.
pub(super) fn outcome(state: &State, elapsed: Span) -> Outcome {
    let used = used(state);
    let mut outcome = Outcome {
        available: None,
        reason: None,
        spread: None,
        capacity: state.knowledge.capacity.map(Rate::from_f64),
        trains_used: used.len() as u32,
        trains_rejected: rejected(state),
        warnings: Vec::new(),
    };
    if let Some(burst) = state.knowledge.burst_rate.filter(|_| !out_of_reach(state)) {
        let burst = Rate::from_f64(burst);
        outcome
            .warnings
            .push(format!("bursts pass at {burst}, far above the sustained rate: a token bucket shapes the path"));
    }
    if short_queue(&used) {
        outcome
            .warnings
            .push("the queue at the bottleneck is too short for a whole train: the value is less accurate".to_owned());
    }
    let few = telling(&used, state.knowledge.capacity.unwrap_or(0.0)) < MIN_TRAINS;
    if few || out_of_reach(state) || state.knowledge.hidden_bucket {
        outcome.reason = Some(no_value(state, &used));
        return outcome;
    }
    let interval = interval(&used, elapsed.as_secs_f64(), &state.knowledge);
    if interval.half > MAX_HALF_WIDTH * state.knowledge.capacity.unwrap_or(0.0) {
        outcome.reason = Some(format!(
            "the trains disagree: up to {} may be available",
            Rate::from_f64(interval.value + interval.half)
        ));
        return outcome;
    }
    outcome.spread = Some(Rate::from_f64(interval.spread));
    outcome.available = Some(Estimate {
        value: Rate::from_f64(interval.value),
        low: Rate::from_f64(interval.value - interval.half),
        high: Rate::from_f64(interval.value + interval.half),
        confidence: 0.95,
    });
    outcome
}

fn rejected(state: &State) -> BTreeMap<Rejection, u32> {
    let mut rejected = state.rejected.clone();
    let path_stalls = stalls(&state.knowledge.readings) as u32;
    let stalls = [(Rejection::PathStalled, path_stalls), (Rejection::ReceiverStalled, state.knowledge.receiver_stalls)];
    rejected.extend(stalls.into_iter().filter(|&(_, count)| count > 0));
    rejected
}

fn no_value(state: &State, used: &[Reading]) -> String {
    if state.knowledge.hidden_bucket {
        return "a token bucket passes bursts far above its committed rate, which was not known before the measurement"
            .to_owned();
    }
    if state.knowledge.short_primes as usize > used.len() {
        return "no train was long enough to empty the token bucket on the path, which hides the available bandwidth"
            .to_owned();
    }
    if out_of_reach(state) {
        let fastest = state.knowledge.readings.iter().map(|r| r.rate).fold(0.0, f64::max);
        let fastest = Rate::from_f64(fastest);
        return format!(
            "out of range: the path carried the highest rate that could be sent, {fastest}: at least that is available"
        );
    }
    if used.len() >= MIN_TRAINS {
        let least = Rate::from_f64(mean(&used.iter().map(|r| r.available).collect::<Vec<_>>()));
        return format!("no train was fast enough to fill the path within the budget: at least {least} is available");
    }
    let causes = rejected(state);
    let rejected: u32 = causes.values().sum();
    match causes.iter().max_by_key(|(_, count)| **count) {
        _ if state.scouted.is_none() => "no packet of any train arrived".to_owned(),
        Some((why, _)) => format!("{rejected} trains could not be used, most of them because {why}"),
        None => format!("the budget was spent before {MIN_TRAINS} trains could be used"),
    }
}
