//! What must hold for any bytes that may arrive: for the fuzzer, and for the test that replays its finds.

use kumade_packet::header_compression::{CompressiblePacket, DistanceOctets, MAX_HEADER_BYTES, ReferenceHeaders};
use kumade_packet::offload::{LargePacket, Offload, PARTIAL_CHECKSUM, Segments, cut_first};
use kumade_packet::{Classification, Ecn, Ethernet, FlowDetail, Headers, SavedSyn, checksum, ecn, tcp_option};
use std::num::NonZeroU16;

/// A frame as packet(7) gives it, behind the header that says what was left to the network card.
pub fn frame(data: &[u8]) {
    let Some((header, bytes)) = data.split_first_chunk::<{ Offload::HEADER_BYTES }>() else { return };
    let Some(ethernet) = Ethernet::parse(bytes) else { return };
    assert!(ethernet.payload_offset <= Ethernet::MAX_PAYLOAD_OFFSET);
    let (_, packet) = bytes.split_at(ethernet.payload_offset);
    check_classification(packet);
    marked(packet);
    check_offload_completion(packet, Offload::read(*header));
}

/// What a whole packet's headers say, its classification says too, as far as it looks.
fn check_classification(packet: &[u8]) {
    let Classification { selector, total_len, .. } = Classification::from_packet(packet);
    assert!(total_len <= packet.len());
    if let Ok(headers) = Headers::parse(packet) {
        let selector = selector.expect("a whole packet has addresses");
        assert_eq!((selector.source, selector.destination), (headers.source, headers.destination));
        assert_eq!(total_len, headers.total_len);
        if let FlowDetail::Ports(source, destination) = selector.detail
            && headers.ports.is_some()
        {
            assert!(!headers.is_fragment());
            assert_eq!(headers.ports, Some((source, destination)));
        }
    }
}

/// A mark is there afterwards, and harms no checksum.
fn marked(packet: &[u8]) {
    let was_valid = checksum::is_valid(packet) == Ok(true);
    let mut marked = packet.to_vec();
    if ecn::mark(&mut marked) {
        assert_eq!(ecn::read(&marked), Ecn::Ce);
        assert!(!was_valid || checksum::is_valid(&marked) == Ok(true));
    } else {
        assert_eq!(marked, packet);
    }
}

/// What a packet is divided into is valid, and no more than it should be.
fn check_offload_completion(packet: &[u8], offload: Offload) {
    if let Some(partial) = offload.checksum {
        let mut complete = packet.to_vec();
        let _ = partial.complete(&mut complete);
        assert_eq!(complete.len(), packet.len());
    }
    let Some(bytes) = offload.segment_bytes else { return };
    let Ok(mut segments) = Segments::from_frame(packet, 0, bytes, None) else { return };
    let (mut count, mut part) = (0, Vec::new());
    while segments.write_next(&mut part) {
        count += 1;
        assert!(checksum::is_valid(&part) == Ok(true), "{part:?}");
    }
    assert!(count >= 1 && count <= packet.len().div_ceil(bytes.into()));
    check_cuts(packet, bytes, count);
    check_partial_checksum(packet);
}

/// Cut off one by one, there are as many.
fn check_cuts(packet: &[u8], segment_bytes: u16, count: usize) {
    let (mut frame, mut start, mut left) = (packet.to_vec(), 0, NonZeroU16::new(segment_bytes));
    let (mut cuts, mut part) = (1, Vec::new());
    while let Some(rest) = left.and_then(|bytes| cut_first(&mut frame, start, (bytes, false), &mut part)) {
        assert!(checksum::is_valid(&part[start..]) == Ok(true), "{part:?}");
        (start, left, cuts) = (rest.start, rest.segment_bytes, cuts + 1);
    }
    assert_eq!(cuts, count);
}

/// A packet that is not to be divided, whose checksum is left to the network card.
fn check_partial_checksum(packet: &[u8]) {
    let Ok(large) = LargePacket::from_packet(packet, NonZeroU16::MAX) else { return };
    let (single, mut packet) = (LargePacket { segment_bytes: 0, ..large }, packet.to_vec());
    let length = packet.len();
    single.set_partial_checksum(&mut packet, length);
    let offload = Offload::read(single.virtio_header(&packet, 0));
    assert_eq!(offload.segment_bytes, None);
    offload.checksum.expect("it is partial").complete(&mut packet).expect("it is in the packet");
}

/// Headers of a SYN that a far end claims to have received.
pub fn saved_syn(data: &[u8]) {
    let Some(syn) = SavedSyn::read(data) else { return };
    // The header has room for 40 bytes of options, of two at least.
    assert!(syn.options.len() <= 20, "{syn:?}");
    assert!(syn.mss.is_none() || syn.options.contains(&tcp_option::MAXIMUM_SEGMENT_SIZE), "{syn:?}");
}

/// A packet whose headers are kept, behind its length and how many packets later the other is; and that, or what claims to be
/// compressed by them.
pub fn compressed_headers(data: &[u8]) {
    let Some(([length, later], rest)) = data.split_first_chunk() else { return };
    let (first, other) = rest.split_at(rest.len().min(usize::from(*length)));
    let Some(kept) = CompressiblePacket::parse(first) else { return };
    let (reference, later) = (ReferenceHeaders::new(&kept), i32::from(*later as i8));
    check_compression(&reference, other, later);
    let mut packet = Vec::new();
    if let Ok(is_partial) = reference.decompress(other, later, &mut packet) {
        assert!(packet.len() <= other.len() + MAX_HEADER_BYTES);
        let read = CompressiblePacket::parse(&packet).expect("whole, with lengths and a checksum that are right");
        assert_eq!(read.flow(), kept.flow());
        assert!(!is_partial || transport_checksum(&mut packet) == PARTIAL_CHECKSUM);
        check_compression(&reference, &packet, later);
    } else {
        assert!(packet.is_empty());
    }
}

/// What is compressed comes out as it was; but for its checksum, where that is partial.
fn check_compression(reference: &ReferenceHeaders, packet: &[u8], later: i32) {
    for is_partial in [false, true] {
        let parsed = CompressiblePacket::parse(packet).map(|packet| packet.with_partial_checksum(is_partial));
        let Some(compressed) = parsed.and_then(|packet| reference.compress(&packet, later, DistanceOctets::default()))
        else {
            continue;
        };
        assert!(compressed.as_ref().len() < compressed.replaced_bytes);
        let sent = [compressed.as_ref(), &packet[compressed.replaced_bytes..]].concat();
        let mut received = Vec::new();
        assert_eq!(reference.decompress(&sent, later, &mut received), Ok(is_partial));
        let mut expected = packet.to_vec();
        if is_partial {
            transport_checksum(&mut expected).copy_from_slice(&PARTIAL_CHECKSUM);
        }
        assert_eq!(received, expected);
    }
}

/// Of a packet without options of IP.
fn transport_checksum(packet: &mut [u8]) -> &mut [u8] {
    let (header, protocol) = if packet[0] >> 4 == 4 { (20, packet[9]) } else { (40, packet[6]) };
    let field = header + if protocol == kumade_packet::protocol::TCP { 16 } else { 6 };
    &mut packet[field..field + 2]
}
