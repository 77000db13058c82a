//! When the value is accurate enough, and the outcome.

use super::control;
use super::interval::{RateInterval, estimate_interval, informative_trains};
use super::path_model::MIN_VALUE_TRAINS;
use super::sample::TrainSample;
use super::state::PrimedState;
use super::tight_link::{MAX_LOW_RATE_PART, TightLink};
use super::verification;
use crate::bound::{Bound, BoundKind};
use crate::cross_traffic::CROSS_PACKET_BITS;
use crate::method::Outcome;
use crate::reason::Reason;
use crate::rejection::Rejection;
use crate::stats::{mean, median, standard_deviation, student_t_95};
use crate::warning::Warning;
use kumade_units::{Rate, Span};
use std::collections::BTreeMap;

/// However well they agree, fewer trains are not enough: cross traffic that is often silent could have been missed. The two
/// long ones that verify the value count among them.
const MIN_SETTLED_TRAINS: usize = 9;
/// … and where they agree before, the mean time between them is this, since traffic may be silent for a while.
const SPREAD_SECONDS: f64 = 0.02;

/// Fewer trains of one rate near the available bandwidth do not settle the value …
const MIN_TIGHT_TRAINS: usize = 7;

/// Half the interval's width at which the tight link is known well enough, as a part of the value.
const TIGHT_RELATIVE_PRECISION: f64 = 0.03;

/// The byte budget where the tight link is looked for.
const TIGHT_BUDGET_BYTES: u64 = 2_270_000;

/// So many trains in a row that tell nothing end the measurement.
const MAX_FAILURES: u32 = 8;

/// A time budget that is shorter than this many packets of cross traffic is stretched where half the interval's width is
/// more than this part of the value.
const SHORT_BUDGET_PACKETS: f64 = 100.0;
const MAX_SHORT_RELATIVE_HALF_WIDTH: f64 = 0.04;

/// A path that loses a larger part of the packets by more than chance, though no queue overflows, does not lose them at random.
const MAX_RANDOM_LOSS_FRACTION: f64 = 0.07;

/// Where little is left, fewer trains do not settle how much …
const MIN_TRAINS_AT_LOW_RATE: usize = 7;
/// … if half the interval's width is more than this part of the value.
const MAX_RELATIVE_UNCERTAINTY: f64 = 0.2;

/// The byte budget where packets are sent in bursts: as much as the path carries in this time, but no more than this, which leaves 6 MB of
/// the 60 that a measurement takes at most to see whether the value lasts.
const FAST_BUDGET_SECONDS: f64 = 0.048;
const MAX_FAST_BYTES: u64 = 54_000_000;

/// Trains of bursts tell something from this part of the rate on that is aimed for.
const MIN_PART_OF_TARGET_RATE: f64 = 0.5;

/// Bursts were held up at the sender if they left at less than this part of the rate that was planned.
const HELD_UP_RATE_PART: f64 = 0.8;

/// A train is nearly as fast as another at this part of its rate.
const NEARLY_FASTEST_PART: f64 = 0.6;

/// No value is given where half the interval's width is more than this many times the capacity.
const MAX_RELATIVE_HALF_WIDTH: f64 = 3.0;

/// Where queues overflow, trains push packets of others out of them: if half the interval's width is more than this part of the value, it may
/// be that nothing is available.
const MAX_LOSSY_RELATIVE_HALF_WIDTH: f64 = 0.5;

/// Whether nothing more need be sent.
pub(super) fn has_enough_trains(state: &PrimedState, elapsed: Span) -> bool {
    if state.failures_in_row >= MAX_FAILURES || is_out_of_reach(state) || state.tight_link_search.grew_at_low_rate() {
        return true;
    }
    if state.tight_link_search.ceiling_rate().is_some() {
        let is_precise = |tight: &TightLink| {
            tight.near_trains >= MIN_TIGHT_TRAINS && tight.half_width() <= TIGHT_RELATIVE_PRECISION * tight.available
        };
        return state.tight_link_search.tight_link.as_ref().is_some_and(is_precise);
    }
    let verifying = if state.shaping.shaper().is_some() { 0 } else { verification::MIN_VERIFICATION_TRAINS };
    used_samples(state).len() + verifying >= MIN_SETTLED_TRAINS && is_precise(state, elapsed)
}

