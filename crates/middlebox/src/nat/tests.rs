use super::*;
use etherparse::PacketBuilder;
use packet::checksum;
use proptest::prelude::*;

const EXTERNAL: [u8; 4] = [203, 0, 113, 1];
const SERVER: ([u8; 4], u16) = ([198, 51, 100, 2], 5201);

fn nat(first_port: u16, last_port: u16) -> Nat {
    let idle = Span::from_secs(120);
    Nat::new(NatConfig { external: EXTERNAL.into(), first_port, last_port, idle, unmapped: Refusal::Reject }).unwrap()
}

fn packet(tcp: bool, from: ([u8; 4], u16), to: ([u8; 4], u16)) -> Vec<u8> {
    let (mut packet, step) = (Vec::new(), PacketBuilder::ipv4(from.0, to.0, 64));
    if tcp {
        step.tcp(from.1, to.1, 7, 8).ack(9).write(&mut packet, b"payload").unwrap();
    } else {
        step.udp(from.1, to.1).write(&mut packet, b"payload").unwrap();
    }
    packet
}

fn seconds(secs: i64) -> Time {
    Time::ZERO + Span::from_secs(secs)
}

/// The source that the outside sees, if the packet passes.
fn sent(nat: &mut Nat, packet: &mut [u8], now: Time) -> Option<SocketAddr> {
    let headers = Headers::parse(packet).unwrap();
    match nat.outbound(packet, &headers, now) {
        Translation::Done => Some(FlowKey::of(&Headers::parse(packet).unwrap()).source),
        Translation::Refused(_) => None,
    }
}

/// The destination that the inside sees, if the packet passes.
fn received(nat: &mut Nat, packet: &mut [u8], now: Time) -> Option<SocketAddr> {
    let headers = Headers::parse(packet).unwrap();
    match nat.inbound(packet, &headers, now) {
        Translation::Done => Some(FlowKey::of(&Headers::parse(packet).unwrap()).destination),
        Translation::Refused(_) => None,
    }
}

#[test]
fn ports_are_kept_where_free_and_never_shared() {
    let mut nat = nat(1024, 65535);
    let source = |nat: &mut Nat, host, port| {
        sent(nat, &mut packet(false, ([10, 0, 0, host], port), SERVER), Time::ZERO).unwrap()
    };
    assert_eq!(source(&mut nat, 1, 5000), SocketAddr::from((EXTERNAL, 5000)));
    let second = source(&mut nat, 2, 5000);
    assert_ne!(second.port(), 5000);
    assert_eq!(source(&mut nat, 2, 5000), second, "a mapping lasts");
    assert_ne!(source(&mut nat, 3, 80).port(), 80, "outside the range");
}

#[test]
fn nobody_enters_without_a_mapping_and_mappings_end_when_idle() {
    let mut nat = nat(1024, 65535);
    let answer = || packet(false, SERVER, (EXTERNAL, 5000));
    assert_eq!(received(&mut nat, &mut answer(), seconds(0)), None);
    sent(&mut nat, &mut packet(false, ([10, 0, 0, 1], 5000), SERVER), seconds(0)).unwrap();
    assert_eq!(received(&mut nat, &mut answer(), seconds(119)), Some(SocketAddr::from(([10, 0, 0, 1], 5000))));
    assert_eq!(received(&mut nat, &mut packet(true, SERVER, (EXTERNAL, 5000)), seconds(119)), None, "UDP only");
    assert_eq!(received(&mut nat, &mut packet(false, SERVER, ([10, 0, 0, 1], 5000)), seconds(119)), None, "hidden");
    assert_eq!(received(&mut nat, &mut answer(), seconds(120)), None, "answers alone do not keep it");
}

