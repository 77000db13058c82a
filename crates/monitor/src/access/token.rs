use ring::digest;
use serde::{Deserialize, Serialize};
use std::fmt;
use subtle::ConstantTimeEq;
use thiserror::Error;

/// What a token allows; each includes the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AccessClass {
    /// To see what is monitored.
    Read,
    /// To have paths measured now.
    Write,
    /// To see who has changed what.
    Admin,
}

/// The SHA-256 of a token.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TokenHash([u8; HASH_BYTES]);

/// Text that is no [`TokenHash`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("this is no token's hash: write sha256: and 64 hexadecimal digits, as `kumade key token` prints them")]
pub struct TokenHashError;

/// Who may see what.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AccessConfig {
    /// Everybody may see what is monitored.
    pub is_public: bool,
    /// What the page is called by, besides addresses and `localhost`; none for whatever it is called.
    pub names: Vec<String>,
    /// With different names and hashes.
    pub tokens: Vec<AccessToken>,
}

/// A token that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessToken {
    /// Of whom the audit tells.
    pub name: String,
    /// What it allows.
    pub class: AccessClass,
    /// By which it is known.
    pub hash: TokenHash,
}

const HASH_BYTES: usize = 32;
const HASH_PREFIX: &str = "sha256:";

impl AccessClass {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            AccessClass::Read => "read",
            AccessClass::Write => "write",
            AccessClass::Admin => "admin",
        }
    }
}

impl AccessConfig {
    /// Nothing is said of access: who reaches the page may do everything, so that only this host may reach it.
    pub fn is_open(&self) -> bool {
        self.tokens.is_empty() && !self.is_public
    }
}

impl TokenHash {
    /// That of a token.
    pub fn from_token(token: &str) -> Self {
        let mut hash = [0; HASH_BYTES];
        hash.copy_from_slice(digest::digest(&digest::SHA256, token.trim().as_bytes()).as_ref());
        TokenHash(hash)
    }

    /// As [`Display`](fmt::Display) writes it.
    ///
    /// # Errors
    /// The text is no hash.
    pub fn parse(text: &str) -> Result<Self, TokenHashError> {
        let digits = text.trim().strip_prefix(HASH_PREFIX).ok_or(TokenHashError)?.as_bytes();
        if digits.len() != 2 * HASH_BYTES {
            return Err(TokenHashError);
        }
        let mut hash = [0; HASH_BYTES];
        for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
            let value = |digit: u8| char::from(digit).to_digit(16).ok_or(TokenHashError);
            *byte = (value(pair[0])? << 4 | value(pair[1])?) as u8;
        }
        Ok(TokenHash(hash))
    }

    /// In a time that tells nothing of where they differ.
    pub(super) fn matches(&self, other: &TokenHash) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl fmt::Display for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HASH_PREFIX)?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenHash({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_what_sha256sum_prints() {
        // printf abc | sha256sum
        let text = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let hash = TokenHash::from_token(" abc\n");
        assert_eq!((hash.to_string().as_str(), TokenHash::parse(text)), (text, Ok(hash)));
        for wrong in ["", "abc", &text[7..], &text[..70], &text.replace("ad", "xy"), &format!("{text}00"), "sha256:é"]
        {
            assert_eq!(TokenHash::parse(wrong), Err(TokenHashError), "{wrong}");
        }
    }
}
