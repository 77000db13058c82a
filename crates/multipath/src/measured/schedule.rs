use crate::scheduler::rendezvous_hash::mix_bits;
use kumade_units::{Rate, Span, Time};

/// What measurements may cost, and how often they are made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScheduleConfig {
    /// The share of a path's rate that measurements of it take at most, in the mean.
    pub max_rate_fraction: f64,
    /// From one measurement of a path to the next.
    pub interval: Span,
    /// The same where the last one has contradicted what was known, or has failed for the first time.
    pub uncertain_interval: Span,
    /// Of the jitter.
    pub seed: u64,
}

impl Default for ScheduleConfig {
    /// Every five minutes, or 30 s while uncertain, and at most 1 % of the rate.
    fn default() -> Self {
        ScheduleConfig {
            max_rate_fraction: 0.01,
            interval: Span::from_secs(300),
            uncertain_interval: Span::from_secs(30),
            seed: 0,
        }
    }
}

/// When which path is measured.
///
/// **Rule.** One path at a time, the one that has waited longest. A path is measured again after the interval, up to 30 %
/// more at random (so that it keeps no step with periodic traffic), and not before its last measurement has cost no more
/// than its share of the path's rate. While carried traffic takes more than a tenth of the path, the measurement waits,
/// for up to three more intervals. After failures the time doubles each time, up to an hour.
#[derive(Debug, Clone)]
pub struct MeasurementSchedule {
    config: ScheduleConfig,
    paths: Vec<NextMeasurement>,
    running_path: Option<usize>,
    draw_count: u64,
}

/// Of one path.
#[derive(Debug, Clone, Copy)]
struct NextMeasurement {
    /// From then on, while the path is idle.
    if_idle: Time,
    /// From then on, whatever it carries.
    in_any_case: Time,
    failures: u32,
}

const JITTER_FRACTION: f64 = 0.3;
/// A path is idle while it carries less than this share of its rate.
const IDLE_RATE_FRACTION: f64 = 0.1;
/// Intervals that a measurement waits for the path to be idle.
const MAX_LATE_INTERVALS: i64 = 3;
const MAX_BACKOFF: Span = Span::from_secs(3600);
const MAX_WAIT: Span = Span::from_secs(24 * 3600);

impl MeasurementSchedule {
    /// All paths are due.
    pub fn new(config: ScheduleConfig, paths: usize, now: Time) -> Self {
        let due = NextMeasurement { if_idle: now, in_any_case: now, failures: 0 };
        MeasurementSchedule { config, paths: vec![due; paths], running_path: None, draw_count: 0 }
    }

    /// The path to measure now, if any; it counts as being measured until that has finished or failed. `loads` are the
    /// shares of the paths' rates that carried traffic takes.
    pub fn start_measurement(&mut self, loads: &[f64], now: Time) -> Option<usize> {
        if self.running_path.is_some() {
            return None;
        }
        let is_due = |(due, load): &(&NextMeasurement, &f64)| {
            now >= if **load < IDLE_RATE_FRACTION { due.if_idle } else { due.in_any_case }
        };
        let due = self.paths.iter().zip(loads).enumerate().filter(|(_, path)| is_due(path));
        self.running_path = due.min_by_key(|(_, (due, _))| due.if_idle).map(|(path, _)| path);
        self.running_path
    }

    /// The measurement has cost so many bytes of a path with this rate; `uncertain` where another is needed soon.
    pub fn record_finished(&mut self, bytes: u64, rate: Rate, uncertain: bool, now: Time) {
        let interval = if uncertain { self.config.uncertain_interval } else { self.config.interval };
        self.end_measurement(interval.max(self.wait_for_cost(bytes, rate)), 0, now);
    }

    /// There is no result, for so many bytes. Whatever the cause, it will often be the same for a while.
    pub fn record_failed(&mut self, bytes: u64, rate: Option<Rate>, now: Time) {
        let failures = self.running_path.map_or(0, |path| self.paths[path].failures);
        let wait = (self.config.uncertain_interval * (1 << failures.min(20))).min(MAX_BACKOFF);
        let paid = rate.map_or(Span::ZERO, |rate| self.wait_for_cost(bytes, rate));
        self.end_measurement(wait.max(paid), failures + 1, now);
    }

