//! What is true of a path: what its middlebox does to sample packets, which are shown to it without a network.

use super::treatment_settings::middlebox_direction;
use kumade_measurement::report::{NatFiltering, NatMapping};
use kumade_middlebox::{Chance, EndpointDependence, Middlebox, MiddleboxConfig, PacketAction};
use kumade_packet::{DsField, Dscp, Ecn, Headers, TcpRewrite, checksum, has_ecn_flags, has_tcp_option, tcp_option};
use kumade_units::{ConfigError, Direction, Time};
use std::collections::BTreeMap;

/// So many packets show what happens to a part of them.
const CHANCE_SAMPLES: u16 = 400;
/// The largest packets that the path itself takes, in bytes.
const LINE_MTU: u16 = 1500;
/// No path of IPv6 has less, and few of IPv4, in bytes.
const MIN_MTU: u16 = 1280;
/// The maximum segment size that hosts on such a line announce, by IP version.
pub(super) const LINE_MSS: [u16; 2] = [LINE_MTU - 40, LINE_MTU - 60];

/// What is true of both directions.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PathTruth {
    pub(super) up: DirectionTruth,
    pub(super) down: DirectionTruth,
    /// How the addresses of the host that measures are translated: mapping; none if they are not.
    pub(super) mapping: Option<NatMapping>,
    /// Which packets from outside are let in that nobody has asked for.
    pub(super) filtering: NatFiltering,
}

/// What happens to packets in a direction.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct DirectionTruth {
    /// By the octet of DSCP and ECN with which a UDP packet was sent.
    pub(super) fields: BTreeMap<u8, Fate>,
    /// A SYN that asks for ECN.
    pub(super) syn: SynFate,
    /// The longest packet that passes, in bytes.
    pub(super) mtu: u16,
    /// Longer ones vanish without an ICMP message.
    pub(super) is_black_hole: bool,
}

/// With which octets packets arrived, and what part of them; the rest were lost.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Fate(pub(super) BTreeMap<u8, f64>);

/// What becomes of a SYN.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct SynFate {
    /// It is lost if it asks for ECN.
    pub(super) is_dropped: bool,
    /// It arrives without ECN's flags.
    pub(super) loses_ecn: bool,
    /// The maximum segment size with which it arrives.
    pub(super) mss: Option<u16>,
    /// Of the options that Linux sends, those that are missing.
    pub(super) removed_options: Vec<u8>,
    /// What becomes of other options, by their kinds.
    pub(super) carried: BTreeMap<u8, CarriedFate>,
    /// It arrives with another sequence number.
    pub(super) has_other_sequence: bool,
}

/// What becomes of an option that a SYN carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CarriedFate {
    Kept,
    Removed,
    /// The SYN is lost for it.
    Dropped,
}

/// The options that Linux sends, …
const LINUX_OPTIONS: [u8; 20] = [
    2, 4, 0, 0, // maximum segment size, filled in
    4, 2, // SACK permitted
    8, 10, 0, 0, 0, 1, 0, 0, 0, 0, // timestamps
    1, 3, 3, 7, // window scale
];
const LINUX_KINDS: [u8; 4] =
    [tcp_option::MAXIMUM_SEGMENT_SIZE, tcp_option::WINDOW_SCALE, tcp_option::SACK_PERMITTED, tcp_option::TIMESTAMPS];
/// … and others that measurements look at: MP_CAPABLE, and a request for a cookie.
const CARRIED_OPTIONS: [(u8, &[u8]); 2] =
    [(tcp_option::MULTIPATH, &[30, 4, 0x01, 0x81]), (tcp_option::FAST_OPEN, &[34, 2, 1, 1])];

impl PathTruth {
    /// Of the path behind such a middlebox, for this IP version.
    ///
    /// # Errors
    /// Where the middlebox is impossible.
    pub(super) fn from_middlebox(config: &MiddleboxConfig, is_ipv6: bool) -> Result<Self, ConfigError> {
        // Translation has its own truth, and would drop what it has not seen before.
        let own = MiddleboxConfig { nat: None, ..config.clone() };
        let is_certain = own.treatments.iter().all(|treatment| treatment.chance == Chance::Always);
        let samples = if is_certain { 1 } else { CHANCE_SAMPLES };
        let mut shown = ShownMiddlebox { middlebox: Middlebox::new(own, 0)?, is_ipv6, samples };
        Ok(PathTruth {
            up: shown.direction_truth(Direction::Up),
            down: shown.direction_truth(Direction::Down),
            mapping: config.nat.filter(|_| !is_ipv6).map(|nat| mapping_kind(nat.mapping)),
            filtering: match config.nat {
                // The far end has one address of IPv6.
                _ if is_ipv6 => NatFiltering::NotAddressAndPortDependent,
                nat => nat.map_or(NatFiltering::EndpointIndependent, |nat| filtering_kind(nat.filtering)),
            },
        })
    }

