use super::setting;
use crate::error::ReportError;
use crate::multipath::row::MultipathRow;
use crate::multipath::scenario::{MultipathExperiment, Workload};
use crate::multipath::summary::MultipathSummary;
use crate::report::read_report;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The results of an experiment on several paths.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MultipathReport {
    /// The document's kind and version.
    #[schemars(extend("const" = MultipathReport::SCHEMA))]
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
    /// Whether it ran in virtual time, with the simulator's TCP; else over the kernel's.
    #[serde(rename = "virtual")]
    pub virtual_time: bool,
    /// What the hosts sent.
    pub workload: WorkloadName,
    /// How long the flow ran before goodput was measured.
    pub warm_up_seconds: f64,
    /// How long goodput was measured.
    pub duration_seconds: f64,
    /// Contenders that could not be run on this host, and why.
    #[serde(default)]
    pub skipped: Vec<String>,
    /// One for each run, in the order of running.
    pub rows: Vec<MultipathRow>,
    /// The rows summed up.
    pub summary: MultipathSummary,
}

/// What the hosts sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WorkloadName {
    /// One TCP connection that always had something to send.
    Transfer,
    /// Numbered UDP packets at a constant rate.
    Numbered,
    /// One TCP connection that was written to in blocks of different lengths.
    Blocks,
    /// UDP packets as fast as the host sent them.
    Flood,
}

impl MultipathReport {
    /// Names the document's kind and version.
    pub const SCHEMA: &str = "kumade.lab.multipath/1";

    /// Sums up the rows of `experiment`. `started` is UTC in RFC 3339.
    pub fn new(experiment: &MultipathExperiment, started: String, rows: Vec<MultipathRow>) -> Self {
        MultipathReport {
            schema: MultipathReport::SCHEMA.to_owned(),
            experiment: experiment.name.clone(),
            title: experiment.title.clone(),
            started,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            setting: setting::describe_setting(experiment),
            virtual_time: experiment.virtual_time,
            workload: match experiment.workload {
                Workload::Transfer => WorkloadName::Transfer,
                Workload::Numbered { .. } => WorkloadName::Numbered,
                Workload::Blocks => WorkloadName::Blocks,
                Workload::Flood { .. } => WorkloadName::Flood,
            },
            warm_up_seconds: experiment.warm_up.as_secs_f64(),
            duration_seconds: experiment.duration.as_secs_f64(),
            skipped: experiment.skipped(),
            summary: MultipathSummary::from_rows(&rows, experiment),
            rows,
        }
    }

    /// Reads a document that [`Document::to_json`](crate::ReportDocument::to_json) made.
    ///
    /// # Errors
    /// Where it is not one of this kind and version.
    pub fn from_json(text: &str) -> Result<Self, ReportError> {
        read_report(text, MultipathReport::SCHEMA, |report: &MultipathReport| &report.schema)
    }
}
