use super::*;
use crate::samples::{self, Sample, SampleKind};
use etherparse::{PacketHeaders, TransportHeader};
use proptest::prelude::*;

const LINK: [u8; 14] = [7; 14];

fn divided(packet: &[u8], segment_bytes: u16) -> Vec<Vec<u8>> {
    let frame = [&LINK[..], packet].concat();
    let mut segments = Segments::from_frame(&frame, LINK.len(), segment_bytes, None).unwrap();
    let mut all = Vec::new();
    let mut out = Vec::new();
    while segments.write_next(&mut out) {
        assert_eq!(out[..LINK.len()], LINK);
        all.push(out[LINK.len()..].to_vec());
    }
    let longest = all.iter().map(|segment| LINK.len() + segment.len()).max();
    assert_eq!((segments.frame(), Some(segments.max_segment_bytes())), (&frame[..], longest));
    all
}

fn any_large() -> impl Strategy<Value = Sample> {
    let kind = prop_oneof![
        Just(SampleKind::Udp),
        (any::<u32>(), any::<Option<u32>>(), any::<bool>())
            .prop_map(|(sequence, acknowledgment, fin)| SampleKind::Tcp(sequence, acknowledgment, [false, fin, false])),
    ];
    let payload = prop::collection::vec(any::<u8>(), 0..9000);
    (any::<bool>(), kind, payload)
        .prop_map(|(v4, kind, payload)| Sample::new(if v4 { samples::V4 } else { samples::V6 }, kind, &payload))
}

