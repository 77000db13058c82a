//! What is seen of a monitor: on the page, by `kumade monitor show`, in metrics. The document's JSON Schema is
//! `schemas/kumade.monitor.1.json`.

mod table;

use crate::remote_write::RemoteWriteProgress;
use kumade_daemon::Protocol;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The name of the schema.
pub const SCHEMA: &str = "kumade.monitor/1";

/// The document `kumade.monitor/1`. Times are seconds since 1970 (UTC).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MonitorStatus {
    /// `kumade.monitor/1`.
    pub schema: String,
    /// What the host is called.
    pub name: String,
    /// Of this document.
    pub time_seconds: f64,
    /// When the monitor began.
    pub started_seconds: f64,
    /// Why nothing is archived at present; none as long as all is.
    pub archive_failure: Option<String>,
    /// Who writes the archive; none where nobody else could.
    #[serde(default)]
    pub leader: Option<LeaderStatus>,
    /// How figures are sent to another database; none where they are not.
    #[serde(default)]
    pub remote_write: Option<RemoteWriteStatus>,
    /// In the configuration's order.
    pub pairs: Vec<PairStatus>,
    /// Pairs of a mesh that cannot be measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unmeasured: Vec<UnmeasuredPair>,
    /// Measurements to come.
    pub schedule: ScheduleStatus,
    /// Who measures for it, in the configuration's order; none but for a coordinator.
    #[serde(default)]
    pub agents: Vec<AgentStatus>,
    /// Links that several agents share; none but for a coordinator.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<LinkStatus>,
    /// What is alerted on.
    #[serde(default)]
    pub alerts: AlertsStatus,
}

impl MonitorStatus {
    /// The JSON Schema of such documents.
    pub fn json_schema() -> serde_json::Value {
        schemars::schema_for!(MonitorStatus).to_value()
    }

    /// Of a monitor that has just begun.
    pub fn empty(name: &str) -> Self {
        MonitorStatus {
            schema: SCHEMA.to_owned(),
            name: name.to_owned(),
            time_seconds: 0.0,
            started_seconds: 0.0,
            archive_failure: None,
            leader: None,
            remote_write: None,
            pairs: Vec::new(),
            unmeasured: Vec::new(),
            schedule: ScheduleStatus::default(),
            agents: Vec::new(),
            links: Vec::new(),
            alerts: AlertsStatus::default(),
        }
    }
}

/// An agent of a coordinator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentStatus {
    /// By which its history is found.
    pub id: String,
    /// What it is called.
    pub name: String,
    /// Whether it is connected to the coordinator.
    pub is_connected: bool,
    /// Since when that is so; none if it has not been connected since the coordinator began.
    pub since_seconds: Option<f64>,
    /// From where it is, or was last, connected.
    pub address: Option<String>,
    /// What it cannot do, and why.
    #[serde(default)]
    pub faults: Vec<String>,
    /// What measurements have carried at its host in the last 24 hours.
    #[serde(default)]
    pub used_bytes: u64,
    /// What they may carry in 24 hours; none for no limit.
    #[serde(default)]
    pub bytes_per_day: Option<u64>,
}

/// A declared link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LinkStatus {
    /// What it is called.
    pub name: String,
    /// What measurements have carried over it in the last 24 hours, as agents tell.
    pub used_bytes: u64,
    /// What they may carry in 24 hours; none for no limit.
    pub bytes_per_day: Option<u64>,
}

/// A pair of agents that cannot be measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UnmeasuredPair {
    /// The ids of both, and the version of IP, where there are two paths.
    pub pair: String,
    /// Why.
    pub reason: String,
}

/// Which of several hosts measures and writes; the others stand by and show what it sees.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LeaderStatus {
    /// What it is called.
    pub name: String,
    /// Whether it is the one that says so.
    pub is_this: bool,
    /// How long ago it was heard of.
    pub silent_seconds: f64,
}

/// How sending figures to another database goes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RemoteWriteStatus {
    /// Figures that were stored there since the monitor began.
    pub accepted: u64,
    /// Figures that were refused, or became too old before they could be sent.
    pub refused: u64,
    /// Why some were refused last.
    pub refusal: Option<String>,
    /// Why nothing can be sent at present.
    pub failure: Option<String>,
}

impl From<&RemoteWriteProgress> for RemoteWriteStatus {
    fn from(progress: &RemoteWriteProgress) -> Self {
        RemoteWriteStatus {
            accepted: progress.accepted_samples,
            refused: progress.refused_samples,
            refusal: progress.refusal.clone(),
            failure: progress.failure.clone(),
        }
    }
}

