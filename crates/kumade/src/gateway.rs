//! `kumade gateway`: shares the traffic of a site over several paths.

mod config_file;
mod keys;
mod live;
mod run;
mod services;
mod status;

use crate::output::{StandardOutput, note};
use crate::running::GATEWAY;
use crate::usage::usage_error;
use clap::{Args, Subcommand};
use config_file::read_config;
use kumade_gateway::GatewayConfig;
use kumade_gateway::config::{PathOption, Plane};
use kumade_gateway::direct::{DirectPlan, check_forwarding};
use kumade_net::interface;
use kumade_overlay_io::OuterTransportConfig;
use serde_json::{Value, json};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Share the traffic of a site over several paths, until Ctrl-C
///
/// Without --key, packets leave as they are: the kernel forwards them; this program installs the rules and routes for it and
/// removes them at the end. With --key, they travel encrypted to another gateway, and in order. Both need root or
/// CAP_NET_ADMIN, and a host that forwards (`sysctl -w net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1`).
///
/// Example: kumade gateway --local eth0 --path eth1:16@192.0.2.1 --path eth2:3@198.51.100.1
///
/// Example: kumade gateway --key gateway.key --path eth1 --path eth2 --remote 10.2.0.0/24 --peer PUBLIC-KEY --peer-address
/// 203.0.113.1 --peer-address 203.0.113.129
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct GatewayArgs {
    #[command(subcommand)]
    command: Option<GatewayCommand>,
    /// Configuration file (TOML): sites, paths, address translation. SIGHUP has it read again, and what has changed in it take effect
    /// while packets pass
    #[arg(long, value_name = "FILE", required_unless_present = "paths", conflicts_with_all = ["paths", "name", "prometheus"])]
    config: Option<PathBuf>,
    /// Interface of local hosts; packets that arrive there are divided. Repeatable
    #[arg(long = "local", value_name = "INTERFACE", requires = "paths", conflicts_with = "key")]
    locals: Vec<String>,
    /// Path: its interface, its weight (default 1) and its next hops; packets are divided in the ratio of the weights.
    /// With --key, its interface alone. Repeatable
    #[arg(long = "path", value_name = "INTERFACE[:WEIGHT][@GATEWAY[,GATEWAY]]")]
    paths: Vec<PathOption>,
    /// Network that is reached over the paths. Repeatable [default without --key: all other addresses]
    #[arg(long = "remote", value_name = "NETWORK", requires = "paths")]
    remotes: Vec<String>,
    /// File of this gateway's private key, from `kumade key private`: packets travel encrypted
    #[arg(long, value_name = "FILE", requires_all = ["paths", "remotes", "peer"])]
    key: Option<String>,
    /// Public key of the remote gateway, from `kumade key public` there
    #[arg(long, value_name = "KEY", requires = "key")]
    peer: Option<String>,
    /// Address of the remote gateway on the first path, then on the second, …; left out, that gateway has to write first.
    /// Repeatable
    #[arg(long = "peer-address", value_name = "ADDRESS[:PORT]", requires = "key")]
    peer_addresses: Vec<String>,
    /// File of a second key that both gateways have, from `kumade key preshared`
    #[arg(long, value_name = "FILE", requires = "key")]
    preshared_key: Option<String>,
    /// How many threads carry packets; each further one has the next port. For gateways that carry more than one thread does
    #[arg(long, value_name = "COUNT", requires = "key", value_parser = clap::value_parser!(u8).range(1..=kumade_overlay_io::MAX_THREADS as i64))]
    threads: Option<u8>,
    /// Name of the gateway, for `kumade gateway status`
    #[arg(long, default_value = GATEWAY.usual_name)]
    name: String,
    /// Serve Prometheus metrics on this port; without an address, on the loopback interface only
    #[arg(long, value_name = "[ADDRESS:]PORT")]
    prometheus: Option<String>,
    /// Run this command, by the shell, when the remote gateway is connected or lost or has restarted, or a path fails or is back. It
    /// finds what has happened in KUMADE_EVENT (peer-connected, peer-lost, peer-restarted, path-failed, path-returned), KUMADE_PEER and
    /// KUMADE_PATH, runs with the rights that the gateway was started with, one at a time, and is ended after 30 s
    #[arg(long, value_name = "COMMAND", requires = "paths")]
    on_event: Option<String>,
    /// Keep capabilities, writes and system calls that the gateway does not need
    #[arg(long)]
    keep_privileges: bool,
}

#[derive(Debug, Subcommand)]
enum GatewayCommand {
    /// Validate a configuration file against this host, and print the routes and rules it comes to, as ip and nft would list
    /// them
    ///
    /// Exit status: 0 if the gateway can start so, 1 if the host does not forward packets, 2 if the file is invalid.
    Check {
        /// Configuration file
        file: PathBuf,
    },
    Status(status::StatusArgs),
}

/// Runs the command.
///
/// # Errors
/// If the file cannot be read, the system refuses a rule or route, or no gateway can be asked. An invalid configuration gives
/// exit status 2.
pub fn run(args: &GatewayArgs) -> anyhow::Result<ExitCode> {
    let config = match (&args.command, &args.config) {
        (Some(GatewayCommand::Status(args)), _) => return status::run(args),
        (Some(GatewayCommand::Check { file }), _) | (None, Some(file)) => read_config(file, &interface::names()?)?,
        (None, None) => GatewayConfig::from_options(&args.to_toml()?, &interface::names()?),
    };
    match (config, &args.command) {
        (Err(error), _) => Ok(usage_error(&error)),
        (Ok(config), Some(_)) => check_config(&config),
        (Ok(config), None) => run::run(config, args.config.as_deref(), args.keep_privileges),
    }
}

