//! A kind of experiment as small as one can be, in tests alone: a file of 150 lines at most, and a line in a table of kinds.

use super::kinds::Kind;
use crate::error::RunError;
use crate::report::{ReportParts, Table, report_document};
use crate::study::{Exclusion, FindFile, Head, Outcome, Overrides, RunOutcome, Scenario, Study, repeatable_rows};
use crate::values::spans;
use anyhow::anyhow;
use kumade_units::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The line in the table.
pub(super) const KINDS: [Kind; 1] = [Kind::for_scenario::<Latenesses>("latenesses")];

/// Runs that are late as they are told to be: each run takes as many of these as it is repeated.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latenesses {
    pub(super) name: String,
    pub(super) title: String,
    pub(super) runs: u32,
    #[serde(deserialize_with = "spans")]
    pub(super) latenesses: Vec<Span>,
    /// This run cannot be run here, …
    pub(super) missing_run: Option<u32>,
    /// … and this one fails.
    pub(super) failing_run: Option<u32>,
    #[serde(rename = "virtual", default)]
    pub(super) virtual_time: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LateRow {
    pub(super) run: u32,
    pub(super) late_seconds: f64,
    pub(super) repeats: u32,
    pub(super) disturbed: bool,
}

repeatable_rows!(LateRow);

impl Scenario for Latenesses {
    const KIND: &'static str = "latenesses";
    const ABOUT: &'static str = "experiments on being late";
    const OPTIONS: &'static [&'static str] = &["--runs"];
    type File = Self;

    fn from_file(mut file: Self, given: &Overrides, _: FindFile<'_>) -> Result<Self, String> {
        file.runs = given.runs.unwrap_or(file.runs);
        Ok(file)
    }

    fn head(&self) -> Head<'_> {
        Head { name: &self.name, title: &self.title, paper: None, is_virtual: self.virtual_time }
    }
}

impl Study for Latenesses {
    type Point<'a> = u32;
    type Row = LateRow;
    type Testbed = std::vec::IntoIter<Span>;
    type Report = LateReport;

    fn points(&self) -> Vec<u32> {
        (1..=self.runs).collect()
    }

    fn describe_point(&self, run: &u32) -> String {
        format!("run {run}")
    }

    fn expected_time(&self) -> String {
        format!("{} runs", self.runs)
    }

    fn run_virtually(&self, run: &u32) -> Result<LateRow, RunError> {
        Ok(LateRow { run: *run, late_seconds: 0.0, repeats: 0, disturbed: false })
    }

    fn testbed(&self) -> Result<Self::Testbed, RunError> {
        Ok(self.latenesses.clone().into_iter())
    }

    fn run_really(&self, latenesses: &mut Self::Testbed, run: &u32) -> Result<RunOutcome<LateRow>, RunError> {
        if self.failing_run == Some(*run) {
            return Err(RunError { doing: "run", cause: anyhow!("as told") });
        }
        let lateness = latenesses.next().unwrap_or_default();
        let row = LateRow { late_seconds: lateness.as_secs_f64(), ..self.run_virtually(run)? };
        Ok(RunOutcome { row, lateness, disturbed: lateness > Span::ZERO })
    }

    fn missing_requirement(&self, _: &mut Self::Testbed, run: &u32) -> Option<Exclusion> {
        (self.missing_run == Some(*run)).then(|| Exclusion { kind: format!("run {run}"), reason: "as told".into() })
    }

    fn report(&self, started: String, outcome: Outcome<LateRow>) -> LateReport {
        LateReport::new(self, started, outcome)
    }
}

report_document! {
    /// How late runs were.
    LateReport, "kumade.lab.latenesses/1": |experiment: &Latenesses, given: Outcome<LateRow>|, LateRow;
    /// In words.
    setting: String = format!("{} runs", experiment.runs),
    /// One for each run.
    rows: Vec<LateRow> = given.rows,
}

impl ReportParts for LateReport {
    const RATE_DEFINITION: &'static str = "There are no rates.";
    const COLUMNS: &'static str = "run late_seconds repeats disturbed";

    fn setting(&self) -> String {
        self.setting.clone()
    }

    fn tables(&self) -> Vec<Table> {
        vec![Table::from_items(
            "Late, s",
            &self.rows,
            &[("run", &|row| row.run.to_string()), ("late", &|row| row.late_seconds.to_string())],
        )]
    }
}
