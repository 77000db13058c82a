//! Which train to send next.

use super::bottleneck::Bottleneck;
use super::packets::PrimedTrain;
use super::path_model::{MIN_VALUE_TRAINS, PathModel};
use super::sample::TrainSample;
use super::state::PrimedState;
use crate::capacity::{Shaper, Shaping};
use crate::cross_traffic::CROSS_PACKET_BITS;
use crate::stats::{mean, median, quantile};
use kumade_probe_train::{Segment, Train, TrainRecord};
use kumade_units::{Rate, Span};

/// Enough to fill a queue a little, more of them where a token bucket is looked for, or so many pass in less than this time, which is
/// that of a few batches of a receiver that reports packets in batches, …
const MAX_FILLING_PACKETS: u32 = 8;
const MAX_LONG_FILLING_PACKETS: u32 = 12;
const SHORT_FILLING_SECONDS: f64 = 220e-6;
/// … and to empty a token bucket before.
const MAX_PRIME_PACKETS: u32 = 150;
const MAX_BODY_PACKETS: u32 = 120;

/// Where packets are sent in bursts, the prime lasts about so long at the path's rate: a shaper that the kernel serves late holds
/// tokens for some tens of microseconds …
const FAST_PRIME_SECONDS: f64 = 400e-6;
/// … and has at least so many bursts.
const MIN_PRIME_BURSTS: u32 = 4;
/// No body or prime has more packets then, or more bytes than so many full packets of Ethernet.
const MAX_FAST_PACKETS: u32 = 3600;
/// Full packets of this rate, in bit/s, and more are sent in bursts.
const MIN_BURST_BITS_PER_SECOND: f64 = 800e6;
/// A train that verifies a value lasts about so long then.
pub(super) const VERIFICATION_SECONDS: f64 = 0.005;

/// One that is sent packet by packet has so many times as many as a train of the tight link's search, and so many at least.
pub(super) const VERIFICATION_LENGTH_RATIO: f64 = 1.6;
pub(super) const MIN_VERIFICATION_PACKETS: u32 = 48;

/// Trains start at times that differ at random by up to so many packets of cross traffic. Where single packets show, on slow links,
/// none then keeps step with periodic cross traffic that takes an eighth of the link or more.
const MAX_PHASE_SHIFT_PACKETS: f64 = 8.0;

/// No train of this method has more packets, unless they are sent in bursts.
pub(super) const MAX_PACKETS: u32 = MAX_PRIME_PACKETS + MAX_BODY_PACKETS;

/// What kind of train is on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TrainShape {
    /// A few small packets back to back: the order of magnitude.
    Scout,
    /// A prime of so many packets, then the body.
    Primed { prime: u32 },
    /// All at one rate, to find the tight link or to verify a value.
    Paced { verifies: bool },
}

/// The rate of the next train's body; none where nothing is known to choose it by.
pub(super) fn next_rate(state: &mut PrimedState) -> Option<f64> {
    let scouted = state.scouted_rate?;
    if is_sending_too_slow(state) {
        return Some(MIN_BURST_BITS_PER_SECOND * (1.01 + 0.06 * state.random()));
    }
    // The rate varies a little from train to train, so that none keeps step with periodic traffic.
    Some(target_rate(&state.path_model).unwrap_or(scouted) * (1.01 + 0.06 * state.random()))
}

/// Whether this host is too slow to send packets one by one at the rate that is looked for, while bursts may be faster.
fn is_sending_too_slow(state: &PrimedState) -> bool {
    let sent = state.trains.last().map_or(0.0, PrimedTrain::body_rate);
    let is_slower = sent > MIN_BURST_BITS_PER_SECOND / 4.0 && sent < 0.8 * state.newest_planned_rate;
    let is_one_by_one =
        state.newest_planned_rate < MIN_BURST_BITS_PER_SECOND && !state.trains.iter().any(|train| train.is_in_bursts);
    state.sends_bursts && !state.path_model.is_saturated && state.trains.len() >= 2 && is_slower && is_one_by_one
}

