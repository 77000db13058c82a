//! Text in lines of limited width, in which a number is never parted from its unit.

/// Units, and what else belongs to the number before it.
const NON_BREAKING_UNITS: &[&str] = &[
    "bit/s", "kbit/s", "Mbit/s", "Gbit/s", "B", "kB", "MB", "bytes", "ns", "µs", "ms", "s", "min", "%", "ppm",
    "packets",
];
/// What belongs to the number behind it.
const NON_BREAKING_SIGNS: &[&str] = &["≥", "≤", "±", "→", "…"];

/// The text in lines of at most so many columns, unless a single word is longer.
pub fn wrap_text(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for unit in split_words(text) {
        match lines.last_mut() {
            Some(line) if display_width(line) + 1 + display_width(&unit) <= width => {
                line.push(' ');
                line.push_str(&unit);
            }
            _ => lines.push(unit),
        }
    }
    lines
}

/// The text, in which each line of more columns goes on in the next one, two further to the right.
#[cfg(target_os = "linux")]
pub fn fit_lines(text: &str, width: usize) -> String {
    let fit = |line: &str| {
        if display_width(line) <= width {
            return line.to_owned();
        }
        let bare = line.trim_start();
        let indent = &line[..line.len() - bare.len()];
        let parts = wrap_text(bare, width.saturating_sub(indent.len() + 2));
        format!("{indent}{}", parts.join(&format!("\n{indent}  ")))
    };
    text.lines().map(fit).collect::<Vec<_>>().join("\n")
}

/// As [`wrap_text`], with `first` before the first line, and the others indented as far.
pub fn wrap_hanging(first: &str, text: &str, width: usize) -> Vec<String> {
    let indent = display_width(first);
    let lines = wrap_text(text, width.saturating_sub(indent)).into_iter().enumerate();
    lines.map(|(i, line)| if i == 0 { format!("{first}{line}") } else { " ".repeat(indent) + &line }).collect()
}

/// Width of a text without control characters and wide ones.
pub fn display_width(text: &str) -> usize {
    text.chars().count()
}

/// Words, each number with its sign and unit.
fn split_words(text: &str) -> Vec<String> {
    let mut units: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let bare = word.trim_end_matches([',', '.', ';', ':', ')']);
        let joins = |before: &String| {
            let last = before.rsplit(' ').next().unwrap_or_default();
            let is_number = last.trim_start_matches(['(', '±', '+', '-']).starts_with(|c: char| c.is_ascii_digit());
            (NON_BREAKING_UNITS.contains(&bare) && is_number && !last.ends_with(','))
                || NON_BREAKING_SIGNS.contains(&last)
        };
        match units.last_mut() {
            Some(before) if joins(before) => {
                before.push(' ');
                before.push_str(word);
            }
            _ => units.push(word.to_owned()),
        }
    }
    units
}

/// Lines of labels and cells below headings, aligned, in at most so many columns: cells that are too wide for that go on in
/// the next line.
pub struct TextGrid {
    /// The first row has the headings.
    rows: Vec<(String, Vec<String>)>,
}

/// Columns between two cells.
const CELL_SPACING: usize = 2;

impl TextGrid {
    /// With these headings.
    pub fn new(headings: &[&str]) -> Self {
        TextGrid { rows: vec![(String::new(), headings.iter().map(|&heading| heading.to_owned()).collect())] }
    }

    /// Adds a row.
    pub fn push_row(&mut self, label: &str, cells: Vec<String>) {
        self.rows.push((label.to_owned(), cells));
    }

