use super::setting;
use crate::multipath::row::MultipathRow;
use crate::multipath::scenario::{MultipathExperiment, Workload};
use crate::multipath::summary::MultipathSummary;
use crate::report::report_document;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

report_document! {
    /// The results of an experiment on several paths.
    MultipathReport, "kumade.lab.multipath/1": |experiment: &MultipathExperiment, given: Vec<MultipathRow>|, MultipathRow;
    /// The paths and the traffic, in words.
    setting: String = setting::describe_setting(experiment),
    /// Whether it ran in virtual time, with the simulator's TCP; else over the kernel's.
    #[serde(rename = "virtual")]
    virtual_time: bool = experiment.virtual_time,
    /// What the hosts sent.
    workload: WorkloadName = experiment.workload.into(),
    /// How long the flow ran before goodput was measured.
    warm_up_seconds: f64 = experiment.warm_up.as_secs_f64(),
    /// How long goodput was measured.
    duration_seconds: f64 = experiment.duration.as_secs_f64(),
    /// Contenders that could not be run on this host, and why.
    #[serde(default)]
    skipped: Vec<String> = experiment.skipped(),
    /// One for each run, in the order of running.
    rows: Vec<MultipathRow> = given,
    /// The rows summed up.
    summary: MultipathSummary = MultipathSummary::from_rows(&rows, experiment),
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

impl From<Workload> for WorkloadName {
    fn from(workload: Workload) -> Self {
        match workload {
            Workload::Transfer => WorkloadName::Transfer,
            Workload::Numbered { .. } => WorkloadName::Numbered,
            Workload::Blocks => WorkloadName::Blocks,
            Workload::Flood { .. } => WorkloadName::Flood,
        }
    }
}
