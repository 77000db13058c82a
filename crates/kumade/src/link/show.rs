use emulator::report::Document;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{self, Write};

/// For whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// The present statistics on standard error where that is a terminal, and all of it at the end.
    People,
    /// One JSON document at the end.
    Document,
    /// A line of JSON for each interval and one at the end.
    Stream,
}

/// What is seen of a running link.
pub struct View {
    output: Output,
    /// Lines that replace each other.
    lines: ProgressBar,
}

impl View {
    /// One that shows nothing yet.
    pub fn new(output: Output) -> Self {
        let lines = if output == Output::People { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
        if let Ok(style) = ProgressStyle::with_template("{msg}") {
            lines.set_style(style);
        }
        View { output, lines }
    }

    /// An interval has ended.
    pub fn interval(&mut self, document: &Document) -> io::Result<()> {
        match self.output {
            Output::People => self.lines.set_message(document.to_string()),
            Output::Document => {}
            Output::Stream => print_line(document)?,
        }
        Ok(())
    }

    /// The link has ended, with these totals.
    pub fn end(&mut self, total: &Document) -> io::Result<()> {
        self.lines.finish_and_clear();
        match self.output {
            Output::People => writeln!(io::stdout(), "{total}"),
            Output::Document | Output::Stream => print_line(total),
        }
    }
}

fn print_line(document: &Document) -> io::Result<()> {
    let line = serde_json::to_string(document)?;
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}
