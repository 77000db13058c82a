//! What a sender reads of the TLVs of an answer (RFC 8972, 4).

use super::reflection::{Authentication, authenticate};
use super::values::{
    AccessReport, ClassOfService, DirectMeasurement, FollowUpTelemetry, Location, TimestampInformation, location_part,
};
use super::{TlvType, flags, tlv_spans};
use crate::preamble::to_array;
use crate::stamp::{AUTHENTICATED_PACKET_BYTES, ClockFormat, PACKET_BYTES, StampKey};
use thiserror::Error;

/// What a reflector says. Each is none where the answer does not have it, or has it marked as not understood or malformed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReflectedTlvs {
    /// DSCP and ECN of the probe as it arrived, and what has become of those that were asked for.
    pub class_of_service: Option<ClassOfService>,
    /// How the reflector's clock is set and read.
    pub timestamp_information: Option<TimestampInformation>,
    /// Between which addresses the probe came.
    pub location: Option<Location>,
    /// How many packets each end has counted.
    pub direct_measurement: Option<DirectMeasurement>,
    /// What the reflector was told of an access network, again.
    pub access_report: Option<AccessReport>,
    /// When the answer before left.
    pub follow_up_telemetry: Option<FollowUpTelemetry>,
}

/// Why the TLVs of an answer say nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ExtensionsError {
    /// The reflector could not verify those of the probe, and says so.
    #[error("the reflector could not verify the extensions' HMAC")]
    RefusedByReflector,
    /// They are not of a holder of the key, or have an HMAC and there is no key.
    #[error("the extensions of the answer are not authenticated with this key")]
    NotAuthentic,
}

/// Reads the TLVs behind an answer's packet, with a key behind an authenticated one. `format` is that of the answer's stamps.
///
/// # Errors
/// They must not be used: they are not authentic, or the reflector has found those of the probe not to be.
pub fn read_reflected_tlvs(
    payload: &[u8],
    key: Option<&StampKey>,
    format: ClockFormat,
) -> Result<ReflectedTlvs, ExtensionsError> {
    let packet_bytes = if key.is_some() { AUTHENTICATED_PACKET_BYTES } else { PACKET_BYTES };
    let Some((packet, octets)) = payload.split_at_checked(packet_bytes) else { return Ok(ReflectedTlvs::default()) };
    if tlv_spans(octets).any(|span| octets[span.offset] & flags::INTEGRITY_FAILED != 0) {
        return Err(ExtensionsError::RefusedByReflector);
    }
    // A reflector that does not know TLVs sends them back as they came, with the HMAC of the probe.
    if tlv_spans(octets).all(|span| octets[span.offset] & flags::UNRECOGNISED != 0) {
        return Ok(ReflectedTlvs::default());
    }
    if authenticate(octets, &to_array(&packet[..4]), key) == Authentication::Failed {
        return Err(ExtensionsError::NotAuthentic);
    }
    let mut read = ReflectedTlvs::default();
    for span in tlv_spans(octets) {
        let flags = octets[span.offset];
        let Some(value) = span.value().filter(|_| flags & flags::MALFORMED == 0) else { break };
        if flags & flags::UNRECOGNISED == 0 && span.has_valid_length() {
            read.take(span.kind(), &octets[value], format);
        }
    }
    Ok(read)
}

impl ReflectedTlvs {
    /// Takes a value of valid length.
    fn take(&mut self, kind: Option<TlvType>, value: &[u8], format: ClockFormat) {
        match kind {
            Some(TlvType::ClassOfService) => {
                self.class_of_service = Some(ClassOfService::decode(to_array(value)));
            }
            Some(TlvType::TimestampInformation) => {
                self.timestamp_information = Some(TimestampInformation::decode(to_array(value)));
            }
            Some(TlvType::Location) => self.location = Some(read_location(value)),
            Some(TlvType::DirectMeasurement) => {
                self.direct_measurement = Some(DirectMeasurement::decode(to_array(value)));
            }
            Some(TlvType::AccessReport) => self.access_report = Some(AccessReport::decode(to_array(value))),
            Some(TlvType::FollowUpTelemetry) => {
                self.follow_up_telemetry = FollowUpTelemetry::decode(to_array(value), format);
            }
            Some(TlvType::ExtraPadding | TlvType::Hmac) | None => {}
        }
    }
}

