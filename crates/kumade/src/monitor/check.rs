//! `kumade monitor check`: what a monitor would do.

use super::config_file::read_role_config;
use crate::output::StandardOutput;
use crate::usage::usage_error;
use clap::Args;
use kumade_monitor::alerts::send_test_alert;
use kumade_monitor::config::{AgentConfig, MonitorConfig, RoleConfig, TlsFiles};
use kumade_units::Rate;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Say whether a monitor can do what a file says, and what it costs: time of this host, probes, room on the disk
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Configuration file (TOML)
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Send a test alert to each receiver, and print what it answers
    #[arg(long)]
    notify: bool,
}

/// Of a probe with its headers: 44 bytes of UDP over IPv4, or as many of ICMP.
const PROBE_BYTES: f64 = 72.0;

/// Runs the command.
///
/// # Errors
/// The file or a key cannot be read, or the measurements do not fit into their periods.
pub fn run(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let mut output = StandardOutput;
    let config = match read_role_config(&args.file)? {
        Ok(RoleConfig::Monitor(config)) => config,
        Ok(RoleConfig::Agent(config)) => {
            let AgentConfig { coordinators, identity, .. } = &*config;
            let hosts: Vec<_> = coordinators.iter().map(|(host, port)| format!("{host}, port {port}")).collect();
            writeln!(output, "an agent of the coordinator {}", hosts.join("; or "))?;
            writeln!(output, "its public key: {}", identity.public_key())?;
            return Ok(ExitCode::SUCCESS);
        }
        Err(error) => return Ok(usage_error(&error)),
    };
    for target in &config.targets {
        let measured = target.measurement.as_ref().map(|schedule| format!(", measured every {}", schedule.period));
        let interval = target.light.interval;
        writeln!(output, "{}: {}, a probe every {interval}{}", target.id, target.host, measured.unwrap_or_default())?;
    }
    let cost = config.estimate_cost();
    let bytes_per_second = cost.probes_per_second * PROBE_BYTES;
    writeln!(
        output,
        "probes: {:.2} a second, {} in each direction",
        cost.probes_per_second,
        Rate::from_f64(bytes_per_second * 8.0)
    )?;
    if let (Some(mesh), Some(load)) = (&config.mesh, config.mesh_load()) {
        for (pair, reason) in &mesh.unreachable {
            writeln!(output, "{pair}: cannot be measured: {reason}")?;
        }
        for (name, ratio) in &load.resources {
            writeln!(output, "{name}: {:.1} % of the time measured", ratio * 100.0)?;
        }
        if let Some(period) = load.shortest_period {
            writeln!(output, "shortest possible period: {period}")?;
        }
    } else if cost.load_ratio > 0.0 {
        writeln!(
            output,
            "measurements: {:.1} % of this host's time; periods of {:.2} times the length would do",
            cost.load_ratio * 100.0,
            cost.shortest_period_factor
        )?;
    }
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    let (one, three) = (megabytes(cost.bytes_after_one_year), megabytes(cost.bytes_after_three_years));
    let reserve = match cost.reserved_bytes {
        0 => String::new(),
        bytes => format!("; from the start, {:.1} MB more for when the disk is full", megabytes(bytes)),
    };
    writeln!(output, "archive: {one:.1} MB after a year, {three:.1} MB after three{reserve}")?;
    print_alerts(&config, &mut output)?;
    writeln!(output, "{}", access_words(&config))?;
    config.tls.as_ref().map(TlsFiles::check).transpose()?;
    config.check_load()?;
    if args.notify { test_receivers(&config, &mut output) } else { Ok(ExitCode::SUCCESS) }
}

/// What is alerted on, and who is told.
fn print_alerts(config: &MonitorConfig, output: &mut StandardOutput) -> anyhow::Result<()> {
    for rule in &config.alerts.rules {
        let targets = rule.pairs.as_ref().map_or_else(|| "all targets".to_owned(), |ids| ids.join(", "));
        writeln!(output, "alert {}: {}, of {targets}", rule.name, rule.describe())?;
    }
    let receivers: Vec<&str> = config.alerts.notifiers.iter().map(|notifier| notifier.name.as_str()).collect();
    match receivers[..] {
        [] => writeln!(output, "alerts are shown on the page alone: [[notify]] has them sent")?,
        _ => writeln!(output, "alerts go to {}", receivers.join(", "))?,
    }
    Ok(())
}

/// Fails where one of them does not take it.
fn test_receivers(config: &MonitorConfig, output: &mut StandardOutput) -> anyhow::Result<ExitCode> {
    let mut outcomes = Vec::new();
    send_test_alert(config, kumade_net::clock::realtime(), |name, taken| {
        let text = taken.as_ref().err().map_or("has taken a test alert", String::as_str);
        outcomes.push(writeln!(output, "{name}: {text}").map(|()| taken.is_ok()));
    })?;
    let are_taken = outcomes.into_iter().collect::<Result<Vec<bool>, _>>()?;
    Ok(if are_taken.contains(&false) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Who may see the page.
fn access_words(config: &MonitorConfig) -> String {
    let (access, page) = (&config.access, config.page);
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    let names = access.tokens.iter().map(|token| format!("{} ({})", token.name, token.class.name()));
    let names = names.collect::<Vec<_>>().join(", ");
    let who = match (access.is_public, names.is_empty()) {
        (false, true) => "for everybody on this host".to_owned(),
        (true, true) => "for everybody to read".to_owned(),
        (true, false) => format!("for everybody to read, and for {names}"),
        (false, false) => format!("for {names}"),
    };
    let is_clear = config.tls.is_none() && !page.ip().is_loopback() && !access.tokens.is_empty();
    let hint = if is_clear { "; tokens pass in the clear: encrypt it with [tls], or have a proxy do so" } else { "" };
    format!("page: {scheme}://{page}/, {who}{hint}")
}
