use crate::https::AuthoritiesError;
use std::io;
use thiserror::Error;

/// Why somebody cannot be told of alerts at all.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NotifierError {
    /// There are no certificates to judge a web server's by.
    #[error("[[notify]]: {0}")]
    Authorities(#[from] AuthoritiesError),
    /// The system has no thread for it.
    #[error("cannot start to send alerts: {0}")]
    Thread(io::Error),
}
