use kumade_units::{Span, Time};

/// From 1900, NTP's epoch, to 1970.
const NTP_TO_UNIX_SECONDS: i64 = 2_208_988_800;
/// NTP counts 2^32 seconds in an era.
const NTP_ERA_SECONDS: i64 = 1 << 32;
const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// How a stamp is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockFormat {
    /// Seconds since 1900 and fractions of 2^-32 s (RFC 5905, 6).
    Ntp,
    /// Seconds since 1970 and nanoseconds (IEEE 1588, cut to 64 bits). Senders should count TAI; most count UTC.
    Ptp,
}

impl ClockFormat {
    /// As it stands on the wire; the nearest fraction.
    pub fn encode(self, at: Time) -> [u8; 8] {
        let (seconds, nanos) = (at.as_nanos().div_euclid(NANOS_PER_SECOND), at.as_nanos().rem_euclid(NANOS_PER_SECOND));
        let (seconds, fraction) = match self {
            // Rounded up, so that reading, which rounds down, gives the same nanosecond.
            ClockFormat::Ntp => {
                (seconds + NTP_TO_UNIX_SECONDS, ((nanos << 32) + NANOS_PER_SECOND - 1) / NANOS_PER_SECOND)
            }
            ClockFormat::Ptp => (seconds, nanos),
        };
        // Both formats drop the higher bits of the seconds.
        (((seconds as u64) << 32) + fraction as u64).to_be_bytes()
    }

    /// Reads a stamp. Of NTP's eras, the one that puts it between 1968 and 2104 (RFC 4330, 3).
    pub fn decode(self, bytes: [u8; 8]) -> Time {
        let bits = u64::from_be_bytes(bytes);
        let (seconds, fraction) = ((bits >> 32) as i64, (bits & 0xffff_ffff) as i64);
        match self {
            ClockFormat::Ntp => {
                let era = if seconds >= NTP_ERA_SECONDS / 2 { 0 } else { NTP_ERA_SECONDS };
                Time::from_nanos(
                    (seconds + era - NTP_TO_UNIX_SECONDS) * NANOS_PER_SECOND + ((fraction * NANOS_PER_SECOND) >> 32),
                )
            }
            ClockFormat::Ptp => Time::from_nanos(seconds * NANOS_PER_SECOND + fraction),
        }
    }
}

/// What the maker of a stamp says of its clock (RFC 4656, 4.1.2; RFC 8762, 4.2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorEstimate {
    /// Whether the clock follows UTC by an outside source.
    pub synchronised: bool,
    /// How its stamps are written.
    pub format: ClockFormat,
    /// The exponent: six bits.
    scale: u8,
    multiplier: u8,
}

impl ErrorEstimate {
    /// The least estimate that is not below `error`, for NTP's format.
    pub fn new(synchronised: bool, error: Span) -> Self {
        let mut units = (i128::from(error.as_nanos().max(0)) << 32).div_euclid(i128::from(NANOS_PER_SECOND)) + 1;
        let mut scale = 0;
        while units > i128::from(u8::MAX) {
            units = (units + 1) / 2;
            scale += 1;
        }
        // 2^63 ns are less than 2^34 s: the scale stays below 64.
        ErrorEstimate { synchronised, format: ClockFormat::Ntp, scale, multiplier: units as u8 }
    }

    /// By how much the stamp may be wrong, if its maker is right.
    pub fn error(&self) -> Span {
        let seconds = f64::from(self.multiplier) * 2f64.powi(i32::from(self.scale) - 32);
        Span::from_secs_f64(seconds)
    }

    /// As it stands on the wire.
    pub fn to_bits(&self) -> u16 {
        let format = match self.format {
            ClockFormat::Ntp => 0,
            ClockFormat::Ptp => 1 << 14,
        };
        (u16::from(self.synchronised) << 15) + format + (u16::from(self.scale) << 8) + u16::from(self.multiplier)
    }

    /// Any 16 bits are an estimate.
    pub fn from_bits(bits: u16) -> Self {
        ErrorEstimate {
            synchronised: bits & (1 << 15) != 0,
            format: if bits & (1 << 14) == 0 { ClockFormat::Ntp } else { ClockFormat::Ptp },
            scale: (bits >> 8) as u8 & 0x3f,
            multiplier: bits as u8,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_come_back_to_the_nanosecond() {
        for nanos in
            [0, 1, 999_999_999, 1_763_000_000_123_456_789, 2_085_978_496_000_000_001, 4_000_000_000_999_999_999]
        {
            let at = Time::from_nanos(nanos);
            assert_eq!(ClockFormat::Ntp.decode(ClockFormat::Ntp.encode(at)), at, "{nanos}");
            assert_eq!(ClockFormat::Ptp.decode(ClockFormat::Ptp.encode(at)), at, "{nanos}");
        }
        // 3305243884 s and a half since 1900.
        let at = Time::from_nanos(1_096_255_084_500_000_000);
        assert_eq!(ClockFormat::Ntp.encode(at), [0xc5, 0x2, 0x4, 0xec, 0x80, 0, 0, 0]);
    }

    #[test]
    fn estimates_are_never_below_the_error() {
        for nanos in [0, 1, 999, 1_000_000, 87_000_000, 16_000_000_000, i64::MAX] {
            let error = Span::from_nanos(nanos);
            let estimate = ErrorEstimate::new(true, error);
            assert!(estimate.error() >= error, "{nanos}: {:?}", estimate.error());
            assert!(estimate.error().as_nanos() as f64 <= nanos as f64 * 1.01 + 2.0, "{nanos}: {:?}", estimate.error());
            assert_eq!(ErrorEstimate::from_bits(estimate.to_bits()), estimate);
        }
    }

    #[test]
    fn any_sixteen_bits_are_an_estimate() {
        for bits in 0..=u16::MAX {
            assert_eq!(ErrorEstimate::from_bits(bits).to_bits(), bits);
        }
        // S, Z, six bits of scale, eight of the multiplier (RFC 4656, 4.1.2): 3 · 2^(33 - 32) s.
        let estimate = ErrorEstimate::from_bits(0b0110_0001_0000_0011);
        assert_eq!((estimate.synchronised, estimate.format), (false, ClockFormat::Ptp));
        assert_eq!(estimate.error(), Span::from_secs(6));
    }

    #[test]
    fn the_eras_of_ntp_meet_in_1968() {
        let first = [0x80, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(
            ClockFormat::Ntp.decode(first),
            Time::from_nanos(((1 << 31) - NTP_TO_UNIX_SECONDS) * NANOS_PER_SECOND)
        );
        let last = [0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0];
        assert_eq!(
            ClockFormat::Ntp.decode(last),
            Time::from_nanos(((3 << 31) - 1 - NTP_TO_UNIX_SECONDS) * NANOS_PER_SECOND)
        );
    }
}