    /// The traffic that a path carries tells its rate: no measurement is needed for an interval.
    pub fn postpone(&mut self, path: usize, now: Time) {
        self.schedule_after(path, self.config.interval, now);
    }

    /// How long until so many bytes are no more than their share.
    fn wait_for_cost(&self, bytes: u64, rate: Rate) -> Span {
        Rate::from_f64(rate.as_f64() * self.config.max_rate_fraction).time_for(bytes).min(MAX_WAIT)
    }

    fn end_measurement(&mut self, wait: Span, failures: u32, now: Time) {
        if let Some(path) = self.running_path.take() {
            self.paths[path].failures = failures;
            self.schedule_after(path, wait, now);
        }
    }

    fn schedule_after(&mut self, path: usize, wait: Span, now: Time) {
        self.draw_count += 1;
        let draw = (mix_bits(self.config.seed ^ mix_bits(self.draw_count)) >> 11) as f64 / (1u64 << 53) as f64;
        let at = now + Span::from_secs_f64(wait.as_secs_f64() * (1.0 + JITTER_FRACTION * draw));
        self.paths[path] = NextMeasurement {
            if_idle: at,
            in_any_case: at + self.config.interval * MAX_LATE_INTERVALS,
            ..self.paths[path]
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time_at_seconds(seconds: i64) -> Time {
        Time::ZERO + Span::from_secs(seconds)
    }

    /// When the next measurement begins, in whole seconds.
    fn next(schedule: &mut MeasurementSchedule, loads: &[f64], from: i64) -> (i64, usize) {
        (from..100_000)
            .find_map(|second| Some((second, schedule.start_measurement(loads, time_at_seconds(second))?)))
            .unwrap()
    }

    #[test]
    fn paths_take_turns_and_pay_for_what_they_cost() {
        let mut schedule = MeasurementSchedule::new(ScheduleConfig::default(), 2, time_at_seconds(0));
        assert_eq!(next(&mut schedule, &[0.0, 0.0], 0), (0, 0));
        assert_eq!(schedule.start_measurement(&[0.0, 0.0], time_at_seconds(1)), None, "one at a time");
        // 1 MB is 1 % of 1 Mbit/s for 800 s.
        schedule.record_finished(1_000_000, Rate::from_mbit(1), true, time_at_seconds(3));
        assert_eq!(next(&mut schedule, &[0.0, 0.0], 3), (3, 1));
        schedule.record_finished(100_000, Rate::from_mbit(100), false, time_at_seconds(5));
        let (second, path) = next(&mut schedule, &[0.0, 0.0], 5);
        assert!(path == 1 && (305..=396).contains(&second), "{second}");
        schedule.record_finished(100_000, Rate::from_mbit(100), true, time_at_seconds(second));
        let (again, path) = next(&mut schedule, &[0.0, 0.0], second);
        assert!(path == 1 && (30..=40).contains(&(again - second)), "{again}");
        schedule.postpone(1, time_at_seconds(again));
        schedule.record_failed(0, None, time_at_seconds(again));
        let (other, path) = (803..1050)
            .find_map(|second| Some((second, schedule.start_measurement(&[0.0, 1.0], time_at_seconds(second))?)))
            .unwrap();
        assert!(path == 0, "{other}");
    }

    #[test]
    fn a_busy_path_waits_and_failures_wait_longer_each_time() {
        let mut schedule = MeasurementSchedule::new(ScheduleConfig::default(), 1, time_at_seconds(0));
        schedule.start_measurement(&[0.0], time_at_seconds(0));
        schedule.record_finished(0, Rate::from_mbit(1), false, time_at_seconds(0));
        let (second, _) = next(&mut schedule, &[0.5], 0);
        assert!((1200..=1300).contains(&second), "{second}");
        let mut before = second;
        for wait in [30, 60, 120, 240, 480, 960, 1920, 3600, 3600] {
            schedule.record_failed(0, None, time_at_seconds(before));
            let (second, _) = next(&mut schedule, &[0.0], before);
            let took = second - before;
            assert!((wait..=wait * 13 / 10 + 1).contains(&took), "{took}, not {wait}");
            before = second;
        }
    }
}
