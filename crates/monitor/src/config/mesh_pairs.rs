//! Which two agents of a mesh are measured, over which version of IP, and who begins. Pure.

use super::types::{LightProbes, MeasurementSchedule, MeshAgent, MeshLink, MeshPair, MonitoredTarget};
use crate::light::{ProbeKind, ReplyLimits};
use crate::mesh::peer_path::net_family;
use kumade_net::ScopedAddress;
use kumade_planner::{AddressFamily, AgentId, End, Endpoint, Reachability, choose_initiator};
use kumade_units::Span;
use std::collections::BTreeSet;

/// Each two agents, over each version of IP that is told apart, with who begins; and those that cannot be measured, with the reason.
pub(super) fn pairs(agents: &[MeshAgent], links: &[MeshLink]) -> (Vec<MeshPair>, Vec<(String, String)>) {
    let (mut pairs, mut unreachable) = (Vec::new(), Vec::new());
    for second in 0..agents.len() {
        for first in 0..second {
            let ends = [&agents[first], &agents[second]];
            let declared = [ends[0].declared_families(ends[1]), ends[1].declared_families(ends[0])];
            let families = pair_families(&declared);
            for family in &families {
                let shown = family.or_else(|| ends.iter().find_map(|agent| agent.literal_family()));
                let [one, other] = [0, 1].map(|end| ends[end].endpoint(*family, &declared[end]));
                match choose_initiator(one, other, shown.unwrap_or(AddressFamily::Ipv4)) {
                    Ok(end) => {
                        let (source, target) = if end == End::First { (first, second) } else { (second, first) };
                        let passes = |link: &MeshLink| link.agents.contains(&source) != link.agents.contains(&target);
                        let links = (0..links.len()).filter(|place| passes(&links[*place])).collect();
                        pairs.push(MeshPair { source, target, family: *family, is_of_two: families.len() > 1, links });
                    }
                    Err(reason) => {
                        let suffix = family.filter(|_| families.len() > 1).map(family_suffix).unwrap_or_default();
                        unreachable.push((format!("{}:{}{suffix}", ends[0].id, ends[1].id), reason.to_string()));
                    }
                }
            }
        }
    }
    (pairs, unreachable)
}

/// Over which versions of IP a pair is measured: none for whichever there is. One that only one end has is among them, so that it is
/// told of.
fn pair_families(declared: &[Vec<AddressFamily>; 2]) -> Vec<Option<AddressFamily>> {
    let all: BTreeSet<AddressFamily> = declared.iter().flatten().copied().collect();
    let is_known = declared.iter().all(|families| !families.is_empty()) || all.len() == 1;
    if is_known { all.into_iter().map(Some).collect() } else { vec![None] }
}

/// Of ids and names, where there are two paths.
fn family_suffix(family: AddressFamily) -> String {
    format!(" ({family})")
}

/// Of what is an address.
pub(super) fn literal_family(host: &str) -> Option<AddressFamily> {
    let address = host.parse::<ScopedAddress>().ok()?.ip();
    Some(if address.is_ipv4() { AddressFamily::Ipv4 } else { AddressFamily::Ipv6 })
}

impl MeshAgent {
    /// Where others reach it over this version of IP.
    pub(crate) fn address(&self, family: Option<AddressFamily>) -> Option<&(String, u16)> {
        let is_of = |host: &str| family.is_none() || literal_family(host).is_none_or(|own| Some(own) == family);
        self.addresses.iter().find(|(host, _)| is_of(host))
    }

    /// Beside an agent that is measured over both versions, one that says only its address has that version.
    fn declared_families(&self, other: &MeshAgent) -> Vec<AddressFamily> {
        if self.families.is_empty() && other.families.len() > 1 {
            return self.literal_family().into_iter().collect();
        }
        self.families.clone()
    }

    fn literal_family(&self) -> Option<AddressFamily> {
        self.addresses.iter().find_map(|(host, _)| literal_family(host))
    }

    fn endpoint(&self, family: Option<AddressFamily>, declared: &[AddressFamily]) -> Endpoint {
        let lacks = family.is_some_and(|family| !declared.is_empty() && !declared.contains(&family));
        let reachability = match self.address(family) {
            _ if lacks => Reachability::Absent,
            Some(_) => Reachability::Incoming,
            None => Reachability::Outgoing,
        };
        // Who begins is to depend on the two ids alone, not on who else is in the file.
        Endpoint { agent: Some(AgentId(id_hash(&self.id))), reachability }
    }
}

/// FNV-1a.
fn id_hash(id: &str) -> u32 {
    id.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// The path of a pair, to the one that answers.
pub(super) fn target(pair: &MeshPair, agents: &[MeshAgent], interval: Span, period: Option<Span>) -> MonitoredTarget {
    let (source, target) = (&agents[pair.source], &agents[pair.target]);
    let (host, port) = target.address(pair.family).cloned().unwrap_or_default();
    let suffix = pair.family.filter(|_| pair.is_of_two).map(family_suffix).unwrap_or_default();
    MonitoredTarget {
        id: format!("{}:{}{suffix}", source.id, target.id),
        name: format!("{} → {}{suffix}", source.name, target.name),
        host,
        family: pair.family.map(net_family),
        light: LightProbes {
            kind: ProbeKind::Stamp(None),
            port: target.stamp_port,
            interval,
            limits: ReplyLimits::default(),
        },
        measurement: period.map(|period| MeasurementSchedule { port, period, key: None }),
    }
}
