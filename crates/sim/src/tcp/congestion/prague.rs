use super::controller::{Ack, Controller};
use super::marks::{MarkResponse, MarkedFraction};
use super::rounds::RoundCounter;
use super::window::INITIAL_SEGMENTS;
use kumade_units::{Rate, Span, Time};

/// The round trip that a shorter one is made up to (`RTT_TARGET` of Linux's TCP Prague; draft-briscoe-iccrg-prague-congestion-control, section 2.4.4).
const VIRTUAL_ROUND_TRIP: Span = Span::from_millis(25);
/// After slow start it is as fast as others for so many round trips, so that short transfers do not suffer (`DEFAULT_RTT_TRANSITION`).
const TRANSITION_ROUNDS: u32 = 4;
/// The least window (RFC 5681; `MIN_CWND_RTT`).
const MIN_SEGMENTS: f64 = 2.0;
/// The least rate (`MINIMUM_RATE`).
const MIN_PACING_RATE: Rate = Rate::from_bits_per_second(100_000);
/// In slow start segments leave at twice the rate of the window, as in Linux.
const SLOW_START_PACING_RATIO: f64 = 2.0;

/// A congestion control for L4S (RFC 9331, section 4), as TCP Prague has it (draft-briscoe-iccrg-prague-congestion-control): of marks it is
/// told the number; it reduces its window by half of the share that was marked, once a round trip, and grows by a segment per round trip
/// in between, whether or not it has just reduced it. It paces. Losses halve the window, as with NewReno.
///
/// On round trips below 25 ms it grows and reduces as if they were that long, so that it does not take the more of a bottleneck the
/// shorter its path is. Its window has fractions of segments.
///
/// Left out: the fallback where a queue marks as for classic senders (optional), and segments that shrink where the window is below two
/// of them.
#[derive(Debug, Clone)]
pub struct Prague {
    segment_bytes: u32,
    window: f64,
    threshold: f64,
    marks: MarkedFraction,
    response: MarkResponse,
    has_seen_marks: bool,
    round: RoundCounter,
    /// Round trips since slow start ended.
    rounds: u32,
    pacing_rate: Option<Rate>,
    is_recovering: bool,
    /// Window and threshold before the last reduction for a loss, while that may still be taken back.
    before_loss: Option<(f64, f64)>,
}

impl Prague {
    /// At the start of a connection that sends segments of `segment_bytes`.
    pub fn new(segment_bytes: u32) -> Self {
        Prague {
            segment_bytes,
            window: f64::from(INITIAL_SEGMENTS),
            threshold: f64::INFINITY,
            marks: MarkedFraction::new(0.0),
            response: MarkResponse::default(),
            has_seen_marks: false,
            round: RoundCounter::default(),
            rounds: 0,
            pacing_rate: None,
            is_recovering: false,
            before_loss: None,
        }
    }

    fn is_in_slow_start(&self) -> bool {
        self.window < self.threshold
    }

    /// Whether it behaves as on a longer path.
    fn is_round_trip_independent(&self) -> bool {
        !self.is_in_slow_start() && self.rounds >= TRANSITION_ROUNDS
    }

    /// By how much the window grows in a round trip: as a rate, by a segment per virtual round trip in each of these.
    fn growth_per_round(&self, round_trip: Span) -> f64 {
        if !self.is_round_trip_independent() || round_trip >= VIRTUAL_ROUND_TRIP {
            return 1.0;
        }
        let ratio = round_trip.as_secs_f64() / VIRTUAL_ROUND_TRIP.as_secs_f64();
        ratio * ratio
    }

    fn process_marks(&mut self, ack: &Ack) {
        let interval = if self.is_round_trip_independent() { VIRTUAL_ROUND_TRIP } else { Span::ZERO };
        if self.has_seen_marks {
            self.marks.count(ack, interval);
        }
        if ack.marked > 0 && !self.has_seen_marks {
            // The first one ends slow start, of whose overshoot it tells late.
            self.has_seen_marks = true;
            self.response.reduces(ack, Span::ZERO);
            self.reduce_to(self.window / 2.0);
        } else if self.response.reduces(ack, interval) && !self.is_recovering {
            self.reduce_to(self.window * (1.0 - self.marks.alpha() / 2.0));
        }
    }

    fn reduce_to(&mut self, window: f64) {
        self.window = window.max(MIN_SEGMENTS);
        self.threshold = self.window;
    }

    fn grow(&mut self, ack: &Ack) {
        // RFC 7661: a window of which half is used has proven itself. Pacing keeps less than all of it in flight.
        let is_used = ack.window_limited || 2.0 * f64::from(ack.was_in_flight) >= self.window;
        let unmarked = f64::from(ack.delivered.saturating_sub(ack.marked));
        if self.is_recovering || !is_used {
            return;
        }
        if self.is_in_slow_start() {
            self.window = (self.window + unmarked).min(self.threshold);
        } else {
            self.window += unmarked * self.growth_per_round(ack.smoothed_round_trip) / self.window;
        }
    }

    fn update_pacing_rate(&mut self, ack: &Ack) {
        let round_trip = ack.smoothed_round_trip.as_secs_f64();
        if round_trip <= 0.0 {
            return;
        }
        let in_flight = self.window.max(f64::from(ack.in_flight));
        let gain = if self.window < self.threshold / 2.0 { SLOW_START_PACING_RATIO } else { 1.0 };
        let bits = gain * in_flight * f64::from(self.segment_bytes) * 8.0;
        self.pacing_rate = Some(Rate::from_f64(bits / round_trip).max(MIN_PACING_RATE));
    }

