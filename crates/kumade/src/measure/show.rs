//! A measurement's events and result, for people and for programs.

use super::hints;
use anyhow::anyhow;
use indicatif::{ProgressBar, ProgressStyle};
use measurement::report::{DirectionReport, StreamLine};
use measurement::{Event, Report};
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;
use units::{Rate, Span};

/// For whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// A verdict in plain language; progress on standard error where that is a terminal.
    People,
    /// One JSON document.
    Document,
    /// A line of JSON for each event, the last being the document or the error.
    Stream,
}

/// What measures: tells what happens, and comes back with the result.
pub type Measuring<'m> = dyn FnOnce(&mut dyn FnMut(&Event)) -> Result<Report, probe::Error> + 'm;

/// Measures, and prints what happens.
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
    // The text of these errors names their causes already.
    let report = result.map_err(|error| anyhow!(hints::describe(&error)))?;
    let mut out = io::stdout().lock();
    match output {
        Output::People => print_verdict(&mut out, &report)?,
        Output::Document => writeln!(out, "{}", serde_json::to_string(&report)?)?,
        Output::Stream => {}
    }
    Ok(if report.has_value() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn progress(output: Output) -> ProgressBar {
    if output != Output::People {
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

fn print_verdict(out: &mut impl Write, report: &Report) -> io::Result<()> {
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
            format!("connected to {peer}, round trip {}", Span::from_secs_f64(*round_trip_seconds))
        }
        Event::Waiting { ahead } => format!("waiting for {ahead} other measurement(s) to finish"),
        Event::Opened { transport, connections: 0 } => format!("measuring over {transport:?}").to_lowercase(),
        Event::Opened { connections, .. } => format!("measuring over {connections} TCP connection(s)"),
        Event::Train { direction, number, available_bits_per_second, .. } => match available_bits_per_second {
            Some(bits) => format!("{direction}: train {number}, {} so far", Rate::from_bits_per_second(*bits)),
            None => format!("{direction}: train {number}"),
        },
        Event::Capacity { direction, .. } => format!("{direction}: capacity done"),
        Event::Done { direction, .. } => format!("{direction}: done"),
    }
}
