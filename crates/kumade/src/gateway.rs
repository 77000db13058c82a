//! `kumade gateway`: shares the traffic of a site over several paths.

use crate::key;
use anyhow::Context;
use clap::{Args, Subcommand};
use gateway::bonded::{BondedConfig, BondedPlane};
use gateway::config::{Bonded, PathOption, Peer, Plane, SimpleConfig};
use gateway::direct::{DirectPlane, Plan, check_host};
use gateway::measure::{MeasurementServer, PathMeasurer};
use gateway::{Config, ConfigError};
use net::{clock, interface};
use secure::PresharedKey;
use service::{RuntimeDir, signals};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Exit status of an invalid configuration.
const USAGE: u8 = 2;
/// Maximum time until a signal or a failed interface is noticed.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Share the traffic of a site over several paths, until Ctrl-C
///
/// The kernel forwards the packets; this program installs the rules and routes for it and removes them at the end. It needs
/// root or CAP_NET_ADMIN, and a host that forwards (`sysctl -w net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1`).
///
/// Example: kumade gateway --local eth0 --path eth1:16@192.0.2.1 --path eth2:3@198.51.100.1
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct GatewayArgs {
    #[command(subcommand)]
    command: Option<GatewayCommand>,
    /// Configuration file (TOML): sites, paths, address translation
    #[arg(long, value_name = "FILE", required_unless_present = "paths", conflicts_with_all = ["locals", "paths", "remotes"])]
    config: Option<PathBuf>,
    /// Interface of local hosts; packets that arrive there are divided. Repeatable
    #[arg(long = "local", value_name = "INTERFACE", requires = "paths")]
    locals: Vec<String>,
    /// Path: its interface, its weight (default 1) and its next hops; packets are divided in the ratio of the weights.
    /// Repeatable
    #[arg(long = "path", value_name = "INTERFACE[:WEIGHT][@GATEWAY[,GATEWAY]]", requires = "locals")]
    paths: Vec<PathOption>,
    /// Network that is reached over the paths. Repeatable [default: all other addresses]
    #[arg(long = "remote", value_name = "NETWORK", requires = "paths")]
    remotes: Vec<String>,
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
}

/// Runs the command.
///
/// # Errors
/// If the file cannot be read or the system refuses a rule or route. An invalid configuration gives exit status 2.
pub fn run(args: &GatewayArgs) -> anyhow::Result<ExitCode> {
    let config = match (&args.command, &args.config) {
        (Some(GatewayCommand::Check { file }), _) | (None, Some(file)) => read(file)?,
        (None, None) => Config::from_options(&args.simple(), &interface::names()?),
    };
    match (config, &args.command) {
        (Err(error), _) => {
            eprintln!("kumade: {error}");
            Ok(ExitCode::from(USAGE))
        }
        (Ok(config), Some(GatewayCommand::Check { .. })) => check(&config),
        (Ok(config), None) => start(&config),
    }
}

/// The inner error is for the file's content.
fn read(file: &Path) -> anyhow::Result<Result<Config, ConfigError>> {
    let name = file.display().to_string();
    let text = fs::read_to_string(file).with_context(|| format!("cannot read the configuration {name}"))?;
    Ok(Config::from_toml(&text, &name, &interface::names()?))
}

