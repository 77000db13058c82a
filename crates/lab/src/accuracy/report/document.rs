use crate::accuracy::experiment::AccuracyExperiment;
use crate::accuracy::full_measurement::AccuracyLimits;
use crate::accuracy::keywords::{BottleneckKind, CrossSource};
use crate::accuracy::row::Row;
use crate::accuracy::summary::Summary;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The results of an experiment on accuracy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// The document's kind and version.
    #[schemars(extend("const" = Report::SCHEMA))]
    pub schema: String,
    /// The scenario's name.
    pub experiment: String,
    /// The scenario's question.
    pub title: String,
    /// When the first run began: UTC, RFC 3339.
    #[schemars(extend("format" = "date-time"))]
    pub started: String,
    /// The version of kumade that measured.
    pub version: String,
    /// The link that limited the path.
    pub bottleneck: BottleneckFacts,
    /// Whether cross traffic was computed in the link or sent as packets.
    pub cross_source: CrossSource,
    /// The firewall's rules in words; empty where there was none.
    pub firewall: Vec<String>,
    /// The errors and times that it was not to exceed.
    pub limits: AccuracyLimits,
    /// One for each run, in the order of running.
    pub rows: Vec<Row>,
    /// The rows summed up.
    pub summary: Summary,
}

/// The link that limited the path, the same in both directions unless a rate down is given, as the scenario file states it:
/// where rates were varied, those of the rows count.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BottleneckFacts {
    /// What implemented it.
    pub kind: BottleneckKind,
    /// Its capacity.
    pub rate_bits_per_second: u64,
    /// Its capacity towards the host that measures; null where it is the same.
    pub down_bits_per_second: Option<u64>,
    /// One-way propagation delay.
    pub delay_seconds: f64,
    /// Its queue's capacity.
    pub queue_bytes: u64,
}

impl Report {
    /// Names the document's kind and version.
    pub const SCHEMA: &str = "kumade.lab/1";

    /// Sums up the rows of `experiment`. `started` is UTC in RFC 3339.
    pub fn new(experiment: &AccuracyExperiment, started: String, rows: Vec<Row>) -> Self {
        let stated = &experiment.base_scenario;
        let bottleneck = &stated.bottleneck;
        Report {
            schema: Report::SCHEMA.to_owned(),
            experiment: experiment.name.clone(),
            title: experiment.title.clone(),
            started,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            bottleneck: BottleneckFacts {
                kind: bottleneck.kind,
                rate_bits_per_second: bottleneck.rate.bits_per_second(),
                down_bits_per_second: bottleneck.down_rate.map(kumade_units::Rate::bits_per_second),
                delay_seconds: stated.propagation_delay().as_secs_f64(),
                queue_bytes: bottleneck.queue,
            },
            cross_source: stated.cross_source(),
            firewall: stated.firewall.iter().map(ToString::to_string).collect(),
            limits: experiment.limits,
            summary: Summary::from_rows(&rows, experiment),
            rows,
        }
    }

    /// Transport and method of the rows, each pair once, in the order of running.
    pub(crate) fn combinations(&self) -> Vec<(&str, String)> {
        let mut combinations = Vec::new();
        for row in &self.rows {
            let combination = (row.transport.word(), row.method.clone());
            if !combinations.contains(&combination) {
                combinations.push(combination);
            }
        }
        combinations
    }
}
