//! What the utilization of the narrow link, as sparse small packets see it, says of what trains have found.
//!
//! Small packets do not push TCP connections aside, as trains do, and see a packet of others on the link even where flows have
//! queues of their own. But they see the load of all links, and noise of hosts and receivers as well: what they find idle is idle, but
//! what they find busy need not be. So where both agree they narrow an interval down; else they lower its low end, if what they saw is a
//! queue; and they give the value where flows have queues of their own, of which trains see nothing, or where queues are so short that trains
//! lose packets at any rate, while there is room for a small one. They narrow an interval or give a value only where the link is seen to
//! have the rate still that they are a part of. A policer has no part in what they see, so that a longer train must pass then.

use crate::interpretation::flow_queueing;
use crate::interpretation::stamp_scatter;
use kumade_estimate::{
    Bound, BoundKind, Capacity, LinkState, Outcome, PolicingResult, Reason, Utilization, UtilizationConfig, Warning,
};
use kumade_probe_train::Estimate;
use kumade_units::{Rate, Span};

/// How long it is looked where trains leave much open, …
const OBSERVATION_TIME: Span = Span::from_secs(2);
/// … and where they do not.
const SHORT_OBSERVATION_TIME: Span = Span::from_millis(500);
/// An interval narrower than this part of the link is precise, …
const NARROW_RELATIVE_WIDTH: f64 = 0.035;
/// … unless its low end is below this part of its high end.
const UNCERTAIN_LOW_END_RATIO: f64 = 0.8;
/// Of an interval whose low end is below this part of its high end, it is not known whether anything is available.
const VAGUE_LOW_END_RATIO: f64 = 0.5;
/// Where flows have queues of their own, so few packets wait for longer than for one other, if flows are many, …
const MAX_QUEUED_SHARE_OF_MANY_FLOWS: f64 = 0.08;
/// … and in a queue that is short, so few do.
const MAX_QUEUED_SHARE_IN_SHORT_QUEUE: f64 = 0.5;
/// … or of one flow, which also meets sparse packets of others, …
const MAX_QUEUED_SHARE: f64 = 0.3;
/// … and those that wait do so on average for this part of one at least: on a faster link, they wait for less.
const MIN_MEAN_WAIT_PACKETS: f64 = 0.42;
/// Where the link seems busier than this, …
const MAX_BUSY_SHARE: f64 = 0.9;
/// … waits depend on those before by so much, if there is a queue.
const MIN_CORRELATION: f64 = 0.3;
/// Packets that wait for one of the narrow link do so on average for this part of the time that a full one takes, …
const MIN_CREDIBLE_WAIT_PACKETS: f64 = 0.2;
/// … and certainly for no other one's if it is this part.
const MIN_CERTAIN_WAIT_PACKETS: f64 = 0.35;
/// Where a full packet takes less than this, and more of those that wait than this part do so for longer than for one, hosts may be
/// the cause, …
const MAX_HOST_LATENESS: Span = Span::from_micros(80);
const MAX_CERTAIN_QUEUED_SHARE: f64 = 0.3;
/// … unless waits depend on those before by so much.
const MIN_CERTAIN_CORRELATION: f64 = 0.4;
/// The low end of an interval allows for more than chance if it is so many times as far from the value as the high one.
const MAX_ASYMMETRY_RATIO: f64 = 8.0;
/// So much may be lost of a train that passes.
const MAX_LOST_FRACTION: f64 = 0.02;
/// A precise value and the look may differ by this part of the link.
const MAX_UTILIZATION_DIFFERENCE: f64 = 0.05;
/// Little is available below this part of the link.
const LITTLE_AVAILABLE_PART: f64 = 0.4;
/// A fair share is less than this part of the link.
const MAX_FAIR_SHARE_PART: f64 = 0.75;
/// TCP connections leave this part of a link idle for moments: a short look does not tell it from none.
const RESOLUTION_FRACTION: f64 = 0.08;
/// BBR leaves it idle for 200 ms once in ten seconds, and for about two of its round trips more until its packets fill it again.
const BBR_IDLE_TIME: Span = Span::from_millis(320);
/// Even in a very short look, that is no more than this part.
const MAX_RESOLUTION_FRACTION: f64 = 0.25;

/// Where only the fastest bursts tell the rate of the link, it may be less by the first part, and more by the second one, since cross
/// traffic slows bursts down.
const BURST_RATE_MARGINS: [f64; 2] = [0.03, 0.1];
/// A long train is no faster than the link, but for this factor.
const MAX_LONG_TRAIN_RATIO: f64 = 1.1;

