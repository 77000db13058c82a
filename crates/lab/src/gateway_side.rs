use anyhow::Context;
use kumade_gateway::GatewayConfig;
use kumade_net::namespace::Namespace;
use kumade_netns_testbed::Sites;
use kumade_noise_session::PrivateKey;
use kumade_units::Span;

/// One of the two gateways between sites.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GatewaySide {
    Left,
    Right,
}

/// Gateways that have not met after this never will.
pub(crate) const MEETING_TIMEOUT: Span = Span::from_secs(20);

impl GatewaySide {
    /// Where it runs.
    pub(crate) fn gateway_namespace(self, sites: &Sites) -> &Namespace {
        match self {
            GatewaySide::Left => &sites.left,
            GatewaySide::Right => &sites.right,
        }
    }

    /// As addresses of the sites are numbered.
    pub(crate) fn address_number(self) -> u8 {
        match self {
            GatewaySide::Left => 1,
            GatewaySide::Right => 2,
        }
    }

    pub(crate) fn other_side(self) -> Self {
        match self {
            GatewaySide::Left => GatewaySide::Right,
            GatewaySide::Right => GatewaySide::Left,
        }
    }

    /// By which the other one knows it.
    pub(crate) fn private_key(self) -> PrivateKey {
        PrivateKey::from_bytes([self.address_number(); 32])
    }
}

/// A gateway's configuration, between sites with so many paths.
pub(crate) fn read_config(text: &str, paths: usize) -> anyhow::Result<GatewayConfig> {
    let interfaces: Vec<_> = (0..paths).map(Sites::path_interface).chain([Sites::LAN.to_owned()]).collect();
    GatewayConfig::from_toml(text, "the lab's configuration", &interfaces).context("configure a gateway")
}
