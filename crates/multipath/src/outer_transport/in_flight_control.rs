//! How much a carrier with a congestion control of its own is given, so that its queue is ours and not the path's.

use kumade_units::{Rate, Span, Time};

/// How the carrier of a path does, such as a TCP connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StreamDelivery {
    /// Bytes that it takes now by itself, encapsulation included.
    pub writable_bytes: u64,
    /// Bytes that are believed to be on their way.
    pub in_flight_bytes: u64,
    /// Bytes that it was given and that are not acknowledged, whether they have left or not.
    pub unacknowledged_bytes: u64,
    /// Bytes that have been acknowledged in all.
    pub acknowledged_bytes: u64,
    /// Bytes that have arrived in all, in order or not: while something is repeated, more than are acknowledged.
    pub delivered_bytes: u64,
    /// Bytes that it has repeated in all, since they were lost.
    pub retransmitted_bytes: u64,
    /// It repeats what was lost: what it takes now arrives behind that.
    pub is_recovering: bool,
    /// By how much its segments' smoothed round trip exceeds the least: the path's queue, whatever waits behind a lost segment.
    pub excess_round_trip: Span,
}

/// What one carrier is given.
///
/// **Rule.** Its own congestion control (CUBIC fills the path's queue until that overflows) is an upper bound. Below that,
/// what is open may be what it delivers in the least round trip and 5 ms, or a sixteenth of it where that is more: as long as the path's queue is shorter than
/// that, the rate grows with each round trip, and several carriers of one path together keep one such queue. While the
/// rate is searched for it may double. Now and then it is held back for a round trip, so that the round trip of the empty
/// path is seen, and then fills the path again over two.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InFlightControl {
    /// Else it is given all that it takes.
    is_limiting: bool,
    state: StreamDelivery,
    /// Bytes that may still be handed over.
    room_bytes: u64,
    /// Bytes that it was given in all, as far as is known.
    given_bytes: u64,
    /// In bits per second.
    rate: f64,
    is_searching: bool,
    /// Rounds of the search in which the rate has hardly grown.
    stalled_rounds: u32,
    round: Option<RateRound>,
    /// The rate of the round before.
    previous_rate: f64,
    /// It could have taken no more at some time in that round.
    is_limited: bool,
    drain_at: Time,
    /// Until then, low rates are the drain's.
    rate_hold_until: Time,
}

#[derive(Debug, Clone, Copy)]
struct RateRound {
    start: Time,
    delivered_bytes: u64,
    /// It could have taken no more at some time.
    was_limited: bool,
}

/// What a path's queue is to be at least.
const MIN_QUEUE_DELAY: Span = Span::from_millis(5);
const MIN_ROUND_DURATION: Span = Span::from_millis(10);
/// Ten segments, as every TCP connection may begin with (RFC 6928).
const MIN_IN_FLIGHT_BYTES: u64 = 14_600;
const FULL_PACKET_BYTES: u64 = 1500;
/// A path is full where the rate has not grown by a quarter in so many rounds, as BBR has it.
const MIN_SEARCH_GROWTH_RATIO: f64 = 1.25;
const MAX_STALLED_ROUNDS: u32 = 3;
const DRAIN_INTERVAL: Span = Span::from_secs(5);
/// For so many round trips, what is open grows again after it was held back.
const REFILL_ROUND_TRIPS: i64 = 2;
const INITIAL_ROUND_TRIP: Span = Span::from_millis(100);

impl InFlightControl {
    pub fn new(bounds_open: bool, now: Time) -> Self {
        InFlightControl {
            is_limiting: bounds_open,
            state: StreamDelivery::default(),
            room_bytes: 0,
            given_bytes: 0,
            rate: 0.0,
            is_searching: true,
            stalled_rounds: 0,
            round: None,
            previous_rate: 0.0,
            is_limited: false,
            drain_at: now + DRAIN_INTERVAL,
            rate_hold_until: now,
        }
    }

    pub fn room_bytes(&self) -> u64 {
        self.room_bytes
    }

    /// Bytes that it has delivered and repeated in all.
    pub fn delivered_and_retransmitted(&self) -> (u64, u64) {
        (self.state.acknowledged_bytes, self.state.retransmitted_bytes)
    }

    /// Bytes that have arrived in all.
    pub fn delivered_bytes(&self) -> u64 {
        self.state.delivered_bytes
    }

    /// Bytes that it was given in all.
    pub fn given_bytes(&self) -> u64 {
        self.given_bytes
    }

    pub fn is_recovering(&self) -> bool {
        self.state.is_recovering
    }

