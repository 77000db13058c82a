use super::content::ReportContent;
use super::plot::Plot;
use super::{html, terminal};
use crate::error::ReportError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::error::Error;
use std::path::{Path, PathBuf};

/// The results of an experiment, in the forms in which people and programs read them.
pub trait ReportDocument {
    /// One JSON document, which names its schema.
    ///
    /// # Errors
    /// Where serialization fails; no case is known.
    fn to_json(&self) -> Result<String, ReportError>;

    /// The rows as CSV with a header line; an empty cell stands for JSON's null.
    ///
    /// # Errors
    /// Where serialization fails; no case is known.
    fn to_csv(&self) -> Result<String, ReportError>;

    /// Tables for a terminal.
    fn to_text(&self) -> String;

    /// One self-contained HTML page.
    ///
    /// # Errors
    /// Where a plot cannot be drawn.
    fn to_html(&self) -> Result<String, ReportError>;

    /// Files for what does not fit a line for each row, if there are any: each with its name.
    ///
    /// # Errors
    /// Where serialization fails; no case is known.
    fn extra_files(&self) -> Result<Vec<(&'static str, String)>, ReportError> {
        Ok(Vec::new())
    }

    /// Writes `report.html`, `report.json` and `report.csv`, and [`extra_files`](Self::extra_files), into `directory`, which is created if missing, and returns
    /// their paths. Existing files of these names are replaced, all or none.
    ///
    /// # Errors
    /// Names the file that could not be written.
    fn write_files(&self, directory: &Path) -> Result<Vec<PathBuf>, ReportError> {
        let mut files =
            vec![("report.html", self.to_html()?), ("report.json", self.to_json()?), ("report.csv", self.to_csv()?)];
        files.extend(self.extra_files()?);
        let files: Vec<_> = files.iter().map(|(name, text)| (*name, text.as_bytes())).collect();
        kumade_daemon::replace_files(directory, &files).map_err(ReportError::Write)
    }
}

/// The parts in which the documents of two kinds of experiment differ.
pub(crate) trait DocumentParts: Serialize {
    /// What the terminal and the page show.
    fn content(&self) -> ReportContent<'_>;

    /// The rows as CSV with a header line.
    fn csv(&self) -> Result<String, Box<dyn Error>>;

    /// Further files, each with its name.
    fn extra_files(&self) -> Result<Vec<(&'static str, String)>, Box<dyn Error>> {
        Ok(Vec::new())
    }

    /// The plots of the page.
    fn plots(&self) -> Result<Vec<Plot>, Box<dyn Error>>;
}

impl<P: DocumentParts> ReportDocument for P {
    fn to_json(&self) -> Result<String, ReportError> {
        serde_json::to_string_pretty(self).map_err(ReportError::generate_error("the JSON document"))
    }

    fn to_csv(&self) -> Result<String, ReportError> {
        self.csv().map_err(ReportError::generate_error("the CSV file"))
    }

    fn extra_files(&self) -> Result<Vec<(&'static str, String)>, ReportError> {
        DocumentParts::extra_files(self).map_err(ReportError::generate_error("a CSV file"))
    }

    fn to_text(&self) -> String {
        terminal::render(&self.content())
    }

    fn to_html(&self) -> Result<String, ReportError> {
        let plots = self.plots().map_err(ReportError::generate_error("a plot"))?;
        html::render(&self.content(), &plots).map_err(ReportError::generate_error("the HTML page"))
    }
}

/// Creates `directory` and checks that reports can be written into it: better known before an experiment than after it.
///
/// # Errors
/// Where they cannot.
pub fn prepare_directory(directory: &Path) -> Result<(), ReportError> {
    kumade_daemon::check_writable(directory).map_err(ReportError::Write)
}

/// The present time as reports state it: UTC, RFC 3339, whole seconds.
pub fn now_utc() -> String {
    format!("{:.0}", jiff::Timestamp::now())
}

/// Reads a document of the schema `expected`; `schema` is what a document says of itself.
pub(crate) fn read_report<R: DeserializeOwned>(
    text: &str,
    expected: &'static str,
    schema: fn(&R) -> &str,
) -> Result<R, ReportError> {
    let unexpected = |reason| ReportError::Unexpected { expected, reason };
    let report = serde_json::from_str(text).map_err(|error| unexpected(error.to_string()))?;
    if schema(&report) == expected { Ok(report) } else { Err(unexpected(format!("its schema is {}", schema(&report)))) }
}