/// Whether the interval is as narrow as asked for.
fn is_precise(state: &PrimedState, elapsed: Span) -> bool {
    let used = used_samples(state);
    let capacity = state.path_model.capacity.unwrap_or(0.0);
    let interval = estimate_interval(&used, elapsed.as_secs_f64(), &state.path_model);
    informative_trains(&used, capacity) >= MIN_VALUE_TRAINS
        && interval.half_width <= (interval.value * state.config.precision).max(capacity * 0.0025)
}

/// How long to wait at least before the next train.
pub(super) fn min_wait(state: &mut PrimedState, elapsed: Span) -> Span {
    if !is_precise(state, elapsed) {
        return Span::ZERO;
    }
    Span::from_secs_f64(SPREAD_SECONDS * (0.5 + state.random()))
}

/// So many bytes may be sent before there is a value to verify.
pub(super) fn byte_limit(state: &PrimedState) -> u64 {
    let verification = if is_verifiable(state) { verification_bytes(state) } else { 0 };
    max_bytes(state).saturating_sub(verification)
}

/// So many bytes may be sent in all. Where packets are sent in bursts, trains last as long as on slower paths, and have the more
/// bytes the faster the path is. What was sent before a token bucket was found comes on top, but no more than a fast path takes.
pub(super) fn max_bytes(state: &PrimedState) -> u64 {
    let bytes = state.budget.bytes;
    if state.limits_bytes {
        return bytes;
    }
    let searched = if state.tight_link_search.ceiling_rate().is_some() { TIGHT_BUDGET_BYTES } else { 0 };
    let in_bursts = (fast_rate(state) * FAST_BUDGET_SECONDS / 8.0) as u64;
    (state.bytes_before_shaper + bytes.max(searched).max(in_bursts)).min(MAX_FAST_BYTES)
}

/// The rate of trains where those are sent in bursts, else zero.
fn fast_rate(state: &PrimedState) -> f64 {
    let rate = state.path_model.capacity.unwrap_or(0.0);
    if control::burst_pacing(state, rate).is_some() { rate } else { 0.0 }
}

fn verification_bytes(state: &PrimedState) -> u64 {
    let trains = 4 * u64::from(control::MIN_VERIFICATION_PACKETS * state.max_packet);
    trains.max((2.0 * control::VERIFICATION_SECONDS * fast_rate(state) / 8.0) as u64)
}

/// Behind a token bucket, a train that follows the committed rate says nothing as long as the bucket holds credit.
fn is_verifiable(state: &PrimedState) -> bool {
    let is_undecided = !state.tight_link_search.is_verified() && !state.tight_link_search.grew_at_low_rate();
    state.shaping.shaper().is_none() && state.path_model.is_saturated && is_undecided
}

/// By how many seconds a second the growth of the delay differs between verifying trains, as primed ones show, which are
/// shorter.
pub(super) fn growth_scatter(state: &PrimedState) -> f64 {
    // Where the path is fast, the first trains leave it idle: what they found is no more than a lower bound.
    let is_counted = |r: &&TrainSample| !(r.has_emptied && sends_in_bursts(state));
    let values: Vec<f64> = used_samples(state).iter().filter(is_counted).map(|r| r.available).collect();
    (1.0 / control::VERIFICATION_LENGTH_RATIO).sqrt() * standard_deviation(&values)
        / state.path_model.capacity.unwrap_or(f64::INFINITY)
}

