//! The one question of NTP (RFC 5905) that a measurement asks: how wrong may this host's clock be?

use crate::preamble::to_array;
use crate::stamp::ClockFormat;
use kumade_probe_train::ClockError;
use kumade_units::{Span, Time};
use thiserror::Error;

/// The port that NTP servers answer on.
pub const PORT: u16 = 123;

/// Bytes of a question and of an answer, without extensions.
pub const PACKET_BYTES: usize = 48;

/// Why an answer says nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NtpError {
    /// Not an answer to the question that was asked.
    #[error("it is not an answer to the request")]
    UnrelatedPacket,
    /// The server does not know the time itself, or will not tell it.
    #[error("the server is not synchronised, or refuses to answer")]
    Unsynchronised,
}

/// A question; `stamp` comes back in the answer and need not be a time: a random one can't be forged blindly.
pub fn encode_request(stamp: [u8; 8]) -> [u8; PACKET_BYTES] {
    let mut packet = [0; PACKET_BYTES];
    // Version 4, mode client.
    packet[0] = 0b00_100_011;
    packet[40..].copy_from_slice(&stamp);
    packet
}

/// What an answer tells of this host's clock, which showed `asked` when the question left and `heard` when the answer
/// came. The server's time lies between the two for sure, and is right within its root distance (RFC 5905, 4).
///
/// # Errors
/// See [`NtpError`].
pub fn clock_error(answer: &[u8], stamp: [u8; 8], asked: Time, heard: Time) -> Result<ClockError, NtpError> {
    let packet: &[u8; PACKET_BYTES] = answer.first_chunk().ok_or(NtpError::UnrelatedPacket)?;
    if packet[0] & 7 != 4 || packet[24..32] != stamp {
        return Err(NtpError::UnrelatedPacket);
    }
    if packet[0] >> 6 == 3 || !(1..16).contains(&packet[1]) {
        return Err(NtpError::Unsynchronised);
    }
    let root_distance =
        decode_short_format(to_array(&packet[4..8])) / 2 + decode_short_format(to_array(&packet[8..12]));
    let received = ClockFormat::Ntp.decode(to_array(&packet[32..40]));
    let sent = ClockFormat::Ntp.decode(to_array(&packet[40..48]));
    let (low, high) = (asked - received - root_distance, heard - sent + root_distance);
    if received <= sent && low <= high { Ok(ClockError { low, high }) } else { Err(NtpError::UnrelatedPacket) }
}

/// 16 bits of seconds and 16 of their fraction.
fn decode_short_format(bytes: [u8; 4]) -> Span {
    Span::from_nanos((i64::from(u32::from_be_bytes(bytes)) * 1_000_000_000) >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: Time = Time::from_nanos(1_763_000_000_000_000_000);

    fn answer(offset: Span) -> [u8; PACKET_BYTES] {
        let mut packet = encode_request([0; 8]);
        packet[0] = 0b00_100_100;
        packet[1] = 2;
        packet[4..8].copy_from_slice(&655_u32.to_be_bytes());
        packet[8..12].copy_from_slice(&65_u32.to_be_bytes());
        packet[24..32].copy_from_slice(&[7; 8]);
        packet[32..40].copy_from_slice(&ClockFormat::Ntp.encode(ASKED + Span::from_millis(3) - offset));
        packet[40..48].copy_from_slice(&ClockFormat::Ntp.encode(ASKED + Span::from_millis(4) - offset));
        packet
    }

    #[test]
    fn the_error_is_bounded_by_the_round_trip_and_the_root_distance() {
        let offset = Span::from_millis(50);
        let error = clock_error(&answer(offset), [7; 8], ASKED, ASKED + Span::from_millis(10)).unwrap();
        // 655 / 65536 / 2 + 65 / 65536 s are 5.99 ms.
        assert!((error.low - Span::from_micros(50_000 - 3_000 - 5_989)).as_nanos().abs() < 1000, "{error:?}");
        assert!((error.high - Span::from_micros(50_000 + 6_000 + 5_989)).as_nanos().abs() < 1000, "{error:?}");
    }

    #[test]
    fn a_question_is_that_of_a_client_of_version_4() {
        let packet = encode_request([7; 8]);
        assert_eq!((packet[0] >> 6, packet[0] >> 3 & 7, packet[0] & 7), (0, 4, 3));
        assert_eq!((&packet[1..40], &packet[40..]), (&[0; 39][..], &[7; 8][..]));
    }

    #[test]
    fn other_packets_and_servers_without_time_tell_nothing() {
        let heard = ASKED + Span::from_millis(10);
        let read = |packet: &[u8]| clock_error(packet, [7; 8], ASKED, heard);
        assert_eq!(read(&[]), Err(NtpError::UnrelatedPacket));
        assert_eq!(read(&encode_request([7; 8])), Err(NtpError::UnrelatedPacket));
        let good = answer(Span::ZERO);
        assert_eq!(clock_error(&good, [8; 8], ASKED, heard), Err(NtpError::UnrelatedPacket));
        let changed = |place: usize, value: u8| {
            let mut packet = good;
            packet[place] = value;
            read(&packet)
        };
        assert_eq!(changed(1, 0), Err(NtpError::Unsynchronised), "a kiss of death");
        assert_eq!(changed(1, 16), Err(NtpError::Unsynchronised));
        assert_eq!(changed(0, 0xc0 | (4 << 3) | 4), Err(NtpError::Unsynchronised));
        let no_time = clock_error(&good, [7; 8], ASKED, ASKED - Span::from_millis(20));
        assert_eq!(no_time, Err(NtpError::UnrelatedPacket), "an answer that was heard before the question left");
        assert_eq!(changed(32, 0), Err(NtpError::UnrelatedPacket), "an answer that was sent before the question came");
    }
}
