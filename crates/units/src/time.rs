use crate::digits::three_digits;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub, SubAssign};
use std::time::Duration;

/// An instant: nanoseconds since the epoch of the clock it was read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Time(i64);

/// A signed difference of two instants, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Span(i64);

impl Time {
    /// The clock's epoch.
    pub const ZERO: Time = Time(0);
    /// Later than any event.
    pub const MAX: Time = Time(i64::MAX);

    /// The instant `nanos` after the epoch.
    pub const fn from_nanos(nanos: i64) -> Self {
        Time(nanos)
    }

    /// Nanoseconds since the epoch.
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// Seconds since the epoch.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 * 1e-9
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Span = Span(0);
    /// Longer than any wait.
    pub const MAX: Span = Span(i64::MAX);

    /// A span of whole nanoseconds.
    pub const fn from_nanos(nanos: i64) -> Self {
        Span(nanos)
    }

    /// A span of whole microseconds.
    pub const fn from_micros(micros: i64) -> Self {
        Span(micros * 1_000)
    }

    /// A span of whole milliseconds.
    pub const fn from_millis(millis: i64) -> Self {
        Span(millis * 1_000_000)
    }

    /// A span of whole seconds.
    pub const fn from_secs(secs: i64) -> Self {
        Span(secs * 1_000_000_000)
    }

    /// The nearest whole nanosecond; saturates.
    pub fn from_secs_f64(secs: f64) -> Self {
        Span((secs * 1e9).round() as i64)
    }

    /// In nanoseconds.
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// In seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 * 1e-9
    }

    /// As the standard library's unsigned duration; a negative span becomes zero.
    pub fn to_duration(self) -> Duration {
        Duration::from_nanos(self.0.max(0) as u64)
    }
}

impl From<Duration> for Span {
    fn from(d: Duration) -> Self {
        Span(i64::try_from(d.as_nanos()).unwrap_or(i64::MAX))
    }
}

impl Add<Span> for Time {
    type Output = Time;
    fn add(self, span: Span) -> Time {
        Time(self.0.saturating_add(span.0))
    }
}

impl Sub<Span> for Time {
    type Output = Time;
    fn sub(self, span: Span) -> Time {
        Time(self.0.saturating_sub(span.0))
    }
}

impl Sub for Time {
    type Output = Span;
    fn sub(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl AddAssign<Span> for Time {
    fn add_assign(&mut self, span: Span) {
        *self = *self + span;
    }
}

impl Add for Span {
    type Output = Span;
    fn add(self, other: Span) -> Span {
        Span(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Span {
    fn add_assign(&mut self, other: Span) {
        *self = *self + other;
    }
}

impl Sub for Span {
    type Output = Span;
    fn sub(self, other: Span) -> Span {
        Span(self.0.saturating_sub(other.0))
    }
}

impl SubAssign for Span {
    fn sub_assign(&mut self, other: Span) {
        *self = *self - other;
    }
}

impl Neg for Span {
    type Output = Span;
    fn neg(self) -> Span {
        Span(self.0.saturating_neg())
    }
}

impl Mul<i64> for Span {
    type Output = Span;
    fn mul(self, factor: i64) -> Span {
        Span(self.0.saturating_mul(factor))
    }
}

impl Div<i64> for Span {
    type Output = Span;
    fn div(self, divisor: i64) -> Span {
        Span(self.0 / divisor)
    }
}

impl fmt::Display for Span {
    /// With the unit that leaves one to three digits before the point: `12.3 ms`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0 as f64;
        let (value, unit) = match self.0.unsigned_abs() {
            0..1_000 => (ns, "ns"),
            1_000..999_500 => (ns / 1e3, "µs"),
            999_500..999_500_000 => (ns / 1e6, "ms"),
            _ => (ns / 1e9, "s"),
        };
        write!(f, "{} {unit}", three_digits(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_as_people_write_them() {
        for (nanos, text) in
            [(999, "999 ns"), (12_345, "12.3 µs"), (999_500, "1 ms"), (-999_999_999, "-1 s"), (1_500_000_000, "1.5 s")]
        {
            assert_eq!(Span::from_nanos(nanos).to_string(), text);
        }
    }
}
