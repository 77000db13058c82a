//! `kumade link show`: what a running link does.

use super::live::{LinkSnapshot, draw};
use crate::live;
use crate::live::history::History;
use crate::live::screen::Screen;
use crate::output::StandardOutput;
use crate::running::{LINK, parse_name, print_document, registry};
use anyhow::Context;
use clap::Args;
use kumade_daemon::signals;
use kumade_emulator::control::{LinkProtocol, Reply, Request};
use kumade_emulator::report::{Document, ReportSpan};
use ratatui::Frame;
use std::io::Write;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

/// Maximum time until a new interval or a signal is noticed.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Show the settings of a running link and its statistics since the start
///
/// Example: kumade link show --live
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// Name of the link
    #[arg(long, default_value = LINK.usual_name, value_parser = parse_name)]
    name: String,
    /// Print one JSON document (kumade.link/1)
    #[arg(long, conflicts_with = "live")]
    json: bool,
    /// Show each interval of the link's statistics until q or Ctrl-C: on the whole terminal, or elsewhere as lines
    #[arg(long)]
    live: bool,
}

/// Runs the command.
///
/// # Errors
/// If no link can be asked, its answer is not understood, or the output can't be written.
pub fn run(args: &ShowArgs) -> anyhow::Result<ExitCode> {
    if args.live && Screen::is_available() {
        let draw = |frame: &mut Frame<'_>, history: &History<LinkSnapshot>| draw(frame, history, None, "q ends it");
        live::run_live_view(|| request_snapshot(&args.name), draw)?;
    } else if args.live {
        show_lines(&args.name)?;
    } else {
        return print_document(&request_document(&args.name, &Request::Show)?, args.json);
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the running links of this user.
///
/// # Errors
/// A link cannot be asked, or the output can't be written.
pub fn list_links() -> anyhow::Result<ExitCode> {
    let mut names = registry::<LinkProtocol>().running_names();
    names.sort();
    for name in names {
        // One that has just ended is left out.
        let Ok(Document { up, down, .. }) = request_document(&name, &Request::Show) else { continue };
        let settings = match up.settings == down.settings {
            true => up.settings,
            false => format!("up: {}; down: {}", up.settings, down.settings),
        };
        writeln!(StandardOutput, "{name}  {} {}  {settings}", up.from, up.to)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints a line for each interval of a running link, until it ends or a signal comes.
fn show_lines(name: &str) -> anyhow::Result<()> {
    let stop = signals::termination_flag().context("cannot listen for Ctrl-C")?;
    let mut last = None;
    while !stop.load(Ordering::Relaxed) {
        let recent = request_document(name, &Request::Recent)?;
        if recent.covers == ReportSpan::Interval && last.as_ref() != Some(&recent.time) {
            writeln!(StandardOutput, "{}", recent.summary_line())?;
            StandardOutput.flush()?;
            last = Some(recent.time);
        }
        thread::sleep(POLL_INTERVAL);
    }
    Ok(())
}

fn request_snapshot(name: &str) -> anyhow::Result<LinkSnapshot> {
    Ok(LinkSnapshot {
        recent: request_document(name, &Request::Recent)?,
        total: request_document(name, &Request::Show)?,
    })
}

fn request_document(name: &str, request: &Request) -> anyhow::Result<Document> {
    match registry::<LinkProtocol>().send_request(name, request).map_err(|error| LINK.explain(error))? {
        Reply::Shown { document } => {
            serde_json::from_value(document).context("the running link belongs to another version of kumade")
        }
        Reply::Refused { reason } => anyhow::bail!("{reason}"),
        Reply::Done { .. } => anyhow::bail!("unexpected answer of the running link: use the same version of kumade"),
    }
}
