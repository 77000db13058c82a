//! Mapping, filtering, hairpinning and refusal of the NAT44 (RFC 4787, RFC 5382, RFC 5508).

use super::traffic::*;
use kumade_middlebox::{
    Direction, DropCause, EndpointDependence, Middlebox, MiddleboxConfig, NatConfig, NatLimits, PacketAction,
    RefusalKind,
};
use kumade_packet::offload::PartialChecksum;
use kumade_packet::{Headers, checksum};
use kumade_units::{Span, Time};

/// RFC 4787 REQ-1: "A NAT MUST have an 'Endpoint-Independent Mapping' behavior." RFC 5382 REQ-1: the same for TCP.
#[test]
fn an_inside_endpoint_keeps_its_external_port_whatever_it_communicates_with() {
    for filtering in [EndpointDependence::EndpointIndependent, EndpointDependence::AddressAndPortDependent] {
        let mut router = router(super::traffic::filtering(filtering));
        for packet in [udp, |from: &str, to: &str, _: &[u8]| tcp(from, to, "S", b"")] {
            let mut source = |to| flow(&out(&mut router, &packet(CLIENT, to, b"x"), Time::ZERO).unwrap()).source;
            let first = source(SERVER);
            assert_eq!(first.ip().to_string(), EXTERNAL);
            assert_eq!((source("198.51.100.2:53"), source("192.0.2.9:5201")), (first, first));
        }
        assert_eq!(router.counters().mappings, 2);
    }
}

const KINDS: [EndpointDependence; 3] = [
    EndpointDependence::EndpointIndependent,
    EndpointDependence::AddressDependent,
    EndpointDependence::AddressAndPortDependent,
];
/// The first, another port of its address, and another address.
const REMOTES: [&str; 3] = ["192.0.2.9:53", "192.0.2.9:54", "198.51.100.2:53"];

/// RFC 4787 §4.1 and §5: what of a remote endpoint counts for the external port, and for who is let in. RFC 5382 §4.1 and §4.3: the same for TCP.
#[test]
fn each_kind_of_mapping_and_of_filtering_distinguishes_what_it_is_named_after() {
    for (mapping, filtering) in KINDS.into_iter().flat_map(|mapping| KINDS.map(|filtering| (mapping, filtering))) {
        for packet in [udp, |from: &str, to: &str, _: &[u8]| tcp(from, to, "S", b"")] {
            let mut router = router(NatConfig { mapping, filtering, ..nat() });
            let external = |router: &mut Middlebox, to: &str| {
                flow(&out(router, &packet(CLIENT, to, b"x"), Time::ZERO).unwrap()).source
            };
            let first = external(&mut router, REMOTES[0]);
            let is_let_in = REMOTES.map(|from| {
                let entered = back(&mut router, &packet(from, &first.to_string(), b"x"), Time::ZERO);
                entered.inspect(|packet| assert_eq!(flow(packet).destination.to_string(), CLIENT)).is_some()
            });
            let is_same = REMOTES.map(|to| external(&mut router, to) == first);
            let expected = |kind| match kind {
                EndpointDependence::EndpointIndependent => [true, true, true],
                EndpointDependence::AddressDependent => [true, true, false],
                EndpointDependence::AddressAndPortDependent => [true, false, false],
            };
            assert_eq!((is_same, is_let_in), (expected(mapping), expected(filtering)), "{mapping:?}, {filtering:?}");
            let mappings = is_same.iter().filter(|is_same| !**is_same).count().min(2) + 1;
            // Two ports of one address have one of their own each, where ports count.
            assert_eq!(router.counters().mappings, mappings, "{mapping:?}");
            // What was let in for a session is not any more once that is over.
            router.expire(Time::ZERO + Span::from_secs(24 * 3600));
            assert_eq!((router.counters().mappings, router.counters().sessions), (0, 0));
            assert!(back(&mut router, &packet(REMOTES[0], &first.to_string(), b"x"), Time::ZERO).is_none());
        }
    }
}

/// RFC 4787 REQ-3: "A NAT MUST NOT have a 'Port assignment' behavior of 'Port overloading'."
#[test]
fn two_inside_endpoints_never_share_an_external_port() {
    let mut router = router(NatConfig { first_port: 2000, last_port: 2099, ..nat() });
    let mut ports: Vec<_> =
        (1..=100).map(|host| external_of(&mut router, &format!("10.0.0.{host}:5000"), Time::ZERO).port()).collect();
    ports.sort();
    assert_eq!(ports, (2000..2100).collect::<Vec<_>>());
}

