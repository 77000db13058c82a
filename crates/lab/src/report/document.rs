use super::content::ReportContent;
use super::differences::{Interruption, ReplacedOption, describe_replaced, reason_for_no_verdict};
use super::head::DocumentHead;
use super::plot::{Plot, PlotResult};
use super::statement::{Statement, StatementResult};
use super::table::Table;
use super::values::{CsvResult, Values};
use super::{html, terminal};
use crate::error::ReportError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
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

    /// Writes `report.html`, `report.json` and `report.csv`, and files for what does not fit a line for each row, into `directory`, which is
    /// created if missing, and returns their paths. Existing files of these names are replaced, all or none.
    ///
    /// # Errors
    /// Names the file that could not be written.
    fn write_files(&self, directory: &Path) -> Result<Vec<PathBuf>, ReportError>;

    /// Whether what a paper states can be judged by its rows and further files.
    ///
    /// # Errors
    /// Says which statement cannot, and why.
    fn check_statements(&self, statements: &[Statement]) -> Result<(), String>;

    /// Notes how it differs from the whole experiment: that it was `interrupted`, or with which options it was not run as published.
    fn set_differences(&mut self, interrupted: Option<Interruption>, replaced_options: Vec<String>);

    /// Whether and where it was interrupted.
    fn interruption(&self) -> Option<Interruption>;

    /// Puts what a paper states beside what came out here. Without a verdict where it was interrupted, or was `replaced` what that is about.
    fn compare_statements(&mut self, statements: &[Statement], replaced: &[ReplacedOption]);
}

/// A document of [`report_document`].
pub(crate) trait Document: Serialize {
    /// One for each run, or nearly so.
    type Row: Serialize;

    fn head(&self) -> DocumentHead<'_>;

    fn rows(&self) -> &[Self::Row];

    fn statements(&self) -> &[StatementResult];

    fn set_statements(&mut self, statements: Vec<StatementResult>);

    fn differences(&self) -> (Option<Interruption>, &[String]);

    fn set_differences(&mut self, interrupted: Option<Interruption>, replaced_options: Vec<String>);
}

/// What a kind of experiment makes of its document.
pub(crate) trait ReportParts: Document {
    /// What rates count.
    const RATE_DEFINITION: &'static str;
    /// The columns of the rows' CSV, as [`Values::from_rows`] reads them.
    const COLUMNS: &'static str;

    /// The network and its traffic in one line.
    fn setting(&self) -> String;

    /// The published experiment in one line.
    fn paper(&self) -> Option<String> {
        None
    }

    fn tables(&self) -> Vec<Table>;

    /// The results, one sentence each.
    fn conclusions(&self) -> Vec<String> {
        Vec::new()
    }

    /// What the numbers do not show: failures, warnings, disturbed runs.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    fn plots(&self) -> PlotResult<Vec<Plot>> {
        Ok(Vec::new())
    }

    /// The rows as they stand in files for programs.
    fn values(&self) -> serde_json::Result<Values> {
        Values::from_rows(self.rows(), Self::COLUMNS)
    }

    /// Further files, each with its name.
    fn extra_files(&self) -> Vec<(&'static str, CsvResult)> {
        Vec::new()
    }

    /// What one of these holds, where it is a table.
    fn extra_values(&self, _file: &str) -> Option<Values> {
        None
    }
}

impl<P: ReportParts> ReportDocument for P {
    fn to_json(&self) -> Result<String, ReportError> {
        serde_json::to_string_pretty(self).map_err(ReportError::generate_error("the JSON document"))
    }

    fn to_csv(&self) -> Result<String, ReportError> {
        let csv = self.values().map_err(Into::into).and_then(|values| values.to_csv());
        csv.map_err(ReportError::generate_error("the CSV file"))
    }

    fn to_text(&self) -> String {
        terminal::render(&content(self))
    }

    fn to_html(&self) -> Result<String, ReportError> {
        let plots = self.plots().map_err(ReportError::generate_error("a plot"))?;
        html::render(&content(self), &plots).map_err(ReportError::generate_error("the HTML page"))
    }

