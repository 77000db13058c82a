use super::flow_rules;
use crate::config::{Config, Local, Path, Remote, Side, Translation, family_of};
use crate::ratio::Ratio;
use ipnet::IpNet;
use kumade_net::interface::Family;
use kumade_net::nftables::{Chain, FlowList, Hook, Rule, Statement, Table};
use kumade_net::policy::MarkedRoute;
use kumade_units::Span;
use std::fmt::{self, Display, Formatter};

/// The rules and routes that put a configuration into effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Marks, counts and translates packets.
    pub table: Table,
    /// Where packets with a mark leave.
    pub routes: Vec<MarkedRoute>,
    /// The interfaces of local hosts.
    pub inputs: Vec<String>,
    /// How much they may merge into one packet; none where no path's rate is known.
    pub max_batch_bytes: Option<u32>,
}

/// The slowest path sends a batch within this time: 25 kB at 100 Mbit/s, and no two packets below 12 Mbit/s.
const MAX_BATCH_TIME: Span = Span::from_millis(2);

/// Mark, routing table and rule priority of the first path; those of the others follow. Before the main table, whose rule
/// has the priority 32766.
const FIRST_NUMBER: u32 = 0x6b01;
/// Before connection tracking, which is to pass over packets that are translated.
const RAW: i32 = -300;
/// Behind all others, which see the addresses of hosts.
const LAST: i32 = 300;
const RESTORE: &str = "restore";
const CHOOSE_ERRORS: &str = "choose-errors";
const RESTORE_ERRORS: &str = "restore-errors";
/// The protocol that is ICMP.
const ICMP: [(Family, u8); 2] = [(Family::V4, 1), (Family::V6, 58)];
/// Protocols and types of ICMP messages that quote the packet that they are about (RFC 792, RFC 4443).
const ICMP_ERRORS: [(u8, u8); 7] = [(1, 3), (1, 11), (1, 12), (58, 1), (58, 2), (58, 3), (58, 4)];

impl Plan {
    /// For a valid configuration.
    pub fn new(config: &Config) -> Self {
        let in_use = config.paths.iter().filter(|path| path.weight > 0);
        let slowest = in_use.filter_map(|path| path.rate).min();
        let bytes = slowest.map(|rate| rate.bytes_in(MAX_BATCH_TIME));
        Plan {
            table: table(config),
            routes: routes(config),
            inputs: config.locals.iter().map(|local| local.interface.clone()).collect(),
            max_batch_bytes: bytes.map(|bytes| u32::try_from(bytes).unwrap_or(u32::MAX)),
        }
    }

    /// The routes of a path, by its place.
    pub(super) fn routes_of(&self, path: usize) -> impl Iterator<Item = &MarkedRoute> {
        self.routes.iter().filter(move |route| route.number == number(path))
    }

    /// The counter of the packets that are given to a path.
    pub(super) fn counter(path: &Path) -> String {
        format!("path-{}", path.name)
    }
}

impl Display for Plan {
    /// As ip(8) and nft(8) would list it.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for route in &self.routes {
            writeln!(f, "{route}")?;
        }
        for (input, bytes) in self.inputs.iter().flat_map(|input| self.max_batch_bytes.map(|bytes| (input, bytes))) {
            writeln!(f, "ip link set dev {input} gro_max_size {bytes} gro_ipv4_max_size {bytes}")?;
        }
        write!(f, "{}", self.table)
    }
}

/// The mark of a path's packets, and the number of its routing table.
pub(crate) fn number(path: usize) -> u32 {
    // There are no more than 64.
    FIRST_NUMBER + path as u32
}

fn routes(config: &Config) -> Vec<MarkedRoute> {
    let mut routes = Vec::new();
    for (place, path) in config.paths.iter().enumerate() {
        for family in [Family::V4, Family::V6] {
            let leads = |remote: &&Remote| remote.paths.contains(&place);
            let mut networks = config.remotes.iter().filter(leads).flat_map(|remote| &remote.networks);
            if networks.any(|network| family_of(*network) == family) {
                let (interface, gateway) = (path.interface.clone(), path.gateway(family));
                routes.push(MarkedRoute { number: number(place), family, interface, gateway });
            }
        }
    }
    routes
}

