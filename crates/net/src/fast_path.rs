//! The fast path of gateways: what `bpf/fast_path/fast_path.bpf.c` does in the kernel, with packets that need nothing of the host
//! but another path, other addresses, and a hop less. It leaves all others to packet rules and routes, as they arrived.
//!
//! Packets that take it pass no packet rules, connection tracking, IPsec policies and filters of tc(8) as they arrive:
//! [`find_host_rules`](crate::host_rules::find_host_rules) says whether there are such. Queues of the interface where they leave are as for all packets.

mod flows;

use crate::bpf::{Map, MapKind, PacketProgram, ProgramLink, Replacement};
use crate::nftables::CounterValue;
use crate::setup::SetupError;
use ipnet::IpNet;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use flows::{COUNT_BYTES, FLOW_BYTES, FLOW_KEY_BYTES, decode_count, encode_address};
pub use flows::{FastFlows, FlowUse};

/// What clang makes of the program; see `build` beside it.
const INSTRUCTIONS: &[u8] = include_bytes!("../bpf/fast_path/fast_path.bpf");
/// REPLACED(0) there: maps, then the role.
const FIRST_CONSTANT: u64 = 0x6b75_6d61_6465_0000;

/// Of its structures.
const NETWORK_KEY_BYTES: usize = 32;
const NETWORK_BYTES: usize = 36;
const REMOTE_BYTES: usize = 1048;
const PATH_BYTES: usize = 56;
const ROUTE_KEY_BYTES: usize = 40;
const ROUTE_BYTES: usize = 40;
const SETTINGS_BYTES: usize = 12;
/// Kind, index, IP version and address behind the length.
const NETWORK_KEY_BITS: u32 = 224;
/// In the place of a remote site.
const LEFT_TO_KERNEL: u32 = u32::MAX;
/// Of enum network_kind.
const LOCAL_HOSTS: u32 = 0;
const REMOTE_HOSTS: u32 = 1;
const PATH_SOURCES: u32 = 2;
const PATH_DESTINATIONS: u32 = 3;
const ARRIVING_SOURCES: u32 = 4;
const ARRIVING_DESTINATIONS: u32 = 5;
const KNOWN_DESTINATIONS: u32 = 6;
/// More than configurations have. Where one has more, packet rules do all.
const MAX_NETWORKS: u32 = 65_536;
const MAX_REMOTES: u32 = 256;
const MAX_PATHS: u32 = 64;
/// Pairs of hosts whose routes are known for a moment.
const MAX_ROUTES: u32 = 4096;
/// The most packets in one turn of a remote site.
const MAX_TURN_PACKETS: usize = 1000;

/// Batches of packets that arrive as one (GRO, and TSO of senders on this host) take the ratio's places in turn as packets do. Those of
/// each size do so by themselves: where large and small ones alternate, one path would get all large ones.
pub const BATCH_CLASSES_FROM_BYTES: [u32; 3] = [2048, 8192, 32_768];

/// Which packets a program is for that arrive at an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FastPathRole {
    /// From paths: they get the addresses of hosts back, and take the routes that there are.
    Restores = 0,
    /// From local hosts: they are divided among paths.
    Divides = 1,
}

/// What a network is to the fast path. Interfaces are given by their numbers, paths and remote sites by their places.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NetworkUse {
    /// Packets from it are divided that arrive at this interface.
    LocalHosts {
        /// Where.
        interface: u32,
    },
    /// Packets to it are divided as those of a remote site.
    RemoteHosts {
        /// Which.
        remote: usize,
    },
    /// On a path, sources in it are moved to the address of the same place in another network.
    PathSources(usize, IpNet),
    /// The same for destinations.
    PathDestinations(usize, IpNet),
    /// Sources in it are moved likewise of what arrives at this interface.
    ArrivingSources(u32, IpNet),
    /// The same for destinations.
    ArrivingDestinations(u32, IpNet),
    /// What arrives at this interface from remote sites is forwarded to it: only that, with the addresses that it is given back.
    KnownDestinations {
        /// Where.
        interface: u32,
    },
}

