//! What a client has used lately, and whether it may go on.
//!
//! **Contract.** Pure: times come in, on any clock that never goes back. [`check_measurement`](QuotaUsage::check_measurement) before a
//! measurement and [`begin_measurement`](QuotaUsage::begin_measurement) as it begins; [`charge_bytes`](QuotaUsage::charge_bytes) before
//! each train.

use crate::named_client::Quota;
use kumade_units::{Span, Time};
use std::collections::VecDeque;

const HOUR: Span = Span::from_secs(3600);
const DAY: Span = Span::from_secs(24 * 3600);
/// What is used within one of so many parts of a window is remembered together, and counts until the last of it has left the
/// window: a bound of memory. A client waits longer by one part of them at most, a quarter of an hour in a day.
const WINDOW_PARTS: i64 = 96;

/// A limit of a [`Quota`] that has been reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct QuotaExceeded {
    pub(super) limit: QuotaLimit,
    /// When there is room again; none where what was wanted is more than the limit.
    pub(super) free_at: Option<Time>,
}

/// Which one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QuotaLimit {
    BytesPerDay(u64),
    MeasurementsPerHour(u32),
}

/// What a client has used.
#[derive(Debug)]
pub(super) struct QuotaUsage {
    bytes: SlidingWindow,
    measurements: SlidingWindow,
}

impl Default for QuotaUsage {
    fn default() -> Self {
        Self::new()
    }
}

impl QuotaUsage {
    pub(super) fn new() -> Self {
        QuotaUsage { bytes: SlidingWindow::new(DAY), measurements: SlidingWindow::new(HOUR) }
    }

    /// Whether a measurement may begin.
    pub(super) fn check_measurement(&mut self, quota: &Quota, now: Time) -> Result<(), QuotaExceeded> {
        if let Some(limit) = quota.measurements_per_hour
            && !self.measurements.has_room(1, limit.into(), now)
        {
            let free_at = self.measurements.time_of_room(1, limit.into(), now);
            return Err(QuotaExceeded { limit: QuotaLimit::MeasurementsPerHour(limit), free_at });
        }
        self.check_bytes(1, quota, now)
    }

    /// Counts one, if it may begin.
    pub(super) fn begin_measurement(&mut self, quota: &Quota, now: Time) -> Result<(), QuotaExceeded> {
        self.check_measurement(quota, now)?;
        self.measurements.add(1, now);
        Ok(())
    }

    /// Counts these bytes, if they may be carried.
    pub(super) fn charge_bytes(&mut self, bytes: u64, quota: &Quota, now: Time) -> Result<(), QuotaExceeded> {
        self.check_bytes(bytes, quota, now)?;
        self.bytes.add(bytes, now);
        Ok(())
    }

    /// Counts bytes that have been carried.
    pub(super) fn add_bytes(&mut self, bytes: u64, now: Time) {
        self.bytes.add(bytes, now);
    }

    /// How many bytes may still be carried; none for no limit.
    pub(super) fn bytes_left(&mut self, quota: &Quota, now: Time) -> Option<u64> {
        quota.bytes_per_day.map(|limit| limit.saturating_sub(self.bytes.total(now)))
    }

    /// Bytes of the last day.
    pub(super) fn bytes(&mut self, now: Time) -> u64 {
        self.bytes.total(now)
    }

    /// When these bytes may be carried; none if that is never.
    pub(super) fn time_of_room(&mut self, bytes: u64, limit: u64, now: Time) -> Option<Time> {
        self.bytes.time_of_room(bytes, limit, now)
    }

    /// Whether these bytes may be carried.
    pub(super) fn check_bytes(&mut self, bytes: u64, quota: &Quota, now: Time) -> Result<(), QuotaExceeded> {
        match quota.bytes_per_day {
            Some(limit) if !self.bytes.has_room(bytes, limit, now) => {
                let free_at = self.bytes.time_of_room(bytes, limit, now);
                Err(QuotaExceeded { limit: QuotaLimit::BytesPerDay(limit), free_at })
            }
            _ => Ok(()),
        }
    }
}

/// How much of something was used within a time that moves on.
#[derive(Debug)]
struct SlidingWindow {
    window: Span,
    /// The oldest first.
    parts: VecDeque<UsedPart>,
}

#[derive(Debug, Clone, Copy)]
struct UsedPart {
    began: Time,
    last_used: Time,
    amount: u64,
}

impl SlidingWindow {
    fn new(window: Span) -> Self {
        SlidingWindow { window, parts: VecDeque::new() }
    }

    fn add(&mut self, amount: u64, now: Time) {
        let part_time = self.window / WINDOW_PARTS;
        match self.parts.back_mut().filter(|part| now - part.began < part_time) {
            Some(part) => {
                part.last_used = now;
                part.amount = part.amount.saturating_add(amount);
            }
            None => self.parts.push_back(UsedPart { began: now, last_used: now, amount }),
        }
    }

