//! What of a configuration the kernel's fast path does. Packet rules do the rest, and all of it where there is none, or where the
//! host has rules of its own that packets are not to pass by.

use super::plan::{DirectPlan, path_mark, static_translations};
use crate::config::{GatewayConfig, GatewaySide, LocalSite, RemoteSite};
use crate::ratio::PathRatio;
use kumade_net::fast_path::{FastFlows, FastPath, FastPathExit, FastPathRole, FastPathRules, FastRemote, NetworkUse};
use kumade_net::forwarding::missing_forwarding;
use kumade_net::host_routing::unforwarded_networks;
use kumade_net::host_rules::find_host_rules;
use kumade_net::nftables::CounterValue;
use kumade_net::{SetupError, interface, sysctl};
use std::net::IpAddr;
use std::sync::Arc;

/// The fast path of a direct plane, if the kernel lets one in.
#[derive(Debug)]
pub struct DirectFastPath {
    /// None where the kernel or the rights do not let it in.
    loaded: Option<FastPath>,
    /// Whether packets take it, or why not.
    outcome: Result<(), String>,
    /// The same as was last said.
    told: Option<Result<(), String>>,
    /// Of each path, by its place: its name.
    paths: Vec<String>,
}

/// What the fast path needs to know of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Link {
    index: u32,
    /// The smaller one of both IP versions.
    mtu: u32,
    is_ethernet: bool,
}

/// The flows of a plane that has none of NAT sessions.
const MIN_FLOWS: u32 = 1024;

impl DirectFastPath {
    /// Loads it for a configuration, and later ones with the same sessions. Where that cannot be, packet rules do all of its work. No packets
    /// take it before a plane is started with it.
    pub fn load(config: &GatewayConfig) -> Self {
        let loaded = FastPath::load(max_flows(config));
        let outcome = loaded.as_ref().map(drop).map_err(ToString::to_string);
        DirectFastPath { loaded: loaded.ok(), outcome, told: None, paths: Vec::new() }
    }

    /// Whether the kernel has let it in.
    pub fn is_loaded(&self) -> bool {
        self.loaded.is_some()
    }

    /// Says which way packets take, where that was not said.
    pub(super) fn tell_changes(&mut self) {
        if self.told.as_ref() == Some(&self.outcome) {
            return;
        }
        match &self.outcome {
            Ok(()) => tracing::info!("packets take the fast path"),
            Err(obstacle) => tracing::info!("packets are forwarded by packet rules, not by the fast path: {obstacle}"),
        }
        self.told = Some(self.outcome.clone());
    }

    /// Its single flows.
    pub(super) fn flows(&self) -> Option<Arc<FastFlows>> {
        self.loaded.as_ref().map(FastPath::flows)
    }

    /// Whether packets may take it.
    pub(super) fn is_used(&self) -> bool {
        self.loaded.as_ref().is_some_and(FastPath::is_attached)
    }

    /// Brings it into accord with the configuration, with the ratio of each remote site's paths as they are, and with the host as it is.
    pub(super) fn update(&mut self, config: &GatewayConfig, plan: &DirectPlan, ratios: &[PathRatio]) {
        let Some(fast) = &mut self.loaded else { return };
        let mut rules = build_rules(config, ratios, find_link);
        let outcome = find_obstacle(config, plan, &rules.interfaces).map_or(Ok(()), Err);
        let outcome = outcome.and_then(|()| unforwarded_networks().map_err(|error| error.to_string()));
        let obstacle = outcome.map(|networks| rules.excluded = networks).err();
        if obstacle.is_some() {
            rules.interfaces.clear();
        }
        let names: Vec<_> = config.paths.iter().map(|path| path.name.clone()).collect();
        let outcome = match names == self.paths {
            true => fast.change(rules),
            false => move_counts(fast, &self.paths, &names).and_then(|()| fast.change(rules)),
        };
        self.paths = names;
        let outcome = outcome.map_err(|error| error.to_string());
        self.outcome = obstacle.map_or(outcome, Err);
    }

