//! Packets of STAMP, the Simple Two-way Active Measurement Protocol (RFC 8762): unauthenticated, as routers speak it, and
//! authenticated ([`StampKey`]).
//!
//! A sender's packet and the reflector's answer have the same size, 44 octets and whatever the sender adds: padding, as
//! in TWAMP Light (RFC 5357, appendix I), or extensions (RFC 8972): TLVs, in which a reflector writes what it is asked for
//! ([`reflect_tlvs`]), and a sender reads it ([`read_reflected_tlvs`]). A reflector of RFC 8762 alone sends them back as they
//! came, that is, marked as not understood. A TWAMP Light sender's packet with padding to 44 octets reads as one of STAMP.
//! A shorter one, of 14 octets at least (RFC 5357, 4.1.2), is answered by as many octets of the answer as it has itself: with 41,
//! that is all that TWAMP Light has. RFC 8762, 4.6, lets a reflector send the whole answer, which whoever forges a sender's address
//! could use to have more sent there than it sends itself. A TWAMP Light reflector's answer may have 41.

mod authenticated;
mod timestamp;
mod tlv;

pub use authenticated::{AUTHENTICATED_PACKET_BYTES, NotAuthentic, StampKey};
pub use timestamp::{ClockFormat, ErrorEstimate};
pub use tlv::{
    AccessReport, ClassOfService, DirectMeasurement, ExtensionsError, FollowUpTelemetry, Location, ProbeFacts,
    ProbeLocation, ReflectedTlvs, ReverseDscp, ReverseEcn, SynchronisationSource, TLV_HEADER_BYTES,
    TimestampInformation, TimestampMethod, TlvRequest, TlvType, flags, read_reflected_tlvs, reflect_tlvs,
};

use crate::preamble::to_array;
use kumade_units::Time;
use thiserror::Error;

/// The port that IANA has given to STAMP reflectors.
pub const PORT: u16 = 862;

/// Bytes of the UDP payload without extensions; no sender of this crate sends less.
pub const PACKET_BYTES: usize = 44;

/// What a probe has at least: TWAMP Light's number, stamp and error estimate (RFC 5357, 4.1.2).
pub const MIN_PROBE_BYTES: usize = 14;

/// How many octets of an answer hold the receive stamp, which no probe has; with less, a reflector can't tell another one's answers.
pub const BYTES_WITH_RECEIVE_STAMP: usize = 24;
/// How many hold the probe's number, beside that of the answer.
pub const BYTES_WITH_PROBE_SEQUENCE: usize = 28;

/// What an answer has at least: TWAMP Light's ends with the TTL (RFC 5357, 4.2.1), without STAMP's three zeroes.
const MIN_REPLY_BYTES: usize = 41;

/// A payload that is no STAMP packet: it has less octets than one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{0} octets are too few for a STAMP packet")]
pub struct PacketTooShort(pub usize);

/// What a sender sends (RFC 8762, 4.2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// Counted from zero in each session.
    pub sequence: u32,
    /// When it was sent, by the sender's clock.
    pub sent: Time,
    /// How far that may be trusted, and how it is written.
    pub error_estimate: ErrorEstimate,
    /// The session's number (RFC 8972, 3); zero where there is none.
    pub session: u16,
}

/// What a reflector answers (RFC 8762, 4.3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    /// The reflector's own count where it keeps one, else the sender's number again.
    pub sequence: u32,
    /// When the answer was sent, by the reflector's clock.
    pub reflected: Time,
    /// How far the reflector's stamps may be trusted, and how they are written.
    pub error_estimate: ErrorEstimate,
    /// The session's number, as in the probe.
    pub session: u16,
    /// When the probe arrived, by the reflector's clock.
    pub received: Time,
    /// The probe's number.
    pub probe_sequence: u32,
    /// The probe's stamp and error estimate, bit by bit.
    pub probe_timestamp: [u8; 10],
    /// The probe's TTL or hop limit as it arrived; 255 where the reflector can't tell (RFC 5357, 4.2.1).
    pub probe_ttl: u8,
}

impl Probe {
    /// Writes it into the first octets of a payload.
    pub fn encode(&self, payload: &mut [u8; PACKET_BYTES]) {
        *payload = [0; PACKET_BYTES];
        payload[..4].copy_from_slice(&self.sequence.to_be_bytes());
        payload[4..12].copy_from_slice(&self.error_estimate.format.encode(self.sent));
        payload[12..14].copy_from_slice(&self.error_estimate.to_bits().to_be_bytes());
        payload[14..16].copy_from_slice(&self.session.to_be_bytes());
    }

