use kumade_net::SetupError;
use kumade_units::{Direction, Span};
use thiserror::Error;

/// Why a test network cannot be built, or cannot answer.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NetworkError {
    /// A specification that no network can have.
    #[error("cannot build the test network: {0}")]
    Spec(String),
    /// An impossible setting of a link.
    #[error(transparent)]
    Link(#[from] kumade_units::ConfigError),
    /// The system refused.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// This machine has not what a shaper takes.
    #[error(transparent)]
    NoShaper(SetupError),
    /// No host has that name.
    #[error("the test network has no host called {0}")]
    NoHost(String),
    /// The packet thread has ended.
    #[error("the test network's packet thread has ended: see its panic message above, and please report it")]
    Stopped,
    /// The question is about a time that is not on record.
    #[error("there is no record of all of the {0} asked about: ask about the last minute and a half, up to now")]
    NoRecord(Span),
    /// What was measured differs from the configuration.
    #[error(
        "the test network differs from its configuration: {direction}, {found}, configured: {set}; if other programs load this machine, end them"
    )]
    NotAsSet {
        /// The direction of the links.
        direction: Direction,
        /// The measurement.
        found: String,
        /// The configuration.
        set: String,
    },
}
