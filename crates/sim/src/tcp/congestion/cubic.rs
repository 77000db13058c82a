use super::controller::Ack;
use super::hystart::HyStart;
use super::window::CongestionWindow;
use super::windowed::WindowController;
use kumade_units::{Span, Time};

/// The steepness of the cubic, in segments per second cubed (RFC 9438, section 5).
const C: f64 = 0.4;
/// What is left of the window after a loss, in 1024ths: 0.7.
const BETA_1024THS: u64 = 717;
/// Acknowledged segments per segment of the window for which the window of the Reno-friendly region grows by one:
/// (1 + β) / (3 (1 − β)), in eighths as Linux rounds it (RFC 9438, section 4.3).
const RENO_FRIENDLY_FACTOR: u64 = 15;
/// The steps stay as they are while the window does, for this long.
const STEADY_INTERVAL: Span = Span::from_nanos(1_000_000_000 / 32);
/// Round-trip times of so long after a loss's recovery tell of the queue that caused it.
const SETTLING_TIME: Span = Span::from_secs(1);
/// The longest wait for a segment's growth while no loss has shown the path's limit.
const UNKNOWN_LIMIT_STEP: u32 = 20;

/// The window is a cubic function of the time since the last loss, with its plateau where that happened (RFC 9438), as
/// Linux has it: HyStart, fast convergence and a Reno-friendly region included.
#[derive(Debug, Clone)]
pub struct Cubic {
    segment_bytes: u32,
    window: CongestionWindow,
    hystart: HyStart,
    /// The window at the last loss, or a bit less to let others in; zero before.
    last_max: u32,
    min_round_trip: Option<Span>,
    epoch: Option<Epoch>,
}

/// The time since growth began after the last loss.
#[derive(Debug, Clone)]
struct Epoch {
    began_at: Time,
    /// Seconds from the beginning to the plateau.
    plateau_after: f64,
    plateau: u32,
    /// The window for which the step was computed, and when.
    computed_for_window: u32,
    computed_at: Time,
    /// Acknowledged segments per step.
    segments_per_increase: u32,
    /// What NewReno's window would be, and segments acknowledged towards its growth.
    reno_window: u32,
    reno_credit: u64,
}

impl Cubic {
    /// At the start of a connection that sends segments of `segment_bytes`.
    pub fn new(segment_bytes: u32) -> Self {
        Cubic {
            segment_bytes,
            window: CongestionWindow::new(),
            hystart: HyStart::new(segment_bytes),
            last_max: 0,
            min_round_trip: None,
            epoch: None,
        }
    }

    /// Listens to the round-trip time, and ends slow start when it tells to.
    fn update_hystart(&mut self, ack: &Ack) {
        let Some(round_trip) = ack.round_trip else { return };
        if self.epoch.as_ref().is_some_and(|epoch| ack.now - epoch.began_at < SETTLING_TIME) {
            return;
        }
        let least = self.min_round_trip.map_or(round_trip, |least| least.min(round_trip));
        self.min_round_trip = Some(least);
        let segments = self.window.segments();
        if self.window.is_in_slow_start() && self.hystart.ends_slow_start(ack, segments, round_trip, least) {
            self.window.set_threshold(segments);
        }
    }

    /// How many segments must be acknowledged for the window to grow by one.
    fn segments_per_increase(&mut self, now: Time, acked: u32) -> u32 {
        let window = self.window.segments();
        let ahead = self.min_round_trip.unwrap_or(Span::ZERO);
        let limit_known = self.last_max > 0;
        let epoch = self.epoch.get_or_insert_with(|| Epoch::new(now, window, self.last_max));
        epoch.reno_credit = epoch.reno_credit.saturating_add(u64::from(acked));
        let first = epoch.segments_per_increase == 0;
        if !first && epoch.computed_for_window == window && now - epoch.computed_at <= STEADY_INTERVAL {
            return epoch.segments_per_increase;
        }
        epoch.computed_for_window = window;
        epoch.computed_at = now;
        let count = epoch.cubic_count(now - epoch.began_at + ahead, window);
        let count = if limit_known { count } else { count.min(UNKNOWN_LIMIT_STEP) };
        epoch.segments_per_increase = epoch.reno_friendly_count(count, window).max(2);
        epoch.segments_per_increase
    }
}

