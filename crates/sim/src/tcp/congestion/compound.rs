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
//! - A timeout sets the threshold to half the sum, the sum to one segment, and the delay-based window to zero.
//! - Undoing gives back the delay-based window of before the loss, and the sum as NewReno does.
//!
//! α = 1/8, k = 3/4, γ = 30, ζ = 1, and β = 1/2 in the halving. γ is not tuned. The paper has no delay-based window while
//! the sum is below about 40 segments; here too it hardly has one then, as it grows by nothing up to 16 segments and by
//! less than one per round trip up to 40.

use super::rounds::Rounds;
use super::window::Window;
use super::{Ack, Controller};
use units::{Span, Time};

const ALPHA: f64 = 1.0 / 8.0;
const K: f64 = 0.75;
const GAMMA: f64 = 30.0;
const ZETA: f64 = 1.0;
const LEAST_SUM: u32 = 2;

/// A window of two parts, one heeding loss and one delay: see the module's documentation for its rules.
#[derive(Debug, Clone)]
pub struct Compound {
    sum: Window,
    delay_based: f64,
    delay_based_before: f64,
    least: Option<Span>,
    rounds: Rounds,
    /// The round's round-trip times: their sum in seconds, and number.
    total: f64,
    samples: u32,
}

impl Compound {
    /// At the start of a connection.
    pub fn new() -> Self {
        Compound {
            sum: Window::new(),
            delay_based: 0.0,
            delay_based_before: 0.0,
            least: None,
            rounds: Rounds::default(),
            total: 0.0,
            samples: 0,
        }
    }

    fn sample(&mut self, round_trip: Span) {
        let round_trip = round_trip.max(Span::from_nanos(1));
        self.least = Some(self.least.map_or(round_trip, |least| least.min(round_trip)));
        self.total += round_trip.as_secs_f64();
        self.samples = self.samples.saturating_add(1);
    }

    /// Sets the delay-based window by what the round measured.
    fn end_round(&mut self, window_limited: bool) {
        let Some(least) = self.least.filter(|_| self.samples > 0) else { return };
        let mean = self.total / f64::from(self.samples);
        let sum = f64::from(self.sum.segments());
        let queued = sum * (1.0 - least.as_secs_f64() / mean).max(0.0);
        let held = self.delay_based.min(sum);
        if queued >= GAMMA {
            self.set_delay_based(held, (held - ZETA * queued).max(0.0));
        } else if window_limited {
            self.set_delay_based(held, held + (ALPHA * sum.powf(K) - 1.0).max(0.0));
        }
    }

    fn set_delay_based(&mut self, from: f64, to: f64) {
        self.delay_based = to;
        let rest = self.sum.segments().saturating_sub(from as u32);
        self.sum.set(rest.saturating_add(to as u32).max(LEAST_SUM));
    }

    fn halved(&mut self) -> u32 {
        self.delay_based_before = self.delay_based;
        self.delay_based /= 2.0;
        self.sum.segments() / 2
    }
}

impl Default for Compound {
    fn default() -> Self {
        Self::new()
    }
}

impl Controller for Compound {
    fn window(&self) -> f64 {
        f64::from(self.sum.segments())
    }

    fn threshold(&self) -> f64 {
        self.sum.threshold()
    }

    fn acknowledged(&mut self, ack: &Ack) {
        if let Some(round_trip) = ack.round_trip {
            self.sample(round_trip);
        }
        if let Some(acked) = self.sum.growth(ack) {
            self.sum.grow_as_reno(acked);
        }
        if self.sum.reducing() || ack.acked == 0 || !self.rounds.begins(ack) {
            return;
        }
        if self.sum.in_slow_start() {
            self.delay_based = 0.0;
        } else {
            self.end_round(ack.window_limited);
        }
        self.total = 0.0;
        self.samples = 0;
    }

    fn congested(&mut self, _now: Time, _in_flight: u32) {
        let threshold = self.halved();
        self.sum.reduce(threshold);
    }

    fn recovered(&mut self, _now: Time) {
        self.sum.recovered();
    }

    fn timed_out(&mut self, _now: Time, _in_flight: u32, again: bool) {
        let threshold = self.sum.timeout_reduces(again).then(|| self.halved());
        self.sum.collapse(threshold);
        self.delay_based = 0.0;
    }

    fn undone(&mut self, _now: Time) {
        self.sum.undo();
        self.delay_based = self.delay_based_before;
    }
}
