//! Stateless prefix translation (RFC 6296; one to one for IPv4).

use super::traffic::*;
use kumade_middlebox::{Direction, DropCause, Middlebox, MiddleboxConfig, PacketAction, PrefixPair, PrefixSide};
use kumade_packet::{Headers, QuotedPacket, checksum};
use kumade_units::Time;
use proptest::prelude::*;
use std::net::Ipv6Addr;

fn pair(hosts: PrefixSide, internal: &str, external: &str) -> PrefixPair {
    PrefixPair { side: hosts, internal: internal.parse().unwrap(), external: external.parse().unwrap() }
}

fn inside(internal: &str, external: &str) -> PrefixPair {
    pair(PrefixSide::Inside, internal, external)
}

fn translator(pairs: &[PrefixPair]) -> Middlebox {
    Middlebox::new(MiddleboxConfig { prefixes: pairs.to_vec(), ..Default::default() }, 1).unwrap()
}

fn ends(packet: &[u8]) -> (String, String) {
    let headers = Headers::parse(packet).unwrap();
    (headers.source.to_string(), headers.destination.to_string())
}

fn source(router: &mut Middlebox, from: &str) -> String {
    let packet = udp(&format!("[{from}]:7"), "[2001:db8:ffff::2]:9", b"payload");
    let translated = out(router, &packet, Time::ZERO).unwrap();
    assert_eq!(packet[40..], translated[40..], "ports and checksum do not change");
    let reply = udp("[2001:db8:ffff::2]:9", &flow(&translated).source.to_string(), b"reply");
    let returned = back(router, &reply, Time::ZERO).unwrap();
    assert_eq!(flow(&returned).destination, flow(&packet).source);
    ends(&translated).0
}

/// RFC 6296 §3.6: "If a node with internal address FD01:0203:0405:0001::1234 sends an outbound datagram through the NPTv6
/// Translator, the resulting external address will be 2001:0DB8:0001:D550::1234."
#[test]
fn the_example_of_rfc_6296() {
    let mut router = translator(&[inside("fd01:203:405::/48", "2001:db8:1::/48")]);
    assert_eq!(source(&mut router, "fd01:203:405:1::1234"), "2001:db8:1:d550::1234");
}

/// RFC 6296 §3.5: for prefixes longer than /48, the first word of the interface identifier that is not 0xFFFF.
#[test]
fn longer_prefixes_adjust_the_interface_identifier() {
    let mut router = translator(&[inside("fd01:203:405:1::/64", "2001:db8:1:1::/64")]);
    assert_eq!(source(&mut router, "fd01:203:405:1:1::1234"), "2001:db8:1:1:d550::1234");
    assert_eq!(source(&mut router, "fd01:203:405:1:ffff:1::1234"), "2001:db8:1:1:ffff:d550:0:1234");
}

#[test]
fn addresses_without_a_neutral_counterpart_are_dropped() {
    let mut router = translator(&[inside("fd01:203:405::/48", "2001:db8:1::/48")]);
    let packet = udp("[fd01:203:405:ffff::1]:7", "[2001:db8:ffff::2]:9", b"x");
    assert_eq!(out(&mut router, &packet, Time::ZERO), None);
    assert_eq!(router.counters().dropped(DropCause::Untranslatable), 1);
}

#[test]
fn ipv4_hosts_keep_their_host_bits() {
    let mut router = translator(&[inside("10.1.0.0/16", "198.18.0.0/16")]);
    for packet in [
        udp("10.1.2.3:7", "192.0.2.9:9", b"x"),
        tcp("10.1.2.3:7", "192.0.2.9:9", "S", b""),
        echo("10.1.2.3:7", "192.0.2.9:0", true),
    ] {
        let translated = out(&mut router, &packet, Time::ZERO).unwrap();
        assert_eq!(ends(&translated), ("198.18.2.3".into(), "192.0.2.9".into()));
        assert_eq!(flow(&translated).source.port(), 7);
    }
    for part in fragments(&udp("10.1.2.3:7", "192.0.2.9:9", &[1; 3000]), 1480, 3).iter().rev() {
        assert_eq!(ends(&out(&mut router, part, Time::ZERO).unwrap()).0, "198.18.2.3", "in any order");
    }
    let foreign = udp("10.2.2.3:7", "192.0.2.9:9", b"x");
    assert_eq!(out(&mut router, &foreign, Time::ZERO), Some(foreign), "not of the prefix");
}