    /// Of one direction.
    pub(super) fn direction(&self, direction: Direction) -> &DirectionTruth {
        match direction {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        }
    }
}

fn mapping_kind(kind: EndpointDependence) -> NatMapping {
    match kind {
        EndpointDependence::EndpointIndependent => NatMapping::EndpointIndependent,
        EndpointDependence::AddressDependent => NatMapping::AddressDependent,
        EndpointDependence::AddressAndPortDependent => NatMapping::AddressAndPortDependent,
    }
}

fn filtering_kind(kind: EndpointDependence) -> NatFiltering {
    match kind {
        EndpointDependence::EndpointIndependent => NatFiltering::EndpointIndependent,
        EndpointDependence::AddressDependent => NatFiltering::AddressDependent,
        EndpointDependence::AddressAndPortDependent => NatFiltering::AddressAndPortDependent,
    }
}

impl Fate {
    /// The octet with which all arrive; none where some are lost, or chance decides.
    pub(super) fn certain(&self) -> Option<u8> {
        self.0.iter().find(|(_, part)| **part >= 1.0).map(|(octet, _)| *octet)
    }

    /// The part that is lost.
    pub(super) fn lost_part(&self) -> f64 {
        // Sums of many parts are not exact.
        let lost = 1.0 - self.0.values().sum::<f64>();
        if lost > 1e-6 { lost } else { 0.0 }
    }
}

/// A middlebox that is shown packets.
struct ShownMiddlebox {
    middlebox: Middlebox,
    is_ipv6: bool,
    /// How many packets of a kind it is shown.
    samples: u16,
}

impl ShownMiddlebox {
    fn direction_truth(&mut self, direction: Direction) -> DirectionTruth {
        let dscps = (0..=Dscp::MAX).filter_map(Dscp::new).map(|dscp| DsField::new(dscp, Ecn::NotEct));
        let codepoints = [Ecn::Ect0, Ecn::Ect1, Ecn::Ce].map(DsField::from);
        let fields: Vec<_> = dscps.chain(codepoints).collect();
        let fields = fields.into_iter().map(|field| (field.octet(), self.fate(direction, field))).collect();
        let (mtu, is_black_hole) = self.longest(direction);
        DirectionTruth { fields, syn: self.syn_fate(direction), mtu, is_black_hole }
    }

    /// Of UDP packets with this field, of many flows.
    fn fate(&mut self, direction: Direction, field: DsField) -> Fate {
        let mut fate = Fate::default();
        for port in 0..self.samples {
            let packet = self.udp(direction, 1024 + port, field, 100);
            if let (PacketAction::Forward, arrived) = self.show(direction, packet) {
                let octet = DsField::read(&arrived).octet();
                *fate.0.entry(octet).or_default() += 1.0 / f64::from(self.samples);
            }
        }
        fate.0.values_mut().filter(|part| **part > 0.9999).for_each(|part| *part = 1.0);
        fate
    }

    /// The longest packet that passes, and whether a longer one vanishes without a word.
    fn longest(&mut self, direction: Direction) -> (u16, bool) {
        for bytes in (MIN_MTU..=LINE_MTU).rev() {
            let packet = self.udp(direction, 1024, DsField::default(), bytes);
            match self.show(direction, packet).0 {
                PacketAction::Forward => return (bytes, false),
                PacketAction::Drop => {
                    let passes = |shown: &mut Self, bytes: &u16| {
                        let packet = shown.udp(direction, 1024, DsField::default(), *bytes);
                        shown.show(direction, packet).0 == PacketAction::Forward
                    };
                    let longest = (MIN_MTU..bytes).rev().find(|bytes| passes(self, bytes));
                    return (longest.unwrap_or_default(), true);
                }
                _ => {}
            }
        }
        (MIN_MTU, false)
    }

