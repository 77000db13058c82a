use super::controller::Ack;
use super::window::CongestionWindow;
use super::windowed::WindowController;
use kumade_units::{Span, Time};

/// Up to this window BIC is NewReno.
const LOW_WINDOW_SEGMENTS: u32 = 14;
/// The most segments that the window grows by in a round trip.
const MAX_INCREASE_SEGMENTS: u32 = 16;
/// The search goes a quarter of the way to the window at the last loss, and as far beyond it before it speeds up.
const SEARCH_DIVISOR: u32 = 4;
/// Round trips for the last quarter.
const SMOOTHING_ROUNDS: u32 = 20;
/// What is left of the window after a loss, in 1024ths: 0.8.
const BETA_1024THS: u64 = 819;
/// The longest wait for a segment's growth while no loss has shown the path's limit.
const MAX_SEGMENTS_PER_INCREASE: u32 = 20;
/// The steps stay as they are while the window does, for this long.
const STEADY_INTERVAL: Span = Span::from_nanos(1_000_000_000 / 32);
/// The mean number of segments per acknowledgement is counted in sixteenths, and follows as slowly.
const FIXED_POINT_SCALE: u32 = 16;

/// Searches for the window at the last loss by halving steps, and beyond it by growing ones (Xu, Harfoush and Rhee,
/// "Binary increase congestion control for fast long-distance networks", 2004), with Linux's parameters.
///
/// As in Linux a step is divided by the mean number of segments that an acknowledgement covers though growth counts
/// segments: with delayed acknowledgements it grows twice as fast as the paper says.
#[derive(Debug, Clone)]
pub struct Bic {
    window: CongestionWindow,
    /// The window at the last loss, or a bit less to let others in; zero before.
    last_max: u32,
    /// Segments per acknowledgement, in sixteenths.
    segments_per_ack_16ths: u32,
    step: Option<IncreaseStep>,
}

/// Acknowledged segments per segment of growth, with the window for which it was computed, and when.
#[derive(Debug, Clone)]
struct IncreaseStep {
    segments_per_increase: u32,
    window: u32,
    computed_at: Time,
}

impl Bic {
    /// At the start of a connection.
    pub fn new() -> Self {
        Bic { window: CongestionWindow::new(), last_max: 0, segments_per_ack_16ths: 2 * FIXED_POINT_SCALE, step: None }
    }

    /// How many segments must be acknowledged for the window to grow by one.
    fn segments_per_increase(&mut self, now: Time) -> u32 {
        let window = self.window.segments();
        match &self.step {
            Some(step) if step.window == window && now - step.computed_at <= STEADY_INTERVAL => {
                step.segments_per_increase
            }
            _ => {
                let count = self.compute_segments_per_increase(window);
                self.step = Some(IncreaseStep { segments_per_increase: count, window, computed_at: now });
                count
            }
        }
    }

    fn compute_segments_per_increase(&self, window: u32) -> u32 {
        if window <= LOW_WINDOW_SEGMENTS {
            return window;
        }
        let count = match window < self.last_max {
            true => binary_search_segments_per_increase(window, (self.last_max - window) / SEARCH_DIVISOR),
            false => max_probing_segments_per_increase(window, window - self.last_max),
        };
        let count = if self.last_max == 0 { count.min(MAX_SEGMENTS_PER_INCREASE) } else { count };
        (u64::from(count) * u64::from(FIXED_POINT_SCALE) / u64::from(self.segments_per_ack_16ths.max(1)))
            .clamp(1, u64::from(u32::MAX)) as u32
    }
}

impl Default for Bic {
    fn default() -> Self {
        Self::new()
    }
}

/// Below the last maximum: `step` segments per round trip, but not too many, and slowly near it.
fn binary_search_segments_per_increase(window: u32, step: u32) -> u32 {
    match step {
        0..=1 => slowest_segments_per_increase(window),
        2..=MAX_INCREASE_SEGMENTS => window / step,
        _ => window / MAX_INCREASE_SEGMENTS,
    }
}

/// At the last maximum and `beyond` it: away from it ever faster.
fn max_probing_segments_per_increase(window: u32, beyond: u32) -> u32 {
    if beyond < SEARCH_DIVISOR {
        slowest_segments_per_increase(window)
    } else if beyond < MAX_INCREASE_SEGMENTS * (SEARCH_DIVISOR - 1) {
        window.saturating_mul(SEARCH_DIVISOR - 1) / beyond
    } else {
        window / MAX_INCREASE_SEGMENTS
    }
}

