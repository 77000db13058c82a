use thiserror::Error;

/// Why a bridge cannot start, or has ended.
#[derive(Debug, Error)]
pub enum BridgeError {
    /// A setting that no link can have.
    #[error(transparent)]
    Config(#[from] link::ConfigError),
    /// The system refused what the bridge is built of.
    #[error(transparent)]
    Setup(#[from] net::SetupError),
}
