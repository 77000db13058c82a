use super::controller::Ack;
use super::rounds::RoundCounter;
use super::window::{CongestionWindow, MIN_THRESHOLD_SEGMENTS};
use super::windowed::WindowController;
use kumade_units::Span;

/// Fewer of the connection's own segments in queues, and the window grows.
const ALPHA_SEGMENTS: u32 = 2;
/// More, and it shrinks.
const BETA_SEGMENTS: u32 = 4;
/// More, and slow start ends.
const GAMMA_SEGMENTS: u32 = 1;
/// A round with no more round-trip times than these may have measured delayed acknowledgements only.
const MIN_SAMPLES: u32 = 2;

/// Keeps a few of its own segments in queues (Brakmo and Peterson, "TCP Vegas: end to end congestion avoidance on a
/// global Internet", 1995) as Linux does: by the least round-trip time of each round, with slow start in every round, as
/// NewReno while it recovers or has measured too little, and anew whenever nothing is in flight.
#[derive(Debug, Clone)]
pub struct Vegas {
    window: CongestionWindow,
    rounds: RoundCounter,
    /// Whether delay is heeded; in recovery it is not.
    uses_delay: bool,
    min_round_trip: Span,
    round_min_round_trip: Span,
    samples: u32,
}

impl Vegas {
    /// At the start of a connection.
    pub fn new() -> Self {
        Vegas {
            window: CongestionWindow::new(),
            rounds: RoundCounter::default(),
            uses_delay: true,
            min_round_trip: Span::MAX,
            round_min_round_trip: Span::MAX,
            samples: 0,
        }
    }

    fn add_round_trip(&mut self, round_trip: Span) {
        let round_trip = round_trip.max(Span::from_nanos(1));
        self.min_round_trip = self.min_round_trip.min(round_trip);
        self.round_min_round_trip = self.round_min_round_trip.min(round_trip);
        self.samples = self.samples.saturating_add(1);
    }

    /// Nothing is in flight: what is sent next may find another path. Small windows that one acknowledgement covers make
    /// this frequent, and Vegas bolder than its paper's.
    fn restart_measurement(&mut self) {
        self.uses_delay = true;
        self.min_round_trip = Span::MAX;
        self.begin_round();
    }

    fn begin_round(&mut self) {
        self.round_min_round_trip = Span::MAX;
        self.samples = 0;
    }

    fn grow_as_reno(&mut self, ack: &Ack) {
        if let Some(acked) = self.window.growth(ack) {
            self.window.grow_as_reno(acked);
        }
    }

    fn adjust_window(&mut self, ack: &Ack) {
        if ack.reduction.is_some() || !self.uses_delay {
            self.grow_as_reno(ack);
            if ack.reduction.is_none() {
                // What was measured until now is of the recovery.
                self.uses_delay = true;
                self.rounds.restart(ack);
                self.begin_round();
            }
        } else if self.rounds.begins_round(ack) {
            if self.samples <= MIN_SAMPLES {
                self.grow_as_reno(ack)
            } else {
                self.end_round(ack.delivered)
            }
            self.begin_round();
        } else {
            let _ = self.window.slow_start(ack.delivered);
        }
    }

    /// Moves the window by what the round measured.
    fn end_round(&mut self, acked: u32) {
        let window = self.window.segments();
        let least = self.min_round_trip.as_secs_f64();
        let measured = self.round_min_round_trip.as_secs_f64();
        // As many segments as the empty path would hold, and those beyond at the rate they arrive.
        let held = (f64::from(window) * least / measured) as u32;
        let queued = (f64::from(window) * (measured - least) / least) as u32;
        if self.window.is_in_slow_start() {
            if queued > GAMMA_SEGMENTS {
                self.window.set_segments(window.min(held.saturating_add(1)));
                self.window.cap_threshold_at_window();
            } else {
                let _ = self.window.slow_start(acked);
            }
        } else if queued > BETA_SEGMENTS {
            self.window.set_segments(window - 1);
            self.window.cap_threshold_at_window();
        } else if queued < ALPHA_SEGMENTS {
            self.window.set_segments(window.saturating_add(1));
        }
        self.window.set_segments(self.window.segments().max(MIN_THRESHOLD_SEGMENTS));
        self.window.raise_threshold();
    }
}

impl Default for Vegas {
    fn default() -> Self {
        Self::new()
    }
}

impl WindowController for Vegas {
    fn window_state(&self) -> &CongestionWindow {
        &self.window
    }

    fn window_state_mut(&mut self) -> &mut CongestionWindow {
        &mut self.window
    }

    fn process_ack(&mut self, ack: &Ack) {
        if let Some(round_trip) = ack.round_trip {
            self.add_round_trip(round_trip);
        }
        if !self.window.is_reducing() && ack.acked > 0 {
            self.adjust_window(ack);
        }
        if ack.in_flight == 0 {
            self.rounds.restart(ack);
            self.restart_measurement();
        }
    }

    fn reduced_threshold(&mut self) -> u32 {
        self.uses_delay = false;
        self.window.segments() / 2
    }

    fn on_timeout(&mut self, in_flight: u32) {
        self.uses_delay = false;
        if in_flight == 0 {
            self.restart_measurement();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::congestion::Controller;
    use crate::tcp::congestion::fluid::Path;
    use kumade_units::Time;

    #[test]
    fn keeps_two_to_four_of_its_segments_waiting() {
        let mut path = Path::new(100, Span::from_millis(20), 167.0);
        let mut vegas = Vegas::new();
        vegas.window.set_threshold(20);
        path.run(&mut vegas, Span::from_secs(10), |_, _| {});
        let (before, product) = (path.delivered(), path.product());
        path.run(&mut vegas, Span::from_secs(5), |path, vegas| {
            let waiting = vegas.window() - product;
            assert!((1.0..=6.0).contains(&waiting), "{waiting} of {}, {}", vegas.window(), path.queued());
        });
        assert_eq!(path.recoveries, 0);
        assert!((path.delivered() - before) as f64 > 0.99 * 5.0 * path.rate);
    }

    #[test]
    fn slow_start_ends_as_the_queue_begins_to_last() {
        // A round whose first segment found the queue empty does not show it: the window doubles once or twice too much.
        let mut path = Path::new(10, Span::from_millis(100), 500.0);
        let mut vegas = Vegas::new();
        path.run(&mut vegas, Span::from_secs(1), |_, _| {});
        assert!(path.recoveries == 0 && vegas.threshold() <= 4.0 * path.product(), "{}", vegas.threshold());
        assert!(!vegas.window.is_in_slow_start());
    }

    #[test]
    fn is_reno_with_too_few_samples_and_in_recovery() {
        let mut vegas = Vegas::new();
        vegas.on_congestion(Time::ZERO, 10);
        assert_eq!(vegas.window(), 5.0);
        vegas.on_recovery_end(Time::ZERO);
        let round_trip = Span::from_millis(100);
        // Each acknowledges a whole round: one sample is too few to decide by.
        for round in 1..=3 {
            let now = Time::ZERO + round_trip * round;
            let ack = crate::tcp::congestion::fluid::ack(now, round_trip * round, 5);
            let total_delivered = round as u64 * 5;
            let delivered_when_sent = total_delivered - 5;
            vegas.on_ack(&Ack { acked: 5, delivered: 5, total_delivered, delivered_when_sent, ..ack });
        }
        assert_eq!(vegas.window(), 7.0);
        vegas.on_retransmission_timeout(Time::ZERO, 0, false);
        assert_eq!((vegas.window(), vegas.threshold()), (1.0, 3.0));
    }
}
