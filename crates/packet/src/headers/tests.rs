use super::*;
use crate::rewrite::QuotedPacket;
use crate::samples::{self, Sample, SampleKind, V4, V6};
use crate::{FlowKey, checksum, reject, reset_both};
use proptest::prelude::*;

const HOP_BY_HOP: (u8, &[u8]) = (0, &[0, 0, 1, 4, 0, 0, 0, 0]);
const DESTINATION: (u8, &[u8]) = (60, &[0, 0, 1, 4, 0, 0, 0, 0]);

#[test]
fn extension_headers_are_passed_over() {
    let headers = Headers::parse(&samples::with_extensions(&[HOP_BY_HOP, DESTINATION])).unwrap();
    assert_eq!((headers.protocol, headers.transport_offset, headers.fragment), (protocol::UDP, 56, Fragment::Whole));
    assert_eq!(headers.ports, Some((40000, 5201)));
    assert!(checksum::is_valid(&samples::with_extensions(&[HOP_BY_HOP, DESTINATION])).unwrap());
}

#[test]
fn fragments_are_told_apart_and_only_the_first_has_ports() {
    for (field, fragment, ports) in [
        ([0, 0], Fragment::Whole, true),
        ([0, 1], Fragment::First, true),
        ([0, 8], Fragment::Later, false),
        ([0, 9], Fragment::Later, false),
    ] {
        let header = [0, 0, field[0], field[1], 0, 0, 0, 7];
        let headers = Headers::parse(&samples::with_extensions(&[HOP_BY_HOP, (44, &header)])).unwrap();
        assert_eq!((headers.fragment, headers.ports.is_some()), (fragment, ports), "{field:?}");
    }
    let mut packet = Sample::new(V4, SampleKind::Udp, b"payload").packet();
    for (field, fragment, ports) in [
        ([0x40, 0], Fragment::Whole, true),
        ([0x20, 0], Fragment::First, true),
        ([0x20, 1], Fragment::Later, false),
        ([0, 1], Fragment::Later, false),
    ] {
        packet[6..8].copy_from_slice(&field);
        let headers = Headers::parse(&packet).unwrap();
        assert_eq!((headers.fragment, headers.ports.is_some()), (fragment, ports), "{field:?}");
    }
}

#[test]
fn what_follows_the_packet_is_no_part_of_it() {
    for ends in [V4, V6] {
        let mut packet = Sample::new(ends, SampleKind::Tcp(1, Some(2), [false; 3]), b"12345").packet();
        let length = packet.len();
        packet.extend([0xee; 30]);
        let headers = Headers::parse(&packet).unwrap();
        assert_eq!((headers.total_len, headers.tcp().unwrap().payload_len), (length, 5));
    }
    let mut empty = Sample::new(V6, SampleKind::Udp, b"").packet();
    empty[4..6].fill(0);
    let headers = Headers::parse(&empty).unwrap();
    assert_eq!((headers.total_len, headers.transport), (40, None));
}

#[test]
fn a_packet_may_end_with_its_header_but_not_within_it() {
    let mut packet = Sample::new(V4, SampleKind::Udp, b"payload").packet();
    packet[3] = 20;
    let headers = Headers::parse(&packet).unwrap();
    assert_eq!((headers.total_len, headers.transport_offset, headers.transport), (20, 20, None));
    packet[3] = 19;
    assert!(matches!(Headers::parse(&packet), Err(ParseError::Header { .. })));
}

#[test]
fn a_segment_occupies_its_payload_and_a_number_for_each_of_syn_and_fin() {
    let tcp = |acknowledgment, flags| {
        let packet = Sample::new(V4, SampleKind::Tcp(1, acknowledgment, flags), b"12345").packet();
        *Headers::parse(&packet).unwrap().tcp().unwrap()
    };
    for (flags, length) in
        [([false; 3], 5), ([true, false, false], 6), ([false, true, false], 6), ([true, true, true], 7)]
    {
        assert_eq!(tcp(None, flags).sequence_len(), length, "{flags:?}");
    }
    // SYN alone, or with FIN, which is no answer either.
    for flags in [[true, false, false], [true, true, false]] {
        assert!(tcp(None, flags).is_connection_request() && !tcp(Some(2), flags).is_connection_request());
    }
    for flags in [[false; 3], [false, true, false], [false, false, true], [true, false, true]] {
        assert!(!tcp(None, flags).is_connection_request() && !tcp(Some(2), flags).is_connection_request(), "{flags:?}");
    }
}

