//! What must hold of a middlebox whatever packets it is given: for the fuzzer, and for the tests that replay its finds.

use kumade_middlebox::{
    Chance, Direction, EndpointDependence, FilterRule, Middlebox, MiddleboxConfig, NatConfig, NatLimits, PacketAction,
    PacketKind, PacketMatch, PrefixPair, PrefixSide, RefusalKind, ResetScope, TcpOptionMatch, Treatment,
    TreatmentAction, TreatmentMatch,
};
use kumade_packet::{Ecn, Headers, checksum};
use kumade_units::{Span, Time};

// Bits of the byte before each packet.
const INBOUND: u8 = 1;
/// Checksums are made valid first.
const VALID: u8 = 2;
/// The last forwarded packet, turned around, takes the place of the bytes.
const REPLY: u8 = 4;
/// The transport checksum is taken for incomplete.
const OFFLOADED: u8 = 8;
/// Time passes: by the index in [`STEPS`].
const STEP_SHIFT: u8 = 6;
const STEPS: [Span; 4] = [Span::ZERO, Span::from_millis(1), Span::from_secs(5), Span::from_secs(400)];

const LIMITS: NatLimits =
    NatLimits { max_sessions: 12, max_sessions_per_host: 5, max_fragmented_datagrams: 3, max_held_fragments: 2 };

/// One byte of settings, then packets: a byte of the bits above, two bytes of length, and the bytes.
pub fn middlebox(data: &[u8]) {
    let Some((settings, mut rest)) = data.split_first() else { return };
    let mut router = Middlebox::new(config(*settings), 7).expect("valid settings");
    let (mut now, mut last) = (Time::ZERO, Vec::new());
    while let Some((&[control, high, low], behind)) = rest.split_first_chunk::<3>() {
        let (bytes, behind) = behind.split_at(behind.len().min(usize::from(u16::from_be_bytes([high, low]))));
        rest = behind;
        now += STEPS[usize::from(control >> STEP_SHIFT)];
        let mut packet = if control & REPLY != 0 { turned_around(&last) } else { bytes.to_vec() };
        if control & VALID != 0 {
            let _ = checksum::set(&mut packet);
        }
        let direction = if control & INBOUND != 0 { Direction::Inbound } else { Direction::Outbound };
        if control & OFFLOADED != 0 {
            router.process_offloaded_packet(direction, &mut packet, now);
        } else if pass(&mut router, direction, &mut packet, now) {
            last = packet;
        }
        bounded(&router);
    }
}

fn config(settings: u8) -> MiddleboxConfig {
    let bit = |number: u8| settings >> number & 1 != 0;
    let refusal = if bit(0) { RefusalKind::Reject } else { RefusalKind::Drop };
    let dependence = |one, other| match (bit(one), bit(other)) {
        (false, false) => EndpointDependence::EndpointIndependent,
        (false, true) => EndpointDependence::AddressDependent,
        (true, _) => EndpointDependence::AddressAndPortDependent,
    };
    let (filtering, mapping) = (dependence(1, 7), dependence(4, 6));
    let external = [203, 0, 113, 1].into();
    let nat = NatConfig { refusal, filtering, mapping, limits: LIMITS, last_port: 1030, ..NatConfig::new(external) };
    let net = |text: &str| text.parse().expect("a prefix");
    let pair = |hosts, internal, external| PrefixPair { side: hosts, internal: net(internal), external: net(external) };
    let prefixes = vec![
        pair(PrefixSide::Inside, "10.1.0.0/16", "198.18.0.0/16"),
        pair(PrefixSide::Inside, "fd01:203:405::/48", "2001:db8:1::/48"),
        pair(PrefixSide::Outside, "fd02::/64", "2001:db8:2::/64"),
    ];
    let rules = vec![
        FilterRule::Refuse { matching: PacketMatch { protocol: Some(6), destination_port: Some(25) }, refusal },
        FilterRule::LimitConnections { max_connections: 3, refusal },
        FilterRule::LimitSyns { per_second: 5, burst: 5 },
        FilterRule::ResetAfter { data_packets: 4, scope: ResetScope::Connection },
    ];
    MiddleboxConfig {
        rules: if bit(2) { rules } else { vec![] },
        nat: (!bit(3)).then_some(nat),
        prefixes: if bit(4) { prefixes } else { vec![] },
        treatments: if bit(5) { treatments(bit(6)) } else { vec![] },
    }
}

