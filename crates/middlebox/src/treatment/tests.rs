use super::*;
use crate::action::Direction::{Inbound, Outbound};
use crate::middlebox::{Middlebox, MiddleboxConfig};
use etherparse::{IpHeaders, PacketBuilder, PacketBuilderStep, TcpHeader, TcpHeaderSlice};
use kumade_packet::{checksum, ecn};
use kumade_units::Time;
use proptest::prelude::*;
use std::net::IpAddr;

const V4: [&str; 2] = ["10.0.0.1:40000", "198.51.100.2:5201"];
const V6: [&str; 2] = ["[fd01::1]:40000", "[2001:db8::2]:5201"];
const ALWAYS: TreatmentMatch = TreatmentMatch {
    direction: None,
    packet: PacketMatch { protocol: None, destination_port: None },
    is_ipv6: None,
    ecn: None,
    dscp: None,
    kind: None,
};

fn ends(is_v6: bool, direction: Direction) -> [SocketAddr; 2] {
    let [inside, outside] = if is_v6 { V6 } else { V4 }.map(|end| end.parse().unwrap());
    if direction == Outbound { [inside, outside] } else { [outside, inside] }
}

fn ip([from, to]: [SocketAddr; 2]) -> PacketBuilderStep<IpHeaders> {
    match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => PacketBuilder::ipv4(from.octets(), to.octets(), 64),
        (IpAddr::V6(from), IpAddr::V6(to)) => PacketBuilder::ipv6(from.octets(), to.octets(), 64),
        _ => unreachable!("both are of one version"),
    }
}

fn udp(is_v6: bool, direction: Direction, field: u8, bytes: usize) -> Vec<u8> {
    let ends = ends(is_v6, direction);
    let mut packet = Vec::new();
    let headers = if is_v6 { 48 } else { 28 };
    ip(ends).udp(ends[0].port(), ends[1].port()).write(&mut packet, &vec![7; bytes - headers]).unwrap();
    with_field(packet, field)
}

fn with_field(mut packet: Vec<u8>, octet: u8) -> Vec<u8> {
    DsField::new(Dscp::new(octet >> 2).unwrap(), Ecn::from_bits(octet)).write(&mut packet);
    packet
}

fn tcp(is_v6: bool, direction: Direction, header: &TcpHeader) -> Vec<u8> {
    let ends = ends(is_v6, direction);
    let header = TcpHeader { source_port: ends[0].port(), destination_port: ends[1].port(), ..header.clone() };
    let mut packet = Vec::new();
    ip(ends).tcp_header(header).write(&mut packet, b"").unwrap();
    packet
}

/// A SYN that asks for ECN, with options as Linux sends them and an unknown one.
fn ecn_syn() -> TcpHeader {
    let mut header = TcpHeader::new(0, 0, 77, 1000);
    (header.syn, header.ece, header.cwr, header.ns) = (true, true, true, true);
    header.set_options_raw(&[2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7, 253, 4, 1, 2]).unwrap();
    header
}

fn tcp_header(packet: &[u8]) -> TcpHeader {
    let offset = Headers::parse(packet).unwrap().transport_offset;
    TcpHeaderSlice::from_slice(&packet[offset..]).unwrap().to_header()
}

fn treatment(matching: TreatmentMatch, action: TreatmentAction) -> Treatment {
    Treatment { matching, chance: Chance::Always, action }
}

fn middlebox(treatments: &[Treatment]) -> Middlebox {
    Middlebox::new(MiddleboxConfig { treatments: treatments.to_vec(), ..Default::default() }, 7).unwrap()
}

/// The packet behind the middlebox, whose checksums are valid.
fn pass(middlebox: &mut Middlebox, direction: Direction, packet: &[u8]) -> Option<Vec<u8>> {
    let mut treated = packet.to_vec();
    let action = middlebox.process_packet(direction, &mut treated, Time::ZERO);
    assert_eq!(checksum::is_valid(&treated), Ok(true));
    (action == PacketAction::Forward).then_some(treated)
}

