//! `kumade monitor import`: configurations of other programs.

use crate::output::{StandardOutput, note};
use crate::usage::usage_error;
use anyhow::Context;
use clap::{Args, Subcommand};
use kumade_daemon::read_text;
use kumade_monitor::psconfig::Template;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Make a configuration from one of another program
#[derive(Debug, Args)]
pub struct ImportArgs {
    #[command(subcommand)]
    from: ImportSource,
}

#[derive(Debug, Subcommand)]
enum ImportSource {
    /// Print what one host of a perfSONAR pSConfig template monitors, as the configuration of a monitor
    ///
    /// Tests of delay (latencybg, latency, rtt) become light probes, those of throughput full measurements. What is left out is named
    /// with the reason, on standard error and as comments.
    Psconfig(PsconfigArgs),
}

#[derive(Debug, Args)]
struct PsconfigArgs {
    /// The template (JSON)
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The host where the monitor will run: its name in the template, or its address there
    #[arg(long, value_name = "NAME")]
    from: String,
}

/// Runs the command.
///
/// # Errors
/// The template cannot be read, or nothing be printed.
pub fn run(args: &ImportArgs) -> anyhow::Result<ExitCode> {
    let ImportSource::Psconfig(PsconfigArgs { file, from }) = &args.from;
    let name = file.display().to_string();
    let text = read_text(file).with_context(|| format!("cannot read the template {name}"))?;
    let paths = match Template::parse(&text).and_then(|template| template.targets_of(from)) {
        Ok(paths) => paths,
        Err(error) => return Ok(usage_error(&format!("{name}: {error}"))),
    };
    write!(StandardOutput, "{paths}")?;
    for item in &paths.left_out {
        note!("left out: {}: {}", item.path, item.reason);
    }
    if paths.targets.is_empty() {
        note!("no test of the template is between {} and another host that a monitor could measure", paths.from);
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}
