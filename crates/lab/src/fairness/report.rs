use super::row::FairnessRow;
use super::scenario::Fairness;
use super::summary::FairnessSummary;
use super::{plots, tables};
use crate::report::{Content, Document, ReportError, html, make, terminal};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What an experiment on fairness came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FairnessReport {
    /// The document's kind and version.
    #[schemars(extend("const" = FairnessReport::SCHEMA))]
    pub schema: String,
    /// The scenario's name.
    pub experiment: String,
    /// The scenario's question.
    pub title: String,
    /// When the first run began: UTC, RFC 3339.
    #[schemars(extend("format" = "date-time"))]
    pub started: String,
    /// The version of kumade that ran it.
    pub version: String,
    /// The network, in words.
    pub setting: String,
    /// Whether it ran in virtual time, with the simulator's TCP; else over the kernel's.
    #[serde(rename = "virtual")]
    pub virtual_time: bool,
    /// How long connections ran before their shares were measured.
    pub warm_up_seconds: f64,
    /// How long they were measured.
    pub duration_seconds: f64,
    /// One for each run, in the order of running.
    pub rows: Vec<FairnessRow>,
    /// What the rows come to.
    pub summary: FairnessSummary,
}

impl FairnessReport {
    /// Names the document's kind and version.
    pub const SCHEMA: &str = "kumade.lab.fairness/1";

    /// Sums up what `scenario` came to. `started` is UTC in RFC 3339.
    pub fn new(scenario: &Fairness, started: String, rows: Vec<FairnessRow>) -> Self {
        FairnessReport {
            schema: FairnessReport::SCHEMA.to_owned(),
            experiment: scenario.name.clone(),
            title: scenario.title.clone(),
            started,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            setting: tables::setting(scenario),
            virtual_time: scenario.virtual_time,
            warm_up_seconds: scenario.warm_up.as_secs_f64(),
            duration_seconds: scenario.duration.as_secs_f64(),
            summary: FairnessSummary::of(&rows, &scenario.cases(), scenario.paper.as_ref()),
            rows,
        }
    }

    fn content(&self) -> Content<'_> {
        let paper = self.summary.published.as_ref();
        Content {
            experiment: &self.experiment,
            title: &self.title,
            started: &self.started,
            version: &self.version,
            setting: self.setting.clone(),
            layer: "Goodput counts payload, utilisation IP packets.",
            paper: paper.map(|paper| {
                format!("{}, {}: {}. It found: {}", paper.system, paper.figure, paper.setting, paper.result)
            }),
            tables: tables::all(self),
            verdicts: tables::verdicts(self),
            notes: tables::notes(self),
        }
    }
}

impl Document for FairnessReport {
    fn to_json(&self) -> Result<String, ReportError> {
        serde_json::to_string_pretty(self).map_err(|e| make("the JSON document", &e))
    }

    fn to_csv(&self) -> Result<String, ReportError> {
        tables::csv(&self.rows).map_err(|e| make("the CSV file", &e))
    }

    fn to_text(&self) -> String {
        terminal::render(&self.content())
    }

    fn to_html(&self) -> Result<String, ReportError> {
        let plots = plots::all(self).map_err(|e| make("a plot", &e))?;
        html::render(&self.content(), &plots)
    }
}