/// The rate of the narrow link, as far as it is known: not where a long train was faster than bursts.
pub(crate) fn narrow_link_rate(capacity: &Capacity) -> Option<Estimate<Rate>> {
    let rate = capacity.bottleneck_rate.or_else(|| rate_of_fastest_burst(capacity))?;
    let is_faster = |long: Rate| long.as_f64() > MAX_LONG_TRAIN_RATIO * rate.high.as_f64();
    (!capacity.fastest_long_train_rate.is_some_and(is_faster)).then_some(rate)
}

/// The rate that the fastest bursts show, unless stamps scatter too much for it.
fn rate_of_fastest_burst(capacity: &Capacity) -> Option<Estimate<Rate>> {
    let error = capacity.burst_rate_error;
    let fastest = capacity.fastest_burst_rate.filter(|_| error <= stamp_scatter::MAX_RELATIVE_ERROR)?;
    Some(stamp_scatter::widen(estimate_from_bursts(fastest), fastest.as_f64() * error))
}

/// The rate of a link that bursts show to be `value`.
fn estimate_from_bursts(value: Rate) -> Estimate<Rate> {
    let [low, high] = [1.0 - BURST_RATE_MARGINS[0], 1.0 + BURST_RATE_MARGINS[1]].map(|part| value.as_f64() * part);
    Estimate { value, low: Rate::from_f64(low), high: Rate::from_f64(high), confidence: 0.95 }
}

/// The rate of the narrow link, if packets that come while others are sent wait for these: not where a token bucket lets them pass.
fn link_rate_from_waits(capacity: &Capacity, outcome: &Outcome) -> Option<Estimate<Rate>> {
    let is_bucket = capacity.shaper.is_some()
        || (capacity.has_small_bucket && (outcome.available.is_some() || may_explain_losses(outcome)));
    // Where a queue holds less than a burst, what passes of the trains' first packets shows the rate.
    let of_trains = outcome.capacity.filter(|_| may_explain_losses(outcome) && capacity.fastest_burst_rate.is_none());
    narrow_link_rate(capacity).or(of_trains.map(estimate_from_bursts)).filter(|_| !is_bucket)
}

/// The rate of the narrow link, and for how long its utilization is to be looked at; none where there is nothing that it can tell.
pub(crate) fn needed_observation(capacity: &Capacity, outcome: &Outcome) -> Option<(Estimate<Rate>, Span)> {
    let rate = link_rate_from_waits(capacity, outcome)?;
    let is_open = match (outcome.available, outcome.bound) {
        (Some(found), _) => !is_precise_estimate(&found, rate.value),
        (None, Some(bound)) => matches!(bound.kind(), BoundKind::NearlyFull | BoundKind::FlowQueueing),
        (None, None) => flow_queueing::is_due_to_overtaking(outcome),
    };
    let is_open = is_open || may_explain_losses(outcome);
    let time = if is_open { OBSERVATION_TIME } else { observation_time(rate.value) };
    (is_open || outcome.available.is_some()).then_some((rate, time))
}

/// The same before a longer train is sent, which takes from others what they would give up to it: where little of the link is available.
pub(crate) fn needed_observation_before_long_train(
    capacity: &Capacity,
    outcome: &Outcome,
) -> Option<(Estimate<Rate>, Span)> {
    let rate = link_rate_from_waits(capacity, outcome)?;
    let found = outcome.available.filter(|found| found.value.as_f64() < LITTLE_AVAILABLE_PART * rate.value.as_f64())?;
    (!is_precise_estimate(&found, rate.value)).then_some((rate, observation_time(rate.value)))
}

/// A short look at a link of this rate: longer where that is slow, for enough packets.
fn observation_time(rate: Rate) -> Span {
    SHORT_OBSERVATION_TIME.max(UtilizationConfig::min_duration(rate).min(OBSERVATION_TIME))
}

/// Whether others keep the link busy all the time, which only those do that would take more: what trains found is what these gave up.
pub(crate) fn is_always_busy(found: &Utilization) -> bool {
    found.correlation >= MIN_CORRELATION && found.busy_fraction.low > MAX_BUSY_SHARE
}

/// The outcome in the light of how busy the narrow link, whose rate is `link`, was. `lasts` tells whether a longer train has passed at what was
/// found available: no token bucket then keeps the link idle.
pub(crate) fn interpret_utilization(
    found: &Utilization,
    link: &Estimate<Rate>,
    lasts: bool,
    outcome: Outcome,
    fair_share: Option<Estimate<Rate>>,
) -> Outcome {
    let left = found.available_of_link(link);
    match outcome.available {
        Some(value) => {
            let state = link_state(found, link, &outcome);
            Outcome { available: Some(compare_with_utilization(found, (link, state), lasts, value)), ..outcome }
        }
        None if found.link_state != LinkState::Same => outcome,
        None if is_flow_queueing(&outcome) && agrees_with_one_link(found, link.value, fair_share) => {
            let mut warnings = outcome.warnings;
            warnings.push(Warning::IdleBesideFlowQueueing);
            Outcome { available: Some(left), bound: None, reason: None, warnings, ..outcome }
        }
        None if is_flow_queueing(&outcome) && fair_share.is_none() => match interval_between(&left, link, &outcome) {
            Some(value) => {
                let mut warnings = outcome.warnings;
                warnings.push(Warning::WideBesideFlowQueueing);
                Outcome { available: Some(value), bound: None, reason: None, warnings, ..outcome }
            }
            None => outcome,
        },
        None => outcome,
    }
}

