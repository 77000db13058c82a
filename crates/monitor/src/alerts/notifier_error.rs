use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Why somebody cannot be told of alerts at all.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NotifierError {
    /// The certificates of authorities cannot be read.
    #[error("cannot read the certificates of authorities in {}: {cause}; name another file: ca = \"FILE\" in [[notify]]", path.display())]
    Authorities {
        /// Their file.
        path: PathBuf,
        /// Why not.
        cause: String,
    },
    /// There are none.
    #[error(
        "this system has no certificates of authorities for https: install ca-certificates, or name a file: ca = \"FILE\" in [[notify]]"
    )]
    NoAuthorities,
    /// The system has no thread for it.
    #[error("cannot start to send alerts: {0}")]
    Thread(io::Error),
}