fn table(config: &Config) -> Table {
    let divisions = config.remotes.iter().map(|remote| division(config, remote, &remote.ratio));
    let mut chains: Vec<Chain> = divisions.collect();
    for remote in config.remotes.iter().filter(|remote| remote.sessions) {
        let choice = |family| flow_rules::choice(remote, family, division_name(remote));
        chains.extend(flow_rules::families(remote).map(choice));
    }
    if is_restored(config) {
        chains.push(error_restoration(config));
        chains.push(error_choice());
        chains.push(restoration(config));
    }
    chains.push(Chain { name: "arriving".into(), hook: Some(Hook::Prerouting(RAW)), rules: arriving(config) });
    let leaving = leaving(config);
    if !leaving.is_empty() {
        // A hook costs each forwarded packet more than its rules do.
        chains.push(Chain { name: "leaving".into(), hook: Some(Hook::Postrouting(LAST)), rules: leaving });
    }
    Table {
        name: "kumade".into(),
        counters: config.paths.iter().map(Plan::counter).collect(),
        flows: flow_rules::lists(config),
        chains,
    }
}

fn division_name(remote: &Remote) -> String {
    format!("divide-{}", remote.name)
}

/// The rules that divide packets to one remote site.
pub(super) fn division(config: &Config, remote: &Remote, ratio: &Ratio) -> Chain {
    let is_translated = |translation: &Translation| translation.path.is_some_and(|path| remote.paths.contains(&path));
    let mut statements = Vec::new();
    if remote.sessions || config.translations.iter().any(is_translated) {
        statements.push(Statement::Untrack);
    }
    statements.push(Statement::MarkInTurn(ratio.turn().map(|place| number(remote.paths[place])).collect()));
    // Counted here, so that packets that are not translated pass no second hook.
    let count = |place: &usize| {
        let counter = Plan::counter(&config.paths[*place]);
        Rule(vec![Statement::Mark(number(*place)), Statement::Count(counter)])
    };
    let rules = [Rule(statements)].into_iter().chain(remote.paths.iter().map(count)).collect();
    Chain { name: division_name(remote), hook: None, rules }
}

fn is_restored(config: &Config) -> bool {
    !config.translations.is_empty() || config.remotes.iter().any(|remote| remote.sessions)
}

/// Whether packets of that IP version are given addresses back.
fn is_restored_for(config: &Config, family: Family) -> bool {
    config.translations.iter().any(|translation| family_of(translation.network) == family)
        || flow_rules::restored(config).any(|list| list.family == family)
}

/// Translations of all packets, whoever sends them.
fn static_translations(config: &Config) -> impl Iterator<Item = &Translation> {
    config.translations.iter().filter(|translation| config.is_static(translation))
}

/// Gives packets that arrive the addresses of the hosts back.
fn restoration(config: &Config) -> Chain {
    let flow = |list: FlowList| Rule(vec![Statement::TranslateFlow(list.family, list.name), Statement::Untrack]);
    let mut rules: Vec<Rule> = flow_rules::restored(config).map(flow).collect();
    let is_icmp = |(family, protocol)| {
        is_restored_for(config, family)
            .then(|| Rule(vec![Statement::Protocol(protocol), Statement::Jump(CHOOSE_ERRORS.into())]))
    };
    rules.extend(ICMP.into_iter().filter_map(is_icmp));
    for side in [Side::Local, Side::Remote] {
        rules.extend(side_restoration(config, side));
    }
    Chain { name: RESTORE.into(), hook: None, rules }
}