/// Whether trains tell no value because of what they lose or queue, which sparse packets do not: they find room in the shortest queue.
pub(crate) fn may_explain_losses(outcome: &Outcome) -> bool {
    let is_limited = outcome.bound.is_some_and(|bound| bound.kind() == BoundKind::TokenBucket);
    let is_lossy = matches!(outcome.reason, Some(Reason::LossWithoutQueue(_) | Reason::LossOfUnknownCause(_)));
    outcome.available.is_none() && (is_limited || is_lossy)
}

/// What the link leaves idle, which a longer train is still to show, where trains tell no value because of what they lose or queue. None
/// where less arrived of these, as behind a token bucket, or where packets wait for other reasons than the link's queue.
pub(crate) fn idle_despite_losses(found: &Utilization, link: &Estimate<Rate>, outcome: &Outcome) -> Option<Outcome> {
    let left = found.available_of_link(link);
    let is_excluded = outcome.bound.and_then(|bound| bound.upper_bound()).is_some_and(|most| left.low > most);
    let is_of_hosts = link.value.time_for(1500) < MAX_HOST_LATENESS && found.queued_fraction > MAX_CERTAIN_QUEUED_SHARE;
    let is_queue = match is_of_hosts {
        true => found.correlation >= MIN_CERTAIN_CORRELATION,
        false => {
            found.correlation >= MIN_CORRELATION
                || found.busy_fraction.high < MAX_BUSY_SHARE && found.queued_fraction <= MAX_QUEUED_SHARE_IN_SHORT_QUEUE
        }
    };
    let is_told = may_explain_losses(outcome) && found.link_state == LinkState::Same;
    if !is_told || is_excluded || !is_queue || found.mean_wait < MIN_CREDIBLE_WAIT_PACKETS {
        return None;
    }
    let mut warnings = outcome.warnings.clone();
    warnings.push(Warning::IdleDespiteLosses);
    let (available, capacity) = (Some(left), Some(link.value));
    Some(Outcome { available, bound: None, reason: None, spread: None, capacity, warnings, ..outcome.clone() })
}

/// The outcome of [`idle_despite_losses`] in the light of a longer train; none where hardly anything of it passed.
///
/// A link of the rate C that drops the part p of all packets carries r · (1 − p) of a train at the rate r, and x · (1 − p) of cross traffic,
/// and no more than C. So x is at most C / (1 − p) − r, and at least r − (r + x) · p = r − C · p / (1 − p) is available.
pub(crate) fn outcome_of_passed_rate(found: &PolicingResult, outcome: Outcome) -> Option<Outcome> {
    let PolicingResult::PassesPartly { rate, arrival_rate: arrived, .. } = found else { return None };
    let (idle, link) = (outcome.available?, outcome.capacity?);
    let [rate, arrived] = [*rate, *arrived].map(Rate::as_f64);
    let least = match arrived < (1.0 - MAX_LOST_FRACTION) * rate {
        true => rate - link.as_f64() * (rate - arrived) / arrived.max(1.0),
        false => idle.low.as_f64(),
    };
    let low = idle.low.min(Rate::from_f64(least.max(0.0)));
    let available = Estimate { low, ..idle };
    (!is_vague_estimate(&available)).then_some(Outcome { available: Some(available), ..outcome })
}

/// From what is idle as small packets see it, to which others than the narrow link may have added, to the most that trains allow; none
/// where that is vague.
fn interval_between(left: &Estimate<Rate>, link: &Estimate<Rate>, outcome: &Outcome) -> Option<Estimate<Rate>> {
    let most = outcome.bound.and_then(|bound| bound.upper_bound())?;
    let all = Estimate { high: left.high.max(most.min(link.high)), ..*left };
    (!is_vague_estimate(&all)).then_some(all)
}

/// Whether the value rests on the look as well: what the look only lowers is still what trains found while they passed.
pub(crate) fn is_value_of_look(found: &Utilization, link: &Estimate<Rate>, outcome: &Outcome) -> bool {
    link_state(found, link, outcome) == LinkState::Same
}

/// Whether the link that was looked at still has the rate of `link`, and is the one that trains have found a value for.
fn link_state(found: &Utilization, link: &Estimate<Rate>, outcome: &Outcome) -> LinkState {
    match outcome.capacity.map(|of_trains| LinkState::from_rates(of_trains, link.value)) {
        Some(LinkState::Changed) => LinkState::Changed,
        _ => found.link_state,
    }
}

