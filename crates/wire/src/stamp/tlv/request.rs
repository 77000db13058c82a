//! The TLVs of a probe (RFC 8972, 4).

use super::values::{
    AccessReport, ClassOfService, DirectMeasurement, FollowUpTelemetry, Location, TimestampInformation, location_part,
};
use super::{TLV_HEADER_BYTES, TlvType, flags};
use crate::stamp::authenticated::HMAC_BYTES;
use crate::stamp::{AUTHENTICATED_PACKET_BYTES, PACKET_BYTES, StampKey};
use kumade_packet::DsField;

/// What a sender asks a reflector for, beside its stamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TlvRequest {
    /// DSCP and ECN that the answer is to have; the reflector tells with which the probe came.
    pub class_of_service: Option<DsField>,
    /// How the reflector's clock is set and read.
    pub timestamp_information: bool,
    /// Between which addresses the probe came.
    pub location: bool,
    /// How many packets the reflector has counted.
    pub direct_measurement: bool,
    /// What the reflector is told of an access network.
    pub access_report: Option<AccessReport>,
    /// When the answer before left.
    pub follow_up_telemetry: bool,
}

impl TlvRequest {
    /// Octets of a probe with these TLVs, with a key of an authenticated one, without padding.
    pub fn probe_bytes(&self, is_authenticated: bool) -> usize {
        let packet = if is_authenticated { AUTHENTICATED_PACKET_BYTES } else { PACKET_BYTES };
        let tlvs: usize = self.values(0).map(|(_, value)| TLV_HEADER_BYTES + value.octets().len()).sum();
        packet + tlvs + hmac_tlv_bytes(is_authenticated && tlvs > 0)
    }

    /// Writes them behind a probe's packet, with a key of an authenticated one; the rest is extra padding of zeroes, and zeroes where
    /// there is no room for its header. `transmitted` is how many probes were sent, this one included. A payload of less than
    /// [`probe_bytes`](Self::probe_bytes) has as many TLVs as there is room for.
    pub fn encode(&self, payload: &mut [u8], transmitted: u32, key: Option<&StampKey>) {
        let packet_bytes = if key.is_some() { AUTHENTICATED_PACKET_BYTES } else { PACKET_BYTES };
        let Some((packet, octets)) = payload.split_at_mut_checked(packet_bytes) else { return };
        octets.fill(0);
        let has_values = self.values(transmitted).next().is_some();
        let hmac_bytes = hmac_tlv_bytes(key.is_some() && has_values);
        let Some(most) = octets.len().checked_sub(hmac_bytes) else { return };
        let mut writer = TlvWriter { octets: &mut octets[..most], used: 0 };
        for (kind, value) in self.values(transmitted) {
            writer.push(kind, value.octets());
        }
        writer.pad();
        let used = writer.used;
        if let Some(key) = key.filter(|_| has_values) {
            let code = key.hmac(&[&packet[..4], &octets[..used]]);
            TlvWriter { octets, used }.push(TlvType::Hmac, &code);
        }
    }

    /// What is asked for, as the values of a probe are: zeroes are for the reflector to fill in.
    fn values(&self, transmitted: u32) -> impl Iterator<Item = (TlvType, Value)> {
        let counts = DirectMeasurement { sender_transmitted: transmitted, ..DirectMeasurement::default() };
        [
            self.class_of_service
                .map(|field| (TlvType::ClassOfService, Value::from(&ClassOfService::request(field).encode()))),
            self.timestamp_information
                .then(|| (TlvType::TimestampInformation, Value::from(&[0; TimestampInformation::BYTES]))),
            self.location.then(|| (TlvType::Location, Value::from(&location_request()))),
            self.direct_measurement.then(|| (TlvType::DirectMeasurement, Value::from(&counts.encode()))),
            self.access_report.map(|report| (TlvType::AccessReport, Value::from(&report.encode()))),
            self.follow_up_telemetry.then(|| (TlvType::FollowUpTelemetry, Value::from(&[0; FollowUpTelemetry::BYTES]))),
        ]
        .into_iter()
        .flatten()
    }
}

/// Octets of an HMAC TLV, where there is one.
fn hmac_tlv_bytes(is_there: bool) -> usize {
    if is_there { TLV_HEADER_BYTES + HMAC_BYTES } else { 0 }
}

/// Ports, and a sub-TLV for each IP address.
const LOCATION_BYTES: usize = Location::PORT_BYTES + 2 * (TLV_HEADER_BYTES + location_part::IP_BYTES);

fn location_request() -> [u8; LOCATION_BYTES] {
    let mut value = [0; LOCATION_BYTES];
    let mut writer = TlvWriter { octets: &mut value, used: Location::PORT_BYTES };
    for number in [location_part::SOURCE_IP, location_part::DESTINATION_IP] {
        writer.push_number(number, &[0; location_part::IP_BYTES]);
    }
    value
}

/// A value of a probe: none is longer than a location's.
#[derive(Debug, Clone, Copy)]
struct Value {
    octets: [u8; LOCATION_BYTES],
    len: usize,
}

impl Value {
    fn octets(&self) -> &[u8] {
        &self.octets[..self.len]
    }
}

impl<const N: usize> From<&[u8; N]> for Value {
    fn from(value: &[u8; N]) -> Self {
        const { assert!(N <= LOCATION_BYTES) };
        let mut octets = [0; LOCATION_BYTES];
        octets[..N].copy_from_slice(value);
        Value { octets, len: N }
    }
}

/// Writes TLVs one behind the other; those that find no room are left out.
struct TlvWriter<'a> {
    octets: &'a mut [u8],
    used: usize,
}

impl TlvWriter<'_> {
    fn push(&mut self, kind: TlvType, value: &[u8]) {
        self.push_number(kind as u8, value);
    }

    fn push_number(&mut self, number: u8, value: &[u8]) {
        let end = self.used + TLV_HEADER_BYTES + value.len();
        let (Some(octets), Ok(length)) = (self.octets.get_mut(self.used..end), u16::try_from(value.len())) else {
            return;
        };
        // "A Session-Sender MUST set the U flag to 1."
        (octets[0], octets[1]) = (flags::UNRECOGNISED, number);
        octets[2..TLV_HEADER_BYTES].copy_from_slice(&length.to_be_bytes());
        octets[TLV_HEADER_BYTES..].copy_from_slice(value);
        self.used = end;
    }

    /// Makes all that is left extra padding.
    fn pad(&mut self) {
        let Some(bytes) = (self.octets.len() - self.used).checked_sub(TLV_HEADER_BYTES) else { return };
        let Ok(length) = u16::try_from(bytes) else { return };
        let octets = &mut self.octets[self.used..];
        (octets[0], octets[1]) = (flags::UNRECOGNISED, TlvType::ExtraPadding as u8);
        octets[2..TLV_HEADER_BYTES].copy_from_slice(&length.to_be_bytes());
        self.used = self.octets.len();
    }
}
