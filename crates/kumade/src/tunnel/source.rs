//! Where the settings of a tunnel's end come from: options or a file.

use crate::key;
use crate::running::read_config_text;
use kumade_daemon::ConfigError;
use kumade_tunnel::{FileOptions, TunnelConfig, TunnelEnd, TunnelError, TunnelFile, TunnelSettings};
use std::path::{Path, PathBuf};

/// The settings of an end, and what they were read from.
#[derive(Debug)]
pub enum SettingsSource {
    /// The command line.
    Options(Box<TunnelSettings>),
    /// A file, which may be read again.
    File {
        /// What was read.
        file: Box<TunnelFile>,
        /// From where.
        path: PathBuf,
        /// What stands on the command line in place of it.
        options: FileOptions,
    },
}

/// Why an end cannot be as its settings say.
pub type SettingsError = Box<dyn std::error::Error + Send + Sync>;

/// Reads a configuration file. The inner error is for its content.
///
/// # Errors
/// It cannot be read.
pub fn read_file(path: &Path, options: FileOptions) -> anyhow::Result<Result<SettingsSource, ConfigError>> {
    let (name, text) = read_config_text(path)?;
    let file = TunnelFile::from_toml(&text, &name, &options);
    Ok(file.map(|file| SettingsSource::File { file: Box::new(file), path: path.to_owned(), options }))
}

impl SettingsSource {
    /// What was said.
    pub fn settings(&self) -> &TunnelSettings {
        match self {
            SettingsSource::Options(settings) => settings,
            SettingsSource::File { file, .. } => &file.settings,
        }
    }

    /// The file, if there is one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            SettingsSource::Options(_) => None,
            SettingsSource::File { path, .. } => Some(path),
        }
    }

    /// The file as it is now; none where there is no file. The inner error is for its content.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read_again(&self) -> anyhow::Result<Option<Result<SettingsSource, ConfigError>>> {
        match self {
            SettingsSource::Options(_) => Ok(None),
            SettingsSource::File { path, options, .. } => read_file(path, options.clone()).map(Some),
        }
    }

    /// With the keys of its files, and the far end's address. The inner error is for settings that contradict each other.
    ///
    /// # Errors
    /// A key file cannot be read, or the far end's name is not found.
    pub fn load(&self) -> anyhow::Result<Result<TunnelConfig, SettingsError>> {
        self.load_with_end(self.settings().resolve_end()?)
    }

    /// The same, of an end that is known.
    ///
    /// # Errors
    /// A key file cannot be read.
    pub fn load_with_end(&self, end: TunnelEnd) -> anyhow::Result<Result<TunnelConfig, SettingsError>> {
        let settings = self.settings();
        let psk = settings.preshared_key_file.as_deref().map(key::read_preshared_key).transpose()?;
        let identity = key::read_private_key(&settings.key_file)?;
        let config = settings.to_config(identity, psk.unwrap_or_default(), end);
        Ok(match config.validate() {
            Ok(()) => Ok(config),
            Err(error) => Err(self.locate(error.into())),
        })
    }

    /// With the line of the file that says it, if one does.
    pub fn locate(&self, error: TunnelError) -> SettingsError {
        match self {
            SettingsSource::Options(_) => error.into(),
            SettingsSource::File { file, .. } => file.locate(&error).map_or_else(|| error.into(), Into::into),
        }
    }
}
