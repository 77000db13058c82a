//! Files that users name, on any system: text is read up to a length ([`read_text`]), secrets where they are
//! kept from others ([`read_secret`]), and what is written replaces what was there whole or not at all
//! ([`replace_files`]).
#![forbid(unsafe_code)]

mod replace_files;
mod secret_file;
mod text_file;

pub use replace_files::{ReplaceError, check_writable, replace_files};
pub use secret_file::{SecretFileError, read_secret};
pub use text_file::read_text;

/// Its example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