    /// Reads a UDP payload; what follows the first 16 octets is not looked at, and where there are less, there is no session.
    ///
    /// # Errors
    /// A payload of less than [`MIN_PROBE_BYTES`].
    pub fn decode(payload: &[u8]) -> Result<Self, PacketTooShort> {
        let packet: &[u8; MIN_PROBE_BYTES] = payload.first_chunk().ok_or(PacketTooShort(payload.len()))?;
        let session = payload.get(MIN_PROBE_BYTES..MIN_PROBE_BYTES + 2).map_or([0; 2], to_array);
        let clock = ErrorEstimate::from_bits(u16::from_be_bytes(to_array(&packet[12..14])));
        Ok(Probe {
            sequence: u32::from_be_bytes(to_array(&packet[..4])),
            sent: clock.format.decode(to_array(&packet[4..12])),
            error_estimate: clock,
            session: u16::from_be_bytes(session),
        })
    }
}

impl Reply {
    /// Turns a probe's payload into the answer, in its place and of its size, cut off where it has less than 44 octets; returns
    /// the probe. What follows the 44 octets stays as it is: see [`reflect_tlvs`].
    ///
    /// # Errors
    /// A payload of less than [`MIN_PROBE_BYTES`].
    pub fn reflect(payload: &mut [u8], answer: impl FnOnce(&Probe) -> Reflection) -> Result<Probe, PacketTooShort> {
        let probe = Probe::decode(payload)?;
        let mut packet = [0; PACKET_BYTES];
        answer(&probe).reply_to(&probe, to_array(&payload[4..14])).encode(&mut packet);
        let length = payload.len().min(PACKET_BYTES);
        payload[..length].copy_from_slice(&packet[..length]);
        Ok(probe)
    }

    /// Writes it into the first octets of a payload.
    pub fn encode(&self, payload: &mut [u8; PACKET_BYTES]) {
        let format = self.error_estimate.format;
        *payload = [0; PACKET_BYTES];
        payload[..4].copy_from_slice(&self.sequence.to_be_bytes());
        payload[4..12].copy_from_slice(&format.encode(self.reflected));
        payload[12..14].copy_from_slice(&self.error_estimate.to_bits().to_be_bytes());
        payload[14..16].copy_from_slice(&self.session.to_be_bytes());
        payload[16..24].copy_from_slice(&format.encode(self.received));
        payload[24..28].copy_from_slice(&self.probe_sequence.to_be_bytes());
        payload[28..38].copy_from_slice(&self.probe_timestamp);
        payload[40] = self.probe_ttl;
    }

    /// Reads a UDP payload; what follows the TTL is not looked at.
    ///
    /// # Errors
    /// A payload that is too short even for TWAMP Light.
    pub fn decode(payload: &[u8]) -> Result<Self, PacketTooShort> {
        let packet: &[u8; MIN_REPLY_BYTES] = payload.first_chunk().ok_or(PacketTooShort(payload.len()))?;
        let clock = ErrorEstimate::from_bits(u16::from_be_bytes(to_array(&packet[12..14])));
        Ok(Reply {
            sequence: u32::from_be_bytes(to_array(&packet[..4])),
            reflected: clock.format.decode(to_array(&packet[4..12])),
            error_estimate: clock,
            session: u16::from_be_bytes(to_array(&packet[14..16])),
            received: clock.format.decode(to_array(&packet[16..24])),
            probe_sequence: u32::from_be_bytes(to_array(&packet[24..28])),
            probe_timestamp: to_array(&packet[28..38]),
            probe_ttl: packet[40],
        })
    }
}

/// The stamps that an answer has and a probe has not, as far as this payload goes: when the probe arrived, and when it was sent, as
/// NTP writes it.
pub fn reply_stamps(payload: &[u8]) -> impl Iterator<Item = Time> {
    let stamp = |from: usize, format: ClockFormat| Some(format.decode(to_array(payload.get(from..from + 8)?)));
    let error_estimate = payload.get(12..14).map(|bits| ErrorEstimate::from_bits(u16::from_be_bytes(to_array(bits))));
    let received = error_estimate.and_then(|estimate| stamp(16, estimate.format));
    [received, stamp(28, ClockFormat::Ntp)].into_iter().flatten()
}

/// What a reflector adds to a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reflection {
    /// See [`Reply::sequence`].
    pub sequence: u32,
    /// See [`Reply::reflected`].
    pub reflected: Time,
    /// See [`Reply::received`].
    pub received: Time,
    /// See [`Reply::error_estimate`].
    pub error_estimate: ErrorEstimate,
    /// See [`Reply::probe_ttl`].
    pub probe_ttl: u8,
}

