//! `kumade monitor show`: how the paths of a running monitor are.

use super::registry::{DEFAULT_NAME, monitor_registry};
use crate::output::StandardOutput;
use crate::terminal;
use anyhow::anyhow;
use clap::Args;
use kumade_daemon::ControlError;
use kumade_monitor::{Reply, Request};
use std::io::Write;
use std::process::ExitCode;

/// Show how the paths of a running monitor are: delay, loss, the last measurement
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// Name of the monitor
    #[arg(value_name = "NAME", default_value = DEFAULT_NAME)]
    name: String,
    /// Print one JSON document (kumade.monitor/1)
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// If no such monitor runs, or its answer is not understood.
pub fn run(args: &ShowArgs) -> anyhow::Result<ExitCode> {
    let answer = monitor_registry().send_request(&args.name, &Request::Status);
    let Reply::Status(status) = answer.map_err(|error| match &error {
        ControlError::NotRunning { .. } => anyhow!("{error}; start one with `kumade monitor --config FILE`"),
        _ => error.into(),
    })?;
    let text = if args.json { serde_json::to_string(&status)? } else { terminal::fit_to_terminal(&status.to_string()) };
    writeln!(StandardOutput, "{text}")?;
    Ok(ExitCode::SUCCESS)
}