    /// What was given to a path, by its place.
    pub(super) fn path_count(&self, path: usize) -> Result<CounterValue, SetupError> {
        self.loaded.as_ref().map_or(Ok(CounterValue::default()), |fast| fast.path_count(path))
    }
}

/// Why packets are not to take it.
fn find_obstacle(config: &GatewayConfig, plan: &DirectPlan, interfaces: &[(u32, FastPathRole)]) -> Option<String> {
    let families: Vec<_> = plan.routes.iter().map(|route| route.family).collect();
    if let Some(missing) = missing_forwarding(&families).first() {
        return Some(missing.to_string());
    }
    let locals = config.locals.iter().map(|local| local.interface.as_str());
    let mut names = locals.chain(config.paths.iter().map(|path| path.interface.as_str()));
    if let Some(obstacle) = names.find_map(|name| interface_obstacle(name, &families)) {
        return Some(obstacle);
    }
    let numbers: Vec<_> = interfaces.iter().map(|(index, _)| *index).collect();
    let marks: Vec<_> = plan.routes.iter().map(|route| route.number).collect();
    match find_host_rules(&plan.table.name, &marks, &numbers) {
        Ok(found) => found.map(|rules| format!("this host has {rules}")),
        Err(error) => Some(error.to_string()),
    }
}

/// Of an interface that has settings of its own for what it forwards. One that is gone has none.
fn interface_obstacle(name: &str, families: &[interface::Family]) -> Option<String> {
    if let Ok(Some(_)) = interface::master(name) {
        return Some(format!("{name} belongs to another interface: a bridge, bond, team or VRF"));
    }
    let settings =
        [(interface::Family::V4, "ipv4", "forwarding", 0), (interface::Family::V6, "ipv6", "disable_ipv6", 1)];
    settings.into_iter().find_map(|(family, directory, setting, obstacle)| {
        let key = format!("net/{directory}/conf/{name}/{setting}");
        let is_meant = families.contains(&family) && sysctl::read_number(&key) == Some(obstacle);
        is_meant.then(|| format!("{key} is {obstacle}"))
    })
}

/// Counts of paths go with their names.
fn move_counts(fast: &mut FastPath, before: &[String], now: &[String]) -> Result<(), SetupError> {
    // Nothing is counted meanwhile.
    fast.stop();
    let counts: Vec<_> = (0..before.len()).map(|path| fast.path_count(path)).collect::<Result<_, _>>()?;
    now.iter().enumerate().try_for_each(|(path, name)| {
        let old = before.iter().position(|before| before == name);
        fast.set_path_count(path, old.map_or(CounterValue::default(), |old| counts[old]))
    })
}

fn find_link(name: &str) -> Option<Link> {
    let v6_mtu = sysctl::read_number(&format!("net/ipv6/conf/{name}/mtu"));
    Some(Link {
        index: interface::index(name).ok()?,
        mtu: interface::mtu(name).ok()?.min(v6_mtu.unwrap_or(u32::MAX)),
        is_ethernet: interface::is_ethernet(name).ok()?,
    })
}

/// Of all sessions that there may be, in both directions: entries of each flow, and of its addresses on each path.
fn max_flows(config: &GatewayConfig) -> u32 {
    let sessions = config.sessions.as_ref().map_or(0, |sessions| sessions.limits.max_sessions);
    let remotes = config.remotes.iter().filter(|remote| remote.divides_single_flows);
    let entries =
        remotes.map(|remote| sessions.saturating_mul(1 + 2 * remote.paths.len())).fold(0, usize::saturating_add);
    u32::try_from(entries).unwrap_or(u32::MAX).max(MIN_FLOWS)
}