/// Twice NAT (RFC 2663 §4.3): the hosts of the far site, too, appear under other addresses.
#[test]
fn the_addresses_of_outside_hosts_are_translated_at_the_other_end() {
    let mut router = translator(&[
        inside("10.1.0.0/16", "198.18.0.0/16"),
        pair(PrefixSide::Outside, "10.2.0.0/16", "198.19.0.0/16"),
    ]);
    let packet = tcp("10.1.2.3:7", "10.2.4.5:9", "S", b"");
    let translated = out(&mut router, &packet, Time::ZERO).unwrap();
    assert_eq!(ends(&translated), ("198.18.2.3".into(), "198.19.4.5".into()));
    let reply = tcp("198.19.4.5:9", "198.18.2.3:7", "SA", b"");
    assert_eq!(ends(&back(&mut router, &reply, Time::ZERO).unwrap()), ("10.2.4.5".into(), "10.1.2.3".into()));
    let error = time_exceeded("192.0.2.254", &translated, 576);
    let returned = back(&mut router, &error, Time::ZERO).unwrap();
    let quote = QuotedPacket::from_error(&returned, &Headers::parse(&returned).unwrap()).unwrap();
    assert_eq!(returned[quote.offset..], packet);
}

/// RFC 6296 §4: hairpinning.
#[test]
fn inside_hosts_reach_each_other_by_their_external_addresses() {
    let mut router = translator(&[inside("fd01:203:405::/48", "2001:db8:1::/48")]);
    let mut packet = udp("[fd01:203:405:1::1]:7", "[2001:db8:1:d550::2]:9", b"x");
    assert_eq!(router.process_packet(Direction::Outbound, &mut packet, Time::ZERO), PacketAction::Hairpin);
    assert!(checksum::is_valid(&packet).unwrap());
    assert_eq!(ends(&packet), ("2001:db8:1:d550::1".into(), "fd01:203:405:1::2".into()));
}

/// "Time exceeded" of ICMPv6, whose checksum covers its addresses and the packet that it quotes.
#[test]
fn icmpv6_errors_are_translated_with_the_packet_that_they_quote() {
    let mut router = translator(&[inside("fd01:203:405::/48", "2001:db8:1::/48")]);
    let remote = "[2001:db8:ffff::2]:9";
    for packet in [
        udp("[fd01:203:405:1::1]:7", remote, b"payload"),
        tcp("[fd01:203:405:1::1]:7", remote, "S", b""),
        echo("[fd01:203:405:1::1]:7", remote, true),
    ] {
        let sent = out(&mut router, &packet, Time::ZERO).unwrap();
        for bytes in [1232, 48] {
            let error = back(&mut router, &time_exceeded("2001:db8:eeee::1", &sent, bytes), Time::ZERO).unwrap();
            assert_eq!(ends(&error), ("2001:db8:eeee::1".into(), "fd01:203:405:1::1".into()));
            assert_eq!(error[48..], packet[..packet.len().min(bytes)]);
        }
    }
    // An inside router reports an error about a packet from the outside.
    let arrived = udp(remote, "[2001:db8:1:d550::1]:7", b"payload");
    let received = back(&mut router, &arrived, Time::ZERO).unwrap();
    let error = out(&mut router, &time_exceeded("fd01:203:405:2::9", &received, 1232), Time::ZERO).unwrap();
    assert_eq!(ends(&error), ("2001:db8:1:d551::9".into(), "2001:db8:ffff::2".into()));
    assert_eq!(error[48..], arrived);
}

