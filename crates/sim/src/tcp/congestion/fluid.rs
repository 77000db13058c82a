//! A path for the controllers' tests: one queue, every segment acknowledged, losses noticed with the next
//! acknowledgement and never sent again.

use super::controller::{Ack, Controller, DeliveryRate, Reduction};
use kumade_units::{Rate, Span, Time};
use std::collections::VecDeque;

pub(super) const SEGMENT_BYTES: u32 = 1500;

pub(super) struct Path {
    /// Segments per second.
    pub(super) rate: f64,
    pub(super) propagation: Span,
    /// Segments that may wait.
    pub(super) queue: f64,
    pub(super) now: Time,
    /// Recoveries so far.
    pub(super) recoveries: u32,
    free: Time,
    next_paced: Time,
    flight: VecDeque<Segment>,
    delivered: u64,
    delivered_at: Time,
    smoothed: f64,
    /// The recovery ends when something sent after this is acknowledged.
    recovery_until: Option<Time>,
}

struct Segment {
    sent: Time,
    /// `None` for one that is lost.
    acknowledged: Option<Time>,
    delivered: u64,
    delivered_at: Time,
}

impl Path {
    pub(super) fn new(mbit: u64, propagation: Span, queue: f64) -> Self {
        Path {
            rate: mbit as f64 * 1e6 / 8.0 / f64::from(SEGMENT_BYTES),
            propagation,
            queue,
            now: Time::ZERO,
            recoveries: 0,
            free: Time::ZERO,
            next_paced: Time::ZERO,
            flight: VecDeque::new(),
            delivered: 0,
            delivered_at: Time::ZERO,
            smoothed: propagation.as_secs_f64(),
            recovery_until: None,
        }
    }

    /// Segments that the path holds without a queue.
    pub(super) fn product(&self) -> f64 {
        self.rate * self.propagation.as_secs_f64()
    }

    /// Segments that wait now.
    pub(super) fn queued(&self) -> f64 {
        ((self.free - self.now).as_secs_f64() * self.rate).max(0.0)
    }

    pub(super) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Lets `controller` send for `span`; after each acknowledgement `watch` may look.
    pub(super) fn run<C: Controller>(&mut self, controller: &mut C, span: Span, mut watch: impl FnMut(&Path, &C)) {
        let end = self.now + span;
        while self.now < end {
            self.send(controller);
            self.acknowledge(controller);
            watch(self, controller);
        }
    }

    fn send(&mut self, controller: &impl Controller) {
        let due = self.flight.iter().find_map(|segment| segment.acknowledged).unwrap_or(Time::MAX);
        while (self.flight.len() as f64) < controller.window().floor().max(1.0) {
            let now = self.now.max(self.next_paced);
            if now > due {
                return;
            }
            if let Some(rate) = controller.pacing_rate() {
                self.next_paced = now + rate.time_for(SEGMENT_BYTES.into());
            }
            let begin = now.max(self.free);
            let lost = (begin - now).as_secs_f64() * self.rate > self.queue;
            let done = begin + Span::from_secs_f64(1.0 / self.rate);
            self.free = if lost { self.free } else { done };
            self.flight.push_back(Segment {
                sent: now,
                acknowledged: (!lost).then_some(done + self.propagation),
                delivered: self.delivered,
                delivered_at: self.delivered_at,
            });
        }
    }

    fn acknowledge(&mut self, controller: &mut impl Controller) {
        let was_in_flight = self.flight.len() as u32;
        let lost = self.flight.iter().take_while(|segment| segment.acknowledged.is_none()).count() as u32;
        self.flight.drain(..lost as usize);
        let Some(segment) = self.flight.pop_front() else {
            controller.on_retransmission_timeout(self.now, 0, false);
            return;
        };
        self.now = segment.acknowledged.unwrap_or(self.now).max(self.now);
        self.delivered += 1;
        let interval = self.now - segment.delivered_at;
        self.delivered_at = self.now;
        self.recover(controller, lost, segment.sent);
        let round_trip = self.now - segment.sent;
        self.smoothed += (round_trip.as_secs_f64() - self.smoothed) / 8.0;
        let bytes = (self.delivered - segment.delivered) * u64::from(SEGMENT_BYTES);
        controller.on_ack(&Ack {
            now: self.now,
            acked: 1,
            delivered: 1,
            marked: 0,
            lost,
            round_trip: Some(round_trip),
            smoothed_round_trip: Span::from_secs_f64(self.smoothed),
            in_flight: self.flight.len() as u32,
            was_in_flight,
            window_limited: true,
            reduction: self.recovery_until.map(|_| Reduction::Loss),
            delivery: (segment.delivered > 0)
                .then(|| DeliveryRate { rate: Rate::from_bytes_over(bytes, interval), application_limited: false }),
            total_delivered: self.delivered,
            delivered_when_sent: segment.delivered,
        });
    }

    fn recover(&mut self, controller: &mut impl Controller, lost: u32, sent: Time) {
        if self.recovery_until.is_some_and(|until| sent > until) {
            self.recovery_until = None;
            controller.on_recovery_end(self.now);
        }
        if lost > 0 && self.recovery_until.is_none() {
            self.recoveries += 1;
            self.recovery_until = Some(self.now);
            controller.on_congestion(self.now, self.flight.len() as u32);
        }
    }
}

/// Acknowledges a window per round trip for `span`, from `now`, without ever losing any.
pub(super) fn grow(controller: &mut impl Controller, now: &mut Time, span: Span, round_trip: Span) {
    let end = *now + span;
    let mut delivered = now.as_nanos() as u64;
    while *now < end {
        let window = controller.window() as u32;
        let (begin, begun_at) = (*now, delivered);
        for index in 1..=i64::from(window) {
            delivered += 1;
            *now = begin + round_trip * index / i64::from(window);
            let ack =
                Ack { total_delivered: delivered, delivered_when_sent: begun_at, ..ack(*now, round_trip, window) };
            controller.on_ack(&ack);
        }
    }
}

/// An acknowledgement of one segment, the first of a round, with a `window` in flight.
pub(super) fn ack(now: Time, round_trip: Span, window: u32) -> Ack {
    Ack {
        now,
        acked: 1,
        delivered: 1,
        marked: 0,
        lost: 0,
        round_trip: Some(round_trip),
        smoothed_round_trip: round_trip,
        in_flight: window.saturating_sub(1),
        was_in_flight: window,
        window_limited: true,
        reduction: None,
        delivery: None,
        total_delivered: u64::from(window),
        delivered_when_sent: 0,
    }
}
