//! What the kernel has of a middlebox: its treatments as rules of nftables and MTUs of routes, its NAT44 as masquerading.

use kumade_middlebox::{
    Chance, Direction, EndpointDependence, MiddleboxConfig, NatConfig, PacketKind, PacketMatch, TcpOptionMatch,
    Treatment, TreatmentAction, TreatmentMatch,
};
use kumade_packet::{Dscp, Ecn, protocol};

/// The router's interface to the host that measures, and the one to the other router.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RouterInterfaces<'a> {
    pub(crate) inside: &'a str,
    pub(crate) outside: &'a str,
}

/// What the kernel is told.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct KernelMiddlebox {
    /// Rules of the hook that packets pass which are forwarded: those that drop come first, as in [`kumade_middlebox`].
    forward: Vec<String>,
    /// Rules for what the router itself sends.
    output: Vec<String>,
    /// How it translates the addresses of what leaves, if it does.
    translation: Option<&'static str>,
    /// MTUs of routes in bytes: in which direction, and whether of IPv6.
    pub(crate) route_mtus: Vec<(Direction, bool, u16)>,
}

const TABLE: &str = "inet kumade_middlebox";

impl KernelMiddlebox {
    /// What the kernel has of this middlebox's treatments and NAT.
    ///
    /// # Errors
    /// Why it has no such thing.
    pub(crate) fn from_config(config: &MiddleboxConfig, interfaces: RouterInterfaces<'_>) -> Result<Self, String> {
        if !config.prefixes.is_empty() {
            return Err("the kernel's middlebox translates no prefixes".into());
        }
        let translation = config.nat.as_ref().map(translation).transpose()?;
        let mut kernel = KernelMiddlebox { translation, ..KernelMiddlebox::default() };
        let is_drop = |treatment: &&Treatment| treatment.action == TreatmentAction::Drop;
        let (drops, changes): (Vec<_>, Vec<_>) = config.treatments.iter().partition(is_drop);
        for treatment in drops.into_iter().chain(changes) {
            kernel.add_treatment(treatment, interfaces)?;
        }
        Ok(kernel)
    }

    /// The command of `nft` that puts these rules in the place of those before; none where there are none.
    pub(crate) fn nft_command(&self, interfaces: RouterInterfaces<'_>) -> Option<String> {
        if self.forward.is_empty() && self.output.is_empty() && self.translation.is_none() {
            return None;
        }
        let chain = |name: &str, kind: &str, rules: &[String]| {
            format!("chain {name} {{\ntype {kind};\n{}\n}}\n", rules.join("\n"))
        };
        let rule = |statement| format!("meta nfproto ipv4 oifname {} {statement}", interfaces.outside);
        let nat: Vec<_> = self.translation.map(rule).into_iter().collect();
        Some(format!(
            "table {TABLE} {{\n{}{}{}}}\n",
            chain("forward", "filter hook forward priority 0", &self.forward),
            chain("output", "filter hook output priority 0", &self.output),
            chain("postrouting", "nat hook postrouting priority 100", &nat)
        ))
    }

    /// The command of `nft` that removes what another one has installed, or nothing.
    pub(crate) fn removal_command() -> String {
        format!("add table {TABLE}; delete table {TABLE}")
    }

    fn add_treatment(&mut self, treatment: &Treatment, interfaces: RouterInterfaces<'_>) -> Result<(), String> {
        if let TreatmentAction::LimitMtu { mtu, replies } = treatment.action {
            return self.add_route_mtu(treatment, mtu, replies);
        }
        for is_ipv6 in [false, true] {
            if treatment.matching.is_ipv6.is_some_and(|only| only != is_ipv6) {
                continue;
            }
            let conditions = conditions(&treatment.matching, treatment.chance, is_ipv6, interfaces);
            let rules = statements(treatment.action, if is_ipv6 { "ip6" } else { "ip" })?;
            self.forward.extend(rules.iter().map(|rule| format!("{conditions} {rule}")));
        }
        Ok(())
    }

    fn add_route_mtu(&mut self, treatment: &Treatment, mtu: u16, replies: bool) -> Result<(), String> {
        let TreatmentMatch { direction, is_ipv6, .. } = treatment.matching;
        let whole = TreatmentMatch { direction, is_ipv6, ..TreatmentMatch::default() };
        if treatment.matching != whole || treatment.chance != Chance::Always {
            return Err("an MTU of the kernel's routes is that of all packets".into());
        }
        for way in [Direction::Outbound, Direction::Inbound] {
            for version in [false, true] {
                if direction.is_none_or(|only| only == way) && is_ipv6.is_none_or(|only| only == version) {
                    self.route_mtus.push((way, version, mtu));
                }
            }
        }
        if !replies {
            self.output.push("icmp type destination-unreachable icmp code frag-needed drop".into());
            self.output.push("icmpv6 type packet-too-big drop".into());
        }
        Ok(())
    }
}

