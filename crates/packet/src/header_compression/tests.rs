use super::*;
use crate::samples::{self, Sample, SampleKind, V4, V6};
use etherparse::{IpNumber, PacketBuilder, TcpHeader, TcpOptionElement};
use proptest::prelude::*;

/// A packet as it comes out at the far end, and how many octets stood for its headers; none where it goes as it is.
fn transmit(reference: &ReferenceHeaders, packet: &[u8], packets_later: i32) -> Option<(Vec<u8>, usize)> {
    transmit_padded(reference, packet, packets_later, DistanceOctets::default())
}

/// With distances of at least so many octets.
fn transmit_padded(
    reference: &ReferenceHeaders,
    packet: &[u8],
    packets_later: i32,
    min_octets: DistanceOctets,
) -> Option<(Vec<u8>, usize)> {
    let compressed = reference.compress(&CompressiblePacket::parse(packet)?, packets_later, min_octets)?;
    let sent = [compressed.as_ref(), &packet[compressed.replaced_bytes..]].concat();
    let mut received = b"before".to_vec();
    reference.decompress(&sent, packets_later, &mut received).expect("what was compressed");
    assert_eq!(&received[..6], b"before");
    Some((received.split_off(6), compressed.as_ref().len()))
}

fn reference(packet: &[u8]) -> ReferenceHeaders {
    ReferenceHeaders::new(&CompressiblePacket::parse(packet).expect("a packet that can be a reference"))
}

/// A field of a header and its value.
#[derive(Debug, Clone)]
enum Change {
    Byte(prop::sample::Index, u8),
    Sequence(i32),
    Acknowledgment(i32),
    Identification(i16),
    Window(u16),
    TimeStamps(u32, u32),
    DsField(u8),
    Hops(u8),
    Flags(u8),
    Payload(usize),
    Options(Vec<u32>),
}

/// What the fields of a TCP segment or UDP datagram are.
#[derive(Debug, Clone)]
struct Segment {
    is_v4: bool,
    is_tcp: bool,
    ds_field: u8,
    hops: u8,
    identification: u16,
    sequence: u32,
    acknowledgment: u32,
    window: u16,
    flags: u8,
    options: Vec<u8>,
    payload: usize,
}

impl Segment {
    fn first(is_v4: bool, is_tcp: bool, has_timestamps: bool) -> Self {
        let options = [1, 1, 8, 10, 0, 0, 1, 0, 0, 0, 2, 0];
        Segment {
            is_v4,
            is_tcp,
            ds_field: 0x28,
            hops: 64,
            identification: 65_500,
            sequence: u32::MAX - 3000,
            acknowledgment: 77,
            window: 501,
            flags: 0x10,
            options: if has_timestamps { options.to_vec() } else { Vec::new() },
            payload: 1394,
        }
    }

