use super::{ErrorEstimate, Probe, Reflection, Reply};
use crate::preamble::to_array;
use kumade_noise_session::PresharedKey;
use ring::hmac;
use std::fmt;
use thiserror::Error;

/// Bytes of the UDP payload of an authenticated packet without extensions.
pub const AUTHENTICATED_PACKET_BYTES: usize = 112;
/// What the HMAC covers, which follows it: the first six blocks of 16 octets (RFC 8762, 4.4).
const HMAC_INPUT_BYTES: usize = 96;
/// SHA-256's, truncated to 128 bits.
pub(super) const HMAC_BYTES: usize = 16;

/// The key of STAMP's authenticated mode.
#[derive(Clone)]
pub struct StampKey(hmac::Key);

/// A payload that is no authenticated STAMP packet of a holder of the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("no STAMP packet that is authenticated with this key")]
pub struct NotAuthentic;

impl StampKey {
    /// The HMAC's key is the pre-shared one as it stands, so that other implementations can be given it.
    pub fn new(key: &PresharedKey) -> Self {
        StampKey(hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes()))
    }

    /// The HMAC of these parts, one behind the other.
    pub(super) fn hmac(&self, parts: &[&[u8]]) -> [u8; HMAC_BYTES] {
        let mut context = hmac::Context::with_key(&self.0);
        parts.iter().for_each(|part| context.update(part));
        to_array(&context.sign().as_ref()[..HMAC_BYTES])
    }

    /// Whether that is it. Compared as a whole, so that the time tells nothing of where they differ.
    pub(super) fn is_hmac(&self, parts: &[&[u8]], hmac: &[u8; HMAC_BYTES]) -> bool {
        let differs = self.hmac(parts).iter().zip(hmac).fold(0, |bits, (a, b)| bits | (a ^ b));
        std::hint::black_box(differs) == 0
    }

    fn sign(&self, packet: &mut [u8; AUTHENTICATED_PACKET_BYTES]) {
        let hmac = self.hmac(&[&packet[..HMAC_INPUT_BYTES]]);
        packet[HMAC_INPUT_BYTES..].copy_from_slice(&hmac);
    }

    /// The packet at the beginning of a payload, once its HMAC is checked.
    fn verify<'p>(&self, payload: &'p [u8]) -> Result<&'p [u8; AUTHENTICATED_PACKET_BYTES], NotAuthentic> {
        let packet: &[u8; AUTHENTICATED_PACKET_BYTES] = payload.first_chunk().ok_or(NotAuthentic)?;
        let is_authentic = self.is_hmac(&[&packet[..HMAC_INPUT_BYTES]], &to_array(&packet[HMAC_INPUT_BYTES..]));
        if is_authentic { Ok(packet) } else { Err(NotAuthentic) }
    }
}

/// Keys that sign alike are the same.
impl PartialEq for StampKey {
    fn eq(&self, other: &Self) -> bool {
        hmac::verify(&other.0, &[], hmac::sign(&self.0, &[]).as_ref()).is_ok()
    }
}

impl Eq for StampKey {}

impl fmt::Debug for StampKey {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("StampKey(..)")
    }
}

impl Probe {
    /// Writes it as RFC 8762 (4.2.2) draws it, authenticated.
    pub fn encode_authenticated(&self, payload: &mut [u8; AUTHENTICATED_PACKET_BYTES], key: &StampKey) {
        *payload = [0; AUTHENTICATED_PACKET_BYTES];
        payload[..4].copy_from_slice(&self.sequence.to_be_bytes());
        payload[16..24].copy_from_slice(&self.error_estimate.format.encode(self.sent));
        payload[24..26].copy_from_slice(&self.error_estimate.to_bits().to_be_bytes());
        payload[26..28].copy_from_slice(&self.session.to_be_bytes());
        key.sign(payload);
    }

