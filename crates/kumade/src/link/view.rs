//! The output of a running link.

use super::live::{Seen, draw};
use crate::live::history::History;
use crate::live::screen::{Input, Screen};
use crate::output::StandardOutput;
use kumade_emulator::report::Document;
use std::io::{self, IsTerminal, Write};
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

/// Output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// On a terminal a live view; elsewhere a line for each interval; totals at the end.
    Text,
    /// One JSON document at the end.
    Document,
    /// A line of JSON for each interval, and one with totals at the end.
    Stream,
}

/// The output of a running link.
pub enum View {
    /// The whole terminal.
    Live(Box<LiveView>),
    /// A line for each interval.
    Lines,
    /// Nothing before the end: the terminal is used by another process, such as the shell.
    Quiet,
    /// One JSON document at the end.
    Document,
    /// JSON lines.
    Stream,
}

/// The terminal, and what it shows.
pub struct LiveView {
    screen: Screen,
    history: Option<History<Seen>>,
    /// The last that was said beside the statistics.
    warning: Option<String>,
    /// Whether the terminal shows something else, or has another size.
    is_stale: bool,
}

impl View {
    /// An output without content yet; `has_screen` says whether [`Screen::is_available`].
    ///
    /// # Errors
    /// If the terminal can't be used.
    pub fn new(output: Output, has_screen: bool) -> anyhow::Result<Self> {
        Ok(match output {
            Output::Text if has_screen => {
                View::Live(Box::new(LiveView { screen: Screen::open()?, history: None, warning: None, is_stale: true }))
            }
            Output::Text if io::stdout().is_terminal() => View::Quiet,
            Output::Text => View::Lines,
            Output::Document => View::Document,
            Output::Stream => View::Stream,
        })
    }

    /// Shows the statistics of an interval, and of all since the start.
    ///
    /// # Errors
    /// If standard output can't be written.
    pub fn interval(&mut self, recent: Document, total: impl FnOnce() -> Document) -> io::Result<()> {
        match self {
            View::Live(live) => live.push(Seen { recent, total: total() }),
            View::Lines => {
                let mut out = StandardOutput;
                writeln!(out, "{}", recent.summary_line())?;
                out.flush()?;
            }
            View::Quiet | View::Document => {}
            View::Stream => print_line(&recent)?,
        }
        Ok(())
    }

    /// Waits until that time, or until a signal; whether the user wants the link to end.
    pub fn wait(&mut self, until: Instant, stop: &AtomicBool) -> bool {
        let View::Live(live) = self else {
            thread::sleep(until.saturating_duration_since(Instant::now()));
            return false;
        };
        match live.wait(until, stop) {
            Ok(is_ended) => is_ended,
            // The link goes on.
            Err(error) => {
                *self = View::Quiet;
                tracing::warn!("no more is shown: {error:#}");
                false
            }
        }
    }

    /// Says something beside the statistics.
    pub fn warn(&mut self, text: String) {
        match self {
            View::Live(live) => {
                live.warning = Some(text);
                live.is_stale = true;
            }
            _ => tracing::warn!("{text}"),
        }
    }

    /// Shows the totals of a link that has ended.
    ///
    /// # Errors
    /// If standard output can't be written.
    pub fn end(self, total: &Document) -> io::Result<()> {
        match self {
            View::Live(live) => {
                let LiveView { screen, warning, .. } = *live;
                drop(screen);
                warning.iter().for_each(|text| tracing::warn!("{text}"));
                writeln!(StandardOutput, "{total}")
            }
            View::Lines | View::Quiet => writeln!(StandardOutput, "{total}"),
            View::Document | View::Stream => print_line(total),
        }
    }
}

impl LiveView {
    fn push(&mut self, seen: Seen) {
        self.is_stale = true;
        match &mut self.history {
            Some(history) => history.push(seen),
            None => self.history = Some(History::new(seen)),
        }
    }

    fn wait(&mut self, until: Instant, stop: &AtomicBool) -> anyhow::Result<bool> {
        loop {
            let LiveView { screen, history, warning, is_stale } = self;
            if let (Some(history), true) = (history, mem::take(is_stale)) {
                screen.draw(|frame| draw(frame, history, warning.as_deref(), "Ctrl-C stops the link"))?;
            }
            match screen.wait(until, stop)? {
                Some(Input::Interrupt) => return Ok(true),
                Some(Input::Resize) => *is_stale = true,
                Some(Input::Quit) => {}
                None => return Ok(stop.load(Ordering::Relaxed)),
            }
        }
    }
}

fn print_line(document: &Document) -> io::Result<()> {
    let line = serde_json::to_string(document)?;
    let mut out = StandardOutput;
    writeln!(out, "{line}")?;
    out.flush()
}
