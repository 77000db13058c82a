//! The running links of this user, and their names.

use anyhow::anyhow;
use kumade_daemon::{ControlError, NameLockError, Registry, RuntimeDir, check_name};
use kumade_emulator::control::LinkProtocol;

/// Default name of a link.
pub const DEFAULT_NAME: &str = "link";

/// The running links of this user.
pub fn link_registry() -> Registry<LinkProtocol> {
    Registry::new(RuntimeDir::standard("kumade"))
}

/// Adds the options that help.
pub fn with_hint(error: ControlError) -> anyhow::Error {
    match &error {
        ControlError::NameTaken { .. } => anyhow!("{error} with --name"),
        ControlError::NotRunning { running, .. } if running.is_empty() => {
            anyhow!("{error}; start one with `kumade link start`")
        }
        ControlError::NotRunning { .. } => anyhow!("{error}; choose one with --name"),
        _ => error.into(),
    }
}

/// A name that a link may have.
///
/// # Errors
/// It may not.
pub fn link_name(text: &str) -> Result<String, NameLockError> {
    check_name(text).map(|()| text.to_owned())
}
