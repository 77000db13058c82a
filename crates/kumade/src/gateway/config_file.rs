//! The configuration file of a gateway, which a running one reads again.

use crate::notices::log_reload;
use crate::running::read_config_text;
use kumade_gateway::{ConfigError, GatewayConfig};
use kumade_net::interface;
use std::path::{Path, PathBuf};

/// Where the configuration is read again.
#[derive(Debug)]
pub(super) struct ConfigFile {
    path: PathBuf,
}

/// What a running gateway is to become.
#[derive(Debug)]
pub(super) struct NewConfig {
    pub(super) config: GatewayConfig,
    /// What is to change, a line each.
    pub(super) changes: Vec<String>,
}

impl ConfigFile {
    pub(super) fn new(path: &Path) -> Self {
        ConfigFile { path: path.to_owned() }
    }

    /// Reads and checks it as at the start.
    ///
    /// # Errors
    /// It cannot be read, makes no sense, or differs from the configuration of now in what cannot change.
    pub(super) fn read_again(&self, now: &GatewayConfig) -> anyhow::Result<NewConfig> {
        // One that is gone for a while is no reason to refuse what is about others.
        let known = now.paths.iter().map(|path| &path.interface).chain(now.locals.iter().map(|local| &local.interface));
        let interfaces: Vec<_> = interface::names()?.into_iter().chain(known.cloned()).collect();
        let config = read_config(&self.path, &interfaces)??;
        let changes = now.changes_to(&config)?;
        config.check_next_hops_unlike(&now.paths)?;
        Ok(NewConfig { config, changes })
    }

    /// Says what has come of it.
    pub(super) fn log_outcome(&self, outcome: &anyhow::Result<Vec<String>>) {
        log_reload(&self.path, outcome);
    }
}

/// With these interfaces. The inner error is for the file's content.
pub(super) fn read_config(file: &Path, interfaces: &[String]) -> anyhow::Result<Result<GatewayConfig, ConfigError>> {
    let (name, text) = read_config_text(file)?;
    Ok(GatewayConfig::from_toml(&text, &name, interfaces))
}
