use super::*;
use crate::flow::FlowKey;
use crate::offload::PartialChecksum;
use crate::reply::reject;
use crate::samples::{self, Sample, SampleKind, V4, V6};
use proptest::prelude::*;
use std::net::SocketAddr;

/// Headers with another address and port, or identifier, at one end.
fn with(headers: &Headers, end: PacketEnd, to: SocketAddr) -> Headers {
    let mut changed = *headers;
    changed.set_address(end, to.ip());
    changed.set_port(end, to.port());
    changed
}

fn rewritten(packet: &mut [u8], end: PacketEnd, to: SocketAddr) -> Result<(), RewriteError> {
    let headers = Headers::parse_truncated(packet).unwrap();
    rewrite(packet, &headers, &with(&headers, end, to))
}

#[test]
fn udp_without_a_checksum_stays_without() {
    let mut packet = Sample::new(V4, SampleKind::Udp, b"x").packet();
    packet[26..28].fill(0);
    rewritten(&mut packet, PacketEnd::Source, "203.0.113.9:1234".parse().unwrap()).unwrap();
    assert_eq!(packet[26..28], [0, 0]);
    assert!(checksum::is_valid(&packet).unwrap());
}

#[test]
fn udp_whose_checksum_becomes_zero_sends_all_ones() {
    let mut packet = Sample::new(V4, SampleKind::Udp, b"").packet();
    // The port that takes up all of the checksum, so that the new one is zero.
    let checksum = u16::from_be_bytes([packet[26], packet[27]]);
    let port = (u32::from(checksum) + 40000) % 0xffff;
    rewritten(&mut packet, PacketEnd::Source, format!("192.0.2.1:{port}").parse().unwrap()).unwrap();
    assert_eq!(packet[26..28], [0xff, 0xff]);
    assert!(checksum::is_valid(&packet).unwrap());
}

#[test]
fn an_echo_reply_of_zeros_stays_valid() {
    let mut packet = Sample::new(V4, SampleKind::Echo, &[0; 8]).packet();
    packet[20..].fill(0);
    checksum::set(&mut packet).unwrap();
    let zeros = packet.clone();
    for port in [0, 1, 0] {
        rewritten(&mut packet, PacketEnd::Destination, format!("198.51.100.2:{port}").parse().unwrap()).unwrap();
        assert!(checksum::is_valid(&packet).unwrap());
    }
    assert_eq!(packet, zeros);
}

#[test]
fn what_is_rewritten_to_the_same_address_has_the_same_sum() {
    // Another form of a sum of zero, which nobody sends and which is not this one's to correct.
    let mut packet = Sample::new(V4, SampleKind::Echo, b"x").packet();
    packet[10..12].fill(0);
    packet[4..6].fill(0);
    let identification = checksum::compute(&packet[..20]);
    packet[4..6].copy_from_slice(&identification.to_be_bytes());
    packet[10..12].fill(0xff);
    assert!(checksum::is_header_valid(&packet));
    let before = packet.clone();
    rewritten(&mut packet, PacketEnd::Source, "192.0.2.1:77".parse().unwrap()).unwrap();
    assert_eq!((&packet[..20], &packet[24..26]), (&before[..20], &[0, 77][..]));
}

#[test]
fn a_packet_of_nothing_but_its_header_is_rewritten_and_one_that_is_shorter_refused() {
    for (ends, to) in [(V4, "203.0.113.9:1"), (V6, "[2001:db8::9]:1")] {
        let mut packet = Sample::new(ends, SampleKind::Udp, b"").packet();
        packet.truncate(if ends == V4 { 20 } else { 40 });
        let length = if ends == V4 { [0, 20] } else { [0, 0] };
        let at = if ends == V4 { 2 } else { 4 };
        packet[at..at + 2].copy_from_slice(&length);
        checksum::set(&mut packet).unwrap();
        rewritten(&mut packet, PacketEnd::Source, to.parse().unwrap()).unwrap();
        let headers = Headers::parse(&packet).unwrap();
        assert_eq!(headers.source, to.parse::<SocketAddr>().unwrap().ip());
        assert!(checksum::is_valid(&packet).unwrap());
        // Headers that this packet does not have.
        let (before, mut other) = (packet.clone(), headers);
        other.transport_offset = headers.total_len + 1;
        let error =
            rewrite(&mut packet, &other, &with(&other, PacketEnd::Source, ends.0.parse().unwrap())).unwrap_err();
        assert!(matches!(error, RewriteError::Length { .. }) && packet == before);
    }
}