    fn syn_fate(&mut self, direction: Direction) -> SynFate {
        let carried = CARRIED_OPTIONS.map(|(kind, option)| (kind, self.carried_fate(direction, kind, option)));
        let carried = carried.into_iter().collect();
        let sent = self.syn(direction, true, &[]);
        let (action, mut arrived) = self.show(direction, sent.clone());
        let headers = Headers::parse(&arrived).ok().filter(|_| action == PacketAction::Forward);
        let Some(headers) = headers else { return SynFate { is_dropped: true, carried, ..SynFate::default() } };
        let sequence = |packet: &[u8]| Some(Headers::parse(packet).ok()?.tcp()?.sequence);
        let is_missing = |kind: &u8| !has_tcp_option(&arrived, &headers, *kind);
        SynFate {
            is_dropped: false,
            loses_ecn: !has_ecn_flags(&arrived, &headers),
            removed_options: LINUX_KINDS.into_iter().filter(is_missing).collect(),
            carried,
            has_other_sequence: sequence(&sent) != sequence(&arrived),
            mss: TcpRewrite::new(&mut arrived, &headers, false).and_then(|tcp| tcp.mss()),
        }
    }

    fn carried_fate(&mut self, direction: Direction, kind: u8, option: &[u8]) -> CarriedFate {
        let sent = self.syn(direction, false, option);
        let (action, arrived) = self.show(direction, sent);
        match Headers::parse(&arrived) {
            Ok(headers) if action == PacketAction::Forward => match has_tcp_option(&arrived, &headers, kind) {
                true => CarriedFate::Kept,
                false => CarriedFate::Removed,
            },
            _ => CarriedFate::Dropped,
        }
    }

    fn show(&mut self, direction: Direction, mut packet: Vec<u8>) -> (PacketAction, Vec<u8>) {
        let action = self.middlebox.process_packet(middlebox_direction(direction), &mut packet, Time::ZERO);
        (action, packet)
    }

    fn udp(&self, direction: Direction, port: u16, field: DsField, bytes: u16) -> Vec<u8> {
        let header = if self.is_ipv6 { 40 } else { 20 };
        let length = (bytes - header).to_be_bytes();
        let ports = self.ports(direction, port);
        let payload = vec![0; usize::from(bytes - header) - 8];
        let mut packet = self.packet(direction, 17, &[&ports[..], &length, &[0, 0], &payload].concat());
        field.write(&mut packet);
        packet
    }

    /// A SYN, which asks for ECN or not, with options of Linux and these.
    fn syn(&self, direction: Direction, asks_for_ecn: bool, carried: &[u8]) -> Vec<u8> {
        let ports = self.ports(direction, 1024);
        let mut options = [&LINUX_OPTIONS[..], carried].concat();
        options[2..4].copy_from_slice(&LINE_MSS[usize::from(self.is_ipv6)].to_be_bytes());
        // CWR, ECE and SYN (RFC 3168 §6.1.1), or SYN alone.
        let flags = if asks_for_ecn { 0xc2 } else { 0x02 };
        let words = (5 + options.len() / 4) as u8;
        let fixed = [0, 0, 1, 0, 0, 0, 0, 0, words << 4, flags, 0xff, 0xff, 0, 0, 0, 0];
        self.packet(direction, 6, &[&ports[..], &fixed, &options].concat())
    }

    /// Those of a client's packets, or of a server's.
    fn ports(&self, direction: Direction, client: u16) -> [u8; 4] {
        let [client, server] = [client, kumade_client::DEFAULT_PORT].map(u16::to_be_bytes);
        let [from, to] = if direction == Direction::Up { [client, server] } else { [server, client] };
        [from[0], from[1], to[0], to[1]]
    }