proptest! {
    /// Read by another parser, the parts are valid packets whose data, in order, are the whole's.
    #[test]
    fn the_parts_are_valid_and_give_the_whole(sample in any_large(), segment_bytes in 100u16..3000) {
        let parts = divided(&sample.packet(), segment_bytes);
        prop_assert_eq!(parts.len(), sample.payload.len().div_ceil(segment_bytes.into()).max(1));
        let mut payload = Vec::new();
        for (number, part) in parts.iter().enumerate() {
            prop_assert!(checksum::is_valid(part).unwrap());
            let read = PacketHeaders::from_ip_slice(part).unwrap();
            let is_last = number + 1 == parts.len();
            match (read.transport.unwrap(), sample.kind) {
                (TransportHeader::Tcp(tcp), SampleKind::Tcp(sequence, _, [_, fin, _])) => {
                    prop_assert_eq!(tcp.sequence_number, sequence.wrapping_add(payload.len() as u32));
                    prop_assert_eq!(tcp.fin, fin && is_last);
                }
                (TransportHeader::Udp(udp), SampleKind::Udp) => {
                    prop_assert_eq!(usize::from(udp.length), 8 + read.payload.slice().len());
                }
                other => prop_assert!(false, "{other:?}"),
            }
            prop_assert!(is_last || read.payload.slice().len() == usize::from(segment_bytes));
            payload.extend_from_slice(read.payload.slice());
        }
        prop_assert_eq!(payload, sample.payload);
    }

    /// Carried in packets that stand for several segments, these are in the end the same as without that.
    #[test]
    fn large_parts_give_the_same_segments(
        sample in any_large(), segment_bytes in 100u16..3000, max_bytes in 0usize..20_000
    ) {
        let (packet, mut found) = (sample.packet(), Vec::new());
        let mut parts = Segments::from_frame(&packet, 0, segment_bytes, None).unwrap();
        let mut part = Vec::new();
        while let Some(of) = parts.write_next_large(max_bytes, &mut part) {
            let Some(of) = of else {
                prop_assert!(checksum::is_valid(&part).unwrap());
                found.push(part.clone());
                continue;
            };
            prop_assert!(part.len() <= max_bytes && of.get() == segment_bytes);
            let large = LargePacket::from_packet(&part, of).unwrap();
            let len = part.len();
            large.set_partial_checksum(&mut part, len);
            let offload = Offload::read(large.virtio_header(&part, 0));
            prop_assert_eq!(offload.segment_bytes, Some(segment_bytes));
            found.extend(divided(&part, segment_bytes));
            offload.checksum.unwrap().complete(&mut part).unwrap();
            prop_assert!(checksum::is_valid(&part).unwrap());
        }
        prop_assert_eq!(found, divided(&packet, segment_bytes));
    }

    #[test]
    fn segments_with_partial_checksums_are_the_same_once_these_are_computed(
        sample in any_large(), segment_bytes in 100u16..3000
    ) {
        let packet = sample.packet();
        let mut segments = Segments::from_frame(&packet, 0, segment_bytes, None).unwrap();
        segments.leave_checksums_partial();
        let (mut found, mut segment) = (Vec::new(), Vec::new());
        while segments.write_next(&mut segment) {
            let shape = LargePacket::from_packet(&segment, NonZeroU16::MAX).unwrap();
            let field = shape.transport_offset + checksum_offset(shape.protocol);
            prop_assert_eq!(&segment[field..field + 2], &PARTIAL_CHECKSUM[..]);
            prop_assert!(checksum::is_header_valid(&segment));
            checksum::set(&mut segment).unwrap();
            found.push(segment.clone());
        }
        prop_assert_eq!(found, divided(&packet, segment_bytes));
    }

    /// What is cut off one by one is the same.
    #[test]
    fn segments_that_are_cut_off_are_those_of_the_whole(
        sample in any_large(), segment_bytes in 1u16..3000, start in 0usize..50, are_partial in any::<bool>()
    ) {
        let packet = sample.packet();
        let mut frame = [&vec![7; start][..], &packet].concat();
        let (mut at, mut left) = (start, NonZeroU16::new(segment_bytes));
        let (mut found, mut out) = (Vec::new(), Vec::new());
        let completed = |segment: &[u8]| {
            let mut segment = segment.to_vec();
            if are_partial {
                checksum::set(&mut segment).unwrap();
            }
            segment
        };
        while let Some(own) = left {
            let Some(rest) = cut_first(&mut frame, at, (own, are_partial), &mut out) else { break };
            prop_assert!(checksum::is_header_valid(&frame[rest.start..]));
            found.push(completed(&out[at..]));
            (at, left) = (rest.start, rest.segment_bytes);
        }
        if found.is_empty() {
            let before = [&vec![7; start][..], &packet].concat();
            prop_assert!(frame == before && divided(&packet, segment_bytes).len() == 1);
            return Ok(());
        }
        found.push(completed(&frame[at..]));
        prop_assert_eq!(found, divided(&packet, segment_bytes));
    }

    /// Whatever is merged, its segments are the packets that came.
    #[test]
    fn merged_packets_can_be_divided_again(
        sample in any_large(), segment_bytes in 100u16..3000, max_bytes in 0usize..5000, odd in any::<Option<(u8, u8)>>(),
        are_partial in any::<bool>()
    ) {
        let packet = sample.packet();
        let mut segments = Segments::from_frame(&packet, 0, segment_bytes, None).unwrap();
        if are_partial {
            segments.leave_checksums_partial();
        }
        let (mut parts, mut part) = (Vec::new(), Vec::new());
        while let Some(of) = segments.write_next_large(max_bytes, &mut part) {
            parts.push((part.clone(), of));
        }
        // One of them differs somewhere from what was sent; or is lost.
        if let Some((at, bits)) = odd {
            let at = usize::from(at) % parts.len();
            let place = usize::from(bits) % parts[at].0.len();
            if parts[at].1.is_none() {
                parts[at].0[place] ^= 1 << (bits % 8);
            } else if matches!(sample.kind, SampleKind::Tcp(..)) {
                // The identification of what may not be fragmented means nothing, and is not kept.
                parts.remove(at);
            }
        }
        let single = |(part, of): &(Vec<u8>, Option<NonZeroU16>)| {
            let mut part = part.clone();
            if are_partial && of.is_none() && checksum::is_header_valid(&part) {
                // Not of what has become a fragment, or no packet.
                let _ = checksum::set(&mut part);
            }
            of.map_or_else(|| vec![part.clone()], |of| divided(&part, of.get()))
        };
        let expected: Vec<_> = parts.iter().flat_map(single).collect();
        let mut merged: Vec<(Vec<u8>, Option<NonZeroU16>)> = Vec::new();
        for (packet, of) in parts {
            let part = MergePart { packet: &packet, segment_bytes: of, has_partial_checksum: are_partial };
            if let Some((last, last_of)) = merged.last_mut()
                && let Some(joined) = merge(last, 0, (*last_of, are_partial), part)
            {
                *last_of = Some(joined);
                continue;
            }
            merged.push((packet, of));
        }
        let is_mergeable = odd.is_none() && MergeProfile::from_packet(&packet).is_some_and(|shape| shape.can_merge);
        prop_assert!(!is_mergeable || merged.len() == 1, "{}", merged.len());
        prop_assert_eq!(merged.iter().flat_map(single).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_partial_checksum_is_completed((packet, _) in samples::any_packet()) {
        let headers = Headers::parse(&packet).unwrap();
        let Some(offset) = checksum::offset_in_header(headers.protocol).filter(|_| headers.ports.is_some()) else {
            return Ok(());
        };
        let mut offload = packet.clone();
        let at = headers.transport_offset + offset;
        offload[at..at + 2].fill(0);
        // What a sender leaves: the sum of the pseudo header.
        let zeroes = vec![0; packet.len() - headers.transport_offset];
        let pseudo = !checksum::compute_transport(headers.source, headers.destination, headers.protocol, &zeroes);
        offload[at..at + 2].copy_from_slice(&pseudo.to_be_bytes());
        let partial = PartialChecksum { start: headers.transport_offset as u16, offset: offset as u16 };
        partial.complete(&mut offload).unwrap();
        prop_assert!(checksum::is_valid(&offload).unwrap());
    }

    #[test]
    fn any_bytes_are_survived(
        mut frame in prop::collection::vec(any::<u8>(), 0..200), header: [u8; 10], network_offset in 0usize..40
    ) {
        let offload = Offload::read(header);
        if let Some(partial) = offload.checksum {
            let _ = partial.complete(&mut frame);
        }
        if let Some(bytes) = offload.segment_bytes.and_then(NonZeroU16::new)
            && let Ok(large) = LargePacket::from_packet(&frame, bytes)
        {
            let len = frame.len();
            large.set_partial_checksum(&mut frame, len);
            large.virtio_header(&frame, 0);
        }
        if let Ok(mut segments) = Segments::from_frame(&frame, network_offset, offload.segment_bytes.unwrap_or(1), None) {
            let (mut out, longest) = (Vec::new(), segments.max_segment_bytes());
            while segments.write_next(&mut out) {
                prop_assert!(out.len() <= longest);
            }
        }
    }
}

#[test]
fn the_header_is_read_as_the_kernel_writes_it() {
    let mut header = [1, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    header[4..6].copy_from_slice(&1448u16.to_ne_bytes());
    header[6..8].copy_from_slice(&34u16.to_ne_bytes());
    header[8..10].copy_from_slice(&16u16.to_ne_bytes());
    let checksum = Some(PartialChecksum { start: 34, offset: 16 });
    assert_eq!(Offload::read(header), Offload { checksum, segment_bytes: Some(1448) });
    assert_eq!(Offload::read([0; 10]), Offload::default());
    // Without a kind, or a length, nothing is to be divided.
    header[1] = 0;
    assert_eq!(Offload::read(header), Offload { checksum, segment_bytes: None });
    (header[1], header[4], header[5]) = (1, 0, 0);
    assert_eq!(Offload::read(header), Offload { checksum, segment_bytes: None });
}

#[test]
fn the_header_is_written_as_the_kernel_reads_it() {
    // VIRTIO_NET_HDR_GSO_TCPV4, _TCPV6, _UDP_L4 and _ECN of linux/virtio_net.h.
    for (ends, kind, cwr, expected, sizes) in [
        (samples::V4, SampleKind::Tcp(1, Some(1), [false; 3]), false, 1, [40, 20, 16]),
        (samples::V4, SampleKind::Tcp(1, Some(1), [false; 3]), true, 0x81, [40, 20, 16]),
        (samples::V6, SampleKind::Tcp(1, Some(1), [false; 3]), false, 4, [60, 40, 16]),
        (samples::V6, SampleKind::Tcp(1, Some(1), [false; 3]), true, 0x84, [60, 40, 16]),
        (samples::V4, SampleKind::Udp, true, 5, [28, 20, 6]),
        (samples::V6, SampleKind::Udp, true, 5, [48, 40, 6]),
    ] {
        let mut packet = Sample::new(ends, kind, &[0; 3000]).packet();
        let [headers, start, offset] = sizes;
        if cwr {
            // In UDP, this byte is of the payload.
            packet[usize::from(start) + 13] |= CWR;
        }
        let header =
            LargePacket::from_packet(&packet, NonZeroU16::new(1000).unwrap()).unwrap().virtio_header(&packet, 0);
        let words = [headers, 1000, start, offset].map(u16::to_ne_bytes).concat();
        assert_eq!((&header[..2], &header[2..]), (&[1, expected][..], &words[..]), "{ends:?}, {kind:?}, {cwr}");
    }
}

/// Whoever sends a packet that stands for segments has not many times its bytes sent on.
#[test]
fn a_large_packet_stands_for_twice_its_bytes_at_most() {
    for ends in [samples::V4, samples::V6] {
        let tcp = Sample::new(ends, SampleKind::Tcp(1, Some(1), [false; 3]), &[7; 1300]).packet();
        for segment_bytes in 1..200 {
            let large = LargePacket::from_packet(&tcp, NonZeroU16::new(segment_bytes).unwrap()).unwrap();
            let parts = divided(&tcp, large.segment_bytes);
            let bytes: usize = parts.iter().map(Vec::len).sum();
            assert!(bytes <= 2 * tcp.len(), "{ends:?}, {segment_bytes}: {bytes}");
            assert!(usize::from(segment_bytes) < large.payload_offset || large.segment_bytes == segment_bytes);
        }
        let udp = Sample::new(ends, SampleKind::Udp, &[7; 1300]).packet();
        let headers = udp.len() as u16 - 1300;
        for (segment_bytes, is_large) in [(1, false), (headers - 1, false), (headers, true), (1300, true)] {
            assert_eq!(LargePacket::from_packet(&udp, NonZeroU16::new(segment_bytes).unwrap()).is_ok(), is_large);
        }
        // What is one segment by itself is that, however short.
        let short = Sample::new(ends, SampleKind::Udp, b"7").packet();
        assert_eq!(LargePacket::from_packet(&short, NonZeroU16::MIN).unwrap().segment_bytes, 1);
    }
}

#[test]
fn what_is_shorter_than_its_headers_stays_a_packet_of_its_own() {
    for ends in [samples::V4, samples::V6] {
        let headers = Sample::new(ends, SampleKind::Udp, b"").packet().len();
        for (payload_bytes, is_large) in [(1, false), (headers - 1, false), (headers, true)] {
            let packet = Sample::new(ends, SampleKind::Udp, &vec![7; payload_bytes]).packet();
            let joined = merge(
                &mut packet.clone(),
                0,
                (None, false),
                MergePart { packet: &packet, segment_bytes: None, has_partial_checksum: false },
            );
            assert_eq!(joined.is_some(), is_large, "{ends:?}, {payload_bytes}");
            let whole = Sample::new(ends, SampleKind::Udp, &vec![7; 10 * payload_bytes]).packet();
            let mut segments = Segments::from_frame(&whole, 0, payload_bytes as u16, None).unwrap();
            let first = segments.write_next_large(9000, &mut Vec::new()).unwrap();
            assert_eq!(first.is_some(), is_large, "{ends:?}, {payload_bytes}");
        }
    }
}

#[test]
fn what_is_behind_a_packet_is_not_divided_and_no_length_is_refused() {
    let packet = Sample::new(samples::V4, SampleKind::Udp, &[0; 3000]).packet();
    assert!(matches!(
        Segments::from_frame(&packet, 0, 0, None),
        Err(OffloadError::Unsupported { segment_bytes: 0, .. })
    ));
    let padded = [&packet[..], &[9; 5]].concat();
    assert_eq!(Segments::from_frame(&padded, 0, 1000, None).unwrap().frame(), packet);
    assert!(
        LargePacket::from_packet(&packet, NonZeroU16::new(1000).unwrap()).is_ok()
            && LargePacket::from_packet(&padded, NonZeroU16::new(1000).unwrap()).is_err()
    );
}

#[test]
fn the_checksum_of_sctp_is_completed_as_what_it_is() {
    // An IPv4 header without options, then ports, tag and checksum of SCTP, and a chunk.
    let mut packet = vec![7; 20];
    packet.extend([0x0b, 0x59, 0x0b, 0x59, 0, 0, 0, 1, 1, 2, 3, 4]);
    packet.extend([14, 0, 0, 4]);
    let partial = PartialChecksum { start: 20, offset: 8 };
    partial.complete(&mut packet).unwrap();
    let found: [u8; 4] = packet[28..32].try_into().unwrap();
    packet[28..32].fill(0);
    assert_eq!(u32::from_le_bytes(found), checksum::crc32c(&packet[20..]));
    let before = packet.clone();
    assert!(PartialChecksum { start: 25, offset: 8 }.complete(&mut packet).is_err());
    assert_eq!(packet, before);
}

#[test]
fn a_packet_without_payload_is_one_segment() {
    for kind in [SampleKind::Udp, SampleKind::Tcp(1, Some(1), [false, true, false])] {
        let packet = Sample::new(samples::V4, kind, b"").packet();
        assert_eq!(divided(&packet, 1000), [packet]);
    }
}

#[test]
fn the_first_segment_alone_says_that_the_window_was_reduced() {
    let mut packet = Sample::new(samples::V4, SampleKind::Tcp(1, Some(1), [false; 3]), &[0; 2500]).packet();
    packet[33] |= CWR;
    let flags: Vec<_> = divided(&packet, 1000).iter().map(|segment| segment[33] & CWR).collect();
    assert_eq!(flags, [CWR, 0, 0]);
}

#[test]
fn a_large_part_has_as_many_segments_as_fit_whatever_stands_before_the_packet() {
    let packet = Sample::new(samples::V4, SampleKind::Udp, &[0; 5000]).packet();
    let frame = [&LINK[..], &packet].concat();
    let mut out = Vec::new();
    for (max_bytes, payload) in [(28 + 3000, 3000), (28 + 2999, 2000), (28 + 2000, 2000), (28 + 1999, 1000)] {
        let mut segments = Segments::from_frame(&frame, LINK.len(), 1000, None).unwrap();
        let of = segments.write_next_large(max_bytes, &mut out).unwrap();
        assert_eq!((out.len(), of.is_some()), (LINK.len() + 28 + payload, payload > 1000), "{max_bytes}");
    }
}

#[test]
fn what_is_to_be_divided_within_a_tunnel_is_refused() {
    let packet = Sample::new(samples::V4, SampleKind::Udp, &[0; 3000]).packet();
    assert!(Segments::from_frame(&packet, 0, 1000, Some(20)).is_ok());
    let error = Segments::from_frame(&packet, 0, 1000, Some(78)).unwrap_err();
    assert!(error.to_string().contains("a tunnel's"), "{error}");
}

#[test]
fn what_may_be_fragmented_is_merged_only_as_the_identifications_follow() {
    let packet = |may_be_fragmented: bool, identification: u16, sequence: u32| {
        let mut packet = Sample::new(samples::V4, SampleKind::Tcp(sequence, Some(1), [false; 3]), &[7; 100]).packet();
        let flags: u16 = if may_be_fragmented { 0 } else { 0x4000 };
        packet[4..6].copy_from_slice(&identification.to_be_bytes());
        packet[6..8].copy_from_slice(&flags.to_be_bytes());
        checksum::set_ipv4_header(&mut packet[..20]);
        packet
    };
    for (may_be_fragmented, identifications, is_merged) in
        [(true, [7, 8], true), (true, [u16::MAX, 0], true), (true, [7, 9], false), (false, [7, 9], true)]
    {
        let [mut first, second] = [0, 1].map(|n| packet(may_be_fragmented, identifications[n], 100 * n as u32));
        let merged = merge(
            &mut first,
            0,
            (None, false),
            MergePart { packet: &second, segment_bytes: None, has_partial_checksum: false },
        );
        assert_eq!(merged.is_some(), is_merged, "{may_be_fragmented}: {identifications:?}");
    }
}

#[test]
fn a_flow_is_known_by_its_ends_its_protocol_and_its_version() {
    let shape = |ends, kind| MergeProfile::from_packet(&Sample::new(ends, kind, b"data").packet()).unwrap();
    let tcp = |sequence| SampleKind::Tcp(sequence, Some(1), [false; 3]);
    let seen = shape(samples::V4, tcp(1));
    assert!(seen.is_same_flow(&shape(samples::V4, tcp(9))));
    // Time to live, traffic class, acknowledgment, window and data are no part of it.
    for (ends, places) in [(samples::V4, [8, 1, 31, 35, 43]), (samples::V6, [7, 1, 51, 55, 63])] {
        let packet = Sample::new(ends, tcp(1), b"data").packet();
        for at in places {
            let mut other = packet.clone();
            other[at] ^= 1;
            assert!(
                MergeProfile::from_packet(&packet).unwrap().is_same_flow(&MergeProfile::from_packet(&other).unwrap()),
                "{ends:?}, byte {at}"
            );
        }
    }
    let ends = ("[2002:db8::1]:40000", samples::V6.1);
    assert!(!shape(samples::V6, tcp(1)).is_same_flow(&shape(ends, tcp(1))));
    for (ends, kind) in [
        (samples::V4, SampleKind::Udp),
        (samples::V6, tcp(1)),
        (("192.0.2.1:40000", "198.51.100.2:5202"), tcp(1)),
        (("192.0.2.9:40000", "198.51.100.2:5201"), tcp(1)),
    ] {
        let other = shape(ends, kind);
        assert!(!seen.is_same_flow(&other) && !other.is_same_flow(&seen), "{ends:?}");
    }
}

/// As network cards and the kernel do it: what has its own say in a header stays a packet of its own.
#[test]
fn only_plain_data_of_a_whole_packet_can_be_merged() {
    let tcp = || Sample::new(samples::V4, SampleKind::Tcp(1, Some(1), [false; 3]), b"data").packet();
    let udp = || Sample::new(samples::V6, SampleKind::Udp, b"data").packet();
    let can_merge = |change: &dyn Fn(&mut Vec<u8>), mut packet: Vec<u8>| {
        change(&mut packet);
        MergeProfile::from_packet(&packet).map(|shape| shape.can_merge)
    };
    // Flags of TCP: ACK with FIN, PSH or ECE; with RST, SYN, URG, CWR; none; the reserved ones.
    for (flags, expected) in
        [(0x10, true), (0x11, true), (0x18, true), (0x50, true), (0x14, false), (0x12, false), (0x30, false)]
    {
        assert_eq!(can_merge(&|packet| packet[33] = flags, tcp()), Some(expected), "{flags:#x}");
    }
    for (at, value) in [(33, 0x90), (33, 0x00), (33, 0x01), (32, 0x51), (32, 0x58)] {
        assert_eq!(can_merge(&|packet| packet[at] = value, tcp()), Some(false), "byte {at}: {value:#x}");
    }
    // Whole packets, which may or may not be fragmented; fragments; one with options, and of another length or version.
    for (at, value, expected) in [
        (6, 0x00, Some(true)),
        (6, 0x40, Some(true)),
        (6, 0x80, Some(true)),
        (6, 0x20, None),
        (6, 0x01, None),
        (7, 0x01, None),
        (0, 0x46, None),
        (0, 0x55, None),
        (3, 43, None),
        (3, 45, None),
        (9, 1, None),
        // Headers of TCP that are too short, and longer than the packet.
        (32, 0x40, None),
        (32, 0x60, Some(false)),
        (32, 0x70, None),
    ] {
        assert_eq!(can_merge(&|packet| packet[at] = value, tcp()), expected, "byte {at}: {value:#x}");
    }
    // UDP with and without a checksum, of one byte of which is zero; of another length; behind an extension header.
    for (at, value, expected) in [
        (46, [0, 1], Some(true)),
        (46, [1, 0], Some(true)),
        (46, [0, 0], Some(false)),
        (44, [0, 11], Some(false)),
        (44, [1, 12], Some(false)),
        (4, [0, 13], None),
        (6, [0, 64], None),
    ] {
        assert_eq!(can_merge(&|packet| packet[at..at + 2].copy_from_slice(&value), udp()), expected, "{at}: {value:?}");
    }
    for other_version in [0x45, 0x50, 0x70] {
        assert_eq!(can_merge(&|packet| packet[0] = other_version, udp()), None);
    }
    for length in 0..udp().len() {
        assert!(MergeProfile::from_packet(&udp()[..length]).is_none(), "{length}");
    }
    let empty = |kind| MergeProfile::from_packet(&Sample::new(samples::V4, kind, b"").packet()).unwrap();
    assert!(!empty(SampleKind::Udp).can_merge && !empty(SampleKind::Tcp(1, Some(1), [false; 3])).can_merge);
}

#[test]
fn a_merge_profile_has_the_offsets_and_says_what_ends_a_group() {
    for (ends, kind, expected) in [
        (samples::V4, SampleKind::Udp, (20, 28, protocol::UDP, 4, false)),
        (samples::V6, SampleKind::Udp, (40, 48, protocol::UDP, 4, false)),
        (samples::V4, SampleKind::Tcp(1, Some(1), [false; 3]), (20, 40, protocol::TCP, 4, false)),
        (samples::V6, SampleKind::Tcp(1, Some(1), [false, true, false]), (40, 60, protocol::TCP, 4, true)),
    ] {
        // In UDP, the place of the flags of TCP is in the payload.
        let shape = MergeProfile::from_packet(&Sample::new(ends, kind, &[0xff; 4]).packet()).unwrap();
        let found =
            (shape.transport_offset, shape.payload_offset, shape.protocol, shape.payload_bytes, shape.ends_group);
        assert_eq!(found, expected, "{ends:?}, {kind:?}");
    }
    let long = Sample::new(samples::V4, SampleKind::Udp, &[0xff; 40]).packet();
    assert!(!MergeProfile::from_packet(&long).unwrap().ends_group);
}

#[test]
fn what_is_merged_ends_as_its_last_packet_does_and_what_comes_after_an_end_is_not_merged() {
    for ends in [samples::V4, samples::V6] {
        let packet = |number: u32, flags: u8| {
            let kind = SampleKind::Tcp(100 * number, Some(1), [false; 3]);
            let mut packet = Sample::new(ends, kind, &[7; 100]).packet();
            let at = packet.len() - 120 + 13;
            packet[at] |= flags;
            checksum::set(&mut packet).unwrap();
            packet
        };
        let join = |buffer: &mut Vec<u8>, of, next: &[u8]| {
            merge(buffer, 0, (of, false), MergePart { packet: next, segment_bytes: None, has_partial_checksum: false })
        };
        let mut buffer = packet(0, 0);
        let of = join(&mut buffer, None, &packet(1, FIN | PSH));
        assert_eq!(of.map(NonZeroU16::get), Some(100));
        let headers = Headers::parse(&buffer).unwrap();
        assert!(checksum::is_header_valid(&buffer) && headers.total_len == buffer.len());
        assert_eq!((headers.tcp().unwrap().payload_len, headers.tcp().unwrap().fin), (200, true));
        assert_eq!(buffer[headers.transport_offset + 13] & PSH, PSH);
        assert_eq!(join(&mut buffer, of, &packet(2, 0)), None, "it has ended");
        let mut repeated = packet(1, 0);
        assert_eq!(join(&mut repeated, None, &packet(1, 0)), None, "the same again");
        let mut invalid = packet(0, 0);
        invalid[100] ^= 1;
        assert_eq!(join(&mut invalid, None, &packet(1, 0)), None, "it would become valid");
    }
}