    fn packet(&self) -> Vec<u8> {
        let mut transport = Vec::new();
        if self.is_tcp {
            let mut tcp = TcpHeader::new(40_000, 443, self.sequence, self.window);
            tcp.acknowledgment_number = self.acknowledgment;
            tcp.set_options_raw(&self.options).unwrap();
            transport.extend_from_slice(&tcp.to_bytes());
            transport[13] = self.flags;
        } else {
            transport.extend_from_slice(&[0x9c, 0x40, 1, 0xbb]);
            transport.extend_from_slice(&((8 + self.payload) as u16).to_be_bytes());
            transport.extend_from_slice(&[0, 0]);
        }
        transport.extend((0..self.payload).map(|place| (place as u32 ^ self.sequence) as u8));
        let kind = if self.is_tcp { 6 } else { 17 };
        let mut packet = match self.is_v4 {
            true => {
                let length = (20 + transport.len()) as u16;
                let mut header =
                    vec![0x45, self.ds_field, 0, 0, 0, 0, 0x40, 0, self.hops, kind, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
                header[2..4].copy_from_slice(&length.to_be_bytes());
                header[4..6].copy_from_slice(&self.identification.to_be_bytes());
                header
            }
            false => {
                let mut header = vec![0x60 | self.ds_field >> 4, self.ds_field << 4 | 3, 4, 5, 0, 0, kind, self.hops];
                header[4..6].copy_from_slice(&(transport.len() as u16).to_be_bytes());
                header.extend([0xfd; 32]);
                header
            }
        };
        packet.extend(transport);
        checksum::set(&mut packet).unwrap();
        packet
    }

    fn later(&self, packets: u32) -> Self {
        let mut later = self.clone();
        later.sequence = self.sequence.wrapping_add(packets * self.payload as u32);
        later.identification = self.identification.wrapping_add(packets as u16);
        later
    }

    fn apply(&mut self, change: &Change) {
        match change {
            Change::Byte(..) => {}
            Change::Sequence(by) => self.sequence = self.sequence.wrapping_add_signed(*by),
            Change::Acknowledgment(by) => self.acknowledgment = self.acknowledgment.wrapping_add_signed(*by),
            Change::Identification(by) => self.identification = self.identification.wrapping_add_signed(*by),
            Change::Window(window) => self.window = *window,
            Change::TimeStamps(value, echo) => {
                if let [1, 1, 8, 10, values @ ..] = &mut self.options[..] {
                    values[..4].copy_from_slice(&value.to_be_bytes());
                    values[4..8].copy_from_slice(&echo.to_be_bytes());
                }
            }
            Change::DsField(field) => self.ds_field = *field,
            Change::Hops(hops) => self.hops = *hops,
            Change::Flags(flags) => self.flags = *flags,
            Change::Payload(bytes) => self.payload = *bytes,
            Change::Options(words) => self.options = words.iter().flat_map(|word| word.to_be_bytes()).collect(),
        }
    }
}

fn any_change() -> impl Strategy<Value = Change> {
    let distance = prop_oneof![any::<i32>(), -70_000..70_000, -300..300];
    prop_oneof![
        (any::<prop::sample::Index>(), any::<u8>()).prop_map(|(place, value)| Change::Byte(place, value)),
        distance.clone().prop_map(Change::Sequence),
        distance.prop_map(Change::Acknowledgment),
        any::<i16>().prop_map(Change::Identification),
        any::<u16>().prop_map(Change::Window),
        (any::<u32>(), 0..700_u32).prop_map(|(value, echo)| Change::TimeStamps(value, echo)),
        (0..1000_u32, any::<u32>()).prop_map(|(value, echo)| Change::TimeStamps(value, echo)),
        any::<u8>().prop_map(Change::DsField),
        any::<u8>().prop_map(Change::Hops),
        any::<u8>().prop_map(Change::Flags),
        (0..3000_usize).prop_map(Change::Payload),
        prop::collection::vec(any::<u32>(), 0..=10).prop_map(Change::Options),
    ]
}

/// What headers of a steady flow take: the figures of docs/decisions.md.
#[test]
fn steady_flows_take_few_octets() {
    let octets = |is_v4, is_tcp, has_timestamps, change: &[Change]| {
        let first = Segment::first(is_v4, is_tcp, has_timestamps);
        let mut next = first.later(if is_tcp { 500 } else { 0 });
        change.iter().for_each(|change| next.apply(change));
        let later = if is_tcp { 500 } else { 0 };
        let (received, octets) = transmit(&reference(&first.packet()), &next.packet(), later).unwrap();
        assert_eq!(received, next.packet());
        octets
    };
    let time = Change::TimeStamps(256 + 200, 512 + 200);
    // Octets of a checksum, the first one, and two time stamps.
    assert_eq!(octets(true, true, true, std::slice::from_ref(&time)), 5);
    assert_eq!(octets(false, true, true, std::slice::from_ref(&time)), 5);
    assert_eq!(octets(true, true, false, &[]), 3);
    assert_eq!(octets(true, false, false, &[]), 3);
    // What acknowledges a megabyte, with another window.
    let acknowledgment = [Change::Acknowledgment(1 << 20), Change::Window(502), Change::Flags(0x18)];
    assert_eq!(octets(true, true, true, &[&acknowledgment[..], &[time]].concat()), 11);
    assert_eq!(octets(true, true, true, &[Change::DsField(3), Change::Hops(63)]), 6);
}

/// Whatever the age of the reference, packets of flows side by side are of one length, so that the kernel takes them at once.
#[test]
fn time_stamps_take_as_many_octets_as_they_are_to() {
    let first = Segment::first(true, true, true);
    for (distance, min_octets, expected) in [
        (0, 0, 3),
        (0, 1, 5),
        (0, 2, 7),
        (223, 1, 5),
        (223, 2, 7),
        (224, 1, 7),
        (224, 2, 7),
        (70_000, 2, 11),
        (0, 3, 11),
    ] {
        let mut next = first.later(9);
        next.apply(&Change::TimeStamps(256 + distance, 512 + distance));
        let packet = next.packet();
        let min_octets = DistanceOctets { timestamps: min_octets, ..DistanceOctets::default() };
        let sent = reference(&first.packet()).compress(&CompressiblePacket::parse(&packet).unwrap(), 9, min_octets);
        let needed = [(0, 0), (1, 1), (224, 2), (70_000, 4)].iter().rfind(|(from, _)| distance >= *from).unwrap().1;
        assert_eq!(sent.unwrap().needed_octets, DistanceOctets { timestamps: needed, ..DistanceOctets::default() });
        let (received, octets) = transmit_padded(&reference(&first.packet()), &packet, 9, min_octets).unwrap();
        assert_eq!((received, octets), (packet, expected), "{distance} in {min_octets:?}");
    }
}

/// As a segment does that follows shorter ones, and one that has been sent again, beside flows that have sent neither.
#[test]
fn numbers_take_as_many_octets_as_they_are_to() {
    let first = Segment::first(true, true, false);
    for (sequence, identification, min_octets, needed, expected) in [
        (0, 0, (0, 0), (0, 0), 3),
        (0, 0, (2, 0), (0, 0), 6),
        (-160, 0, (0, 0), (2, 0), 6),
        (-160, 0, (2, 0), (2, 0), 6),
        (-160, 0, (3, 1), (2, 0), 8),
        (-160, 3, (2, 0), (2, 1), 7),
        (0, 0, (2, 1), (0, 0), 7),
        (0, 0, (1, 3), (0, 0), 8),
    ] {
        let mut next = first.later(9);
        next.apply(&Change::Sequence(sequence));
        next.apply(&Change::Identification(identification));
        let packet = next.packet();
        let octets = |(sequence, identification)| DistanceOctets { timestamps: 0, sequence, identification };
        let parsed = CompressiblePacket::parse(&packet).unwrap();
        let sent = reference(&first.packet()).compress(&parsed, 9, octets(min_octets)).unwrap();
        assert_eq!(sent.needed_octets, octets(needed));
        let received = transmit_padded(&reference(&first.packet()), &packet, 9, octets(min_octets)).unwrap();
        assert_eq!(received, (packet, expected), "{sequence}, {identification} in {min_octets:?}");
    }
}

/// Hosts that number their datagrams, and those that have none to number (RFC 6864 §4.1), as Linux has for QUIC and WebRTC.
#[test]
fn identifications_grow_or_are_zero() {
    for (identification, grows) in [(7, true), (65_530, true), (0, false)] {
        let first = Segment { identification, ..Segment::first(true, false, false) };
        for later in [1, 40, 3000] {
            let next = if grows { first.later(later) } else { first.clone() };
            let (received, octets) = transmit(&reference(&first.packet()), &next.packet(), later as i32).unwrap();
            assert_eq!((received, octets), (next.packet(), 3), "{identification} and {later} later");
        }
    }
    // One that begins at 0 and grows costs octets, and comes out.
    let first = Segment { identification: 0, ..Segment::first(true, false, false) };
    let next = first.later(40);
    assert_eq!(transmit(&reference(&first.packet()), &next.packet(), 40).unwrap(), (next.packet(), 5));
}

#[test]
fn samples_of_etherparse_come_out_as_they_were() {
    for (ends, kind) in [
        (V4, SampleKind::Udp),
        (V6, SampleKind::Udp),
        (V4, SampleKind::Tcp(1, Some(2), [false; 3])),
        (V6, SampleKind::Tcp(1, None, [true, false, false])),
    ] {
        let packet = Sample::new(ends, kind, b"a payload").packet();
        assert_eq!(transmit(&reference(&packet), &packet, 0).unwrap().0, packet);
    }
}

#[test]
fn options_change_within_a_flow() {
    let builder = || PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64).tcp(1, 2, 3, 4).ack(5);
    let write = |options: &[TcpOptionElement]| {
        let mut packet = Vec::new();
        builder().options(options).unwrap().write(&mut packet, &[]).unwrap();
        packet
    };
    let stamps = TcpOptionElement::Timestamp(7, 8);
    let plain = write(std::slice::from_ref(&stamps));
    let selective = write(&[stamps, TcpOptionElement::SelectiveAcknowledgement((5, 6), [None; 3])]);
    let none = write(&[]);
    for (one, other) in [(&plain, &selective), (&selective, &plain), (&none, &plain), (&plain, &none)] {
        assert_eq!(&transmit(&reference(one), other, 0).unwrap().0, other);
    }
}

