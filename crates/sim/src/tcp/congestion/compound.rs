//! Compound TCP (Tan, Song, Zhang and Sridharan, "A Compound TCP approach for high-speed and long distance networks",
//! INFOCOM 2006; draft-sridharan-tcpm-ctcp-02), by rules that the lab's controller for the Linux kernel follows too.
//!
//! The window is the sum of a loss-based one, which is [`NewReno`](super::NewReno)'s, and a delay-based one, which may
//! hold parts of a segment. Only the sum and the delay-based one are kept.
//!
//! - The sum grows by acknowledgements as NewReno's window does: in slow start by what is acknowledged, afterwards by
//!   one segment for as many acknowledged as it has.
//! - A round ends with the first acknowledgement, outside of fast recovery, of something sent after its beginning. Then,
//!   after the growth above:
//!   - in slow start the delay-based window becomes zero;
//!   - else, where the round measured a round-trip time, `queued = sum · (mean − least) / mean` of the connection's own
//!     segments wait in queues: `mean` is over the round's samples, `least` over the connection's;
//!     - where `queued < γ` the delay-based window grows by `max(0, α · sum^k − 1)`, if the sum limited the sender;
//!     - else it shrinks by `ζ · queued`, not below zero;
//!     - the sum changes by the difference in the delay-based window's whole segments, and is 2 at least;
//!   - the round's samples are forgotten, and a round begins.
//! - A loss halves both windows: the new sum is NewReno's threshold.
//! - A timeout sets the threshold to half the sum, the sum to one segment beyond those still in flight, and the
//!   delay-based window to zero.
//! - Undoing gives back the delay-based window of before the loss, and the sum as NewReno does.
//!
//! α = 1/8, k = 3/4, γ = 30, ζ = 1, and β = 1/2 in the halving. γ is not tuned. The paper has no delay-based window while
//! the sum is below about 40 segments; here too it hardly has one then, as it grows by nothing up to 16 segments and by
//! less than one per round trip up to 40.

use super::controller::Ack;
use super::rounds::RoundCounter;
use super::window::CongestionWindow;
use super::windowed::WindowController;
use kumade_units::Span;

const ALPHA: f64 = 1.0 / 8.0;
const K: f64 = 0.75;
const GAMMA: f64 = 30.0;
const ZETA: f64 = 1.0;
const MIN_WINDOW_SEGMENTS: u32 = 2;

/// A window of two parts, one heeding loss and one delay: see the module's documentation for its rules.
#[derive(Debug, Clone)]
pub struct Compound {
    total_window: CongestionWindow,
    delay_window: f64,
    delay_window_before: f64,
    min_round_trip: Option<Span>,
    rounds: RoundCounter,
    /// The round's round-trip times: their sum in seconds, and number.
    round_trip_sum_seconds: f64,
    samples: u32,
}

impl Compound {
    /// At the start of a connection.
    pub fn new() -> Self {
        Compound {
            total_window: CongestionWindow::new(),
            delay_window: 0.0,
            delay_window_before: 0.0,
            min_round_trip: None,
            rounds: RoundCounter::default(),
            round_trip_sum_seconds: 0.0,
            samples: 0,
        }
    }

    fn add_round_trip(&mut self, round_trip: Span) {
        let round_trip = round_trip.max(Span::from_nanos(1));
        self.min_round_trip = Some(self.min_round_trip.map_or(round_trip, |least| least.min(round_trip)));
        self.round_trip_sum_seconds += round_trip.as_secs_f64();
        self.samples = self.samples.saturating_add(1);
    }

    /// Sets the delay-based window by what the round measured.
    fn end_round(&mut self, window_limited: bool) {
        let Some(least) = self.min_round_trip.filter(|_| self.samples > 0) else { return };
        let mean = self.round_trip_sum_seconds / f64::from(self.samples);
        let sum = f64::from(self.total_window.segments());
        let queued = sum * (1.0 - least.as_secs_f64() / mean).max(0.0);
        let held = self.delay_window.min(sum);
        if queued >= GAMMA {
            self.set_delay_window(held, (held - ZETA * queued).max(0.0));
        } else if window_limited {
            self.set_delay_window(held, held + (ALPHA * sum.powf(K) - 1.0).max(0.0));
        }
    }

    fn set_delay_window(&mut self, from: f64, to: f64) {
        self.delay_window = to;
        let rest = self.total_window.segments().saturating_sub(from as u32);
        self.total_window.set_segments(rest.saturating_add(to as u32).max(MIN_WINDOW_SEGMENTS));
    }
}

impl Default for Compound {
    fn default() -> Self {
        Self::new()
    }
}

impl WindowController for Compound {
    fn window_state(&self) -> &CongestionWindow {
        &self.total_window
    }

    fn window_state_mut(&mut self) -> &mut CongestionWindow {
        &mut self.total_window
    }

