//! The output of a running link.

use super::live::{LinkSnapshot, draw};
use crate::live::history::History;
use crate::live::screen::{Input, Screen};
use crate::output::StandardOutput;
use kumade_daemon::signals::DaemonSignals;
use kumade_emulator::report::Document;
use kumade_net::clock;
use kumade_units::Span;
use std::io::{self, IsTerminal, Write};
use std::mem;
use std::time::{Duration, Instant};

/// Maximum time until a live view notices that the link has ended, besides keys.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkOutput {
    /// On a terminal a live view; elsewhere a line for each interval; totals at the end.
    Text,
    /// One JSON document at the end.
    Document,
    /// A line of JSON for each interval, and one with totals at the end.
    Stream,
}

/// The output of a running link.
pub enum LinkView {
    /// The whole terminal.
    Live(Box<LiveView>),
    /// A line for each interval of each link.
    Lines {
        /// Whether there are several links, so that each line begins with the name of one.
        has_names: bool,
    },
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
    history: Option<History<LinkSnapshot>>,
    /// The last that was said beside the statistics.
    warning: Option<String>,
    /// Whether the terminal shows something else, or has another size.
    is_stale: bool,
}

impl LinkView {
    /// An output of so many links, without content yet; `has_screen` says whether [`Screen::is_available`] for the only one.
    ///
    /// # Errors
    /// If the terminal can't be used.
    pub fn new(output: LinkOutput, links: usize, has_screen: bool) -> anyhow::Result<Self> {
        Ok(match output {
            LinkOutput::Text if has_screen => LinkView::Live(Box::new(LiveView {
                screen: Screen::open()?,
                history: None,
                warning: None,
                is_stale: true,
            })),
            LinkOutput::Text if io::stdout().is_terminal() => LinkView::Quiet,
            LinkOutput::Text => LinkView::Lines { has_names: links > 1 },
            LinkOutput::Document => LinkView::Document,
            LinkOutput::Stream => LinkView::Stream,
        })
    }

    /// Shows the statistics of an interval, and of all since the start.
    ///
    /// # Errors
    /// If standard output can't be written.
    pub fn show_interval(&mut self, recent: Document, total: impl FnOnce() -> Document) -> io::Result<()> {
        match self {
            LinkView::Live(live) => live.push(LinkSnapshot { recent, total: total() }),
            LinkView::Lines { has_names } => {
                let mut out = StandardOutput;
                let name = if *has_names { format!("{}  ", recent.name) } else { String::new() };
                writeln!(out, "{name}{}", recent.summary_line())?;
                out.flush()?;
            }
            LinkView::Quiet | LinkView::Document => {}
            LinkView::Stream => print_line(&recent)?,
        }
        Ok(())
    }

    /// Waits until that time, or until something else is to be done; whether the user wants the link to end.
    ///
    /// # Errors
    /// The system refuses to wait.
    pub fn wait(&mut self, until: Instant, signals: &DaemonSignals) -> io::Result<bool> {
        let LinkView::Live(live) = self else {
            let left = until.saturating_duration_since(Instant::now());
            signals.wait(clock::monotonic() + Span::from(left))?;
            return Ok(false);
        };
        match live.wait(until.min(Instant::now() + POLL_INTERVAL), signals) {
            Ok(is_ended) => Ok(is_ended),
            // The link goes on.
            Err(error) => {
                *self = LinkView::Quiet;
                tracing::warn!("no more is shown: {error:#}");
                Ok(false)
            }
        }
    }

    /// Says something beside the statistics.
    pub fn warn(&mut self, text: String) {
        match self {
            LinkView::Live(live) => {
                live.warning = Some(text);
                live.is_stale = true;
            }
            _ => tracing::warn!("{text}"),
        }
    }

    /// Shows the totals of the links, which have ended.
    ///
    /// # Errors
    /// If standard output can't be written.
    pub fn finish(self, totals: &[Document]) -> io::Result<()> {
        match self {
            LinkView::Document | LinkView::Stream => return totals.iter().try_for_each(print_line),
            LinkView::Live(live) => {
                let LiveView { screen, warning, .. } = *live;
                drop(screen);
                warning.iter().for_each(|text| tracing::warn!("{text}"));
            }
            LinkView::Lines { .. } | LinkView::Quiet => {}
        }
        for total in totals {
            if totals.len() > 1 {
                writeln!(StandardOutput, "{}:", total.name)?;
            }
            writeln!(StandardOutput, "{total}")?;
        }
        Ok(())
    }
}

impl LiveView {
    fn push(&mut self, seen: LinkSnapshot) {
        self.is_stale = true;
        match &mut self.history {
            Some(history) => history.push(seen),
            None => self.history = Some(History::new(seen)),
        }
    }

    fn wait(&mut self, until: Instant, signals: &DaemonSignals) -> anyhow::Result<bool> {
        loop {
            let LiveView { screen, history, warning, is_stale } = self;
            if let (Some(history), true) = (history, mem::take(is_stale)) {
                screen.draw(|frame| draw(frame, history, warning.as_deref(), "Ctrl-C stops the link"))?;
            }
            match screen.wait(until, signals.end_flag())? {
                Some(Input::Interrupt) => return Ok(true),
                Some(Input::Resize) => *is_stale = true,
                Some(Input::Quit) => {}
                None => return Ok(signals.is_end_requested()),
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
