use super::keys::{self, Key};
use thiserror::Error;

/// An impossible setting.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum SettingError {
    /// No setting has this name.
    #[error("there is no setting `{0}`{nearest}; the settings are {names}", nearest = keys::nearest(.0), names = keys::names())]
    Unknown(String),
    /// Its value is missing.
    #[error("`{}` needs a value: {} {}", .0.name, .0.name, .0.value)]
    Incomplete(&'static Key),
    /// It cannot have this value.
    #[error("cannot set {key}: {reason}")]
    Value {
        /// Which setting.
        key: &'static str,
        /// What is wrong with its value, and what to give.
        reason: String,
    },
    /// Possible each by itself, but not together.
    #[error("{0}")]
    Together(String),
    /// The link refuses it.
    #[error(transparent)]
    Link(#[from] kumade_units::ConfigError),
}