/// How packets to a remote site are divided.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FastRemote {
    /// The path of each packet of a turn; none where its packets are left to packet rules.
    pub turn: Vec<usize>,
    /// Whether only [flows](FastFlows) are divided that were entered.
    pub has_single_flows: bool,
    /// Whether packets without ports are left to packet rules: fragments, and what is neither TCP nor UDP.
    pub needs_ports: bool,
    /// Longer packets are left to packet rules, in bytes from the IP header on.
    pub mtu: u32,
}

/// Where packets of a path leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FastPathExit {
    /// The interface's number.
    pub interface: u32,
    /// What packets are marked with.
    pub mark: u32,
    /// The next hop; none where hosts are on the link.
    pub gateway_v4: Option<Ipv4Addr>,
    /// The same for IPv6.
    pub gateway_v6: Option<Ipv6Addr>,
}

/// What the fast path does.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FastPathRules {
    /// Networks, with what they are.
    pub networks: Vec<(IpNet, NetworkUse)>,
    /// What is from them or to them is left to the kernel, also where they are part of other networks.
    pub excluded: Vec<IpNet>,
    /// In the order of their places.
    pub remotes: Vec<FastRemote>,
    /// Likewise.
    pub paths: Vec<FastPathExit>,
    /// Where programs run, by the interfaces' numbers.
    pub interfaces: Vec<(u32, FastPathRole)>,
    /// Whether [flows](FastFlows) may get their addresses back.
    pub restores_flows: bool,
}

/// The fast path in the kernel, until this is dropped, or its process ends in any way.
#[derive(Debug)]
pub struct FastPath {
    rules: FastPathRules,
    networks: Map,
    remotes: Map,
    paths: Map,
    counts: Map,
    settings: Map,
    flows: Arc<FastFlows>,
    /// By role.
    programs: [PacketProgram; 2],
    links: BTreeMap<(u32, FastPathRole), ProgramLink>,
}

impl FastPath {
    /// Loads it, for so many flows at most; no packets take it yet.
    ///
    /// # Errors
    /// Without CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN in the initial user namespace, or before Linux 6.6.
    pub fn load(max_flows: u32) -> Result<Self, SetupError> {
        let failed = |error: io::Error| {
            let hint = "it takes Linux 6.6, and CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN outside of user namespaces";
            SetupError::new("load the fast path into the kernel", error).with_hint(hint)
        };
        Self::load_maps_and_programs(max_flows).map_err(failed)
    }

