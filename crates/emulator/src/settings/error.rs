use super::keys::{self, SettingKey};
use thiserror::Error;

/// An impossible setting.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum SettingError {
    /// No setting has this name.
    #[error("there is no setting `{0}`{nearest}; the settings are {names}", nearest = keys::nearest(.0), names = keys::names())]
    UnknownSetting(String),
    /// Its value is missing.
    #[error("`{}` needs a value: {} {}", .0.name, .0.name, .0.value)]
    MissingValue(&'static SettingKey),
    /// It cannot have this value.
    #[error("cannot set {key}: {reason}")]
    InvalidValue {
        /// Which setting.
        key: &'static str,
        /// What is wrong with its value, and what to give.
        reason: String,
    },
    /// Possible each by itself, but not together.
    #[error("{0}")]
    ConflictingSettings(String),
    /// The link refuses it.
    #[error(transparent)]
    Link(#[from] kumade_units::ConfigError),
}
