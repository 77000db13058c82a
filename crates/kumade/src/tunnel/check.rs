//! `kumade tunnel check`: whether a tunnel could start as a file says.

use super::source::SettingsSource;
use crate::output::{StandardOutput, note};
use crate::usage::usage_error;
use anyhow::anyhow;
use kumade_tunnel::{TunnelConfig, TunnelEnd};
use std::io::Write;
use std::process::ExitCode;

/// Runs the command. Nothing of the system is changed.
///
/// # Errors
/// A key cannot be read, the far end's name is not found, or this host refuses something.
pub fn run(source: &SettingsSource) -> anyhow::Result<ExitCode> {
    let config = match source.load()? {
        Ok(config) => config,
        Err(error) => return Ok(usage_error(&error)),
    };
    config.check_host().map_err(|refusal| anyhow!(source.locate(refusal.into())))?;
    print_plan(&config)?;
    config.host_warnings().iter().for_each(|warning| note!("warning: {warning}"));
    Ok(ExitCode::SUCCESS)
}

fn print_plan(config: &TunnelConfig) -> anyhow::Result<()> {
    let mut output = StandardOutput;
    writeln!(output, "# public key of this end: {}", config.identity.public_key())?;
    match &config.end {
        TunnelEnd::Listen(address) => writeln!(output, "# waits at {address} ({})", config.transport.name())?,
        TunnelEnd::Connect(host) => writeln!(output, "# connects to {} ({})", host.address(), config.transport.name())?,
    }
    for peer in &config.peers {
        let networks: Vec<_> = peer.networks.iter().map(ToString::to_string).collect();
        writeln!(output, "# peer {}: {}", peer.label(), networks.join(", "))?;
    }
    for forward in &config.relayed_connections.forwards {
        writeln!(output, "# forwards {forward}")?;
    }
    for allowed in &config.relayed_connections.allowed {
        writeln!(output, "# allows {allowed}")?;
    }
    if !config.has_device() {
        return Ok(());
    }
    let routes = config.network_routes();
    for address in &config.addresses {
        writeln!(output, "ip address add {address} dev {}", config.device)?;
    }
    for network in config.peers.iter().flat_map(|peer| &peer.networks) {
        let is_elsewhere = routes.iter().any(|route| route.network == *network)
            || config.addresses.iter().any(|address| address.trunc() == *network);
        if !is_elsewhere {
            writeln!(output, "ip route add {network} dev {}", config.device)?;
        }
    }
    routes.iter().try_for_each(|route| writeln!(output, "{route}"))?;
    Ok(())
}
