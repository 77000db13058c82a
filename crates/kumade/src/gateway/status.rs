//! `kumade gateway status`: what a running gateway does.

use super::live::draw;
use crate::live;
use crate::running::{GATEWAY, print_document, read_config_text, request_status};
use crate::usage::usage_error;
use clap::Args;
use kumade_gateway::GatewayConfig;
use kumade_gateway::status::GatewayStatus;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Show what a running gateway does: its paths, the order of packets, sessions
///
/// Counts are totals from the start to a second ago at most; rates and shares are about the last second.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Name of the gateway; required where several run [default: the one that runs]
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
            Ok(name) => Some(name),
            Err(error) => return Ok(usage_error(&error)),
        },
        None => args.name.clone(),
    };
    let status: GatewayStatus = request_status(name.as_deref(), &GATEWAY)?;
    if args.live {
        live::run_live_view(|| request_status(Some(&status.name), &GATEWAY), draw)?;
        return Ok(ExitCode::SUCCESS);
    }
    print_document(&status, args.json)
}

/// The inner error is for the file's content.
fn read_gateway_name(file: &Path) -> anyhow::Result<Result<String, kumade_gateway::ConfigError>> {
    let (origin, text) = read_config_text(file)?;
    Ok(GatewayConfig::name_in_toml(&text, &origin))
}
