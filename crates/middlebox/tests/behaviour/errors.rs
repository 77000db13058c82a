//! ICMP errors, translated together with the packets that they quote (RFC 5508).

use super::traffic::*;
use kumade_middlebox::{Direction, DropCause, EndpointDependence, PacketAction};
use kumade_packet::{Headers, QuotedPacket, checksum};
use kumade_units::Time;

fn quoted(error: &[u8]) -> Vec<u8> {
    let quote = QuotedPacket::from_error(error, &Headers::parse(error).unwrap()).unwrap();
    error[quote.offset..].to_vec()
}

/// What may be quoted of each protocol.
fn packets() -> [Vec<u8>; 3] {
    [udp(CLIENT, SERVER, b"payload"), tcp(CLIENT, SERVER, "S", b""), echo(CLIENT, "198.51.100.2:0", true)]
}

/// RFC 5508 REQ-4: "If the NAT has active mapping for the embedded payload, then the NAT MUST […] a) Revert the IP and
/// transport headers of the embedded IP packet to their original form, using the matching mapping; and b) Leave the ICMP
/// Error type and code unchanged; and c) Modify the destination IP address of the outer IP header to be the same as the
/// source IP address of the embedded packet after translation."
#[test]
fn an_error_from_the_outside_shows_the_inside_the_packet_that_it_sent() {
    for filtering in [EndpointDependence::EndpointIndependent, EndpointDependence::AddressAndPortDependent] {
        let mut router = router(super::traffic::filtering(filtering));
        for packet in packets() {
            let sent = out(&mut router, &packet, Time::ZERO).unwrap();
            // All of it, and only the 8 bytes behind the IP header that RFC 792 demands.
            for bytes in [576, 28] {
                let error = back(&mut router, &time_exceeded("192.0.2.254", &sent, bytes), Time::ZERO).unwrap();
                assert!(checksum::is_valid(&error).unwrap());
                let headers = Headers::parse(&error).unwrap();
                assert_eq!(
                    (headers.source.to_string().as_str(), headers.destination.to_string().as_str()),
                    ("192.0.2.254", "10.0.0.1")
                );
                assert_eq!(error[20..22], [11, 0]);
                let quote = quoted(&error);
                assert_eq!(quote, packet[..packet.len().min(bytes)]);
            }
        }
    }
}

/// RFC 5508 REQ-5: from the private realm, the same in the other direction; "c) If the NAT enforces Basic NAT function […]
/// In all other cases, translate the source IP address of the ICMP Error packet with its own public IP address."
#[test]
fn an_error_from_the_inside_shows_the_outside_the_packet_that_it_sent() {
    let mut router = router(nat());
    let answers = [
        (udp(CLIENT, SERVER, b"x"), udp as fn(&str, &str, &[u8]) -> Vec<u8>),
        (tcp(CLIENT, SERVER, "S", b""), |from, to, payload| tcp(from, to, "SA", payload)),
    ];
    for (packet, answer) in answers {
        let sent = out(&mut router, &packet, Time::ZERO).unwrap();
        let answer = answer(SERVER, &flow(&sent).source.to_string(), b"answer");
        let arrived = back(&mut router, &answer, Time::ZERO).unwrap();
        // From the host itself, and from a router on the inside.
        for reporter in ["10.0.0.1", "10.0.0.254"] {
            let error = out(&mut router, &time_exceeded(reporter, &arrived, 576), Time::ZERO).unwrap();
            assert!(checksum::is_valid(&error).unwrap());
            let headers = Headers::parse(&error).unwrap();
            assert_eq!(
                (headers.source.to_string().as_str(), headers.destination.to_string().as_str()),
                (EXTERNAL, "198.51.100.2")
            );
            assert_eq!(quoted(&error), answer);
        }
    }
}

/// RFC 5508 REQ-7: "All NAT devices (i.e., Basic NAT as well as NAPT devices) MUST support the traversal of hairpinned ICMP
/// Error messages."
#[test]
fn an_error_about_a_hairpinned_packet_returns_to_its_sender() {
    let mut router = router(nat());
    let (a, b) = ("10.0.0.1:1000", "10.0.0.2:2000");
    let external_b = external_of(&mut router, b, Time::ZERO).to_string();
    let packet = udp(a, &external_b, b"hello");
    let mut hairpinned = packet.clone();
    assert_eq!(router.process_packet(Direction::Outbound, &mut hairpinned, Time::ZERO), PacketAction::Hairpin);
    let mut error = time_exceeded("10.0.0.2", &hairpinned, 576);
    assert_eq!(router.process_packet(Direction::Outbound, &mut error, Time::ZERO), PacketAction::Hairpin);
    assert!(checksum::is_valid(&error).unwrap());
    let headers = Headers::parse(&error).unwrap();
    assert_eq!((headers.source.to_string().as_str(), headers.destination.to_string().as_str()), (EXTERNAL, "10.0.0.1"));
    assert_eq!(quoted(&error), packet);
}

/// RFC 5508 REQ-3: "if the ICMP checksum fails to validate, the NAT SHOULD silently drop the ICMP Error packet. […] a) If
/// the IP checksum of the embedded packet fails to validate, the NAT SHOULD silently drop the Error packet". REQ-4 and 5:
/// "does not have an active mapping for the embedded payload, the NAT SHOULD silently drop the ICMP Error packet".
#[test]
fn errors_that_are_damaged_or_about_unknown_packets_are_dropped() {
    let mut router = router(nat());
    let sent = out(&mut router, &udp(CLIENT, SERVER, b"payload"), Time::ZERO).unwrap();
    let error = time_exceeded("192.0.2.254", &sent, 576);
    let mut damaged = error.clone();
    *damaged.last_mut().unwrap() ^= 1;
    let mut damaged_inside = sent.clone();
    damaged_inside[8] ^= 1;
    let unknown = udp(&format!("{EXTERNAL}:9"), SERVER, b"x");
    for error in [
        damaged,
        time_exceeded("192.0.2.254", &damaged_inside, 576),
        time_exceeded("192.0.2.254", &unknown, 576),
        time_exceeded("192.0.2.254", &sent, 19),
        time_exceeded("192.0.2.254", &sent, 20),
    ] {
        assert_eq!(back(&mut router, &error, Time::ZERO), None);
    }
    assert_eq!(out(&mut router, &time_exceeded("10.0.0.1", &udp(SERVER, "10.0.0.7:1", b"x"), 576), Time::ZERO), None);
    assert_eq!(router.counters().dropped(DropCause::IcmpError), 6);
    assert!(back(&mut router, &error, Time::ZERO).is_some());
}

#[test]
fn with_dependent_filtering_errors_are_about_packets_of_a_session_only() {
    let mut router = router(filtering(EndpointDependence::AddressAndPortDependent));
    let sent = out(&mut router, &udp(CLIENT, SERVER, b"payload"), Time::ZERO).unwrap();
    let to_other = udp(&flow(&sent).source.to_string(), "192.0.2.9:9", b"x");
    assert_eq!(back(&mut router, &time_exceeded("192.0.2.254", &to_other, 576), Time::ZERO), None);
}