/// The statement that does it: the kernel lets in what belongs to a connection, and maps ports alike for all destinations as long as they are free,
/// or each connection at random.
fn translation(nat: &NatConfig) -> Result<&'static str, String> {
    use EndpointDependence::{AddressAndPortDependent, EndpointIndependent};
    match (nat.mapping, nat.filtering) {
        (EndpointIndependent, AddressAndPortDependent) => Ok("masquerade"),
        (AddressAndPortDependent, AddressAndPortDependent) => Ok("masquerade fully-random"),
        _ => Err("the kernel has no such mapping, or no such filtering".into()),
    }
}

/// Which packets, as nft(8) writes it.
fn conditions(matching: &TreatmentMatch, chance: Chance, is_ipv6: bool, interfaces: RouterInterfaces<'_>) -> String {
    let TreatmentMatch { direction, packet: PacketMatch { protocol, destination_port }, ecn, dscp, kind, .. } =
        *matching;
    let ip = if is_ipv6 { "ip6" } else { "ip" };
    let mut words = vec![format!("meta nfproto {}", if is_ipv6 { "ipv6" } else { "ipv4" })];
    let inside = interfaces.inside;
    words.push(match direction {
        Some(Direction::Outbound) => format!("iifname {inside}"),
        Some(Direction::Inbound) => format!("oifname {inside}"),
        None => String::new(),
    });
    // To those who write rules, ICMP and ICMPv6 are one protocol.
    let number = |protocol| if is_ipv6 && protocol == protocol::ICMP { protocol::ICMPV6 } else { protocol };
    words.extend(protocol.map(|protocol| format!("meta l4proto {}", number(protocol))));
    words.extend(destination_port.map(|port| format!("meta l4proto {{ tcp, udp }} th dport {port}")));
    words.extend(ecn.map(|ecn| format!("{ip} ecn {}", ecn_word(ecn))));
    words.extend(dscp.map(|dscp| format!("{ip} dscp {dscp}")));
    words.extend(kind.map(|kind| match (kind, is_ipv6) {
        (PacketKind::Syn, _) => "tcp flags & syn == syn".into(),
        (PacketKind::EcnSyn, _) => "tcp flags & syn == syn tcp flags & (ecn | cwr) != 0x0".into(),
        (PacketKind::SynWithOption(option), _) => format!("tcp flags & syn == syn tcp option {option} exists"),
        (PacketKind::PacketTooBig, false) => "icmp type destination-unreachable icmp code frag-needed".into(),
        (PacketKind::PacketTooBig, true) => "icmpv6 type packet-too-big".into(),
    }));
    // In millionths.
    let limit = |part: f64| (part * 1e6) as u32;
    words.push(match chance {
        Chance::Always => String::new(),
        Chance::Packets(part) => format!("numgen random mod 1000000 < {}", limit(part)),
        Chance::Flows(part) => format!(
            "meta l4proto {{ tcp, udp }} jhash {ip} saddr . {ip} daddr . th sport . th dport mod 1000000 seed 0x1 < {}",
            limit(part)
        ),
    });
    words.retain(|word| !word.is_empty());
    words.join(" ")
}

/// What is done, in as many rules as it takes.
fn statements(action: TreatmentAction, ip: &str) -> Result<Vec<String>, String> {
    Ok(match action {
        TreatmentAction::Drop => vec!["drop".into()],
        TreatmentAction::SetEcn(ecn) => vec![format!("{ip} ecn set {}", ecn_word(ecn))],
        TreatmentAction::SetDscp(dscp) => vec![format!("{ip} dscp set {dscp}")],
        // nftables sets constants alone.
        TreatmentAction::MaskDscp(mask) => {
            let changed = (0..=Dscp::MAX).filter(|dscp| dscp & mask != *dscp);
            changed.map(|dscp| format!("{ip} dscp {dscp} {ip} dscp set {}", dscp & mask)).collect()
        }
        TreatmentAction::ClearEcnFlags => {
            let of = |flags: &str, without: &str| format!("tcp flags == {flags} tcp flags set {without}");
            vec![
                "tcp flags & syn == syn tcp reserved set 0".into(),
                of("syn | ecn | cwr", "syn"),
                of("syn | ack | ecn", "syn | ack"),
                of("syn | ack | cwr", "syn | ack"),
                of("syn | ack | ecn | cwr", "syn | ack"),
            ]
        }
        TreatmentAction::ClampMss(bytes) => vec![format!("tcp flags & syn == syn tcp option maxseg size set {bytes}")],
        TreatmentAction::RemoveOptions(TcpOptionMatch::Kind(kind)) => vec![format!("reset tcp option {kind}")],
        TreatmentAction::RemoveOptions(TcpOptionMatch::Unknown) => {
            return Err("nftables removes TCP options by their kind alone".into());
        }
        TreatmentAction::RandomizeSequence => return Err("nftables does not shift sequence numbers".into()),
        TreatmentAction::LimitMtu { .. } => Vec::new(),
    })
}

