//! What a reflector makes of the TLVs of a probe (RFC 8972, 4).

use super::values::{
    AccessReport, ClassOfService, DirectMeasurement, FollowUpTelemetry, Location, ReverseDscp, ReverseEcn,
    TimestampInformation, location_part,
};
use super::{TLV_HEADER_BYTES, TlvSpan, TlvType, flags, tlv_span_at, tlv_spans};
use crate::preamble::to_array;
use crate::stamp::authenticated::HMAC_BYTES;
use crate::stamp::{AUTHENTICATED_PACKET_BYTES, ClockFormat, PACKET_BYTES, StampKey};
use kumade_packet::{DsField, Dscp};
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

/// What a reflector knows beside a probe's payload.
#[derive(Debug, Clone, Copy)]
pub struct ProbeFacts {
    /// The probe's number, as it came.
    pub sequence: u32,
    /// DSCP and ECN with which it arrived.
    pub ds_field: DsField,
    /// Between which addresses it came; none where the reflector does not tell, which is answered by zeroes (RFC 8972, 4.2.2).
    pub location: Option<ProbeLocation>,
    /// How the reflector's clock is set and read.
    pub timestamps: TimestampInformation,
    /// How the reflector writes its stamps.
    pub format: ClockFormat,
    /// How many of the session's packets it has received, this one included; zero where it does not count.
    pub received: u32,
    /// How many answers it has sent, this one included; zero where it does not count.
    pub transmitted: u32,
    /// The session's answer before this one; none where there is none, or the reflector does not keep it (stateless).
    pub last_reflection: Option<FollowUpTelemetry>,
}

/// Between which addresses a probe came.
#[derive(Debug, Clone, Copy)]
pub struct ProbeLocation {
    /// The sender's.
    pub source: SocketAddr,
    /// The reflector's; none where the system does not say.
    pub destination: Option<IpAddr>,
    /// The reflector's port.
    pub destination_port: u16,
}

/// Fills in the TLVs behind an answer's packet, each in its place, so that the answer keeps the probe's size; with a key, behind an
/// authenticated one. Returns DSCP and ECN that the answer is to have: none where the sender does not say.
///
/// The flags are this reflector's own, whatever came. What it has no use for comes back as it was, marked: a type that it does not
/// know (U), and a length that is none of its type, behind which nothing more is read (M). In the authenticated mode, TLVs must be
/// authenticated, too, but for padding alone; where they are not, all of them come back marked (I). An HMAC TLV without a key can't be
/// verified: likewise.
pub fn reflect_tlvs(payload: &mut [u8], key: Option<&StampKey>, facts: &ProbeFacts) -> Option<DsField> {
    let packet_bytes = if key.is_some() { AUTHENTICATED_PACKET_BYTES } else { PACKET_BYTES };
    let (packet, octets) = payload.split_at_mut_checked(packet_bytes)?;
    let hmac = match authenticate(octets, &facts.sequence.to_be_bytes(), key) {
        Authentication::Failed => {
            mark_integrity_failed(octets);
            return None;
        }
        Authentication::None => None,
        Authentication::Valid(value) => Some(value),
    };
    let ds_field = answer_each(octets, facts);
    if let (Some(value), Some(key)) = (hmac, key) {
        let code = key.hmac(&[&packet[..4], &octets[..value.start - TLV_HEADER_BYTES]]);
        octets[value].copy_from_slice(&code);
    }
    ds_field
}

/// Whether TLVs are those of a holder of the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Authentication {
    /// They need not be.
    None,
    /// They are; where the HMAC is.
    Valid(Range<usize>),
    /// They are not.
    Failed,
}