#[test]
fn a_full_table_refuses_until_mappings_end_and_grows_no_further() {
    let mut nat = nat(2000, 2003);
    let passed = |nat: &mut Nat, now| {
        (0..20).filter(|host| sent(nat, &mut packet(true, ([10, 0, 1, *host], 9), SERVER), now).is_some()).count()
    };
    assert_eq!(passed(&mut nat, seconds(0)), 4);
    assert_eq!(passed(&mut nat, seconds(1)), 4, "the same four");
    for host in 20..24 {
        assert!(sent(&mut nat, &mut packet(true, ([10, 0, 1, host], 9), SERVER), seconds(200)).is_some());
    }
    assert_eq!((nat.by_port.len(), nat.by_inside.len()), (4, 4));
}

#[test]
fn errors_find_their_way_in_and_out() {
    let mut nat = nat(6000, 6000);
    let inside = ([10, 0, 0, 1], 5000);
    let original = packet(false, inside, SERVER);
    let mut outside = original.clone();
    sent(&mut nat, &mut outside, seconds(0)).unwrap();

    // The server's side refuses what was sent: the sender must see the packet as it sent it.
    let mut error = packet::reject(&outside).unwrap();
    received(&mut nat, &mut error, seconds(0)).unwrap();
    assert!(checksum::is_valid(&error).unwrap());
    assert_eq!(Headers::parse(&error).unwrap().destination, IpAddr::from(inside.0));
    assert_eq!(error[28..], original);

    // The inside refuses an answer: its sender must see the packet as it sent it.
    let answer = packet(false, SERVER, (EXTERNAL, 6000));
    let mut led_in = answer.clone();
    received(&mut nat, &mut led_in, seconds(0)).unwrap();
    let mut error = packet::reject(&led_in).unwrap();
    sent(&mut nat, &mut error, seconds(0)).unwrap();
    assert!(checksum::is_valid(&error).unwrap());
    assert_eq!(Headers::parse(&error).unwrap().source, IpAddr::from(EXTERNAL));
    assert_eq!(error[28..], answer);

    let mut stray = packet::reject(&packet(false, (EXTERNAL, 7777), SERVER)).unwrap();
    assert_eq!(received(&mut nat, &mut stray, seconds(0)), None, "about a packet that nobody sent");
}

#[test]
fn the_other_version_passes_untouched_and_the_untranslatable_does_not() {
    let mut nat = nat(1024, 65535);
    let mut v6 = Vec::new();
    PacketBuilder::ipv6([1; 16], [2; 16], 64).udp(1, 2).write(&mut v6, b"x").unwrap();
    let before = v6.clone();
    assert!(sent(&mut nat, &mut v6, Time::ZERO).is_some() && v6 == before);
    let mut fragment = packet(false, ([10, 0, 0, 1], 1), SERVER);
    fragment[6] = 0x20;
    assert_eq!(sent(&mut nat, &mut fragment, Time::ZERO), None);
}

#[test]
fn nonsense_is_refused() {
    let good = nat(1, 2).config;
    for (config, part) in [
        (NatConfig { first_port: 0, ..good }, "port range is 0 to 2"),
        (NatConfig { first_port: 3, ..good }, "holds no usable port"),
        (NatConfig { idle: Span::ZERO, ..good }, "idle time is 0 ns"),
    ] {
        let error = Nat::new(config).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

proptest! {
    #[test]
    fn a_round_trip_through_the_translator_restores_the_ends(
        hosts in prop::collection::vec((any::<bool>(), any::<[u8; 4]>(), any::<u16>()), 1..80)
    ) {
        let mut nat = nat(1024, 1100);
        for (tcp, host, port) in hosts {
            let mut outgoing = packet(tcp, (host, port), SERVER);
            let Some(outside) = sent(&mut nat, &mut outgoing, Time::ZERO) else { continue };
            prop_assert!(checksum::is_valid(&outgoing).unwrap());
            prop_assert_eq!(outside.ip(), IpAddr::from(EXTERNAL));
            let mut answer = packet(tcp, SERVER, (EXTERNAL, outside.port()));
            prop_assert_eq!(received(&mut nat, &mut answer, Time::ZERO), Some(SocketAddr::from((host, port))));
            prop_assert_eq!(answer, packet(tcp, SERVER, (host, port)));
        }
    }
}