fn ecn_word(ecn: Ecn) -> &'static str {
    match ecn {
        Ecn::NotEct => "not-ect",
        Ecn::Ect1 => "ect1",
        Ecn::Ect0 => "ect0",
        Ecn::Ce => "ce",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERFACES: RouterInterfaces<'static> = RouterInterfaces { inside: "a", outside: "middle" };

    fn kernel(matching: TreatmentMatch, chance: Chance, action: TreatmentAction) -> Result<KernelMiddlebox, String> {
        let treatments = vec![Treatment { matching, chance, action }];
        KernelMiddlebox::from_config(&MiddleboxConfig { treatments, ..MiddleboxConfig::default() }, INTERFACES)
    }

    #[test]
    fn a_treatment_is_a_rule_for_each_ip_version() {
        let matching = TreatmentMatch {
            direction: Some(Direction::Inbound),
            ecn: Some(Ecn::Ect1),
            packet: PacketMatch { protocol: Some(protocol::UDP), destination_port: None },
            ..TreatmentMatch::default()
        };
        let rules = kernel(matching, Chance::Packets(0.5), TreatmentAction::SetEcn(Ecn::NotEct)).unwrap().forward;
        assert_eq!(
            rules,
            [
                "meta nfproto ipv4 oifname a meta l4proto 17 ip ecn ect1 numgen random mod 1000000 < 500000 ip ecn set not-ect",
                "meta nfproto ipv6 oifname a meta l4proto 17 ip6 ecn ect1 numgen random mod 1000000 < 500000 ip6 ecn set not-ect",
            ]
        );
    }

    #[test]
    fn what_drops_comes_before_what_changes() {
        let of = |action| Treatment { matching: TreatmentMatch::default(), chance: Chance::Always, action };
        let treatments = vec![of(TreatmentAction::SetEcn(Ecn::Ce)), of(TreatmentAction::Drop)];
        let config = MiddleboxConfig { treatments, ..MiddleboxConfig::default() };
        let rules = KernelMiddlebox::from_config(&config, INTERFACES).unwrap().forward;
        assert!(rules[0].ends_with("drop") && rules[2].ends_with("ecn set ce"), "{rules:?}");
    }

    #[test]
    fn an_mtu_is_that_of_routes_and_a_black_hole_keeps_silent() {
        let up = TreatmentMatch { direction: Some(Direction::Outbound), ..TreatmentMatch::default() };
        let limit = |replies| TreatmentAction::LimitMtu { mtu: 1400, replies };
        let routes = [(Direction::Outbound, false, 1400), (Direction::Outbound, true, 1400)];
        let [told, silent] = [true, false].map(|replies| kernel(up, Chance::Always, limit(replies)).unwrap());
        assert_eq!((&told.route_mtus[..], &silent.route_mtus[..]), (&routes[..], &routes[..]));
        assert_eq!((told.output.len(), silent.output.len()), (0, 2));
        assert!(told.nft_command(INTERFACES).is_none() && silent.nft_command(INTERFACES).is_some());
    }

    #[test]
    fn what_the_kernel_lacks_is_refused() {
        let all = TreatmentMatch::default();
        let refused = |matching, action| kernel(matching, Chance::Always, action).unwrap_err();
        assert!(refused(all, TreatmentAction::RandomizeSequence).contains("sequence numbers"));
        assert!(refused(all, TreatmentAction::RemoveOptions(TcpOptionMatch::Unknown)).contains("by their kind"));
        let of_ect = TreatmentMatch { ecn: Some(Ecn::Ect0), ..all };
        assert!(refused(of_ect, TreatmentAction::LimitMtu { mtu: 1400, replies: true }).contains("all packets"));
    }
}
