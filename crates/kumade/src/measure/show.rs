//! A measurement's events and result, as text or JSON.

use super::hints;
use anyhow::anyhow;
use indicatif::{ProgressBar, ProgressStyle};
use measurement::report::{DirectionReport, StreamLine};
use measurement::{Event, Report};
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;
use units::Span;

/// Output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// A summary; progress on standard error if it is a terminal.
    Text,
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
    let bar = progress(output);
    let mut written = Ok(());
    let result = measuring(&mut |event| match output {
        Output::Stream => {
            if let Err(error) = print_line(&StreamLine::of(event)) {
                written = Err(error);
            }
        }
        _ => bar.set_message(describe(event)),
    });
    bar.finish_and_clear();
    written?;
    if output == Output::Stream {
        print_line(&match &result {
            Ok(report) => StreamLine::end(report),
            Err(error) => StreamLine::failure(hints::describe(error)),
        })?;
    }
    // The text of these errors includes their causes.
    let report = result.map_err(|error| anyhow!(hints::describe(&error)))?;
    let mut out = io::stdout().lock();
    match output {
        Output::Text => print_summary(&mut out, &report)?,
        Output::Document => writeln!(out, "{}", serde_json::to_string(&report)?)?,
        Output::Stream => {}
    }
    Ok(if report.has_value() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn progress(output: Output) -> ProgressBar {
    if output != Output::Text {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
        bar.set_style(style);
    }
    bar.set_message("connecting");
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

fn print_line(line: &StreamLine<'_>) -> io::Result<()> {
    let line = serde_json::to_string(line)?;
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

fn print_summary(out: &mut impl Write, report: &Report) -> io::Result<()> {
    let mut print = |name: &str, direction: &Option<DirectionReport>| match direction {
        Some(direction) => {
            writeln!(out, "{name}: {direction}")?;
            direction.capacity.iter().try_for_each(|capacity| writeln!(out, "  {capacity}"))?;
            direction.warnings.iter().try_for_each(|warning| writeln!(out, "  note: {warning}"))
        }
        None => Ok(()),
    };
    print("up", &report.up)?;
    print("down", &report.down)?;
    report.delay.as_ref().map_or(Ok(()), |delay| writeln!(out, "{delay}"))
}

fn describe(event: &Event) -> String {
    match event {
        Event::Connected { peer, round_trip_seconds } => {
            format!("connected to {peer}, round-trip time {}", Span::from_secs_f64(*round_trip_seconds))
        }
        Event::Waiting { ahead: 1 } => "queued: 1 measurement ahead".to_owned(),
        Event::Waiting { ahead } => format!("queued: {ahead} measurements ahead"),
        Event::Opened { connections: 0, .. } => "measuring over UDP".to_owned(),
        Event::Opened { connections: 1, .. } => "measuring over 1 TCP connection".to_owned(),
        Event::Opened { connections, .. } => format!("measuring over {connections} TCP connections"),
        Event::Train { direction, number, available_bits_per_second, .. } => match available_bits_per_second {
            Some(rate) => format!("{direction}: train {number}, estimate {rate}"),
            None => format!("{direction}: train {number}"),
        },
        Event::Capacity { direction, .. } => format!("{direction}: capacity measured"),
        Event::Done { direction, .. } => format!("{direction}: done"),
    }
}
