//! `kumade monitor import`: configurations of other programs.

use crate::output::{StandardOutput, note};
use crate::usage::usage_error;
use anyhow::Context;
use clap::{Args, Subcommand};
use kumade_files::read_text;
use kumade_monitor::psconfig::{ImportedMesh, LeftOut, Template};
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
    /// Print what one host of a perfSONAR pSConfig template monitors, or all of them, as the configuration of a monitor
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
    #[arg(long, value_name = "NAME", required_unless_present = "mesh")]
    from: Option<String>,
    /// Print the coordinator's file of a mesh, whose agents are all hosts that test with each other
    #[arg(long, conflicts_with = "from")]
    mesh: bool,
}

/// Runs the command.
///
/// # Errors
/// The template cannot be read, or nothing be printed.
pub fn run(args: &ImportArgs) -> anyhow::Result<ExitCode> {
    let ImportSource::Psconfig(PsconfigArgs { file, from, mesh }) = &args.from;
    let name = file.display().to_string();
    let text = read_text(file).with_context(|| format!("cannot read the template {name}"))?;
    let fault = |error| Ok(usage_error(&format!("{name}: {error}")));
    let template = match Template::parse(&text) {
        Ok(template) => template,
        Err(error) => return fault(error),
    };
    let Some(from) = from.as_ref().filter(|_| !mesh) else { return print_mesh(&template.into_mesh()) };
    let paths = match template.targets_of(from) {
        Ok(paths) => paths,
        Err(error) => return fault(error),
    };
    write!(StandardOutput, "{paths}")?;
    note_left_out(&paths.left_out);
    if paths.targets.is_empty() {
        note!("no test of the template is between {} and another host that a monitor could measure", paths.from);
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

fn print_mesh(mesh: &ImportedMesh) -> anyhow::Result<ExitCode> {
    write!(StandardOutput, "{mesh}")?;
    note_left_out(&mesh.left_out);
    if mesh.agents.len() < 2 {
        note!("no test of the template is between two hosts that agents could measure");
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

fn note_left_out(left_out: &[LeftOut]) {
    for LeftOut { path, reason } in left_out {
        note!("left out: {path}: {reason}");
    }
}
