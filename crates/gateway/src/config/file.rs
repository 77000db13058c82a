use super::types::Plane;
use serde::Deserialize;
use toml::Spanned;

/// A configuration file as it is written, before it is validated.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ConfigFile {
    /// The gateway itself.
    pub(super) gateway: GatewaySection,
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
    /// How packets go from site to site.
    #[serde(default)]
    pub(super) plane: Plane,
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
    #[serde(default)]
    pub(super) weight: Option<u32>,
    /// What it carries, such as `8mbit`: bounds the batches of packets that it is given at once.
    #[serde(default)]
    pub(super) rate: Option<Spanned<String>>,
}

/// `[[remote]]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RemoteSection {
    /// What messages call it.
    pub(super) name: Spanned<String>,
    /// The addresses of its hosts.
    pub(super) networks: Vec<Spanned<String>>,
    /// Names of the paths that lead there; all, where this is left out.
    #[serde(default)]
    pub(super) paths: Option<Vec<Spanned<String>>>,
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
    #[serde(default)]
    pub(super) path: Option<Spanned<String>>,
}
