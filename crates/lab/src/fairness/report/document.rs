use super::setting;
use crate::error::ReportError;
use crate::fairness::row::FairnessRow;
use crate::fairness::scenario::FairnessExperiment;
use crate::fairness::summary::FairnessSummary;
use crate::report::read_report;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The results of an experiment on fairness.
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
    /// How long shares were measured.
    pub duration_seconds: f64,
    /// One for each run, in the order of running.
    pub rows: Vec<FairnessRow>,
    /// The rows summed up.
    pub summary: FairnessSummary,
}

impl FairnessReport {
    /// Names the document's kind and version.
    pub const SCHEMA: &str = "kumade.lab.fairness/1";

    /// Sums up the rows of `experiment`. `started` is UTC in RFC 3339.
    pub fn new(experiment: &FairnessExperiment, started: String, rows: Vec<FairnessRow>) -> Self {
        FairnessReport {
            schema: FairnessReport::SCHEMA.to_owned(),
            experiment: experiment.name.clone(),
            title: experiment.title.clone(),
            started,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            setting: setting::describe_setting(experiment),
            virtual_time: experiment.virtual_time,
            warm_up_seconds: experiment.warm_up.as_secs_f64(),
            duration_seconds: experiment.duration.as_secs_f64(),
            summary: FairnessSummary::from_rows(&rows, experiment),
            rows,
        }
    }

    /// Reads a document that [`Document::to_json`](crate::ReportDocument::to_json) made.
    ///
    /// # Errors
    /// Where it is not one of this kind and version.
    pub fn from_json(text: &str) -> Result<Self, ReportError> {
        read_report(text, FairnessReport::SCHEMA, |report: &FairnessReport| &report.schema)
    }
}
