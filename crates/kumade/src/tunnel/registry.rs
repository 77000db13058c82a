//! The running ends of tunnels, by their names.

use anyhow::anyhow;
use kumade_daemon::{ControlError, Registry, RuntimeDir};
use kumade_tunnel::control::TunnelProtocol;

/// Those of this user.
pub fn tunnel_registry() -> Registry<TunnelProtocol> {
    Registry::new(RuntimeDir::standard("kumade"))
}

/// Adds what helps.
pub fn with_hint(error: ControlError) -> anyhow::Error {
    match &error {
        ControlError::NameTaken { .. } => anyhow!("{error}, with --name"),
        ControlError::NotRunning { running, .. } if running.is_empty() => {
            anyhow!("{error}; start one with `kumade tunnel listen` or `kumade tunnel connect`")
        }
        ControlError::NotRunning { .. } => anyhow!("{error}; choose one with `kumade tunnel status NAME`"),
        _ => error.into(),
    }
}
