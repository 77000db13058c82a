use super::*;
use crate::checksum;
use crate::samples::{self, Sample, SampleKind, V4, V6};
use proptest::prelude::*;

fn tcp(acknowledgment: Option<u32>, flags: [bool; 3], payload: &[u8]) -> Vec<u8> {
    Sample::new(V4, SampleKind::Tcp(u32::MAX, acknowledgment, flags), payload).packet()
}

#[test]
fn a_syn_is_refused_as_a_closed_port_refuses_it() {
    let answer = reject(&tcp(None, [true, false, false], b"")).unwrap();
    let headers = Headers::parse(&answer).unwrap();
    let reset = headers.tcp().unwrap();
    assert!(reset.rst && !reset.syn);
    assert_eq!((reset.sequence, reset.acknowledgment), (0, Some(0)), "the SYN counts as one, and numbers wrap");
    assert_eq!(headers.ports, Some((5201, 40000)));
}

#[test]
fn a_segment_with_an_acknowledgment_is_reset_where_it_is_expected() {
    let answer = reject(&tcp(Some(77), [false; 3], b"data")).unwrap();
    let reset = *Headers::parse(&answer).unwrap().tcp().unwrap();
    assert_eq!((reset.sequence, reset.acknowledgment, reset.rst), (77, None, true));
}

#[test]
fn udp_is_told_that_the_port_is_unreachable_and_quoted() {
    for (ends, kind_and_code, most) in [(V4, (3, 3), 576), (V6, (1, 4), 1280)] {
        for length in [0, 100, 1400] {
            let packet = Sample::new(ends, SampleKind::Udp, &vec![9; length]).packet();
            let answer = reject(&packet).unwrap();
            let headers = Headers::parse(&answer).unwrap();
            assert_eq!((answer[headers.transport_offset], answer[headers.transport_offset + 1]), kind_and_code);
            assert_eq!(headers.destination, Headers::parse(&packet).unwrap().source);
            let quote = &answer[headers.transport_offset + 8..];
            assert!(packet.starts_with(quote) && answer.len() <= most);
            assert!(quote.len() == packet.len() || answer.len() == most, "as much as may be quoted is");
        }
    }
}

#[test]
fn a_packet_that_is_too_long_is_told_what_passes() {
    for (ends, kind_and_code, mtu, told) in
        [(V4, [3, 4], 1100, 1100), (V6, [2, 0], 1100, 1280), (V4, [3, 4], 1404, 1404), (V6, [2, 0], 1404, 1404)]
    {
        let packet = Sample::new(ends, SampleKind::Udp, &[9; 1440]).packet();
        let answer = packet_too_big(&packet, mtu).unwrap();
        let headers = Headers::parse(&answer).unwrap();
        let (icmp, quote) = answer[headers.transport_offset..].split_at(8);
        assert_eq!((&icmp[..2], u32::from_be_bytes(icmp[4..].try_into().unwrap())), (&kind_and_code[..], told));
        assert!(packet.starts_with(quote) && checksum::is_valid(&answer) == Ok(true));
        assert_eq!(headers.destination, Headers::parse(&packet).unwrap().source);
        assert_eq!(packet_too_big(&answer, mtu), None, "not about an error");
    }
}

#[test]
fn nothing_is_answered_to_resets_errors_fragments_and_many_receivers() {
    assert_eq!(reject(&tcp(Some(1), [false, false, true], b"")), None);
    let error = reject(&Sample::new(V4, SampleKind::Udp, b"").packet()).unwrap();
    assert_eq!(reject(&error), None);
    let mut fragment = Sample::new(V4, SampleKind::Udp, b"").packet();
    fragment[6] = 0x20;
    assert_eq!(reject(&fragment), None);
    assert_eq!(reset_both(&tcp(Some(1), [false, false, true], b"")), None);
    let mut fragment = tcp(Some(1), [false; 3], b"");
    fragment[6] = 0x20;
    assert_eq!(reset_both(&fragment), None);
    for ends in [
        ("192.0.2.1:1", "224.0.0.251:5353"),
        ("192.0.2.1:1", "255.255.255.255:67"),
        ("0.0.0.0:68", "192.0.2.1:67"),
        ("[fe80::1]:1", "[ff02::fb]:5353"),
        ("[::]:1", "[2001:db8::1]:1"),
    ] {
        assert_eq!(reject(&Sample::new(ends, SampleKind::Udp, b"").packet()), None, "{ends:?}");
    }
}

#[test]
fn a_ping_is_refused_as_prohibited() {
    let answer = reject(&Sample::new(V6, SampleKind::Echo, b"ping").packet()).unwrap();
    assert_eq!(answer[40..42], [1, 1]);
}

#[test]
fn a_packet_without_resources_is_prohibited_whatever_it_carries() {
    for kind in [SampleKind::Udp, SampleKind::Tcp(1, None, [true, false, false]), SampleKind::Echo] {
        let answer = prohibit(&Sample::new(V4, kind, b"data").packet()).unwrap();
        assert_eq!(answer[20..22], [3, 13], "RFC 5508 REQ-8");
        assert_eq!(prohibit(&answer), None);
    }
}

#[test]
fn a_reset_of_both_is_what_each_end_expects_next() {
    let seen = Sample::new(V6, SampleKind::Tcp(1000, Some(500), [false; 3]), b"12345").packet();
    let pair = reset_both(&seen).unwrap();
    let (back, onward) = (Headers::parse(&pair.to_source).unwrap(), Headers::parse(&pair.to_destination).unwrap());
    let (back_tcp, onward_tcp) = (back.tcp().unwrap(), onward.tcp().unwrap());
    assert_eq!((back_tcp.sequence, back_tcp.acknowledgment, back.ports), (500, Some(1005), Some((5201, 40000))));
    assert_eq!((onward_tcp.sequence, onward_tcp.acknowledgment, onward.ports), (1000, Some(500), Some((40000, 5201))));
    assert!(back_tcp.rst && onward_tcp.rst);
    assert_eq!(reset_both(&tcp(None, [true, false, false], b"")), None, "no sequence number is known for the sender");
}

proptest! {
    #[test]
    fn every_answer_is_valid_goes_back_and_is_not_answered_again((packet, sample) in samples::any_packet()) {
        if let Some(answer) = reject(&packet) {
            let headers = Headers::parse(&answer).unwrap();
            prop_assert!(checksum::is_valid(&answer).unwrap());
            prop_assert_eq!((headers.source, headers.destination), (sample.destination.ip(), sample.source.ip()));
            prop_assert_eq!(reject(&answer), None);
        }
        if let Some(pair) = reset_both(&packet) {
            prop_assert!(checksum::is_valid(&pair.to_source).unwrap() && checksum::is_valid(&pair.to_destination).unwrap());
        }
    }
}