    /// Reads a UDP payload; what follows the 112 octets, [TLVs](crate::stamp::read_reflected_tlvs), is not looked at.
    ///
    /// # Errors
    /// It is too short, its sender does not have the key, or it is an answer.
    pub fn decode_authenticated(payload: &[u8], key: &StampKey) -> Result<Self, NotAuthentic> {
        let packet = key.verify(payload)?;
        // Senders must send zeroes here; an answer, which has stamps here, is authentic, too, and must not be answered.
        if packet[28..HMAC_INPUT_BYTES].iter().any(|&octet| octet != 0) {
            return Err(NotAuthentic);
        }
        let clock = ErrorEstimate::from_bits(u16::from_be_bytes(to_array(&packet[24..26])));
        Ok(Probe {
            sequence: u32::from_be_bytes(to_array(&packet[..4])),
            sent: clock.format.decode(to_array(&packet[16..24])),
            error_estimate: clock,
            session: u16::from_be_bytes(to_array(&packet[26..28])),
        })
    }
}

impl Reply {
    /// As [`reflect`](Self::reflect), in the authenticated mode (RFC 8762, 4.3.2).
    ///
    /// # Errors
    /// The payload is too short, or its sender does not have the key.
    pub fn reflect_authenticated(
        payload: &mut [u8],
        key: &StampKey,
        answer: impl FnOnce(&Probe) -> Reflection,
    ) -> Result<Probe, NotAuthentic> {
        let probe = Probe::decode_authenticated(payload, key)?;
        let packet: &mut [u8; AUTHENTICATED_PACKET_BYTES] = payload.first_chunk_mut().ok_or(NotAuthentic)?;
        let probe_stamp = to_array(&packet[16..26]);
        answer(&probe).reply_to(&probe, probe_stamp).encode_authenticated(packet, key);
        Ok(probe)
    }

    /// Writes it as RFC 8762 (4.3.2) draws it, authenticated.
    pub fn encode_authenticated(&self, payload: &mut [u8; AUTHENTICATED_PACKET_BYTES], key: &StampKey) {
        let format = self.error_estimate.format;
        *payload = [0; AUTHENTICATED_PACKET_BYTES];
        payload[..4].copy_from_slice(&self.sequence.to_be_bytes());
        payload[16..24].copy_from_slice(&format.encode(self.reflected));
        payload[24..26].copy_from_slice(&self.error_estimate.to_bits().to_be_bytes());
        payload[26..28].copy_from_slice(&self.session.to_be_bytes());
        payload[32..40].copy_from_slice(&format.encode(self.received));
        payload[48..52].copy_from_slice(&self.probe_sequence.to_be_bytes());
        payload[64..74].copy_from_slice(&self.probe_timestamp);
        payload[80] = self.probe_ttl;
        key.sign(payload);
    }

