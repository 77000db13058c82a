//! `kumade gateway status`: what a running gateway does.

use super::live::draw;
use super::registry::{DEFAULT_NAME, gateway_registry, with_hint};
use crate::live;
use crate::output::StandardOutput;
use crate::terminal;
use crate::usage::usage_error;
use anyhow::Context;
use clap::Args;
use kumade_gateway::GatewayConfig;
use kumade_gateway::control::{Reply, Request};
use kumade_gateway::status::GatewayStatus;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Show what a running gateway does: its paths, the order of packets, sessions
///
/// Counts are totals since the start; rates and shares are about the last second.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Name of the gateway [default: the one that runs]
    #[arg(value_name = "NAME", conflicts_with = "config")]
    name: Option<String>,
    /// Configuration file of the gateway, which has its name
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print one JSON document (kumade.gateway/1)
    #[arg(long, conflicts_with = "live")]
    json: bool,
    /// Show it on the whole terminal, once a second, until q or Ctrl-C
    #[arg(long)]
    live: bool,
}

/// Runs the command.
///
/// # Errors
/// If no gateway can be asked, or its answer is not understood. An invalid file or no terminal gives exit status 2.
pub fn run(args: &StatusArgs) -> anyhow::Result<ExitCode> {
    if args.live && !io::stdout().is_terminal() {
        return Ok(usage_error(&"--live needs a terminal, and standard output is none: use --json, or neither"));
    }
    let name = match &args.config {
        Some(file) => match read_gateway_name(file)? {
            Ok(name) => name,
            Err(error) => return Ok(usage_error(&error)),
        },
        None => args.name.clone().unwrap_or_else(default_name),
    };
    if args.live {
        live::run_live_view(|| request_status(&name), draw)?;
        return Ok(ExitCode::SUCCESS);
    }
    let status = request_status(&name)?;
    let text = if args.json { serde_json::to_string(&status)? } else { terminal::fit_to_terminal(&status.to_string()) };
    writeln!(StandardOutput, "{text}")?;
    Ok(ExitCode::SUCCESS)
}

/// The inner error is for the file's content.
fn read_gateway_name(file: &Path) -> anyhow::Result<Result<String, kumade_gateway::ConfigError>> {
    let origin = file.display().to_string();
    let text = kumade_daemon::read_text(file).with_context(|| format!("cannot read the configuration {origin}"))?;
    Ok(GatewayConfig::name_in_toml(&text, &origin))
}

/// That of the one gateway that runs.
fn default_name() -> String {
    let mut running = gateway_registry().running_names();
    if running.len() == 1 { running.remove(0) } else { DEFAULT_NAME.to_owned() }
}

fn request_status(name: &str) -> anyhow::Result<GatewayStatus> {
    let Reply::Status { status } = gateway_registry().send_request(name, &Request::Status).map_err(with_hint)?;
    Ok(*status)
}