/// A path from this host to a target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PairStatus {
    /// By which its history is found.
    pub id: String,
    /// What it is called.
    pub name: String,
    /// The target's name or address.
    pub host: String,
    /// Where its probes go; none where that is not known yet.
    pub address: Option<String>,
    /// `echo` or `stamp`.
    pub probe: String,
    /// Mean interval between probes.
    pub interval_seconds: f64,
    /// Whether its available bandwidth is measured.
    pub is_measured: bool,
    /// The judgement.
    pub state: StateStatus,
    /// Delays of the last 15 minutes while no measurement ran; by lane. Empty where no probe was answered.
    pub delays: Vec<LaneDelay>,
    /// The share of probes that was lost in that time, in either direction.
    pub loss: Option<LossStatus>,
    /// What was lost on the way there, where the host tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss_up: Option<LossStatus>,
    /// What was lost on the way back, of the probes that had arrived, where the host tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss_down: Option<LossStatus>,
    /// The last measurement.
    pub run: Option<RunStatus>,
}

/// How a path is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StateStatus {
    /// `good`, `warn`, `bad`, or `none` without data.
    pub level: String,
    /// In one or two words.
    pub word: String,
    /// In a sentence.
    pub detail: String,
    /// Since when.
    pub since_seconds: f64,
}

/// Quantiles of a delay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LaneDelay {
    /// `round_trip`, `up` or `down`.
    pub lane: String,
    /// The least.
    pub minimum_seconds: f64,
    /// A quarter is below it.
    pub quantile_25_seconds: f64,
    /// Half is below it.
    pub median_seconds: f64,
    /// Three quarters are below it.
    pub quantile_75_seconds: f64,
    /// 95 % are below it.
    pub quantile_95_seconds: f64,
    /// The greatest.
    pub maximum_seconds: f64,
}

/// The share of probes that was lost, and the 95 % interval of the ratio behind it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LossStatus {
    /// Probes.
    pub sent: u64,
    /// What was seen.
    pub ratio: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// A measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunStatus {
    /// By which its document is found.
    pub id: i64,
    /// When it began.
    pub start_seconds: f64,
    /// How long it took.
    pub duration_seconds: f64,
    /// Available bandwidth to the target; none where the measurement failed.
    pub up: Option<RunFigure>,
    /// From the target.
    pub down: Option<RunFigure>,
    /// Why it failed.
    pub error: Option<String>,
}

/// A figure with its interval, or why there is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum RunFigure {
    /// In bits per second.
    Known {
        /// The estimate.
        value: f64,
        /// Lower end of its interval.
        low: f64,
        /// Upper end.
        high: f64,
    },
    /// It is not known.
    Unknown {
        /// Why.
        reason: String,
    },
}

/// What is measured when.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ScheduleStatus {
    /// The part of this host's time that measurements take.
    pub load_ratio: f64,
    /// The factor by which all periods have to be longer, so that all measurements fit; 1 where they do.
    pub stretch_factor: f64,
    /// What runs and what is next, the earliest first.
    pub runs: Vec<ScheduledRun>,
    /// The last ones that were not measured in their period, and why.
    pub missed: Vec<MissedRun>,
}

/// A measurement to come, or that runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScheduledRun {
    /// The id of its pair.
    pub pair: String,
    /// Whether it runs.
    pub is_running: bool,
    /// When it is due, from this document's time on.
    pub due_in_seconds: f64,
    /// The time that is set aside for it.
    pub slot_seconds: f64,
}

/// A measurement that was not made in its period.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MissedRun {
    /// The id of its pair.
    pub pair: String,
    /// Why.
    pub reason: String,
}

/// Alerts, and who is told of them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct AlertsStatus {
    /// Those that stand, the oldest first.
    pub standing: Vec<AlertStatus>,
    /// Who is told.
    pub receivers: Vec<ReceiverStatus>,
}

/// An alert that stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AlertStatus {
    /// As in messages.
    pub id: String,
    /// The name of the rule that raised it.
    pub rule: String,
    /// The word of its condition.
    pub condition: String,
    /// Ids of the pairs that it stands for.
    pub pairs: Vec<String>,
    /// In a sentence.
    pub text: String,
    /// When it was raised.
    pub raised_seconds: f64,
    /// A silence covers it at present.
    pub is_silent: bool,
}

/// Somebody who is told of alerts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReceiverStatus {
    /// The name.
    pub name: String,
    /// Messages that it has not taken so far.
    pub waiting: u64,
    /// Why the last attempt failed; none if it did not.
    pub failure: Option<String>,
}

/// The protocol of the control sockets of monitors.
#[derive(Debug, Clone, Copy)]
pub struct MonitorProtocol;

/// What a running monitor may be asked.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Request {
    /// What it sees.
    Status,
}

/// What it replies.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Reply {
    /// What it sees.
    Status(Box<MonitorStatus>),
}