/// Whether TLVs of the packet of this number are authenticated (RFC 8972, 4.8).
pub(super) fn authenticate(octets: &[u8], sequence: &[u8; 4], key: Option<&StampKey>) -> Authentication {
    // What has no room for a header is none of a TLV.
    let is_padding = |span: &TlvSpan| match span.value_bytes {
        Some(_) => span.kind() == Some(TlvType::ExtraPadding),
        None => octets.len() - span.offset < TLV_HEADER_BYTES,
    };
    let mut spans = tlv_spans(octets);
    let Some(hmac) = spans.find(|span| span.kind() == Some(TlvType::Hmac)) else {
        let mut spans = tlv_spans(octets);
        let is_padding_alone = spans.next().is_none_or(|first| is_padding(&first)) && spans.next().is_none();
        return if key.is_none() || is_padding_alone { Authentication::None } else { Authentication::Failed };
    };
    // Nothing but padding may follow it.
    let is_last = spans.all(|span| is_padding(&span));
    let (Some(key), Some(value), true, true) = (key, hmac.value(), hmac.has_valid_length(), is_last) else {
        return Authentication::Failed;
    };
    let code: [u8; HMAC_BYTES] = to_array(&octets[value.clone()]);
    match key.is_hmac(&[sequence, &octets[..hmac.offset]], &code) {
        true => Authentication::Valid(value),
        false => Authentication::Failed,
    }
}

fn mark_integrity_failed(octets: &mut [u8]) {
    let mut next = Some(0);
    while let Some(span) = next.and_then(|offset| tlv_span_at(octets, offset)) {
        let unrecognised = if span.kind().is_none() { flags::UNRECOGNISED } else { 0 };
        let malformed = if span.has_valid_length() { 0 } else { flags::MALFORMED };
        octets[span.offset] = unrecognised | malformed | flags::INTEGRITY_FAILED;
        next = span.value().map(|value| value.end);
    }
}

/// Returns DSCP and ECN of the answer.
fn answer_each(octets: &mut [u8], facts: &ProbeFacts) -> Option<DsField> {
    let (mut ds_field, mut next) = (None, 0);
    while let Some(span) = tlv_span_at(octets, next) {
        let Some(value) = span.value().filter(|_| span.has_valid_length()) else {
            octets[span.offset] = flags::MALFORMED;
            if let (Some(TlvType::FollowUpTelemetry), Some(value)) = (span.kind(), span.value()) {
                zero_follow_up(&mut octets[value]);
            }
            break;
        };
        next = value.end;
        let is_understood = span.kind().is_some_and(|kind| answer_one(kind, &mut octets[value], facts, &mut ds_field));
        octets[span.offset] = if is_understood { 0 } else { flags::UNRECOGNISED };
    }
    ds_field
}

/// "The Session-Reflector MUST zero the Sequence Number and Follow-Up Timestamp fields", as far as a wrong length has them.
fn zero_follow_up(value: &mut [u8]) {
    const SEQUENCE_AND_STAMP_BYTES: usize = 12;
    let bytes = value.len().min(SEQUENCE_AND_STAMP_BYTES);
    value[..bytes].fill(0);
}

/// Fills in a value of valid length; false where it is one that must be discarded.
fn answer_one(kind: TlvType, value: &mut [u8], facts: &ProbeFacts, ds_field: &mut Option<DsField>) -> bool {
    match kind {
        // The one is filled in when all others are.
        TlvType::Hmac | TlvType::ExtraPadding => {}
        TlvType::Location => answer_location(value, facts.location),
        TlvType::TimestampInformation => value.copy_from_slice(&facts.timestamps.encode()),
        TlvType::ClassOfService => {
            let answer = answer_class_of_service(ClassOfService::decode(to_array(value)), facts.ds_field);
            value.copy_from_slice(&answer.encode());
            let (dscp, ecn) = answer.sent_back();
            *ds_field = Some(DsField::new(dscp.unwrap_or_default(), ecn.unwrap_or_default()));
        }
        TlvType::DirectMeasurement => {
            let DirectMeasurement { sender_transmitted, .. } = DirectMeasurement::decode(to_array(value));
            let (reflector_received, reflector_transmitted) = (facts.received, facts.transmitted);
            let counts = DirectMeasurement { sender_transmitted, reflector_received, reflector_transmitted };
            value.copy_from_slice(&counts.encode());
        }
        TlvType::AccessReport => return AccessReport::decode(to_array(value)).is_valid(),
        TlvType::FollowUpTelemetry => {
            let telemetry = facts.last_reflection.map(|last| last.encode(facts.format));
            value.copy_from_slice(&telemetry.unwrap_or_default());
        }
    }
    true
}