/// The part about hosts of one side. A packet is meant by one rule of each at most.
fn side_restoration(config: &Config, side: Side) -> Vec<Rule> {
    let mut rules = Vec::new();
    let is_last = side == Side::Remote || static_translations(config).all(|translation| translation.side == side);
    for Translation { network, alias, .. } in static_translations(config).filter(|one| one.side == side) {
        let [is_of, set] = match side {
            Side::Local => [Statement::Destination(*alias), Statement::SetDestination(*network)],
            Side::Remote => [Statement::Source(*alias), Statement::SetSource(*network)],
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
fn error_choice() -> Chain {
    let rule = |(protocol, kind): &(u8, u8)| {
        let goto = Statement::Goto(RESTORE_ERRORS.into());
        Rule(vec![Statement::Protocol(*protocol), Statement::IcmpType(*kind), goto])
    };
    Chain { name: CHOOSE_ERRORS.into(), hook: None, rules: ICMP_ERRORS.iter().map(rule).collect() }
}

/// Gives packets that ICMP errors are about the addresses with which hosts sent them.
fn error_restoration(config: &Config) -> Chain {
    let flow = |list: FlowList| Rule(vec![Statement::RestoreErrorFlow(list.family, list.name), Statement::Untrack]);
    let mut rules: Vec<Rule> = flow_rules::errors(config).map(flow).collect();
    for Translation { side, network, alias, .. } in static_translations(config) {
        let rule = Rule(match side {
            Side::Local => vec![Statement::AboutSource(*alias), Statement::SetAboutSource(*network)],
            Side::Remote => vec![Statement::AboutDestination(*alias), Statement::SetAboutDestination(*network)],
        });
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    }
    Chain { name: RESTORE_ERRORS.into(), hook: None, rules }
}

fn arriving(config: &Config) -> Vec<Rule> {
    let mut rules = Vec::new();
    if is_restored(config) {
        let mut interfaces: Vec<&String> = config.paths.iter().map(|path| &path.interface).collect();
        interfaces.sort();
        interfaces.dedup();
        let restore = |interface: &String| {
            let has_hosts = config.locals.iter().any(|local| local.interface == *interface);
            // Where no local host sends, nothing is left to do.
            let restore = if has_hosts { Statement::Jump } else { Statement::Goto };
            Rule(vec![Statement::Input(interface.clone()), restore(RESTORE.into())])
        };
        rules.extend(interfaces.into_iter().map(restore));
    }
    // What is meant by all other addresses comes last.
    for rest in [false, true] {
        for local in &config.locals {
            for remote in &config.remotes {
                for network in remote.networks.iter().filter(|network| (network.prefix_len() == 0) == rest) {
                    rules.extend(divisions(config, local, remote, *network));
                }
            }
        }
    }
    rules
}

/// Packets from local hosts to a network of a remote site are divided.
fn divisions(config: &Config, local: &Local, remote: &Remote, network: IpNet) -> Vec<Rule> {
    let mut rules = if network.prefix_len() == 0 { exclusions(config, local, network) } else { Vec::new() };
    let rule = |source: Option<IpNet>| {
        let mut statements = vec![Statement::Input(local.interface.clone())];
        statements.extend(source.map(Statement::Source));
        statements.push(Statement::Destination(network));
        if network.prefix_len() == 0 {
            statements.push(Statement::ToOtherHost);
        }
        statements.push(Statement::Goto(if remote.sessions {
            flow_rules::choice_name(remote, family_of(network))
        } else {
            division_name(remote)
        }));
        Rule(statements)
    };
    if local.networks.is_empty() {
        rules.push(rule(None));
    }
    let same_version = local.networks.iter().filter(|source| family_of(**source) == family_of(network));
    rules.extend(same_version.map(|source| rule(Some(*source))));
    rules
}

/// Packets between local networks are none of those to all other addresses.
fn exclusions(config: &Config, local: &Local, rest: IpNet) -> Vec<Rule> {
    let own = config.locals.iter().flat_map(|local| &local.networks);
    let own = own.filter(|network| family_of(**network) == family_of(rest));
    let rule = |network: &IpNet| {
        Rule(vec![Statement::Input(local.interface.clone()), Statement::Destination(*network), Statement::Accept])
    };
    own.map(rule).collect()
}

fn leaving(config: &Config) -> Vec<Rule> {
    let mut rules = Vec::new();
    for place in 0..config.paths.len() {
        let mark = Statement::Mark(number(place));
        // Once translated, a flow's addresses are in no network of hosts.
        for list in flow_rules::translated(config, place) {
            rules.push(Rule(vec![mark.clone(), Statement::TranslateFlow(list.family, list.name)]));
        }
        for translation in static_translations(config).filter(|translation| translation.path == Some(place)) {
            let Translation { side, network, alias, .. } = translation;
            let [is_of, set] = match side {
                Side::Local => [Statement::Source(*network), Statement::SetSource(*alias)],
                Side::Remote => [Statement::Destination(*network), Statement::SetDestination(*alias)],
            };
            rules.push(Rule(vec![mark.clone(), is_of, set]));
        }
    }
    rules
}
