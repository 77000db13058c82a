use crate::output::StandardOutput;
use emulator::report::Document;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{self, Write};

/// Output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// Current statistics on standard error if it is a terminal, else a line on standard output for each interval; totals at
    /// the end.
    Text,
    /// One JSON document at the end.
    Document,
    /// A line of JSON for each interval, and one with totals at the end.
    Stream,
}

/// The output of a running link.
pub struct View {
    output: Output,
    /// Lines that are overwritten.
    lines: ProgressBar,
}

impl View {
    /// An output without content yet.
    pub fn new(output: Output) -> Self {
        let lines = if output == Output::Text { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
        if let Ok(style) = ProgressStyle::with_template("{msg}") {
            lines.set_style(style);
        }
        View { output, lines }
    }

    /// Shows the statistics of an interval.
    ///
    /// # Errors
    /// If standard output can't be written.
    pub fn interval(&mut self, document: &Document) -> io::Result<()> {
        match self.output {
            Output::Text if self.lines.is_hidden() => {
                let mut out = StandardOutput;
                writeln!(out, "{}", document.line())?;
                out.flush()?;
            }
            Output::Text => self.lines.set_message(document.to_string()),
            Output::Document => {}
            Output::Stream => print_line(document)?,
        }
        Ok(())
    }

    /// Shows the totals of a link that has ended.
    ///
    /// # Errors
    /// If standard output can't be written.
    pub fn end(&mut self, total: &Document) -> io::Result<()> {
        self.lines.finish_and_clear();
        match self.output {
            Output::Text => writeln!(StandardOutput, "{total}"),
            Output::Document | Output::Stream => print_line(total),
        }
    }
}

fn print_line(document: &Document) -> io::Result<()> {
    let line = serde_json::to_string(document)?;
    let mut out = StandardOutput;
    writeln!(out, "{line}")?;
    out.flush()
}
