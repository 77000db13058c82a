//! The parts of the file that a coordinator and its agents have: `[mesh]`, `[[agent]]`, `[[link]]`, `[coordinator]`.

use super::mesh_pairs::{literal_family, pairs, target};
use super::types::{AgentConfig, MeshAgent, MeshConfig, MeshLink, MonitoredTarget, OwnAgentConfig};
use super::values::{FamilyName, KeyReader, VALID_PERIODS, VALID_PROBE_INTERVALS, parse_spanned, span_within};
use kumade_client::{DEFAULT_PORT, STAMP_PORT};
use kumade_daemon::{ConfigFault, listen_address};
use kumade_net::ScopedAddress;
use kumade_noise_session::{PrivateKey, PublicKey};
use kumade_planner::AddressFamily;
use kumade_units::{Span, parse};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::PathBuf;
use toml::Spanned;

/// Where a coordinator listens by default, beside the page's port.
const DEFAULT_MESH_PORT: u16 = 7281;

/// `[mesh]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct MeshSection {
    interval: Option<Spanned<String>>,
    measure: Option<Spanned<String>>,
    #[serde(default)]
    family: FamilyName,
}

/// `[[agent]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct AgentSection {
    id: Spanned<String>,
    name: Option<String>,
    public_key: Option<Spanned<String>>,
    #[serde(default)]
    this_host: bool,
    address: Option<Spanned<Addresses>>,
    family: Option<FamilyName>,
    stamp_port: Option<u16>,
}

/// One, or several.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Addresses {
    One(String),
    Several(Vec<String>),
}

/// `[[link]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct LinkSection {
    name: Spanned<String>,
    agents: Vec<Spanned<String>>,
    bytes_per_day: Option<Spanned<String>>,
}

/// `[coordinator]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct CoordinatorSection {
    address: Spanned<Addresses>,
    public_key: Spanned<String>,
}

/// What `[monitor]` says of the mesh.
#[derive(Debug, Clone, Copy)]
pub(super) struct MeshKeys<'f> {
    pub(super) listen: Option<&'f Spanned<String>>,
    pub(super) key: Option<&'f Spanned<PathBuf>>,
    pub(super) port: Option<u16>,
    pub(super) stamp_port: Option<u16>,
    pub(super) bytes_per_day: Option<&'f Spanned<String>>,
}

impl MeshKeys<'_> {
    fn bytes_per_day(&self) -> Result<Option<u64>, ConfigFault> {
        read_budget(self.bytes_per_day)
    }

    fn identity(&self, read_key: KeyReader<'_>) -> Result<PrivateKey, ConfigFault> {
        let missing = || {
            ConfigFault::new(
                0..0,
                "`key` in [monitor] is missing: the file of this host's private key, as `kumade key private --output FILE` makes one",
            )
        };
        let path = self.key.ok_or_else(missing)?;
        let key = read_key(path.get_ref()).map_err(|problem| ConfigFault::new(path.span(), problem))?;
        // A private key stands in a file as a pre-shared one does.
        Ok(PrivateKey::from_bytes(*key.as_bytes()))
    }
}

fn read_budget(text: Option<&Spanned<String>>) -> Result<Option<u64>, ConfigFault> {
    let Some(text) = text else { return Ok(None) };
    match parse_spanned(text, parse::bytes)? {
        0 => {
            let problem = "without bytes, nothing is measured: leave `measure` out of [mesh] instead";
            Err(ConfigFault::new(text.span(), problem))
        }
        bytes => Ok(Some(bytes)),
    }
}

