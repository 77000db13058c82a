use kumade_alerts::{Rule, Silence};
use kumade_units::Span;
use std::path::PathBuf;

/// What is alerted on, and who is told.
#[derive(Debug, Clone, Default)]
pub struct AlertSettings {
    /// With different names.
    pub rules: Vec<Rule>,
    /// With different names.
    pub notifiers: Vec<NotifierConfig>,
    /// When nobody is told.
    pub silences: Vec<Silence>,
}

/// Who is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotifierConfig {
    /// By which what waits for it is known after a restart.
    pub name: String,
    /// How.
    pub kind: NotifierKind,
    /// How long one message may take.
    pub timeout: Span,
}

/// How somebody is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotifierKind {
    /// By an HTTP request: POST, with the message as JSON.
    Webhook {
        /// `https://…`, or `http://…`.
        url: String,
        /// PEM file of the authorities whose certificates count; those of the system if none is given.
        authorities: Option<PathBuf>,
    },
    /// By a program, which has the message as JSON on its standard input.
    Command {
        /// Its path and its arguments; at least the path. No shell reads them.
        arguments: Vec<String>,
    },
}