    /// Whether it could have taken no more of late.
    pub fn is_limited(&self) -> bool {
        self.is_limited
    }

    /// How long the path's queue is, as far as its segments tell.
    pub fn queue_delay(&self) -> Span {
        self.state.excess_round_trip
    }

    /// At which it delivers, if that is known.
    pub fn rate(&self) -> Option<Rate> {
        (self.rate > 0.0).then(|| Rate::from_f64(self.rate))
    }

    /// So many bytes were handed over.
    pub fn record_sent(&mut self, bytes: u32) {
        self.room_bytes = self.room_bytes.saturating_sub(bytes.into());
        self.given_bytes += u64::from(bytes);
        self.record_limit();
    }

    /// How it does now. `least` is the round trip of the empty path, `smoothed` that of late, as far as they are known.
    pub fn update(&mut self, state: StreamDelivery, least: Option<Span>, smoothed: Option<Span>, now: Time) {
        self.state = state;
        self.given_bytes = state.acknowledged_bytes + state.unacknowledged_bytes;
        let least = least.unwrap_or(INITIAL_ROUND_TRIP);
        let smoothed = smoothed.unwrap_or(least);
        if state.is_recovering || smoothed > least + (MIN_QUEUE_DELAY * 4).max(least / 2) {
            self.is_searching = false;
        }
        self.update_rate(smoothed, now);
        if now >= self.drain_at + least {
            self.drain_at = now + DRAIN_INTERVAL;
            self.rate_hold_until = now + smoothed * 3;
        }
        let target = MIN_QUEUE_DELAY.max(least / 16);
        let drained = (least - target).max(least / 2);
        let time = match (self.is_searching, now >= self.drain_at) {
            (true, _) => (least * 2).max(least + target),
            (false, false) => {
                drained + Span::from_secs_f64((least + target - drained).as_secs_f64() * self.refill_factor(least, now))
            }
            (false, true) => drained,
        };
        let open = ((self.rate * time.as_secs_f64() / 8.0) as u64).max(MIN_IN_FLIGHT_BYTES);
        let allowed = if self.is_limiting { open.saturating_sub(state.in_flight_bytes) } else { u64::MAX };
        self.room_bytes = state.writable_bytes.min(allowed);
        self.record_limit();
    }

    /// How much of what it was held back by it may have open again, from 0 to 1: all carriers of a path are held back at the same
    /// time, and what they made up for at once would overflow its queue.
    fn refill_factor(&self, least: Span, now: Time) -> f64 {
        let since = now - (self.drain_at - DRAIN_INTERVAL);
        (since.as_secs_f64() / (least * REFILL_ROUND_TRIPS).as_secs_f64().max(f64::MIN_POSITIVE)).clamp(0.0, 1.0)
    }

    fn record_limit(&mut self) {
        if let Some(round) = &mut self.round {
            round.was_limited |= self.room_bytes < FULL_PACKET_BYTES;
        }
    }

