use super::*;
use crate::action::Direction::{Inbound, Outbound};
use crate::rules::{PacketMatch, ResetScope};
use etherparse::{IpHeaders, PacketBuilder, PacketBuilderStep};
use kumade_packet::{FlowKey, checksum, protocol};
use kumade_units::Span;
use proptest::prelude::*;
use std::net::{IpAddr, SocketAddr};

const CLIENT: &str = "10.0.0.1:40000";
const SERVER: &str = "198.51.100.2:5201";
const EXTERNAL: &str = "203.0.113.1";

fn ip(from: SocketAddr, to: SocketAddr) -> PacketBuilderStep<IpHeaders> {
    match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => PacketBuilder::ipv4(from.octets(), to.octets(), 64),
        (IpAddr::V6(from), IpAddr::V6(to)) => PacketBuilder::ipv6(from.octets(), to.octets(), 64),
        mixed => panic!("two versions: {mixed:?}"),
    }
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn udp(from: &str, to: &str) -> Vec<u8> {
    let (from, to) = (address(from), address(to));
    let mut packet = Vec::new();
    ip(from, to).udp(from.port(), to.port()).write(&mut packet, b"payload").unwrap();
    packet
}

fn tcp(
    from: &str,
    to: &str,
    build: impl Fn(PacketBuilderStep<etherparse::TcpHeader>) -> PacketBuilderStep<etherparse::TcpHeader>,
    payload: &[u8],
) -> Vec<u8> {
    let (from, to) = (address(from), address(to));
    let mut packet = Vec::new();
    build(ip(from, to).tcp(from.port(), to.port(), 1000, 500)).write(&mut packet, payload).unwrap();
    packet
}

fn syn(from: &str, to: &str) -> Vec<u8> {
    tcp(from, to, |step| step.syn(), b"")
}

fn data(from: &str, to: &str) -> Vec<u8> {
    tcp(from, to, |step| step.ack(77), b"12345")
}

fn seconds(secs: i64) -> Time {
    Time::ZERO + Span::from_secs(secs)
}

fn middlebox(rules: &[FilterRule]) -> Middlebox {
    Middlebox::new(MiddleboxConfig { rules: rules.to_vec(), ..Default::default() }, 1).unwrap()
}

fn out(middlebox: &mut Middlebox, packet: Vec<u8>, now: Time) -> PacketAction {
    middlebox.process_packet(Outbound, &mut packet.clone(), now)
}

fn back(middlebox: &mut Middlebox, packet: Vec<u8>, now: Time) -> PacketAction {
    middlebox.process_packet(Inbound, &mut packet.clone(), now)
}

fn is_reset_to(action: &PacketAction, to: &str) -> bool {
    let PacketAction::Reply(answer) = action else { return false };
    let headers = Headers::parse(answer).unwrap();
    headers.tcp().is_some_and(|tcp| tcp.rst) && FlowKey::from_headers(&headers).destination == address(to)
}

#[test]
fn refusals_are_by_protocol_and_port() {
    let refuse = |protocol, destination_port, refusal| FilterRule::Refuse {
        matching: PacketMatch { protocol, destination_port },
        refusal,
    };
    let mut no_udp = middlebox(&[refuse(Some(protocol::UDP), None, RefusalKind::Reject)]);
    let PacketAction::Reply(answer) = out(&mut no_udp, udp(CLIENT, SERVER), Time::ZERO) else { panic!("not rejected") };
    assert_eq!(Headers::parse(&answer).unwrap().protocol, protocol::ICMP);
    assert_eq!(out(&mut no_udp, syn(CLIENT, SERVER), Time::ZERO), PacketAction::Forward);

    let mut silent = middlebox(&[refuse(Some(protocol::UDP), Some(5201), RefusalKind::Drop)]);
    assert_eq!(out(&mut silent, udp(CLIENT, SERVER), Time::ZERO), PacketAction::Drop);
    assert_eq!(out(&mut silent, udp(CLIENT, "198.51.100.2:53"), Time::ZERO), PacketAction::Forward);
    assert_eq!(out(&mut silent, syn(CLIENT, SERVER), Time::ZERO), PacketAction::Forward);

    let mut no_port = middlebox(&[refuse(None, Some(5201), RefusalKind::Reject)]);
    assert!(is_reset_to(&out(&mut no_port, syn(CLIENT, SERVER), Time::ZERO), CLIENT));
}