    fn process_ack(&mut self, ack: &Ack) {
        if let Some(round_trip) = ack.round_trip {
            self.add_round_trip(round_trip);
        }
        if let Some(acked) = self.total_window.growth(ack) {
            self.total_window.grow_as_reno(acked);
        }
        if self.total_window.is_reducing() || ack.acked == 0 || !self.rounds.begins_round(ack) {
            return;
        }
        if self.total_window.is_in_slow_start() {
            self.delay_window = 0.0;
        } else {
            self.end_round(ack.window_limited);
        }
        self.round_trip_sum_seconds = 0.0;
        self.samples = 0;
    }

    fn reduced_threshold(&mut self) -> u32 {
        self.delay_window_before = self.delay_window;
        self.delay_window /= 2.0;
        self.total_window.segments() / 2
    }

    fn on_timeout(&mut self, _in_flight: u32) {
        self.delay_window = 0.0;
    }

    fn on_undo(&mut self) {
        self.delay_window = self.delay_window_before;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::congestion::Controller;
    use crate::tcp::congestion::fluid::{Path, grow};
    use kumade_units::Time;

    const ROUND_TRIP: Span = Span::from_millis(100);

    /// A controller past slow start with a window of `segments`.
    fn avoiding(segments: u32) -> (Compound, Time) {
        let mut compound = Compound::new();
        compound.total_window.set_segments(segments);
        compound.total_window.set_threshold(segments);
        (compound, Time::ZERO)
    }

    #[test]
    fn an_empty_path_is_taken_by_an_eighth_of_the_window_to_three_quarters() {
        // 256^(3/4) / 8 − 1 = 7 segments each round trip, and Reno's one.
        let (mut compound, mut now) = avoiding(256);
        grow(&mut compound, &mut now, ROUND_TRIP, ROUND_TRIP);
        assert!((263.0..=264.0).contains(&compound.window()), "{}", compound.window());
        grow(&mut compound, &mut now, ROUND_TRIP, ROUND_TRIP);
        assert!((271.0..=273.0).contains(&compound.window()), "{}", compound.window());
        // With 16 segments it is Reno.
        let (mut compound, mut now) = avoiding(14);
        grow(&mut compound, &mut now, ROUND_TRIP * 2, ROUND_TRIP);
        assert_eq!((compound.window(), compound.delay_window), (16.0, 0.0));
    }

    #[test]
    fn the_delay_based_window_gives_way_once_gamma_segments_wait() {
        let (mut compound, mut now) = avoiding(256);
        grow(&mut compound, &mut now, ROUND_TRIP * 5, ROUND_TRIP);
        let (before, delay_based) = (compound.window(), compound.delay_window);
        assert!(delay_based > 35.0);
        // A tenth longer: a bit less than 30 of 300 segments wait, and it grows still.
        grow(&mut compound, &mut now, ROUND_TRIP, ROUND_TRIP * 11 / 10);
        grow(&mut compound, &mut now, ROUND_TRIP, ROUND_TRIP * 11 / 10);
        assert!(compound.window() > before + 8.0);
        let (before, delay_based) = (compound.window(), compound.delay_window);
        // A fifth longer: about 53 wait.
        grow(&mut compound, &mut now, ROUND_TRIP, ROUND_TRIP * 6 / 5);
        grow(&mut compound, &mut now, ROUND_TRIP, ROUND_TRIP * 6 / 5);
        assert!(compound.delay_window < 0.5 * delay_based, "{delay_based} to {}", compound.delay_window);
        assert!(compound.window() < before);
        grow(&mut compound, &mut now, ROUND_TRIP, ROUND_TRIP * 6 / 5);
        assert_eq!(compound.delay_window, 0.0);
    }

    #[test]
    fn a_loss_halves_both_windows_and_is_undone() {
        let (mut compound, mut now) = avoiding(256);
        grow(&mut compound, &mut now, ROUND_TRIP * 5, ROUND_TRIP);
        let (window, delay_based) = (compound.window(), compound.delay_window);
        compound.on_congestion(now, 0);
        assert_eq!((compound.window(), compound.delay_window), ((window / 2.0).floor(), delay_based / 2.0));
        compound.on_spurious_reduction(now);
        assert_eq!((compound.window(), compound.delay_window), (window, delay_based));
        compound.on_retransmission_timeout(now, 0, false);
        assert_eq!((compound.window(), compound.delay_window), (1.0, 0.0));
    }

    #[test]
    fn keeps_about_gamma_of_its_segments_waiting_until_newreno_has_more() {
        // Room for 1000 segments: only NewReno's part could fill it, by a segment per round trip.
        let mut path = Path::new(100, Span::from_millis(100), 1000.0);
        let (mut compound, _) = avoiding(400);
        path.run(&mut compound, Span::from_secs(5), |_, _| {});
        let (before, product) = (path.delivered(), path.product());
        path.run(&mut compound, Span::from_secs(5), |_, compound| {
            // What waits is known a round trip late.
            let waiting = compound.window() - product;
            assert!((-50.0..90.0).contains(&waiting), "{waiting}");
        });
        assert_eq!(path.recoveries, 0);
        assert!((path.delivered() - before) as f64 > 0.97 * 5.0 * path.rate);
    }
}