/// The packet behind a middlebox that treats all that matches so.
fn treated(matching: TreatmentMatch, action: TreatmentAction, direction: Direction, packet: &[u8]) -> Option<Vec<u8>> {
    pass(&mut middlebox(&[treatment(matching, action)]), direction, packet)
}

/// The octet of DSCP and ECN behind a middlebox.
fn octet_behind(matching: TreatmentMatch, action: TreatmentAction, is_v6: bool, octet: u8) -> u8 {
    DsField::read(&treated(matching, action, Outbound, &udp(is_v6, Outbound, octet, 100)).unwrap()).octet()
}

#[test]
fn fields_are_bleached_replaced_and_masked() {
    let [ef, cs5, af11] = [46, 40, 10u8].map(|number| number << 2);
    let dscp = |number| Dscp::new(number).unwrap();
    for is_v6 in [false, true] {
        for (matching, action, before, after) in [
            (ALWAYS, TreatmentAction::SetEcn(Ecn::NotEct), ef | 1, ef),
            (TreatmentMatch { ecn: Some(Ecn::Ect1), ..ALWAYS }, TreatmentAction::SetEcn(Ecn::Ect0), ef | 1, ef | 2),
            (TreatmentMatch { ecn: Some(Ecn::Ect1), ..ALWAYS }, TreatmentAction::SetEcn(Ecn::Ect0), ef | 3, ef | 3),
            (ALWAYS, TreatmentAction::SetDscp(dscp(0)), ef | 2, 2),
            (TreatmentMatch { dscp: Some(dscp(46)), ..ALWAYS }, TreatmentAction::SetDscp(dscp(40)), ef, cs5),
            (TreatmentMatch { dscp: Some(dscp(46)), ..ALWAYS }, TreatmentAction::SetDscp(dscp(40)), af11, af11),
            (ALWAYS, TreatmentAction::MaskDscp(0b111_000), ef | 1, cs5 | 1),
            (ALWAYS, TreatmentAction::MaskDscp(0b000_111), ef, 6 << 2),
        ] {
            assert_eq!(octet_behind(matching, action, is_v6, before), after, "{matching:?} {action:?}");
        }
    }
}

#[test]
fn only_what_matches_is_lost() {
    let lost =
        |matching, direction, packet: &[u8]| treated(matching, TreatmentAction::Drop, direction, packet).is_none();
    for is_v6 in [false, true] {
        let ect1 = TreatmentMatch { ecn: Some(Ecn::Ect1), ..ALWAYS };
        assert_eq!(
            [0, 1, 2, 3].map(|ecn| lost(ect1, Outbound, &udp(is_v6, Outbound, ecn, 100))),
            [false, true, false, false]
        );
        let inbound = TreatmentMatch { direction: Some(Inbound), ..ALWAYS };
        assert!(lost(inbound, Inbound, &udp(is_v6, Inbound, 0, 100)));
        assert!(!lost(inbound, Outbound, &udp(is_v6, Outbound, 0, 100)));
        assert_eq!(
            lost(TreatmentMatch { is_ipv6: Some(true), ..ALWAYS }, Outbound, &udp(is_v6, Outbound, 0, 100)),
            is_v6
        );
        let of = |kind| TreatmentMatch { kind: Some(kind), ..ALWAYS };
        let with_ecn = tcp(is_v6, Outbound, &ecn_syn());
        let plain = tcp(is_v6, Outbound, &TcpHeader { ece: false, cwr: false, ns: false, ..ecn_syn() });
        let no_syn = tcp(is_v6, Outbound, &TcpHeader { syn: false, ..ecn_syn() });
        for (kind, expected) in [
            (PacketKind::Syn, [true, true, false]),
            (PacketKind::EcnSyn, [true, false, false]),
            (PacketKind::SynWithOption(253), [true, true, false]),
            (PacketKind::SynWithOption(30), [false, false, false]),
        ] {
            assert_eq!(
                [&with_ecn, &plain, &no_syn].map(|packet| lost(of(kind), Outbound, packet)),
                expected,
                "{kind:?}"
            );
        }
        let too_big = kumade_packet::packet_too_big(&udp(is_v6, Outbound, 0, 1400), 1300).unwrap();
        let unreachable = kumade_packet::reject(&udp(is_v6, Outbound, 0, 1400)).unwrap();
        let big = TreatmentMatch { kind: Some(PacketKind::PacketTooBig), ..ALWAYS };
        assert!(lost(big, Inbound, &too_big) && !lost(big, Inbound, &unreachable));
    }
}