#[test]
fn only_one_port_is_open_and_its_answers_come_back() {
    let mut firewall = middlebox(&[FilterRule::AllowOnly { tcp_port: 5201, refusal: RefusalKind::Reject }]);
    assert_eq!(out(&mut firewall, syn(CLIENT, SERVER), Time::ZERO), PacketAction::Forward);
    assert_eq!(back(&mut firewall, data(SERVER, CLIENT), Time::ZERO), PacketAction::Forward);
    assert!(is_reset_to(&out(&mut firewall, syn(CLIENT, "198.51.100.2:22"), Time::ZERO), CLIENT));
    assert!(matches!(out(&mut firewall, udp(CLIENT, SERVER), Time::ZERO), PacketAction::Reply(_)));
    assert!(is_reset_to(&out(&mut firewall, syn("[2001:db8::1]:1", "[2001:db8::2]:2"), Time::ZERO), "[2001:db8::1]:1"));
}

#[test]
fn connections_beyond_the_cap_hang_or_are_reset_until_others_end() {
    for refusal in [RefusalKind::Drop, RefusalKind::Reject] {
        let mut firewall = middlebox(&[FilterRule::LimitConnections { max_connections: 60, refusal }]);
        let client = |port: usize| format!("10.0.0.1:{}", 40000 + port);
        let passed = |firewall: &mut Middlebox, range: std::ops::Range<usize>| {
            range.filter(|port| out(firewall, syn(&client(*port), SERVER), Time::ZERO) == PacketAction::Forward).count()
        };
        assert_eq!(passed(&mut firewall, 0..120), 60);
        assert_eq!(passed(&mut firewall, 0..60), 60, "a SYN sent again is no new connection");
        assert_eq!(
            is_reset_to(&out(&mut firewall, syn(&client(60), SERVER), Time::ZERO), &client(60)),
            refusal == RefusalKind::Reject
        );
        assert_eq!(
            out(&mut firewall, syn(CLIENT, "198.51.100.2:80"), Time::ZERO),
            PacketAction::Forward,
            "another service"
        );
        assert_eq!(out(&mut firewall, syn("10.0.0.9:1", SERVER), Time::ZERO), PacketAction::Forward, "another client");

        back(&mut firewall, tcp(SERVER, &client(0), |step| step.rst(), b""), Time::ZERO);
        out(&mut firewall, tcp(&client(1), SERVER, |step| step.fin().ack(1), b""), Time::ZERO);
        assert_eq!(passed(&mut firewall, 60..70), 1, "one was reset, one is only half closed");
        back(&mut firewall, tcp(SERVER, &client(1), |step| step.fin().ack(1), b""), Time::ZERO);
        assert_eq!(passed(&mut firewall, 70..80), 1);
    }
}

#[test]
fn connections_that_are_never_answered_free_their_place() {
    let mut firewall = middlebox(&[FilterRule::LimitConnections { max_connections: 2, refusal: RefusalKind::Drop }]);
    out(&mut firewall, syn("10.0.0.1:1", SERVER), seconds(0));
    out(&mut firewall, syn("10.0.0.1:2", SERVER), seconds(0));
    back(&mut firewall, data(SERVER, "10.0.0.1:2"), seconds(1));
    assert_eq!(out(&mut firewall, syn("10.0.0.1:3", SERVER), seconds(119)), PacketAction::Drop);
    assert_eq!(out(&mut firewall, syn("10.0.0.1:3", SERVER), seconds(121)), PacketAction::Forward);
    assert_eq!(
        out(&mut firewall, syn("10.0.0.1:4", SERVER), seconds(121)),
        PacketAction::Drop,
        "the answered one still stands"
    );
}

#[test]
fn syns_pass_at_their_rate_after_a_burst() {
    let mut firewall = middlebox(&[FilterRule::LimitSyns { per_second: 30, burst: 5 }]);
    let mut passed = |now| {
        (0..20)
            .filter(|port| {
                out(&mut firewall, syn(&format!("10.0.0.1:{}", port + 1), SERVER), now) == PacketAction::Forward
            })
            .count()
    };
    assert_eq!(passed(seconds(0)), 5);
    assert_eq!((1..=100).map(|tenth| passed(Time::ZERO + Span::from_millis(100 * tenth))).sum::<usize>(), 300);
    assert_eq!(passed(seconds(60)), 5);
    assert_eq!(out(&mut firewall, data(CLIENT, SERVER), seconds(60)), PacketAction::Forward, "only SYNs are limited");
}

