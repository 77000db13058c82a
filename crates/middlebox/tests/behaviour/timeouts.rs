//! Idle times of sessions, and what happens when the tables are full (RFC 4787, RFC 5382, RFC 5508).

use super::traffic::*;
use kumade_middlebox::{Direction, DropCause, EndpointDependence, Middlebox, NatConfig, NatLimits, TcpState};
use kumade_units::Time;

fn enters(router: &mut Middlebox, packet: &[u8], now: Time) -> bool {
    back(router, packet, now).is_some()
}

/// RFC 4787 REQ-5 c): "A default value of five minutes or more for the NAT UDP mapping timer is RECOMMENDED." REQ-6: "The
/// NAT mapping Refresh Direction MUST have a 'NAT Outbound refresh behavior' of 'True'."
#[test]
fn udp_lasts_five_minutes_from_the_last_packet_of_the_inside() {
    let mut router = router(nat());
    let external = external_of(&mut router, CLIENT, seconds(0)).to_string();
    let answer = udp(SERVER, &external, b"x");
    assert!(enters(&mut router, &answer, seconds(1)));
    assert_eq!(external_of(&mut router, CLIENT, seconds(200)).to_string(), external);
    assert!(enters(&mut router, &answer, seconds(499)));
    assert!(!enters(&mut router, &answer, seconds(500)), "packets from the outside do not keep it");
    assert_eq!((router.counters().sessions, router.counters().sessions_expired), (0, 1));
    assert_ne!(external_of(&mut router, CLIENT, seconds(500)).to_string(), external, "a new mapping");
}

/// RFC 5508 REQ-2: "An ICMP Query session timer MUST NOT expire in less than 60 seconds."
#[test]
fn a_ping_is_waited_for_for_a_minute() {
    let mut router = router(nat());
    let request = out(&mut router, &echo(CLIENT, "192.0.2.9:0", true), seconds(0)).unwrap();
    let reply = echo("192.0.2.9:0", &flow(&request).source.to_string(), false);
    assert!(enters(&mut router, &reply, seconds(59)));
    assert!(!enters(&mut router, &reply, seconds(60)));
}

/// RFC 5382 REQ-5: "the value of the 'established connection idle-timeout' MUST NOT be less than 2 hours 4 minutes. The
/// value of the 'transitory connection idle-timeout' MUST NOT be less than 4 minutes."
#[test]
fn tcp_lasts_for_hours_when_established_and_for_minutes_otherwise() {
    let (established, transitory) = (2 * 3600 + 4 * 60, 4 * 60);
    for (name, segments, idle) in [
        ("without an answer", &[(true, "S")][..], transitory),
        ("refused", &[(true, "S"), (false, "RA")], transitory),
        ("established", &[(true, "S"), (false, "SA"), (true, "A")], established),
        ("known from its data on", &[(true, "A"), (false, "A")], established),
        ("half closed", &[(true, "S"), (false, "SA"), (false, "FA"), (true, "A")], established),
        ("closed", &[(true, "S"), (false, "SA"), (false, "FA"), (true, "FA"), (false, "A")], transitory),
        ("reset by the inside", &[(true, "S"), (false, "SA"), (true, "R")], transitory),
        ("reset, but alive", &[(true, "S"), (false, "SA"), (false, "R"), (true, "A")], established),
        ("opened at once by both", &[(true, "S"), (false, "S"), (true, "SA"), (false, "SA")], established),
        ("opened from the outside", &[(true, "SA"), (false, "A")], established),
    ] {
        // This filtering lets packets in only while there is a session, whatever else keeps the mapping.
        let mut router = router(filtering(EndpointDependence::AddressAndPortDependent));
        let external = flow(&out(&mut router, &tcp(CLIENT, SERVER, segments[0].1, b""), seconds(0)).unwrap()).source;
        for (outbound, flags) in segments {
            match outbound {
                true => assert!(out(&mut router, &tcp(CLIENT, SERVER, flags, b""), seconds(0)).is_some(), "{name}"),
                false => {
                    assert!(enters(&mut router, &tcp(SERVER, &external.to_string(), flags, b""), seconds(0)), "{name}")
                }
            }
        }
        router.expire(seconds(idle - 1));
        assert_eq!(router.counters().sessions, 1, "{name}");
        router.expire(seconds(idle));
        assert_eq!(router.counters().sessions, 0, "{name}");
    }
}

#[test]
fn sessions_tell_what_they_are() {
    let mut router = router(nat());
    out(&mut router, &tcp(CLIENT, SERVER, "S", b""), seconds(0)).unwrap();
    let external = external_of(&mut router, CLIENT, seconds(1));
    let sessions: Vec<_> = router.sessions().collect();
    let (udp, tcp) = (&sessions[0], &sessions[1]);
    assert_eq!((udp.inside.to_string().as_str(), udp.external, udp.remote), (CLIENT, external, None));
    assert_eq!((udp.tcp, udp.expires), (None, seconds(301)));
    assert_eq!((tcp.remote.unwrap().to_string().as_str(), tcp.tcp), (SERVER, Some(TcpState::Opening)));
    assert_eq!(tcp.expires, seconds(240));
}

/// RFC 4787 REQ-12: "Receipt of any sort of ICMP message MUST NOT terminate the NAT mapping." RFC 5382 REQ-10: nor the
/// connection. RFC 5508 REQ-6: nor refresh the session.
#[test]
fn icmp_errors_neither_end_nor_refresh_a_session() {
    let mut router = router(nat());
    let sent = out(&mut router, &udp(CLIENT, SERVER, b"x"), seconds(0)).unwrap();
    let error = time_exceeded("192.0.2.254", &sent, 576);
    assert!(enters(&mut router, &error, seconds(100)));
    let answer = udp(SERVER, &flow(&sent).source.to_string(), b"x");
    // The inside reports an error about the answer; that does not count as its traffic, either.
    let arrived = back(&mut router, &answer, seconds(150)).unwrap();
    assert!(out(&mut router, &time_exceeded("10.0.0.1", &arrived, 576), seconds(200)).is_some());
    assert!(enters(&mut router, &answer, seconds(449)), "450 s after the answer that confirmed the session");
    assert!(!enters(&mut router, &answer, seconds(450)));
}

