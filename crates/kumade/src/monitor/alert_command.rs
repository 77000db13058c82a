//! The process that runs a command for each alert: a monitor that is confined runs nothing.

use clap::Args;
use kumade_monitor::alerts::run_for_each_line;
use kumade_units::Span;
use std::process::{Command, ExitCode};

/// The name of its command, which is none of the users'.
pub(crate) const HELPER_COMMAND: &str = "run-on-alerts";

/// The command of the process.
#[derive(Debug, Args)]
pub struct AlertCommandArgs {
    /// After which it is ended
    timeout_milliseconds: i64,
    /// For each line of standard input
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

/// What is started for a command.
pub(super) fn helper(arguments: &[String], timeout: Span) -> Command {
    let mut helper = Command::new("/proc/self/exe");
    helper.args([HELPER_COMMAND, &(timeout.as_nanos() / 1_000_000).to_string(), "--"]).args(arguments);
    helper
}

/// The process.
pub(crate) fn run_helper(args: &AlertCommandArgs) -> ExitCode {
    // It ends with the monitor, which then reads nothing more.
    let outcome = run_for_each_line(&args.command, Span::from_millis(args.timeout_milliseconds));
    if outcome.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
