use crate::access::AccessConfig;
use crate::alerts::AlertSettings;
use crate::light::{ProbeKind, ReplyLimits};
use crate::remote_write::RemoteWriteConfig;
use kumade_archive::{PostgresAddress, Retention};
use kumade_client::{HostClaimConfig, IfHeld, MeasureConfig};
use kumade_net::interface::Family;
use kumade_noise_session::{PrivateKey, PublicKey};
use kumade_planner::AddressFamily;
use kumade_units::Span;
use kumade_wire::PresharedKey;
use std::net::SocketAddr;
use std::path::PathBuf;

/// What a monitor does.
#[derive(Debug, Clone)]
pub struct MonitorConfig {
    /// What this host is called on the page.
    pub name: String,
    /// The directory of its archive, if it is in a file.
    pub archive: PathBuf,
    /// The database that has its archive instead, shared by several hosts of which one leads.
    pub database: Option<PostgresAddress>,
    /// Where its page is served.
    pub page: SocketAddr,
    /// Where its metrics are served, if they are.
    pub prometheus: Option<SocketAddr>,
    /// Make all periods longer where the measurements would not fit into them.
    pub stretch: bool,
    /// How long what is kept.
    pub retention: Retention,
    /// Where figures are sent to, if they are.
    pub remote_write: Option<RemoteWriteConfig>,
    /// Who may see it.
    pub access: AccessConfig,
    /// How the page is encrypted, if it is.
    pub tls: Option<TlsFiles>,
    /// At least one, with different ids.
    pub targets: Vec<MonitoredTarget>,
    /// Whose paths these are; none where they are this host's own.
    pub mesh: Option<MeshConfig>,
    /// What is alerted on, and who is told.
    pub alerts: AlertSettings,
}

/// A mesh of agents, as its coordinator knows it.
#[derive(Debug, Clone)]
pub struct MeshConfig {
    /// Where agents connect.
    pub listen: SocketAddr,
    /// By which agents know this coordinator.
    pub identity: PrivateKey,
    /// At least two, with different ids and keys.
    pub agents: Vec<MeshAgent>,
    /// The one that is this host, and is measured by this very process.
    pub own_agent: Option<OwnAgentConfig>,
    /// Links that several agents share.
    pub links: Vec<MeshLink>,
    /// The pairs that are measured: of each [target](MonitorConfig::targets), in the same order.
    pub pairs: Vec<MeshPair>,
    /// The pairs that cannot be measured, as `ID:ID`, and why.
    pub unreachable: Vec<(String, String)>,
}

impl MeshConfig {
    /// Whether the same hosts and links are in it, with the same keys.
    pub(crate) fn is_same(&self, other: &MeshConfig) -> bool {
        (self.listen, self.identity.public_key()) == (other.listen, other.identity.public_key())
            && (&self.agents, &self.links, self.own_agent) == (&other.agents, &other.links, other.own_agent)
    }
}

/// An agent of a mesh.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeshAgent {
    /// By which its history is found.
    pub id: String,
    /// What it is called on the page.
    pub name: String,
    /// By which it is known.
    pub public_key: PublicKey,
    /// Where others reach it, for measurements: a name, or an address of either IP version; empty behind address translation.
    pub addresses: Vec<(String, u16)>,
    /// Over which versions of IP it is measured, each by itself; empty for whichever a path has.
    pub families: Vec<AddressFamily>,
    /// UDP port of its STAMP reflector there.
    pub stamp_port: u16,
}

/// The agent of the coordinator's own host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnAgentConfig {
    /// Its place among the agents.
    pub place: usize,
    /// Port at which measurements are answered, TCP and UDP.
    pub port: u16,
    /// UDP port of the STAMP reflector.
    pub stamp_port: u16,
    /// What measurements may carry at it in 24 hours; none for no limit.
    pub bytes_per_day: Option<u64>,
}

/// A link that is shared by the paths between those behind it and all others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeshLink {
    /// What it is called.
    pub name: String,
    /// Places of the agents behind it.
    pub agents: Vec<usize>,
    /// What measurements may carry over it in 24 hours; none for no limit.
    pub bytes_per_day: Option<u64>,
}

/// Two agents between which is measured, in both directions.
#[derive(Debug, Clone)]
pub struct MeshPair {
    /// Place of the agent that begins.
    pub source: usize,
    /// Place of the one that answers.
    pub target: usize,
    /// The version of IP; none for whichever there is.
    pub family: Option<AddressFamily>,
    /// Whether there could be another path between them, over the other version.
    pub is_of_two: bool,
    /// Places of the links between them.
    pub links: Vec<usize>,
}

/// What an agent is told by its own file.
#[derive(Debug, Clone)]
pub struct AgentConfig {
    /// The directory of what it has not delivered yet.
    pub archive: PathBuf,
    /// By which the coordinator knows it.
    pub identity: PrivateKey,
    /// Where the coordinator may be, by name or address, with the port: where several hosts stand by for each other, the one that leads.
    pub coordinators: Vec<(String, u16)>,
    /// By which it is known.
    pub coordinator_key: PublicKey,
    /// Port at which measurements are answered, TCP and UDP.
    pub port: u16,
    /// UDP port of the STAMP reflector.
    pub stamp_port: u16,
    /// What measurements may carry at this host in 24 hours; none for no limit.
    pub bytes_per_day: Option<u64>,
}

/// Files in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, and those between it and the root.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// A host to which the path is monitored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MonitoredTarget {
    /// By which its history is found, whatever it is called.
    pub id: String,
    /// What it is called on the page.
    pub name: String,
    /// Its name or address.
    pub host: String,
    /// Which of its addresses are used; none for any.
    pub family: Option<Family>,
    /// Small packets, all day.
    pub light: LightProbes,
    /// Full measurements, where it runs `kumade serve`.
    pub measurement: Option<MeasurementSchedule>,
}

impl MonitoredTarget {
    /// How it is measured, within this time, and if others measure at this host as long as half of it; none where it is not.
    pub(crate) fn measure_config(&self, within: Span, if_held: IfHeld) -> Option<MeasureConfig> {
        let schedule = self.measurement.as_ref()?;
        let mut config = MeasureConfig::new(self.host.clone(), schedule.port);
        config.family = match self.family {
            None => kumade_client::Family::Any,
            Some(Family::V4) => kumade_client::Family::V4,
            Some(Family::V6) => kumade_client::Family::V6,
        };
        config.key = schedule.key.clone();
        config.max_server_wait = MAX_SERVER_WAIT;
        config.host_claim = Some(HostClaimConfig { max_wait: within / 2, if_held });
        config.deadline = Some(within);
        Some(config)
    }
}

/// Other clients of the server may be measured first: a measurement that waits for longer has lost its slot.
const MAX_SERVER_WAIT: Span = Span::from_secs(10);

/// How a target is probed all day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LightProbes {
    /// What is sent.
    pub kind: ProbeKind,
    /// UDP port of the STAMP reflector.
    pub port: u16,
    /// Mean interval between probes.
    pub interval: Span,
    /// How long replies are waited for.
    pub limits: ReplyLimits,
}

/// When and how available bandwidth, capacity and delay are measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeasurementSchedule {
    /// Port of `kumade serve` there.
    pub port: u16,
    /// From one measurement to the next.
    pub period: Span,
    /// The key that is shared with the server.
    pub key: Option<PresharedKey>,
}
