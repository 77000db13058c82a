use super::flow_rules;
use crate::config::{AddressTranslation, GatewayConfig, GatewayPath, GatewaySide, LocalSite, RemoteSite};
use crate::ratio::PathRatio;
use ipnet::IpNet;
use kumade_net::fast_path::BATCH_CLASSES_FROM_BYTES;
use kumade_net::interface::Family;
use kumade_net::nftables::{Chain, FlowList, Hook, Rule, Statement, Table};
use kumade_net::policy_routing::MarkedRoute;
use kumade_units::Span;
use std::fmt::{self, Display, Formatter};

/// The rules and routes that put a configuration into effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectPlan {
    /// Marks, counts and translates packets.
    pub table: Table,
    /// Where packets with a mark leave.
    pub routes: Vec<MarkedRoute>,
    /// The interfaces of local hosts.
    pub local_interfaces: Vec<String>,
    /// How much they may merge into one packet; none where no path's rate is known.
    pub max_batch_bytes: Option<u32>,
}

/// The slowest path sends a batch within this time: 25 kB at 100 Mbit/s, and no two packets below 12 Mbit/s.
const MAX_BATCH_TIME: Span = Span::from_millis(2);

/// Mark, routing table and rule priority of the first path; those of the others follow. Before the main table, whose rule
/// has the priority 32766.
const FIRST_MARK: u32 = 0x6b01;
/// Before connection tracking, which is to pass over packets that are translated.
const RAW_PRIORITY: i32 = -300;
/// Behind all others, which see the addresses of hosts.
const LAST_PRIORITY: i32 = 300;
const RESTORE_CHAIN: &str = "restore";
const CHOOSE_ERRORS_CHAIN: &str = "choose-errors";
const RESTORE_ERRORS_CHAIN: &str = "restore-errors";
/// The protocol that is ICMP.
const ICMP_PROTOCOLS: [(Family, u8); 2] = [(Family::V4, 1), (Family::V6, 58)];
/// Protocols and types of ICMP messages that quote the packet that they are about (RFC 792, RFC 4443).
const ICMP_ERROR_TYPES: [(u8, u8); 7] = [(1, 3), (1, 11), (1, 12), (58, 1), (58, 2), (58, 3), (58, 4)];

impl DirectPlan {
    /// For a valid configuration.
    pub fn new(config: &GatewayConfig) -> Self {
        let in_use = config.paths.iter().filter(|path| path.weight > 0);
        let slowest = in_use.filter_map(|path| path.rate).min();
        let bytes = slowest.map(|rate| rate.bytes_in(MAX_BATCH_TIME));
        DirectPlan {
            table: build_table(config),
            routes: policy_routes(config),
            local_interfaces: config.locals.iter().map(|local| local.interface.clone()).collect(),
            max_batch_bytes: bytes.map(|bytes| u32::try_from(bytes).unwrap_or(u32::MAX)),
        }
    }

    /// The routes of a path, by its place.
    pub(super) fn path_routes(&self, path: usize) -> impl Iterator<Item = &MarkedRoute> {
        self.routes.iter().filter(move |route| route.number == path_mark(path))
    }

    /// The interfaces of paths where IPv4 packets arrive, each once.
    pub(super) fn filtered_interfaces(&self) -> impl Iterator<Item = &str> + Clone {
        let mut names: Vec<_> = self
            .routes
            .iter()
            .filter(|route| route.family == Family::V4)
            .map(|route| route.interface.as_str())
            .collect();
        names.sort_unstable();
        names.dedup();
        names.into_iter()
    }

    /// The counter of the packets that are given to a path.
    pub(super) fn path_counter_name(path: &GatewayPath) -> String {
        format!("path-{}", path.name)
    }
}

impl Display for DirectPlan {
    /// As ip(8) and nft(8) would list it.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for route in &self.routes {
            writeln!(f, "{route}")?;
        }
        for (input, bytes) in
            self.local_interfaces.iter().flat_map(|input| self.max_batch_bytes.map(|bytes| (input, bytes)))
        {
            writeln!(f, "ip link set dev {input} gro_max_size {bytes} gro_ipv4_max_size {bytes}")?;
        }
        write!(f, "{}", self.table)
    }
}