    fn load_maps_and_programs(max_flows: u32) -> io::Result<Self> {
        if cfg!(target_endian = "big") {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let networks = Map::create(MapKind::LpmTrie, NETWORK_KEY_BYTES, NETWORK_BYTES, MAX_NETWORKS)?;
        let remotes = Map::create(MapKind::Array, 4, REMOTE_BYTES, MAX_REMOTES)?;
        let paths = Map::create(MapKind::Array, 4, PATH_BYTES, MAX_PATHS)?;
        let counts = Map::create(MapKind::Array, 4, COUNT_BYTES, MAX_PATHS)?;
        let flows = Map::create(MapKind::Hash, FLOW_KEY_BYTES, FLOW_BYTES, max_flows.max(1))?;
        let routes = Map::create(MapKind::LruHash, ROUTE_KEY_BYTES, ROUTE_BYTES, MAX_ROUTES)?;
        let settings = Map::create(MapKind::Array, 4, SETTINGS_BYTES, 1)?;
        let maps = [&networks, &remotes, &paths, &counts, &flows, &routes, &settings].map(Replacement::Map);
        let load = |role: FastPathRole| {
            let constants = [&maps[..], &[Replacement::Number(role as u32)]].concat();
            PacketProgram::load(INSTRUCTIONS, FIRST_CONSTANT, &constants)
        };
        let programs = [load(FastPathRole::Restores)?, load(FastPathRole::Divides)?];
        let (flows, rules) = (Arc::new(FastFlows { map: flows }), FastPathRules::default());
        Ok(FastPath { rules, networks, remotes, paths, counts, settings, flows, programs, links: BTreeMap::new() })
    }

    /// Its single flows. Any thread may change them.
    pub fn flows(&self) -> Arc<FastFlows> {
        self.flows.clone()
    }

    /// Whether packets may take it.
    pub fn is_attached(&self) -> bool {
        !self.links.is_empty()
    }

    /// Packets take it no more, until it is [changed](Self::change).
    pub fn stop(&mut self) {
        self.links.clear();
    }

    /// Does this from now on, in the namespace of the calling thread. Where more than turns differs, no packets take it meanwhile, so
    /// that none meets half of it. Turns of remote sites that stay as they are go on.
    ///
    /// # Errors
    /// An interface is gone: others are as they are to be. Or there are too many networks, remote sites or paths, or a turn is too
    /// long: no packets take it then.
    pub fn change(&mut self, rules: FastPathRules) -> Result<(), SetupError> {
        // An interface that is gone, and whose number another one has, has none; nor has one where somebody has detached it.
        self.links.retain(|(interface, _), link| link.interface().is_ok_and(|found| found == Some(*interface)));
        let is_attached = rules.interfaces.iter().all(|link| self.links.contains_key(link));
        if rules == self.rules && is_attached {
            return Ok(());
        }
        if !rules.has_other_turns_alone(&self.rules) {
            self.links.clear();
        }
        let outcome = self.write_maps(&rules);
        if outcome.is_err() {
            self.links.clear();
            // Not all of them are there.
            let written = [&self.rules, &rules].map(encode_networks);
            written.iter().flat_map(BTreeMap::keys).for_each(|key| drop(self.networks.remove(key)));
            self.rules = FastPathRules::default();
        }
        let outcome = outcome.and_then(|()| {
            let attached = self.attach(&rules.interfaces);
            self.rules = rules;
            attached
        });
        outcome.map_err(|error| {
            let hint = match error.raw_os_error() {
                Some(libc::EINVAL) => "to run programs at interfaces so (tcx) takes Linux 6.6",
                _ => "it is tried again when interfaces change",
            };
            SetupError::new("change the fast path", error).with_hint(hint)
        })
    }

    /// What differs.
    fn write_maps(&self, rules: &FastPathRules) -> io::Result<()> {
        for place in 0..rules.paths.len() {
            if encode_path(&self.rules, place) != encode_path(rules, place) {
                self.paths.set(&(place as u32).to_ne_bytes(), &encode_path(rules, place).unwrap_or_default())?;
            }
        }
        self.settings.set(&[0; 4], &encode_settings(rules))?;
        let remotes_gone = vec![FastRemote::default(); self.rules.remotes.len().saturating_sub(rules.remotes.len())];
        for (place, remote) in (0_u32..).zip(rules.remotes.iter().chain(&remotes_gone)) {
            if self.rules.remotes.get(place as usize) != Some(remote) {
                self.remotes.set(&place.to_ne_bytes(), &remote.encode()?)?;
            }
        }
        let [before, after] = [&self.rules, rules].map(encode_networks);
        for (key, value) in after.iter().filter(|(key, value)| before.get(*key) != Some(*value)) {
            self.networks.set(key, value)?;
        }
        for key in before.keys().filter(|key| !after.contains_key(*key)) {
            self.networks.remove(key)?;
        }
        Ok(())
    }

    /// Wherever that can be; the first error of others.
    fn attach(&mut self, links: &[(u32, FastPathRole)]) -> io::Result<()> {
        let mut outcome = Ok(());
        for link in links {
            if !self.links.contains_key(link) {
                let (interface, role) = *link;
                match self.programs[role as usize].attach(interface) {
                    Ok(attached) => drop(self.links.insert(*link, attached)),
                    Err(error) => outcome = outcome.and(Err(error)),
                }
            }
        }
        outcome
    }

    /// What was given to a path, by its place, since this was loaded.
    ///
    /// # Errors
    /// There are not so many.
    pub fn path_count(&self, path: usize) -> Result<CounterValue, SetupError> {
        let value = self.counts.get(&(path as u32).to_ne_bytes());
        let value = value.map_err(|error| SetupError::new("read the counts of the fast path", error))?;
        Ok(decode_count(&value))
    }

    /// Counts of a path, by its place, begin anew: it is another one.
    ///
    /// # Errors
    /// There are not so many.
    pub fn set_path_count(&self, path: usize, count: CounterValue) -> Result<(), SetupError> {
        let value = [count.packets, count.bytes].map(u64::to_ne_bytes).concat();
        let outcome = self.counts.set(&(path as u32).to_ne_bytes(), &value);
        outcome.map_err(|error| SetupError::new("set the counts of the fast path", error))
    }
}

/// struct path, of a path by its place.
fn encode_path(rules: &FastPathRules, place: usize) -> Option<Vec<u8>> {
    let FastPathExit { interface, mark, gateway_v4, gateway_v6 } = rules.paths.get(place)?;
    let is_translating = |is_meant: fn(NetworkUse) -> Option<usize>| {
        rules.networks.iter().any(|(_, purpose)| is_meant(*purpose) == Some(place))
    };
    let translates_sources =
        is_translating(|purpose| if let NetworkUse::PathSources(path, _) = purpose { Some(path) } else { None });
    let translates_destinations =
        is_translating(|purpose| if let NetworkUse::PathDestinations(path, _) = purpose { Some(path) } else { None });
    let flags = [translates_sources, translates_destinations, gateway_v4.is_some(), gateway_v6.is_some()];
    let words = [*interface, *mark].into_iter().chain(flags.map(u32::from));
    let v4 = encode_address(gateway_v4.unwrap_or(Ipv4Addr::UNSPECIFIED).into());
    let v6 = gateway_v6.unwrap_or(Ipv6Addr::UNSPECIFIED).octets();
    Some(words.flat_map(u32::to_ne_bytes).chain(v4).chain(v6).collect())
}

/// struct settings.
fn encode_settings(rules: &FastPathRules) -> Vec<u8> {
    let has = |is_meant: fn(&NetworkUse) -> bool| rules.networks.iter().any(|(_, purpose)| is_meant(purpose));
    let sources = has(|purpose| matches!(purpose, NetworkUse::ArrivingSources(..)));
    let destinations = has(|purpose| matches!(purpose, NetworkUse::ArrivingDestinations(..)));
    [rules.restores_flows, sources, destinations].map(|flag| u32::from(flag).to_ne_bytes()).concat()
}

impl FastRemote {
    fn encode(&self) -> io::Result<Vec<u8>> {
        let is_short = self.turn.len() <= MAX_TURN_PACKETS && self.turn.iter().all(|path| *path < MAX_PATHS as usize);
        if !is_short {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let FastRemote { turn, has_single_flows, needs_ports, mtu } = self;
        let words = [turn.len() as u32, u32::from(*has_single_flows), u32::from(*needs_ports), *mtu];
        let mut value: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        // Turns begin.
        value.extend([0; 32]);
        // Over and over: whoever reads it while a shorter or longer one is written finds a path of one of both.
        value.extend(turn.iter().cycle().take(MAX_TURN_PACKETS).map(|path| *path as u8));
        value.resize(REMOTE_BYTES, 0);
        Ok(value)
    }
}

impl FastPathRules {
    /// Whether they differ in no more than the order in which paths take turns.
    fn has_other_turns_alone(&self, other: &FastPathRules) -> bool {
        let without_turns = |rules: &FastPathRules| {
            let remotes = rules.remotes.iter().map(|remote| {
                // Before the first turn, there is nothing that could be read meanwhile.
                let turn = if remote.turn.is_empty() { Vec::new() } else { vec![0] };
                FastRemote { turn, ..remote.clone() }
            });
            FastPathRules { remotes: remotes.collect(), ..rules.clone() }
        };
        without_turns(self) == without_turns(other)
    }