/// What the fast path does, on interfaces as they are.
fn build_rules(config: &GatewayConfig, ratios: &[PathRatio], find: impl Fn(&str) -> Option<Link>) -> FastPathRules {
    let restores_flows = config.remotes.iter().any(|remote| remote.divides_single_flows);
    let mut rules = FastPathRules { restores_flows, ..FastPathRules::default() };
    let path_links: Vec<_> = config.paths.iter().map(|path| find(&path.interface)).collect();
    for (place, path) in config.paths.iter().enumerate() {
        let v4 = |gateway| if let IpAddr::V4(gateway) = gateway { Some(gateway) } else { None };
        let v6 = |gateway| if let IpAddr::V6(gateway) = gateway { Some(gateway) } else { None };
        let next_hop = |family| path.next_hop(family);
        rules.paths.push(FastPathExit {
            interface: path_links[place].map_or(0, |link| link.index),
            mark: path_mark(place),
            gateway_v4: next_hop(interface::Family::V4).and_then(v4),
            gateway_v6: next_hop(interface::Family::V6).and_then(v6),
        });
    }
    for (remote, ratio) in config.remotes.iter().zip(ratios) {
        rules.remotes.push(build_remote(config, remote, ratio, &path_links));
    }
    for (place, remote) in config.remotes.iter().enumerate() {
        // What all other addresses are, routes say.
        let networks = remote.networks.iter().filter(|network| network.prefix_len() > 0);
        rules.networks.extend(networks.map(|network| (*network, NetworkUse::RemoteHosts { remote: place })));
    }
    for translation in static_translations(config) {
        let Some(path) = translation.path else { continue };
        let purpose = match translation.side {
            GatewaySide::Local => NetworkUse::PathSources(path, translation.alias),
            GatewaySide::Remote => NetworkUse::PathDestinations(path, translation.alias),
        };
        rules.networks.push((translation.network, purpose));
    }
    // Of what arrives at another one, the fast path could not read the headers; packets whose sources are not listed pass rules.
    let locals: Vec<_> = config.locals.iter().filter_map(|local| Some((local, find(&local.interface)?))).collect();
    for (local, link) in locals.iter().filter(|(local, link)| link.is_ethernet && !local.networks.is_empty()) {
        let purpose = NetworkUse::LocalHosts { interface: link.index };
        rules.networks.extend(local.networks.iter().map(|network| (*network, purpose)));
        rules.interfaces.push((link.index, FastPathRole::Divides));
    }
    for link in path_links.iter().flatten().filter(|link| link.is_ethernet) {
        // What local hosts send from there as well is for packet rules.
        if locals.iter().all(|(_, local)| local.index != link.index) {
            rules.networks.extend(arriving_networks(config, link.index, &locals));
            rules.interfaces.push((link.index, FastPathRole::Restores));
        }
    }
    rules.interfaces.sort_unstable();
    rules.interfaces.dedup();
    rules
}

fn build_remote(config: &GatewayConfig, remote: &RemoteSite, ratio: &PathRatio, links: &[Option<Link>]) -> FastRemote {
    let turn: Vec<usize> = ratio.round_paths().map(|place| remote.paths[place]).collect();
    let mtus: Option<Vec<u32>> = turn.iter().map(|path| links[*path].map(|link| link.mtu)).collect();
    let is_translated =
        static_translations(config).any(|one| one.path.is_some_and(|path| remote.paths.contains(&path)));
    FastRemote {
        // A packet that has had its turn leaves by that path: all of them must be there.
        turn: if mtus.is_some() { turn } else { Vec::new() },
        has_single_flows: remote.divides_single_flows,
        needs_ports: remote.divides_single_flows || is_translated,
        mtu: mtus.into_iter().flatten().min().unwrap_or(0),
    }
}

