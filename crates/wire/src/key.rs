use std::fmt;
use thiserror::Error;

/// A secret that client and server share. It stands in a file as 64 hexadecimal digits (`openssl rand -hex 32`).
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; 32]);

/// The text is no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a key is 64 hexadecimal digits on one line; make one with `openssl rand -hex 32`")]
pub struct KeyError;

impl Key {
    /// A key from its bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Key(bytes)
    }

    /// Reads the contents of a key file.
    ///
    /// # Errors
    /// Anything but 64 hexadecimal digits, with white space around them at most.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let digits = text.trim().as_bytes();
        if digits.len() != 64 {
            return Err(KeyError);
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |d: u8| (d as char).to_digit(16).ok_or(KeyError);
            *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
        }
        Ok(Key(bytes))
    }

    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for Key {
    /// Never shows the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_file_is_64_hexadecimal_digits() {
        let text = "00ff".repeat(16) + "\n";
        let key = Key::parse(&text).unwrap();
        assert_eq!(key.bytes()[..4], [0, 255, 0, 255]);
        assert_eq!(format!("{key:?}"), "Key(…)");
        for bad in ["", "00", &"0g".repeat(32), &"00".repeat(33), &"é".repeat(32)] {
            assert_eq!(Key::parse(bad), Err(KeyError));
        }
    }
}