#[test]
fn what_cannot_be_inferred_goes_as_it_is() {
    let packet = Sample::new(V4, SampleKind::Tcp(1, Some(2), [false; 3]), b"payload").packet();
    assert!(CompressiblePacket::parse(&packet).is_some());
    // Version, length, offset and flags of fragments, protocol, checksum, addresses, length of the TCP header.
    for (place, value) in [(0, 0x46), (3, 1), (6, 0x20), (7, 1), (9, 1), (10, packet[10] ^ 1), (32, 0x40), (32, 0xf0)] {
        let mut other = packet.clone();
        other[place] = value;
        if place != 10 {
            checksum::set_ipv4_header(&mut other);
        }
        assert!(CompressiblePacket::parse(&other).is_none(), "{place}: {value}");
    }
    for length in 0..packet.len() {
        assert!(CompressiblePacket::parse(&packet[..length]).is_none());
    }
    // The other spelling of a checksum of zero.
    let mut zero = packet.clone();
    zero[4..6].fill(0);
    checksum::set_ipv4_header(&mut zero);
    let rest = u16::from_be_bytes([zero[10], zero[11]]);
    zero[4..6].copy_from_slice(&rest.to_be_bytes());
    checksum::set_ipv4_header(&mut zero);
    assert_eq!((zero[10..12].to_vec(), CompressiblePacket::parse(&zero).is_some()), (vec![0, 0], true));
    zero[10..12].fill(0xff);
    assert!(checksum::is_header_valid(&zero) && CompressiblePacket::parse(&zero).is_none());
    let fragment = samples::with_extensions(&[(44, &[0, 0, 0, 1, 0, 0, 0, 7])]);
    assert!(CompressiblePacket::parse(&fragment).is_none());
    let echo = Sample::new(V4, SampleKind::Echo, b"payload").packet();
    assert!(CompressiblePacket::parse(&echo).is_none());
}