    fn total(&mut self, now: Time) -> u64 {
        while self.parts.front().is_some_and(|part| part.last_used + self.window <= now) {
            self.parts.pop_front();
        }
        self.parts.iter().fold(0, |sum, part| sum.saturating_add(part.amount))
    }

    fn has_room(&mut self, amount: u64, limit: u64, now: Time) -> bool {
        self.total(now).saturating_add(amount) <= limit
    }

    /// When it has, if nothing else is used until then; none if that is never.
    fn time_of_room(&mut self, amount: u64, limit: u64, now: Time) -> Option<Time> {
        let spare = limit.checked_sub(amount)?;
        let mut used = self.total(now);
        let mut free_at = now;
        for part in &self.parts {
            if used <= spare {
                break;
            }
            used = used.saturating_sub(part.amount);
            free_at = part.last_used + self.window;
        }
        Some(free_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn minute(count: i64) -> Time {
        Time::ZERO + Span::from_secs(60) * count
    }

    #[test]
    fn so_many_measurements_an_hour_and_the_time_of_the_next_is_told() {
        let quota = Quota { measurements_per_hour: Some(2), ..Quota::default() };
        let mut usage = QuotaUsage::new();
        assert_eq!(usage.begin_measurement(&quota, minute(0)), Ok(()));
        assert_eq!(usage.begin_measurement(&quota, minute(10)), Ok(()));
        let exceeded = QuotaExceeded { limit: QuotaLimit::MeasurementsPerHour(2), free_at: Some(minute(60)) };
        assert_eq!(usage.check_measurement(&quota, minute(11)), Err(exceeded));
        assert_eq!(usage.begin_measurement(&quota, minute(59)), Err(exceeded), "and it counts nothing");
        assert_eq!(usage.begin_measurement(&quota, minute(60)), Ok(()));
        assert_eq!(usage.check_measurement(&quota, minute(61)).unwrap_err().free_at, Some(minute(70)));
    }

    #[test]
    fn so_many_bytes_a_day_and_a_train_waits_for_the_room_that_it_needs() {
        let quota = Quota { bytes_per_day: Some(1000), ..Quota::default() };
        let mut usage = QuotaUsage::new();
        for (hour, bytes) in [(0, 300), (1, 300), (2, 300)] {
            assert_eq!(usage.charge_bytes(bytes, &quota, minute(60 * hour)), Ok(()));
        }
        let exceeded = |free_at| Err(QuotaExceeded { limit: QuotaLimit::BytesPerDay(1000), free_at });
        let now = minute(180);
        assert_eq!(usage.check_measurement(&quota, now), Ok(()), "100 bytes are left");
        assert_eq!(usage.bytes_left(&quota, now), Some(100));
        assert_eq!(usage.charge_bytes(101, &quota, now), exceeded(Some(minute(24 * 60))));
        assert_eq!(usage.charge_bytes(500, &quota, now), exceeded(Some(minute(25 * 60))));
        assert_eq!(usage.charge_bytes(1001, &quota, now), exceeded(None), "never");
        assert_eq!(usage.charge_bytes(100, &quota, now), Ok(()));
        assert_eq!(usage.check_measurement(&quota, now), exceeded(Some(minute(24 * 60))));
        assert_eq!(usage.charge_bytes(301, &quota, minute(25 * 60)), Ok(()));
    }

    #[test]
    fn without_a_quota_nothing_is_refused() {
        let mut usage = QuotaUsage::new();
        assert!((0..10_000).all(|_| usage.begin_measurement(&Quota::default(), minute(0)).is_ok()));
        assert_eq!(usage.charge_bytes(u64::MAX, &Quota::default(), minute(0)), Ok(()));
        assert_eq!(usage.charge_bytes(u64::MAX, &Quota::default(), minute(0)), Ok(()));
    }

    proptest! {
        /// Whatever is asked for and whenever: within no window is more used than the limit, memory is bounded, and who comes again at
        /// the time that it was told is let in.
        #[test]
        fn no_window_has_more_than_its_limit(
            asked in prop::collection::vec((0_i64..4000, 1_u64..200), 1..400),
        ) {
            let quota = Quota { bytes_per_day: Some(1000), ..Quota::default() };
            let (mut usage, mut now, mut used) = (QuotaUsage::new(), Time::ZERO, Vec::new());
            for (wait, bytes) in asked {
                now += Span::from_secs(wait);
                if let Err(exceeded) = usage.charge_bytes(bytes, &quota, now) {
                    now = exceeded.free_at.unwrap();
                    prop_assert_eq!(usage.charge_bytes(bytes, &quota, now), Ok(()));
                }
                used.push((now, bytes));
                let lately: u64 = used.iter().filter(|(at, _)| now - *at < DAY).map(|(_, bytes)| bytes).sum();
                prop_assert!(lately <= 1000, "{lately}");
                prop_assert!(usage.bytes.parts.len() <= WINDOW_PARTS as usize + 1);
            }
        }
    }
}
