use super::hystart::HyStart;
use super::window::Window;
use super::{Ack, Controller};
use units::{Span, Time};

/// The steepness of the cubic, in segments per second cubed (RFC 9438, section 5).
const C: f64 = 0.4;
/// What is left of the window after a loss, in 1024ths: 0.7.
const BETA: u64 = 717;
/// Acknowledged segments per segment of the window for which the window of the Reno-friendly region grows by one:
/// (1 + β) / (3 (1 − β)), in eighths as Linux rounds it (RFC 9438, section 4.3).
const RENO_FRIENDLY: u64 = 15;
/// The steps stay as they are while the window does, for this long.
const STEADY: Span = Span::from_nanos(1_000_000_000 / 32);
/// Round-trip times of so long after a loss's recovery tell of the queue that caused it.
const SETTLING: Span = Span::from_secs(1);
/// The longest wait for a segment's growth while no loss has shown the path's limit.
const UNKNOWN_LIMIT_STEP: u32 = 20;

/// The window is a cubic function of the time since the last loss, with its plateau where that happened (RFC 9438), as
/// Linux has it: HyStart, fast convergence and a Reno-friendly region included.
#[derive(Debug, Clone)]
pub struct Cubic {
    segment_bytes: u32,
    window: Window,
    hystart: HyStart,
    /// The window at the last loss, or a bit less to let others in; zero before.
    last_max: u32,
    least_round_trip: Option<Span>,
    epoch: Option<Epoch>,
}

/// The time since growth began after the last loss.
#[derive(Debug, Clone)]
struct Epoch {
    begin: Time,
    /// Seconds from the beginning to the plateau.
    plateau_after: f64,
    plateau: u32,
    /// The window for which the step was computed, and when.
    computed_for: u32,
    computed: Time,
    /// Acknowledged segments per step.
    count: u32,
    /// What NewReno's window would be, and segments acknowledged towards its growth.
    reno: u32,
    reno_credit: u64,
}

impl Cubic {
    /// At the start of a connection that sends segments of `segment_bytes`.
    pub fn new(segment_bytes: u32) -> Self {
        Cubic {
            segment_bytes,
            window: Window::new(),
            hystart: HyStart::new(segment_bytes),
            last_max: 0,
            least_round_trip: None,
            epoch: None,
        }
    }

    /// Listens to the round-trip time, and ends slow start when it tells to.
    fn watch_delay(&mut self, ack: &Ack) {
        let Some(round_trip) = ack.round_trip else { return };
        if self.epoch.as_ref().is_some_and(|epoch| ack.now - epoch.begin < SETTLING) {
            return;
        }
        let least = self.least_round_trip.map_or(round_trip, |least| least.min(round_trip));
        self.least_round_trip = Some(least);
        let segments = self.window.segments();
        if self.window.in_slow_start() && self.hystart.ends(ack, segments, round_trip, least) {
            self.window.set_threshold(segments);
        }
    }

    /// How many segments must be acknowledged for the window to grow by one.
    fn count(&mut self, now: Time, acked: u32) -> u32 {
        let window = self.window.segments();
        let ahead = self.least_round_trip.unwrap_or(Span::ZERO);
        let limit_known = self.last_max > 0;
        let epoch = self.epoch.get_or_insert_with(|| Epoch::new(now, window, self.last_max));
        epoch.reno_credit = epoch.reno_credit.saturating_add(u64::from(acked));
        let first = epoch.count == 0;
        if !first && epoch.computed_for == window && now - epoch.computed <= STEADY {
            return epoch.count;
        }
        epoch.computed_for = window;
        epoch.computed = now;
        let count = epoch.cubic_count(now - epoch.begin + ahead, window);
        let count = if limit_known { count } else { count.min(UNKNOWN_LIMIT_STEP) };
        epoch.count = epoch.friendly(count, window).max(2);
        epoch.count
    }

    /// Ends the epoch and returns the window to go down to.
    fn reduced(&mut self) -> u32 {
        self.epoch = None;
        let window = self.window.segments();
        // Fast convergence: a flow that did not come back to where it was gives way (RFC 9438, section 4.7).
        self.last_max = if window < self.last_max { scaled(window, (1024 + BETA) / 2) } else { window };
        scaled(window, BETA)
    }
}

impl Epoch {
    fn new(now: Time, window: u32, last_max: u32) -> Self {
        let climb = last_max.saturating_sub(window);
        Epoch {
            begin: now,
            plateau_after: (f64::from(climb) / C).cbrt(),
            plateau: last_max.max(window),
            computed_for: window,
            computed: now,
            count: 0,
            reno: window,
            reno_credit: 0,
        }
    }

    /// The step that brings the window to the cubic's value at `time` after the beginning within a round trip.
    fn cubic_count(&self, time: Span, window: u32) -> u32 {
        let away = time.as_secs_f64() - self.plateau_after;
        let rise = (C * away.abs().powi(3)) as u32;
        let target = if away < 0.0 { self.plateau.saturating_sub(rise) } else { self.plateau.saturating_add(rise) };
        if target > window { window / (target - window) } else { window.saturating_mul(100) }
    }

    /// `count`, or less where NewReno would be ahead.
    fn friendly(&mut self, count: u32, window: u32) -> u32 {
        let per_segment = (u64::from(window) * RENO_FRIENDLY / 8).max(1);
        // As many steps as leave some credit: strictly more than a step's worth is needed for one.
        let steps = self.reno_credit.saturating_sub(1) / per_segment;
        self.reno_credit -= steps * per_segment;
        self.reno = self.reno.saturating_add(u32::try_from(steps).unwrap_or(u32::MAX));
        if self.reno > window { count.min(window / (self.reno - window)) } else { count }
    }
}

impl Controller for Cubic {
    fn window(&self) -> f64 {
        f64::from(self.window.segments())
    }

    fn threshold(&self) -> f64 {
        self.window.threshold()
    }

    fn acknowledged(&mut self, ack: &Ack) {
        self.watch_delay(ack);
        let Some(acked) = self.window.growth(ack) else { return };
        let rest = self.window.slow_start(acked);
        if rest > 0 {
            let count = self.count(ack.now, rest);
            self.window.avoid_congestion(count, rest);
        }
    }

    fn congested(&mut self, _now: Time, _in_flight: u32) {
        let threshold = self.reduced();
        self.window.reduce(threshold);
    }

    fn recovered(&mut self, _now: Time) {
        self.window.recovered();
    }

    /// Forgets what it knew of the path: a timeout says that it has changed.
    fn timed_out(&mut self, _now: Time, _in_flight: u32, again: bool) {
        let threshold = self.window.timeout_reduces(again).then(|| self.reduced());
        self.window.collapse(threshold);
        self.last_max = 0;
        self.least_round_trip = None;
        self.epoch = None;
        self.hystart = HyStart::new(self.segment_bytes);
    }

    fn undone(&mut self, _now: Time) {
        self.window.undo();
    }
}

/// `window · factor / 1024`.
fn scaled(window: u32, factor: u64) -> u32 {
    (u64::from(window) * factor / 1024) as u32
}