/// RFC 4787 REQ-8: "If application transparency is most important, it is RECOMMENDED that a NAT have 'Endpoint-Independent
/// Filtering' behavior."
#[test]
fn filtering_lets_in_anybody_or_only_those_addressed() {
    for (filtering, stranger) in
        [(EndpointDependence::EndpointIndependent, true), (EndpointDependence::AddressAndPortDependent, false)]
    {
        let mut router = router(super::traffic::filtering(filtering));
        let external = external_of(&mut router, CLIENT, Time::ZERO).to_string();
        let mut enters = |from: &str| {
            let packet = back(&mut router, &udp(from, &external, b"x"), Time::ZERO);
            packet.inspect(|packet| assert_eq!(flow(packet).destination.to_string(), CLIENT)).is_some()
        };
        assert!(enters(SERVER));
        for other in ["198.51.100.2:53", "192.0.2.9:5201"] {
            assert_eq!(enters(other), stranger, "{filtering:?}");
        }
        assert_eq!(router.counters().dropped(DropCause::Filtered), if stranger { 0 } else { 2 });
    }
}

#[test]
fn tcp_is_filtered_alike_and_may_be_opened_from_the_outside() {
    let mut router = router(nat());
    let mut closed = super::traffic::router(super::traffic::filtering(EndpointDependence::AddressAndPortDependent));
    let syn = tcp(CLIENT, SERVER, "S", b"");
    let external = flow(&out(&mut router, &syn, Time::ZERO).unwrap()).source.to_string();
    let other = "192.0.2.9:4000";
    assert!(back(&mut router, &tcp(other, &external, "S", b""), Time::ZERO).is_some());
    assert!(out(&mut router, &tcp(CLIENT, other, "SA", b""), Time::ZERO).is_some());
    assert!(back(&mut router, &tcp(other, &external, "A", b"data"), Time::ZERO).is_some());
    let external = flow(&out(&mut closed, &syn, Time::ZERO).unwrap()).source.to_string();
    assert!(back(&mut closed, &tcp(SERVER, &external, "SA", b""), Time::ZERO).is_some());
    assert!(back(&mut closed, &tcp(other, &external, "S", b""), Time::ZERO).is_none());
}

#[test]
fn nothing_enters_without_a_mapping() {
    let mut router = router(nat());
    let external = external_of(&mut router, CLIENT, Time::ZERO);
    for (packet, why) in [
        (udp(SERVER, &format!("{EXTERNAL}:{}", external.port() ^ 1), b"x"), "another port"),
        (tcp(SERVER, &external.to_string(), "S", b""), "another protocol"),
        (udp(SERVER, CLIENT, b"x"), "the inside address itself"),
        (udp(SERVER, &format!("203.0.113.2:{}", external.port()), b"x"), "another address"),
    ] {
        assert_eq!(back(&mut router, &packet, Time::ZERO), None, "{why}");
    }
    assert_eq!(router.counters().dropped(DropCause::NoMapping), 4);
}

/// RFC 4787 REQ-9: "A NAT MUST support 'Hairpinning'. a) A NAT Hairpinning behavior MUST be 'External source IP address
/// and port'." RFC 5382 REQ-8: the same for TCP.
#[test]
fn inside_hosts_reach_each_other_by_their_external_endpoints() {
    for filtering in [EndpointDependence::EndpointIndependent, EndpointDependence::AddressAndPortDependent] {
        let mut router = router(super::traffic::filtering(filtering));
        let (a, b) = ("10.0.0.1:1000", "10.0.0.2:2000");
        for packet in [udp, |from: &str, to: &str, _: &[u8]| tcp(from, to, "SA", b"")] {
            let source = |packet: &[u8]| flow(packet).source.to_string();
            let external_a = source(&out(&mut router, &packet(a, SERVER, b"x"), Time::ZERO).unwrap());
            let external_b = source(&out(&mut router, &packet(b, SERVER, b"x"), Time::ZERO).unwrap());
            // Both send, so that both filters are open.
            out(&mut router, &packet(b, &external_a, b"x"), Time::ZERO);
            let mut bytes = packet(a, &external_b, b"hello");
            assert_eq!(router.process_packet(Direction::Outbound, &mut bytes, Time::ZERO), PacketAction::Hairpin);
            assert!(checksum::is_valid(&bytes).unwrap());
            assert_eq!(source(&bytes), external_a, "External source IP address and port");
            assert_eq!(flow(&bytes).destination.to_string(), b);
        }
        assert!(router.counters().hairpinned >= 2);
    }
    let mut router = router(nat());
    assert_eq!(out(&mut router, &udp(CLIENT, &format!("{EXTERNAL}:9"), b"x"), Time::ZERO), None, "without a mapping");
}