#[test]
fn a_connection_is_reset_at_both_ends_after_so_many_data_packets() {
    let mut breaker = middlebox(&[FilterRule::ResetAfter { data_packets: 3, scope: ResetScope::Connection }]);
    assert_eq!(out(&mut breaker, syn(CLIENT, SERVER), Time::ZERO), PacketAction::Forward);
    for _ in 0..2 {
        assert_eq!(out(&mut breaker, data(CLIENT, SERVER), Time::ZERO), PacketAction::Forward);
        assert_eq!(out(&mut breaker, tcp(CLIENT, SERVER, |step| step.ack(1), b""), Time::ZERO), PacketAction::Forward);
        assert_eq!(
            out(&mut breaker, data("10.0.0.1:9", SERVER), Time::ZERO),
            PacketAction::Forward,
            "counted by itself"
        );
    }
    assert_eq!(back(&mut breaker, data(SERVER, CLIENT), Time::ZERO), PacketAction::Forward);
    let PacketAction::Reset(pair) = out(&mut breaker, data(CLIENT, SERVER), Time::ZERO) else { panic!("no reset") };
    let (to_source, to_destination) =
        (Headers::parse(&pair.to_source).unwrap(), Headers::parse(&pair.to_destination).unwrap());
    assert_eq!(FlowKey::from_headers(&to_source).destination, address(CLIENT));
    assert_eq!(FlowKey::from_headers(&to_destination).destination, address(SERVER));
    assert_eq!((to_source.tcp().unwrap().sequence, to_destination.tcp().unwrap().sequence), (77, 1000));
    assert_eq!(out(&mut breaker, data(CLIENT, SERVER), Time::ZERO), PacketAction::Forward, "the count begins anew");
}

#[test]
fn a_new_connection_from_the_same_port_is_counted_anew() {
    let mut breaker = middlebox(&[FilterRule::ResetAfter { data_packets: 1, scope: ResetScope::Connection }]);
    for _ in 0..3 {
        assert_eq!(out(&mut breaker, syn(CLIENT, SERVER), Time::ZERO), PacketAction::Forward);
        assert_eq!(out(&mut breaker, data(CLIENT, SERVER), Time::ZERO), PacketAction::Forward);
    }
}

#[test]
fn resets_by_the_total_strike_whoever_comes_next_and_free_its_place() {
    let mut breaker = middlebox(&[
        FilterRule::LimitConnections { max_connections: 1, refusal: RefusalKind::Drop },
        FilterRule::ResetAfter { data_packets: 2, scope: ResetScope::Total },
    ]);
    let kinds: Vec<_> = ["10.0.0.1:1", "10.0.0.2:2", "10.0.0.3:3", "10.0.0.4:4", "10.0.0.5:5", "10.0.0.6:6"]
        .iter()
        .map(|client| {
            assert_eq!(out(&mut breaker, syn(client, SERVER), Time::ZERO), PacketAction::Forward);
            out(&mut breaker, data(client, SERVER), Time::ZERO) == PacketAction::Forward
        })
        .collect();
    assert_eq!(kinds, [true, true, false, true, true, false]);
    assert_eq!(out(&mut breaker, data("10.0.0.3:3", SERVER), Time::ZERO), PacketAction::Forward, "still on its way");
    assert_eq!(out(&mut breaker, syn("10.0.0.3:33", SERVER), Time::ZERO), PacketAction::Forward, "its place is free");
    assert_eq!(out(&mut breaker, syn("10.0.0.1:11", SERVER), Time::ZERO), PacketAction::Drop);
}