/// The next train; `quiet` will have passed since the last one when it leaves.
pub(super) fn plan_train(state: &PrimedState, rate: Option<f64>, quiet: Option<Span>) -> (TrainShape, Train) {
    let max_packet = state.max_packet;
    let (Some(rate), Some(scouted)) = (rate, state.scouted_rate) else {
        let first_size = 300.min(max_packet);
        let scout = Segment { count: 5, interval: Span::ZERO, first_size, size_step: 0 };
        return (TrainShape::Scout, Train { segments: vec![scout] });
    };
    let emptying =
        |shaper| emptying_packets(state, Bottleneck::behind_shaper(shaper), token_credit(state, shaper, quiet));
    if let Some(burst) = burst_pacing(state, rate) {
        return fast_train(state, rate, burst, state.shaping.shaper().map_or(0, emptying));
    }
    let size = packet_size(rate, max_packet);
    let service = f64::from(size) * 8.0 / state.path_model.capacity.unwrap_or(scouted);
    // A small token bucket that is not known of shows in the first primes.
    let looks_for_bucket = state.shaping == Shaping::Unknown && state.trains.len() <= MIN_VALUE_TRAINS;
    let fill = prime_packets(&state.path_model, service, looks_for_bucket);
    match state.shaping.shaper() {
        None => primed_train(&state.path_model, rate, size, (fill, size)),
        Some(shaper) => {
            let emptying = emptying(shaper);
            primed_train(
                &state.path_model,
                rate,
                size,
                (emptying.saturating_add(fill).min(MAX_PRIME_PACKETS), max_packet),
            )
        }
    }
}

/// The rate that keeps the queue from running empty in nearly all trains without filling it: what most readings had to
/// give, and a margin as long as there are few. None before the first reading.
pub(super) fn target_rate(knowledge: &PathModel) -> Option<f64> {
    let capacity = knowledge.capacity?;
    if !knowledge.is_saturated {
        // Nothing has filled the path: look higher.
        return Some(capacity * 2.0);
    }
    let wanted = |r: &TrainSample| if r.has_emptied { r.rate.max(r.available) * 2.0 } else { r.available };
    let rates: Vec<f64> = knowledge.samples.iter().map(wanted).collect();
    let Some(high) = quantile(&rates, 0.85) else { return Some(capacity) };
    let margin = capacity * 0.08 / (rates.len() * rates.len()) as f64;
    Some((high.max(0.0) + margin).min(capacity))
}

/// The packets' size at a rate: so large that headers and stamps weigh little, but at least one packet every 6 ms.
fn packet_size(rate: f64, max_packet: u32) -> u32 {
    ((rate * 0.006 / 8.0).max(300.0) as u32).min(max_packet)
}

/// How many packets the body is to have, at this interval.
fn body_packets(knowledge: &PathModel, interval: f64) -> u32 {
    // The first rate is a guess, often far too high: no longer than it takes to make a better one.
    let (duration, least): (f64, f64) = if knowledge.samples.is_empty() { (0.002, 16.0) } else { (0.0035, 30.0) };
    let least = if interval > 0.006 { least.min(24.0) } else { least };
    (duration / interval).clamp(least, f64::from(MAX_BODY_PACKETS)) as u32
}

/// How many packets the prime is to have: at most 20 ms of queue, and half as many each time that a queue overflowed.
fn prime_packets(knowledge: &PathModel, service: f64, looks_for_bucket: bool) -> u32 {
    let overflows = knowledge.samples.iter().filter(|r| r.has_overflowed() || r.has_prime_overflowed).count();
    let most = match looks_for_bucket {
        true => MAX_LONG_FILLING_PACKETS,
        false => ((SHORT_FILLING_SECONDS / service) as u32).clamp(MAX_FILLING_PACKETS, MAX_LONG_FILLING_PACKETS),
    };
    let most = most >> overflows.min(8);
    ((0.020 / service).max(4.0) as u32).clamp(2, most.max(2))
}

