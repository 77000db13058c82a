//! Experiments on accuracy: estimates of a path beside the truth that the lab knows.

pub(crate) mod full;
mod observed;
pub(crate) mod path;
mod plan;
mod realtime;
pub(crate) mod report;
pub(crate) mod row;
pub(crate) mod runner;
pub(crate) mod scenario;
mod summary;
mod virtual_time;

pub use full::{CapacitySummary, DelaySummary, Limits, ShaperSummary, WholeSummary};
pub use path::{Bottleneck, BottleneckKind, Later, Shaper};
pub use realtime::RealTime;
pub use report::{Document, Report, ReportError, now_utc, prepare};
pub use row::{DelayRow, Row, TimelinePacket};
pub use runner::{Attempt, Progress, RunError, Testbed, run};
pub use scenario::{
    Carrier, Cross, CrossKind, FirewallAction, FirewallRule, Method, Paper, Point, Protocol, Published, Scenario,
    Transport,
};
pub use summary::{ByMethod, Summary};
pub use virtual_time::VirtualTime;
