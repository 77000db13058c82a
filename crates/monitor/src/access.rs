//! Who may see and change what, by tokens.
//!
//! A token is 32 random bytes: it cannot be guessed, so that the configuration has its SHA-256 alone, without a salt or a slow
//! function. Browsers exchange it for a session, whose secret is in a cookie; programs send it with each request.

mod control;
mod gate;
mod sessions;
mod token;

pub(crate) use control::AccessControl;
pub(crate) use gate::{Credential, Refusal, Visitor};
pub use token::{AccessClass, AccessConfig, AccessToken, TokenHash, TokenHashError};