/// Network control (RFC 4594, 3.1): what routers tell each other. An answer has it only if its question came with it, so that
/// nobody outside a domain which keeps it to itself has it sent inside.
const NETWORK_CONTROL: [u8; 2] = [48, 56];

fn answer_class_of_service(asked: ClassOfService, arrived: DsField) -> ClassOfService {
    let is_permitted = |dscp: Dscp| dscp == arrived.dscp() || !NETWORK_CONTROL.contains(&dscp.number());
    let reverse_dscp =
        if is_permitted(asked.requested.dscp()) { ReverseDscp::AsRequested } else { ReverseDscp::AsArrived };
    ClassOfService { requested: asked.requested, arrived, reverse_dscp, reverse_ecn: ReverseEcn::AsRequested }
}

/// Ports, and what each sub-TLV asks for, in its place.
fn answer_location(value: &mut [u8], location: Option<ProbeLocation>) {
    let (ports, parts) = value.split_at_mut(Location::PORT_BYTES);
    let [destination_port, source_port] =
        location.map_or([0; 2], |location| [location.destination_port, location.source.port()]);
    ports[..2].copy_from_slice(&destination_port.to_be_bytes());
    ports[2..].copy_from_slice(&source_port.to_be_bytes());
    let mut next = 0;
    while let Some(span) = tlv_span_at(parts, next) {
        let Some(value) = span.value() else {
            parts[next] = flags::MALFORMED;
            return;
        };
        let (header, rest) = parts.split_at_mut(value.start);
        let header = &mut header[next..];
        header[0] = match answer_location_part(&mut header[1], &mut rest[..value.len()], location) {
            LocationPartAnswer::Given => 0,
            LocationPartAnswer::Unrecognised => flags::UNRECOGNISED,
            LocationPartAnswer::Malformed => flags::MALFORMED,
        };
        if header[0] == flags::MALFORMED {
            return;
        }
        next = value.end;
    }
}

enum LocationPartAnswer {
    Given,
    Unrecognised,
    Malformed,
}

/// An address, and its kind in place of the one that was asked for; zeroes where it is not known.
fn answer_location_part(number: &mut u8, value: &mut [u8], location: Option<ProbeLocation>) -> LocationPartAnswer {
    use location_part::*;
    let source = location.map(|location| location.source.ip().to_canonical());
    // Both ends' are of one family.
    let is_v6 = source.is_some_and(|address| address.is_ipv6());
    let (kind, address, bytes) = match *number {
        // A socket does not tell the hardware's: zeroes, as EUI-64 (4.2.2).
        SOURCE_MAC => (SOURCE_EUI_64, None, MAC_BYTES),
        DESTINATION_IP => {
            let destination = location.and_then(|location| location.destination).map(|address| address.to_canonical());
            (if is_v6 { DESTINATION_IPV6 } else { DESTINATION_IPV4 }, destination, IP_BYTES)
        }
        SOURCE_IP => (if is_v6 { SOURCE_IPV6 } else { SOURCE_IPV4 }, source, IP_BYTES),
        _ => return LocationPartAnswer::Unrecognised,
    };
    if value.len() != bytes {
        return LocationPartAnswer::Malformed;
    }
    *number = kind;
    value.fill(0);
    match address {
        Some(IpAddr::V4(address)) => value[..4].copy_from_slice(&address.octets()),
        Some(IpAddr::V6(address)) => value.copy_from_slice(&address.octets()),
        None => {}
    }
    LocationPartAnswer::Given
}

#[cfg(test)]
mod tests {
    use super::super::values::{SynchronisationSource, TimestampMethod};
    use super::*;
    use kumade_noise_session::PresharedKey;
    use kumade_packet::Ecn;
    use kumade_units::Time;
    use proptest::prelude::*;

    fn field(dscp: u8, ecn: Ecn) -> DsField {
        DsField::new(Dscp::new(dscp).unwrap(), ecn)
    }

