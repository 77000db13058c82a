//! Tables, and values in them, for people.

use kumade_units::Rate;
use std::fmt::{self, Formatter};

/// What is not known.
pub const UNKNOWN_VALUE: &str = "–";

/// Lines of columns, each as wide as its longest cell. Each line begins with an end of line.
///
/// # Errors
/// The formatter's.
pub fn write_table<const N: usize>(
    f: &mut Formatter<'_>,
    indent: &str,
    heads: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
) -> fmt::Result {
    let rows: Vec<_> = [heads.map(str::to_owned)].into_iter().chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: [usize; N] = std::array::from_fn(width);
    for row in &rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        write!(f, "\n{indent}{}", line.trim_end())?;
    }
    Ok(())
}

/// The head of a column, and the cell of an item there.
pub type Column<T> = (&'static str, fn(&T) -> String);

/// A line for each item, as [`write_table`].
///
/// # Errors
/// The formatter's.
pub fn write_columns<'i, T: 'i, const N: usize>(
    f: &mut Formatter<'_>,
    indent: &str,
    columns: &[Column<T>; N],
    items: impl Iterator<Item = &'i T>,
) -> fmt::Result {
    write_table(f, indent, columns.map(|(head, _)| head), items.map(|item| columns.map(|(_, cell)| cell(item))))
}

/// For people; a dash where it is not known.
pub fn format_known(value: Option<impl ToString>) -> String {
    value.map_or_else(|| UNKNOWN_VALUE.to_owned(), |value| value.to_string())
}

/// For people; a dash where it is not known.
pub fn format_rate(bits_per_second: Option<f64>) -> String {
    format_known(bits_per_second.map(Rate::from_f64))
}

/// A ratio for people: `12.3 %`; a dash where it is not known.
pub fn format_percent(ratio: Option<f64>) -> String {
    match ratio.map(|ratio| ratio * 100.0) {
        None => UNKNOWN_VALUE.to_owned(),
        Some(percent) if percent > 0.0 && percent < 0.095 => format!("{percent:.2} %"),
        Some(percent) => format!("{percent:.1} %"),
    }
}

/// How long something has lasted, in its two largest units: `3 d 4 h`, `2 min 5 s`.
pub fn format_age(seconds: f64) -> String {
    let seconds = seconds.max(0.0) as u64;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_ratios_are_told_in_units_that_fit() {
        assert_eq!([0.9, 61.0, 3661.0, 90_000.0].map(format_age), ["0 s", "1 min 1 s", "1 h 1 min", "1 d 1 h"]);
        assert_eq!(
            [None, Some(0.0), Some(0.0004), Some(0.523)].map(format_percent),
            ["–", "0.0 %", "0.04 %", "52.3 %"]
        );
    }
}