    /// Reads a UDP payload; what follows the 112 octets, [TLVs](crate::stamp::read_reflected_tlvs), is not looked at.
    ///
    /// # Errors
    /// It is too short, or its sender does not have the key.
    pub fn decode_authenticated(payload: &[u8], key: &StampKey) -> Result<Self, NotAuthentic> {
        let packet = key.verify(payload)?;
        let clock = ErrorEstimate::from_bits(u16::from_be_bytes(to_array(&packet[24..26])));
        Ok(Reply {
            sequence: u32::from_be_bytes(to_array(&packet[..4])),
            reflected: clock.format.decode(to_array(&packet[16..24])),
            error_estimate: clock,
            session: u16::from_be_bytes(to_array(&packet[26..28])),
            received: clock.format.decode(to_array(&packet[32..40])),
            probe_sequence: u32::from_be_bytes(to_array(&packet[48..52])),
            probe_timestamp: to_array(&packet[64..74]),
            probe_ttl: packet[80],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_units::{Span, Time};

    const NOW: Time = Time::from_nanos(1_763_000_000_123_456_789);

    fn key(byte: u8) -> StampKey {
        StampKey::new(&PresharedKey::from_bytes([byte; 32]))
    }

    #[test]
    fn authenticated_packets_come_back_as_they_were() {
        let clock = ErrorEstimate::new(true, Span::from_millis(1));
        let probe = Probe { sequence: 9, sent: NOW, error_estimate: clock, session: 5 };
        let mut payload = vec![0xab; 150];
        probe.encode_authenticated(payload.first_chunk_mut().unwrap(), &key(1));
        assert_eq!((&payload[..4], &payload[4..16], &payload[28..96]), (&[0, 0, 0, 9][..], &[0; 12][..], &[0; 68][..]));
        assert_eq!(Probe::decode_authenticated(&payload, &key(1)), Ok(probe));
        let stamp: [u8; 10] = to_array(&payload[16..26]);
        let (received, reflected) = (NOW + Span::from_micros(10), NOW + Span::from_micros(30));
        let reflection = Reflection { sequence: 3, reflected, received, error_estimate: clock, probe_ttl: 61 };
        assert_eq!(Reply::reflect_authenticated(&mut payload, &key(1), |_| reflection), Ok(probe));
        assert_eq!((payload.len(), &payload[112..]), (150, &[0xab; 38][..]));
        let reply = Reply::decode_authenticated(&payload, &key(1)).unwrap();
        assert_eq!(reply, reflection.reply_to(&probe, stamp));
        assert_eq!(Probe::decode_authenticated(&payload, &key(1)), Err(NotAuthentic), "an answer is no probe");
        assert_eq!((payload[80], &payload[48..52]), (61, &[0, 0, 0, 9][..]));
    }

    #[test]
    fn what_is_altered_or_of_another_key_is_not_authentic() {
        let clock = ErrorEstimate::new(false, Span::ZERO);
        let mut packet = [0; AUTHENTICATED_PACKET_BYTES];
        Probe { sequence: 1, sent: NOW, error_estimate: clock, session: 0 }.encode_authenticated(&mut packet, &key(1));
        assert_eq!(Probe::decode_authenticated(&packet, &key(2)), Err(NotAuthentic));
        assert_eq!(Probe::decode_authenticated(&packet[..111], &key(1)), Err(NotAuthentic));
        for place in 0..AUTHENTICATED_PACKET_BYTES {
            let mut altered = packet;
            altered[place] ^= 1;
            assert_eq!(Probe::decode_authenticated(&altered, &key(1)), Err(NotAuthentic), "octet {place}");
            assert_eq!(Reply::decode_authenticated(&altered, &key(1)), Err(NotAuthentic));
        }
    }

    #[test]
    fn changes_do_not_make_up_for_each_other_and_the_key_is_not_shown() {
        let clock = ErrorEstimate::new(false, Span::ZERO);
        let mut packet = [0; AUTHENTICATED_PACKET_BYTES];
        Probe { sequence: 1, sent: NOW, error_estimate: clock, session: 0 }.encode_authenticated(&mut packet, &key(1));
        for place in HMAC_INPUT_BYTES..AUTHENTICATED_PACKET_BYTES - 1 {
            let mut altered = packet;
            altered[place] ^= 1;
            altered[place + 1] ^= 1;
            assert_eq!(Probe::decode_authenticated(&altered, &key(1)), Err(NotAuthentic), "octets from {place} on");
        }
        assert_eq!(format!("{:?}", key(1)), "StampKey(..)");
    }

    /// RFC 4231, test case 2, with the key as it is given there.
    #[test]
    fn the_hmac_is_that_of_rfc_4231() {
        let key = hmac::Key::new(hmac::HMAC_SHA256, b"Jefe");
        let tag = hmac::sign(&key, b"what do ya want for nothing?");
        assert_eq!(tag.as_ref()[..4], [0x5b, 0xdc, 0xc1, 0x46]);
    }
}