    /// Its lines; `paint` gets the number of the row, that of the cell (0 is the label), and the padded text.
    pub fn wrapped_lines(&self, width: usize, paint: impl Fn(usize, usize, String) -> String) -> Vec<String> {
        let count = self.rows.iter().map(|(_, cells)| cells.len()).max().unwrap_or_default();
        let label = self.rows.iter().map(|(label, _)| display_width(label)).max().unwrap_or_default();
        let room = width.saturating_sub(label + count * CELL_SPACING) / count.max(1);
        let wrapped = |(_, cells): &(String, Vec<String>)| -> Vec<Vec<String>> {
            cells.iter().map(|cell| wrap_text(cell, room)).collect()
        };
        let rows: Vec<Vec<Vec<String>>> = self.rows.iter().map(wrapped).collect();
        let widest = |column: usize| {
            let parts = rows.iter().filter_map(|cells| cells.get(column)).flatten();
            parts.map(|part| display_width(part)).max().unwrap_or_default()
        };
        let widths: Vec<usize> = (0..count).map(widest).collect();
        let mut lines = Vec::new();
        for (row, ((name, _), cells)) in self.rows.iter().zip(&rows).enumerate() {
            for i in 0..cells.iter().map(Vec::len).max().unwrap_or(1) {
                let name = if i == 0 { name.as_str() } else { "" };
                let mut line = paint(row, 0, pad_text(name, label));
                for (column, (cell, &width)) in cells.iter().zip(&widths).enumerate() {
                    line.push_str(&" ".repeat(CELL_SPACING));
                    line.push_str(&paint(row, column + 1, pad_text(cell.get(i).map_or("", String::as_str), width)));
                }
                lines.push(line.trim_end().to_owned());
            }
        }
        lines
    }
}

fn pad_text(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(display_width(text))))
}

/// Values as bars of eight heights, the highest value as the highest bar; those that are missing as a space.
pub fn sparkline(values: impl Iterator<Item = Option<f64>> + Clone) -> String {
    const SPARKLINE_BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = values.clone().flatten().fold(0.0, f64::max);
    let bar = |value: f64| SPARKLINE_BARS[if most > 0.0 { (value / most * 7.0).round() as usize } else { 0 }.min(7)];
    values.map(|value| value.map_or(' ', bar)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Finding 6 of the review by a new user: at width 60, numbers were broken.
    #[test]
    fn numbers_stay_with_their_units() {
        let text =
            "minimum 15.1 ms ±1 ms, above minimum: median 100 µs (95 %: 94.1 Mbit/s … 94.5 Mbit/s), ≥ 2.8 Gbit/s";
        for width in 18..120 {
            let lines = wrap_text(text, width);
            assert!(lines.iter().all(|line| display_width(line) <= width), "{width}: {lines:?}");
            for number in ["15.1 ms", "±1 ms,", "100 µs", "(95 %:", "94.1 Mbit/s", "94.5 Mbit/s),", "≥ 2.8 Gbit/s"]
            {
                assert!(lines.iter().any(|line| line.contains(number)), "{width}: {number} in {lines:?}");
            }
        }
    }

    #[test]
    fn long_lines_go_on_indented() {
        let text = "up\n  offered 67 bit/s, delivered 1.5 Mbit/s, backlog 0 bytes";
        let lines = "up\n  offered 67 bit/s,\n    delivered 1.5 Mbit/s,\n    backlog 0 bytes";
        assert_eq!(fit_lines(text, 30), lines);
        assert_eq!(fit_lines(text, usize::MAX), text);
        // `kumade link show` broke the line behind the 0.
        assert!(fit_lines(text, 54).ends_with("backlog\n    0 bytes"), "{}", fit_lines(text, 54));
    }

    #[test]
    fn cells_are_aligned_and_go_on_below() {
        let mut grid = TextGrid::new(&["up", "down"]);
        grid.push_row("available", vec!["18.2 Mbit/s ±2 %".into(), "94.1 Mbit/s".into()]);
        let lines = |width| grid.wrapped_lines(width, |_, _, text| text);
        assert_eq!(lines(60), ["           up                down", "available  18.2 Mbit/s ±2 %  94.1 Mbit/s"]);
        let narrow = ["           up           down", "available  18.2 Mbit/s  94.1 Mbit/s", "           ±2 %"];
        assert_eq!(lines(37), narrow);
    }

    #[test]
    fn a_sparkline_has_its_highest_bar_at_the_highest_value() {
        assert_eq!(sparkline([Some(1.0), None, Some(8.0), Some(4.0)].into_iter()), "▂ █▅");
        assert_eq!(sparkline([Some(0.0)].into_iter()), "▁");
    }

    proptest! {
        #[test]
        fn wrapping_keeps_every_word(words in prop::collection::vec("[a-z0-9%≥±]{1,9}", 0..40), width in 1_usize..90) {
            let text = words.join(" ");
            prop_assert_eq!(wrap_text(&text, width).join(" "), text);
        }
    }
}