#[test]
fn a_host_that_opens_too_many_sessions_harms_only_itself() {
    let limits = NatLimits { max_sessions: 100, max_sessions_per_host: 10, ..NatLimits::default() };
    let mut router = router(NatConfig { limits, ..nat() });
    let opened = |router: &mut Middlebox, host: u8| {
        (1..=50)
            .filter(|port| out(router, &tcp(&format!("10.0.0.{host}:{port}"), SERVER, "S", b""), seconds(0)).is_some())
            .count()
    };
    assert_eq!(opened(&mut router, 1), 10);
    assert_eq!(opened(&mut router, 2), 10);
    assert_eq!(opened(&mut router, 1), 10, "the same ones pass again");
    assert_eq!((router.counters().sessions, router.counters().hosts), (20, 2));
    assert_eq!(router.counters().dropped(DropCause::HostLimit), 120);
}

#[test]
fn a_full_table_gives_up_unanswered_sessions_and_never_established_ones() {
    let limits = NatLimits { max_sessions: 20, ..NatLimits::default() };
    let mut router = router(NatConfig { limits, ..nat() });
    let host = |number: i64| format!("10.0.0.{number}:1000");
    for number in 1..=10 {
        let syn = out(&mut router, &tcp(&host(number), SERVER, "S", b""), seconds(number)).unwrap();
        assert!(enters(&mut router, &tcp(SERVER, &flow(&syn).source.to_string(), "SA", b""), seconds(number)));
    }
    // A flood with sources of its choice.
    for number in 0..5000 {
        let source = format!("10.{}.{}.1:9", 1 + number / 250, number % 250);
        assert!(out(&mut router, &udp(&source, SERVER, b"x"), seconds(20)).is_some());
        assert!(router.counters().sessions <= 20);
    }
    assert_eq!(router.counters().sessions_evicted, 5000 - 10);
    for number in 1..=10 {
        let data = tcp(&host(number), SERVER, "A", b"data");
        assert!(out(&mut router, &data, seconds(30)).is_some(), "an established connection goes on");
    }
    assert_eq!(router.counters().sessions_created, 5010, "in its own session");
}

#[test]
fn a_table_full_of_established_connections_refuses_new_ones() {
    let limits = NatLimits { max_sessions: 5, ..NatLimits::default() };
    let mut router = router(NatConfig { limits, ..nat() });
    for port in 1..=5 {
        let syn = out(&mut router, &tcp(&format!("10.0.0.1:{port}"), SERVER, "S", b""), seconds(0)).unwrap();
        back(&mut router, &tcp(SERVER, &flow(&syn).source.to_string(), "SA", b""), seconds(0)).unwrap();
    }
    assert_eq!(out(&mut router, &tcp("10.0.0.1:6", SERVER, "S", b""), seconds(0)), None);
    assert_eq!(router.counters().dropped(DropCause::TableFull), 1);
}

#[test]
fn ports_in_use_are_taken_only_from_unanswered_sessions_of_the_protocol() {
    let mut router = router(NatConfig { first_port: 2000, last_port: 2003, ..nat() });
    let inside = |host: usize| format!("10.0.0.{host}:9");
    for host in 1..=4 {
        let external = external_of(&mut router, &inside(host), seconds(0)).to_string();
        if host <= 3 {
            back(&mut router, &udp(SERVER, &external, b"answer"), seconds(0)).unwrap();
        }
    }
    external_of(&mut router, &inside(5), seconds(1));
    assert_eq!(router.counters().sessions_evicted, 1);
    let external = external_of(&mut router, &inside(5), seconds(2)).to_string();
    back(&mut router, &udp(SERVER, &external, b"answer"), seconds(2)).unwrap();
    assert_eq!(out(&mut router, &udp(&inside(6), SERVER, b"x"), seconds(3)), None);
    assert_eq!(router.counters().dropped(DropCause::NoPort), 1);
    assert!(out(&mut router, &tcp(&inside(6), SERVER, "S", b""), seconds(3)).is_some(), "TCP has ports of its own");
}

/// With endpoint-independent filtering, one UDP session stands for all remote endpoints, so that a host that addresses
/// many of them from one port needs one session only.
#[test]
fn sessions_of_udp_count_by_inside_endpoint_unless_filtering_depends_on_the_remote_one() {
    for (filtering, sessions) in
        [(EndpointDependence::EndpointIndependent, 1), (EndpointDependence::AddressAndPortDependent, 50)]
    {
        let mut router = router(super::traffic::filtering(filtering));
        for port in 1..=50 {
            out(&mut router, &udp(CLIENT, &format!("198.51.100.2:{port}"), b"x"), seconds(0)).unwrap();
        }
        assert_eq!((router.counters().sessions, router.counters().mappings), (sessions, 1));
    }
}

#[test]
fn time_that_steps_back_counts_as_standing_still() {
    let mut router = router(nat());
    let external = external_of(&mut router, CLIENT, seconds(1000)).to_string();
    assert_eq!(external_of(&mut router, CLIENT, seconds(10)).to_string(), external);
    let mut answer = udp(SERVER, &external, b"x");
    router.process_packet(Direction::Inbound, &mut answer, seconds(5));
    assert_eq!(router.sessions().next().unwrap().expires, seconds(1300));
}
