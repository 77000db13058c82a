use crate::accuracy::experiment::AccuracyExperiment;
use crate::accuracy::full_measurement::AccuracyLimits;
use crate::accuracy::keywords::{BottleneckKind, CrossSource};
use crate::accuracy::row::Row;
use crate::accuracy::scenario::AccuracyScenario;
use crate::accuracy::summary::Summary;
use crate::report::report_document;
use crate::statistics::distinct;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

report_document! {
    /// The results of an experiment on accuracy.
    Report, "kumade.lab/1": |experiment: &AccuracyExperiment, given: Vec<Row>|, Row;
    /// The link that limited the path.
    bottleneck: BottleneckFacts = BottleneckFacts::from_scenario(&experiment.base_scenario),
    /// Whether cross traffic was computed in the link or sent as packets.
    cross_source: CrossSource = experiment.base_scenario.cross_source(),
    /// The firewall's rules in words; empty where there was none.
    firewall: Vec<String> = experiment.base_scenario.firewall.iter().map(ToString::to_string).collect(),
    /// The errors and times that it was not to exceed.
    limits: AccuracyLimits = experiment.limits,
    /// One for each run, in the order of running.
    rows: Vec<Row> = given,
    /// The rows summed up.
    summary: Summary = Summary::from_rows(&rows, experiment),
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

impl BottleneckFacts {
    fn from_scenario(stated: &AccuracyScenario) -> Self {
        let bottleneck = &stated.bottleneck;
        BottleneckFacts {
            kind: bottleneck.kind,
            rate_bits_per_second: bottleneck.rate.bits_per_second(),
            down_bits_per_second: bottleneck.down_rate.map(kumade_units::Rate::bits_per_second),
            delay_seconds: stated.propagation_delay().as_secs_f64(),
            queue_bytes: bottleneck.queue,
        }
    }
}

impl Report {
    /// Transport and method of the rows, each pair once, in the order of running.
    pub(crate) fn combinations(&self) -> Vec<(&str, String)> {
        distinct(self.rows.iter().map(|row| (row.transport.word(), row.method.clone())))
    }
}