/// The rate that is to be verified; none where there is no value, or it has been.
pub(super) fn rate_to_verify(state: &PrimedState, elapsed: Span) -> Option<f64> {
    let is_possible = is_verifiable(state) && state.failures_in_row < MAX_FAILURES;
    let interval = candidate_interval(state, &used_samples(state), elapsed).ok().filter(|_| is_possible)?;
    let rate = verification::VERIFIED_RATE_PART * (interval.value - interval.half_width);
    (rate > 0.02 * state.path_model.capacity?).then_some(rate)
}

/// Whether the path carried the highest rate that could be sent.
fn is_out_of_reach(state: &PrimedState) -> bool {
    let readings = &state.path_model.samples;
    let fastest = highest_rate(readings);
    // As long as the rate can be doubled, few trains are nearly as fast as the fastest.
    let near = readings.iter().filter(|r| r.rate > NEARLY_FASTEST_PART * fastest).count();
    let is_fastest = !sends_in_bursts(state) || near > MIN_VALUE_TRAINS;
    !state.path_model.is_saturated && readings.len() >= 2 * MIN_VALUE_TRAINS && is_fastest
}

/// Whether trains were so fast that they were sent in bursts.
fn sends_in_bursts(state: &PrimedState) -> bool {
    state.trains.iter().any(|train| train.is_in_bursts)
}

/// The time budget, stretched where the tight link is looked for, or where the path is so slow that it would not give a value, or only a coarse one.
pub(super) fn time_limit(state: &PrimedState, elapsed: Span) -> Span {
    let used = used_samples(state);
    if state.tight_link_search.ceiling_rate().is_some() {
        return state.budget.time * 3;
    }
    let stretched = used.len() < MIN_VALUE_TRAINS + 2 || is_coarse(state, &used, elapsed);
    state.budget.time * if stretched { 6 } else { 1 }
}

/// Whether the time budget is so few packets long on this path that a single packet of cross traffic shows in the value,
/// and the interval is accordingly wide.
fn is_coarse(state: &PrimedState, used: &[TrainSample], elapsed: Span) -> bool {
    let capacity = state.path_model.capacity.unwrap_or(0.0);
    let packets = capacity * state.budget.time.as_secs_f64() / CROSS_PACKET_BITS;
    let interval = estimate_interval(used, elapsed.as_secs_f64(), &state.path_model);
    // Behind a token bucket trains are longer, and fewer.
    let few = if state.shaping.shaper().is_some() { 2.0 * SHORT_BUDGET_PACKETS } else { SHORT_BUDGET_PACKETS };
    packets < few && interval.half_width > MAX_SHORT_RELATIVE_HALF_WIDTH * interval.value
}

/// The readings that count: not those of trains sent so much too fast that an error of the capacity would show, and not
/// those whose delay jumped or whose queue overflowed, unless so many did that this is how the traffic or the path is.
pub(super) fn used_samples(state: &PrimedState) -> Vec<TrainSample> {
    let readings = &state.path_model.samples;
    let Some(aim) = control::target_rate(&state.path_model) else { return Vec::new() };
    // Where the path is fast, the first trains are far slower, and tell nothing.
    let least = if sends_in_bursts(state) { MIN_PART_OF_TARGET_RATE * aim } else { 0.0 };
    let readings: Vec<TrainSample> = readings.iter().filter(|r| r.rate >= least).copied().collect();
    let near: Vec<TrainSample> = readings.iter().filter(|r| r.rate <= 1.3 * aim).copied().collect();
    let capacity = state.path_model.capacity.unwrap_or(0.0);
    let mut used = if informative_trains(&near, capacity) >= MIN_VALUE_TRAINS { near } else { readings };
    if stalled_trains(&used) > 0 {
        used.retain(|r| !r.has_delay_jump);
    }
    if !has_short_queue(&used) {
        used.retain(|r| !r.has_overflowed());
    }
    used
}

