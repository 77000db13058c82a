//! The configuration file of a monitor, with the keys that it names.

use crate::key;
use crate::running::read_config_text;
use kumade_daemon::ConfigError;
use kumade_monitor::config::{MonitorConfig, RoleConfig};
use kumade_noise_session::PresharedKey;
use std::path::Path;

/// The inner error is for the file's content; of a monitor with an archive.
pub(super) fn read_config(file: &Path) -> anyhow::Result<Result<MonitorConfig, ConfigError>> {
    let (name, text) = read_config_text(file)?;
    Ok(MonitorConfig::from_toml(&text, &name, &read_key))
}

/// The same of any role.
pub(super) fn read_role_config(file: &Path) -> anyhow::Result<Result<RoleConfig, ConfigError>> {
    let (name, text) = read_config_text(file)?;
    Ok(RoleConfig::from_toml(&text, &name, &read_key))
}

fn read_key(path: &Path) -> Result<PresharedKey, String> {
    key::read_preshared_key(path).map_err(|error| format!("{error:#}"))
}