/// How much a token bucket may hold when the next train comes, in bits: the tokens since the last one, less what cross traffic
/// must be expected to use.
fn token_credit(state: &PrimedState, shaper: &Shaper, quiet: Option<Span>) -> f64 {
    let full = shaper.burst_bytes.high as f64 * 8.0;
    let capacity = shaper.committed_rate.value.as_f64();
    let (Some(quiet), Some(last)) = (quiet, state.path_model.samples.last()) else { return full };
    if state.path_model.is_newest_prime_short || state.failures_in_row > 0 {
        return full;
    }
    let available = target_rate(&state.path_model).unwrap_or(capacity).min(capacity);
    (1.2 * available * quiet.as_secs_f64() - last.backlog_bits).clamp(0.0, full)
}

/// How many of the largest packets use up so much credit: more than it is worth, since the bucket fills meanwhile. Each
/// prime that was too short makes the later ones longer.
fn emptying_packets(state: &PrimedState, bottleneck: Bottleneck, credit: f64) -> u32 {
    let sending: Vec<f64> = state.trains.iter().map(PrimedTrain::prime_sending_rate).collect();
    let sending = median(&sending).unwrap_or(f64::INFINITY);
    let filling = (bottleneck.capacity / bottleneck.line_rate.min(sending)).min(0.8);
    let doubt = 1.25f64.powi(state.path_model.short_primes.min(8) as i32);
    (credit * doubt / (1.0 - filling) / (f64::from(state.max_packet) * 8.0)).ceil() as u32
}

/// Packets that are sent at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BurstPacing {
    packets: u32,
    /// Bytes of each.
    size: u32,
}

/// What is sent at once at this rate, if packets are not sent one by one: jumbo frames where they, too, would be too close together for
/// that. At lower rates they are large against the queues of the path.
pub(super) fn burst_pacing(state: &PrimedState, rate: f64) -> Option<BurstPacing> {
    let of_size = |size| {
        let interval = Span::from_secs_f64((f64::from(size) * 8.0 / rate.max(1.0)).min(1.0));
        Train::packets_per_burst(interval, size).map(|packets| BurstPacing { packets, size })
    };
    let sizes = [state.max_burst_packet, packet_size(rate, state.max_packet)];
    sizes.into_iter().filter(|_| state.sends_bursts).find_map(of_size)
}

/// A primed train of bursts, which lasts as long as on slower paths; its prime empties a bucket by so many packets first.
fn fast_train(state: &PrimedState, rate: f64, burst: BurstPacing, emptying: u32) -> (TrainShape, Train) {
    let PathModel { samples: readings, capacity, .. } = &state.path_model;
    let bits = f64::from(burst.size) * 8.0;
    let emptying = f64::from(emptying) * f64::from(state.max_packet) / f64::from(burst.size);
    let overflows = readings.iter().filter(|r| r.has_overflowed() || r.has_prime_overflowed).count();
    let filling = FAST_PRIME_SECONDS * capacity.unwrap_or(rate) / bits / f64::from(1 << overflows.min(8));
    let prime = round_to_bursts(filling + emptying, burst, MIN_PRIME_BURSTS);
    let duration = if readings.is_empty() { 0.002 } else { 0.0035 };
    let body = round_to_bursts(duration * rate / bits, burst, Train::MIN_BURST_SEGMENT_PACKETS.div_ceil(burst.packets));
    let segment = |count, interval| Segment { count, interval, first_size: burst.size, size_step: 0 };
    let segments = vec![segment(prime, Span::ZERO), segment(body, Span::from_secs_f64(bits / rate))];
    (TrainShape::Primed { prime }, Train { segments })
}

/// About so many packets, in whole bursts, and at least `least` of these.
fn round_to_bursts(packets: f64, burst: BurstPacing, least: u32) -> u32 {
    let most = MAX_FAST_PACKETS.min(MAX_FAST_PACKETS * Train::MAX_ETHERNET_PACKET_BYTES / burst.size) / burst.packets;
    ((packets / f64::from(burst.packets)) as u32).max(least).min(most) * burst.packets
}