impl Reflection {
    fn reply_to(self, probe: &Probe, probe_stamp: [u8; 10]) -> Reply {
        let Reflection { sequence, reflected, received, error_estimate: clock, probe_ttl } = self;
        let (session, probe_sequence) = (probe.session, probe.sequence);
        Reply {
            sequence,
            reflected,
            error_estimate: clock,
            session,
            received,
            probe_sequence,
            probe_timestamp: probe_stamp,
            probe_ttl,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_units::Span;

    const NOW: Time = Time::from_nanos(1_763_000_000_123_456_789);

    fn clock(format: ClockFormat) -> ErrorEstimate {
        let mut clock = ErrorEstimate::new(true, Span::from_millis(1));
        clock.format = format;
        clock
    }

    #[test]
    fn a_probe_stands_on_the_wire_as_rfc_8762_draws_it() {
        let mut packet = [0xff; PACKET_BYTES];
        Probe { sequence: 7, sent: NOW, error_estimate: clock(ClockFormat::Ptp), session: 0x1234 }.encode(&mut packet);
        assert_eq!(packet[..4], [0, 0, 0, 7]);
        assert_eq!(packet[4..8], 1_763_000_000_u32.to_be_bytes());
        assert_eq!(packet[8..12], 123_456_789_u32.to_be_bytes());
        assert_eq!(packet[12] & 0xc0, 0xc0, "synchronised, PTP");
        assert_eq!(packet[14..16], [0x12, 0x34]);
        assert_eq!(packet[16..], [0; 28]);
    }

    #[test]
    fn an_answer_has_the_probes_size_and_repeats_what_it_should() {
        let mut payload = vec![0xab; 100];
        let probe = Probe { sequence: 9, sent: NOW, error_estimate: clock(ClockFormat::Ntp), session: 5 };
        probe.encode(payload.first_chunk_mut().unwrap());
        let stamp = payload[4..14].to_vec();
        let reflection = Reflection {
            sequence: 3,
            reflected: NOW + Span::from_micros(30),
            received: NOW + Span::from_micros(10),
            error_estimate: clock(ClockFormat::Ptp),
            probe_ttl: 61,
        };
        assert_eq!(Reply::reflect(&mut payload, |_| reflection), Ok(probe));
        assert_eq!((payload.len(), &payload[44..]), (100, &[0xab; 56][..]), "extensions come back as they were");
        let reply = Reply::decode(&payload).unwrap();
        assert_eq!((reply.sequence, reply.probe_sequence, reply.session, reply.probe_ttl), (3, 9, 5, 61));
        assert_eq!((reply.received, reply.reflected), (reflection.received, reflection.reflected));
        assert_eq!(reply.probe_timestamp.to_vec(), stamp);
        assert_eq!(payload[24..28], [0, 0, 0, 9]);
        assert_eq!((payload[40], &payload[41..44]), (61, &[0; 3][..]));
        assert_eq!(Reply::decode(&payload[..41]), Ok(reply), "TWAMP Light's answer without padding");
    }

    #[test]
    fn what_is_too_short_is_refused() {
        assert_eq!(Probe::decode(&[0; 13]), Err(PacketTooShort(13)));
        assert_eq!(Reply::decode(&[]), Err(PacketTooShort(0)));
        assert_eq!(Reply::decode(&[0; 40]), Err(PacketTooShort(40)));
        assert!(Probe::decode(&[0; 44]).is_ok(), "TWAMP Light's zero-filled packets");
    }

    /// A packet of a TWAMP Light sender without padding, and with as much as makes both directions' packets equal (RFC 5357, 4.1.2).
    #[test]
    fn a_short_packet_of_twamp_light_is_answered_by_as_many_octets() {
        let recorded = [0, 0, 0, 5, 0xec, 0xc2, 0xa1, 0x3c, 0x80, 0, 0, 0, 0x80, 1];
        let reflection = Reflection {
            sequence: 5,
            reflected: NOW + Span::from_micros(30),
            received: NOW,
            error_estimate: clock(ClockFormat::Ntp),
            probe_ttl: 64,
        };
        let mut whole = [0; PACKET_BYTES];
        whole[..14].copy_from_slice(&recorded);
        Reply::reflect(&mut whole, |_| reflection).unwrap();
        for length in MIN_PROBE_BYTES..PACKET_BYTES {
            let mut payload = vec![0; length];
            payload[..14].copy_from_slice(&recorded);
            let probe = Reply::reflect(&mut payload, |_| reflection).unwrap();
            assert_eq!((probe.sequence, probe.session), (5, 0));
            assert_eq!(payload, whole[..length]);
        }
        let reply = Reply::decode(&whole[..41]).unwrap();
        assert_eq!((reply.probe_sequence, reply.probe_timestamp, reply.probe_ttl), (5, to_array(&recorded[4..]), 64));
        assert_eq!((reply.received, reply.reflected), (reflection.received, reflection.reflected));
    }
}