/// The mark of a path's packets, and the number of its routing table.
pub(crate) fn path_mark(path: usize) -> u32 {
    // There are no more than 64.
    FIRST_MARK + path as u32
}

fn policy_routes(config: &GatewayConfig) -> Vec<MarkedRoute> {
    let mut routes = Vec::new();
    for (place, path) in config.paths.iter().enumerate() {
        for family in [Family::V4, Family::V6] {
            let leads = |remote: &&RemoteSite| remote.paths.contains(&place);
            let mut networks = config.remotes.iter().filter(leads).flat_map(|remote| &remote.networks);
            if networks.any(|network| Family::from_network(*network) == family) {
                let (interface, gateway) = (path.interface.clone(), path.next_hop(family));
                routes.push(MarkedRoute { number: path_mark(place), family, interface, gateway });
            }
        }
    }
    routes
}

fn build_table(config: &GatewayConfig) -> Table {
    let divisions = config.remotes.iter().map(|remote| division_chain(config, remote, &remote.ratio));
    let mut chains: Vec<Chain> = divisions.collect();
    for remote in config.remotes.iter().filter(|remote| remote.divides_single_flows) {
        let choice = |family| flow_rules::division_choice_chain(remote, family, division_chain_name(remote));
        chains.extend(flow_rules::remote_families(remote).map(choice));
    }
    if has_restoration(config) {
        chains.push(error_restoration_chain(config));
        chains.push(error_choice_chain());
        chains.push(restoration_chain(config));
    }
    chains.push(Chain {
        name: "arriving".into(),
        hook: Some(Hook::Prerouting(RAW_PRIORITY)),
        rules: arriving_rules(config),
    });
    let leaving = leaving_rules(config);
    if !leaving.is_empty() {
        // A hook costs each forwarded packet more than its rules do.
        chains.push(Chain { name: "leaving".into(), hook: Some(Hook::Postrouting(LAST_PRIORITY)), rules: leaving });
    }
    Table {
        name: "kumade".into(),
        counters: config.paths.iter().map(DirectPlan::path_counter_name).collect(),
        flow_lists: flow_rules::flow_lists(config),
        chains,
    }
}

fn division_chain_name(remote: &RemoteSite) -> String {
    format!("divide-{}", remote.name)
}

/// The rules that divide packets to one remote site.
pub(super) fn division_chain(config: &GatewayConfig, remote: &RemoteSite, ratio: &PathRatio) -> Chain {
    let is_translated =
        |translation: &AddressTranslation| translation.path.is_some_and(|path| remote.paths.contains(&path));
    let mut untrack = Vec::new();
    if remote.divides_single_flows || config.translations.iter().any(is_translated) {
        untrack.push(Statement::Untrack);
    }
    let marks: Vec<u32> = ratio.round_paths().map(|place| path_mark(remote.paths[place])).collect();
    let divide = |mut conditions: Vec<Statement>| {
        conditions.extend(untrack.iter().cloned().chain([Statement::MarkRoundRobin(marks.clone())]));
        Rule(conditions)
    };
    let has_choice = marks.iter().any(|mark| *mark != marks[0]);
    let divisions = if has_choice { batch_classes().map(divide).collect() } else { vec![divide(Vec::new())] };
    // Counted here, so that packets that are not translated pass no second hook.
    let count = |place: &usize| {
        let counter = DirectPlan::path_counter_name(&config.paths[*place]);
        Rule(vec![Statement::Mark(path_mark(*place)), Statement::Count(counter)])
    };
    let rules = divisions.into_iter().chain(remote.paths.iter().map(count)).collect();
    Chain { name: division_chain_name(remote), hook: None, rules }
}