/// A train of one rate whose packets are sent in bursts.
fn fast_paced(rate: f64, burst: BurstPacing, seconds: f64) -> Train {
    let bits = f64::from(burst.size) * 8.0;
    let count = round_to_bursts(seconds * rate / bits, burst, Train::MIN_BURST_SEGMENT_PACKETS.div_ceil(burst.packets));
    let interval = Span::from_secs_f64(bits / rate);
    Train { segments: vec![Segment { count, interval, first_size: burst.size, size_step: 0 }] }
}

/// A prime of so many packets of that size, and the body.
fn primed_train(knowledge: &PathModel, rate: f64, size: u32, (prime, prime_size): (u32, u32)) -> (TrainShape, Train) {
    let interval = f64::from(size) * 8.0 / rate;
    let segment = |count, interval, first_size| Segment { count, interval, first_size, size_step: 0 };
    // A long prime is worth a long body.
    let body = body_packets(knowledge, interval).max(prime / 2) + 1;
    // A peer's stamps may tell of any rate; the budget then ends what would take too long.
    let apart = Span::from_secs_f64(interval).clamp(Span::ZERO, Train::MAX_DURATION);
    let segments = vec![segment(prime - 1, Span::ZERO, prime_size), segment(body, apart, size)];
    (TrainShape::Primed { prime }, Train { segments })
}

/// A train of one rate.
pub(super) fn plan_paced_train(state: &PrimedState, rate: f64) -> (TrainShape, Train) {
    let long = if state
        .tight_link_search
        .tight_link
        .is_some_and(|tight| tight.trains > 6 && tight.available_error > 0.1 * tight.available)
    {
        2
    } else {
        1
    };
    let train = match burst_pacing(state, rate) {
        Some(burst) => fast_paced(rate, burst, 0.0035),
        None => constant_rate_train(rate, state.max_packet, |body| body * long),
    };
    (TrainShape::Paced { verifies: false }, train)
}

/// A long one, to see whether its rate is available.
pub(super) fn plan_verification(state: &PrimedState, rate: f64) -> (TrainShape, Train) {
    let train = match burst_pacing(state, rate) {
        Some(burst) => fast_paced(rate, burst, VERIFICATION_SECONDS),
        None => constant_rate_train(rate, state.max_packet, |body| {
            ((VERIFICATION_LENGTH_RATIO * f64::from(body)) as u32).max(MIN_VERIFICATION_PACKETS)
        }),
    };
    (TrainShape::Paced { verifies: true }, train)
}

fn constant_rate_train(rate: f64, max_packet: u32, count: impl Fn(u32) -> u32) -> Train {
    let first_size = packet_size(rate, max_packet);
    let interval = f64::from(first_size) * 8.0 / rate;
    let body = (0.0035 / interval).clamp(30.0, f64::from(MAX_BODY_PACKETS)) as u32;
    let interval = Span::from_secs_f64(interval).clamp(Span::ZERO, Train::MAX_DURATION);
    Train { segments: vec![Segment { count: count(body).min(MAX_BODY_PACKETS), interval, first_size, size_step: 0 }] }
}

/// Before the first train of one rate: the queue of the tight link may hold what many trains have left.
pub(super) fn emptying_time(state: &PrimedState) -> Span {
    if state.is_newest_paced {
        return Span::ZERO;
    }
    let least = state.trains.iter().flat_map(|t| t.points.iter().map(|p| p.delay)).fold(f64::INFINITY, f64::min);
    let last = state.trains.last().and_then(|t| t.points.last()).map_or(least, |p| p.delay);
    Span::from_secs_f64((20.0 * (last - least)).clamp(0.01, 1.0))
}

/// How long the queue of a train of one rate takes to drain: its length in bits is not known, only in seconds.
fn drain_time(state: &PrimedState, newest: &PrimedTrain) -> Span {
    let (Some(first), Some(last)) = (newest.points.first(), newest.points.last()) else { return Span::ZERO };
    let rate = newest.body_rate();
    let link = state.tight_link_search.tight_link.map_or(4.0 * rate, |tight| 1.0 / tight.slope.max(0.1 / rate));
    let available = state.tight_link_search.tight_link.map_or(0.5 * rate, |tight| tight.available.max(0.1 * rate));
    Span::from_secs_f64(((last.delay - first.delay).max(0.0) * link / available).clamp(0.001, 2.0))
}

