//! The command-line program `kumade`: measures and emulates network paths. It parses arguments, calls the libraries and
//! prints.

#![deny(clippy::print_stdout, clippy::print_stderr)]

#[cfg(not(target_os = "linux"))]
mod absent;
mod choice;
#[cfg(target_os = "linux")]
mod confinement;
#[cfg(target_os = "linux")]
mod descriptors;
#[cfg(target_os = "linux")]
mod event_hook;
#[cfg(target_os = "linux")]
mod gateway;
mod key;
mod lab;
#[cfg(target_os = "linux")]
mod link;
#[cfg(target_os = "linux")]
mod live;
mod log;
mod manual;
mod measure;
#[cfg(target_os = "linux")]
mod monitor;
#[cfg(target_os = "linux")]
mod notices;
mod output;
mod port_ranges;
#[cfg(target_os = "linux")]
mod running;
#[cfg(target_os = "linux")]
mod serve;
mod terminal;
mod text;
mod tips;
#[cfg(target_os = "linux")]
mod tunnel;
mod usage;

use crate::output::{StandardOutput, note};
use anyhow::Context;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::env;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tracing_subscriber::filter::LevelFilter;

/// Measure available bandwidth, capacity, one-way delay and loss of network paths, even through firewalls that pass only
/// TCP, and emulate links
///
/// Exit status: 0 success, 1 failure, 2 invalid usage. Set KUMADE_LOG=debug for more messages on standard error.
#[derive(Debug, Parser)]
#[command(name = "kumade", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[cfg(target_os = "linux")]
    Serve(serve::ServeArgs),
    Measure(Box<measure::MeasureArgs>),
    Lab(lab::LabArgs),
    #[cfg(target_os = "linux")]
    Link(link::LinkArgs),
    #[cfg(target_os = "linux")]
    Gateway(Box<gateway::GatewayArgs>),
    #[cfg(target_os = "linux")]
    Tunnel(tunnel::TunnelArgs),
    #[cfg(target_os = "linux")]
    Monitor(monitor::MonitorArgs),
    #[cfg(not(target_os = "linux"))]
    #[command(flatten)]
    Absent(absent::AbsentCommand),
    Key(key::KeyArgs),
    /// Run a command for each event on standard input
    #[cfg(target_os = "linux")]
    #[command(name = event_hook::HELPER_COMMAND, hide = true)]
    RunOnEvents(event_hook::HelperArgs),
    #[cfg(target_os = "linux")]
    #[command(name = monitor::HELPER_COMMAND, hide = true)]
    RunOnAlerts(monitor::AlertCommandArgs),
    /// Print a shell completion script
    Completions {
        /// Shell to generate the script for
        shell: clap_complete::Shell,
    },
    /// Print the manual page of the program, or write those of all commands
    Man {
        /// Write a page for each command to this directory
        #[arg(long, value_name = "DIRECTORY")]
        output: Option<PathBuf>,
    },
}

/// The whole command line, as help, manual pages and completions show it.
fn build_command() -> clap::Command {
    manual::with_examples(Cli::command())
}

/// The program: parses its arguments, runs the command and returns the exit status.
pub fn main() -> ExitCode {
    let matches = build_command().try_get_matches().and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = matches.unwrap_or_else(|error| {
        let arguments = env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect::<Vec<_>>();
        let error = tips::with_tips(error, &arguments);
        match measure::usage_status(&arguments).filter(|_| error.use_stderr()) {
            Some(status) => {
                // A closed standard error ends nothing.
                error.print().ok();
                std::process::exit(status.into())
            }
            None => error.exit(),
        }
    });
    log::init_logging(if cli.command.is_service() { LevelFilter::INFO } else { LevelFilter::WARN });
    run(cli.command).unwrap_or_else(|error| {
        // A reader that closes the pipe, as `head` does, is not an error.
        if is_closed_output(&error) {
            return ExitCode::SUCCESS;
        }
        note!("kumade: {error:#}");
        ExitCode::FAILURE
    })
}

impl Command {
    #[cfg(target_os = "linux")]
    fn is_service(&self) -> bool {
        matches!(self, Command::Serve(_) | Command::Gateway(_) | Command::Tunnel(_) | Command::Monitor(_))
    }

    #[cfg(not(target_os = "linux"))]
    fn is_service(&self) -> bool {
        false
    }
}

fn is_closed_output(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

fn run(request: Command) -> anyhow::Result<ExitCode> {
    match request {
        #[cfg(target_os = "linux")]
        Command::Serve(args) => serve::run(args),
        Command::Measure(args) => measure::run(&args),
        Command::Lab(args) => lab::run(args),
        #[cfg(target_os = "linux")]
        Command::Link(args) => link::run(args),
        #[cfg(target_os = "linux")]
        Command::Gateway(args) => gateway::run(&args),
        #[cfg(target_os = "linux")]
        Command::Tunnel(args) => tunnel::run(args),
        #[cfg(target_os = "linux")]
        Command::Monitor(args) => monitor::run(&args),
        #[cfg(not(target_os = "linux"))]
        Command::Absent(command) => Ok(absent::refuse(&command)),
        Command::Key(args) => key::run(&args),
        #[cfg(target_os = "linux")]
        Command::RunOnEvents(args) => Ok(event_hook::run_helper(&args)),
        #[cfg(target_os = "linux")]
        Command::RunOnAlerts(args) => Ok(monitor::run_helper(&args)),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut build_command(), "kumade", &mut script);
            StandardOutput.write_all(&script)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Man { output: None } => {
            clap_mangen::Man::new(build_command()).render(&mut StandardOutput)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Man { output: Some(directory) } => write_man_pages(&directory).map(|()| ExitCode::SUCCESS),
    }
}

fn write_man_pages(directory: &Path) -> anyhow::Result<()> {
    let name = || format!("cannot write manual pages to {}", directory.display());
    fs::create_dir_all(directory).with_context(name)?;
    clap_mangen::generate_to(build_command().disable_help_subcommand(true), directory).with_context(name)
}