/// Conditions on the length, of which each packet or batch meets one; single packets the first.
fn batch_classes() -> impl Iterator<Item = Vec<Statement>> {
    let ends = BATCH_CLASSES_FROM_BYTES.map(Some).into_iter().chain([None]);
    [None]
        .into_iter()
        .chain(BATCH_CLASSES_FROM_BYTES.map(Some))
        .zip(ends)
        .map(|(from, to)| from.map(Statement::AsLongAs).into_iter().chain(to.map(Statement::ShorterThan)).collect())
}

fn has_restoration(config: &GatewayConfig) -> bool {
    !config.translations.is_empty() || config.remotes.iter().any(|remote| remote.divides_single_flows)
}

/// Whether packets of that IP version are given addresses back.
fn has_restoration_for(config: &GatewayConfig, family: Family) -> bool {
    config.translations.iter().any(|translation| Family::from_network(translation.network) == family)
        || flow_rules::restored_flow_lists(config).any(|list| list.family == family)
}

/// Translations of all packets, whoever sends them.
pub(super) fn static_translations(config: &GatewayConfig) -> impl Iterator<Item = &AddressTranslation> {
    config.translations.iter().filter(|translation| config.is_static(translation))
}

/// Gives packets that arrive the addresses of the hosts back.
fn restoration_chain(config: &GatewayConfig) -> Chain {
    let flow = |list: FlowList| Rule(vec![Statement::TranslateFlow(list.family, list.name), Statement::Untrack]);
    let mut rules: Vec<Rule> = flow_rules::restored_flow_lists(config).map(flow).collect();
    let is_icmp = |(family, protocol)| {
        has_restoration_for(config, family)
            .then(|| Rule(vec![Statement::Protocol(protocol), Statement::Jump(CHOOSE_ERRORS_CHAIN.into())]))
    };
    rules.extend(ICMP_PROTOCOLS.into_iter().filter_map(is_icmp));
    for side in [GatewaySide::Local, GatewaySide::Remote] {
        rules.extend(side_restoration_rules(config, side));
    }
    Chain { name: RESTORE_CHAIN.into(), hook: None, rules }
}

/// The part about hosts of one side. A packet is meant by one rule of each at most.
fn side_restoration_rules(config: &GatewayConfig, side: GatewaySide) -> Vec<Rule> {
    let mut rules = Vec::new();
    let is_last =
        side == GatewaySide::Remote || static_translations(config).all(|translation| translation.side == side);
    for AddressTranslation { network, alias, .. } in static_translations(config).filter(|one| one.side == side) {
        let [is_of, set] = match side {
            GatewaySide::Local => [Statement::Destination(*alias), Statement::SetDestination(*network)],
            GatewaySide::Remote => [Statement::Source(*alias), Statement::SetSource(*network)],
        };
        let mut rule = Rule(vec![is_of, Statement::Untrack, set]);
        rule.0.extend(is_last.then_some(Statement::Return));
        // Two paths may use the same alias.
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    }
    rules
}

/// Tells errors from other ICMP messages.
fn error_choice_chain() -> Chain {
    let rule = |(protocol, kind): &(u8, u8)| {
        let goto = Statement::Goto(RESTORE_ERRORS_CHAIN.into());
        Rule(vec![Statement::Protocol(*protocol), Statement::IcmpType(*kind), goto])
    };
    Chain { name: CHOOSE_ERRORS_CHAIN.into(), hook: None, rules: ICMP_ERROR_TYPES.iter().map(rule).collect() }
}

/// Gives packets that ICMP errors are about the addresses with which hosts sent them.
fn error_restoration_chain(config: &GatewayConfig) -> Chain {
    let flow = |list: FlowList| Rule(vec![Statement::RestoreErrorFlow(list.family, list.name), Statement::Untrack]);
    let mut rules: Vec<Rule> = flow_rules::error_flow_lists(config).map(flow).collect();
    for AddressTranslation { side, network, alias, .. } in static_translations(config) {
        let rule = Rule(match side {
            GatewaySide::Local => vec![Statement::QuotedSource(*alias), Statement::SetQuotedSource(*network)],
            GatewaySide::Remote => {
                vec![Statement::QuotedDestination(*alias), Statement::SetQuotedDestination(*network)]
            }
        });
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    }
    Chain { name: RESTORE_ERRORS_CHAIN.into(), hook: None, rules }
}

