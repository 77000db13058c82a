//! The part of the rules that is about single flows: for remote sites of which only flows are divided that were set up.
//!
//! Each IP version has lists of its own: `flows4-SITE` of the flows that are divided, `seen4-SITE` of those that pass and are
//! not, `out4-PATH` of the addresses that flows have on a path, `errors4` of those that packets are given back which ICMP errors
//! are about, and `in4` of those that arriving flows are.

use crate::config::{GatewayConfig, GatewayPath, RemoteSite};
use kumade_net::interface::Family;
use kumade_net::nftables::{Chain, FlowList, FlowListKind, Rule, Statement};

/// Protocols with ports, of which flows consist: TCP and UDP.
const PORT_PROTOCOLS: [u8; 2] = [6, 17];
/// A flow that is not divided and sends on is noted anew after this time.
const UNDIVIDED_FLOWS_KIND: FlowListKind = FlowListKind::Dynamic { timeout_millis: 2000, max_entries: 10_000 };

/// Where packet rules tell of flows that have begun to pass undivided. A namespace has one gateway with such rules.
pub(super) const NEW_FLOWS_LOG_GROUP: u16 = 7272;

/// All lists that a configuration needs.
pub(super) fn flow_lists(config: &GatewayConfig) -> Vec<FlowList> {
    let mut lists: Vec<FlowList> = restored_flow_lists(config).chain(error_flow_lists(config)).collect();
    for remote in remotes_with_sessions(config) {
        for family in remote_families(remote) {
            lists.push(new_flow_list(divided_list_name(remote, family), family, FlowListKind::Set));
            lists.push(new_flow_list(undivided_list_name(remote, family), family, UNDIVIDED_FLOWS_KIND));
        }
    }
    lists.extend((0..config.paths.len()).flat_map(|path| translated_flow_lists(config, path)));
    lists
}

/// What picks the flows of a remote site that are divided, by IP version: they go to the chain that is given.
pub(super) fn division_choice_chain(remote: &RemoteSite, family: Family, division: String) -> Chain {
    let is_divided = Statement::FlowInList(family, divided_list_name(remote, family));
    let is_noted = Statement::FlowInList(family, undivided_list_name(remote, family));
    let note = |protocol| {
        let note = Statement::AddFlow(family, undivided_list_name(remote, family));
        Rule(vec![Statement::Protocol(protocol), note, Statement::Log(NEW_FLOWS_LOG_GROUP)])
    };
    let known = [Rule(vec![is_divided, Statement::Goto(division)]), Rule(vec![is_noted, Statement::Return])];
    let rules = known.into_iter().chain(PORT_PROTOCOLS.map(note)).collect();
    Chain { name: division_choice_chain_name(remote, family), hook: None, rules }
}

pub(super) fn division_choice_chain_name(remote: &RemoteSite, family: Family) -> String {
    format!("choose{}-{}", family.version(), remote.name)
}

/// Lists of flows whose addresses are given back as they arrive.
pub(super) fn restored_flow_lists(config: &GatewayConfig) -> impl Iterator<Item = FlowList> {
    let families = [Family::V4, Family::V6].into_iter().filter(|family| is_family_used(config, *family, |_| true));
    families.map(|family| new_flow_list(restored_list_name(family), family, FlowListKind::Translation))
}

/// Lists of flows as they leave: ICMP errors about these are about flows of hosts.
pub(super) fn error_flow_lists(config: &GatewayConfig) -> impl Iterator<Item = FlowList> {
    let families = [Family::V4, Family::V6].into_iter().filter(|family| is_family_used(config, *family, |_| true));
    families.map(|family| new_flow_list(error_list_name(family), family, FlowListKind::Translation))
}

/// Lists of flows with the addresses that they have on a path, by the path's place.
pub(super) fn translated_flow_lists(config: &GatewayConfig, path: usize) -> impl Iterator<Item = FlowList> {
    let leads = move |remote: &RemoteSite| remote.paths.contains(&path);
    let families = [Family::V4, Family::V6].into_iter().filter(move |family| is_family_used(config, *family, leads));
    families.map(move |family| {
        new_flow_list(translated_list_name(&config.paths[path], family), family, FlowListKind::Translation)
    })
}

pub(super) fn divided_list_name(remote: &RemoteSite, family: Family) -> String {
    format!("flows{}-{}", family.version(), remote.name)
}

pub(super) fn undivided_list_name(remote: &RemoteSite, family: Family) -> String {
    format!("seen{}-{}", family.version(), remote.name)
}

pub(super) fn translated_list_name(path: &GatewayPath, family: Family) -> String {
    format!("out{}-{}", family.version(), path.name)
}

pub(super) fn restored_list_name(family: Family) -> String {
    format!("in{}", family.version())
}

pub(super) fn error_list_name(family: Family) -> String {
    format!("errors{}", family.version())
}

/// The IP versions of a remote site's networks.
pub(super) fn remote_families(remote: &RemoteSite) -> impl Iterator<Item = Family> {
    let has = |family: &Family| remote.networks.iter().any(|network| Family::from_network(*network) == *family);
    [Family::V4, Family::V6].into_iter().filter(has)
}

fn remotes_with_sessions(config: &GatewayConfig) -> impl Iterator<Item = &RemoteSite> {
    config.remotes.iter().filter(|remote| remote.divides_single_flows)
}

fn is_family_used(config: &GatewayConfig, family: Family, which: impl Fn(&RemoteSite) -> bool) -> bool {
    remotes_with_sessions(config)
        .filter(|remote| which(remote))
        .any(|remote| remote_families(remote).any(|of| of == family))
}

fn new_flow_list(name: String, family: Family, kind: FlowListKind) -> FlowList {
    FlowList { name, family, kind }
}
