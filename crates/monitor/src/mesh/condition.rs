//! What an agent cannot do. Pure.

use std::collections::BTreeMap;

/// A part of an agent's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    /// Answering light probes.
    Reflector,
    /// Answering measurements.
    Server,
    /// Sending light probes.
    Prober,
    /// Keeping what is not delivered.
    Spool,
}

/// What does not work at present, and why.
#[derive(Debug, Default)]
pub(super) struct Faults(BTreeMap<Fault, String>);

impl Faults {
    /// It does not work for this reason, or it does; a new reason is logged.
    pub(super) fn set(&mut self, fault: Fault, reason: Option<String>) {
        match reason {
            Some(reason) => {
                if self.0.get(&fault) != Some(&reason) {
                    tracing::error!("{reason}");
                    self.0.insert(fault, reason);
                }
            }
            None => _ = self.0.remove(&fault),
        }
    }

    pub(super) fn texts(&self) -> Vec<String> {
        self.0.values().cloned().collect()
    }
}
