use crate::digits::three_digits;
use crate::time::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A rate in bits per second. Which layer's bits it counts is said where it is used; by default IP packets, headers
/// included (RFC 5136).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Rate(u64);

/// Nanoseconds that a rate of 1 bit/s takes for a byte.
const WORK_PER_BYTE: u64 = 8_000_000_000;

impl Rate {
    /// Nothing passes.
    pub const ZERO: Rate = Rate(0);

    /// A rate of whole bits per second.
    pub const fn from_bits_per_second(bits: u64) -> Self {
        Rate(bits)
    }

    /// A rate of whole megabits (10⁶ bits) per second.
    pub const fn from_mbit(mbit: u64) -> Self {
        Rate(mbit * 1_000_000)
    }

    /// The nearest whole bit per second; negative and not-a-number become zero.
    pub fn from_f64(bits_per_second: f64) -> Self {
        Rate(bits_per_second.round() as u64)
    }

    /// `bytes` carried within `span`; zero where the span is not positive.
    pub fn from_bytes_over(bytes: u64, span: Span) -> Self {
        if span <= Span::ZERO { Rate::ZERO } else { Rate::from_f64(bytes as f64 * 8.0 / span.as_secs_f64()) }
    }

    /// In bits per second.
    pub const fn bits_per_second(self) -> u64 {
        self.0
    }

    /// In bits per second, for arithmetic.
    pub const fn as_f64(self) -> f64 {
        self.0 as f64
    }

    /// How long this rate takes to carry `bytes`, rounded up to whole nanoseconds; forever at rate zero.
    pub fn time_for(self, bytes: u64) -> Span {
        if self.0 == 0 {
            return Span::MAX;
        }
        // Asked for each packet: a division of 128 bits takes ten times as long.
        let nanos = match bytes.checked_mul(WORK_PER_BYTE) {
            Some(work) => u128::from(work.div_ceil(self.0)),
            None => (u128::from(bytes) * u128::from(WORK_PER_BYTE)).div_ceil(u128::from(self.0)),
        };
        Span::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX))
    }

    /// How many whole bytes this rate carries within `span`.
    pub fn bytes_in(self, span: Span) -> u64 {
        let nanos = span.as_nanos().max(0) as u64;
        match self.0.checked_mul(nanos) {
            Some(work) => work / WORK_PER_BYTE,
            None => (u128::from(self.0) * u128::from(nanos) / u128::from(WORK_PER_BYTE)) as u64,
        }
    }
}

impl fmt::Display for Rate {
    /// With the unit that leaves one to three digits before the point: `94.3 Mbit/s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = self.0 as f64;
        let (value, unit) = match self.0 {
            0..1_000 => (bits, "bit/s"),
            1_000..999_500 => (bits / 1e3, "kbit/s"),
            999_500..999_500_000 => (bits / 1e6, "Mbit/s"),
            _ => (bits / 1e9, "Gbit/s"),
        };
        write!(f, "{} {unit}", three_digits(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_for_rounds_up_so_that_a_link_is_never_too_fast() {
        assert_eq!(Rate::from_mbit(100).time_for(1500), Span::from_micros(120));
        assert_eq!(Rate::from_bits_per_second(3).time_for(1), Span::from_nanos(2_666_666_667));
        assert_eq!(Rate::ZERO.time_for(1), Span::MAX);
    }

    #[test]
    fn products_beyond_64_bits_are_as_exact() {
        assert_eq!(Rate::from_bits_per_second(8).time_for(1 << 33), Span::from_secs(1 << 33));
        assert_eq!(Rate::from_mbit(400_000).bytes_in(Span::from_secs(3600)), 180_000_000_000_000);
    }

    #[test]
    fn rates_read_as_people_write_them() {
        for (bits, text) in [
            (999, "999 bit/s"),
            (94_321_000, "94.3 Mbit/s"),
            (100_000_000, "100 Mbit/s"),
            (1_500_000_000, "1.5 Gbit/s"),
            (5_000_000, "5 Mbit/s"),
            (999_499, "999 kbit/s"),
            (999_500, "1 Mbit/s"),
            (999_999_999, "1 Gbit/s"),
        ] {
            assert_eq!(Rate::from_bits_per_second(bits).to_string(), text);
        }
    }
}
