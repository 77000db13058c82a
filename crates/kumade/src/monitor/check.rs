//! `kumade monitor check`: what a monitor would do.

use super::config_file::read_config;
use crate::output::StandardOutput;
use crate::usage::usage_error;
use clap::Args;
use kumade_units::Rate;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Say whether a monitor can do what a file says, and what it costs: time of this host, probes, room on the disk
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Configuration file (TOML)
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Of a probe with its headers: 44 bytes of UDP over IPv4, or as many of ICMP.
const PROBE_BYTES: f64 = 72.0;

/// Runs the command.
///
/// # Errors
/// The file or a key cannot be read, or the measurements do not fit into their periods.
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
    let cost = config.estimate_cost();
    let bytes_per_second = cost.probes_per_second * PROBE_BYTES;
    writeln!(
        output,
        "probes: {:.2} a second, {} in each direction",
        cost.probes_per_second,
        Rate::from_f64(bytes_per_second * 8.0)
    )?;
    if cost.load_ratio > 0.0 {
        writeln!(
            output,
            "measurements: {:.1} % of this host's time; periods of {:.2} times the length would do",
            cost.load_ratio * 100.0,
            cost.shortest_period_factor
        )?;
    }
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    let (one, three) = (megabytes(cost.bytes_after_one_year), megabytes(cost.bytes_after_three_years));
    writeln!(output, "archive: {one:.1} MB after a year, {three:.1} MB after three")?;
    config.check_load()?;
    Ok(ExitCode::SUCCESS)
}