/// RFC 5508 REQ-1: "a NAT device MUST permit ICMP Queries and their associated responses, when the Query is initiated from
/// a private host to the external hosts."
#[test]
fn pings_leave_and_their_replies_return_to_whom_they_belong() {
    let mut router = router(nat());
    let (a, b) = ("10.0.0.1:7", "10.0.0.2:7");
    let identifiers = [a, b].map(|host| {
        let request = out(&mut router, &echo(host, "192.0.2.9:0", true), Time::ZERO).unwrap();
        assert!(checksum::is_valid(&request).unwrap());
        flow(&request).source.to_string()
    });
    assert_ne!(identifiers[0], identifiers[1], "two hosts with the same identifier");
    for (host, external) in [a, b].into_iter().zip(&identifiers) {
        let reply = back(&mut router, &echo("192.0.2.9:0", external, false), Time::ZERO).unwrap();
        assert_eq!(reply, echo("192.0.2.9:0", host, false));
    }
    assert_eq!(
        back(&mut router, &echo(&identifiers[0].replace(EXTERNAL, "192.0.2.9"), EXTERNAL_0, true), Time::ZERO),
        None
    );
    assert_eq!(out(&mut router, &echo(a, "192.0.2.9:7", false), Time::ZERO), None, "a reply that nobody asked for");
}

const EXTERNAL_0: &str = "203.0.113.1:0";

/// RFC 5508 REQ-8: "When a NAT device is unable to establish a NAT Session for a new transport-layer (TCP, UDP, ICMP, etc.)
/// flow due to resource constraints or administrative restrictions, the NAT device SHOULD send an ICMP destination
/// unreachable message, with a code of 13 (Communication administratively prohibited) to the sender, and drop the original
/// packet." RFC 5382 REQ-4: no answer to an unsolicited SYN for 6 s, or none at all.
#[test]
fn refusals_are_answered_if_wanted_but_never_an_unsolicited_syn() {
    let limits = NatLimits { max_sessions_per_host: 1, ..NatLimits::default() };
    let mut router = router(NatConfig { refusal: RefusalKind::Reject, limits, ..nat() });
    external_of(&mut router, CLIENT, Time::ZERO);
    for mut packet in [udp("10.0.0.1:2", SERVER, b"x"), tcp("10.0.0.1:2", SERVER, "S", b"")] {
        let PacketAction::Reply(reply) = router.process_packet(Direction::Outbound, &mut packet, Time::ZERO) else {
            panic!("silent")
        };
        assert_eq!((is_icmp(&reply), &reply[20..22]), (true, &[3, 13][..]));
        assert_eq!(Headers::parse(&reply).unwrap().destination.to_string(), "10.0.0.1");
    }
    let unknown = format!("{EXTERNAL}:9");
    let inbound = |router: &mut Middlebox, packet: &[u8]| {
        router.process_packet(Direction::Inbound, &mut packet.to_vec(), Time::ZERO)
    };
    assert!(matches!(inbound(&mut router, &udp(SERVER, &unknown, b"x")), PacketAction::Reply(_)));
    assert!(matches!(inbound(&mut router, &tcp(SERVER, &unknown, "A", b"x")), PacketAction::Reply(_)));
    assert_eq!(inbound(&mut router, &tcp(SERVER, &unknown, "S", b"")), PacketAction::Drop);
}

#[test]
fn sources_outside_the_inside_network_are_dropped() {
    let mut router =
        router(NatConfig { inside: "10.0.0.0/24".parse().unwrap(), refusal: RefusalKind::Reject, ..nat() });
    assert!(out(&mut router, &udp("10.0.0.255:1", SERVER, b"x"), Time::ZERO).is_some());
    for source in ["10.0.1.1:1", "203.0.113.1:1"] {
        let action = router.process_packet(Direction::Outbound, &mut udp(source, SERVER, b"x"), Time::ZERO);
        assert_eq!(action, PacketAction::Drop, "its reply would go to somebody else");
    }
    assert_eq!(router.counters().dropped(DropCause::SpoofedSource), 2);
}