/// The first and the last of the trains that the value rests on, by their numbers.
pub(super) fn value_trains(state: &PrimedState) -> Option<(usize, usize)> {
    let numbers: Vec<usize> = match state.tight_link_search.ceiling_rate() {
        Some(_) => state.tight_link_search.train_numbers().collect(),
        None => used_samples(state).iter().map(|sample| sample.train).collect(),
    };
    numbers.iter().min().copied().zip(numbers.iter().max().copied())
}

/// Whether many of these overflowed a queue, though trains were made gentler each time.
fn has_short_queue(readings: &[TrainSample]) -> bool {
    readings.iter().filter(|r| r.has_overflowed()).count() * 6 > readings.len()
}

/// How many of these met a stall: jumps are stalls as long as they are rare.
fn stalled_trains(readings: &[TrainSample]) -> usize {
    let jumped = readings.iter().filter(|r| r.has_delay_jump).count();
    if jumped * 4 <= readings.len() { jumped } else { 0 }
}

/// Where little is left and few trains say so, or a queue grew at that rate, what is left may be what connections gave up to the trains
/// themselves: only that it is not more is known.
fn nearly_full_rate(state: &PrimedState, used: &[TrainSample], interval: &RateInterval) -> Option<Rate> {
    let high = interval.value + interval.half_width;
    let is_little = high < MAX_LOW_RATE_PART * state.path_model.capacity.unwrap_or(0.0);
    let is_vague =
        used.len() < MIN_TRAINS_AT_LOW_RATE && interval.half_width > MAX_RELATIVE_UNCERTAINTY * interval.value;
    let is_full = state.tight_link_search.grew_at_low_rate()
        || is_little && is_vague && state.tight_link_search.ceiling_rate().is_none();
    is_full.then(|| Rate::from_f64(high))
}

/// The outcome so far.
pub(super) fn outcome(state: &PrimedState, elapsed: Span) -> Outcome {
    let used = used_samples(state);
    let found = find_interval(state, &used, elapsed);
    let (reason, bound) = found.as_ref().err().cloned().unzip();
    Outcome {
        available: found.as_ref().ok().map(RateInterval::estimate),
        spread: found.as_ref().ok().map(|interval| Rate::from_f64(interval.spread)),
        bound: bound.flatten(),
        reason,
        capacity: state.path_model.capacity.map(Rate::from_f64),
        tight_link: tight_link(state),
        hidden_bucket: hidden_bucket_rate(state).filter(|_| found.is_err()).map(Rate::from_f64),
        refused: None,
        trains_used: used.len() as u32,
        trains_rejected: rejection_counts(state),
        warnings: outcome_warnings(state, &used),
    }
}

/// The value; or the reason why there is none, and what is known instead.
fn find_interval(
    state: &PrimedState,
    used: &[TrainSample],
    elapsed: Span,
) -> Result<RateInterval, (Reason, Option<Bound>)> {
    let no_value = |reason: Reason| (reason, outcome_bound(state, used));
    if state.tight_link_search.ceiling_rate().is_some() && !state.tight_link_search.is_verified() {
        return Err(no_value(Reason::TightLinkVaries));
    }
    let mut interval = candidate_interval(state, used, elapsed).map_err(no_value)?;
    if let Some(high) = nearly_full_rate(state, used, &interval) {
        return Err((Reason::NearlyFull, Some(Bound::AtMost(high, BoundKind::NearlyFull))));
    }
    if let Some(low) = state.tight_link_search.least_available_rate() {
        interval.low = interval.low.min(low.max(0.0));
    }
    if has_short_queue(used) && interval.half_width > MAX_LOSSY_RELATIVE_HALF_WIDTH * interval.value {
        interval.low = 0.0;
    }
    Ok(interval)
}