/// What a coordinator does, and the paths that it has measured.
pub(super) fn mesh_config(
    keys: MeshKeys<'_>,
    mesh: &MeshSection,
    agents: &[AgentSection],
    links: &[LinkSection],
    read_key: KeyReader<'_>,
) -> Result<(MeshConfig, Vec<MonitoredTarget>), ConfigFault> {
    let identity = keys.identity(read_key)?;
    let own_key = identity.public_key();
    let own_agent = own_agent(keys, agents)?;
    let agents = agents.iter().map(|agent| agent.validate(mesh.family, own_key)).collect::<Result<Vec<_>, _>>()?;
    let (mut ids, mut public_keys) = (BTreeSet::new(), BTreeSet::new());
    for (agent, span) in &agents {
        let is_new = ids.insert(&agent.id) && public_keys.insert(agent.public_key);
        if !is_new {
            let text = format!("two agents have the id or the public key of {:?}: give each its own", agent.id);
            return Err(ConfigFault::new(span.clone(), text));
        }
    }
    let agents: Vec<_> = agents.into_iter().map(|(agent, _)| agent).collect();
    if agents.len() < 2 {
        let text = "a mesh has two agents or more: write [[agent]], id and public-key for each";
        return Err(ConfigFault::new(0..0, text));
    }
    let links = links.iter().map(|link| link.validate(&agents)).collect::<Result<Vec<_>, _>>()?;
    let interval = span_within(mesh.interval.as_ref(), Span::from_secs(1), VALID_PROBE_INTERVALS)?;
    let period = mesh.measure.as_ref().map(|text| span_within(Some(text), Span::ZERO, VALID_PERIODS)).transpose()?;
    let listen = match keys.listen {
        Some(text) => parse_spanned(text, |text| listen_address(text, DEFAULT_MESH_PORT))?,
        None => SocketAddr::from(([0u16; 8], DEFAULT_MESH_PORT)),
    };
    let (pairs, unreachable) = pairs(&agents, &links);
    let targets = pairs.iter().map(|pair| target(pair, &agents, interval, period)).collect();
    Ok((MeshConfig { listen, identity, agents, own_agent, links, pairs, unreachable }, targets))
}

/// What an agent does: the coordinator tells it the rest.
pub(super) fn agent_config(
    keys: MeshKeys<'_>,
    archive: PathBuf,
    coordinator: Option<&CoordinatorSection>,
    read_key: KeyReader<'_>,
) -> Result<AgentConfig, ConfigFault> {
    let missing = || {
        ConfigFault::new(0..0, "an agent needs [coordinator], with address = \"HOST\" and public-key = \"64 digits\"")
    };
    let coordinator = coordinator.ok_or_else(missing)?;
    let addresses = read_addresses(&coordinator.address)?;
    if addresses.is_empty() {
        return Err(ConfigFault::new(coordinator.address.span(), "give at least one address"));
    }
    let coordinators = addresses.into_iter().map(|(host, port)| (host, port.unwrap_or(DEFAULT_MESH_PORT)));
    Ok(AgentConfig {
        archive,
        identity: keys.identity(read_key)?,
        coordinators: coordinators.collect(),
        coordinator_key: parse_spanned(&coordinator.public_key, str::parse)?,
        port: keys.port.unwrap_or(DEFAULT_PORT),
        stamp_port: keys.stamp_port.unwrap_or(STAMP_PORT),
        bytes_per_day: keys.bytes_per_day()?,
    })
}

impl CoordinatorSection {
    pub(super) fn span(&self) -> Range<usize> {
        self.address.span()
    }
}

impl AgentSection {
    pub(super) fn span(&self) -> Range<usize> {
        self.id.span()
    }

    fn validate(&self, mesh_family: FamilyName, own_key: PublicKey) -> Result<(MeshAgent, Range<usize>), ConfigFault> {
        let id = self.id.get_ref();
        let is_word = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
        if !is_word {
            let text = format!("{id:?} is no id: use letters, digits, `-`, `.` and `_`");
            return Err(ConfigFault::new(self.id.span(), text));
        }
        let addresses = self.addresses()?;
        let families = match self.family.unwrap_or(mesh_family) {
            FamilyName::Any if addresses.len() > 1 => AddressFamily::ALL.to_vec(),
            FamilyName::Any => Vec::new(),
            FamilyName::Ipv4 => vec![AddressFamily::Ipv4],
            FamilyName::Ipv6 => vec![AddressFamily::Ipv6],
            FamilyName::Both => AddressFamily::ALL.to_vec(),
        };
        let agent = MeshAgent {
            id: id.clone(),
            name: self.name.clone().unwrap_or_else(|| id.clone()),
            public_key: self.key(own_key)?,
            addresses,
            families,
            stamp_port: self.stamp_port.unwrap_or(STAMP_PORT),
        };
        Ok((agent, self.id.span()))
    }
}