#[test]
fn a_cut_packet_is_refused_but_its_beginning_can_be_read() {
    for ends in [V4, V6] {
        let packet = Sample::new(ends, SampleKind::Udp, &[7; 100]).packet();
        let beginning = &packet[..packet.len() - 60];
        assert_eq!(Headers::parse(beginning), Err(ParseError::Truncated { len: beginning.len() }));
        assert_eq!(Headers::parse_truncated(beginning).unwrap().ports, Some((40000, 5201)));
        assert_eq!(Headers::parse(&packet[..19]), Err(ParseError::Header { len: 19 }));
    }
}

#[test]
fn icmp_errors_are_known_in_both_versions() {
    for (ends, kinds) in [
        (V4, [(3, true), (11, true), (8, false), (0, false)]),
        (V6, [(1, true), (127, true), (128, false), (135, false)]),
    ] {
        let mut packet = Sample::new(ends, SampleKind::Echo, b"").packet();
        let offset = Headers::parse(&packet).unwrap().transport_offset;
        for (kind, is_error) in kinds {
            packet[offset] = kind;
            assert_eq!(Headers::parse(&packet).unwrap().is_icmp_error(), is_error, "{kind}");
        }
    }
}

proptest! {
    #[test]
    fn headers_say_what_the_packet_was_made_from((packet, sample) in samples::any_packet()) {
        let headers = Headers::parse(&packet).unwrap();
        let flow = FlowKey::from_headers(&headers);
        prop_assert_eq!(flow.reversed().reversed(), flow);
        prop_assert_eq!((flow.source.ip(), flow.destination.ip()), (sample.source.ip(), sample.destination.ip()));
        prop_assert_eq!(headers.total_len, packet.len());
        match (sample.kind, headers.transport.unwrap()) {
            (SampleKind::Udp, Transport::Udp(udp)) => {
                prop_assert_eq!((flow.source, flow.destination), (sample.source, sample.destination));
                prop_assert_eq!(udp.payload_len, sample.payload.len());
            }
            (SampleKind::Tcp(sequence, acknowledgment, flags), Transport::Tcp(tcp)) => {
                prop_assert_eq!((flow.source, flow.destination), (sample.source, sample.destination));
                prop_assert_eq!((tcp.sequence, tcp.acknowledgment), (sequence, acknowledgment));
                prop_assert_eq!([tcp.syn, tcp.fin, tcp.rst], flags);
                prop_assert_eq!(tcp.payload_len, sample.payload.len());
            }
            (SampleKind::Echo, Transport::Icmp(icmp)) => prop_assert!(!icmp.is_error && flow.source.port() == 0),
            (kind, transport) => prop_assert!(false, "{kind:?} read as {transport:?}"),
        }
    }

    #[test]
    fn no_bytes_make_anything_panic_or_reach_beyond_the_packet(bytes in samples::any_bytes(), to in samples::any_end(true)) {
        if let Ok(headers) = Headers::parse(&bytes) {
            prop_assert!(headers.transport_offset <= headers.total_len && headers.total_len <= bytes.len());
        }
        let _ = (Headers::parse_truncated(&bytes), checksum::is_valid(&bytes), reset_both(&bytes));
        let mut copy = bytes.clone();
        let _ = checksum::set(&mut copy);
        if let Ok(headers) = Headers::parse_truncated(&copy) {
            for end in [PacketEnd::Source, PacketEnd::Destination] {
                let mut changed = headers;
                changed.set_address(end, to.ip());
                changed.set_port(end, to.port());
                let _ = crate::rewrite::rewrite(&mut copy, &headers, &changed);
                if let Some(quote) = QuotedPacket::from_error(&copy, &headers) {
                    let mut changed = quote.headers;
                    changed.set_address(end, to.ip());
                    changed.set_port(end, to.port());
                    let _ = crate::rewrite::rewrite_quote(&mut copy, &quote, &changed);
                }
            }
        }
        prop_assert_eq!(copy.len(), bytes.len());
        if let Some(answer) = reject(&bytes) {
            prop_assert!(checksum::is_valid(&answer).unwrap());
        }
    }
}

/// The parser's own iteration over such extension headers reads past the packet.
#[test]
fn a_chain_of_extension_headers_that_breaks_off_is_refused() {
    let mut packet = samples::Sample::new(samples::V6, samples::SampleKind::Udp, &[0; 72]).packet();
    packet[6] = 0;
    packet[40..].fill(0);
    for cut in 0..packet.len() {
        assert!(Headers::parse_truncated(&packet[..cut]).is_err(), "of {cut} bytes");
    }
    assert_eq!(Headers::parse(&packet), Err(ParseError::Header { len: packet.len() }));
}