    fn facts() -> ProbeFacts {
        ProbeFacts {
            sequence: 5,
            ds_field: field(10, Ecn::Ce),
            location: Some(ProbeLocation {
                source: "192.0.2.1:5000".parse().unwrap(),
                destination: Some("192.0.2.2".parse().unwrap()),
                destination_port: 862,
            }),
            timestamps: TimestampInformation {
                source_in: Some(SynchronisationSource::Ntp),
                method_in: Some(TimestampMethod::Software),
                source_out: Some(SynchronisationSource::Local),
                method_out: Some(TimestampMethod::Software),
            },
            format: ClockFormat::Ntp,
            received: 7,
            transmitted: 6,
            last_reflection: Some(FollowUpTelemetry {
                sequence: 4,
                reflected: Time::from_nanos(1_763_000_000_123_456_789),
                method: Some(TimestampMethod::Software),
            }),
        }
    }

    /// An unauthenticated packet with these octets behind it, answered: what has become of them, and the answer's DSCP and ECN.
    fn answered(octets: &[u8], facts: &ProbeFacts) -> (Vec<u8>, Option<DsField>) {
        let mut payload = [&[0; PACKET_BYTES][..], octets].concat();
        let ds_field = reflect_tlvs(&mut payload, None, facts);
        (payload[PACKET_BYTES..].to_vec(), ds_field)
    }

    #[test]
    fn flags_are_the_reflectors_own_whatever_came() {
        for came in [0, 0x80, 0x40, 0x20, 0xff] {
            assert_eq!(answered(&[came, 1, 0, 1, 9], &facts()).0, [0, 1, 0, 1, 9], "padding");
            assert_eq!(answered(&[came, 99, 0, 1, 9], &facts()).0, [0x80, 99, 0, 1, 9], "a type that is not known");
            assert_eq!(
                answered(&[came, 0, 0, 0], &facts()).0,
                [0x80, 0, 0, 0],
                "the reserved type: TWAMP Light's zeroes"
            );
            assert_eq!(answered(&[came, 4, 0, 3, 1, 2, 3], &facts()).0, [0x40, 4, 0, 3, 1, 2, 3], "a wrong length");
            assert_eq!(answered(&[came, 1, 0, 2, 9], &facts()).0, [0x40, 1, 0, 2, 9], "beyond the packet");
            assert_eq!(answered(&[came, 1], &facts()).0, [0x40, 1], "no room for a header");
        }
    }

    /// "The processing of extension TLVs MUST be stopped. The Session-Reflector MUST copy the remainder."
    #[test]
    fn behind_a_malformed_one_nothing_is_read_or_changed() {
        let mut octets = vec![0x80, 3, 0, 4, 0, 0, 0, 0];
        octets.extend([0x80, 3, 0, 5, 1, 2, 3, 4, 5]);
        octets.extend([0x80, 4, 0, 4, 0xb8, 0, 0, 0, 0xff, 99, 0, 0]);
        let (answer, ds_field) = answered(&octets, &facts());
        assert_eq!((&answer[..8], answer[8]), (&[0, 3, 0, 4, 1, 2, 5, 2][..], 0x40));
        assert_eq!((&answer[9..], ds_field), (&octets[9..], None));
    }

    /// Erratum 8199: "into the DSCP2 and ECN fields, respectively".
    #[test]
    fn class_of_service_tells_what_arrived_and_is_granted_but_for_network_control() {
        let granted = |dscp: u8, ecn, arrived| {
            let octets = [&[0x80, 4, 0, 4][..], &ClassOfService::request(field(dscp, ecn)).encode()].concat();
            let (answer, ds_field) = answered(&octets, &ProbeFacts { ds_field: arrived, ..facts() });
            let told = ClassOfService::decode(to_array(&answer[4..]));
            assert_eq!((told.requested, told.arrived), (field(dscp, ecn), arrived));
            assert_eq!(told.sent_back(), (ds_field.map(DsField::dscp), ds_field.map(DsField::ecn)));
            (ds_field, told.reverse_dscp)
        };
        let came = field(10, Ecn::Ce);
        assert_eq!(granted(46, Ecn::Ect1, came), (Some(field(46, Ecn::Ect1)), ReverseDscp::AsRequested));
        for control in NETWORK_CONTROL {
            assert_eq!(granted(control, Ecn::Ect0, came), (Some(field(10, Ecn::Ect0)), ReverseDscp::AsArrived));
            let inside = field(control, Ecn::NotEct);
            assert_eq!(granted(control, Ecn::NotEct, inside), (Some(inside), ReverseDscp::AsRequested));
        }
    }

