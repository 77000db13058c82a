use super::controller::Ack;
use super::rounds::RoundCounter;
use kumade_units::{Span, Time};

/// Below this window nothing is looked for.
const LOW_WINDOW_SEGMENTS: u32 = 16;
/// Acknowledgements closer than this are one train.
const MAX_TRAIN_GAP: Span = Span::from_millis(2);
/// Round-trip times to take the minimum of before it says something about the round.
const MIN_SAMPLES: u32 = 8;
/// By how much the round-trip time must have grown: an eighth of the least, within these.
const DELAY_GROWTH_RANGE: (Span, Span) = (Span::from_millis(4), Span::from_millis(16));
/// A sender may hold back as many bytes to send them at once; they lengthen trains.
const BURST_BYTES: f64 = 4.0 * 65536.0;
/// But no longer than this.
const MAX_BURST_TIME: Span = Span::from_millis(1);

/// Finds the end of slow start before loss does (Ha and Rhee, "Taming the elephants", 2011; in the form of Linux): when
/// a train of acknowledgements has become half as long as the round trip, or the round-trip time grows.
#[derive(Debug, Clone)]
pub(super) struct HyStart {
    segment_bytes: u32,
    rounds: RoundCounter,
    round_begin: Time,
    last_train_ack: Time,
    round_min_round_trip: Span,
    samples: u32,
    is_exit_found: bool,
}

impl HyStart {
    pub(super) fn new(segment_bytes: u32) -> Self {
        HyStart {
            segment_bytes,
            rounds: RoundCounter::default(),
            round_begin: Time::ZERO,
            last_train_ack: Time::ZERO,
            round_min_round_trip: Span::MAX,
            samples: 0,
            is_exit_found: false,
        }
    }

    /// Whether slow start with this `window` should end at `ack`, which measured `round_trip`; `least` is the least
    /// round-trip time of the connection. Says yes only once.
    pub(super) fn ends_slow_start(&mut self, ack: &Ack, window: u32, round_trip: Span, least: Span) -> bool {
        if self.is_exit_found {
            return false;
        }
        if self.rounds.begins_round(ack) {
            self.round_begin = ack.now;
            self.last_train_ack = ack.now;
            self.round_min_round_trip = Span::MAX;
            self.samples = 0;
        }
        if window < LOW_WINDOW_SEGMENTS {
            return false;
        }
        // Both look at every acknowledgement: neither may miss one.
        let long_train = self.is_train_long(ack, window, least);
        let grown_delay = self.has_delay_grown(round_trip, least);
        self.is_exit_found = long_train || grown_delay;
        self.is_exit_found
    }

    fn is_train_long(&mut self, ack: &Ack, window: u32, least: Span) -> bool {
        if ack.now - self.last_train_ack > MAX_TRAIN_GAP {
            return false;
        }
        self.last_train_ack = ack.now;
        ack.now - self.round_begin > (least + self.pacing_burst_time(window, ack.smoothed_round_trip)) / 2
    }

    /// The time that a burst of the sender's takes at twice the window per round trip, its rate in slow start.
    fn pacing_burst_time(&self, window: u32, round_trip: Span) -> Span {
        let bytes_per_round = 2.0 * f64::from(window) * f64::from(self.segment_bytes);
        let seconds = BURST_BYTES * round_trip.as_secs_f64() / bytes_per_round.max(1.0);
        Span::from_secs_f64(seconds).clamp(Span::ZERO, MAX_BURST_TIME)
    }

    fn has_delay_grown(&mut self, round_trip: Span, least: Span) -> bool {
        self.round_min_round_trip = self.round_min_round_trip.min(round_trip);
        if self.samples < MIN_SAMPLES {
            self.samples += 1;
            return false;
        }
        self.round_min_round_trip > least + (least / 8).clamp(DELAY_GROWTH_RANGE.0, DELAY_GROWTH_RANGE.1)
    }
}