    /// With "don't fragment".
    fn packet(&self, direction: Direction, protocol: u8, segment: &[u8]) -> Vec<u8> {
        let ends: [u8; 2] = if direction == Direction::Up { [1, 2] } else { [2, 1] };
        let mut packet = if self.is_ipv6 {
            let length = (segment.len() as u16).to_be_bytes();
            let address = |end| [0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, end];
            [&[0x60, 0, 0, 0, length[0], length[1], protocol, 64][..], &address(ends[0]), &address(ends[1])].concat()
        } else {
            let length = (segment.len() as u16 + 20).to_be_bytes();
            let fixed = [0x45, 0, length[0], length[1], 0, 0, 0x40, 0, 64, protocol, 0, 0];
            [&fixed[..], &[10, 77, 0, ends[0]], &[10, 77, 0, ends[1]]].concat()
        };
        packet.extend_from_slice(segment);
        // What was just built can be read.
        let _ = checksum::set(&mut packet);
        packet
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path_treatment::TreatmentSettings;

    fn truth(treatments: &str, is_ipv6: bool) -> PathTruth {
        #[derive(serde::Deserialize)]
        struct File {
            treatments: Vec<TreatmentSettings>,
        }
        let file: File = toml::from_str(&format!("treatments = [{treatments}]")).unwrap();
        let treatments = file.treatments.iter().map(|settings| settings.treatment().unwrap()).collect();
        PathTruth::from_middlebox(&MiddleboxConfig { treatments, ..MiddleboxConfig::default() }, is_ipv6).unwrap()
    }

    #[test]
    fn nothing_happens_on_an_untouched_path() {
        for is_ipv6 in [false, true] {
            let truth = truth("", is_ipv6);
            assert_eq!(truth.up, truth.down);
            assert!(truth.up.fields.iter().all(|(octet, fate)| fate.certain() == Some(*octet)), "{truth:?}");
            assert_eq!(truth.up.fields.len(), 64 + 3);
            assert_eq!((truth.up.mtu, truth.up.is_black_hole), (LINE_MTU, false));
            let mss = Some(LINE_MSS[usize::from(is_ipv6)]);
            let kept = CARRIED_OPTIONS.map(|(kind, _)| (kind, CarriedFate::Kept));
            assert_eq!(truth.up.syn, SynFate { mss, carried: kept.into(), ..SynFate::default() });
        }
    }

    #[test]
    fn what_the_middlebox_does_is_true_of_its_direction() {
        let bleached = truth("{ direction = \"down\", action = { set-ecn = \"not-ect\" } }", true);
        assert_eq!([2, 46 << 2].map(|octet| bleached.down.fields[&octet].certain()), [Some(0), Some(46 << 2)]);
        assert_eq!(bleached.up.fields[&2].certain(), Some(2));
        let dropped = truth("{ direction = \"up\", dscp = \"ef\", action = \"drop\" }", false);
        assert!(dropped.up.fields[&(46 << 2)].lost_part() >= 1.0 && dropped.down.fields[&(46 << 2)].lost_part() == 0.0);
        let half = truth("{ ecn = \"ect0\", of_packets = \"50%\", action = { set-ecn = \"ce\" } }", false);
        let fate = &half.up.fields[&2];
        assert_eq!((fate.certain(), fate.0.len()), (None, 2));
        assert!((fate.0[&3] - 0.5).abs() < 0.1 && fate.lost_part() == 0.0, "{fate:?}");
    }

    #[test]
    fn handshakes_and_long_packets_are_shown_as_well() {
        let of = |action: &str| truth(&format!("{{ direction = \"up\", action = {action} }}"), false).up;
        assert!(of("\"clear-ecn-flags\"").syn.loses_ecn);
        assert_eq!(of("{ clamp-mss = 1300 }").syn.mss, Some(1300));
        assert_eq!(of("{ remove-options = \"timestamps\" }").syn.removed_options, [tcp_option::TIMESTAMPS]);
        let unknown = of("{ remove-options = \"unknown\" }").syn;
        let removed = [tcp_option::MULTIPATH, tcp_option::FAST_OPEN].map(|kind| (kind, CarriedFate::Removed));
        assert_eq!((unknown.removed_options, unknown.carried), (vec![], removed.into()));
        let multipath = "{ direction = \"up\", packets = \"multipath-syn\", action = \"drop\" }";
        let multipath = truth(multipath, true).up.syn;
        assert_eq!(multipath.carried[&tcp_option::MULTIPATH], CarriedFate::Dropped);
        assert!(!multipath.is_dropped && multipath.carried[&tcp_option::FAST_OPEN] == CarriedFate::Kept);
        assert!(of("\"randomize-sequence\"").syn.has_other_sequence);
        assert_eq!(
            [of("{ mtu = 1400 }"), of("{ black-hole = 1400 }")].map(|up| (up.mtu, up.is_black_hole)),
            [(1400, false), (1400, true)]
        );
        let syn = "{ direction = \"up\", packets = \"ecn-syn\", action = \"drop\" }";
        assert!(truth(syn, true).up.syn.is_dropped && !truth(syn, true).down.syn.is_dropped);
    }
}