    #[test]
    fn a_location_is_told_in_the_room_that_was_given_for_it_or_withheld() {
        let part = |number, bytes: u8| [vec![0x80, number, 0, bytes], vec![0; usize::from(bytes)]].concat();
        let value = [vec![0; 4], part(7, 16), part(4, 16), part(1, 8), part(99, 1)].concat();
        let octets = [vec![0x80, 2, 0, value.len() as u8], value].concat();
        let answer = |octets: &[u8], location| answered(octets, &ProbeFacts { location, ..facts() }).0;
        let v4 = answer(&octets, facts().location);
        assert_eq!(v4[..8], [0, 2, 0, octets[3], 3, 94, 19, 136], "destination's port first: 862, 5000");
        assert_eq!(v4[8..28], [&[0, 8, 0, 16, 192, 0, 2, 1][..], &[0; 12]].concat());
        assert_eq!(v4[28..48], [&[0, 5, 0, 16, 192, 0, 2, 2][..], &[0; 12]].concat());
        assert_eq!(v4[48..60], [0, 3, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0], "no hardware address");
        assert_eq!(v4[60..], [0x80, 99, 0, 1, 0]);
        let source = "[2001:db8::1]:5000".parse().unwrap();
        let v6 = answer(&octets, Some(ProbeLocation { source, destination: None, destination_port: 862 }));
        assert_eq!((&v6[8..12], v6[12], v6[27]), (&[0, 9, 0, 16][..], 0x20, 1));
        assert_eq!(v6[28..48], [&[0, 6, 0, 16][..], &[0; 16]].concat());
        let withheld = answer(&octets, None);
        assert_eq!((&withheld[..8], &withheld[12..28]), (&[0, 2, 0, octets[3], 0, 0, 0, 0][..], &[0; 16][..]));
        // A part that has not the length of its kind.
        let bad = [vec![0x80, 2, 0, 4 + 12 + 20], vec![0; 4], part(4, 8), part(7, 16)].concat();
        let answer = answer(&bad, facts().location);
        assert_eq!((answer[0], answer[8], &answer[9..20]), (0, 0x40, &bad[9..20]));
        assert_eq!(answer[20..], bad[20..]);
    }

    #[test]
    fn counters_and_the_answer_before_are_filled_in() {
        let octets = [vec![0x80, 5, 0, 12, 0, 0, 0, 9], vec![0xff; 8]].concat();
        assert_eq!(answered(&octets, &facts()).0, [0, 5, 0, 12, 0, 0, 0, 9, 0, 0, 0, 7, 0, 0, 0, 6]);
        let octets = [vec![0x80, 7, 0, 16], vec![0xff; 16]].concat();
        let told = answered(&octets, &facts()).0;
        assert_eq!((&told[..8], &told[16..]), (&[0, 7, 0, 16, 0, 0, 0, 4][..], &[2, 0, 0, 0][..]));
        let none = answered(&octets, &ProbeFacts { last_reflection: None, ..facts() }).0;
        assert_eq!(none, [&[0, 7, 0, 16][..], &[0; 16]].concat());
        // Erratum 8339: number and stamp are zeroed where the TLV's length is wrong.
        let short = answered(&[0x80, 7, 0, 3, 1, 2, 3], &facts()).0;
        assert_eq!(short, [0x40, 7, 0, 3, 0, 0, 0]);
    }

    #[test]
    fn an_access_report_comes_back_unless_its_network_is_none() {
        assert_eq!(answered(&[0x80, 6, 0, 4, 0x10, 1, 0, 0], &facts()).0, [0, 6, 0, 4, 0x10, 1, 0, 0]);
        assert_eq!(answered(&[0x80, 6, 0, 4, 0x30, 1, 0, 0], &facts()).0, [0x80, 6, 0, 4, 0x30, 1, 0, 0]);
    }

    fn key(byte: u8) -> StampKey {
        StampKey::new(&PresharedKey::from_bytes([byte; 32]))
    }

