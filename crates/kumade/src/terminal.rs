//! What standard output is: its width, and whether it takes colour.

#[cfg(target_os = "linux")]
use crate::text;
use clap::ValueEnum;
use console::{Style, Term};
use std::env;
use std::io::{self, IsTerminal};

/// Width of lines where standard output is no terminal.
const DEFAULT_WIDTH: usize = 80;

/// When to print in colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ColorWhen {
    /// If standard output is a terminal, NO_COLOR is not set and TERM is not dumb
    Auto,
    /// Also into pipes and files
    Always,
    /// Not at all
    Never,
}

/// The styles of what is printed, which are plain where colour is not wanted.
#[derive(Debug, Clone)]
pub struct Styles {
    /// What names a value.
    pub label: Style,
    /// A value that answers the question.
    pub value: Style,
    /// A missing value, or a fault.
    pub fault: Style,
    /// What limits a value.
    pub warning: Style,
    /// The conclusion.
    pub conclusion: Style,
}

impl Styles {
    /// Those for standard output.
    pub fn new(when: ColorWhen) -> Self {
        let is_set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = env::var_os("TERM").is_some_and(|term| term == "dumb");
        let colored = match when {
            ColorWhen::Auto => {
                // Consoles of Windows have to be switched to colours, which asking does.
                let is_switched = || cfg!(not(windows)) || Term::stdout().features().colors_supported();
                io::stdout().is_terminal() && !is_set("NO_COLOR") && !is_dumb && is_switched()
            }
            ColorWhen::Always => true,
            ColorWhen::Never => false,
        };
        let style = || Style::new().force_styling(colored);
        Styles {
            label: style().dim(),
            value: style().green(),
            fault: style().red(),
            warning: style().yellow(),
            conclusion: style().bold(),
        }
    }
}

/// A text of many lines as it fits standard output, if that is a terminal.
#[cfg(target_os = "linux")]
pub fn fit_to_terminal(text: &str) -> String {
    text::fit_lines(text, line_width())
}

/// The columns that a line may have where a reader of lines, such as `grep`, wants each whole.
pub fn line_width() -> usize {
    if io::stdout().is_terminal() { terminal_width() } else { usize::MAX }
}

/// The width of standard output in columns.
pub fn terminal_width() -> usize {
    Term::stdout().size_checked().map_or(DEFAULT_WIDTH, |(_, columns)| usize::from(columns).max(20))
}