/// What trains found, compared with what the link left idle.
fn compare_with_utilization(
    found: &Utilization,
    (link, state): (&Estimate<Rate>, LinkState),
    lasts: bool,
    value: Estimate<Rate>,
) -> Estimate<Rate> {
    let (left, rate) = (found.available_of_link(link), link.value);
    let is_queue = found.correlation >= MIN_CORRELATION;
    if !is_queue && (found.busy_fraction.value > MAX_BUSY_SHARE || found.mean_wait < MIN_CREDIBLE_WAIT_PACKETS) {
        return value;
    }
    if is_precise_estimate(&value, rate) {
        let differs = value.low.as_f64() - left.high.as_f64() > MAX_UTILIZATION_DIFFERENCE * rate.as_f64();
        return if differs { lower_low_end(&value, &left) } else { value };
    }
    // So much for so many may also be hosts that read late.
    let is_of_hosts = rate.time_for(1500) < MAX_HOST_LATENESS && found.queued_fraction > MAX_CERTAIN_QUEUED_SHARE;
    let is_certain = match is_of_hosts {
        false => is_queue || found.mean_wait >= MIN_CERTAIN_WAIT_PACKETS,
        true => found.correlation >= MIN_CERTAIN_CORRELATION,
    };
    match lasts {
        true if is_certain && state == LinkState::Same && intervals_overlap(&value, &left) => {
            combine_estimates(&value, &left)
        }
        true if state != LinkState::Changed && value.high < left.high => {
            Estimate { high: left.high, ..lower_low_end(&value, &left) }
        }
        _ => lower_low_end(&value, &left),
    }
}

/// The outcome with what a look of this duration at a nearly full path cannot tell.
pub(crate) fn widen_to_resolution(rate: Option<Rate>, duration: Span, outcome: Outcome) -> Outcome {
    let Some(rate) = rate.or(outcome.capacity) else { return outcome };
    let idle = BBR_IDLE_TIME.as_secs_f64() / duration.as_secs_f64().max(1e-3);
    let least = Rate::from_f64(rate.as_f64() * idle.clamp(RESOLUTION_FRACTION, MAX_RESOLUTION_FRACTION));
    let is_less_than_told = |found: &Estimate<Rate>| found.high.as_f64() < RESOLUTION_FRACTION * rate.as_f64();
    let bound = outcome.bound.map(|bound| match bound {
        Bound::AtMost(most, BoundKind::NearlyFull) => Bound::AtMost(most.max(least), BoundKind::NearlyFull),
        other => other,
    });
    let available = outcome.available.map(|found| match is_vague_estimate(&found) || is_less_than_told(&found) {
        true => Estimate {
            high: found.high.max(least),
            low: if found.low < least { Rate::ZERO } else { found.low },
            ..found
        },
        false => found,
    });
    Outcome { available, bound, ..outcome }
}

fn is_precise_estimate(found: &Estimate<Rate>, rate: Rate) -> bool {
    (found.high.as_f64() - found.low.as_f64()) <= NARROW_RELATIVE_WIDTH * rate.as_f64()
        && found.low.as_f64() >= UNCERTAIN_LOW_END_RATIO * found.high.as_f64()
}

fn is_vague_estimate(found: &Estimate<Rate>) -> bool {
    found.low.as_f64() < VAGUE_LOW_END_RATIO * found.high.as_f64()
}

fn is_flow_queueing(outcome: &Outcome) -> bool {
    let is_bound = outcome.bound.is_some_and(|bound| bound.kind() == BoundKind::FlowQueueing);
    is_bound || flow_queueing::is_due_to_overtaking(outcome)
}

/// Whether packets waited for packets of the narrow link, and for one at a time.
fn agrees_with_one_link(found: &Utilization, rate: Rate, fair_share: Option<Estimate<Rate>>) -> bool {
    let is_share = |share: Estimate<Rate>| share.value.as_f64() < MAX_FAIR_SHARE_PART * rate.as_f64();
    let most_queued = if fair_share.is_some() { MAX_QUEUED_SHARE } else { MAX_QUEUED_SHARE_OF_MANY_FLOWS };
    let is_queue = found.correlation >= MIN_CERTAIN_CORRELATION;
    let waits_for_one = found.queued_fraction <= most_queued && found.mean_wait >= MIN_MEAN_WAIT_PACKETS && !is_queue;
    found.busy_fraction.high < MAX_BUSY_SHARE && waits_for_one && fair_share.is_none_or(is_share)
}

fn intervals_overlap(one: &Estimate<Rate>, other: &Estimate<Rate>) -> bool {
    one.low <= other.high && other.low <= one.high
}

