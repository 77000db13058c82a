//! `kumade monitor export` and `backup`: the archive for other programs, and a copy of it.

use super::config_file::read_config;
use crate::output::StandardOutput;
use crate::usage::usage_error;
use anyhow::{Context, anyhow};
use clap::{Args, ValueEnum};
use kumade_monitor::ArchiveExport;
use kumade_monitor::config::MonitorConfig;
use kumade_units::{Span, Time, parse};
use serde::Serialize;
use std::io::Write;
use std::ops::Range;
use std::path::PathBuf;
use std::process::ExitCode;

/// Print what the archive has, a line for each minute's probes or each measurement; also while the monitor runs
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// Configuration file of the monitor
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// What to print
    #[arg(long, value_enum, default_value = "runs")]
    what: Content,
    /// Id of the target whose paths are printed, or of a path of a mesh, as rome:paris [default: all]
    #[arg(long, value_name = "ID")]
    pair: Option<String>,
    /// From when, as 2026-11-28T00:00:00Z [default: a day before the end]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    from: Option<Time>,
    /// Until when [default: now]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    to: Option<Time>,
    /// How long before the end, such as 30d, in place of --from
    #[arg(long, value_name = "TIME", value_parser = parse::span, conflicts_with = "from")]
    last: Option<Span>,
    /// Print lines of JSON instead of CSV
    #[arg(long)]
    json: bool,
}

/// Copy the archive, as it is at one moment, to a new file; also while the monitor runs
///
/// The copy is an archive: put it into a directory as archive.db.
#[derive(Debug, Args)]
pub struct BackupArgs {
    /// Configuration file of the monitor
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The copy, which must not exist yet
    #[arg(value_name = "COPY")]
    copy: PathBuf,
}

/// What is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Content {
    /// Delay, loss, duplication and late replies of light probes
    Probes,
    /// Full measurements
    Runs,
}

const DEFAULT_LENGTH: Span = Span::from_secs(86_400);

/// Runs `kumade monitor export`.
///
/// # Errors
/// The archive cannot be read, or standard output not be written.
pub fn export(args: &ExportArgs) -> anyhow::Result<ExitCode> {
    let config = match read_config(&args.file)? {
        Ok(config) => config,
        Err(error) => return Ok(usage_error(&error)),
    };
    let range = args.range();
    if range.is_empty() {
        return Ok(usage_error(&"the time ends before it begins: give a --from that is before --to"));
    }
    let mut archive = ArchiveExport::open(&config)?;
    let mut lines = LineWriter::new(args.json);
    let pair = args.pair.as_deref();
    match args.what {
        Content::Probes => archive.probes(pair, range, |line| lines.write(&line))?,
        Content::Runs => archive.runs(pair, range, |line| lines.write(&line))?,
    }
    lines.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// Runs `kumade monitor backup`.
///
/// # Errors
/// The copy exists or cannot be written, or there is no archive.
pub fn back_up(args: &BackupArgs) -> anyhow::Result<ExitCode> {
    let config: MonitorConfig = match read_config(&args.file)? {
        Ok(config) => config,
        Err(error) => return Ok(usage_error(&error)),
    };
    config.back_up(&args.copy)?;
    Ok(ExitCode::SUCCESS)
}

impl ExportArgs {
    fn range(&self) -> Range<Time> {
        let to = self.to.unwrap_or_else(kumade_net::clock::realtime);
        self.from.unwrap_or_else(|| to - self.last.unwrap_or(DEFAULT_LENGTH))..to
    }
}

/// Lines of either format.
enum LineWriter {
    Csv(Box<csv::Writer<StandardOutput>>),
    Json,
}

impl LineWriter {
    fn new(json: bool) -> Self {
        if json { LineWriter::Json } else { LineWriter::Csv(Box::new(csv::Writer::from_writer(StandardOutput))) }
    }

    fn write(&mut self, line: &impl Serialize) -> anyhow::Result<()> {
        match self {
            LineWriter::Csv(writer) => writer.serialize(line).map_err(output_error),
            LineWriter::Json => Ok(writeln!(StandardOutput, "{}", serde_json::to_string(line)?)?),
        }
    }

    fn finish(self) -> anyhow::Result<()> {
        match self {
            LineWriter::Csv(mut writer) => Ok(writer.flush()?),
            LineWriter::Json => Ok(()),
        }
    }
}

/// As it was, so that a closed pipe is known.
fn output_error(error: csv::Error) -> anyhow::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error.into(),
        kind => anyhow!("cannot write a line: {kind:?}"),
    }
}

fn parse_time(text: &str) -> anyhow::Result<Time> {
    let time: jiff::Timestamp =
        text.parse().with_context(|| format!("`{text}` is no time: write it as 2026-11-28T00:00:00Z"))?;
    Ok(Time::from_nanos(i64::try_from(time.as_nanosecond())?))
}
