use super::setting;
use crate::error::ReportError;
use crate::nat_session::row::NatSessionRow;
use crate::nat_session::scenario::NatSessionExperiment;
use crate::nat_session::summary::NatSessionSummary;
use crate::report::read_report;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The results of an experiment on NAT sessions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NatSessionReport {
    /// The document's kind and version.
    #[schemars(extend("const" = NatSessionReport::SCHEMA))]
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
    /// The paths and the traffic, in words.
    pub setting: String,
    /// Whether it ran in virtual time; else between real gateways.
    #[serde(rename = "virtual")]
    pub virtual_time: bool,
    /// A session ends when no packet of its flow has passed for so long.
    pub idle_seconds: f64,
    /// One for each run, in the order of running.
    pub rows: Vec<NatSessionRow>,
    /// The rows summed up.
    pub summary: NatSessionSummary,
}

impl NatSessionReport {
    /// Names the document's kind and version.
    pub const SCHEMA: &str = "kumade.lab.nat-session/1";

    /// Sums up the rows of `experiment`. `started` is UTC in RFC 3339.
    pub fn new(experiment: &NatSessionExperiment, started: String, rows: Vec<NatSessionRow>) -> Self {
        NatSessionReport {
            schema: NatSessionReport::SCHEMA.to_owned(),
            experiment: experiment.name.clone(),
            title: experiment.title.clone(),
            started,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            setting: setting::describe_setting(experiment),
            virtual_time: experiment.virtual_time,
            idle_seconds: experiment.idle.as_secs_f64(),
            summary: NatSessionSummary::from_rows(&rows, experiment),
            rows,
        }
    }

    /// Reads a document that [`Document::to_json`](crate::ReportDocument::to_json) made.
    ///
    /// # Errors
    /// Where it is not one of this kind and version.
    pub fn from_json(text: &str) -> Result<Self, ReportError> {
        read_report(text, NatSessionReport::SCHEMA, |report: &NatSessionReport| &report.schema)
    }
}