/// Both, each with the weight of its precision. But a low end that allows for a queue which may have grown unseen is not raised: where that is at
/// a faster link, small packets wait there for so short a time that they do not see it either.
fn combine_estimates(one: &Estimate<Rate>, other: &Estimate<Rate>) -> Estimate<Rate> {
    let half = |of: &Estimate<Rate>| ((of.high.as_f64() - of.low.as_f64()) / 2.0).max(1.0);
    let [weight, other_weight] = [half(one).powi(-2), half(other).powi(-2)];
    let sum = weight + other_weight;
    let mean = |of: fn(&Estimate<Rate>) -> Rate| (of(one).as_f64() * weight + of(other).as_f64() * other_weight) / sum;
    let value = mean(|of| of.value);
    let margin = sum.sqrt().recip().max((one.value.as_f64() - other.value.as_f64()).abs());
    let [low, high] = [value - margin, value + margin].map(|end| Rate::from_f64(end.max(0.0)));
    let [below, above] = [one.value.as_f64() - one.low.as_f64(), one.high.as_f64() - one.value.as_f64()];
    let low = if below > MAX_ASYMMETRY_RATIO * above { low.min(one.low) } else { low };
    // What trains found beyond that, connections may have given up to them, and as much again while both looked.
    let given_up = (one.value.as_f64() - other.value.as_f64()).max(0.0);
    let least = Rate::from_f64((other.value.as_f64() - given_up).max(other.low.as_f64()));
    Estimate { value: Rate::from_f64(value), low: low.min(least), high, confidence: one.confidence }
}