#[test]
fn what_is_too_long_is_lost_with_or_without_a_word() {
    for is_v6 in [false, true] {
        for replies in [false, true] {
            let mut narrow = middlebox(&[treatment(ALWAYS, TreatmentAction::LimitMtu { mtu: 1300, replies })]);
            assert!(pass(&mut narrow, Outbound, &udp(is_v6, Outbound, 0, 1300)).is_some());
            let mut long = udp(is_v6, Outbound, 0, 1301);
            let before = long.clone();
            let action = narrow.process_packet(Outbound, &mut long, Time::ZERO);
            assert_eq!(long, before);
            let PacketAction::Reply(reply) = action else {
                assert_eq!((action, replies), (PacketAction::Drop, false));
                continue;
            };
            assert!(replies && checksum::is_valid(&reply) == Ok(true));
            let headers = Headers::parse(&reply).unwrap();
            assert_eq!(headers.destination, ends(is_v6, Outbound)[0].ip());
            let field = headers.transport_offset + 6;
            assert_eq!(reply[field..field + 2], 1300u16.to_be_bytes());
            assert_eq!(narrow.process_offloaded_packet(Outbound, &mut long, Time::ZERO), PacketAction::Forward);
        }
    }
    // Routers divide it.
    let mut may_be_fragmented = udp(false, Outbound, 0, 1400);
    may_be_fragmented[6] &= !0x40;
    checksum::set(&mut may_be_fragmented).unwrap();
    assert!(
        treated(ALWAYS, TreatmentAction::LimitMtu { mtu: 1300, replies: true }, Outbound, &may_be_fragmented).is_some()
    );
}

#[test]
fn a_handshake_loses_ecn_options_and_length() {
    for is_v6 in [false, true] {
        for direction in [Outbound, Inbound] {
            let packet = tcp(is_v6, direction, &ecn_syn());
            let without_ecn = tcp_header(&treated(ALWAYS, TreatmentAction::ClearEcnFlags, direction, &packet).unwrap());
            assert_eq!(
                [without_ecn.ece, without_ecn.cwr, without_ecn.ns, without_ecn.syn],
                [false, false, false, true]
            );
            let clamped = tcp_header(&treated(ALWAYS, TreatmentAction::ClampMss(1200), direction, &packet).unwrap());
            assert_eq!(clamped.options.as_slice()[..4], [2, 4, 0x04, 0xb0]);
            let of = |which| TreatmentAction::RemoveOptions(which);
            let known = tcp_header(&treated(ALWAYS, of(TcpOptionMatch::Unknown), direction, &packet).unwrap());
            assert_eq!(known.options.as_slice()[16..], [1, 3, 3, 7, 1, 1, 1, 1]);
            let no_sack = tcp_header(&treated(ALWAYS, of(TcpOptionMatch::Kind(4)), direction, &packet).unwrap());
            assert_eq!(no_sack.options.as_slice()[4..6], [1, 1]);
        }
        // Behind the handshake, the flags have another meaning.
        let later = tcp(is_v6, Outbound, &TcpHeader { syn: false, ack: true, ..ecn_syn() });
        assert_eq!(treated(ALWAYS, TreatmentAction::ClearEcnFlags, Outbound, &later), Some(later.clone()));
        assert_eq!(treated(ALWAYS, TreatmentAction::ClampMss(1200), Outbound, &later), Some(later));
    }
}