    fn write_files(&self, directory: &Path) -> Result<Vec<PathBuf>, ReportError> {
        let texts =
            [("report.html", self.to_html()?), ("report.json", self.to_json()?), ("report.csv", self.to_csv()?)];
        let mut files = texts.map(|(name, text)| (name, text.into_bytes())).to_vec();
        #[cfg(feature = "arrow")]
        files.push(("report.arrow", arrow_file(self)?));
        for (name, text) in self.extra_files() {
            files.push((name, text.map_err(ReportError::generate_error(name))?.into_bytes()));
        }
        let files: Vec<_> = files.iter().map(|(name, bytes)| (*name, &bytes[..])).collect();
        kumade_files::replace_files(directory, &files).map_err(ReportError::Write)
    }

    fn check_statements(&self, statements: &[Statement]) -> Result<(), String> {
        for_each_statement(self, statements, Statement::check).into_iter().collect()
    }

    fn set_differences(&mut self, interrupted: Option<Interruption>, replaced_options: Vec<String>) {
        Document::set_differences(self, interrupted, replaced_options);
    }

    fn interruption(&self) -> Option<Interruption> {
        self.differences().0
    }

    fn compare_statements(&mut self, statements: &[Statement], replaced: &[ReplacedOption]) {
        let interrupted = self.interruption();
        let compare = |statement: &Statement, values: Option<&Values>| {
            let result = statement.compare_with(values);
            match reason_for_no_verdict(interrupted, replaced, statement.is_about_one_case()) {
                Some(why) => result.without_verdict(&why),
                None if replaced.is_empty() => result,
                None => result.without_reason(),
            }
        };
        let judged = for_each_statement(self, statements, compare);
        self.set_statements(judged);
    }
}

/// With the values of the file that each is about.
fn for_each_statement<T>(
    parts: &impl ReportParts,
    statements: &[Statement],
    ask: impl Fn(&Statement, Option<&Values>) -> T,
) -> Vec<T> {
    let rows = if statements.is_empty() { None } else { parts.values().ok() };
    let ask = |statement: &Statement| match &statement.file {
        None => ask(statement, rows.as_ref()),
        Some(file) => ask(statement, parts.extra_values(file).as_ref()),
    };
    statements.iter().map(ask).collect()
}

#[cfg(feature = "arrow")]
fn arrow_file(parts: &impl ReportParts) -> Result<Vec<u8>, ReportError> {
    let file = parts.values().map_err(Into::into).and_then(|values| super::arrow::to_arrow(&values));
    file.map_err(ReportError::generate_error("the Arrow file"))
}

fn content<P: ReportParts>(parts: &P) -> ReportContent<'_> {
    let (interrupted, replaced) = parts.differences();
    // Nothing to count is no table.
    let mut tables: Vec<_> = parts.tables().into_iter().filter(|table| !table.rows.is_empty()).collect();
    let has_margins = tables.iter_mut().map(Table::explain_margins).fold(false, |any, has| any | has);
    let notes = [
        interrupted.map(Interruption::note),
        describe_replaced(replaced),
        has_margins.then(|| parts.values().ok()).flatten().as_ref().and_then(few_runs_note),
    ];
    ReportContent {
        head: parts.head(),
        setting: interrupted.map_or(String::new(), |interrupted| format!("{interrupted}; ")) + &parts.setting(),
        rate_definition: P::RATE_DEFINITION,
        paper: parts.paper(),
        statements: parts.statements().iter().map(StatementResult::in_words).collect(),
        tables,
        conclusions: parts.conclusions(),
        notes: notes.into_iter().flatten().chain(parts.notes()).collect(),
    }
}

/// Where some mean is one of two runs. What stands before the run says of which point it is.
fn few_runs_note(values: &Values) -> Option<String> {
    let place = values.column("run")?;
    let mut runs: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in &values.lines {
        let point = line[..place].iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        runs.entry(point).or_default().insert(line[place].to_string());
    }
    runs.values().any(|runs| runs.len() == 2).then(|| {
        "with two runs, the 95 % interval (±) is 12.7 standard errors wide to each side, by Student's t, and may go beyond what is \
         possible; three runs make it 4.3, five 2.8"
            .to_owned()
    })
}