    fn halve(&mut self) {
        self.before_loss = Some((self.window, self.threshold));
        self.reduce_to(self.window / 2.0);
    }
}

impl Controller for Prague {
    fn window(&self) -> f64 {
        self.window.max(MIN_SEGMENTS).ceil()
    }

    fn threshold(&self) -> f64 {
        self.threshold
    }

    fn pacing_rate(&self) -> Option<Rate> {
        self.pacing_rate
    }

    fn counts_marks(&self) -> bool {
        true
    }

    fn on_ack(&mut self, ack: &Ack) {
        if !self.is_in_slow_start() && self.round.begins_round(ack) {
            self.rounds = self.rounds.saturating_add(1);
        }
        self.process_marks(ack);
        self.grow(ack);
        self.update_pacing_rate(ack);
    }

    fn on_congestion(&mut self, _now: Time, _in_flight: u32) {
        self.halve();
        self.is_recovering = true;
    }

    fn on_recovery_end(&mut self, _now: Time) {
        self.is_recovering = false;
    }

    fn on_retransmission_timeout(&mut self, _now: Time, in_flight: u32, again: bool) {
        if !again && !self.is_recovering {
            self.halve();
        }
        self.window = f64::from(in_flight.saturating_add(1)).min(self.threshold);
        self.is_recovering = false;
    }

    fn on_spurious_reduction(&mut self, _now: Time) {
        if let Some((window, threshold)) = self.before_loss.take() {
            self.window = self.window.max(window);
            self.threshold = self.threshold.max(threshold);
        }
        self.is_recovering = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::congestion::fluid::ack;

    const LONG: Span = Span::from_millis(50);

    struct Run {
        prague: Prague,
        now: Time,
        delivered: u64,
    }

    impl Run {
        fn new(prague: Prague) -> Self {
            Run { prague, now: Time::ZERO, delivered: 0 }
        }

        /// Lets `rounds` round trips pass, in each of which the first `marked` of the window's segments are marked.
        fn pass(&mut self, round_trip: Span, rounds: u32, marked: u32) -> &Prague {
            for _ in 0..rounds {
                let (window, delivered_when_sent) = (self.prague.window() as u32, self.delivered);
                for number in 0..window {
                    self.delivered += 1;
                    self.now += round_trip / i64::from(window);
                    self.prague.on_ack(&Ack {
                        marked: u32::from(number < marked),
                        total_delivered: self.delivered,
                        delivered_when_sent,
                        ..ack(self.now, round_trip, window)
                    });
                }
            }
            &self.prague
        }
    }

    fn after_slow_start(window: f64) -> Prague {
        let mut prague = Prague::new(1500);
        prague.has_seen_marks = true;
        prague.reduce_to(window);
        prague.rounds = TRANSITION_ROUNDS;
        prague
    }

    #[test]
    fn it_doubles_until_the_first_mark_which_halves_it() {
        let mut run = Run::new(Prague::new(1500));
        let prague = run.pass(LONG, 2, 0);
        assert_eq!((prague.window(), prague.threshold()), (40.0, f64::INFINITY));
        let prague = run.pass(LONG, 1, 1);
        // Twice the window was in flight, which is acknowledged meanwhile.
        assert!((21.0..=22.0).contains(&prague.window()), "{}", prague.window());
        assert_eq!(prague.threshold(), 20.0);
    }

    #[test]
    fn it_grows_by_a_segment_per_round_trip_and_by_less_on_short_ones() {
        let mut run = Run::new(after_slow_start(50.0));
        let prague = run.pass(LONG, 10, 0);
        assert!((prague.window - 60.0).abs() < 0.3, "{}", prague.window);
        // A fifth of the virtual round trip: a twenty-fifth of a segment in each.
        let mut run = Run::new(after_slow_start(50.0));
        let short = run.pass(VIRTUAL_ROUND_TRIP / 5, 100, 0);
        assert!((short.window - 54.0).abs() < 0.3, "{}", short.window);
    }

    #[test]
    fn marks_reduce_it_by_half_of_their_share() {
        let mut run = Run::new(Prague { marks: MarkedFraction::new(0.2), ..after_slow_start(100.0) });
        let prague = run.pass(LONG, 1, 1);
        // α has been updated once with what little was marked.
        assert!((prague.threshold - 100.0 * (1.0 - 0.2 / 2.0)).abs() < 1.0, "{}", prague.threshold);
        assert!(prague.window > prague.threshold, "it grows in the same round trip");
    }

    /// With two marks per round trip, the window neither grows nor shrinks (RFC 9332, section 2.1).
    #[test]
    fn two_marks_in_a_round_trip_keep_the_window() {
        let mut run = Run::new(after_slow_start(100.0));
        let prague = run.pass(LONG, 400, 2);
        assert!((80.0..120.0).contains(&prague.window), "{}", prague.window);
    }

    #[test]
    fn losses_halve_and_may_be_taken_back() {
        let mut prague = after_slow_start(40.0);
        prague.on_congestion(Time::ZERO, 40);
        assert_eq!((prague.window(), prague.threshold()), (20.0, 20.0));
        prague.on_spurious_reduction(Time::ZERO);
        assert_eq!(prague.window(), 40.0);
        prague.on_retransmission_timeout(Time::ZERO, 0, false);
        assert_eq!((prague.window(), prague.threshold()), (2.0, 20.0));
    }

    #[test]
    fn it_paces_at_the_window_per_round_trip() {
        let mut run = Run::new(after_slow_start(50.0));
        let rate = run.pass(LONG, 1, 0).pacing_rate().unwrap().as_f64();
        assert!((rate / (51.0 * 12_000.0 / 0.05) - 1.0).abs() < 0.02, "{rate}");
    }
}
