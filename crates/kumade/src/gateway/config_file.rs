//! The configuration file of a gateway, which a running one reads again.

use crate::running::read_config_text;
use kumade_gateway::{ConfigError, GatewayConfig};
use kumade_net::interface;
use std::path::Path;

/// What a running gateway is to become.
#[derive(Debug)]
pub(super) struct NewConfig {
    pub(super) config: GatewayConfig,
    /// What is to change, a line each.
    pub(super) changes: Vec<String>,
}

/// Reads and checks the file again, as at the start.
///
/// # Errors
/// It cannot be read, makes no sense, or differs from the configuration of now in what cannot change.
pub(super) fn read_again(file: &Path, now: &GatewayConfig) -> anyhow::Result<NewConfig> {
    // One that is gone for a while is no reason to refuse what is about others.
    let known = now.paths.iter().map(|path| &path.interface).chain(now.locals.iter().map(|local| &local.interface));
    let interfaces: Vec<_> = interface::names()?.into_iter().chain(known.cloned()).collect();
    let config = read_config(file, &interfaces)??;
    let changes = now.changes_to(&config)?;
    config.check_next_hops_unlike(&now.paths)?;
    Ok(NewConfig { config, changes })
}

/// With these interfaces. The inner error is for the file's content.
pub(super) fn read_config(file: &Path, interfaces: &[String]) -> anyhow::Result<Result<GatewayConfig, ConfigError>> {
    let (name, text) = read_config_text(file)?;
    Ok(GatewayConfig::from_toml(&text, &name, interfaces))
}
