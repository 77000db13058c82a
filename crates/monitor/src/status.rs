//! What is seen of a monitor: the page, `kumade monitor show`, metrics.

mod table;

use kumade_daemon::Protocol;
use serde::{Deserialize, Serialize};

/// The name of the schema.
pub const SCHEMA: &str = "kumade.monitor/1";

/// The document `kumade.monitor/1`. Times are seconds since 1970 (UTC).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    /// In the configuration's order.
    pub pairs: Vec<PairStatus>,
    /// Measurements to come.
    pub schedule: ScheduleStatus,
}

impl MonitorStatus {
    /// Of a monitor that has just begun.
    pub(crate) fn empty(name: &str) -> Self {
        MonitorStatus {
            schema: SCHEMA.to_owned(),
            name: name.to_owned(),
            time_seconds: 0.0,
            started_seconds: 0.0,
            archive_failure: None,
            pairs: Vec::new(),
            schedule: ScheduleStatus::default(),
        }
    }
}

/// A path from this host to a target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    /// The share of probes that was lost in that time.
    pub loss: Option<LossStatus>,
    /// The last measurement.
    pub run: Option<RunStatus>,
}

/// How a path is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MissedRun {
    /// The id of its pair.
    pub pair: String,
    /// Why.
    pub reason: String,
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
