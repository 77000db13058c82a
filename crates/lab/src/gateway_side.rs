use anyhow::Context;
use kumade_gateway::GatewayConfig;
use kumade_net::namespace::Namespace;
use kumade_netns_testbed::Sites;
use kumade_noise_session::PrivateKey;
use kumade_units::Span;

/// One of the two gateways between sites.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
}

/// Gateways that have not met after this never will.
pub(crate) const MEETING: Span = Span::from_secs(20);

impl Side {
    /// Where it runs.
    pub(crate) fn gateway(self, sites: &Sites) -> &Namespace {
        match self {
            Side::Left => &sites.left,
            Side::Right => &sites.right,
        }
    }

    /// As addresses of the sites are numbered.
    pub(crate) fn number(self) -> u8 {
        match self {
            Side::Left => 1,
            Side::Right => 2,
        }
    }

    pub(crate) fn far(self) -> Self {
        match self {
            Side::Left => Side::Right,
            Side::Right => Side::Left,
        }
    }

    /// By which the other one knows it.
    pub(crate) fn key(self) -> PrivateKey {
        PrivateKey::from_bytes([self.number(); 32])
    }
}

/// A gateway's configuration, between sites with so many paths.
pub(crate) fn read_config(text: &str, paths: usize) -> anyhow::Result<GatewayConfig> {
    let interfaces: Vec<_> = (0..paths).map(Sites::path).chain([Sites::LAN.to_owned()]).collect();
    GatewayConfig::from_toml(text, "the lab's configuration", &interfaces).context("configure a gateway")
}