#[test]
fn ipv6_passes_unchanged_and_other_protocols_over_ipv4_do_not() {
    let mut router = router(nat());
    let v6 = udp("[2001:db8::1]:1", "[2001:db8::2]:2", b"x");
    assert_eq!(out(&mut router, &v6, Time::ZERO), Some(v6.clone()));
    assert_eq!(back(&mut router, &v6, Time::ZERO), Some(v6));
    let mut sctp = udp(CLIENT, SERVER, b"x");
    sctp[9] = 132;
    checksum::set(&mut sctp).unwrap();
    assert_eq!(out(&mut router, &sctp, Time::ZERO), None);
    assert_eq!(router.counters().dropped(DropCause::Unsupported), 1);
}

#[test]
fn bytes_behind_a_frame_header_are_translated_in_place() {
    let mut router = router(nat());
    let packet = udp(CLIENT, SERVER, b"x");
    let mut frame = [&[0xee; 14][..], &packet, &[0xdd; 20]].concat();
    assert_eq!(router.process_packet(Direction::Outbound, &mut frame[14..], Time::ZERO), PacketAction::Forward);
    assert_eq!((&frame[..14], &frame[14 + packet.len()..]), (&[0xee; 14][..], &[0xdd; 20][..]));
    assert!(checksum::is_valid(&frame[14..]).unwrap());
}

/// As a TUN device with segmentation offload delivers it: 32 kB whose checksum covers the pseudo header only.
#[test]
fn a_packet_with_offloaded_checksum_is_valid_once_completed() {
    let mut router = router(nat());
    let mut packet = tcp(CLIENT, SERVER, "A", &[7; 32_000]);
    // Ones' complement sum of addresses, protocol and length.
    let words = packet[12..20].chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let sum = words.sum::<u32>() + 6 + 32_020;
    let field = ((sum & 0xffff) + (sum >> 16)) as u16;
    packet[36..38].copy_from_slice(&field.to_be_bytes());
    assert_eq!(router.process_offloaded_packet(Direction::Outbound, &mut packet, Time::ZERO), PacketAction::Forward);
    PartialChecksum { start: 20, offset: 16 }.complete(&mut packet).unwrap();
    assert!(checksum::is_valid(&packet).unwrap());
    assert!(flow(&packet).source.to_string().starts_with(EXTERNAL));
}

/// RFC 4787 REQ-11: "A NAT MUST have deterministic behavior".
#[test]
fn the_same_seed_gives_the_same_ports() {
    let ports = |seed| {
        let config = MiddleboxConfig { nat: Some(nat()), ..Default::default() };
        let mut router = Middlebox::new(config, seed).unwrap();
        (1..60).map(|host| external_of(&mut router, &format!("10.0.0.{host}:1"), Time::ZERO)).collect::<Vec<_>>()
    };
    assert_eq!(ports(1), ports(1));
    assert_ne!(ports(1), ports(2));
}

#[test]
fn invalid_settings_are_refused() {
    let short = kumade_middlebox::NatTimeouts { udp: Span::from_secs(30), ..Default::default() };
    let none = NatLimits { max_sessions: 0, ..Default::default() };
    for (config, part) in [
        (NatConfig { first_port: 0, ..nat() }, "port range is 0 to 65535"),
        (NatConfig { first_port: 3, last_port: 2, ..nat() }, "contains no usable port"),
        (NatConfig { external: [224, 0, 0, 1].into(), ..nat() }, "external address is 224.0.0.1"),
        (NatConfig { timeouts: short, ..nat() }, "UDP timeout is 30 s"),
        (NatConfig { limits: none, ..nat() }, "sessions is 0"),
    ] {
        let config = MiddleboxConfig { nat: Some(config), ..Default::default() };
        let error = Middlebox::new(config, 1).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    let lenient = NatConfig { timeouts: short, allow_short_timeouts: true, ..nat() };
    assert!(Middlebox::new(MiddleboxConfig { nat: Some(lenient), ..Default::default() }, 1).is_ok());
}
