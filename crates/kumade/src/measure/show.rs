//! A measurement's events and results, as text, JSON or CSV, once or again and again.

use super::csv;
use super::hints;
use super::progress::Progress;
use super::prometheus;
use super::summary::{self, SummaryView};
use super::watch::WatchHistory;
use crate::output::{StandardOutput, note};
use crate::terminal;
use anyhow::{Context, anyhow};
use jiff::Timestamp;
use kumade_files::replace_files;
use kumade_measurement::report::StreamLine;
use kumade_measurement::{Event, Report};
use kumade_units::Span;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

/// Output format.
pub enum MeasureOutput {
    /// A summary; progress on standard error if it is a terminal.
    Text(SummaryView),
    /// One JSON document.
    Document,
    /// A line of JSON for each event; the last one has the document or the error.
    Stream,
    /// A line for each direction, below names.
    Csv,
}

/// What becomes of results.
pub struct OutputSettings {
    /// On standard output.
    pub output: MeasureOutput,
    /// The peer as the user names it.
    pub target: String,
    /// Besides, metrics for Prometheus go to this file.
    pub prometheus: Option<PathBuf>,
    /// The time from the beginning of a measurement to that of the next one; none for a single one.
    pub watch: Option<Span>,
}

/// A measurement that reports events to a callback and returns the result.
pub type RunMeasurement<'m> = dyn Fn(&mut dyn FnMut(&Event)) -> Result<Report, kumade_client::Error> + 'm;

/// Measures, and prints events and results.
///
/// # Errors
/// If a single measurement fails, or the output can't be written.
pub fn run(shown: &OutputSettings, measuring: &RunMeasurement<'_>) -> anyhow::Result<ExitCode> {
    // Better known before a measurement than after it.
    if let Some(file) = &shown.prometheus {
        kumade_files::check_writable(split_path(file)?.0)
            .with_context(|| format!("cannot write metrics to {}", file.display()))?;
    }
    let Some(interval) = shown.watch else { return measure_once(shown, measuring, true) };
    let mut history = WatchHistory::new(terminal::line_width());
    for first in std::iter::once(true).chain(std::iter::repeat(false)) {
        let began = Instant::now();
        match &shown.output {
            MeasureOutput::Text(view) => {
                let report = measure_and_print(shown, measuring)?.0;
                writeln!(StandardOutput, "{}", history.next_line(&report, view))?;
                write_metrics(shown, &report)?;
            }
            // The document has the error.
            _ => match measure_once(shown, measuring, first) {
                Err(error) if error.is::<io::Error>() || error.is::<csv::Error>() => return Err(error),
                _ => {}
            },
        }
        thread::sleep(Duration::from_secs_f64(interval.as_secs_f64()).saturating_sub(began.elapsed()));
    }
    Ok(ExitCode::SUCCESS)
}

/// `first`: whether nothing has been printed before.
fn measure_once(shown: &OutputSettings, measuring: &RunMeasurement<'_>, first: bool) -> anyhow::Result<ExitCode> {
    let (report, failure) = measure_and_print(shown, measuring)?;
    let mut out = StandardOutput;
    match &shown.output {
        MeasureOutput::Text(view) if failure.is_none() => {
            summary::summary_lines(&report, view).iter().try_for_each(|line| writeln!(out, "{line}"))?;
        }
        MeasureOutput::Document => writeln!(out, "{}", serde_json::to_string(&report)?)?,
        MeasureOutput::Csv => csv::write_csv(&mut out, &shown.target, &report, first)?,
        MeasureOutput::Text(_) | MeasureOutput::Stream => {}
    }
    write_metrics(shown, &report)?;
    match failure {
        Some(failure) => Err(anyhow!(failure)),
        None => Ok(if report.has_result() { ExitCode::SUCCESS } else { ExitCode::FAILURE }),
    }
}

/// The report, which also says if the measurement failed; and its failure in words.
fn measure_and_print(
    shown: &OutputSettings,
    measuring: &RunMeasurement<'_>,
) -> anyhow::Result<(Report, Option<String>)> {
    let started = format!("{:.3}", Timestamp::now());
    let mut progress = Progress::new(matches!(shown.output, MeasureOutput::Text(_)));
    let mut written = Ok(());
    let result = measuring(&mut |event| match shown.output {
        MeasureOutput::Stream => {
            if let Err(error) = print_line(&StreamLine::from_event(event)) {
                written = Err(error);
            }
        }
        _ => {
            // Whoever waits wants to know for whom, also in a file.
            if let Some(text) = progress.lasting_note(event) {
                progress.suspend(|| note!("{text}"));
            }
            progress.show_event(event);
        }
    });
    progress.end();
    written?;
    if matches!(shown.output, MeasureOutput::Stream) {
        print_line(&match &result {
            Ok(report) => StreamLine::end(report),
            Err(error) => StreamLine::failure(hints::error_report(error)),
        })?;
    }
    let (report, failure) = match result {
        Ok(report) => (report, None),
        // The text of these errors includes their causes.
        Err(error) => (
            Report::failed(shown.target.clone(), started, hints::error_report(&error)),
            Some(hints::describe_error(&error)),
        ),
    };
    Ok((report, failure))
}

/// Once all else is printed: a file that cannot be written takes nothing with it. In one step, so that a reader finds a whole file.
fn write_metrics(shown: &OutputSettings, report: &Report) -> anyhow::Result<()> {
    let Some(file) = &shown.prometheus else { return Ok(()) };
    let (directory, name) = split_path(file)?;
    let text = prometheus::encode_metrics(&shown.target, report);
    replace_files(directory, &[(name, text.as_bytes())])?;
    Ok(())
}

/// The directory and the name of a file.
fn split_path(file: &Path) -> anyhow::Result<(&Path, &str)> {
    let name = file.file_name().and_then(|name| name.to_str());
    let name = name.with_context(|| format!("cannot write metrics to {}: it is no file name", file.display()))?;
    Ok((file.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new(".")), name))
}

fn print_line(line: &StreamLine<'_>) -> io::Result<()> {
    let line = serde_json::to_string(line)?;
    let mut out = StandardOutput;
    writeln!(out, "{line}")?;
    out.flush()
}
