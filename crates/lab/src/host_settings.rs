//! What the hosts of all experiments with the kernel's TCP have in common.

use anyhow::Context;
use kumade_net::namespace::Namespace;
use kumade_net::sysctl;
use kumade_netns_testbed::Host;

/// Receive windows as in the papers, enough for 128 ms at 1 Gbit/s.
pub(crate) const WINDOW_BYTES: u64 = 32 << 20;

/// Gives the host's connections buffers of at most so many bytes in either direction, and no metrics of earlier connections.
pub(crate) fn set_tcp_buffers(host: &Host, buffer_bytes: u64) -> anyhow::Result<()> {
    let first = buffer_bytes.min(131_072);
    let settings = [
        ("tcp_rmem", format!("4096 {first} {buffer_bytes}")),
        ("tcp_wmem", format!("4096 {first} {buffer_bytes}")),
        ("tcp_no_metrics_save", "1".to_owned()),
    ];
    write_sysctls(&host.namespace, &settings)
}

/// Sets these below `net.ipv4`.
pub(crate) fn write_sysctls(inside: &Namespace, settings: &[(&str, String)]) -> anyhow::Result<()> {
    let write = || {
        settings.iter().try_for_each(|(name, value)| {
            let name = format!("net.ipv4.{name}");
            sysctl::write(&name, value)
                .with_context(|| format!("set {name}; the lab needs it writable in its namespaces"))
        })
    };
    inside.run(write)?
}
