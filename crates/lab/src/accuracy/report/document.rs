use crate::accuracy::experiment::Accuracy;
use crate::accuracy::full::Limits;
use crate::accuracy::row::Row;
use crate::accuracy::summary::Summary;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What an experiment came to.
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
    /// What limited the path.
    pub bottleneck: BottleneckFacts,
    /// Whether cross traffic was computed in the link or sent as packets.
    #[schemars(extend("enum" = ["link", "packets"]))]
    pub cross_by: String,
    /// What the firewall did, in words; empty where everything passed.
    pub firewall: Vec<String>,
    /// What it is to reach.
    pub limits: Limits,
    /// One for each run, in the order of running.
    pub rows: Vec<Row>,
    /// What the rows come to.
    pub summary: Summary,
}

/// What limited the path, the same in both directions unless a rate down is given. Of a sweep, what its rates were derived
/// from: each row tells its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BottleneckFacts {
    /// Who shaped: the lab's own link, the kernel's HTB, or the link of a virtual path.
    #[schemars(extend("enum" = ["own", "htb", "virtual"]))]
    pub kind: String,
    /// Capacity in bits of IP packets.
    pub rate_bits_per_second: u64,
    /// Capacity towards the host that measures, where it is another one; else null.
    pub down_bits_per_second: Option<u64>,
    /// Propagation delay in one direction.
    pub delay_seconds: f64,
    /// Bytes that wait in front of it at most.
    pub queue_bytes: u64,
}

impl Report {
    /// Names the document's kind and version.
    pub const SCHEMA: &str = "kumade.lab/1";

    /// Sums up the rows of `experiment`. `started` is UTC in RFC 3339.
    pub fn new(experiment: &Accuracy, started: String, rows: Vec<Row>) -> Self {
        let stated = &experiment.stated;
        let bottleneck = &stated.bottleneck;
        Report {
            schema: Report::SCHEMA.to_owned(),
            experiment: experiment.name.clone(),
            title: experiment.title.clone(),
            started,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            bottleneck: BottleneckFacts {
                kind: bottleneck.kind.word().to_owned(),
                rate_bits_per_second: bottleneck.rate.bits_per_second(),
                down_bits_per_second: bottleneck.down_rate.map(units::Rate::bits_per_second),
                delay_seconds: stated.delay().as_secs_f64(),
                queue_bytes: bottleneck.queue,
            },
            cross_by: stated.cross_by().word().to_owned(),
            firewall: stated.firewall.iter().map(ToString::to_string).collect(),
            limits: experiment.limits,
            summary: Summary::of(&rows, experiment),
            rows,
        }
    }

    /// Transport and method of the rows, each pair once, in the order of running.
    pub(crate) fn combinations(&self) -> Vec<(&str, String)> {
        let mut combinations = Vec::new();
        for row in &self.rows {
            let combination = (row.transport.as_str(), row.method.clone());
            if !combinations.contains(&combination) {
                combinations.push(combination);
            }
        }
        combinations
    }
}