/// The agent of this host; others reach it at the ports at which it answers, unless the file says so.
fn own_agent(keys: MeshKeys<'_>, agents: &[AgentSection]) -> Result<Option<OwnAgentConfig>, ConfigFault> {
    let Some((place, agent)) = agents.iter().enumerate().find(|(_, agent)| agent.this_host) else { return Ok(None) };
    let reached = agent.addresses().ok().and_then(|addresses| addresses.first().map(|(_, port)| *port));
    Ok(Some(OwnAgentConfig {
        place,
        port: keys.port.or(reached).unwrap_or(DEFAULT_PORT),
        stamp_port: keys.stamp_port.or(agent.stamp_port).unwrap_or(STAMP_PORT),
        bytes_per_day: keys.bytes_per_day()?,
    }))
}

impl AgentSection {
    /// That of the coordinator's own host is the coordinator's.
    fn key(&self, own_key: PublicKey) -> Result<PublicKey, ConfigFault> {
        match (&self.public_key, self.this_host) {
            (Some(key), false) => parse_spanned(key, str::parse),
            (None, true) => Ok(own_key),
            (Some(key), true) => Err(ConfigFault::new(
                key.span(),
                "the agent of this host has the coordinator's key: leave `public-key` out",
            )),
            (None, false) => {
                let text = "`public-key` is missing: `kumade key public` prints it; or this-host = true for this one";
                Err(ConfigFault::new(self.id.span(), text))
            }
        }
    }

    /// One, or one of either IP version.
    fn addresses(&self) -> Result<Vec<(String, u16)>, ConfigFault> {
        let Some(written) = &self.address else { return Ok(Vec::new()) };
        let read = read_addresses(written)?;
        let addresses: Vec<_> = read.into_iter().map(|(host, port)| (host, port.unwrap_or(DEFAULT_PORT))).collect();
        let families: BTreeSet<_> = addresses.iter().filter_map(|(host, _)| literal_family(host)).collect();
        if addresses.is_empty() || addresses.len() > 1 && families.len() != addresses.len() {
            let text = "give a name or an address, or a list of an IPv4 and an IPv6 address";
            return Err(ConfigFault::new(written.span(), text));
        }
        Ok(addresses)
    }
}

impl LinkSection {
    pub(super) fn span(&self) -> Range<usize> {
        self.name.span()
    }

    fn validate(&self, agents: &[MeshAgent]) -> Result<MeshLink, ConfigFault> {
        let place = |id: &Spanned<String>| {
            let known = agents.iter().position(|agent| agent.id == *id.get_ref());
            let unknown = || {
                let ids: Vec<_> = agents.iter().map(|agent| agent.id.as_str()).collect();
                ConfigFault::new(
                    id.span(),
                    format!("no agent has the id {:?}: there are {}", id.get_ref(), ids.join(", ")),
                )
            };
            known.ok_or_else(unknown)
        };
        let agents = self.agents.iter().map(place).collect::<Result<_, _>>()?;
        let bytes_per_day = read_budget(self.bytes_per_day.as_ref())?;
        Ok(MeshLink { name: self.name.get_ref().clone(), agents, bytes_per_day })
    }
}

/// `HOST` or `HOST:PORT`, once or several times.
fn read_addresses(written: &Spanned<Addresses>) -> Result<Vec<(String, Option<u16>)>, ConfigFault> {
    let texts = match written.get_ref() {
        Addresses::One(text) => std::slice::from_ref(text),
        Addresses::Several(texts) => texts,
    };
    texts.iter().map(|text| host_and_port(text, written.span())).collect()
}

/// `HOST` or `HOST:PORT`.
fn host_and_port(text: &str, span: Range<usize>) -> Result<(String, Option<u16>), ConfigFault> {
    let fault = |problem: String| ConfigFault::new(span.clone(), problem);
    let host = text.trim();
    if let Ok((address, port)) = ScopedAddress::parse_with_port(host) {
        return Ok((address.to_string(), port));
    }
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) => (name, Some(parse::number(port).map_err(|error| fault(error.to_string()))?)),
        None => (host, None),
    };
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    let problem = || fault(format!("{host:?} is no host: write a name or an address, perhaps with a port"));
    is_name.then(|| (name.to_owned(), port)).ok_or_else(problem)
}

#[cfg(test)]
mod tests {
    use crate::config::{MonitorConfig, RoleConfig};
    use kumade_units::Span;
    use kumade_wire::PresharedKey;
    use std::path::Path;