    /// The kinds of networks, by interfaces, in which hosts are looked up.
    fn kinds_of_hosts(&self) -> impl Iterator<Item = (u32, u32)> {
        let kind = |&(interface, role): &(u32, FastPathRole)| match role {
            FastPathRole::Divides => (LOCAL_HOSTS, interface),
            FastPathRole::Restores => (KNOWN_DESTINATIONS, interface),
        };
        self.interfaces.iter().map(kind).chain([(REMOTE_HOSTS, 0)])
    }
}

/// The map of networks. Of networks with an address, the program takes the smallest: also what is in an excluded one must be excluded.
fn encode_networks(rules: &FastPathRules) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut entries: BTreeMap<_, _> =
        rules.networks.iter().map(|(network, purpose)| encode_network(*network, *purpose)).collect();
    let is_excluded = |network: &IpNet| rules.excluded.iter().any(|excluded| excluded.contains(network));
    let inside = rules.networks.iter().map(|(network, _)| *network).filter(is_excluded);
    for network in rules.excluded.iter().copied().chain(inside) {
        let value = encode_network_value(LEFT_TO_KERNEL, None);
        entries.extend(
            rules.kinds_of_hosts().map(|(kind, index)| (encode_network_key(network, kind, index), value.clone())),
        );
    }
    entries
}

/// An entry of it.
fn encode_network(network: IpNet, purpose: NetworkUse) -> (Vec<u8>, Vec<u8>) {
    let (kind, index, remote, target) = match purpose {
        NetworkUse::LocalHosts { interface } => (LOCAL_HOSTS, interface, 0, None),
        NetworkUse::RemoteHosts { remote } => (REMOTE_HOSTS, 0, remote as u32, None),
        NetworkUse::PathSources(path, target) => (PATH_SOURCES, path as u32, 0, Some(target)),
        NetworkUse::PathDestinations(path, target) => (PATH_DESTINATIONS, path as u32, 0, Some(target)),
        NetworkUse::ArrivingSources(interface, target) => (ARRIVING_SOURCES, interface, 0, Some(target)),
        NetworkUse::ArrivingDestinations(interface, target) => (ARRIVING_DESTINATIONS, interface, 0, Some(target)),
        NetworkUse::KnownDestinations { interface } => (KNOWN_DESTINATIONS, interface, 0, None),
    };
    (encode_network_key(network, kind, index), encode_network_value(remote, target))
}

/// struct network_key.
fn encode_network_key(network: IpNet, kind: u32, index: u32) -> Vec<u8> {
    let unused_bits = u32::from(network.max_prefix_len() - network.prefix_len());
    let is_v6 = u32::from(matches!(network, IpNet::V6(_)));
    let words = [NETWORK_KEY_BITS - unused_bits, kind, index, is_v6];
    words.into_iter().flat_map(u32::to_ne_bytes).chain(encode_address(network.network())).collect()
}

/// struct network.
fn encode_network_value(remote: u32, target: Option<IpNet>) -> Vec<u8> {
    let mut value = remote.to_ne_bytes().to_vec();
    match target {
        Some(target) => {
            value.extend(encode_address(target.network()));
            value.extend(encode_host_mask(target));
        }
        None => value.resize(NETWORK_BYTES, 0),
    }
    value
}

fn encode_host_mask(network: IpNet) -> [u8; 16] {
    match network.hostmask() {
        IpAddr::V4(mask) => Ipv6Addr::from_bits(mask.to_bits().into()).octets(),
        IpAddr::V6(mask) => mask.octets(),
    }
}

#[cfg(test)]
mod packets;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_as_long_as_the_program_has_them() {
        let network = |text: &str| text.parse::<IpNet>().unwrap();
        for (net, target) in [("10.1.0.0/24", "198.51.0.0/24"), ("fd01::/64", "fd51::/64")] {
            for purpose in [NetworkUse::LocalHosts { interface: 3 }, NetworkUse::ArrivingSources(3, network(target))] {
                let (key, value) = encode_network(network(net), purpose);
                assert_eq!((key.len(), value.len()), (NETWORK_KEY_BYTES, NETWORK_BYTES));
            }
        }
        let rules = FastPathRules { paths: vec![FastPathExit::default()], ..FastPathRules::default() };
        assert_eq!(encode_path(&rules, 0).map(|path| path.len()), Some(PATH_BYTES));
        assert_eq!(encode_settings(&rules).len(), SETTINGS_BYTES);
        assert_eq!(FastRemote { turn: vec![63; 1000], ..FastRemote::default() }.encode().unwrap().len(), REMOTE_BYTES);
        assert!(FastRemote { turn: vec![0; 1001], ..FastRemote::default() }.encode().is_err());
    }
}
