use crate::message::TAG_BYTES;
use ring::aead::{AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, Tag, UnboundKey};
use thiserror::Error;

/// How the data messages of a session are sealed. The two hosts agree on it in the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cipher {
    /// RFC 8439: every host has it.
    ChaCha20Poly1305,
    /// NIST SP 800-38D: about three times as fast where the processor has instructions for it, and slow elsewhere.
    Aes256Gcm,
}

/// A tag does not fit to its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the message is not authentic")]
pub(crate) struct CipherFailure;

impl Cipher {
    /// The faster one on this processor.
    pub fn fastest() -> Self {
        if has_aes() { Cipher::Aes256Gcm } else { Cipher::ChaCha20Poly1305 }
    }

    /// What an initiation offers and a response chooses: the better one implies the other.
    pub(crate) fn to_byte(self) -> u8 {
        match self {
            Cipher::ChaCha20Poly1305 => 0,
            Cipher::Aes256Gcm => 1,
        }
    }

    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        [Cipher::ChaCha20Poly1305, Cipher::Aes256Gcm].into_iter().find(|cipher| cipher.to_byte() == byte)
    }

    /// What two hosts use of which one prefers this and the other that.
    pub(crate) fn agree_with(self, other: Self) -> Self {
        if self == other { self } else { Cipher::ChaCha20Poly1305 }
    }
}

/// A key of a session in one direction.
#[derive(Debug)]
pub(crate) struct DataKey(LessSafeKey);

impl DataKey {
    pub(crate) fn new(cipher: Cipher, key: &[u8; 32]) -> Self {
        let algorithm = match cipher {
            Cipher::ChaCha20Poly1305 => &CHACHA20_POLY1305,
            Cipher::Aes256Gcm => &AES_256_GCM,
        };
        DataKey(LessSafeKey::new(UnboundKey::new(algorithm, key).expect("both take keys of 32 bytes")))
    }

    /// Encrypts in place; a counter must never come again. `header` is authenticated, too.
    #[inline]
    pub(crate) fn seal(&self, counter: u64, header: &[u8], text: &mut [u8]) -> Result<[u8; TAG_BYTES], CipherFailure> {
        let tag = self.0.seal_in_place_separate_tag(nonce(counter), Aad::from(header), text);
        let tag = tag.map_err(|_| CipherFailure)?;
        let mut bytes = [0; TAG_BYTES];
        bytes.copy_from_slice(tag.as_ref());
        Ok(bytes)
    }

    /// Decrypts in place. Where the tag does not fit, `text` is left undefined.
    #[inline]
    pub(crate) fn open(
        &self,
        counter: u64,
        header: &[u8],
        text: &mut [u8],
        tag: [u8; TAG_BYTES],
    ) -> Result<(), CipherFailure> {
        let opened = self.0.open_in_place_separate_tag(nonce(counter), Aad::from(header), Tag::from(tag), text, 0..);
        opened.map(|_| ()).map_err(|_| CipherFailure)
    }
}

/// Four zeros and the counter (WireGuard §5.4.6).
fn nonce(counter: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&counter.to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}

#[cfg(target_arch = "x86_64")]
fn has_aes() -> bool {
    std::arch::is_x86_feature_detected!("aes") && std::arch::is_x86_feature_detected!("pclmulqdq")
}

#[cfg(target_arch = "aarch64")]
fn has_aes() -> bool {
    std::arch::is_aarch64_feature_detected!("aes") && std::arch::is_aarch64_feature_detected!("pmull")
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn has_aes() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_hosts_agree_on_what_both_have() {
        use Cipher::*;
        assert_eq!(Aes256Gcm.agree_with(Aes256Gcm), Aes256Gcm);
        assert_eq!(Aes256Gcm.agree_with(ChaCha20Poly1305), ChaCha20Poly1305);
        assert_eq!(Cipher::from_byte(Aes256Gcm.to_byte()), Some(Aes256Gcm));
        assert_eq!(Cipher::from_byte(9), None);
    }

    #[test]
    fn what_is_altered_does_not_open() {
        for cipher in [Cipher::ChaCha20Poly1305, Cipher::Aes256Gcm] {
            let key = DataKey::new(cipher, &[3; 32]);
            let mut text = *b"many tines, one pull";
            let tag = key.seal(5, b"header", &mut text).unwrap();
            assert_eq!(key.open(6, b"header", &mut text.clone(), tag), Err(CipherFailure));
            assert_eq!(key.open(5, b"other", &mut text.clone(), tag), Err(CipherFailure));
            assert_eq!(key.open(5, b"header", &mut text, tag), Ok(()));
            assert_eq!(&text, b"many tines, one pull");
        }
    }
}