/// From the last train's end to the next one's start. Trains keep a cycle in which nearly all of them drain: were each
/// sent as soon as the one before it had drained, times with little bandwidth would be followed by long waits and
/// counted too little.
pub(super) fn wait_before_train(state: &mut PrimedState) -> Span {
    let random = state.random();
    if let Some(newest) = state.tight_link_search.newest_train().filter(|_| state.is_newest_paced) {
        return drain_time(state, newest);
    }
    let readings = &state.path_model.samples;
    let Some(capacity) = state.path_model.capacity else {
        // What the bucket holds now is not known; when it is full, it is.
        let fills = |shaper: &Shaper| shaper.committed_rate.value.time_for(shaper.burst_bytes.value);
        return state.shaping.shaper().map_or(Span::from_millis(10), fills).min(Span::from_secs(2));
    };
    let Some(last) = readings.last() else {
        let queued = state.trains.last().map_or(0.0, PrimedTrain::bits);
        return Span::from_secs_f64((queued / capacity).clamp(0.0, 2.0));
    };
    let usual = mean(&readings.iter().map(|r| r.available).collect::<Vec<_>>());
    // What a train found may last or may have been chance.
    let need = |r: &TrainSample| r.duration + 1.1 * r.backlog_bits / ((r.available + usual) / 2.0).max(capacity * 0.02);
    let needs: Vec<f64> = readings.iter().rev().take(10).map(need).collect();
    let cycle = quantile(&needs, 0.75).unwrap_or(0.0).max(0.0);
    let next = need(last).clamp(cycle, 1.5 * cycle) - last.duration;
    let duration = last.duration.max(0.0);
    let phase = duration.min(MAX_PHASE_SHIFT_PACKETS * CROSS_PACKET_BITS / capacity).max(0.5 * duration.min(0.02));
    Span::from_secs_f64((next + random * phase).clamp(0.0, 2.0))
}

/// The rate at which the scout arrived: roughly between the available bandwidth and the capacity. A scout that arrived all
/// at once shows only that the path is fast.
pub(super) fn scouted_rate(record: &TrainRecord) -> Option<f64> {
    const FAST_BITS_PER_SECOND: f64 = 1e9;
    let mut received = record.packets.iter().filter_map(|p| Some((p.received?, p.size)));
    let (first, _) = received.next()?;
    let (mut last, mut bytes) = (first, 0);
    for (at, size) in received {
        (last, bytes) = (last.max(at), bytes + u64::from(size));
    }
    if bytes == 0 {
        return None;
    }
    let rate = Rate::from_bytes_over(bytes, last - first).as_f64();
    Some(if rate > 0.0 { rate.min(FAST_BITS_PER_SECOND) } else { FAST_BITS_PER_SECOND })
}

#[cfg(test)]
mod tests {
    use super::super::state::PrimedConfig;
    use super::*;
    use crate::config::Conditions;

    #[test]
    fn jumbo_frames_are_for_rates_at_which_they_are_sent_in_bursts() {
        let state = |max_packet| {
            PrimedState::new(PrimedConfig::default(), &Conditions { bursts: true, ..Conditions::new(max_packet) })
        };
        let burst_at = |mbit: u32, max_packet| burst_pacing(&state(max_packet), f64::from(mbit) * 1e6);
        let of = |packets, size| Some(BurstPacing { packets, size });
        assert_eq!([1, 100, 700].map(|mbit| burst_at(mbit, 9000)), [None; 3]);
        assert_eq!([1000, 4000, 10_000].map(|mbit| burst_at(mbit, 9000)), [of(4, 1500), of(16, 1500), of(6, 9000)]);
        assert_eq!([1000, 10_000].map(|mbit| burst_at(mbit, 1500)), [of(4, 1500), of(41, 1500)]);
        // No larger trains for that.
        let [jumbo, ethernet] = [9000, 1500].map(|max_packet| plan_paced_train(&state(max_packet), 40e9).1.bytes());
        assert!(jumbo <= ethernet && jumbo * 10 > ethernet * 9, "{jumbo}, {ethernet}");
    }
}
