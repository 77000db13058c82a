use crate::host_settings;
use kumade_netns_testbed::Sites;
use serde::Deserialize;

/// How TCP repairs losses, at the hosts as at the gateways.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TcpStack {
    /// As the kernel does it today: SACK, RACK, tail loss probes, DSACK.
    #[default]
    #[serde(rename = "today")]
    KernelDefault,
    /// Without all of that: NewReno's fast retransmission and the timeout, as the systems of the papers had them at least.
    #[serde(rename = "old-style")]
    NewReno,
}

const NEW_RENO_SYSCTLS: [(&str, &str); 5] =
    [("tcp_sack", "0"), ("tcp_dsack", "0"), ("tcp_recovery", "0"), ("tcp_early_retrans", "0"), ("tcp_frto", "0")];

impl TcpStack {
    /// Of connections that are opened from now on.
    pub(super) fn apply_to_sites(self, sites: &Sites) -> anyhow::Result<()> {
        if self == TcpStack::KernelDefault {
            return Ok(());
        }
        let settings = NEW_RENO_SYSCTLS.map(|(name, value)| (name, value.to_owned()));
        let namespaces = [&sites.a.namespace, &sites.left, &sites.right, &sites.b.namespace];
        namespaces.into_iter().try_for_each(|namespace| host_settings::write_sysctls(namespace, &settings))
    }
}
