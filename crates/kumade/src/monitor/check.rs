//! `kumade monitor check`: what a monitor would do.

use super::read_config;
use crate::output::StandardOutput;
use crate::usage::usage_error;
use clap::Args;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Say whether a monitor can do what a file says
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Configuration file (TOML)
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Runs the command.
///
/// # Errors
/// The file or a key cannot be read.
pub fn run(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let config = match read_config(&args.file)? {
        Ok(config) => config,
        Err(error) => return Ok(usage_error(&error)),
    };
    let mut output = StandardOutput;
    for target in &config.targets {
        let measured = target.measurement.as_ref().map(|schedule| format!(", measured every {}", schedule.period));
        let interval = target.light.interval;
        writeln!(output, "{}: {}, a probe every {interval}{}", target.id, target.host, measured.unwrap_or_default())?;
    }
    Ok(ExitCode::SUCCESS)
}
