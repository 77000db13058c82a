//! Threads that send messages: one for each receiver, so that a slow one holds up nothing.

use super::command::run_command;
use super::command_process::CommandProcess;
use super::message::AlertMessage;
use super::notifier_error::NotifierError;
use super::settings::{AlertSettings, NotifierConfig, NotifierKind};
use super::webhook::Webhook;
use crate::config::MonitorConfig;
use kumade_alerts::{Delivery, Failure};
use kumade_units::Time;
use std::sync::mpsc::{self, SyncSender};
use std::thread;

/// What came of an attempt to send a message.
#[derive(Debug)]
pub(crate) struct SendReport {
    pub(super) receiver: String,
    pub(super) outcome: Result<(), Failure>,
}

/// A thread that sends one message after the other. It ends after the one that it sends, once this is dropped; it is not waited for.
#[derive(Debug)]
pub(super) struct Notifier {
    pub(super) name: String,
    messages: SyncSender<Delivery>,
}

/// Sends messages.
enum Sender {
    Webhook(Webhook),
    Process(CommandProcess),
    Command(NotifierConfig, Vec<String>),
}

impl Notifier {
    pub(super) fn start(
        config: &NotifierConfig,
        settings: &AlertSettings,
        report: impl Fn(SendReport) + Send + 'static,
    ) -> Result<Self, NotifierError> {
        let sender = Sender::new(config, settings)?;
        // The outbox hands over one at a time.
        let (messages, inbox) = mpsc::sync_channel::<Delivery>(1);
        let work = move || {
            for delivery in inbox {
                let outcome = sender.send(&delivery.body);
                report(SendReport { receiver: delivery.receiver, outcome });
            }
        };
        thread::Builder::new().name("notifier".into()).spawn(work).map_err(NotifierError::Thread)?;
        Ok(Notifier { name: config.name.clone(), messages })
    }

    /// Has a message sent; says so if the thread has ended.
    pub(super) fn send(&self, delivery: Delivery) -> Result<(), Failure> {
        let ended =
            |_| Failure { reason: "its thread has ended by a fault of the program".to_owned(), is_refusal: false };
        self.messages.try_send(delivery).map_err(ended)
    }
}

impl Sender {
    fn new(config: &NotifierConfig, settings: &AlertSettings) -> Result<Self, NotifierError> {
        if let Some(process) = settings.process(config) {
            return Ok(Sender::Process(process.clone()));
        }
        Ok(match &config.kind {
            NotifierKind::Webhook { url, authorities } => {
                Sender::Webhook(Webhook::new(url, authorities.as_deref(), config.timeout)?)
            }
            NotifierKind::Command { arguments } => Sender::Command(config.clone(), arguments.clone()),
        })
    }

    fn send(&self, message: &str) -> Result<(), Failure> {
        match self {
            Sender::Webhook(webhook) => webhook.send(message),
            Sender::Process(process) => process.run(message),
            Sender::Command(config, arguments) => run_command(arguments, message, config.timeout),
        }
    }
}

/// Tells each receiver of a configuration that this is a test, one after the other; `each` is called with its name, and why it has not
/// taken it.
///
/// # Errors
/// There are no certificates to judge a receiver's by.
pub fn send_test_alert(
    config: &MonitorConfig,
    utc: Time,
    mut each: impl FnMut(&str, Result<(), String>),
) -> Result<(), NotifierError> {
    // Its parts always can be written.
    let message = serde_json::to_string(&AlertMessage::test(&config.name, utc)).unwrap_or_default();
    for notifier in &config.alerts.notifiers {
        let outcome = Sender::new(notifier, &config.alerts)?.send(&message);
        each(&notifier.name, outcome.map_err(|failure| failure.reason));
    }
    Ok(())
}
