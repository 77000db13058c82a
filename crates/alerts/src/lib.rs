//! When to alert on network paths, and on what: pure. Observations and the time come in, [`Notice`]s come out.
//!
//! A [`Rule`] says which condition of which pairs is worth an alert. [`Alerting`] collects evidence for each rule and pair: probes
//! that are lost in a row, minutes whose whole interval of loss is above a threshold, measurements whose whole interval is below
//! one. As soon as there is enough, it looks for the cause: where all pairs that share a risk (a host, a declared link) began to
//! fail together, that is one alert which names them; else each pair has its own. An alert stands until its pairs have recovered
//! for a while, and is resolved once.
//!
//! Mutate it with what was observed ([`set_reach`](Alerting::set_reach), [`observe`](Alerting::observe) …), then call
//! [`update`](Alerting::update), every second or so. What [`saved`](Alerting::saved) returns is enough to go on after a restart:
//! an alert that stands is not raised again.
//!
//! [`Silence`] says when nothing is to be sent, [`Outbox`] what is to be sent when, again and again until it has been taken.
#![forbid(unsafe_code)]

mod alert;
mod alerting;
mod cause;
mod evidence;
mod interval;
mod outbox;
mod pair;
mod rule;
mod silence;
mod text;
mod usual;

pub use alert::{Alert, Cause, Notice, NoticeKind, SavedAlerts};
pub use alerting::Alerting;
pub use interval::{Interval, Verdict};
pub use outbox::{Delivery, Failure, Outbox};
pub use pair::{Reach, RiskKind, SharedRisk, WatchedAgent, WatchedPair};
pub use rule::{Condition, DelayQuantile, Direction, Rule};
pub use silence::{Silence, SilenceTimes, WEEKDAY_NAMES};
pub use usual::UsualInterval;

/// Its example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
