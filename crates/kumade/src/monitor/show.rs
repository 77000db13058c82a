//! `kumade monitor show`: how the paths of a running monitor are.

use crate::running::{MONITOR_NAME, print_document, registry};
use anyhow::anyhow;
use clap::Args;
use kumade_daemon::ControlError;
use kumade_monitor::{MonitorProtocol, Reply, Request};
use std::process::ExitCode;

/// Show how the paths of a running monitor are: delay, loss, the last measurement
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// Name of the monitor
    #[arg(value_name = "NAME", default_value = MONITOR_NAME)]
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
    let answer = registry::<MonitorProtocol>().send_request(&args.name, &Request::Status);
    let Reply::Status(status) = answer.map_err(|error| match &error {
        ControlError::NotRunning { .. } => anyhow!("{error}; start one with `kumade monitor --config FILE`"),
        _ => error.into(),
    })?;
    print_document(&status, args.json)
}