/// What has been found, whether or not it has been verified; or the reason why nothing has.
fn candidate_interval(state: &PrimedState, used: &[TrainSample], elapsed: Span) -> Result<RateInterval, Reason> {
    if state.tight_link_search.ceiling_rate().is_some() {
        let interval = state.tight_link_search.tight_link.as_ref().and_then(TightLink::interval);
        return interval.ok_or(Reason::TightLinkVaries);
    }
    let capacity = state.path_model.capacity.unwrap_or(0.0);
    if informative_trains(used, capacity) < MIN_VALUE_TRAINS
        || is_out_of_reach(state)
        || hidden_bucket_rate(state).is_some()
    {
        return Err(no_value_reason(state, used));
    }
    if state.path_model.unexplained_loss > MAX_RANDOM_LOSS_FRACTION + loss_error(state) {
        let percent = state.path_model.unexplained_loss * 100.0;
        return Err(Reason::LossWithoutQueue(percent.round() as u32));
    }
    let interval = estimate_interval(used, elapsed.as_secs_f64(), &state.path_model);
    if interval.half_width > MAX_RELATIVE_HALF_WIDTH * capacity {
        let high = interval.estimate().high;
        return Err(Reason::TrainsDisagree(high));
    }
    Ok(interval)
}

/// The standard error of the part that is lost at random, where that is as large as can be.
fn loss_error(state: &PrimedState) -> f64 {
    let packets: usize = state.trains.iter().map(|train| train.body().count()).sum();
    (MAX_RANDOM_LOSS_FRACTION * (1.0 - MAX_RANDOM_LOSS_FRACTION) / packets.max(1) as f64).sqrt()
}

fn tight_link(state: &PrimedState) -> Option<Rate> {
    state.tight_link_search.tight_link.as_ref().map(|tight| Rate::from_f64(1.0 / tight.slope.max(1e-12)))
}

fn outcome_warnings(state: &PrimedState, used: &[TrainSample]) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if let Some(burst) = state.path_model.burst_rate.filter(|_| !is_out_of_reach(state)) {
        warnings.push(Warning::BurstsPass(Rate::from_f64(burst)));
    }
    if let (Some(tight), Some(narrow)) = (tight_link(state), state.path_model.capacity) {
        warnings.push(Warning::TightLink(tight, Rate::from_f64(narrow)));
    }
    if has_short_queue(used) {
        warnings.push(Warning::ShortQueue);
    }
    warnings
}

fn rejection_counts(state: &PrimedState) -> BTreeMap<Rejection, u32> {
    let mut rejected = state.rejected.clone();
    let stalls = [
        (Rejection::PathStalled, stalled_trains(&state.path_model.samples) as u32),
        (Rejection::ReceiverStalled, state.path_model.receiver_stalls),
        (Rejection::SendingDisturbed, state.path_model.disturbed_trains),
    ];
    rejected.extend(stalls.into_iter().filter(|&(_, count)| count > 0));
    rejected
}

/// What is known where there is no value since nothing filled the path.
fn outcome_bound(state: &PrimedState, used: &[TrainSample]) -> Option<Bound> {
    let is_misled = hidden_bucket_rate(state).is_some() || state.tight_link_search.ceiling_rate().is_some();
    // A bucket that is used up in a train of bursts looks like a path that stalls.
    let most_are_disturbed = state.path_model.disturbed_trains as usize > used.len();
    if is_misled || most_are_disturbed || state.path_model.short_primes as usize > used.len() {
        None
    } else if is_out_of_reach(state) {
        Some(Bound::AtLeast(Rate::from_f64(carried_rate(state)), BoundKind::Sender))
    } else if used.len() >= MIN_VALUE_TRAINS
        && informative_trains(used, state.path_model.capacity.unwrap_or(0.0)) < MIN_VALUE_TRAINS
    {
        let available: Vec<f64> = used.iter().map(|r| r.available).collect();
        let limit = if held_up_rates(state).is_some() { BoundKind::Sender } else { BoundKind::Budget };
        let error = standard_deviation(&available) / (available.len() as f64).sqrt();
        let least = mean(&available) - student_t_95(available.len()) * error;
        (least > 0.0).then(|| Bound::AtLeast(Rate::from_f64(least), limit))
    } else {
        None
    }
}

