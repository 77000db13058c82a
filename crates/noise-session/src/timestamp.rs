use crate::message::to_array;
use kumade_units::{Span, Time};

/// Bytes of a timestamp.
pub(crate) const TIMESTAMP_BYTES: usize = 12;

/// When an initiation was made: TAI64N, whose bytes compare as the times do (WireGuard §5.4.2). It only has to grow from
/// one initiation of a host to the next, and is compared with nothing but earlier ones of the same host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Timestamp(pub(crate) [u8; TIMESTAMP_BYTES]);

/// The label of 1970-01-01 00:00:10 TAI, which is 1970-01-01 00:00:00 UTC.
const UNIX_EPOCH_LABEL: u64 = (1 << 62) + 10;
/// What the last bits of the nanoseconds would tell a listener about the host's clock is blurred to 16 ms.
const GRANULARITY_NANOS: i64 = 1 << 24;

/// Stamps that grow even where the host's clock steps back.
#[derive(Debug)]
pub(crate) struct TimestampSource {
    /// The least that the next stamp may be, in nanoseconds since the Unix epoch.
    next_nanos: i64,
}

impl TimestampSource {
    pub(crate) const fn new() -> Self {
        TimestampSource { next_nanos: 0 }
    }

    /// A stamp for an initiation made when the clock shows `wall` (nanoseconds since the Unix epoch).
    pub(crate) fn next_timestamp(&mut self, wall: Time) -> Timestamp {
        let nanos = (wall.as_nanos() & !(GRANULARITY_NANOS - 1)).max(self.next_nanos);
        self.next_nanos = nanos.saturating_add(1);
        Timestamp::from_nanos(nanos)
    }
}

/// The greatest timestamp of this host that a peer has told of: later ones are greater, whatever the clock shows. It concerns this
/// peer alone, who could say anything.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TimestampFloor(Option<Timestamp>);

impl TimestampFloor {
    pub(crate) fn raise(&mut self, greatest: Timestamp) {
        self.0 = self.0.max(Some(greatest));
    }

    /// The stamp for an initiation made when the clock shows `clock`.
    pub(crate) fn next_timestamp(&mut self, clock: Timestamp) -> Timestamp {
        let stamp = self.0.map_or(clock, |floor| clock.max(floor.successor()));
        self.0 = self.0.map(|_| stamp);
        stamp
    }
}

impl Timestamp {
    /// The next one. Only the order matters: after the last nanosecond of a second it is no label of TAI64N.
    pub(crate) fn successor(self) -> Self {
        let mut bytes = self.0;
        for byte in bytes.iter_mut().rev() {
            *byte = byte.wrapping_add(1);
            if *byte != 0 {
                return Timestamp(bytes);
            }
        }
        self
    }

    /// How much later than another one it is.
    pub(crate) fn since(self, earlier: Timestamp) -> Span {
        let nanos = |stamp: Timestamp| {
            let (seconds, fraction) = stamp.0.split_at(8);
            let seconds = i128::from(u64::from_be_bytes(to_array(seconds)));
            seconds * 1_000_000_000 + i128::from(u32::from_be_bytes(to_array(fraction)))
        };
        let difference = nanos(self) - nanos(earlier);
        Span::from_nanos(difference.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
    }

    fn from_nanos(nanos: i64) -> Self {
        let seconds = UNIX_EPOCH_LABEL.wrapping_add_signed(nanos.div_euclid(1_000_000_000));
        let fraction = nanos.rem_euclid(1_000_000_000) as u32;
        let mut bytes = [0; TIMESTAMP_BYTES];
        bytes[..8].copy_from_slice(&seconds.to_be_bytes());
        bytes[8..].copy_from_slice(&fraction.to_be_bytes());
        Timestamp(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_grow_whatever_the_clock_does() {
        let mut stamper = TimestampSource::new();
        let noon = Time::ZERO + Span::from_secs(1_800_000_000);
        let first = stamper.next_timestamp(noon);
        let same = stamper.next_timestamp(noon);
        let back = stamper.next_timestamp(noon - Span::from_secs(3600));
        let later = stamper.next_timestamp(noon + Span::from_secs(1));
        assert!(first < same && same < back && back < later);
    }

    #[test]
    fn stamps_tell_the_clock_to_16_ms_only() {
        for nanos in [1_800_000_000_123_456_789, 1_800_000_000_000_000_001, 1 << 24, (1 << 24) - 1] {
            let stamp = TimestampSource::new().next_timestamp(Time::from_nanos(nanos));
            assert_eq!(stamp, Timestamp::from_nanos(nanos / 16_777_216 * 16_777_216), "{nanos}");
        }
    }

    #[test]
    fn the_successor_of_a_stamp_is_the_next_greater_one_but_for_the_last() {
        let last_of_a_second = Timestamp::from_nanos(1_999_999_999);
        let next = last_of_a_second.successor();
        assert!(last_of_a_second < next && next < Timestamp::from_nanos(2_000_000_000));
        assert_eq!(next.since(last_of_a_second), Span::from_nanos(1));
        let carried = Timestamp([0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 255, 255]);
        assert_eq!(carried.successor().0, [0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0]);
        let last = Timestamp([255; TIMESTAMP_BYTES]);
        assert_eq!((last.successor(), last.since(next)), (last, Span::MAX));
    }

    #[test]
    fn the_label_is_that_of_tai64n() {
        let stamp = Timestamp::from_nanos(1_000_000_001);
        assert_eq!(stamp.0, [0x40, 0, 0, 0, 0, 0, 0, 11, 0, 0, 0, 1]);
    }
}
