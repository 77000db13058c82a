use kumade_alerts::{Delivery, SavedAlerts};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Under which the archive has it.
pub(crate) const ALERTS_KEY: &str = "monitor.alerts";

/// What is kept of alerts over a restart.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct AlertState {
    pub(super) alerts: SavedAlerts,
    /// Ids of alerts of which nobody was told so far, since they were silent.
    pub(super) unannounced: BTreeSet<String>,
    /// What is to be sent.
    pub(super) waiting: Vec<Delivery>,
}

impl AlertState {
    /// Nothing, where nothing was stored, or what nobody understands.
    pub(super) fn read(stored: Option<&[u8]>) -> Self {
        let read = |bytes| match serde_json::from_slice(bytes) {
            Ok(state) => Some(state),
            Err(error) => {
                tracing::warn!("the alerts of the last run cannot be read, and are begun anew: {error}");
                None
            }
        };
        stored.and_then(read).unwrap_or_default()
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        // Texts and numbers always can be written.
        serde_json::to_vec(self).unwrap_or_default()
    }
}
