//! Alerts of a monitor: what is observed is handed to the pure state machine (`kumade_alerts`), what it says is stored and sent.

mod alerter;
mod command;
mod command_process;
mod message;
mod notifier;
mod notifier_error;
mod reach;
mod settings;
mod state;
mod webhook;

pub(crate) use alerter::Alerter;
pub use command_process::{CommandProcess, run_for_each_line};
pub use message::{AlertCause, AlertMessage, SCHEMA as ALERT_SCHEMA};
pub(crate) use notifier::SendReport;
pub use notifier::send_test_alert;
pub use notifier_error::NotifierError;
pub use settings::{AlertSettings, NotifierConfig, NotifierKind};
pub(crate) use state::ALERTS_KEY;
