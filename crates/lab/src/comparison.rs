//! Where two reports of one experiment differ: those on fairness by what their rows come to, with intervals, all others row by row.

use crate::error::ReportError;
use crate::fairness::{self, FairnessReport};
use crate::report::{Table, align_columns, three_digits};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The columns of each kind that say which run, and what of it, a row is of, by its schema: also of kinds that this system does not run.
const KEYS: [(&str, &str); 9] = [
    (
        "kumade.lab/1",
        "bottleneck_bits_per_second burst_bytes peak_bits_per_second downstream_bits_per_second downstream_cross_bits_per_second \
         downstream_cross_kind cross_bits_per_second cross_kind transport method direction run",
    ),
    ("kumade.lab.contention/1", "case discipline run seed"),
    ("kumade.lab.multipath/1", "case contender run"),
    ("kumade.lab.nat-session/1", "case run flow"),
    ("kumade.lab.path-atlas/1", "kind transport seed"),
    ("kumade.lab.kernel-paths/1", "kind transport seed"),
    ("kumade.lab.fast-links/1", "bottleneck_bits_per_second mtu_bytes cross_bits_per_second transport run"),
    ("kumade.lab.path-treatment/1", "case version loss_ratio run"),
    ("kumade.lab.monitor-mesh/1", "from to"),
];

fn keys_of(schema: &str) -> Option<&'static str> {
    KEYS.iter().find(|(known, _)| *known == schema).map(|(_, keys)| *keys)
}

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
    let names = [&one, &other].map(|file| file.head.experiment.as_str());
    let others = if names[0] == names[1] {
        String::new()
    } else {
        format!("Of different experiments: {} and {}.\n\n", names[0], names[1])
    };
    if one.head.schema == FairnessReport::SCHEMA {
        let compared =
            fairness::compare(&FairnessReport::from_json(&one.text)?, &FairnessReport::from_json(&other.text)?);
        return Ok(others + &compared);
    }
    let incomparable = |reason| ReportError::Incomparable { reason };
    let unknown = || incomparable(format!("this version of kumade does not know {}", one.head.schema));
    let keys = keys_of(&one.head.schema).ok_or_else(unknown)?;
    let paths = [&one, &other].map(|file| file.path.display().to_string());
    let compared = compare_rows([&paths[0], &paths[1]], [&one.rows()?, &other.rows()?], keys).map_err(incomparable)?;
    Ok(others + &compared + &one.describe_further_tables())
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

    /// Which tables lie beside the rows and are not compared.
    fn describe_further_tables(&self) -> String {
        let rows = self.path.with_extension("csv");
        let files =
            self.path.parent().and_then(|directory| fs::read_dir(directory).ok()).into_iter().flatten().flatten();
        let paths = files.map(|file| file.path()).filter(|path| *path != rows);
        let tables = paths.filter(|path| path.extension().is_some_and(|extension| extension == "csv"));
        let mut names: Vec<_> =
            tables.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned())).collect();
        names.sort();
        if names.is_empty() { String::new() } else { format!("\nNot compared: {}.\n", names.join(", ")) }
    }
}

fn read_text(path: &Path) -> Result<String, ReportError> {
    kumade_files::read_text(path).map_err(|cause| ReportError::Unreadable { path: path.to_owned(), cause })
}

/// The columns behind the key, of each run once; several rows of one key have numbers.
struct Rows {
    names: Vec<String>,
    is_key: Vec<bool>,
    lines: BTreeMap<(Vec<String>, usize), Vec<String>>,
}

impl Rows {
    fn read(csv: &str, keys: &str) -> Result<Self, csv::Error> {
        let mut reader = csv::Reader::from_reader(csv.as_bytes());
        let names: Vec<_> = reader.headers()?.iter().map(str::to_owned).collect();
        let is_key: Vec<_> = names.iter().map(|name| keys.split_whitespace().any(|key| key == name)).collect();
        let (mut counts, mut lines) = (BTreeMap::new(), BTreeMap::new());
        for record in reader.records() {
            let record = record?;
            let part = |is_wanted: bool| {
                let cells = record.iter().zip(&is_key).filter(move |(_, is_key)| **is_key == is_wanted);
                cells.map(|(cell, _)| cell.to_owned()).collect::<Vec<_>>()
            };
            let key = part(true);
            let count = counts.entry(key.clone()).or_insert(0_usize);
            *count += 1;
            lines.insert((key, *count), part(false));
        }
        Ok(Rows { names, is_key, lines })
    }
}