/// The first, with an interval that begins where the other one does, if that is lower.
fn lower_low_end(one: &Estimate<Rate>, other: &Estimate<Rate>) -> Estimate<Rate> {
    Estimate { low: one.low.min(other.low), ..*one }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const RATE: Rate = Rate::from_mbit(100);
    const LINK: Estimate<Rate> = Estimate { value: RATE, low: RATE, high: RATE, confidence: 0.95 };

    fn rates(low: u64, value: u64, high: u64) -> Estimate<Rate> {
        let [low, value, high] = [low, value, high].map(Rate::from_mbit);
        Estimate { value, low, high, confidence: 0.95 }
    }

    fn outcome(available: Option<Estimate<Rate>>, bound: Option<Bound>) -> Outcome {
        Outcome {
            available,
            bound,
            reason: None,
            spread: None,
            capacity: Some(RATE),
            tight_link: None,
            hidden_bucket: None,
            refused: None,
            trains_used: 11,
            trains_rejected: BTreeMap::new(),
            warnings: Vec::new(),
        }
    }

    /// Full packets of one link, without a queue.
    fn busy(low: f64, value: f64, high: f64) -> Utilization {
        let busy = Estimate { value, low, high, confidence: 0.95 };
        Utilization {
            busy_fraction: busy,
            own_fraction: 0.0,
            queued_fraction: 0.0,
            mean_wait: 0.5,
            correlation: 0.1,
            link_state: LinkState::Same,
        }
    }

    /// Beside connections, trains found 1.25 of 2.3 Mbit/s and sparse packets 1.0 to 1.2, where 0.87 were left.
    #[test]
    fn the_low_end_allows_for_what_connections_give_up_to_trains() {
        let (trains, sparse) = (rates(46, 54, 62), rates(33, 44, 53));
        assert_eq!(combine_estimates(&trains, &sparse).low, Rate::from_mbit(34));
        let (less, more) = (rates(46, 47, 62), rates(33, 48, 53));
        assert!(combine_estimates(&less, &more).low > Rate::from_mbit(36));
    }

    /// Beside 130 Mbit/s of cross traffic on a link of 240 Mbit/s, hosts that read late made waits; the interval ended 6 % below the truth of 116.
    #[test]
    fn waits_that_hosts_explain_narrow_nothing_on_a_fast_link() {
        let rate = Rate::from_mbit(240);
        let link = Estimate { value: rate, low: rate, high: rate, confidence: 0.95 };
        let looked = Utilization { queued_fraction: 0.5, mean_wait: 0.67, correlation: 0.31, ..busy(0.61, 0.73, 0.84) };
        let value = rates(24, 107, 189);
        assert_eq!(compare_with_utilization(&looked, (&link, LinkState::Same), true, value), value);
        let of_queue = Utilization { correlation: 0.6, ..looked };
        assert!(compare_with_utilization(&of_queue, (&link, LinkState::Same), true, value).high < value.high);
    }

    fn capacity() -> Capacity {
        Capacity {
            bottleneck_rate: Some(rates(99, 100, 101)),
            lower_bound: None,
            is_indefinite: false,
            reason: None,
            is_sender_limited: false,
            shaper: None,
            fastest_burst_rate: None,
            waiting_fraction: None,
            is_disordered: false,
            has_small_bucket: false,
            may_be_round_robin: true,
            slowest_long_train_rate: None,
            fastest_long_train_rate: None,
            median_burst_bits: 84e3,
            median_train_bits: 0.0,
            burst_rate_error: 0.0,
            bursts_used: 20,
            trains_rejected: BTreeMap::new(),
        }
    }

    fn judged(found: &Utilization, lasts: bool, value: Estimate<Rate>) -> Estimate<Rate> {
        interpret_utilization(found, &LINK, lasts, outcome(Some(value), None), None).available.unwrap()
    }

    #[test]
    fn where_both_agree_the_interval_is_narrower_unless_a_bucket_may_keep_the_link_idle() {
        let (value, found) = (rates(20, 30, 40), busy(0.67, 0.7, 0.73));
        let both = judged(&found, true, value);
        assert!(both.low > Rate::from_mbit(26) && both.high < Rate::from_mbit(34), "{both:?}");
        assert_eq!(judged(&found, false, value), value);
    }

    /// A look at a link that had another rate by then narrowed the interval, or gave the value; and one that could not tell narrowed it as well.
    #[test]
    fn a_look_at_a_link_that_may_have_changed_only_widens() {
        let value = rates(20, 30, 40);
        let of_trains = |capacity| Outcome { capacity: Some(Rate::from_mbit(capacity)), ..outcome(Some(value), None) };
        let bound = Some(Bound::AtMost(Rate::from_mbit(70), BoundKind::FlowQueueing));
        for state in [LinkState::Changed, LinkState::Unknown] {
            let seen = Utilization { link_state: state, ..busy(0.67, 0.7, 0.73) };
            assert_eq!(judged(&seen, true, value), value);
            let busier = Utilization { correlation: 0.6, ..Utilization { link_state: state, ..busy(0.86, 0.88, 0.9) } };
            assert_eq!(judged(&busier, true, value), rates(10, 30, 40));
            assert!(is_always_busy(&Utilization { link_state: state, correlation: 0.6, ..busy(0.95, 0.97, 1.0) }));
            let without = outcome(None, bound);
            assert_eq!(interpret_utilization(&seen, &LINK, true, without.clone(), None), without);
            let lossy = short_queue(None);
            assert_eq!(
                idle_despite_losses(&Utilization { link_state: state, ..busy(0.55, 0.6, 0.65) }, &LINK, &lossy),
                None
            );
            assert!(!is_value_of_look(&seen, &LINK, &of_trains(100)));
        }
        // The same where trains were of a link of another rate than the one that is looked at.
        let seen = busy(0.67, 0.7, 0.73);
        assert_eq!(interpret_utilization(&seen, &LINK, true, of_trains(60), None).available, Some(value));
        assert!(!is_value_of_look(&seen, &LINK, &of_trains(60)) && is_value_of_look(&seen, &LINK, &of_trains(95)));
    }

    /// Beside a link of 104 Mbit/s that was nearly idle, one of 540 of which 83 were left let small packets wait for 22 µs at most: from 96 to
    /// 100 were said to be available.
    #[test]
    fn small_packets_do_not_see_a_queue_that_grows_at_a_faster_link() {
        let unseen = rates(83, 97, 98);
        let both = judged(&Utilization { mean_wait: 0.35, ..busy(0.0, 0.02, 0.04) }, true, unseen);
        assert_eq!(both.low, unseen.low);
    }

    #[test]
    fn what_tcp_connections_gave_up_to_trains_is_not_available() {
        let queue = Utilization { queued_fraction: 0.9, correlation: 0.9, ..busy(0.97, 0.99, 1.0) };
        for lasts in [true, false] {
            assert_eq!(judged(&queue, lasts, rates(20, 30, 40)).low, Rate::ZERO);
        }
    }

    #[test]
    fn late_packets_without_a_queue_and_short_waits_for_a_faster_link_change_nothing() {
        let value = rates(20, 30, 40);
        let faster = Utilization { mean_wait: 0.1, ..busy(0.8, 0.85, 0.89) };
        for found in [busy(0.97, 0.99, 1.0), faster] {
            assert_eq!(judged(&found, true, value), value);
        }
    }

    #[test]
    fn a_precise_value_is_only_changed_where_it_is_by_far_too_high() {
        let value = rates(89, 90, 91);
        assert_eq!(judged(&busy(0.1, 0.13, 0.16), true, value), value);
        assert_eq!(judged(&busy(0.4, 0.45, 0.5), true, value), rates(50, 90, 91));
    }

    #[test]
    fn where_flows_have_queues_of_their_own_the_link_tells_what_it_leaves() {
        let refused = outcome(None, Some(Bound::AtMost(Rate::from_mbit(50), BoundKind::FlowQueueing)));
        let told = interpret_utilization(&busy(0.55, 0.6, 0.65), &LINK, true, refused.clone(), Some(rates(49, 50, 51)));
        assert_eq!(told.available, Some(rates(35, 40, 45)));
        assert!(told.bound.is_none() && told.warnings == [Warning::IdleBesideFlowQueueing]);
        // Waits in the one queue of a faster link were taken for waits for single packets of a slower one.
        let queue = Utilization { correlation: 0.56, ..busy(0.55, 0.6, 0.65) };
        assert_eq!(interpret_utilization(&queue, &LINK, true, refused.clone(), Some(rates(49, 50, 51))), refused);
        // Receivers that collect packets make all of them late.
        assert_eq!(interpret_utilization(&busy(0.9, 0.95, 1.0), &LINK, true, refused.clone(), None), refused);
    }

    fn short_queue(most: Option<u64>) -> Outcome {
        let reason = Some(Reason::LossWithoutQueue(28));
        let bound = most.map(|most| Bound::AtMost(Rate::from_mbit(most), BoundKind::TokenBucket));
        Outcome { reason, ..outcome(None, bound) }
    }

    /// Behind queues of two to four packets, of 200 measurements over UDP 33 had no value.
    #[test]
    fn where_queues_are_too_short_for_trains_the_link_tells_what_it_leaves() {
        let found = busy(0.55, 0.6, 0.65);
        for refused in [short_queue(None), short_queue(Some(45))] {
            let told = idle_despite_losses(&found, &LINK, &refused).unwrap();
            assert_eq!((told.available, told.bound, told.reason), (Some(rates(35, 40, 45)), None, None));
        }
        // Behind a policer less arrived than the line leaves idle.
        assert_eq!(idle_despite_losses(&found, &LINK, &short_queue(Some(30))), None);
        // Hosts make small packets wait for longer than one full packet takes, and none for the one before.
        let of_hosts = Utilization { queued_fraction: 0.7, ..found };
        assert_eq!(idle_despite_losses(&of_hosts, &LINK, &short_queue(None)), None);
        assert_eq!(idle_despite_losses(&found, &LINK, &outcome(Some(rates(20, 30, 40)), None)), None);
    }

    /// Behind a bucket of three packets of 5.4 Mbit/s, sparse packets found twice as much idle as was available.
    #[test]
    fn what_is_idle_is_available_as_far_as_a_longer_train_passes() {
        let told = idle_despite_losses(&busy(0.55, 0.6, 0.65), &LINK, &short_queue(None)).unwrap();
        let passed = |arrived: f64| {
            let [rate, arrived] = [33e6, 33e6 * arrived].map(Rate::from_f64);
            outcome_of_passed_rate(
                &PolicingResult::PassesPartly { bytes: 1_500_000, rate, arrival_rate: arrived },
                told.clone(),
            )?
            .available
        };
        assert_eq!(passed(1.0), Some(rates(35, 40, 45)));
        // 5 % of what is sent in all, of which no more than 100 Mbit/s arrives.
        let low = passed(0.95).unwrap().low.as_f64();
        assert!((low - (33e6 - 100e6 * 0.05 / 0.95)).abs() < 10.0, "{low}");
        assert_eq!(passed(0.8), None);
    }

    #[test]
    fn where_packets_wait_elsewhere_too_the_truth_lies_between_both() {
        let refused = outcome(None, Some(Bound::AtMost(Rate::from_mbit(70), BoundKind::FlowQueueing)));
        let others = Utilization { queued_fraction: 0.3, ..busy(0.4, 0.5, 0.6) };
        let told = interpret_utilization(&others, &LINK, true, refused.clone(), None);
        assert_eq!((told.available, told.bound), (Some(rates(40, 50, 70)), None));
        assert_eq!(told.warnings, [Warning::WideBesideFlowQueueing]);
        let host = Utilization { queued_fraction: 0.3, ..busy(0.9, 0.95, 1.0) };
        assert_eq!(
            interpret_utilization(&host, &LINK, true, refused.clone(), None),
            refused,
            "anything from nothing to 70 Mbit/s"
        );
    }

    #[test]
    fn a_link_that_is_idle_leaves_its_rate_as_far_as_that_is_known() {
        let idle = Utilization { own_fraction: 0.02, mean_wait: 0.0, ..busy(0.0, 0.0, 0.01) };
        assert_eq!(
            idle.available_of_link(&Estimate { low: Rate::from_mbit(98), high: Rate::from_mbit(103), ..LINK }),
            Estimate { low: Rate::from_f64(97.02e6), high: Rate::from_mbit(103), ..LINK }
        );
        // What the packets took themselves, nobody else had.
        let used = Utilization { own_fraction: 0.02, ..busy(0.48, 0.52, 0.56) };
        assert_eq!(used.available_of_link(&LINK), rates(44, 50, 54));
    }

    #[test]
    fn the_rate_of_the_narrow_link_is_not_known_where_a_long_train_was_faster_than_bursts() {
        let capacity = |long| Capacity {
            bottleneck_rate: None,
            fastest_burst_rate: Some(Rate::from_mbit(50)),
            fastest_long_train_rate: Some(Rate::from_mbit(long)),
            ..capacity()
        };
        assert_eq!(narrow_link_rate(&capacity(100)), None);
        // Where stamps scatter, less is known of it: both margins are there.
        let coarse = |error| narrow_link_rate(&Capacity { burst_rate_error: error, ..capacity(51) });
        let vague = coarse(0.2).unwrap();
        assert!(vague.low < Rate::from_mbit(40) && vague.high > Rate::from_mbit(60), "{vague:?}");
        assert_eq!(coarse(0.3), None);
        let narrow = narrow_link_rate(&capacity(51)).unwrap();
        assert_eq!(
            (narrow.low, narrow.value, narrow.high),
            (Rate::from_f64(48.5e6), Rate::from_mbit(50), Rate::from_mbit(55))
        );
    }

    /// A queue of two packets loses a part of each burst that is long enough to tell at more than 50 Mbit/s, so that the capacity was unknown.
    #[test]
    fn where_a_queue_holds_no_burst_trains_tell_the_rate_of_the_link() {
        let unknown = Capacity { bottleneck_rate: None, fastest_burst_rate: None, ..capacity() };
        let refused = Outcome { capacity: Some(RATE), ..short_queue(None) };
        let (link, time) = needed_observation(&unknown, &refused).unwrap();
        assert_eq!((link.value, time), (RATE, OBSERVATION_TIME));
        assert!(link.low < RATE && link.high > RATE);
        assert_eq!(needed_observation(&unknown, &outcome(Some(rates(20, 30, 40)), None)), None);
        // A bucket of a few packets lets small ones pass at once, however busy the link is.
        assert_eq!(needed_observation(&Capacity { has_small_bucket: true, ..capacity() }, &refused), None);
    }

    #[test]
    fn a_precise_value_is_looked_at_for_less_time_and_a_shaper_not_at_all() {
        let capacity = capacity();
        let time = |capacity: &Capacity, value| {
            needed_observation(capacity, &outcome(Some(value), None)).map(|(_, time)| time)
        };
        assert_eq!(time(&capacity, rates(89, 90, 91)), Some(SHORT_OBSERVATION_TIME));
        assert_eq!(time(&capacity, rates(20, 30, 40)), Some(OBSERVATION_TIME));
        let shaper = Some(kumade_estimate::Shaper {
            peak_rate: None,
            committed_rate: rates(20, 20, 20),
            burst_bytes: Estimate { value: 10_000, low: 10_000, high: 10_000, confidence: 0.95 },
        });
        assert_eq!(time(&Capacity { shaper, ..capacity.clone() }, rates(20, 30, 40)), None);
        // Nor the kernel's HTB, which by default passes two packets at once: on one of 100 Mbit/s of which others used half, the interval of
        // 50 Mbit/s reached up to 110.
        let of_few = Capacity { has_small_bucket: true, ..capacity };
        assert_eq!(time(&of_few, rates(20, 30, 40)), None);
        let nearly_full = outcome(None, Some(Bound::AtMost(Rate::from_mbit(5), BoundKind::NearlyFull)));
        assert!(needed_observation(&of_few, &nearly_full).is_some());
    }

    #[test]
    fn a_short_look_does_not_tell_little_from_nothing() {
        let vague = widen_to_resolution(Some(RATE), Span::from_secs(10), outcome(Some(rates(1, 3, 5)), None))
            .available
            .unwrap();
        assert_eq!((vague.low, vague.high), (Rate::ZERO, Rate::from_mbit(8)));
        let precise = outcome(Some(rates(29, 30, 31)), None);
        assert_eq!(widen_to_resolution(Some(RATE), Span::from_secs(10), precise.clone()), precise);
        let little = widen_to_resolution(Some(RATE), Span::from_secs(10), outcome(Some(rates(4, 5, 6)), None))
            .available
            .unwrap();
        assert_eq!((little.low, little.high), (Rate::ZERO, Rate::from_mbit(8)));
        // BBR left a link idle for 12 % of the 2.2 s that a look took, of which at most 9 % was said to be available.
        let full = outcome(None, Some(Bound::AtMost(Rate::from_mbit(9), BoundKind::NearlyFull)));
        let most =
            widen_to_resolution(Some(RATE), Span::from_millis(2200), full).bound.and_then(|bound| bound.upper_bound());
        assert!(most.is_some_and(|most| (14.0..15.0).contains(&(most.as_f64() / 1e6))), "{most:?}");
    }
}