#[test]
fn shifted_sequences_are_of_one_end_and_come_back_as_they_were() {
    for (direction, is_v6) in [(Some(Outbound), false), (Some(Inbound), true), (None, false), (None, true)] {
        let matching = TreatmentMatch { direction, ..ALWAYS };
        let mut shifting = middlebox(&[treatment(matching, TreatmentAction::RandomizeSequence)]);
        let numbers = |header: TcpHeader| (header.sequence_number, header.acknowledgment_number);
        let mut behind = |way, sequence, ack, syn| {
            let header = TcpHeader { syn, ack: true, acknowledgment_number: ack, ..TcpHeader::new(0, 0, sequence, 9) };
            numbers(tcp_header(&pass(&mut shifting, way, &tcp(is_v6, way, &header)).unwrap()))
        };
        let is_shifted = |way| direction.is_none_or(|direction| direction == way);
        let (out_sequence, out_ack) = behind(Outbound, 1000, 2000, false);
        assert_eq!((out_sequence != 1000, out_ack != 2000), (is_shifted(Outbound), is_shifted(Inbound)));
        // What the outside saw, it acknowledges; what it is told of, it has sent.
        assert_eq!(behind(Inbound, out_ack, out_sequence, false), (2000, 1000));
        assert_eq!(behind(Outbound, 1001, 2000, true), (out_sequence.wrapping_add(1), out_ack));
    }
}

#[test]
fn two_connections_are_shifted_by_different_numbers() {
    let mut shifting = middlebox(&[treatment(ALWAYS, TreatmentAction::RandomizeSequence)]);
    let mut shift =
        |is_v6| tcp_header(&pass(&mut shifting, Outbound, &tcp(is_v6, Outbound, &ecn_syn())).unwrap()).sequence_number;
    assert!(shift(false) != shift(true) && shift(false) == shift(false));
}

#[test]
fn a_reset_behind_shifted_sequences_has_the_numbers_that_its_receiver_knows() {
    use crate::rules::{FilterRule, ResetScope};
    let rules = vec![FilterRule::ResetAfter { data_packets: 0, scope: ResetScope::Connection }];
    let treatments = vec![treatment(ALWAYS, TreatmentAction::RandomizeSequence)];
    let mut middlebox = Middlebox::new(MiddleboxConfig { rules, treatments, ..Default::default() }, 7).unwrap();
    let header = TcpHeader { ack: true, acknowledgment_number: 2000, ..TcpHeader::new(0, 0, 1000, 9) };
    let behind = tcp_header(&pass(&mut middlebox, Outbound, &tcp(false, Outbound, &header)).unwrap());
    let ends = ends(false, Outbound);
    let mut data = Vec::new();
    ip(ends).tcp(ends[0].port(), ends[1].port(), 1000, 9).ack(2000).write(&mut data, b"x").unwrap();
    let PacketAction::Reset(pair) = middlebox.process_packet(Outbound, &mut data, Time::ZERO) else { panic!("none") };
    assert_eq!(tcp_header(&pair.to_source).sequence_number, 2000);
    assert_eq!(tcp_header(&pair.to_destination).sequence_number, behind.sequence_number);
}