impl Protocol for MonitorProtocol {
    const SERVICE: &'static str = "monitor";
    const VERSION: u32 = 1;
    type Request = Request;
    type Reply = Reply;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn example() -> MonitorStatus {
        let lane = LaneDelay {
            lane: "round_trip".to_owned(),
            minimum_seconds: 0.02,
            quantile_25_seconds: 0.021,
            median_seconds: 0.022,
            quantile_75_seconds: 0.025,
            quantile_95_seconds: 0.04,
            maximum_seconds: 0.1,
        };
        let state = |level: &str, word: &str| StateStatus {
            level: level.to_owned(),
            word: word.to_owned(),
            detail: "In a sentence.".to_owned(),
            since_seconds: 1_800_000_000.0,
        };
        let campus = PairStatus {
            id: "campus".to_owned(),
            name: "Campus".to_owned(),
            host: "campus.example.org".to_owned(),
            address: Some("192.0.2.7".to_owned()),
            probe: "stamp".to_owned(),
            interval_seconds: 1.0,
            is_measured: true,
            state: state("good", "up"),
            delays: vec![lane],
            loss: Some(LossStatus { sent: 900, ratio: 0.0, low: 0.0, high: 0.004 }),
            loss_up: None,
            loss_down: None,
            run: Some(RunStatus {
                id: 7,
                start_seconds: 1_800_003_000.0,
                duration_seconds: 4.5,
                up: Some(RunFigure::Known { value: 48e6, low: 46e6, high: 50e6 }),
                down: Some(RunFigure::Unknown { reason: "too few packets arrived".to_owned() }),
                error: None,
            }),
        };
        let silent = PairStatus {
            id: "silent".to_owned(),
            name: "Silent".to_owned(),
            address: None,
            state: state("none", "no data"),
            delays: Vec::new(),
            loss: None,
            run: None,
            is_measured: false,
            probe: "echo".to_owned(),
            ..campus.clone()
        };
        let run =
            ScheduledRun { pair: "campus".to_owned(), is_running: false, due_in_seconds: 60.0, slot_seconds: 20.0 };
        let missed = MissedRun { pair: "campus".to_owned(), reason: "its time has not come".to_owned() };
        let alert = AlertStatus {
            id: "18fa-1".to_owned(),
            rule: "down".to_owned(),
            condition: "down".to_owned(),
            pairs: vec!["silent".to_owned()],
            text: "Silent: no probe is answered any more".to_owned(),
            raised_seconds: 1_800_003_000.0,
            is_silent: false,
        };
        let failure = Some("answers 503".to_owned());
        let receiver = ReceiverStatus { name: "pager".to_owned(), waiting: 1, failure };
        MonitorStatus {
            alerts: AlertsStatus { standing: vec![alert], receivers: vec![receiver] },
            time_seconds: 1_800_003_600.0,
            remote_write: Some(RemoteWriteStatus { accepted: 1200, refused: 1, refusal: None, failure: None }),
            started_seconds: 1_800_000_000.0,
            pairs: vec![campus, silent],
            unmeasured: vec![UnmeasuredPair {
                pair: "north:south (IPv6)".to_owned(),
                reason: "the second end has no IPv6 address".to_owned(),
            }],
            agents: vec![AgentStatus {
                id: "north".to_owned(),
                name: "North".to_owned(),
                is_connected: false,
                since_seconds: Some(1_800_003_000.0),
                address: Some("192.0.2.9".to_owned()),
                faults: vec!["cannot answer light probes: port 862 is in use".to_owned()],
                used_bytes: 1_200_000,
                bytes_per_day: Some(1 << 30),
            }],
            links: vec![LinkStatus { name: "uplink".to_owned(), used_bytes: 5_000_000, bytes_per_day: None }],
            schedule: ScheduleStatus { load_ratio: 0.03, stretch_factor: 1.0, runs: vec![run], missed: vec![missed] },
            ..MonitorStatus::empty("office")
        }
    }

    /// Set `UPDATE_SCHEMAS` to write the file anew after a deliberate change.
    #[test]
    fn the_published_schema_is_that_of_the_documents() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas/kumade.monitor.1.json");
        let generated = serde_json::to_string_pretty(&MonitorStatus::json_schema()).unwrap() + "\n";
        if std::env::var_os("UPDATE_SCHEMAS").is_some() {
            std::fs::write(&path, &generated).unwrap();
        }
        let published = std::fs::read_to_string(path).unwrap();
        assert!(published == generated, "run the test again with UPDATE_SCHEMAS=1 if the document was meant to change");
        let validator = jsonschema::validator_for(&serde_json::from_str(&published).unwrap()).unwrap();
        let mut document = serde_json::to_value(example()).unwrap();
        assert!(validator.is_valid(&document), "{:?}", validator.iter_errors(&document).collect::<Vec<_>>());
        document["time_seconds"] = "late".into();
        assert!(!validator.is_valid(&document));
    }

    #[test]
    fn people_and_prometheus_read_the_same() {
        insta::assert_snapshot!("table", example().to_string());
        insta::assert_snapshot!("metrics", crate::metrics::encode_metrics(example()));
    }
}