    fn update_rate(&mut self, round_trip: Span, now: Time) {
        let delivered = self.state.delivered_bytes;
        let round = self.round.get_or_insert(RateRound { start: now, delivered_bytes: delivered, was_limited: false });
        let took = now - round.start;
        if took < round_trip.max(MIN_ROUND_DURATION) {
            return;
        }
        let rate = delivered.saturating_sub(round.delivered_bytes) as f64 * 8.0 / took.as_secs_f64();
        // With less to carry than it could, it says nothing of what it could.
        if round.was_limited && rate < MIN_SEARCH_GROWTH_RATIO * self.rate {
            self.stalled_rounds += 1;
            self.is_searching &= self.stalled_rounds < MAX_STALLED_ROUNDS;
        }
        let is_held = !round.was_limited || now >= self.drain_at || now < self.rate_hold_until;
        let held = if is_held { self.rate } else { self.previous_rate };
        self.rate = rate.max(held);
        self.previous_rate = rate;
        self.is_limited = round.was_limited;
        self.round = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// A carrier without limits of its own, over a path with a rate, a round trip and an endless queue.
    struct Carrier {
        rate: f64,
        round_trip: Span,
        control: InFlightControl,
        now: Time,
        /// When the bottleneck is free.
        free_at: Time,
        /// When what was sent is acknowledged.
        flying: VecDeque<(Time, u64)>,
        open: u64,
        acknowledged: u64,
        least: Span,
        last: Span,
        queues: Vec<Span>,
    }

    impl Carrier {
        fn new(mbit: f64, round_trip: Span) -> Self {
            let now = Time::ZERO;
            Carrier {
                rate: mbit * 1e6,
                round_trip,
                control: InFlightControl::new(true, now),
                now,
                free_at: now,
                flying: VecDeque::new(),
                open: 0,
                acknowledged: 0,
                least: Span::from_secs(100),
                last: round_trip,
                queues: Vec::new(),
            }
        }

        /// There is always something to send. Returns bits per second.
        fn run(&mut self, span: Span) -> f64 {
            let (end, before) = (self.now + span, self.acknowledged);
            while self.now < end {
                while self.flying.front().is_some_and(|(at, _)| *at <= self.now) {
                    let (at, sent) = self.flying.pop_front().unwrap_or_default();
                    self.open -= FULL_PACKET_BYTES;
                    self.acknowledged += FULL_PACKET_BYTES;
                    self.last = at - Time::from_nanos(sent as i64);
                    self.least = self.least.min(self.last);
                }
                let (open, acknowledged) = (self.open, self.acknowledged);
                let state = StreamDelivery {
                    writable_bytes: u64::MAX,
                    in_flight_bytes: open,
                    delivered_bytes: acknowledged,
                    ..StreamDelivery::default()
                };
                self.control.update(state, Some(self.least.min(Span::from_secs(1))), Some(self.last), self.now);
                while self.control.room_bytes() >= FULL_PACKET_BYTES {
                    self.control.record_sent(FULL_PACKET_BYTES as u32);
                    let time = Span::from_secs_f64(FULL_PACKET_BYTES as f64 * 8.0 / self.rate);
                    self.free_at = self.free_at.max(self.now) + time;
                    self.queues.push(self.free_at - self.now);
                    self.flying.push_back((self.free_at + self.round_trip, self.now.as_nanos() as u64));
                    self.open += FULL_PACKET_BYTES;
                }
                self.now += Span::from_micros(500);
            }
            (self.acknowledged - before) as f64 * 8.0 / span.as_secs_f64()
        }
    }

    #[test]
    fn a_path_is_filled_without_a_long_queue() {
        for (mbit, millis) in [(2.0, 20), (10.0, 5), (100.0, 20), (100.0, 200), (1000.0, 50)] {
            let mut carrier = Carrier::new(mbit, Span::from_millis(millis));
            carrier.run(Span::from_secs(6));
            carrier.queues.clear();
            let rate = carrier.run(Span::from_secs(12)) / 1e6;
            assert!(rate > 0.95 * mbit, "{rate:.1} of {mbit} Mbit/s at {millis} ms");
            let longest = carrier.queues.iter().copied().max().unwrap_or_default();
            // Ten segments of the slowest path take 60 ms.
            let allowed = Span::from_millis(25).max(Span::from_millis(millis) / 4);
            let allowed = allowed.max(Span::from_secs_f64(MIN_IN_FLIGHT_BYTES as f64 * 8.0 / mbit / 1e6));
            assert!(longest <= allowed, "{longest} at {mbit} Mbit/s, {millis} ms");
        }
    }

    #[test]
    fn without_a_bound_it_is_given_all_that_it_takes() {
        let state = StreamDelivery { writable_bytes: 300_000, in_flight_bytes: 900_000, ..StreamDelivery::default() };
        let room = |bounds_open| {
            let mut control = InFlightControl::new(bounds_open, Time::ZERO);
            control.update(state, Some(Span::from_millis(20)), None, Time::ZERO);
            control.room_bytes()
        };
        assert_eq!((room(true), room(false)), (0, 300_000));
    }

    #[test]
    fn the_rate_of_a_short_path_is_found_although_it_is_looked_at_seldom() {
        let mut carrier = Carrier::new(2000.0, Span::from_micros(100));
        carrier.run(Span::from_secs(2));
        let rate = carrier.run(Span::from_secs(2)) / 1e6;
        assert!(rate > 1900.0, "{rate:.1} Mbit/s");
    }

    #[test]
    fn a_path_that_changes_is_followed() {
        let mut carrier = Carrier::new(50.0, Span::from_millis(20));
        carrier.run(Span::from_secs(6));
        carrier.rate = 10e6;
        carrier.run(Span::from_secs(6));
        carrier.queues.clear();
        assert!(carrier.run(Span::from_secs(6)) > 9.5e6);
        assert!(carrier.queues.iter().all(|queue| *queue < Span::from_millis(25)));
        carrier.rate = 80e6;
        carrier.run(Span::from_secs(3));
        assert!(carrier.run(Span::from_secs(6)) > 76e6);
    }
}
