//! A measurement's events and result, as text or JSON.

use super::hints;
use super::progress::Progress;
use super::summary::{self, View};
use anyhow::anyhow;
use measurement::report::StreamLine;
use measurement::{Event, Report};
use std::io::{self, Write};
use std::process::ExitCode;

/// Output format.
pub enum Output {
    /// A summary; progress on standard error if it is a terminal.
    Text(View),
    /// One JSON document.
    Document,
    /// A line of JSON for each event; the last one has the document or the error.
    Stream,
}

/// A measurement that reports events to a callback and returns the result.
pub type Measuring<'m> = dyn FnOnce(&mut dyn FnMut(&Event)) -> Result<Report, probe::Error> + 'm;

/// Runs a measurement, and prints events and the result.
///
/// # Errors
/// If the measurement fails, or the output can't be written.
pub fn run(output: Output, measuring: Box<Measuring<'_>>) -> anyhow::Result<ExitCode> {
    let mut progress = Progress::new(matches!(output, Output::Text(_)));
    let mut written = Ok(());
    let result = measuring(&mut |event| match output {
        Output::Stream => {
            if let Err(error) = print_line(&StreamLine::of(event)) {
                written = Err(error);
            }
        }
        _ => progress.show(event),
    });
    progress.end();
    written?;
    if matches!(output, Output::Stream) {
        print_line(&match &result {
            Ok(report) => StreamLine::end(report),
            Err(error) => StreamLine::failure(hints::describe(error)),
        })?;
    }
    // The text of these errors includes their causes.
    let report = result.map_err(|error| anyhow!(hints::describe(&error)))?;
    let mut out = io::stdout().lock();
    match output {
        Output::Text(view) => summary::lines(&report, &view).iter().try_for_each(|line| writeln!(out, "{line}"))?,
        Output::Document => writeln!(out, "{}", serde_json::to_string(&report)?)?,
        Output::Stream => {}
    }
    Ok(if report.has_result() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print_line(line: &StreamLine<'_>) -> io::Result<()> {
    let line = serde_json::to_string(line)?;
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}
