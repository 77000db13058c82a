//! Alerts of a monitor: what is observed is handed to the pure state machine (`kumade_alerts`), what it says is stored and sent.

mod alerter;
mod command;
mod message;
mod notifier;
mod reach;
mod settings;
mod state;
mod webhook;

pub(crate) use alerter::Alerter;
pub use message::{AlertCause, AlertMessage, SCHEMA as ALERT_SCHEMA};
pub(crate) use notifier::SendReport;
pub use notifier::{NotifierError, send_test_alert};
pub use settings::{AlertSettings, NotifierConfig, NotifierKind};