fn treatments(replies: bool) -> Vec<Treatment> {
    let treatment = |direction, action| Treatment {
        matching: TreatmentMatch { direction, ..TreatmentMatch::default() },
        chance: Chance::Always,
        action,
    };
    let syn_with_fast_open = TreatmentMatch { kind: Some(PacketKind::SynWithOption(34)), ..TreatmentMatch::default() };
    let ecn_syn = TreatmentMatch { kind: Some(PacketKind::EcnSyn), ..TreatmentMatch::default() };
    vec![
        Treatment { matching: syn_with_fast_open, ..treatment(None, TreatmentAction::Drop) },
        Treatment { chance: Chance::Flows(0.5), matching: ecn_syn, action: TreatmentAction::ClearEcnFlags },
        treatment(None, TreatmentAction::LimitMtu { mtu: 60, replies }),
        Treatment { chance: Chance::Packets(0.5), ..treatment(None, TreatmentAction::SetEcn(Ecn::Ce)) },
        treatment(Some(Direction::Inbound), TreatmentAction::MaskDscp(0b111)),
        treatment(None, TreatmentAction::ClampMss(1000)),
        treatment(Some(Direction::Outbound), TreatmentAction::RemoveOptions(TcpOptionMatch::Unknown)),
        treatment(None, TreatmentAction::RandomizeSequence),
    ]
}

/// Whether the packet is forwarded. Valid packets stay valid, others do not change, and replies are valid.
fn pass(router: &mut Middlebox, direction: Direction, packet: &mut [u8], now: Time) -> bool {
    let before = packet.to_vec();
    let was_valid = checksum::is_valid(&before) == Ok(true);
    let action = router.process_packet(direction, packet, now);
    let is_forwarded = matches!(action, PacketAction::Forward | PacketAction::Hairpin);
    match action {
        PacketAction::Forward | PacketAction::Hairpin => {
            assert!(!was_valid || checksum::is_valid(packet) == Ok(true), "{packet:?}")
        }
        PacketAction::Drop | PacketAction::Hold => assert_eq!(packet, before),
        PacketAction::Reply(reply) => {
            assert_eq!(packet, before);
            assert_eq!(checksum::is_valid(&reply), Ok(true));
        }
        PacketAction::Reset(pair) => {
            assert_eq!(checksum::is_valid(&pair.to_source), Ok(true));
            assert_eq!(checksum::is_valid(&pair.to_destination), Ok(true));
        }
    }
    while let Some(released) = router.next_released() {
        assert!(Headers::parse(&released.packet).expect("a whole packet").is_fragment());
    }
    is_forwarded
}

fn bounded(router: &Middlebox) {
    let counters = router.counters();
    assert!(counters.sessions <= LIMITS.max_sessions as usize && counters.mappings <= counters.sessions);
    assert!(counters.hosts <= counters.mappings);
    let mut hosts: Vec<_> = router.sessions().map(|session| *session.inside.ip()).collect();
    assert_eq!(hosts.len(), counters.sessions);
    hosts.sort();
    for sessions in hosts.chunk_by(|a, b| a == b) {
        assert!(sessions.len() <= LIMITS.max_sessions_per_host as usize);
    }
}

/// The packet with its ends exchanged, as a simple reply.
fn turned_around(packet: &[u8]) -> Vec<u8> {
    let mut reply = packet.to_vec();
    let Ok(headers) = Headers::parse(packet) else { return reply };
    let mut turned = headers;
    (turned.source, turned.destination) = (headers.destination, headers.source);
    turned.ports = headers.ports.map(|(source, destination)| (destination, source));
    kumade_packet::rewrite(&mut reply, &headers, &turned).expect("the headers of this packet");
    // An echo request becomes its reply.
    if let (1, Some(8)) = (headers.protocol, headers.icmp().map(|icmp| icmp.kind)) {
        reply[headers.transport_offset] = 0;
        let _ = checksum::set(&mut reply);
    }
    reply
}
