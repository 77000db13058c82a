use kumade_daemon::NumberOrText;
use serde::Deserialize;
use toml::Spanned;

/// A configuration file as it is written, before it is validated.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ConfigFile {
    /// The gateway itself.
    pub(super) gateway: GatewaySection,
    /// What the bonded plane needs.
    pub(super) bonded: Option<BondedSection>,
    /// Measurements of the paths.
    pub(super) measure: Option<MeasureSection>,
    /// What NAT sessions of the direct plane need.
    pub(super) sessions: Option<SessionsSection>,
    /// Networks behind this gateway.
    #[serde(default)]
    pub(super) local: Vec<LocalSection>,
    /// Ways to the remote sites.
    #[serde(default)]
    pub(super) path: Vec<PathSection>,
    /// Networks that are reached over several paths.
    #[serde(default)]
    pub(super) remote: Vec<RemoteSection>,
    /// Addresses that are others on a path.
    #[serde(default)]
    pub(super) translation: Vec<TranslationSection>,
}

/// `[gateway]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GatewaySection {
    /// Names it in messages and in `kumade gateway status`.
    pub(super) name: Spanned<String>,
    /// Where Prometheus fetches metrics: `9273`, or with an address.
    pub(super) prometheus: Option<Spanned<String>>,
    /// What is run when a remote gateway or a path changes.
    #[serde(alias = "on-event")]
    pub(super) on_event: Option<String>,
    /// How packets go from site to site.
    #[serde(default)]
    pub(super) plane: PlaneName,
    /// Where the paths' weights, or what the bonded plane believes of their rates, come from.
    #[serde(default)]
    pub(super) weights: WeightsName,
}

/// Where weights come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum WeightsName {
    /// From this file.
    #[default]
    Fixed,
    /// From measurements of the paths; from this file until there are any.
    Measured,
}

/// `[measure]`
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct MeasureSection {
    /// The file of a key that both sites have: only who has it is answered.
    pub(super) key: Option<String>,
    /// Whether this gateway answers the measurements of others.
    pub(super) answer: bool,
    /// Where measurements are answered, here and at remote sites: TCP and UDP.
    pub(super) port: Option<Spanned<u16>>,
}

/// How packets go from site to site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum PlaneName {
    /// As they are, but for addresses; forwarded by the kernel.
    #[default]
    Direct,
    /// Encrypted, over several paths at once, and in order.
    Bonded,
}

/// `[bonded]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct BondedSection {
    /// The file of this gateway's private key.
    pub(super) key: Spanned<String>,
    /// UDP port on all paths.
    pub(super) port: Option<Spanned<u16>>,
    /// How many threads carry packets; each further one has the next port.
    pub(super) threads: Option<Spanned<usize>>,
    /// Name of the TUN device.
    pub(super) device: Option<String>,
    /// Longest packet that passes the tunnel, in bytes; what all paths pass, where this is left out.
    pub(super) mtu: Option<Spanned<u16>>,
    /// Addresses of the TUN device.
    #[serde(default)]
    pub(super) addresses: Vec<Spanned<String>>,
    /// Which path takes the next packet.
    #[serde(default)]
    pub(super) choice: ChoiceName,
    /// The DSCP of packets between the gateways: `"inherit"`, or one for all.
    pub(super) dscp: Option<Spanned<NumberOrText>>,
    /// Flows that prefer speed to order, by their DSCP.
    #[serde(default)]
    pub(super) unordered_dscps: Vec<Spanned<u8>>,
    /// Flows that prefer speed to order, by either port.
    #[serde(default)]
    pub(super) unordered_ports: Vec<u16>,
}

/// `[sessions]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct SessionsSection {
    /// The file of this gateway's private key.
    pub(super) key: Spanned<String>,
    /// UDP port on all paths.
    pub(super) port: Option<Spanned<u16>>,
    /// A session ends when no packet of its flow has passed for so long, such as `180s`.
    pub(super) idle: Option<Spanned<String>>,
    /// How many sessions there are with one remote gateway at a time, in each direction.
    pub(super) max_sessions: Option<Spanned<usize>>,
}

/// Which path takes the next packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ChoiceName {
    /// In the ratio of the paths' weights.
    Ratio,
    /// As much as each path carries.
    Weighted,
    /// Where a packet arrives first; long flows on all paths that help.
    #[default]
    EarliestArrival,
    /// A copy on each path.
    Redundant,
    /// Each flow by one path.
    Pinned,
}

/// `[[local]]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LocalSection {
    /// Where packets of local hosts arrive.
    pub(super) interface: Spanned<String>,
    /// The hosts' addresses. All that arrive there, where this is left out.
    #[serde(default)]
    pub(super) networks: Vec<Spanned<String>>,
}

/// `[[path]]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PathSection {
    /// What other parts call it.
    pub(super) name: Spanned<String>,
    /// Where its packets leave and arrive.
    pub(super) interface: Spanned<String>,
    /// The next hop: an address of each IP version. None on a point-to-point link.
    #[serde(default)]
    pub(super) gateways: Vec<Spanned<String>>,
    /// Its part of the packets: weights 16 and 3 divide them 16:3.
    pub(super) weight: Option<u32>,
    /// What it carries, such as `8mbit`: bounds the batches of packets that it is given at once.
    pub(super) rate: Option<Spanned<String>>,
}

/// `[[remote]]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RemoteSection {
    /// What messages call it.
    pub(super) name: Spanned<String>,
    /// The addresses of its hosts.
    pub(super) networks: Vec<Spanned<String>>,
    /// Names of the paths that lead there; all, where this is left out.
    pub(super) paths: Option<Vec<Spanned<String>>>,
    /// Where measurements are answered, on each path, perhaps with a port.
    #[serde(default)]
    pub(super) measure: Vec<Spanned<String>>,
    /// In the direct plane, whether only flows are divided for which the remote gateway has agreed to a NAT session.
    pub(super) sessions: Option<Spanned<bool>>,
    /// In the bonded plane and with sessions, the public key of the remote gateway.
    pub(super) public_key: Option<Spanned<String>>,
    /// The file of a second key that both gateways have.
    pub(super) preshared_key: Option<String>,
    /// The remote gateway's address on each path, perhaps with a port; empty where it is not known.
    #[serde(default)]
    pub(super) addresses: Vec<Spanned<String>>,
}

/// `[[translation]]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TranslationSection {
    /// Addresses as hosts have and see them, here or at a remote site.
    pub(super) network: Spanned<String>,
    /// What they are on the way.
    pub(super) alias: Spanned<String>,
    /// On which path packets leave with the alias. Without it, an alias is only taken off packets that arrive.
    pub(super) path: Option<Spanned<String>>,
}