    fn read(text: &str) -> Result<RoleConfig, String> {
        let read_key = |path: &Path| match path.to_str() {
            Some("own.key") => Ok(PresharedKey::from_bytes([7; 32])),
            _ => Err(format!("cannot read the key file {}", path.display())),
        };
        RoleConfig::from_toml(text, "m.toml", &read_key).map_err(|error| error.to_string())
    }

    const COORDINATOR: &str = "[monitor]\nrole = \"coordinator\"\nkey = \"own.key\"\n[mesh]\nmeasure = \"10min\"\n";

    fn agent(id: &str, more: &str) -> String {
        let key = format!("{:02x}", id.len()).repeat(32);
        format!("[[agent]]\nid = \"{id}\"\npublic-key = \"{key}\"\n{more}")
    }

    fn mesh(text: &str) -> MonitorConfig {
        match read(text).unwrap() {
            RoleConfig::Monitor(config) => *config,
            RoleConfig::Agent(agent) => panic!("{agent:?}"),
        }
    }

    #[test]
    fn each_two_agents_are_a_pair_if_one_can_connect_to_the_other() {
        let text = [
            COORDINATOR,
            &agent("a", "address = \"192.0.2.1:7300\"\n"),
            &agent("bb", "name = \"Hidden\"\n"),
            &agent("ccc", ""),
            "[[link]]\nname = \"uplink\"\nagents = [\"bb\", \"ccc\"]\n",
        ]
        .concat();
        let config = mesh(&text);
        let ids: Vec<_> = config.targets.iter().map(|target| (target.id.as_str(), target.name.as_str())).collect();
        assert_eq!(ids, [("bb:a", "Hidden → a"), ("ccc:a", "ccc → a")]);
        let schedule = config.targets[0].measurement.as_ref().unwrap();
        assert_eq!((config.targets[0].host.as_str(), schedule.port), ("192.0.2.1", 7300));
        let mesh = config.mesh.as_ref().unwrap();
        assert!(mesh.pairs.iter().all(|pair| pair.links == [0]));
        assert_eq!(mesh.unreachable.len(), 1);
        assert!(mesh.unreachable[0].0 == "bb:ccc" && mesh.unreachable[0].1.contains("neither end accepts"));
        let load = config.mesh_load().unwrap();
        let names: Vec<_> = load.resources.iter().map(|(name, _)| name.as_str()).collect();
        assert!(names.contains(&"host a") && names.contains(&"link uplink (up)"), "{names:?}");
        // Two runs of 20 s in turn, and a reserve of a tenth.
        assert!(load.shortest_period.is_some_and(|period| period > Span::from_secs(40)));
        assert_eq!(config.check_load(), Ok(()));
    }

    #[test]
    fn a_pair_is_measured_over_each_version_that_both_have_and_the_other_one_is_named() {
        let ids = |agents: &[String], mesh_family: &str| {
            let config = mesh(&format!("{COORDINATOR}{mesh_family}{}", agents.concat()));
            let paths: Vec<_> = config.targets.iter().map(|one| (one.id.clone(), one.host.clone())).collect();
            let unreachable = config.mesh.unwrap().unreachable;
            (paths, unreachable.into_iter().map(|(pair, reason)| format!("{pair}: {reason}")).collect::<Vec<_>>())
        };
        let path = |id: &str, host: &str| (id.to_owned(), host.to_owned());
        let both = agent("a", "address = [\"192.0.2.1\", \"2001:db8::1\"]\n");
        let (paths, unreachable) = ids(&[both.clone(), agent("bb", "family = \"both\"\n")], "");
        assert_eq!(paths, [path("bb:a (IPv4)", "192.0.2.1"), path("bb:a (IPv6)", "2001:db8::1")]);
        assert!(unreachable.is_empty(), "{unreachable:?}");
        // One that has only the one, whether it says so or shows it.
        for more in ["family = \"ipv4\"\n", "address = \"192.0.2.9\"\n"] {
            let (paths, unreachable) = ids(&[both.clone(), agent("bb", more)], "");
            assert!(paths.len() == 1 && paths[0].0.ends_with(" (IPv4)"), "{paths:?}");
            assert_eq!(unreachable.len(), 1);
            assert!(unreachable[0].starts_with("a:bb (IPv6): the second end has no IPv6 address"), "{unreachable:?}");
        }
        // Of one of which nothing is known, there is one path, as before.
        let (paths, _) = ids(&[both.clone(), agent("bb", "")], "");
        assert_eq!(paths, [path("bb:a", "192.0.2.1")]);
        let named = [agent("a", "address = \"a.example\"\n"), agent("bb", "")];
        let (paths, _) = ids(&named, "family = \"both\"\n");
        assert_eq!(paths, [path("bb:a (IPv4)", "a.example"), path("bb:a (IPv6)", "a.example")]);
        let (paths, _) = ids(&named, "family = \"ipv6\"\n");
        assert_eq!(paths, [path("bb:a", "a.example")]);
    }

