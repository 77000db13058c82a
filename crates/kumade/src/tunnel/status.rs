//! `kumade tunnel status`: what a running end of a tunnel does.

use super::registry::{tunnel_registry, with_hint};
use crate::output::StandardOutput;
use crate::terminal;
use clap::Args;
use kumade_tunnel::control::{Reply, Request};
use std::io::Write;
use std::process::ExitCode;

/// Show what a running tunnel does: the other ends, what is carried, the order of packets, relayed connections
///
/// Counts are totals since the start; rates are about the last second.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Name of the tunnel [default: the one that runs]
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Print one JSON document (kumade.tunnel/1)
    #[arg(long)]
    json: bool,
}

/// Where none or several run, the message about this one names those.
const DEFAULT_NAME: &str = "kumade0";

/// Runs the command.
///
/// # Errors
/// If no tunnel can be asked, or its answer is not understood.
pub fn run(args: &StatusArgs) -> anyhow::Result<ExitCode> {
    let name = args.name.clone().unwrap_or_else(default_name);
    let Reply::Status { status } = tunnel_registry().send_request(&name, &Request::Status).map_err(with_hint)?;
    let text = if args.json { serde_json::to_string(&status)? } else { terminal::fit_to_terminal(&status.to_string()) };
    writeln!(StandardOutput, "{text}")?;
    Ok(ExitCode::SUCCESS)
}

/// That of the one that runs.
fn default_name() -> String {
    let mut running = tunnel_registry().running_names();
    if running.len() == 1 { running.remove(0) } else { DEFAULT_NAME.to_owned() }
}