#[test]
fn sums_of_udp_lite_and_dccp_follow_the_addresses() {
    for (ends, to) in [(V4, "203.0.113.9:1"), (V6, "[2001:db8::9]:1")] {
        for protocol in [33, 136] {
            // All of the segment is covered, and the sum stands where UDP has it.
            let mut packet = Sample::new(ends, SampleKind::Udp, b"covered").packet();
            packet[if ends == V4 { 9 } else { 6 }] = protocol;
            let headers = Headers::parse(&packet).unwrap();
            let start = headers.transport_offset;
            packet[start + 6..start + 8].fill(0);
            let sum = checksum::compute_transport(headers.source, headers.destination, protocol, &packet[start..]);
            packet[start + 6..start + 8].copy_from_slice(&sum.to_be_bytes());
            rewritten(&mut packet, PacketEnd::Source, to.parse().unwrap()).unwrap();
            let source = to.parse::<SocketAddr>().unwrap().ip();
            assert_eq!(checksum::compute_transport(source, headers.destination, protocol, &packet[start..]), 0);
        }
    }
}

#[test]
fn only_a_whole_icmp_error_quotes_a_packet() {
    let quoted = Sample::new(V4, SampleKind::Udp, b"x").packet();
    let error = samples::port_unreachable(&quoted);
    let quote = |packet: &[u8]| QuotedPacket::from_error(packet, &Headers::parse(packet).unwrap());
    assert_eq!(quote(&error).map(|quote| quote.offset), Some(28));
    let mut fragment = error.clone();
    fragment[6] = 0x20;
    assert!(quote(&fragment).is_none());
    // A packet within another one is no quote.
    for kind in [SampleKind::Udp, SampleKind::Echo] {
        assert!(quote(&Sample::new(V4, kind, &quoted).packet()).is_none());
    }
}

#[test]
fn the_other_version_is_refused_and_nothing_changes() {
    let mut packet = Sample::new(V6, SampleKind::Udp, b"x").packet();
    let before = packet.clone();
    let error = rewritten(&mut packet, PacketEnd::Destination, "203.0.113.9:1".parse().unwrap()).unwrap_err();
    assert!(matches!(error, RewriteError::Version { .. }) && packet == before);
}

#[test]
fn a_quoted_packet_is_rewritten_as_far_as_it_goes() {
    for ends in [V4, V6] {
        let packet = Sample::new(ends, SampleKind::Udp, &[1; 1400]).packet();
        let error = reject(&packet).unwrap();
        let start = Headers::parse(&error).unwrap().transport_offset + 8;
        for length in [error.len() - start, Headers::parse(&packet).unwrap().transport_offset + 8] {
            let mut quote = error[start..start + length].to_vec();
            let to: SocketAddr = if ends == V4 { "203.0.113.9:99" } else { "[2001:db8::9]:99" }.parse().unwrap();
            rewritten(&mut quote, PacketEnd::Source, to).unwrap();
            let mut whole = packet.clone();
            rewritten(&mut whole, PacketEnd::Source, to).unwrap();
            assert!(whole.starts_with(&quote));
        }
    }
}

#[test]
fn headers_of_another_packet_are_refused() {
    let headers = Headers::parse(&Sample::new(V4, SampleKind::Udp, &[1; 100]).packet()).unwrap();
    let mut short = Sample::new(V4, SampleKind::Udp, b"x").packet();
    let before = short.clone();
    let to = with(&headers, PacketEnd::Source, "203.0.113.9:1".parse().unwrap());
    assert_eq!(rewrite(&mut short, &headers, &to), Err(RewriteError::Length { len: short.len() }));
    assert_eq!(short, before);
}

#[test]
fn padding_behind_the_packet_does_not_change() {
    // A TCP header of which only the ports are within the packet.
    let mut packet = Sample::new(V4, SampleKind::Tcp(1, Some(2), [false; 3]), b"").packet();
    packet[3] = 24;
    let before = packet.clone();
    rewritten(&mut packet, PacketEnd::Source, "203.0.113.9:1".parse().unwrap()).unwrap();
    assert_eq!(packet[24..], before[24..]);
    assert_eq!(packet[20..22], [0, 1]);
}

#[test]
fn the_quote_of_an_error_is_rewritten_and_the_error_stays_valid() {
    for (ends, payload) in [(V4, 33), (V6, 33), (V4, 0), (V6, 1400)] {
        for kind in [SampleKind::Udp, SampleKind::Tcp(1, None, [true, false, false]), SampleKind::Echo] {
            let sample = Sample::new(ends, kind, &vec![5; payload]);
            let mut error = samples::port_unreachable(&sample.packet());
            let headers = Headers::parse(&error).unwrap();
            let quote = QuotedPacket::from_error(&error, &headers).unwrap();
            assert_eq!(
                (quote.headers.source, quote.headers.destination),
                (sample.source.ip(), sample.destination.ip())
            );
            let to: SocketAddr = if ends == V4 { "203.0.113.9:99" } else { "[2001:db8::9]:99" }.parse().unwrap();
            rewrite_quote(&mut error, &quote, &with(&quote.headers, PacketEnd::Source, to)).unwrap();
            assert!(checksum::is_valid(&error).unwrap());
            let changed = QuotedPacket::from_error(&error, &headers).unwrap();
            assert_eq!((changed.headers.source, changed.headers.port(PacketEnd::Source)), (to.ip(), Some(99)));
            assert_eq!(
                error[quote.offset - 4..quote.offset],
                [0; 4],
                "only the checksum of the error's header changes"
            );
        }
    }
    let echo = Sample::new(V4, SampleKind::Echo, b"not an error").packet();
    assert_eq!(QuotedPacket::from_error(&echo, &Headers::parse(&echo).unwrap()), None);
}