fn read_location(value: &[u8]) -> Location {
    let port = |from: usize| Some(u16::from_be_bytes(to_array(&value[from..from + 2]))).filter(|port| *port != 0);
    let mut location = Location { destination_port: port(0), source_port: port(2), ..Location::default() };
    let parts = &value[Location::PORT_BYTES..];
    for span in tlv_spans(parts) {
        let flags = parts[span.offset];
        let Some(value) = span.value().filter(|_| flags & flags::MALFORMED == 0) else { break };
        if flags & flags::UNRECOGNISED != 0 {
            continue;
        }
        let address = Location::decode_address(span.number, &parts[value]);
        match span.number {
            location_part::SOURCE_IPV4 | location_part::SOURCE_IPV6 => location.source = address,
            location_part::DESTINATION_IPV4 | location_part::DESTINATION_IPV6 => location.destination = address,
            _ => {}
        }
    }
    location
}

#[cfg(test)]
mod tests {
    use super::super::{ProbeFacts, ProbeLocation, TlvRequest, reflect_tlvs};
    use super::*;
    use crate::stamp::{ReverseDscp, ReverseEcn, SynchronisationSource, TimestampMethod};
    use kumade_noise_session::PresharedKey;
    use kumade_packet::{DsField, Ecn};
    use kumade_units::Time;

    const EVERYTHING: TlvRequest = TlvRequest {
        class_of_service: None,
        timestamp_information: true,
        location: true,
        direct_measurement: true,
        access_report: Some(AccessReport { access_id: 1, return_code: 1 }),
        follow_up_telemetry: true,
    };

    fn everything() -> TlvRequest {
        TlvRequest { class_of_service: Some(DsField::new("ef".parse().unwrap(), Ecn::Ect1)), ..EVERYTHING }
    }

    fn facts(is_v6: bool) -> ProbeFacts {
        let [source, destination] = if is_v6 { ["2001:db8::1", "2001:db8::2"] } else { ["192.0.2.1", "192.0.2.2"] };
        let (source_in, method_in) = (Some(SynchronisationSource::Ptp), Some(TimestampMethod::Hardware));
        let (source_out, method_out) = (Some(SynchronisationSource::Navigation), Some(TimestampMethod::ControlPlane));
        ProbeFacts {
            sequence: 3,
            ds_field: Ecn::Ect0.into(),
            location: Some(ProbeLocation {
                source: (source.parse::<std::net::IpAddr>().unwrap(), 5).into(),
                destination: destination.parse().ok(),
                destination_port: 862,
            }),
            timestamps: TimestampInformation { source_in, method_in, source_out, method_out },
            format: ClockFormat::Ptp,
            received: 3,
            transmitted: 2,
            last_reflection: Some(FollowUpTelemetry {
                sequence: 1,
                reflected: Time::from_nanos(1_763_000_000_123_456_789),
                method: Some(TimestampMethod::Software),
            }),
        }
    }

    /// A probe with everything, and so much padding, answered.
    fn exchange(padding: usize, facts: &ProbeFacts) -> Vec<u8> {
        let mut payload = vec![0; everything().probe_bytes(false) + padding];
        everything().encode(&mut payload, 4, None);
        reflect_tlvs(&mut payload, None, facts);
        payload
    }

    #[test]
    fn what_a_sender_asks_for_a_reflector_answers() {
        for (is_v6, padding) in [(false, 0), (true, 4), (true, 500), (false, 3)] {
            let facts = facts(is_v6);
            let answer = exchange(padding, &facts);
            let read = read_reflected_tlvs(&answer, None, ClockFormat::Ptp).unwrap();
            let class_of_service = read.class_of_service.unwrap();
            assert_eq!(
                (class_of_service.requested, class_of_service.arrived),
                (everything().class_of_service.unwrap(), Ecn::Ect0.into())
            );
            assert_eq!(
                (class_of_service.reverse_dscp, class_of_service.reverse_ecn),
                (ReverseDscp::AsRequested, ReverseEcn::AsRequested)
            );
            assert_eq!(read.timestamp_information, Some(facts.timestamps));
            let (location, from) = (read.location.unwrap(), facts.location.unwrap());
            assert_eq!((location.source, location.source_port), (Some(from.source.ip()), Some(5)));
            assert_eq!((location.destination, location.destination_port), (from.destination, Some(862)));
            let counts = DirectMeasurement { sender_transmitted: 4, reflector_received: 3, reflector_transmitted: 2 };
            assert_eq!((read.direct_measurement, read.access_report), (Some(counts), EVERYTHING.access_report));
            assert_eq!(read.follow_up_telemetry, facts.last_reflection);
        }
    }