/// What packets that arrive by a path are given back, and where they go.
fn arriving_networks(
    config: &GatewayConfig,
    interface: u32,
    locals: &[(&LocalSite, Link)],
) -> Vec<(ipnet::IpNet, NetworkUse)> {
    let translations = static_translations(config).map(|translation| match translation.side {
        GatewaySide::Local => (translation.alias, NetworkUse::ArrivingDestinations(interface, translation.network)),
        GatewaySide::Remote => (translation.alias, NetworkUse::ArrivingSources(interface, translation.network)),
    });
    let own = locals.iter().flat_map(|(local, _)| &local.networks);
    translations.chain(own.map(|network| (*network, NetworkUse::KnownDestinations { interface }))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = r#"
[gateway]
name = "site"
[[local]]
interface = "lan"
networks = ["10.1.0.0/24"]
[[path]]
name = "one"
interface = "path1"
gateways = ["10.9.1.2"]
weight = 2
[[path]]
name = "two"
interface = "path2"
[[remote]]
name = "far"
networks = ["10.2.0.0/24"]
[[remote]]
name = "rest"
networks = ["0.0.0.0/0"]
paths = ["two"]
[[translation]]
network = "10.1.0.0/24"
alias = "192.0.2.0/24"
path = "two"
"#;

    const LINKS: [(&str, Link); 3] = [
        ("lan", Link { index: 2, mtu: 1500, is_ethernet: true }),
        ("path1", Link { index: 3, mtu: 1492, is_ethernet: false }),
        ("path2", Link { index: 4, mtu: 1500, is_ethernet: true }),
    ];

    fn build(text: &str, links: &[(&str, Link)]) -> FastPathRules {
        let interfaces = ["lan", "path1", "path2"].map(String::from);
        let config = GatewayConfig::from_toml(text, "test.toml", &interfaces).unwrap();
        let ratios: Vec<_> = config.remotes.iter().map(|remote| remote.ratio.clone()).collect();
        let find = |name: &str| links.iter().find(|(link, _)| *link == name).map(|(_, link)| *link);
        build_rules(&config, &ratios, find)
    }

    #[test]
    fn the_fast_path_does_what_the_configuration_says_of_networks_that_it_lists() {
        let rules = build(CONFIG, &LINKS);
        assert_eq!(rules.interfaces, [(2, FastPathRole::Divides), (4, FastPathRole::Restores)]);
        let turns: Vec<_> = rules.remotes.iter().map(|remote| (remote.turn.clone(), remote.mtu)).collect();
        assert_eq!(turns, [(vec![0, 0, 1], 1492), (vec![1], 1500)]);
        assert!(rules.remotes.iter().all(|remote| remote.needs_ports && !remote.has_single_flows));
        let hops: Vec<_> = rules.paths.iter().map(|path| (path.interface, path.mark, path.gateway_v4)).collect();
        assert_eq!(hops, [(3, 0x6b01, Some("10.9.1.2".parse().unwrap())), (4, 0x6b02, None)]);
        let network = |text: &str| text.parse::<ipnet::IpNet>().unwrap();
        let [own, far, alias] = ["10.1.0.0/24", "10.2.0.0/24", "192.0.2.0/24"].map(network);
        let expected = [
            (far, NetworkUse::RemoteHosts { remote: 0 }),
            (own, NetworkUse::PathSources(1, alias)),
            (own, NetworkUse::LocalHosts { interface: 2 }),
            (alias, NetworkUse::ArrivingDestinations(4, own)),
            (own, NetworkUse::KnownDestinations { interface: 4 }),
        ];
        assert_eq!(rules.networks, expected);
    }

    #[test]
    fn what_it_cannot_do_is_left_to_packet_rules() {
        // A path that is gone takes the turns of all with it: packet rules divide among the others.
        let rules = build(CONFIG, &[LINKS[0], LINKS[2]]);
        assert_eq!((rules.remotes[0].turn.len(), rules.remotes[1].turn.len()), (0, 1));
        // Whose hosts are not listed, and whose headers are no Ethernet.
        let hosts = "networks = [\"10.1.0.0/24\"]\n[[path]]";
        let (untranslated, _) = CONFIG.split_once("[[translation]]").unwrap();
        let rules = build(&untranslated.replace(hosts, "[[path]]"), &LINKS);
        assert_eq!(rules.interfaces, [(4, FastPathRole::Restores)]);
        let rules = build(CONFIG, &[("lan", LINKS[1].1), LINKS[1], LINKS[2]]);
        assert_eq!(rules.interfaces, [(4, FastPathRole::Restores)]);
        // Local hosts at a path's interface.
        let rules = build(&CONFIG.replace("interface = \"lan\"", "interface = \"path2\""), &LINKS);
        assert_eq!(rules.interfaces, [(4, FastPathRole::Divides)]);
    }
}