fn check_config(config: &GatewayConfig) -> anyhow::Result<ExitCode> {
    let mut output = StandardOutput;
    for remote in &config.remotes {
        let networks: Vec<_> = remote.networks.iter().map(ToString::to_string).collect();
        let paths: Vec<_> = remote.paths.iter().map(|&path| &config.paths[path]).collect();
        let paths: Vec<_> = paths.iter().map(|path| format!("{} {}", path.name, path.weight)).collect();
        writeln!(output, "# {}: {} by {}", remote.name, networks.join(", "), paths.join(" : "))?;
    }
    for remote in config.remotes.iter().filter(|remote| !remote.measurement_addresses.is_empty()) {
        let targets: Vec<_> = remote.measurement_addresses.iter().map(ToString::to_string).collect();
        writeln!(output, "# {}: weights are measured, to {}", remote.name, targets.join(", "))?;
    }
    config.check_next_hops()?;
    keys::measurement_key(config)?;
    match &config.plane {
        Plane::Bonded(bonded) => {
            let keyed = keys::bonded_config(config, bonded)?;
            config.check_own_key(keyed.identity.public_key())?;
            config.forwarding_warnings().iter().for_each(|warning| note!("warning: {warning}"));
            writeln!(output, "# public key of this gateway: {}", keyed.identity.public_key())?;
            if let OuterTransportConfig::Udp(datagrams) = &keyed.transports {
                datagrams.routes.iter().try_for_each(|route| writeln!(output, "{route}"))?;
            }
            for network in keyed.remotes.iter().flat_map(|remote| &remote.networks) {
                writeln!(output, "ip route add {network} dev {}", keyed.device)?;
            }
        }
        Plane::Direct => {
            if let Some(sessions) = &config.sessions {
                let (identity, _) = keys::session_keys(sessions)?;
                config.check_own_key(identity.public_key())?;
                writeln!(output, "# public key of this gateway: {}", identity.public_key())?;
            }
            let plan = DirectPlan::new(config);
            writeln!(output, "{plan}")?;
            for warning in check_forwarding(&plan)? {
                note!("warning: {warning}");
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

impl GatewayArgs {
    /// As a file would say it. Paths are called `path1`, `path2` …
    fn to_toml(&self) -> anyhow::Result<String> {
        let path = |(number, path): (usize, &PathOption)| {
            let PathOption { interface, weight, gateways } = path;
            json!({ "name": format!("path{number}"), "interface": interface, "weight": weight, "gateways": gateways })
        };
        let has_networks = self.key.is_some() || !self.remotes.is_empty();
        let networks =
            if has_networks { json!(self.remotes) } else { json!(PathOption::default_networks(&self.paths)) };
        let mut file = json!({
            "gateway": {
                "name": self.name,
                "prometheus": self.prometheus,
                "on-event": self.on_event,
                "plane": if self.key.is_some() { "bonded" } else { "direct" },
            },
            "bonded": self.key.as_ref().map(|key| json!({ "key": key, "threads": self.threads })),
            "local": self.locals.iter().map(|name| json!({ "interface": name })).collect::<Vec<_>>(),
            "path": (1..).zip(&self.paths).map(path).collect::<Vec<_>>(),
            "remote": [{
                "name": "remote",
                "networks": networks,
                "public-key": self.peer,
                "preshared-key": self.preshared_key,
                "addresses": self.peer_addresses,
            }],
        });
        remove_nulls(&mut file);
        Ok(toml::to_string(&file)?)
    }
}

/// TOML has none.
fn remove_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(remove_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_nulls),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: GatewayArgs,
    }

    fn read(line: &str) -> Result<GatewayConfig, kumade_gateway::ConfigError> {
        let args = Line::parse_from(["gateway"].into_iter().chain(line.split(' '))).args;
        GatewayConfig::from_options(&args.to_toml().unwrap(), &["lan", "path1", "path2"].map(str::to_owned))
    }

    #[test]
    fn options_say_the_same_as_a_file() {
        let line = "--local lan --path path1:16@10.9.1.2 --path path2:3@10.9.2.2 --prometheus 9273";
        let config = read(line).unwrap();
        assert_eq!(config.prometheus, Some("127.0.0.1:9273".parse().unwrap()));
        assert_eq!(config.remotes[0].ratio.to_string(), "16:3");
        assert_eq!(config.remotes[0].networks, ["0.0.0.0/0".parse().unwrap()]);
        let error = read("--local lan --path path1 --path eth9").unwrap_err().to_string();
        assert!(error.starts_with("command line: this host has no interface `eth9`"), "{error}");
    }

    #[test]
    fn a_remote_gateway_is_known_by_its_key() {
        let key = "85d3f0b4c1a2968777665544332211000123456789abcdef0123456789abcd6f";
        let line = format!("--key a.key --peer {key} --path path1 --remote 10.2.0.0/24 --threads 2");
        let config = read(&line).unwrap();
        let Plane::Bonded(bonded) = &config.plane else { panic!("{config:?}") };
        assert_eq!((bonded.threads, bonded.peers[0].key.to_string().as_str()), (2, key));
    }
}
