use super::command_process::CommandProcess;
use kumade_alerts::{Rule, Silence};
use kumade_units::Span;
use std::io;
use std::path::PathBuf;
use std::process::Command;

/// What is alerted on, and who is told.
#[derive(Debug, Clone, Default)]
pub struct AlertSettings {
    /// With different names.
    pub rules: Vec<Rule>,
    /// With different names.
    pub notifiers: Vec<NotifierConfig>,
    /// When nobody is told.
    pub silences: Vec<Silence>,
    /// What runs the commands, by their receivers; none where this process runs them itself.
    processes: Option<Vec<(NotifierConfig, CommandProcess)>>,
}

impl AlertSettings {
    /// These, without processes for commands.
    pub fn new(rules: Vec<Rule>, notifiers: Vec<NotifierConfig>, silences: Vec<Silence>) -> Self {
        AlertSettings { rules, notifiers, silences, processes: None }
    }

    /// Starts a process for each command, so that this one need not run any: `program` says for a command and its timeout what is started,
    /// which has to call [`run_for_each_line`](super::run_for_each_line).
    ///
    /// # Errors
    /// The system starts no process.
    pub fn start_commands(&mut self, program: impl Fn(&[String], Span) -> Command) -> io::Result<()> {
        let start = |notifier: &NotifierConfig| match &notifier.kind {
            NotifierKind::Webhook { .. } => None,
            NotifierKind::Command { arguments } => {
                let process = CommandProcess::start(program(arguments, notifier.timeout));
                Some(process.map(|process| (notifier.clone(), process)))
            }
        };
        self.processes = Some(self.notifiers.iter().filter_map(start).collect::<io::Result<_>>()?);
        Ok(())
    }

    /// Takes over the processes of what was set before; returns whether all commands have one, or none needs one.
    pub(crate) fn adopt_commands(&mut self, before: &AlertSettings) -> bool {
        self.processes.clone_from(&before.processes);
        self.processes.is_none()
            || self.notifiers.iter().all(|notifier| {
                matches!(notifier.kind, NotifierKind::Webhook { .. }) || self.process(notifier).is_some()
            })
    }

    /// What runs a receiver's command.
    pub(super) fn process(&self, notifier: &NotifierConfig) -> Option<&CommandProcess> {
        let mut processes = self.processes.iter().flatten();
        processes.find(|(known, _)| known == notifier).map(|(_, process)| process)
    }

    /// Whether something differs that people would see.
    pub(crate) fn differs_from(&self, other: &AlertSettings) -> bool {
        let silences = |settings: &AlertSettings| format!("{:?}", settings.silences);
        self.rules != other.rules || self.notifiers != other.notifiers || silences(self) != silences(other)
    }
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
