//! The configuration file of a monitor, with the keys that it names.

use crate::key;
use anyhow::Context;
use kumade_daemon::{ConfigError, read_text};
use kumade_monitor::config::MonitorConfig;
use std::path::Path;

/// The inner error is for the file's content.
pub(super) fn read_config(file: &Path) -> anyhow::Result<Result<MonitorConfig, ConfigError>> {
    let name = file.display().to_string();
    let text = read_text(file).with_context(|| format!("cannot read the configuration {name}"))?;
    let read_key = |path: &Path| key::read_preshared_key(path).map_err(|error| format!("{error:#}"));
    Ok(MonitorConfig::from_toml(&text, &name, &read_key))
}