#[test]
fn a_reference_is_for_one_flow_alone() {
    let packet = Sample::new(V4, SampleKind::Udp, b"payload").packet();
    let own = reference(&packet);
    // TTL and checksum apart, all of the IPv4 header behind the length is of the flow, and the ports are.
    for place in (12..24).chain([9]) {
        let mut other = packet.clone();
        other[place] ^= if place == 9 { IpNumber::UDP.0 ^ IpNumber::TCP.0 } else { 1 };
        checksum::set_ipv4_header(&mut other);
        assert!(transmit(&own, &other, 0).is_none(), "{place}");
    }
    // No checksum where the reference has none, but not the reverse.
    let mut without = packet.clone();
    without[26..28].fill(0);
    assert_eq!(transmit(&own, &without, 0).unwrap().0, without);
    assert!(transmit(&reference(&without), &packet, 0).is_none());
    assert_eq!(transmit(&reference(&without), &without, 0).unwrap(), (without.clone(), 1));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// Whatever a flow's headers change to, they come out as they were, or the packet goes as it is.
    #[test]
    fn flows_come_out_as_they_were(
        (is_v4, is_tcp, has_timestamps) in any::<(bool, bool, bool)>(),
        before in prop::collection::vec(any_change(), 0..3),
        changes in prop::collection::vec(any_change(), 0..5),
        later in 0..3000_u32,
        claimed in prop_oneof![Just(None), any::<i32>().prop_map(Some)],
        min_octets in (0..5_usize, 0..5_usize, 0..3_usize),
    ) {
        let (timestamps, sequence, identification) = min_octets;
        let min_octets = DistanceOctets { timestamps, sequence, identification };
        let mut first = Segment::first(is_v4, is_tcp, has_timestamps);
        before.iter().for_each(|change| first.apply(change));
        let mut next = first.later(later);
        changes.iter().for_each(|change| next.apply(change));
        let mut packet = next.packet();
        for change in &changes {
            if let Change::Byte(place, value) = change {
                let place = place.index(packet.len());
                packet[place] = *value;
            }
        }
        let own = reference(&first.packet());
        if let Some((received, octets)) = transmit_padded(&own, &packet, claimed.unwrap_or(later as i32), min_octets) {
            prop_assert!(octets <= MAX_COMPRESSED_BYTES);
            prop_assert_eq!(received, packet);
        } else {
            // Nothing else than a damaged packet, or a datagram whose checksum happens to be absent, cannot be compressed.
            prop_assert!(changes.iter().any(|change| matches!(change, Change::Byte(..))), "{next:?} after {first:?}");
        }
    }

    /// Any two packets.
    #[test]
    fn any_packets_come_out_as_they_were(one in samples::any_bytes(), other in samples::any_bytes(), later: i32) {
        for reference in [CompressiblePacket::parse(&one), CompressiblePacket::parse(&other)].into_iter().flatten() {
            let own = ReferenceHeaders::new(&reference);
            for packet in [&one, &other] {
                if let Some((received, _)) = transmit(&own, packet, later) {
                    prop_assert_eq!(&received, packet);
                }
            }
        }
    }

    /// Whatever claims to be compressed is none, or a packet of the flow that would be compressed, too.
    #[test]
    fn what_is_decompressed_could_have_been_sent(
        (is_v4, is_tcp, has_timestamps) in any::<(bool, bool, bool)>(),
        sent in prop::collection::vec(any::<u8>(), 0..60),
        later: i32,
    ) {
        let own = reference(&Segment::first(is_v4, is_tcp, has_timestamps).packet());
        let mut packet = Vec::new();
        if own.decompress(&sent, later, &mut packet).is_ok() {
            prop_assert!(packet.len() <= sent.len() + MAX_HEADER_BYTES);
            let read = CompressiblePacket::parse(&packet).expect("a whole packet");
            prop_assert!(own.is_of_flow(&read));
            if let Some((received, _)) = transmit(&own, &packet, later) {
                prop_assert_eq!(received, packet);
            }
        } else {
            prop_assert!(packet.is_empty());
        }
    }
}