fn check(config: &Config) -> anyhow::Result<ExitCode> {
    let mut output = std::io::stdout();
    for remote in &config.remotes {
        let networks: Vec<_> = remote.networks.iter().map(ToString::to_string).collect();
        let paths: Vec<_> = remote.paths.iter().map(|&path| &config.paths[path]).collect();
        let paths: Vec<_> = paths.iter().map(|path| format!("{} {}", path.name, path.weight)).collect();
        writeln!(output, "# {}: {} by {}", remote.name, networks.join(", "), paths.join(" : "))?;
    }
    for remote in config.remotes.iter().filter(|remote| !remote.measured_to.is_empty()) {
        let targets: Vec<_> = remote.measured_to.iter().map(ToString::to_string).collect();
        writeln!(output, "# {}: weights are measured, to {}", remote.name, targets.join(", "))?;
    }
    measurement_key(config)?;
    match &config.plane {
        Plane::Bonded(bonded) => {
            let keyed = bonded_config(config, bonded)?;
            writeln!(output, "# public key of this gateway: {}", keyed.identity.public())?;
            for route in &keyed.routes {
                writeln!(output, "{route}")?;
            }
            for network in keyed.remotes.iter().flat_map(|remote| &remote.networks) {
                writeln!(output, "ip route add {network} dev {}", keyed.device)?;
            }
        }
        Plane::Direct => {
            let plan = Plan::new(config);
            writeln!(output, "{plan}")?;
            for warning in check_host(&plan)? {
                eprintln!("warning: {warning}");
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn start(config: &Config) -> anyhow::Result<ExitCode> {
    let stop = signals::termination().context("cannot listen for Ctrl-C")?;
    match &config.plane {
        Plane::Direct => run_direct(config, &stop)?,
        Plane::Bonded(bonded) => run_bonded(config, bonded, &stop)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn run_direct(config: &Config, stop: &AtomicBool) -> anyhow::Result<()> {
    let mut plane = DirectPlane::start(config, RuntimeDir::standard("kumade"))?;
    let (_server, mut measurer) = measurements(config)?;
    eprintln!("{}: packets are divided among {} paths; Ctrl-C ends it", config.name, config.paths.len());
    while !stop.load(Ordering::Relaxed) {
        plane.follow_interfaces()?;
        if let Some(measurer) = &mut measurer {
            measurer.guide_direct(&mut plane)?;
        }
        thread::sleep(POLL_INTERVAL);
    }
    for count in plane.counts()? {
        eprintln!("{}: {} packets, {} bytes", count.path, count.sent.packets, count.sent.bytes);
    }
    Ok(())
}

fn run_bonded(config: &Config, bonded: &Bonded, stop: &AtomicBool) -> anyhow::Result<()> {
    let plane = BondedPlane::start(bonded_config(config, bonded)?)?;
    let (_server, mut measurer) = measurements(config)?;
    eprintln!("{}: {} paths carry the tunnel {}; Ctrl-C ends it", config.name, config.paths.len(), bonded.device);
    let mut connected = vec![false; config.remotes.len()];
    while !stop.load(Ordering::Relaxed) && plane.is_running() {
        // One that has ended says why when it is stopped.
        let Ok(status) = plane.status() else { break };
        for ((remote, now), before) in config.remotes.iter().zip(&status.remotes).zip(&mut connected) {
            if *before != now.is_connected {
                *before = now.is_connected;
                eprintln!("{}: {}", remote.name, if now.is_connected { "connected" } else { "not connected" });
            }
        }
        if let Some(measurer) = &mut measurer {
            measurer.guide_bonded(&plane);
        }
        thread::sleep(POLL_INTERVAL);
    }
    if let Ok(status) = plane.status() {
        for (remote, status) in config.remotes.iter().zip(&status.remotes) {
            for (path, (_, sent)) in config.paths.iter().zip(&status.paths) {
                eprintln!("{} {}: {} packets, {} bytes", remote.name, path.name, sent.sent_packets, sent.sent_bytes);
            }
        }
    }
    Ok(plane.stop()?)
}

/// What answers the measurements of other gateways, and what measures.
fn measurements(config: &Config) -> anyhow::Result<(Option<MeasurementServer>, Option<PathMeasurer>)> {
    let settings = &config.measurement;
    let key = measurement_key(config)?;
    let server = settings.answer.then(|| MeasurementServer::start(settings.port, key.clone())).transpose()?;
    let seed = getrandom::u64().context("the system gives no random bytes")?;
    Ok((server, PathMeasurer::new(config, key, seed, clock::monotonic())))
}

fn measurement_key(config: &Config) -> anyhow::Result<Option<PresharedKey>> {
    config.measurement.key_file.as_deref().map(key::read_preshared).transpose()
}

fn bonded_config(config: &Config, bonded: &Bonded) -> anyhow::Result<BondedConfig> {
    let identity = key::read_private(&bonded.key_file)?;
    let psk = |peer: &Peer| peer.psk_file.as_deref().map_or_else(|| Ok(PresharedKey::default()), key::read_preshared);
    let psks = bonded.peers.iter().map(psk).collect::<anyhow::Result<_>>()?;
    Ok(BondedConfig::new(config, bonded, identity, psks))
}

impl GatewayArgs {
    fn simple(&self) -> SimpleConfig {
        SimpleConfig { locals: self.locals.clone(), paths: self.paths.clone(), remotes: self.remotes.clone() }
    }
}
