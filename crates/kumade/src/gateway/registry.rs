//! The running gateways, by their names.

use anyhow::anyhow;
use kumade_daemon::{ControlError, Registry, RuntimeDir};
use kumade_gateway::control::GatewayProtocol;

/// Default name of a gateway without a file.
pub const DEFAULT_NAME: &str = "gateway";

/// Those of this user.
pub fn gateway_registry() -> Registry<GatewayProtocol> {
    Registry::new(RuntimeDir::standard("kumade"))
}

/// Adds what helps.
pub fn with_hint(error: ControlError) -> anyhow::Error {
    match &error {
        ControlError::NameTaken { .. } => anyhow!("{error}, with --name or `name` in [gateway]"),
        ControlError::NotRunning { running, .. } if running.is_empty() => {
            anyhow!("{error}; start one with `kumade gateway --config FILE`")
        }
        ControlError::NotRunning { .. } => anyhow!("{error}; choose one with `kumade gateway status NAME`"),
        _ => error.into(),
    }
}