#[test]
fn what_one_rule_drops_does_not_count_for_another() {
    let rules = [
        FilterRule::LimitConnections { max_connections: 2, refusal: RefusalKind::Drop },
        FilterRule::LimitSyns { per_second: 1, burst: 1 },
    ];
    let mut firewall = middlebox(&rules);
    assert_eq!(out(&mut firewall, syn("10.0.0.1:1", SERVER), seconds(0)), PacketAction::Forward);
    assert_eq!(out(&mut firewall, syn("10.0.0.1:2", SERVER), seconds(0)), PacketAction::Drop);
    assert_eq!(out(&mut firewall, syn("10.0.0.1:3", SERVER), seconds(1)), PacketAction::Forward);
    assert_eq!(out(&mut firewall, syn("10.0.0.1:4", SERVER), seconds(2)), PacketAction::Drop);
}

#[test]
fn nonsense_is_refused() {
    let rule = FilterRule::LimitSyns { per_second: 0, burst: 1 };
    let error = Middlebox::new(MiddleboxConfig { rules: vec![rule], ..Default::default() }, 1).unwrap_err();
    assert!(error.to_string().contains("SYN limit: rate is 0"), "{error}");
}

fn outbound(middlebox: &mut Middlebox, packet: &[u8]) -> PacketAction {
    middlebox.process_packet(Outbound, &mut packet.to_vec(), Time::ZERO)
}

#[test]
fn a_reset_behind_a_translator_shows_each_end_the_addresses_it_knows() {
    let nat = Some(NatConfig::new(EXTERNAL.parse().unwrap()));
    let rules = vec![FilterRule::ResetAfter { data_packets: 0, scope: ResetScope::Connection }];
    let mut router = Middlebox::new(MiddleboxConfig { rules, nat, ..Default::default() }, 1).unwrap();
    let PacketAction::Reset(pair) = outbound(&mut router, &data(CLIENT, SERVER)) else { panic!("no reset") };
    let flow = |packet: &[u8]| FlowKey::from_headers(&Headers::parse(packet).unwrap());
    assert_eq!(flow(&pair.to_source).destination, address(CLIENT));
    let external = flow(&pair.to_destination).source;
    assert_eq!(external.ip(), EXTERNAL.parse::<IpAddr>().unwrap());
    let PacketAction::Reset(pair) = back(&mut router, data(SERVER, &external.to_string()), Time::ZERO) else {
        panic!("no reset")
    };
    assert_eq!(flow(&pair.to_source).source, external);
    assert_eq!(flow(&pair.to_destination).destination, address(CLIENT));
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic_and_what_it_sends_is_valid(
        packets in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 0..80), 0usize..4), 1..60)
    ) {
        let rules = vec![
            FilterRule::LimitSyns { per_second: 5, burst: 2 },
            FilterRule::LimitConnections { max_connections: 2, refusal: RefusalKind::Reject },
            FilterRule::ResetAfter { data_packets: 1, scope: ResetScope::Connection },
        ];
        let nat = Some(NatConfig {
            first_port: 1024, last_port: 1030, refusal: RefusalKind::Reject, ..NatConfig::new(EXTERNAL.parse().unwrap())
        });
        let mut router = Middlebox::new(MiddleboxConfig { rules, nat, ..Default::default() }, 1).unwrap();
        for (index, (outbound, noise, kind)) in packets.into_iter().enumerate() {
            let (from, to) = if outbound { (CLIENT, SERVER) } else { (SERVER, "203.0.113.1:1027") };
            let mut packet = match kind {
                0 => syn(from, to),
                1 => data(from, to),
                2 => udp(from, to),
                _ => noise.clone(),
            };
            // The noise spoils some bytes of good packets as well.
            for pair in noise.chunks_exact(40) {
                let at = usize::from(pair[0]) % packet.len().max(1);
                packet[at] = pair[1];
            }
            let was_valid = checksum::is_valid(&packet) == Ok(true);
            let direction = if outbound { Outbound } else { Inbound };
            let answers = match router.process_packet(direction, &mut packet, Time::ZERO + Span::from_millis(100 * index as i64)) {
                PacketAction::Forward | PacketAction::Hairpin => Vec::from_iter(was_valid.then_some(packet)),
                PacketAction::Drop | PacketAction::Hold => vec![],
                PacketAction::Reply(answer) => vec![answer],
                PacketAction::Reset(pair) => vec![pair.to_source, pair.to_destination],
            };
            for answer in answers {
                prop_assert_eq!(checksum::is_valid(&answer), Ok(true));
            }
        }
    }
}
