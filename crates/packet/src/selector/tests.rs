use super::*;
use crate::samples::{self, Sample, SampleKind};
use crate::{Headers, protocol};
use proptest::prelude::*;

fn v6(next: u8, rest: &[u8]) -> Vec<u8> {
    let mut packet = Sample::new(samples::V6, SampleKind::Udp, &[]).packet();
    packet.truncate(40);
    packet[6] = next;
    packet[4..6].copy_from_slice(&(rest.len() as u16).to_be_bytes());
    packet.extend(rest);
    packet
}

fn protocol_and_detail(packet: &[u8]) -> (u8, FlowDetail) {
    let selector = FlowSelector::from_packet(packet).unwrap();
    (selector.protocol, selector.detail)
}

#[test]
fn extension_headers_are_followed_to_the_ports() {
    let ports = [0x9c, 0x40, 0x14, 0x51, 0, 8, 0, 0];
    let hop_by_hop = [HOP_BY_HOP, 0, 1, 4, 0, 0, 0, 0];
    let chain = [&[DESTINATION_OPTIONS][..], &hop_by_hop[1..], &[protocol::UDP, 0, 1, 4, 0, 0, 0, 0], &ports].concat();
    assert_eq!(protocol_and_detail(&v6(HOP_BY_HOP, &chain)), (protocol::UDP, FlowDetail::Ports(40_000, 5201)));
    // A fragment header that says "whole" hides nothing.
    let atomic = [&[protocol::UDP, 0, 0, 0, 1, 2, 3, 4][..], &ports].concat();
    assert_eq!(protocol_and_detail(&v6(FRAGMENT, &atomic)), (protocol::UDP, FlowDetail::Ports(40_000, 5201)));
    // An endless chain is given up.
    let endless = hop_by_hop.repeat(50);
    assert_eq!(protocol_and_detail(&v6(HOP_BY_HOP, &endless)), (HOP_BY_HOP, FlowDetail::None));
    // One that leads out of the packet, too.
    assert_eq!(
        protocol_and_detail(&v6(HOP_BY_HOP, &[protocol::UDP, 200, 0, 0, 0, 0, 0, 0])),
        (protocol::UDP, FlowDetail::None)
    );
}

#[test]
fn options_of_ipv4_are_passed_over_and_a_header_that_is_too_short_tells_no_ports() {
    let mut packet = Sample::new(samples::V4, SampleKind::Udp, &[]).packet();
    packet.splice(20..20, [1; 4]);
    packet[0] = 0x46;
    assert_eq!(protocol_and_detail(&packet), (protocol::UDP, FlowDetail::Ports(40_000, 5201)));
    packet[0] = 0x44;
    assert_eq!(protocol_and_detail(&packet), (protocol::UDP, FlowDetail::None));
}

#[test]
fn a_flow_is_shown_with_its_ports() {
    for (kind, ends) in [
        (SampleKind::Udp, ["192.0.2.1:40000", "198.51.100.2:5201"]),
        (SampleKind::Echo, ["192.0.2.1:0", "198.51.100.2:0"]),
    ] {
        let key = FlowSelector::from_packet(&Sample::new(samples::V4, kind, &[]).packet()).unwrap().flow_key();
        assert_eq!([key.source, key.destination].map(|end| end.to_string()), ends);
    }
}

#[test]
fn all_fragments_of_a_datagram_are_one_flow() {
    let ports = [0x9c, 0x40, 0x14, 0x51, 0, 8, 0, 0];
    let part = |offset_and_more: [u8; 2]| {
        let [high, low] = offset_and_more;
        v6(FRAGMENT, &[&[protocol::UDP, 0, high, low, 0, 0, 0, 1][..], &ports].concat())
    };
    let first = FlowSelector::from_packet(&part([0, 1])).unwrap();
    assert_eq!(first.detail, FlowDetail::None);
    assert_eq!(FlowSelector::from_packet(&part([5, 0xa8])).unwrap(), first);
    let mut packet = Sample::new(samples::V4, SampleKind::Udp, b"data").packet();
    packet[6] = 0x20;
    let first = FlowSelector::from_packet(&packet).unwrap();
    packet[6..8].copy_from_slice(&[0, 9]);
    assert_eq!((FlowSelector::from_packet(&packet).unwrap(), first.detail), (first, FlowDetail::None));
    // "Don't fragment" is no fragment.
    packet[6..8].copy_from_slice(&[0x40, 0]);
    assert_eq!(protocol_and_detail(&packet), (protocol::UDP, FlowDetail::Ports(40_000, 5201)));
}

#[test]
fn protocols_without_ports_have_what_stands_for_them() {
    let mut packet = Sample::new(samples::V4, SampleKind::Echo, &[]).packet();
    assert_eq!(protocol_and_detail(&packet), (protocol::ICMP, FlowDetail::Echo(1)));
    // "Unreachable" is no echo.
    packet[20] = 3;
    assert_eq!(protocol_and_detail(&packet), (protocol::ICMP, FlowDetail::None));
    let mut packet = Sample::new(samples::V6, SampleKind::Echo, &[]).packet();
    for (kind, detail) in
        [(128, FlowDetail::Echo(1)), (129, FlowDetail::Echo(1)), (1, FlowDetail::None), (130, FlowDetail::None)]
    {
        packet[40] = kind;
        assert_eq!(protocol_and_detail(&packet), (protocol::ICMPV6, detail));
    }
    assert_eq!(
        protocol_and_detail(&v6(ESP, &[1, 2, 3, 4, 0, 0, 0, 9])),
        (ESP, FlowDetail::SecurityAssociation(0x0102_0304))
    );
    // What is authenticated only can be read.
    let authenticated = [&[protocol::UDP, 4, 0, 0][..], &[0; 20], &[0x9c, 0x40, 0x14, 0x51]].concat();
    assert_eq!(
        protocol_and_detail(&v6(AUTHENTICATION, &authenticated)),
        (protocol::UDP, FlowDetail::Ports(40_000, 5201))
    );
    let mut packet = Sample::new(samples::V4, SampleKind::Udp, &[]).packet();
    packet.splice(20..20, authenticated[..24].iter().copied());
    packet[9] = AUTHENTICATION;
    assert_eq!(protocol_and_detail(&packet), (protocol::UDP, FlowDetail::Ports(40_000, 5201)));
    assert_eq!(protocol_and_detail(&v6(89, &[])), (89, FlowDetail::None));
}

proptest! {
    #[test]
    fn whole_packets_are_told_apart_as_their_headers_say((packet, _) in samples::any_packet()) {
        let headers = Headers::parse(&packet).unwrap();
        let selector = FlowSelector::from_packet(&packet).unwrap();
        prop_assert_eq!((selector.source, selector.destination), (headers.source, headers.destination));
        prop_assert_eq!(selector.protocol, headers.protocol);
        if let Some((source, destination)) = headers.ports {
            prop_assert_eq!(selector.detail, FlowDetail::Ports(source, destination));
        }
    }

    #[test]
    fn any_bytes_are_survived(first: u8, bytes in prop::collection::vec(any::<u8>(), 0..120)) {
        let packet = [&[first][..], &bytes].concat();
        prop_assert!(FlowSelector::from_packet(&packet).is_none() || packet.len() >= 20);
    }
}
