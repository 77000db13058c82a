//! A report as text for a terminal.

use super::content::ReportContent;
use super::table::Table;
use std::fmt::Write;

/// Of what is published, and of questions that papers leave open.
const STATEMENTS_HEADING: &str = "What the paper states, or leaves open";

/// The complete text.
pub(crate) fn render(content: &ReportContent<'_>) -> String {
    let mut text = format!("{}: {}\n{}\n", content.head.experiment, content.head.title, content.setting);
    if let Some(paper) = &content.paper {
        let _ = writeln!(text, "paper: {paper}");
    }
    for table in &content.tables {
        text.push('\n');
        text.push_str(&align_columns(table));
    }
    let lists =
        [(STATEMENTS_HEADING, &content.statements), ("Verdict", &content.conclusions), ("Notes", &content.notes)];
    for (heading, lines) in lists {
        if !lines.is_empty() {
            let _ = writeln!(text, "\n{heading}\n- {}", lines.join("\n- "));
        }
    }
    printable(&text)
}

/// The text without control characters, which would command a terminal; lines and columns stay.
pub fn printable(text: &str) -> String {
    let is_shown = |c: char| !c.is_control() || matches!(c, '\n' | '\t');
    text.chars().map(|c| if is_shown(c) { c } else { char::REPLACEMENT_CHARACTER }).collect()
}

/// Columns as wide as their widest cell; numbers to the right, words to the left.
pub(crate) fn align_columns(table: &Table) -> String {
    let width = |text: &str| text.chars().count();
    let of_column = |i: usize| table.rows.iter().map(move |row| row[i].as_str());
    let columns: Vec<_> = (0..table.columns.len())
        .map(|i| {
            let widest = of_column(i).map(width).max().unwrap_or(0).max(width(&table.columns[i]));
            (widest, table.is_text_column(&i))
        })
        .collect();
    let line = |cells: &[String]| {
        let padded = cells.iter().zip(&columns).map(|(cell, &(widest, words))| {
            let padding = " ".repeat(widest - width(cell));
            if words { format!("{cell}{padding}") } else { format!("{padding}{cell}") }
        });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let mut text = format!("{}\n\n{}\n", table.caption, line(&table.columns));
    let rule: Vec<_> = columns.iter().map(|&(widest, _)| "─".repeat(widest)).collect();
    let _ = writeln!(text, "{}", rule.join("  "));
    for row in &table.rows {
        let _ = writeln!(text, "{}", line(row));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_cannot_command_the_terminal() {
        assert_eq!(printable("a\u{1b}[2J\tb\n\u{9b}c\r"), "a\u{fffd}[2J\tb\n\u{fffd}c\u{fffd}");
    }
}