    /// An authenticated packet with the number 5, and these octets behind it, answered with the number 9.
    fn answered_with_key(octets: &[u8]) -> Vec<u8> {
        let mut payload = [&[0, 0, 0, 9][..], &[0; AUTHENTICATED_PACKET_BYTES - 4], octets].concat();
        reflect_tlvs(&mut payload, Some(&key(1)), &facts());
        payload[AUTHENTICATED_PACKET_BYTES..].to_vec()
    }

    fn hmac_tlv(sequence: u8, before: &[u8]) -> Vec<u8> {
        [&[0x80, 8, 0, 16][..], &key(1).hmac(&[&[0, 0, 0, sequence], before])].concat()
    }

    #[test]
    fn with_a_key_tlvs_are_authenticated_both_ways_but_for_padding_alone() {
        let information = [0x80, 3, 0, 4, 0, 0, 0, 0];
        let padding = [0x80, 1, 0, 1, 9];
        let signed = [&information[..], &hmac_tlv(5, &information)].concat();
        let answer = [0, 3, 0, 4, 1, 2, 5, 2];
        let expected = [&answer[..], &[0], &hmac_tlv(9, &answer)[1..]].concat();
        assert_eq!(answered_with_key(&signed), expected);
        // "The HMAC TLV MUST follow all TLVs … except for the Extra Padding TLV."
        assert_eq!(answered_with_key(&[&signed[..], &padding].concat()), [&expected[..], &[0, 1, 0, 1, 9]].concat());
        assert_eq!(answered_with_key(&padding), [0, 1, 0, 1, 9]);
    }

    #[test]
    fn what_is_not_authenticated_comes_back_marked_and_otherwise_as_it_was() {
        let information = [0x80, 3, 0, 4, 0, 0, 0, 0];
        let unknown = [0x80, 99, 0, 0];
        let signed = [&information[..], &hmac_tlv(5, &information)].concat();
        let another_number = [&information[..], &hmac_tlv(6, &information)].concat();
        let behind_it = [&signed[..], &unknown].concat();
        let cut_off = &signed[..signed.len() - 1];
        let two_paddings = [0x80, 1, 0, 0, 0x80, 1, 0, 0];
        for octets in [&information[..], &another_number, &behind_it, cut_off, &two_paddings] {
            let answer = answered_with_key(octets);
            let mut next = 0;
            while let Some(span) = tlv_span_at(octets, next) {
                let unrecognised = if span.kind().is_none() { 0x80 } else { 0 };
                let malformed = if span.value_bytes.is_none() { 0x40 } else { 0 };
                assert_eq!(answer[next], 0x20 | unrecognised | malformed, "{answer:?}");
                let end = span.value().map_or(octets.len(), |value| value.end);
                assert_eq!(answer[next + 1..end], octets[next + 1..end]);
                next = end;
            }
        }
        // Without a key, an HMAC can't be verified.
        let (answer, _) = answered(&signed, &facts());
        assert_eq!((answer[0], answer[8]), (0x20, 0x20));
    }

    #[test]
    fn a_packet_without_room_for_tlvs_is_left_alone() {
        for bytes in [0, 14, PACKET_BYTES - 1, PACKET_BYTES] {
            let mut payload = vec![7; bytes];
            assert_eq!(reflect_tlvs(&mut payload, None, &facts()), None);
            assert_eq!(payload, vec![7; bytes]);
        }
    }

    proptest! {
        /// Most octets are few, so that types and lengths are met that mean something.
        #[test]
        fn any_octets_keep_their_types_and_lengths(
            octets in prop::collection::vec(prop_oneof![0_u8..10, Just(16), Just(0x80), any::<u8>()], 0..200),
            has_key: bool,
        ) {
            let answer = if has_key { answered_with_key(&octets) } else { answered(&octets, &facts()).0 };
            prop_assert_eq!(answer.len(), octets.len());
            prop_assert!(tlv_spans(&answer).eq(tlv_spans(&octets)));
            for span in tlv_spans(&octets) {
                if let Some(value) = span.value().filter(|_| span.kind().is_none()) {
                    prop_assert_eq!(&answer[value.clone()], &octets[value], "what is not known comes back as it was");
                }
            }
        }
    }
}