#[test]
fn ports_are_read_from_a_quote_of_eight_bytes_of_tcp() {
    // RFC 792: "The internet header plus the first 64 bits of the original datagram's data."
    let sample = Sample::new(V4, SampleKind::Tcp(1, None, [true, false, false]), b"");
    let mut error = samples::port_unreachable(&sample.packet());
    error.truncate(28 + 28);
    error[3] = 56;
    checksum::set(&mut error).unwrap();
    let quote = QuotedPacket::from_error(&error, &Headers::parse(&error).unwrap()).unwrap();
    assert_eq!(FlowKey::from_headers(&quote.headers).source, sample.source);
    rewrite_quote(&mut error, &quote, &with(&quote.headers, PacketEnd::Source, "203.0.113.9:99".parse().unwrap()))
        .unwrap();
    assert!(checksum::is_valid(&error).unwrap());
}

proptest! {
    #[test]
    fn a_round_trip_restores_the_packet_and_each_step_is_valid(
        ((packet, sample), to) in samples::any_packet().prop_flat_map(|made| {
            let v4 = made.1.source.is_ipv4();
            (Just(made), samples::any_end(v4))
        }),
        at_source: bool
    ) {
        let (end, original) = if at_source { (PacketEnd::Source, sample.source) } else { (PacketEnd::Destination, sample.destination) };
        let identifier = Headers::parse(&packet).unwrap().icmp().and_then(|icmp| icmp.identifier);
        let original = SocketAddr::new(original.ip(), identifier.unwrap_or(original.port()));
        let mut changed = packet.clone();
        rewritten(&mut changed, end, to).unwrap();
        prop_assert!(checksum::is_valid(&changed).unwrap());
        let headers = Headers::parse(&changed).unwrap();
        prop_assert_eq!((headers.address(end), headers.port(end)), (to.ip(), Some(to.port())));
        rewritten(&mut changed, end, original).unwrap();
        prop_assert_eq!(changed, packet);
    }

    /// What the network card, or [`PartialChecksum`], completes afterwards is valid.
    #[test]
    fn an_offloaded_checksum_is_completed_after_rewriting(
        ((mut packet, sample), to) in samples::any_packet().prop_flat_map(|made| {
            let v4 = made.1.source.is_ipv4();
            (Just(made), samples::any_end(v4))
        })
    ) {
        prop_assume!(!matches!(sample.kind, SampleKind::Echo));
        let headers = Headers::parse(&packet).unwrap();
        let (start, offset) = (headers.transport_offset, checksum::offset_in_header(headers.protocol).unwrap());
        let length = packet.len() - start;
        let pseudo = checksum::of_pseudo_header(headers.source, headers.destination, headers.protocol, length);
        packet[start + offset..start + offset + 2].copy_from_slice(&pseudo.to_be_bytes());
        rewrite_offloaded(&mut packet, &headers, &with(&headers, PacketEnd::Source, to)).unwrap();
        PartialChecksum { start: start as u16, offset: offset as u16 }.complete(&mut packet).unwrap();
        prop_assert!(checksum::is_valid(&packet).unwrap());
        prop_assert_eq!(Headers::parse(&packet).unwrap(), with(&headers, PacketEnd::Source, to));
    }

    #[test]
    fn a_rewritten_packet_parses_as_the_headers_asked_for(
        ((packet, _), source, destination) in samples::any_packet().prop_flat_map(|made| {
            let v4 = made.1.source.is_ipv4();
            (Just(made), samples::any_end(v4), samples::any_end(v4))
        })
    ) {
        let headers = Headers::parse(&packet).unwrap();
        let wanted = with(&with(&headers, PacketEnd::Source, source), PacketEnd::Destination, destination);
        let mut changed = packet;
        rewrite(&mut changed, &headers, &wanted).unwrap();
        prop_assert_eq!(Headers::parse(&changed).unwrap(), wanted);
        prop_assert!(checksum::is_valid(&changed).unwrap());
    }
}
