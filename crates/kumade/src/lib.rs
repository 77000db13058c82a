//! The command-line program `kumade`: measures and emulates network paths. It parses arguments, calls the libraries and
//! prints.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod choice;
mod descriptors;
mod gateway;
mod key;
mod lab;
mod link;
mod measure;
mod output;
mod serve;
mod terminal;
mod text;
mod tunnel;
mod usage;

use crate::output::note;
use crate::terminal::{ColorWhen, Styles};
use clap::{CommandFactory, Parser, Subcommand};
use std::io::{self, Write};
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;

/// Measure available bandwidth, capacity, one-way delay and loss of network paths, even through firewalls that pass only
/// TCP, and emulate links
///
/// Exit status: 0 success, 1 failure, 2 invalid usage. Set KUMADE_LOG=debug for more messages on standard error.
#[derive(Debug, Parser)]
#[command(name = "kumade", version)]
struct Cli {
    /// Colour in what is printed for people
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t = ColorWhen::Auto)]
    color: ColorWhen,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::ServeArgs),
    Measure(Box<measure::MeasureArgs>),
    Lab(lab::LabArgs),
    Link(link::LinkArgs),
    Gateway(gateway::GatewayArgs),
    Tunnel(tunnel::TunnelArgs),
    Key(key::KeyArgs),
    /// Print a shell completion script
    Completions {
        /// Shell to generate the script for
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    Man,
}

/// The program: parses its arguments, runs the command and returns the exit status.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let default = if matches!(cli.command, Command::Serve(_)) { "info" } else { "warn" };
    let filter = EnvFilter::try_from_env("KUMADE_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(|| output::Unfailing).with_target(false).init();
    run(cli.command, cli.color).unwrap_or_else(|error| {
        // A reader that closes the pipe, as `head` does, is not an error.
        if is_closed_output(&error) {
            return ExitCode::SUCCESS;
        }
        note!("kumade: {error:#}");
        ExitCode::FAILURE
    })
}

fn is_closed_output(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

fn run(command: Command, color: ColorWhen) -> anyhow::Result<ExitCode> {
    match command {
        Command::Serve(args) => serve::run(args),
        Command::Measure(args) => measure::run(&args, &Styles::new(color)),
        Command::Lab(args) => lab::run(args),
        Command::Link(args) => link::run(args),
        Command::Gateway(args) => gateway::run(&args),
        Command::Tunnel(args) => tunnel::run(args),
        Command::Key(args) => key::run(&args),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "kumade", &mut script);
            io::stdout().write_all(&script)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Man => {
            clap_mangen::Man::new(Cli::command()).render(&mut io::stdout())?;
            Ok(ExitCode::SUCCESS)
        }
    }
}