fn compare_rows(reports: [&str; 2], texts: [&str; 2], keys: &str) -> Result<String, String> {
    let [one, other] = texts.map(|text| Rows::read(text, keys).map_err(|error| error.to_string()));
    let (one, other) = (one?, other?);
    if one.names != other.names {
        return Err("their rows have different columns: they are of different versions of kumade".to_owned());
    }
    let pairs: Vec<_> = one.lines.iter().filter_map(|(key, line)| Some((line, other.lines.get(key)?))).collect();
    if pairs.is_empty() {
        return Err(format!(
            "they have no run in common, by {}",
            keys.split_whitespace().collect::<Vec<_>>().join(", ")
        ));
    }
    let columns = one.names.iter().zip(&one.is_key).filter(|(_, is_key)| !**is_key);
    let differences = columns.enumerate().filter_map(|(place, (name, _))| column_difference(name, place, &pairs));
    let against = format!("{} against {}", reports[0], reports[1]);
    let headings = ["column", "rows that differ", "empty in one", "mean", "other", "largest difference"];
    let table = Table {
        caption: format!("{against}: columns that differ in {} rows of both", pairs.len()),
        columns: headings.map(str::to_owned).to_vec(),
        rows: differences.collect(),
    };
    let mut text = match table.rows.len() {
        0 => format!("{against}: {} rows of both are the same\n", pairs.len()),
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
    let empty_in_one = cells().filter(|(one, other)| one.is_empty() != other.is_empty()).count();
    let numbers: Vec<(f64, f64)> =
        cells().filter_map(|(one, other)| Some((one.parse().ok()?, other.parse().ok()?))).collect();
    let mut line = vec![name.to_owned(), count.to_string(), empty_in_one.to_string()];
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
    const ROW_KEYS: &str = "case run";

    #[test]
    fn rows_of_the_same_run_are_compared_in_whatever_order() {
        let other = "case,run,rate,reason\na,2,36,\na,1,10,\na,1,20,\n";
        let text = compare_rows(["x", "x"], [ROWS, other], ROW_KEYS).unwrap();
        let line = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(name)).unwrap();
            line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(line("rate"), ["rate", "1", "0", "20.0", "22.0", "6.00"]);
        assert_eq!(line("reason"), ["reason", "1", "1", "–", "–", "–"]);
        assert!(text.contains("columns that differ in 3 rows of both"), "{text}");
        assert!(text.ends_with("Rows of one report alone: 1 of the first, 0 of the second.\n"), "{text}");
        let same = compare_rows(["x", "y"], [ROWS, ROWS], ROW_KEYS).unwrap();
        assert_eq!(same, "x against y: 4 rows of both are the same\n");
    }

    /// The n-th row of one direction was set against the n-th of another.
    #[test]
    fn rows_of_other_things_are_not_compared() {
        let mesh = |rows: &str| format!("from,to,loss_ratio\n{rows}");
        let (one, other) = (mesh("Paris,Berlin,1\nOslo,Berlin,2\n"), mesh("Oslo,Berlin,2\nParis,Berlin,1\n"));
        let keys = keys_of("kumade.lab.monitor-mesh/1").unwrap();
        assert!(compare_rows(["x", "y"], [&one, &other], keys).unwrap().ends_with(": 2 rows of both are the same\n"));
        let nat = |rows: &str| format!("case,run,flow,end\n{rows}");
        let (one, other) = (nat("a,1,1,idle\na,1,1,left\na,1,2,killed\n"), nat("a,1,1,idle\na,1,2,killed\n"));
        let text = compare_rows(["x", "y"], [&one, &other], keys_of("kumade.lab.nat-session/1").unwrap()).unwrap();
        assert!(text.contains(": 2 rows of both are the same\n") && text.contains(": 1 of the first"), "{text}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_keys_of_each_kind_are_columns_of_its_rows() {
        use crate::report::ReportParts;
        fn check<R: ReportParts>(schema: &str) {
            let columns: Vec<_> = R::COLUMNS.split_whitespace().map(|word| word.rsplit('.').next()).collect();
            let mut keys = keys_of(schema).unwrap_or_else(|| panic!("{schema}")).split_whitespace();
            assert!(keys.all(|key| columns.contains(&Some(key))), "{schema}");
        }
        check::<crate::accuracy::Report>(crate::accuracy::Report::SCHEMA);
        check::<crate::atlas::PathAtlasReport>(crate::atlas::PathAtlasReport::SCHEMA);
        check::<crate::contention::ContentionReport>(crate::contention::ContentionReport::SCHEMA);
        check::<crate::fast_links::FastLinksReport>(crate::fast_links::FastLinksReport::SCHEMA);
        check::<crate::kernel_paths::KernelPathsReport>(crate::kernel_paths::KernelPathsReport::SCHEMA);
        check::<crate::monitor_mesh::MonitorMeshReport>(crate::monitor_mesh::MonitorMeshReport::SCHEMA);
        check::<crate::multipath::MultipathReport>(crate::multipath::MultipathReport::SCHEMA);
        check::<crate::nat_session::NatSessionReport>(crate::nat_session::NatSessionReport::SCHEMA);
        check::<crate::path_treatment::PathTreatmentReport>(crate::path_treatment::PathTreatmentReport::SCHEMA);
    }

    #[test]
    fn what_has_nothing_in_common_is_refused() {
        let refused = |other: &str| compare_rows(["x", "x"], [ROWS, other], ROW_KEYS).unwrap_err();
        assert!(refused("case,run,rate\na,1,10\n").contains("different columns"));
        assert!(refused("case,run,rate,reason\nc,1,10,\n").ends_with("no run in common, by case, run"));
    }
}