#[test]
fn prefixes_are_translated_beside_a_nat44() {
    let prefixes = vec![inside("10.1.0.0/16", "198.18.0.0/16")];
    let mut router = Middlebox::new(MiddleboxConfig { nat: Some(nat()), prefixes, ..Default::default() }, 1).unwrap();
    let covered = out(&mut router, &udp("10.1.2.3:7", SERVER, b"x"), Time::ZERO).unwrap();
    assert_eq!(flow(&covered).source.to_string(), "198.18.2.3:7");
    assert!(external_of(&mut router, CLIENT, Time::ZERO).to_string().starts_with(EXTERNAL));
    assert_eq!(router.counters().sessions, 1);
    assert!(back(&mut router, &udp("192.0.2.9:9", "198.18.2.3:7", b"x"), Time::ZERO).is_some(), "no filtering");
    let error = back(&mut router, &time_exceeded("192.0.2.254", &covered, 576), Time::ZERO).unwrap();
    assert_eq!(ends(&error).1, "10.1.2.3");
    // From the one kind of host to the other, and back.
    let external = external_of(&mut router, CLIENT, Time::ZERO).to_string();
    let mut packet = udp("10.1.2.3:7", &external, b"x");
    assert_eq!(router.process_packet(Direction::Outbound, &mut packet, Time::ZERO), PacketAction::Hairpin);
    assert_eq!(ends(&packet), ("198.18.2.3".into(), "10.0.0.1".into()));
    let mut packet = udp(CLIENT, "198.18.2.3:7", b"x");
    assert_eq!(router.process_packet(Direction::Outbound, &mut packet, Time::ZERO), PacketAction::Hairpin);
    assert_eq!(ends(&packet), (EXTERNAL.into(), "10.1.2.3".into()));
}

#[test]
fn contradictory_pairs_are_refused() {
    let good = inside("10.1.0.0/16", "198.18.0.0/16");
    for (pairs, part) in [
        (vec![inside("10.1.0.0/16", "198.18.0.0/15")], "different lengths"),
        (vec![inside("10.1.0.0/16", "2001:db8::/16")], "different IP versions"),
        (vec![good, inside("10.1.2.0/24", "198.19.0.0/24")], "overlaps another pair"),
        (vec![good, inside("10.2.0.0/16", "198.18.0.0/16")], "overlaps another pair"),
        (vec![inside("10.1.0.0/24", "203.0.113.0/24")], "belongs to a translated prefix"),
        (vec![good; 65], "too many"),
    ] {
        let config = MiddleboxConfig { prefixes: pairs, nat: Some(nat()), ..Default::default() };
        let error = Middlebox::new(config, 1).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

proptest! {
    /// RFC 6296 §2.6: "checksum-neutral": the sum of an address does not change, whatever its prefix; and the translation
    /// is one to one.
    #[test]
    fn ipv6_translation_is_neutral_and_reversible(internal: u128, external: u128, host: u128, length in 1u8..=112) {
        let net = |bits: u128| ipnet::Ipv6Net::new(Ipv6Addr::from_bits(bits), length).unwrap().trunc();
        let (internal, external) = (net(internal), net(external));
        prop_assume!(internal != external);
        // Neither 0xffff nor 0x0000, which mean the same in the adjusted word.
        let host = host & !(0xffff_ffff_ffff_ffff_ffff_ffff_ffff_ffff >> length & 0x0001_0001_0001_0001_0001_0001_0001_0001);
        let address = Ipv6Addr::from_bits(internal.network().to_bits() | host & internal.hostmask().to_bits());
        prop_assume!(address.segments()[3..].iter().all(|word| ![0, 0xffff].contains(word)));
        prop_assume!(!address.is_multicast());
        let pair = PrefixPair { side: PrefixSide::Inside, internal: internal.into(), external: external.into() };
        let mut router = translator(&[pair]);
        let packet = udp(&format!("[{address}]:7"), "[::1]:9", b"x");
        prop_assume!(!external.contains(&Ipv6Addr::LOCALHOST) && !internal.contains(&Ipv6Addr::LOCALHOST));
        let translated = out(&mut router, &packet, Time::ZERO).unwrap();
        prop_assert_eq!(&packet[40..], &translated[40..], "the transport's checksum included");
        prop_assert!(external.contains(&flow(&translated).source.to_string().parse::<std::net::SocketAddrV6>().unwrap().ip().to_owned()));
        let reply = udp("[::1]:9", &flow(&translated).source.to_string(), b"x");
        let returned = back(&mut router, &reply, Time::ZERO).unwrap();
        prop_assert_eq!(flow(&returned).destination, flow(&packet).source);
    }
}