/// The rate at which trains arrived in the end behind a token bucket that was not known before. There is one, too, where the fastest trains
/// seem not to have filled the path, though the delay grew so fast in them that nothing can be said to be available.
fn hidden_bucket_rate(state: &PrimedState) -> Option<f64> {
    let slowest = || state.path_model.samples.iter().map(|r| r.arrival_rate).reduce(f64::min);
    let nothing_lasts = is_out_of_reach(state) && carried_rate(state) <= 0.0;
    state.path_model.hidden_bucket.or_else(|| slowest().filter(|_| nothing_lasts))
}

/// The highest rate that was sent, less what a queue that grew slowly tells: at a link of C, growth by g seconds a second means that
/// g · C of it was too much. C is not known, but is taken for no more than four times what was sent. What was sent in bursts must
/// also have arrived at its rate as a whole: a bucket may pass a part of it faster.
fn carried_rate(state: &PrimedState) -> f64 {
    const MAX_CAPACITY_RATIO: f64 = 4.0;
    const NEAR_CAPACITY_PART: f64 = 0.95;
    let readings = &state.path_model.samples;
    let fastest = highest_rate(readings);
    let near: Vec<f64> =
        readings.iter().filter(|r| r.rate >= NEAR_CAPACITY_PART * fastest).map(|r| r.delay_growth).collect();
    let growth = median(&near).unwrap_or(0.0).max(0.0);
    let whole = readings.iter().map(|r| r.rate.min(r.arrival_rate)).fold(0.0, f64::max);
    let most = if sends_in_bursts(state) { whole } else { fastest };
    most.min(fastest * (1.0 - MAX_CAPACITY_RATIO * growth).max(0.0))
}

fn highest_rate(readings: &[TrainSample]) -> f64 {
    readings.iter().map(|r| r.rate).fold(0.0, f64::max)
}

/// The highest rate that was planned for bursts, and the highest at which they left, where that is far less.
fn held_up_rates(state: &PrimedState) -> Option<[Rate; 2]> {
    let sent = highest_rate(&state.path_model.samples);
    (sent < HELD_UP_RATE_PART * state.max_planned_rate).then(|| [state.max_planned_rate, sent].map(Rate::from_f64))
}

fn no_value_reason(state: &PrimedState, used: &[TrainSample]) -> Reason {
    if hidden_bucket_rate(state).is_some() && sends_in_bursts(state) {
        return Reason::ArrivedEverMoreSlowly;
    }
    if hidden_bucket_rate(state).is_some() {
        return Reason::UnknownTokenBucket;
    }
    if state.path_model.short_primes as usize > used.len() {
        return Reason::TokenBucketNotEmptied;
    }
    match outcome_bound(state, used) {
        Some(Bound::AtLeast(rate, BoundKind::Sender)) if held_up_rates(state).is_some() => {
            let [planned, sent] = held_up_rates(state).unwrap_or_default();
            return Reason::SenderHeldUp(planned, sent, rate);
        }
        Some(Bound::AtLeast(_, BoundKind::Sender)) => {
            return Reason::SenderLimited(Rate::from_f64(highest_rate(&state.path_model.samples)));
        }
        Some(Bound::AtLeast(rate, _)) => return Reason::PathNotFilled(rate),
        _ => {}
    }
    let causes = rejection_counts(state);
    let rejected: u32 = causes.values().sum();
    match causes.iter().max_by_key(|(_, count)| **count) {
        _ if state.scouted_rate.is_none() => Reason::NoPacketArrived,
        Some((why, _)) => Reason::TrainsRejected(rejected, *why),
        None => Reason::TooFewTrains(MIN_VALUE_TRAINS as u32),
    }
}