fn slowest_segments_per_increase(window: u32) -> u32 {
    window.saturating_mul(SMOOTHING_ROUNDS) / SEARCH_DIVISOR
}

impl WindowController for Bic {
    fn window_state(&self) -> &CongestionWindow {
        &self.window
    }

    fn window_state_mut(&mut self) -> &mut CongestionWindow {
        &mut self.window
    }

    fn process_ack(&mut self, ack: &Ack) {
        if ack.reduction.is_none() && ack.acked > 0 {
            let mean = self.segments_per_ack_16ths / FIXED_POINT_SCALE;
            self.segments_per_ack_16ths = (self.segments_per_ack_16ths - mean).saturating_add(ack.acked);
        }
        let Some(acked) = self.window.growth(ack) else { return };
        let rest = self.window.slow_start(acked);
        if rest > 0 {
            let count = self.segments_per_increase(ack.now);
            self.window.avoid_congestion(count, rest);
        }
    }

    fn reduced_threshold(&mut self) -> u32 {
        self.last_max = self.window.limit_at_loss(self.last_max, BETA_1024THS);
        let window = self.window.segments();
        if window <= LOW_WINDOW_SEGMENTS { window / 2 } else { self.window.scaled_window(BETA_1024THS) }
    }

    /// Forgets what it knew of the path: a timeout says that it has changed.
    fn on_timeout(&mut self, _in_flight: u32) {
        self.last_max = 0;
        self.segments_per_ack_16ths = 2 * FIXED_POINT_SCALE;
        self.step = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::congestion::Controller;
    use crate::tcp::congestion::fluid::grow;

    const ROUND_TRIP: Span = Span::from_millis(100);

    /// A controller that lost at a window of `segments` and hears an acknowledgement for each segment.
    fn lost_at(segments: u32) -> (Bic, Time) {
        let mut bic = Bic::new();
        bic.window.set_segments(segments);
        bic.on_congestion(Time::ZERO, segments);
        bic.on_recovery_end(Time::ZERO);
        bic.segments_per_ack_16ths = FIXED_POINT_SCALE;
        (bic, Time::ZERO)
    }

    #[test]
    fn searches_for_its_last_window_and_goes_on_beyond_it() {
        let (mut bic, mut now) = lost_at(1000);
        assert_eq!(bic.window(), 799.0);
        let mut steps = Vec::new();
        for _ in 0..60 {
            let before = bic.window();
            grow(&mut bic, &mut now, ROUND_TRIP, ROUND_TRIP);
            steps.push((bic.window() - before) as u32);
        }
        // Linear growth by the most there is, then a quarter of the way in each round trip …
        assert_eq!(steps[..8], [16; 8]);
        let (searched, beyond) = steps.split_at(steps.iter().position(|step| *step == 0).unwrap_or(0));
        assert!(searched.is_sorted_by(|a, b| a >= b), "{steps:?}");
        // … five round trips for each of the last segments, and away as it came.
        let slow = beyond.iter().take_while(|step| **step <= 1).count();
        assert!((15..45).contains(&slow), "{steps:?}");
        let (mut fast, mut until) = (0, 0);
        while fast < 16 && until < 100 {
            let before = bic.window();
            grow(&mut bic, &mut now, ROUND_TRIP, ROUND_TRIP);
            (fast, until) = ((bic.window() - before) as u32, until + 1);
        }
        assert!(until < 40 && bic.window() > 1016.0, "{until} rounds to {}", bic.window());
    }

    #[test]
    fn is_reno_with_a_small_window() {
        let (mut bic, mut now) = lost_at(14);
        assert_eq!(bic.window(), 7.0);
        grow(&mut bic, &mut now, ROUND_TRIP * 4, ROUND_TRIP);
        assert_eq!(bic.window(), 11.0);
    }

    #[test]
    fn gives_way_when_it_does_not_reach_its_last_window() {
        let (mut bic, now) = lost_at(1000);
        bic.window.set_segments(900);
        bic.on_congestion(now, 900);
        // (1 + β) / 2 of 900, and β.
        assert_eq!((bic.last_max, bic.window()), (809, 719.0));
    }
}
