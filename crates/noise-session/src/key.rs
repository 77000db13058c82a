use rand_core::CryptoRng;
use snow::params::DHChoice;
use snow::resolvers::{CryptoResolver, DefaultResolver};
use std::fmt;
use std::str::FromStr;
use subtle::ConstantTimeEq;
use thiserror::Error;
use zeroize::Zeroizing;

/// Bytes of every kind of key.
const KEY_BYTES: usize = 32;

/// The secret half of a host's identity (Curve25519, RFC 7748). It stands in a file as 64 hexadecimal digits.
#[derive(Clone)]
pub struct PrivateKey(Zeroizing<[u8; KEY_BYTES]>);

/// The public half of a host's identity, by which its peers know it. Written as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey([u8; KEY_BYTES]);

/// A secret that two hosts share. It stands in a file as 64 hexadecimal digits.
#[derive(Clone)]
pub struct PresharedKey(Zeroizing<[u8; KEY_BYTES]>);

/// The text is no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a key is 64 hexadecimal digits on one line")]
pub struct KeyError;

/// The text is no public key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a public key is 64 hexadecimal digits: `kumade key public` prints it at the host whose key it is")]
pub struct PublicKeyError;

impl PrivateKey {
    /// A new identity.
    pub fn generate(random: &mut dyn CryptoRng) -> Self {
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        random.fill_bytes(&mut *bytes);
        PrivateKey(bytes)
    }

    /// A key from its bytes, any of which are valid (RFC 7748 §5).
    pub fn from_bytes(bytes: [u8; KEY_BYTES]) -> Self {
        PrivateKey(Zeroizing::new(bytes))
    }

    /// Reads the contents of a key file.
    ///
    /// # Errors
    /// Anything but 64 hexadecimal digits, with white space around them at most.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        parse_hex(text).map(PrivateKey)
    }

    /// The contents of a key file: secret.
    pub fn to_hex(&self) -> Zeroizing<String> {
        Zeroizing::new(hex_digits(&self.0))
    }

    /// The identity's public half.
    pub fn public_key(&self) -> PublicKey {
        let mut pair = DefaultResolver.resolve_dh(&DHChoice::Curve25519).expect("Curve25519 is compiled in");
        pair.set(&*self.0);
        let mut bytes = [0; KEY_BYTES];
        bytes.copy_from_slice(pair.pubkey());
        PublicKey(bytes)
    }

    pub(crate) fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }
}

impl PublicKey {
    /// A key from its bytes.
    pub const fn from_bytes(bytes: [u8; KEY_BYTES]) -> Self {
        PublicKey(bytes)
    }

    /// Its bytes.
    pub const fn as_bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }
}

impl PresharedKey {
    /// A key from its bytes. Thirty-two zeros are what two hosts use that share none.
    pub fn from_bytes(bytes: [u8; KEY_BYTES]) -> Self {
        PresharedKey(Zeroizing::new(bytes))
    }

    /// Reads the contents of a key file.
    ///
    /// # Errors
    /// Anything but 64 hexadecimal digits, with white space around them at most.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        parse_hex(text).map(PresharedKey)
    }

    /// The contents of a key file: secret.
    pub fn to_hex(&self) -> Zeroizing<String> {
        Zeroizing::new(hex_digits(&self.0))
    }

    /// Its bytes: secret.
    pub fn as_bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }
}

impl Default for PresharedKey {
    /// None shared: zeros, as the WireGuard paper §5.4 has it.
    fn default() -> Self {
        PresharedKey::from_bytes([0; KEY_BYTES])
    }
}

impl PartialEq for PresharedKey {
    /// In constant time.
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&*other.0).into()
    }
}

impl Eq for PresharedKey {}

impl FromStr for PublicKey {
    type Err = PublicKeyError;

    fn from_str(text: &str) -> Result<Self, PublicKeyError> {
        parse_hex(text).map(|bytes| PublicKey(*bytes)).map_err(|KeyError| PublicKeyError)
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex_digits(&self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

impl fmt::Debug for PrivateKey {
    /// Never shows the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey(…)")
    }
}

impl fmt::Debug for PresharedKey {
    /// Never shows the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PresharedKey(…)")
    }
}

fn parse_hex(text: &str) -> Result<Zeroizing<[u8; KEY_BYTES]>, KeyError> {
    let digits = text.trim().as_bytes();
    if digits.len() != 2 * KEY_BYTES {
        return Err(KeyError);
    }
    let mut bytes = Zeroizing::new([0; KEY_BYTES]);
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |d: u8| (d as char).to_digit(16).ok_or(KeyError);
        *byte = (digit(pair[0])? * 16 + digit(pair[1])?) as u8;
    }
    Ok(bytes)
}

fn hex_digits(bytes: &[u8; KEY_BYTES]) -> String {
    let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or_default();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_file_is_64_hexadecimal_digits() {
        let text = "00ff".repeat(16) + "\n";
        let key = PresharedKey::parse(&text).unwrap();
        assert_eq!(key.as_bytes()[..4], [0, 255, 0, 255]);
        assert_eq!(*key.to_hex(), text.trim());
        assert_eq!(format!("{key:?}"), "PresharedKey(…)");
        let key = PrivateKey::parse(&text).unwrap();
        assert_eq!(*key.to_hex(), text.trim());
        assert_eq!(format!("{key:?}"), "PrivateKey(…)");
        let key = text.parse::<PublicKey>().unwrap();
        assert_eq!(
            (key.to_string(), format!("{key:?}")),
            (text.trim().to_owned(), format!("PublicKey({})", text.trim()))
        );
        for bad in ["", "00", &"0g".repeat(32), &"00".repeat(33), &"é".repeat(32)] {
            assert_eq!(PresharedKey::parse(bad), Err(KeyError));
        }
    }

    #[test]
    fn preshared_keys_are_the_same_where_all_their_bits_are() {
        let key = PresharedKey::from_bytes([7; 32]);
        assert_eq!(key, PresharedKey::from_bytes([7; 32]));
        for bit in 0..256 {
            let mut other = [7; 32];
            other[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(key, PresharedKey::from_bytes(other));
        }
    }

    /// Alice's keys of RFC 7748 §6.1.
    #[test]
    fn the_public_half_is_that_of_rfc_7748() {
        let private = PrivateKey::parse("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a").unwrap();
        let public = "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a";
        assert_eq!(private.public_key().to_string(), public);
    }
}