#[test]
fn chance_takes_its_part_of_packets_or_flows_and_the_same_again() {
    let bleach = |chance| Treatment { chance, ..treatment(ALWAYS, TreatmentAction::SetEcn(Ecn::NotEct)) };
    let bleached = |chance| -> Vec<bool> {
        let mut middlebox = middlebox(&[bleach(chance)]);
        let ports = (0..400u16).flat_map(|port| [port; 3]);
        let packets = ports.map(|port| {
            let mut packet = Vec::new();
            ip(ends(false, Outbound)).udp(1000 + port, 443).write(&mut packet, b"x").unwrap();
            ecn::set(&mut packet, Ecn::Ect0);
            ecn::read(&pass(&mut middlebox, Outbound, &packet).unwrap()) == Ecn::NotEct
        });
        packets.collect()
    };
    let part = |chance| bleached(chance).iter().filter(|bleached| **bleached).count() as f64 / 1200.0;
    assert_eq!([Chance::Packets(0.0), Chance::Flows(1.0), Chance::Always].map(part), [0.0, 1.0, 1.0]);
    for chance in [Chance::Packets(0.25), Chance::Flows(0.25)] {
        // By four standard deviations of as many flows.
        assert!((part(chance) - 0.25).abs() < 0.09, "{chance:?}: {}", part(chance));
        assert_eq!(bleached(chance), bleached(chance));
        let is_whole = bleached(chance).chunks(3).all(|flow| flow == [flow[0]; 3]);
        assert_eq!(is_whole, matches!(chance, Chance::Flows(_)));
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let refused = |treatment: Treatment| {
        let config = MiddleboxConfig { treatments: vec![treatment], ..Default::default() };
        Middlebox::new(config, 1).unwrap_err().to_string()
    };
    let shift = treatment(ALWAYS, TreatmentAction::RandomizeSequence);
    assert!(refused(Treatment { chance: Chance::Packets(0.5), ..shift }).contains("all segments of a connection"));
    let of_ef = TreatmentMatch { dscp: Dscp::new(46), ..ALWAYS };
    assert!(refused(Treatment { matching: of_ef, ..shift }).contains("all segments of a connection"));
    let lossy = treatment(ALWAYS, TreatmentAction::Drop);
    assert!(refused(Treatment { chance: Chance::Flows(1.5), ..lossy }).contains("probability is 1.5"));
    assert!(refused(Treatment { chance: Chance::Packets(f64::NAN), ..lossy }).contains("out of range"));
    assert!(refused(treatment(ALWAYS, TreatmentAction::MaskDscp(64))).contains("six bits"));
}

fn any_action() -> impl Strategy<Value = TreatmentAction> {
    prop_oneof![
        (0u8..4).prop_map(|bits| TreatmentAction::SetEcn(Ecn::from_bits(bits))),
        (0u8..64).prop_map(|number| TreatmentAction::SetDscp(Dscp::new(number).unwrap())),
        (0u8..64).prop_map(TreatmentAction::MaskDscp),
        Just(TreatmentAction::ClearEcnFlags),
        any::<u16>().prop_map(TreatmentAction::ClampMss),
        any::<u8>().prop_map(|kind| TreatmentAction::RemoveOptions(TcpOptionMatch::Kind(kind % 10))),
        Just(TreatmentAction::RemoveOptions(TcpOptionMatch::Unknown)),
        Just(TreatmentAction::RandomizeSequence),
    ]
}

proptest! {
    #[test]
    fn checksums_are_what_computing_them_anew_gives_also_of_offloaded_packets(
        actions in prop::collection::vec(any_action(), 1..6), is_v6: bool, is_outbound: bool, is_tcp: bool,
        octet: u8, sequence: u32, ack: u32, flags: [bool; 5],
    ) {
        let direction = if is_outbound { Outbound } else { Inbound };
        let packet = if is_tcp {
            let mut header = TcpHeader { sequence_number: sequence, acknowledgment_number: ack, ..ecn_syn() };
            [header.syn, header.ack, header.ece, header.cwr, header.ns] = flags;
            with_field(tcp(is_v6, direction, &header), octet)
        } else {
            udp(is_v6, direction, octet, 100)
        };
        let treatments: Vec<_> = actions.into_iter().map(|action| treatment(ALWAYS, action)).collect();
        let changed = pass(&mut middlebox(&treatments), direction, &packet).unwrap();
        let mut computed = changed.clone();
        checksum::set(&mut computed).unwrap();
        prop_assert_eq!(&changed, &computed);
        prop_assert_eq!(changed.len(), packet.len());
        // A network card completes what is in the field, which stays.
        let mut offloaded = packet.clone();
        let field = Headers::parse(&packet).unwrap().transport_offset + if is_tcp { 16 } else { 6 };
        offloaded[field..field + 2].copy_from_slice(b"ps");
        let mut middlebox = middlebox(&treatments);
        prop_assert_eq!(middlebox.process_offloaded_packet(direction, &mut offloaded, Time::ZERO), PacketAction::Forward);
        prop_assert_eq!(&offloaded[field..field + 2], b"ps");
        checksum::set(&mut offloaded).unwrap();
        prop_assert_eq!(offloaded, changed);
    }
}
