//! The periods of a class, one after the other: its cycles.

use crate::id::{ClassId, RunId};
use crate::plan::Class;
use kumade_units::{Span, Time};
use siphasher::sip::SipHasher13;
use std::hash::Hasher;

/// The part of a period over which runs are spread is at most this, so that the last ones end within it.
const MAX_SPREAD_RATIO: f64 = 0.9;
/// What list scheduling takes above the lower bound, rounded up: it reached 1.00 – 1.06 × in three topologies.
const LIST_SCHEDULING_RATIO: f64 = 1.1;

/// One period of a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cycle {
    pub(crate) number: u64,
    pub(crate) start: Time,
    pub(crate) period: Span,
    class: ClassId,
}

/// Numbers cycles by the wall clock as it was at the start, so that those of a restarted coordinator go on, and counts time
/// by the clock that nobody sets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Calendar {
    /// The wall clock's time less the other clock's.
    offset: i128,
}

impl Calendar {
    pub(crate) fn new(wall: Time, now: Time) -> Self {
        Calendar { offset: i128::from(wall.as_nanos()) - i128::from(now.as_nanos()) }
    }

    /// The cycle that `now` is in. Classes begin theirs at different times, and not on the hour.
    pub(crate) fn cycle(&self, class: &Class, now: Time) -> Cycle {
        let period = i128::from(class.period.as_nanos());
        let phase = i128::from(hash(u64::from(class.id.0), 0, 0)) % period;
        let calendar = i128::from(now.as_nanos()) + self.offset - phase;
        let start = now - Span::from_nanos(calendar.rem_euclid(period) as i64);
        let number = calendar.div_euclid(period).max(0) as u64;
        Cycle { number, start, period: class.period, class: class.id }
    }
}

impl Cycle {
    pub(crate) fn end(&self) -> Time {
        self.start + self.period
    }

    /// From when on a run may start, and a random number. Both have the cycle's number as seed, and the run's own, so
    /// that a run that is added moves no other.
    ///
    /// `load_ratio` is the load of the busiest resource of the run: the less there is to do, the more the runs are spread
    /// over the period.
    pub(crate) fn release(&self, run: RunId, load_ratio: f64) -> (Time, u64) {
        let random = hash(self.number, u64::from(self.class.0), run.0);
        let spread = (1.0 - LIST_SCHEDULING_RATIO * load_ratio).clamp(0.0, MAX_SPREAD_RATIO);
        let after = self.period.as_secs_f64() * spread * (random as f64 / u64::MAX as f64);
        (self.start + Span::from_secs_f64(after), random)
    }
}

fn hash(key0: u64, key1: u64, value: u32) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(key0, key1);
    hasher.write_u32(value);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLASS: Class = Class { id: ClassId(1), period: Span::from_secs(900) };

    #[test]
    fn a_restarted_coordinator_goes_on_with_the_cycle_and_another_class_begins_elsewhere() {
        let (wall, now) = (Time::from_nanos(1_800_000_000_000_000_000), Time::from_nanos(5));
        let before = Calendar::new(wall, now).cycle(&CLASS, now + Span::from_secs(100));
        // The machine has restarted 100 s later, and with it the clock that nobody sets.
        let after = Calendar::new(wall + Span::from_secs(100), Time::ZERO).cycle(&CLASS, Time::ZERO);
        assert_eq!(before.number, after.number);
        assert_eq!(before.start - Span::from_secs(100) - Span::from_nanos(5), after.start);
        let other = Calendar::new(wall, now).cycle(&Class { id: ClassId(2), ..CLASS }, now);
        assert_ne!(before.start.as_nanos() % CLASS.period.as_nanos(), other.start.as_nanos() % CLASS.period.as_nanos());
        assert!(before.start <= now + Span::from_secs(100) && now + Span::from_secs(100) < before.end());
    }

    #[test]
    fn runs_are_spread_over_what_the_load_leaves() {
        let cycle = Calendar::new(Time::ZERO, Time::ZERO).cycle(&CLASS, Time::from_nanos(10_000_000_000_000));
        let starts = |load| {
            let runs = (0..1000).map(RunId);
            runs.map(|run| (cycle.release(run, load).0 - cycle.start).as_secs_f64()).collect::<Vec<_>>()
        };
        let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
        assert!(starts(0.95).iter().all(|start| *start == 0.0));
        assert!((mean(starts(0.0)) - 405.0).abs() < 30.0);
        assert!((mean(starts(0.5)) - 202.5).abs() < 15.0);
    }
}