fn arriving_rules(config: &GatewayConfig) -> Vec<Rule> {
    let mut rules = Vec::new();
    if has_restoration(config) {
        let mut interfaces: Vec<&String> = config.paths.iter().map(|path| &path.interface).collect();
        interfaces.sort();
        interfaces.dedup();
        let restore = |interface: &String| {
            let has_hosts = config.locals.iter().any(|local| local.interface == *interface);
            // Where no local host sends, nothing is left to do.
            let restore = if has_hosts { Statement::Jump } else { Statement::Goto };
            Rule(vec![Statement::InputInterface(interface.clone()), restore(RESTORE_CHAIN.into())])
        };
        rules.extend(interfaces.into_iter().map(restore));
    }
    // What is meant by all other addresses comes last.
    for rest in [false, true] {
        for local in &config.locals {
            for remote in &config.remotes {
                for network in remote.networks.iter().filter(|network| (network.prefix_len() == 0) == rest) {
                    rules.extend(division_rules(config, local, remote, *network));
                }
            }
        }
    }
    rules
}

/// Packets from local hosts to a network of a remote site are divided.
fn division_rules(config: &GatewayConfig, local: &LocalSite, remote: &RemoteSite, network: IpNet) -> Vec<Rule> {
    let mut rules = if network.prefix_len() == 0 { exclusion_rules(config, local, network) } else { Vec::new() };
    let rule = |source: Option<IpNet>| {
        let mut statements = vec![Statement::InputInterface(local.interface.clone())];
        statements.extend(source.map(Statement::Source));
        statements.push(Statement::Destination(network));
        if network.prefix_len() == 0 {
            statements.push(Statement::ToOtherHost);
        }
        statements.push(Statement::Goto(if remote.divides_single_flows {
            flow_rules::division_choice_chain_name(remote, Family::from_network(network))
        } else {
            division_chain_name(remote)
        }));
        Rule(statements)
    };
    if local.networks.is_empty() {
        rules.push(rule(None));
    }
    let same_version =
        local.networks.iter().filter(|source| Family::from_network(**source) == Family::from_network(network));
    rules.extend(same_version.map(|source| rule(Some(*source))));
    rules
}

/// Packets between local networks are none of those to all other addresses.
fn exclusion_rules(config: &GatewayConfig, local: &LocalSite, rest: IpNet) -> Vec<Rule> {
    let own = config.locals.iter().flat_map(|local| &local.networks);
    let own = own.filter(|network| Family::from_network(**network) == Family::from_network(rest));
    let rule = |network: &IpNet| {
        Rule(vec![
            Statement::InputInterface(local.interface.clone()),
            Statement::Destination(*network),
            Statement::Accept,
        ])
    };
    own.map(rule).collect()
}

fn leaving_rules(config: &GatewayConfig) -> Vec<Rule> {
    let mut rules = Vec::new();
    for place in 0..config.paths.len() {
        let mark = Statement::Mark(path_mark(place));
        // Once translated, a flow's addresses are in no network of hosts.
        for list in flow_rules::translated_flow_lists(config, place) {
            rules.push(Rule(vec![mark.clone(), Statement::TranslateFlow(list.family, list.name)]));
        }
        for translation in static_translations(config).filter(|translation| translation.path == Some(place)) {
            let AddressTranslation { side, network, alias, .. } = translation;
            let [is_of, set] = match side {
                GatewaySide::Local => [Statement::Source(*network), Statement::SetSource(*alias)],
                GatewaySide::Remote => [Statement::Destination(*network), Statement::SetDestination(*alias)],
            };
            rules.push(Rule(vec![mark.clone(), is_of, set]));
        }
    }
    rules
}