impl Epoch {
    fn new(now: Time, window: u32, last_max: u32) -> Self {
        let climb = last_max.saturating_sub(window);
        Epoch {
            began_at: now,
            plateau_after: (f64::from(climb) / C).cbrt(),
            plateau: last_max.max(window),
            computed_for_window: window,
            computed_at: now,
            segments_per_increase: 0,
            reno_window: window,
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
    fn reno_friendly_count(&mut self, count: u32, window: u32) -> u32 {
        let per_segment = (u64::from(window) * RENO_FRIENDLY_FACTOR / 8).max(1);
        // As many steps as leave some credit: strictly more than a step's worth is needed for one.
        let steps = self.reno_credit.saturating_sub(1) / per_segment;
        self.reno_credit -= steps * per_segment;
        self.reno_window = self.reno_window.saturating_add(u32::try_from(steps).unwrap_or(u32::MAX));
        if self.reno_window > window { count.min(window / (self.reno_window - window)) } else { count }
    }
}

impl WindowController for Cubic {
    fn window_state(&self) -> &CongestionWindow {
        &self.window
    }

    fn window_state_mut(&mut self) -> &mut CongestionWindow {
        &mut self.window
    }

    fn process_ack(&mut self, ack: &Ack) {
        self.update_hystart(ack);
        let Some(acked) = self.window.growth(ack) else { return };
        let rest = self.window.slow_start(acked);
        if rest > 0 {
            let count = self.segments_per_increase(ack.now, rest);
            self.window.avoid_congestion(count, rest);
        }
    }

    fn reduced_threshold(&mut self) -> u32 {
        self.epoch = None;
        self.last_max = self.window.limit_at_loss(self.last_max, BETA_1024THS);
        self.window.scaled_window(BETA_1024THS)
    }

    /// Forgets what it knew of the path: a timeout says that it has changed.
    fn on_timeout(&mut self, _in_flight: u32) {
        self.last_max = 0;
        self.min_round_trip = None;
        self.epoch = None;
        self.hystart = HyStart::new(self.segment_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::congestion::fluid::{Path, SEGMENT_BYTES, grow};
    use crate::tcp::congestion::{Controller, NewReno};

    const ROUND_TRIP: Span = Span::from_millis(100);

    /// A controller that lost at a window of `segments` in slow start.
    fn lost_at(segments: u32) -> Cubic {
        let mut cubic = Cubic::new(SEGMENT_BYTES);
        cubic.window.set_segments(segments);
        cubic.on_congestion(Time::ZERO, segments);
        cubic.on_recovery_end(Time::ZERO);
        cubic
    }

    #[test]
    fn is_back_at_the_plateau_after_k_and_leaves_it_as_it_came() {
        // K = ∛(Wmax (1 − β) / C) = ∛(600 / 0.4) = 11.4 s for 2000 segments (RFC 9438, figure 2); Linux computes the
        // window a round trip ahead.
        let (mut cubic, mut now) = (lost_at(2000), Time::ZERO);
        assert_eq!(cubic.window(), 1400.0);
        for (seconds, window) in [(5.7, 1925.0), (11.4, 2000.0), (17.1, 2074.0), (22.8, 2600.0)] {
            let span = Time::ZERO + Span::from_secs_f64(seconds) - now;
            grow(&mut cubic, &mut now, span, ROUND_TRIP);
            assert!((cubic.window() / window - 1.0).abs() < 0.01, "{seconds} s: {} of {window}", cubic.window());
        }
    }

    #[test]
    fn gives_way_when_it_does_not_reach_its_last_window() {
        let mut cubic = lost_at(1000);
        assert_eq!(cubic.last_max, 1000);
        cubic.window.set_segments(800);
        cubic.on_congestion(Time::ZERO, 800);
        // (1 + β) / 2 of 800.
        assert_eq!((cubic.last_max, cubic.window()), (680, 560.0));
    }

    /// The mean window with a loss after every `interval` segments.
    fn mean_window(controller: &mut impl Controller, interval: u32, round_trip: Span) -> f64 {
        let (mut now, mut total, mut rounds, mut sent) = (Time::ZERO, 0.0, 0.0, 0.0);
        while rounds < 2000.0 {
            grow(controller, &mut now, round_trip, round_trip);
            (total, rounds, sent) = (total + controller.window(), rounds + 1.0, sent + controller.window());
            if sent >= f64::from(interval) {
                sent -= f64::from(interval);
                controller.on_congestion(now, 0);
                controller.on_recovery_end(now);
            }
        }
        total / rounds
    }

    #[test]
    fn has_the_window_of_reno_where_round_trips_are_short() {
        // Reno's mean window at loss rate p is √(3 / 2p): 38.7 (RFC 9438, section 4.3).
        let round_trip = Span::from_millis(5);
        let reno = mean_window(&mut NewReno::new(), 1000, round_trip);
        let cubic = mean_window(&mut Cubic::new(SEGMENT_BYTES), 1000, round_trip);
        assert!((reno / 38.7 - 1.0).abs() < 0.08, "{reno}");
        assert!((cubic / 38.7 - 1.0).abs() < 0.08, "{cubic}");
        // On a long path it is ahead: Wavg = ⁴√(C (3 + β) / 4 (1 − β)) · ⁴√(RTT³ / p³) (RFC 9438, section 5.1, which
        // leaves fast convergence out).
        let expected = (C * 3.7 / 1.2_f64).powf(0.25) * (0.1 * 10_000.0_f64).powf(0.75);
        let cubic = mean_window(&mut Cubic::new(SEGMENT_BYTES), 10_000, ROUND_TRIP);
        assert!((0.95..1.2).contains(&(cubic / expected)), "{cubic} to {expected}");
    }

    #[test]
    fn leaves_slow_start_before_it_fills_the_queue() {
        let mut path = Path::new(100, Span::from_millis(20), 167.0);
        let mut cubic = Cubic::new(SEGMENT_BYTES);
        path.run(&mut cubic, Span::from_millis(200), |_, _| {});
        assert_eq!(path.recoveries, 0);
        assert!(cubic.threshold() > 60.0 && cubic.threshold() < 334.0, "{}", cubic.threshold());
        path.run(&mut cubic, Span::from_secs(30), |_, _| {});
        assert!(path.recoveries > 0);
        assert!(path.delivered() as f64 > 0.97 * 30.0 * path.rate, "{}", path.delivered());
    }

    #[test]
    fn a_timeout_forgets_the_path_and_is_undone() {
        let mut cubic = lost_at(1000);
        cubic.on_retransmission_timeout(Time::ZERO, 0, false);
        assert_eq!((cubic.window(), cubic.threshold(), cubic.last_max), (1.0, 490.0, 0));
        cubic.on_spurious_reduction(Time::ZERO);
        assert_eq!((cubic.window(), cubic.threshold()), (700.0, 700.0));
    }
}