/// What stands for the headers is shorter by the checksum, and says that it is missing.
#[test]
fn a_partial_checksum_is_left_out() {
    for (is_v4, is_tcp) in [(true, true), (true, false), (false, true), (false, false)] {
        let first = Segment::first(is_v4, is_tcp, is_tcp);
        let own = reference(&first.packet());
        let mut packet = first.later(3).packet();
        let whole = own.compress(&CompressiblePacket::parse(&packet).unwrap(), 3, DistanceOctets::default()).unwrap();
        let place = if is_v4 { 20 } else { 40 } + if is_tcp { 16 } else { 6 };
        packet[place..place + 2].copy_from_slice(&PARTIAL_CHECKSUM);
        let parsed = CompressiblePacket::parse(&packet).unwrap().with_partial_checksum(true);
        let partial = own.compress(&parsed, 3, DistanceOctets::default()).unwrap();
        assert_eq!(partial.as_ref().len() + 2, whole.as_ref().len());
        for (headers, is_partial) in [(&whole, false), (&partial, true)] {
            let sent = [headers.as_ref(), &packet[headers.replaced_bytes..]].concat();
            let mut received = Vec::new();
            assert_eq!(own.decompress(&sent, 3, &mut received), Ok(is_partial));
            assert_eq!(received == packet, is_partial);
        }
    }
}

/// Of a flow without checksums, none can be missing.
#[test]
fn a_checksum_is_partial_only_where_there_is_one() {
    let first = Segment::first(true, false, false);
    let mut without = first.packet();
    without[26..28].fill(0);
    let own = reference(&without);
    let partial = CompressiblePacket::parse(&without).unwrap().with_partial_checksum(true);
    assert!(own.compress(&partial, 1, DistanceOctets::default()).is_none());
    let mut sent = own
        .compress(&CompressiblePacket::parse(&without).unwrap(), 0, DistanceOctets::default())
        .unwrap()
        .as_ref()
        .to_vec();
    assert_eq!(own.decompress(&sent, 0, &mut Vec::new()), Ok(false));
    sent[0] |= CHECKSUM_IS_PARTIAL;
    assert_eq!(own.decompress(&sent, 0, &mut Vec::new()), Err(DecompressionError));
}
