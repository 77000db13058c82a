//! Where two reports of one experiment differ: those on fairness by what their rows come to, with intervals, all others row by row.

use crate::error::ReportError;
use crate::fairness::{self, FairnessReport};
use crate::report::{Table, align_columns, three_digits};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The last columns that say which run a row is of; those before them say so too.
const LAST_KEYS: [&str; 2] = ["run", "seed"];

/// Compares the reports in these directories, or these two `report.json`: as text for a terminal.
///
/// # Errors
/// One cannot be read, or they are of different kinds or columns.
pub fn compare_reports(one: &Path, other: &Path) -> Result<String, ReportError> {
    let (one, other) = (ReportFile::read(one)?, ReportFile::read(other)?);
    if one.head.schema != other.head.schema {
        let described = [&one, &other].map(|file| format!("{} is of {}", file.path.display(), file.head.schema));
        return Err(ReportError::Incomparable { reason: described.join(", and ") });
    }
    if one.head.schema == FairnessReport::SCHEMA {
        return Ok(fairness::compare(&FairnessReport::from_json(&one.text)?, &FairnessReport::from_json(&other.text)?));
    }
    let names = [&one, &other].map(|file| file.head.experiment.as_str());
    compare_rows(names, [&one.rows()?, &other.rows()?]).map_err(|reason| ReportError::Incomparable { reason })
}

/// The beginning of a document, whatever its kind.
#[derive(Deserialize)]
struct ReportHead {
    schema: String,
    experiment: String,
}

struct ReportFile {
    path: PathBuf,
    text: String,
    head: ReportHead,
}

impl ReportFile {
    fn read(path: &Path) -> Result<Self, ReportError> {
        let path = if path.is_dir() { path.join("report.json") } else { path.to_owned() };
        let text = read_text(&path)?;
        let is_report = |head: &ReportHead| head.schema.starts_with("kumade.lab");
        match serde_json::from_str(&text).ok().filter(is_report) {
            Some(head) => Ok(ReportFile { path, text, head }),
            None => Err(ReportError::Incomparable { reason: format!("{} is no report of kumade lab", path.display()) }),
        }
    }

    fn rows(&self) -> Result<String, ReportError> {
        read_text(&self.path.with_extension("csv"))
    }
}

fn read_text(path: &Path) -> Result<String, ReportError> {
    kumade_files::read_text(path).map_err(|cause| ReportError::Unreadable { path: path.to_owned(), cause })
}

/// The columns behind the key, of each run once; several rows of one run have numbers.
struct Rows {
    names: Vec<String>,
    key_length: usize,
    lines: BTreeMap<(Vec<String>, usize), Vec<String>>,
}

impl Rows {
    fn read(csv: &str) -> Result<Self, csv::Error> {
        let mut reader = csv::Reader::from_reader(csv.as_bytes());
        let names: Vec<_> = reader.headers()?.iter().map(str::to_owned).collect();
        let key_length = names.iter().rposition(|name| LAST_KEYS.contains(&&**name)).map_or(0, |last| last + 1);
        let (mut counts, mut lines) = (BTreeMap::new(), BTreeMap::new());
        for record in reader.records() {
            let mut line: Vec<_> = record?.iter().map(str::to_owned).collect();
            let values = line.split_off(key_length.min(line.len()));
            let count = counts.entry(line.clone()).or_insert(0_usize);
            *count += 1;
            lines.insert((line, *count), values);
        }
        Ok(Rows { names, key_length, lines })
    }
}

fn compare_rows(experiments: [&str; 2], texts: [&str; 2]) -> Result<String, String> {
    let [one, other] = texts.map(|text| Rows::read(text).map_err(|error| error.to_string()));
    let (one, other) = (one?, other?);
    if one.names != other.names {
        return Err("their rows have different columns: they are of different versions of kumade".to_owned());
    }
    let pairs: Vec<_> = one.lines.iter().filter_map(|(key, line)| Some((line, other.lines.get(key)?))).collect();
    if pairs.is_empty() {
        let key = one.names[..one.key_length].join(", ");
        return Err(format!("they have no run in common, by {key}"));
    }
    let columns = one.names.iter().enumerate().skip(one.key_length);
    let differences = columns.filter_map(|(place, name)| column_difference(name, place - one.key_length, &pairs));
    let headings = ["column", "rows that differ", "mean", "other", "largest difference"].map(str::to_owned).to_vec();
    let table = Table {
        caption: format!(
            "{} against {}: columns that differ in {} rows of both",
            experiments[0],
            experiments[1],
            pairs.len()
        ),
        columns: headings,
        rows: differences.collect(),
    };
    let mut text = match table.rows.len() {
        0 => format!("{} against {}: {} rows of both are the same\n", experiments[0], experiments[1], pairs.len()),
        _ => align_columns(&table),
    };
    let alone = [one.lines.len() - pairs.len(), other.lines.len() - pairs.len()];
    if alone != [0, 0] {
        text += &format!("\nRows of one report alone: {} of the first, {} of the second.\n", alone[0], alone[1]);
    }
    Ok(text)
}

/// A line of the table; none where no row differs. What are no numbers is counted alone.
fn column_difference(name: &str, place: usize, pairs: &[(&Vec<String>, &Vec<String>)]) -> Option<Vec<String>> {
    let cells = || pairs.iter().filter_map(|(one, other)| Some((one.get(place)?, other.get(place)?)));
    let count = cells().filter(|(one, other)| one != other).count();
    if count == 0 {
        return None;
    }
    let numbers: Vec<(f64, f64)> =
        cells().filter_map(|(one, other)| Some((one.parse().ok()?, other.parse().ok()?))).collect();
    let mut line = vec![name.to_owned(), count.to_string()];
    if numbers.is_empty() {
        line.extend([const { "–" }; 3].map(str::to_owned));
    } else {
        let mean = |of: fn(&(f64, f64)) -> f64| numbers.iter().map(of).sum::<f64>() / numbers.len() as f64;
        let largest = numbers.iter().map(|(one, other)| other - one).max_by(|a, b| a.abs().total_cmp(&b.abs()));
        line.extend([mean(|pair| pair.0), mean(|pair| pair.1), largest.unwrap_or_default()].map(three_digits));
    }
    Some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: &str = "case,run,rate,reason\na,1,10,\na,1,20,\na,2,30,late\nb,1,5,\n";

    #[test]
    fn rows_of_the_same_run_are_compared_in_whatever_order() {
        let other = "case,run,rate,reason\na,2,36,\na,1,10,\na,1,20,\n";
        let text = compare_rows(["x", "x"], [ROWS, other]).unwrap();
        let rate: Vec<_> = text.lines().find(|line| line.starts_with("rate")).unwrap().split_whitespace().collect();
        assert_eq!(rate, ["rate", "1", "20.0", "22.0", "6.00"]);
        assert!(text.lines().any(|line| line.starts_with("reason") && line.contains('1')), "{text}");
        assert!(text.contains("columns that differ in 3 rows of both"), "{text}");
        assert!(text.ends_with("Rows of one report alone: 1 of the first, 0 of the second.\n"), "{text}");
        assert_eq!(compare_rows(["x", "y"], [ROWS, ROWS]).unwrap(), "x against y: 4 rows of both are the same\n");
    }

    #[test]
    fn what_has_nothing_in_common_is_refused() {
        let refused = |other: &str| compare_rows(["x", "x"], [ROWS, other]).unwrap_err();
        assert!(refused("case,run,rate\na,1,10\n").contains("different columns"));
        assert!(refused("case,run,rate,reason\nc,1,10,\n").ends_with("no run in common, by case, run"));
    }
}