    #[test]
    fn a_reflector_that_does_not_know_tlvs_says_nothing() {
        let key = StampKey::new(&PresharedKey::from_bytes([1; 32]));
        for key in [None, Some(&key)] {
            let mut payload = vec![0; everything().probe_bytes(key.is_some()) + 10];
            everything().encode(&mut payload, 4, key);
            payload[3] = 77;
            assert_eq!(read_reflected_tlvs(&payload, key, ClockFormat::Ntp), Ok(ReflectedTlvs::default()));
            assert_eq!(read_reflected_tlvs(&payload[..44], None, ClockFormat::Ntp), Ok(ReflectedTlvs::default()));
        }
    }

    #[test]
    fn with_a_key_nothing_is_read_that_is_not_authenticated() {
        let [key, other] = [1, 2].map(|byte| StampKey::new(&PresharedKey::from_bytes([byte; 32])));
        let facts = facts(false);
        let mut payload = vec![0; everything().probe_bytes(true) + 20];
        payload[3] = 3;
        everything().encode(&mut payload, 4, Some(&key));
        payload[3] = 8;
        let mut refused = payload.clone();
        reflect_tlvs(&mut payload, Some(&key), &facts);
        let read = |payload: &[u8], key: &StampKey| read_reflected_tlvs(payload, Some(key), ClockFormat::Ptp);
        assert_eq!(read(&payload, &key).unwrap().follow_up_telemetry, facts.last_reflection);
        assert_eq!(read(&payload, &other), Err(ExtensionsError::NotAuthentic));
        // It covers all before it, and not its own flags.
        let own_flags = payload.len() - 20;
        for place in
            [3].into_iter().chain(AUTHENTICATED_PACKET_BYTES..payload.len()).filter(|&place| place != own_flags)
        {
            let mut altered = payload.clone();
            altered[place] ^= 1;
            assert_eq!(read(&altered, &key), Err(ExtensionsError::NotAuthentic), "octet {place}");
        }
        reflect_tlvs(&mut refused, Some(&other), &facts);
        assert_eq!(read(&refused, &key), Err(ExtensionsError::RefusedByReflector));
        assert!(ExtensionsError::RefusedByReflector.to_string().contains("HMAC"));
    }

    #[test]
    fn a_few_octets_too_many_are_in_nobodys_way() {
        let key = StampKey::new(&PresharedKey::from_bytes([1; 32]));
        for (key, padding) in [None, Some(&key)].into_iter().flat_map(|key| (0..9).map(move |padding| (key, padding))) {
            let mut payload = vec![0; everything().probe_bytes(key.is_some()) + padding];
            payload[3] = 3;
            everything().encode(&mut payload, 4, key);
            payload[3] = 8;
            reflect_tlvs(&mut payload, key, &facts(false));
            let read = read_reflected_tlvs(&payload, key, ClockFormat::Ptp).unwrap();
            assert_eq!(read.timestamp_information, Some(facts(false).timestamps), "{padding}");
        }
    }

    /// "If the U flag is set, the STAMP system MUST skip … If the M flag is set, … MUST stop."
    #[test]
    fn marked_ones_are_passed_over_and_malformed_ones_end_it() {
        let answer = exchange(0, &facts(false));
        let marked = |flags: u8| {
            let mut answer = answer.clone();
            answer[PACKET_BYTES] = flags;
            read_reflected_tlvs(&answer, None, ClockFormat::Ptp)
        };
        let passed_over = marked(flags::UNRECOGNISED).unwrap();
        assert!(passed_over.class_of_service.is_none() && passed_over.timestamp_information.is_some());
        assert_eq!(marked(flags::MALFORMED), Ok(ReflectedTlvs::default()));
        assert_eq!(marked(flags::INTEGRITY_FAILED), Err(ExtensionsError::RefusedByReflector));
    }

    #[test]
    fn padding_fills_what_is_left() {
        let none = TlvRequest::default();
        for (is_authenticated, packet) in [(false, PACKET_BYTES), (true, AUTHENTICATED_PACKET_BYTES)] {
            let key = StampKey::new(&PresharedKey::from_bytes([1; 32]));
            let key = is_authenticated.then_some(&key);
            assert_eq!(none.probe_bytes(is_authenticated), packet);
            for (padding, octets) in [(0, &[][..]), (3, &[0; 3]), (4, &[0x80, 1, 0, 0]), (6, &[0x80, 1, 0, 2, 0, 0])] {
                let mut payload = vec![9; packet + padding];
                none.encode(&mut payload, 1, key);
                assert_eq!(payload[packet..], *octets);
            }
        }
    }
}