    #[test]
    fn who_begins_does_not_depend_on_who_else_is_there() {
        let agents = ["a", "bb", "ccc", "dddd", "eeeee"].map(|id| agent(id, &format!("address = \"{id}.example\"\n")));
        let ids = |agents: &[String]| -> Vec<String> {
            mesh(&format!("{COORDINATOR}{}", agents.concat())).targets.into_iter().map(|target| target.id).collect()
        };
        let all = ids(&agents);
        assert_eq!(all.len(), 10);
        let mut reversed = agents[1..].to_vec();
        reversed.reverse();
        assert!(ids(&reversed).iter().all(|id| all.contains(id)));
    }

    #[test]
    fn an_agent_takes_a_few_lines() {
        let key = "ab".repeat(32);
        let text = format!(
            "[monitor]\nrole = \"agent\"\nkey = \"own.key\"\n[coordinator]\naddress = \"mesh.example\"\npublic-key = \"{key}\"\n"
        );
        let RoleConfig::Agent(agent) = read(&text).unwrap() else { panic!() };
        assert_eq!((&agent.coordinators[..], agent.port), (&[("mesh.example".to_owned(), 7281)][..], 7272));
        let several = text.replace("\"mesh.example\"", "[\"one.example\", \"192.0.2.1:7300\"]");
        let RoleConfig::Agent(agent) = read(&several).unwrap() else { panic!() };
        let coordinators = [("one.example".to_owned(), 7281), ("192.0.2.1".to_owned(), 7300)];
        assert_eq!(agent.coordinators, coordinators);
        let refused = MonitorConfig::from_toml(&text, "m.toml", &|_| Err(String::new())).unwrap_err().to_string();
        assert!(refused.contains("an agent has no archive"), "{refused}");
    }

    #[test]
    fn faults_of_a_mesh_name_their_line_and_what_to_write() {
        let two = [agent("a", "address = \"a.example\"\n"), agent("bb", "")].concat();
        for (text, expected) in [
            (format!("{COORDINATOR}{}", agent("a", "")), "a mesh has two agents or more"),
            (
                format!("{COORDINATOR}{two}{}", agent("a", "")),
                "m.toml:14: two agents have the id or the public key of \"a\"",
            ),
            (
                format!("{COORDINATOR}{two}{}", agent("ccc", "address = [\"192.0.2.1\", \"192.0.2.2\"]\n")),
                "m.toml:16: give a name or an address, or a list of an IPv4 and an IPv6 address",
            ),
            (format!("{COORDINATOR}{two}{}", agent("a b", "")), "m.toml:14: \"a b\" is no id"),
            (
                format!("{COORDINATOR}{two}[[target]]\nhost = \"a.example\"\n"),
                "m.toml:14: [[target]] goes with role = \"single\"",
            ),
            (
                format!("{COORDINATOR}{two}[[link]]\nname = \"x\"\nagents = [\"c\"]\n"),
                "no agent has the id \"c\": there are a, bb",
            ),
            (two.clone(), "m.toml:2: [[agent]] goes with role = \"coordinator\""),
            (format!("[monitor]\nrole = \"coordinator\"\n{two}"), "`key` in [monitor] is missing"),
            (
                format!("[monitor]\nrole = \"coordinator\"\nkey = \"no.key\"\n{two}"),
                "m.toml:3: cannot read the key file no.key",
            ),
            ("[monitor]\nrole = \"agent\"\nkey = \"own.key\"\n".to_owned(), "an agent needs [coordinator]"),
            (format!("{COORDINATOR}[[agent]]\nid = \"a\"\npublic-key = \"12\"\n"), "m.toml:8: a public key is 64"),
        ] {
            let error = read(&text).expect_err(&text);
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
