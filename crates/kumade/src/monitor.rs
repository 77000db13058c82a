//! `kumade monitor`: measures paths for years, and shows what came of it.

mod alert_command;
mod check;
mod config_file;
mod export;
mod import;
mod run;
mod show;

use crate::running::{MONITOR_NAME, parse_name};
use crate::usage::usage_error;
pub(crate) use alert_command::{AlertCommandArgs, HELPER_COMMAND, run_helper};
use clap::{Args, Subcommand};
use config_file::read_role_config;
use kumade_monitor::config::RoleConfig;
use kumade_net::privileges;
use std::path::PathBuf;
use std::process::ExitCode;

/// Measure paths for years: small probes all day, full measurements on a schedule, an archive, a page
///
/// What is monitored stands in a file (TOML); each target takes two lines. A host that answers ping needs nothing else; one that
/// runs `kumade serve` can be measured, too. In a mesh, agents on several hosts measure between each other, as a coordinator tells them:
/// role = "coordinator" and role = "agent" in the files.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub struct MonitorArgs {
    #[command(subcommand)]
    command: Option<MonitorCommand>,
    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Name of this monitor, by which `kumade monitor show` finds it
    #[arg(long, requires = "config", default_value = MONITOR_NAME, value_parser = parse_name)]
    name: String,
    /// Keep capabilities, writes and system calls that the monitor does not need
    #[arg(long, requires = "config")]
    keep_privileges: bool,
}

#[derive(Debug, Subcommand)]
enum MonitorCommand {
    /// Say whether a monitor can do what a file says, what it costs, and what is kept
    Check(check::CheckArgs),
    /// Show how the paths of a running monitor are
    Show(show::ShowArgs),
    /// Print what the archive has
    Export(export::ExportArgs),
    /// Copy the archive
    Backup(export::BackupArgs),
    /// Make a configuration from one of another program
    Import(import::ImportArgs),
}

/// Runs the command.
///
/// # Errors
/// The configuration cannot be read, the archive not be opened, the page not be served, or no monitor asked.
pub fn run(args: &MonitorArgs) -> anyhow::Result<ExitCode> {
    // Archives tell who has done what, and a neighbour's lock on one would stop its writer; configurations name tokens, passwords and keys.
    privileges::hide_files();
    privileges::hide_memory()?;
    match (&args.command, &args.config) {
        (Some(MonitorCommand::Check(args)), _) => check::run(args),
        (Some(MonitorCommand::Show(args)), _) => show::run(args),
        (Some(MonitorCommand::Export(args)), _) => export::export(args),
        (Some(MonitorCommand::Backup(args)), _) => export::back_up(args),
        (Some(MonitorCommand::Import(args)), _) => import::run(args),
        (None, Some(file)) => match read_role_config(file)? {
            Ok(RoleConfig::Monitor(config)) => run::run(*config, file, &args.name, args.keep_privileges),
            Ok(RoleConfig::Agent(config)) => run::run_agent(*config, &args.name, args.keep_privileges),
            Err(error) => Ok(usage_error(&error)),
        },
        // Clap asks for one of them.
        (None, None) => Ok(usage_error(&"give the configuration: kumade monitor --config FILE")),
    }
}