/// Declares the document of a kind of experiment: its name, its schema, what it is made of, and each field behind those that all
/// documents begin with, with its value. `rows` is one of them; a field's value may use those before it.
macro_rules! report_document {
    (
        $(#[$about:meta])*
        $name:ident, $schema:literal: |$study:ident: &$experiment:ty, $given:ident: $result:ty|, $row:ty;
        $($(#[$field_about:meta])* $field:ident: $type:ty = $value:expr,)+
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            /// The document's kind and version.
            #[schemars(extend("const" = $name::SCHEMA))]
            pub schema: String,
            /// The scenario's name.
            pub experiment: String,
            /// The scenario's question.
            pub title: String,
            /// When the first run began: UTC, RFC 3339. In virtual time, where the same runs give the same document, it is
            /// 1970-01-01T00:00:00Z.
            #[schemars(extend("format" = "date-time"))]
            pub started: String,
            /// The version of kumade that ran it.
            pub version: String,
            /// Where it was interrupted: after how many of its runs. Absent where it has all.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub interrupted: Option<crate::report::Interruption>,
            /// Options, each with its value, that took the place of what was published, where it was run as published otherwise.
            #[serde(default, skip_serializing_if = "Vec::is_empty")]
            pub replaced_options: Vec<String>,
            /// What the paper states and what came out here, where it was run as published.
            #[serde(default, skip_serializing_if = "Vec::is_empty")]
            pub statements: Vec<crate::report::StatementResult>,
            $($(#[$field_about])* pub $field: $type,)+
        }

        impl $name {
            /// Names the document's kind and version.
            pub const SCHEMA: &str = $schema;

            /// Sums up what came of the experiment. `started` is UTC in RFC 3339.
            pub fn new($study: &$experiment, started: String, $given: $result) -> Self {
                $(let $field = $value;)+
                $name {
                    schema: $name::SCHEMA.to_owned(),
                    experiment: $study.name.clone(),
                    title: $study.title.clone(),
                    started,
                    version: env!("CARGO_PKG_VERSION").to_owned(),
                    interrupted: None,
                    replaced_options: Vec::new(),
                    statements: Vec::new(),
                    $($field,)+
                }
            }

            /// Reads a document that [`to_json`](crate::ReportDocument::to_json) made.
            ///
            /// # Errors
            /// Where it is not one of this kind and version.
            pub fn from_json(text: &str) -> Result<Self, crate::ReportError> {
                crate::report::read_report(text, $name::SCHEMA, |report: &$name| &report.schema)
            }
        }

        impl crate::report::Document for $name {
            type Row = $row;

            fn head(&self) -> crate::report::DocumentHead<'_> {
                let $name { experiment, title, started, version, .. } = self;
                crate::report::DocumentHead { experiment, title, started, version }
            }

            fn rows(&self) -> &[$row] {
                &self.rows
            }

            fn statements(&self) -> &[crate::report::StatementResult] {
                &self.statements
            }

            fn set_statements(&mut self, statements: Vec<crate::report::StatementResult>) {
                self.statements = statements;
            }

            fn differences(&self) -> (Option<crate::report::Interruption>, &[String]) {
                (self.interrupted, &self.replaced_options)
            }

            fn set_differences(
                &mut self,
                interrupted: Option<crate::report::Interruption>,
                replaced_options: Vec<String>,
            ) {
                (self.interrupted, self.replaced_options) = (interrupted, replaced_options);
            }
        }
    };
}
pub(crate) use report_document;

/// Creates `directory` and checks that reports can be written into it: better known before an experiment than after it.
///
/// # Errors
/// Where they cannot.
pub fn prepare_directory(directory: &Path) -> Result<(), ReportError> {
    kumade_files::check_writable(directory).map_err(ReportError::Write)
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The note was missing where one point had a third run.
    #[test]
    fn two_runs_of_any_point_are_noted() {
        let noted = |runs: &[(&str, u32)]| {
            let rows: Vec<_> = runs.iter().map(|(case, run)| json!({"case": case, "run": run})).collect();
            few_runs_note(&Values::from_rows(&rows, "case run").unwrap()).is_some()
        };
        assert!(noted(&[("a", 1), ("a", 2), ("b", 1), ("b", 2), ("b", 3)]));
        assert!(!noted(&[("a", 1), ("b", 1), ("b", 2), ("b", 3)]));
    }
}
