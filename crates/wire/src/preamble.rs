//! The fixed-size first words of every TCP connection, and the server's answer to them.
//!
//! The first eight bytes, magic and version, never change between versions, so that two versions can tell each other
//! apart; the rest belongs to the [`Version`].

use crate::{Token, Version};
use thiserror::Error;

/// What every connection and every UDP opening packet begins with.
pub const MAGIC: [u8; 6] = *b"KUMADE";

/// Why the first bytes cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PreambleError {
    /// Another protocol altogether.
    #[error("the peer does not speak the kumade protocol")]
    NotKumade,
    /// Another version of this protocol, which this crate does not speak, or which was not agreed on.
    #[error(
        "the peer speaks protocol version {theirs}, this program versions {} to {}",
        Version::OLDEST,
        Version::NEWEST
    )]
    UnsupportedVersion {
        /// The version that the peer named.
        theirs: u16,
    },
    /// The right version, but invalid contents.
    #[error("the peer's first bytes are not valid in the protocol version that they name")]
    Malformed,
}

/// The first bytes that a client sends on a TCP connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preamble {
    /// A control connection: messages in frames follow.
    Control {
        /// Whether the frames are encrypted with a shared key.
        encrypted: bool,
    },
    /// A probe connection: nothing but probe packets follows.
    Probe {
        /// What shows the session that it belongs to ([`Credential`](crate::Credential)).
        authenticator: Token,
        /// Its number within the session.
        index: u16,
    },
}

impl Preamble {
    /// Every preamble is this long.
    pub const SIZE: usize = 32;

    /// As it stands on the wire.
    pub fn encode(&self, version: Version) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        bytes[..8].copy_from_slice(&encode_magic_and_version(version));
        match *self {
            Preamble::Control { encrypted } => {
                bytes[8] = 1;
                bytes[9] = u8::from(encrypted);
            }
            Preamble::Probe { authenticator: shown, index } => {
                bytes[8] = 2;
                bytes[10..12].copy_from_slice(&index.to_be_bytes());
                bytes[12..28].copy_from_slice(&shown.0);
            }
        }
        bytes
    }

    /// Reads what a client sent first, and the version that it speaks.
    ///
    /// # Errors
    /// Another protocol, a version of this one that this crate does not speak, or an unknown kind of connection.
    pub fn decode(bytes: &[u8; Self::SIZE]) -> Result<(Self, Version), PreambleError> {
        let version = decode_magic_and_version(bytes)?;
        let (flags, index, shown, rest) = (bytes[9], &bytes[10..12], &bytes[12..28], &bytes[28..]);
        let blank = |part: &[u8]| part.iter().all(|&b| b == 0);
        match bytes[8] {
            1 if flags <= 1 && blank(&bytes[10..]) => Ok((Preamble::Control { encrypted: flags == 1 }, version)),
            2 if flags == 0 && blank(rest) => {
                let probe = Preamble::Probe {
                    authenticator: Token(to_array(shown)),
                    index: u16::from_be_bytes(to_array(index)),
                };
                Ok((probe, version))
            }
            _ => Err(PreambleError::Malformed),
        }
    }
}

/// Whether the server takes a control connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdmissionDecision {
    /// Yes: frames follow (a Noise handshake first, where the client asked for encryption).
    Accepted,
    /// No: the server does not speak the version; its newest stands in the answer.
    UnsupportedVersion,
    /// No: this server takes encrypted sessions only.
    KeyRequired,
    /// No: this server has no key.
    NoServerKey,
    /// No: too many clients are connected.
    ServerFull,
}

/// What a server answers on a control connection. (Probe connections are answered by
/// [`ServerMessage::Connections`](crate::ServerMessage::Connections) instead, so that nothing but probe packets
/// ever comes back on them.)
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PreambleReply(pub AdmissionDecision);

impl PreambleReply {
    /// Every answer is this long.
    pub const SIZE: usize = 16;

    /// As it stands on the wire.
    pub fn encode(self, version: Version) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        bytes[..8].copy_from_slice(&encode_magic_and_version(version));
        bytes[8] = match self.0 {
            AdmissionDecision::Accepted => 0,
            AdmissionDecision::UnsupportedVersion => 1,
            AdmissionDecision::KeyRequired => 2,
            AdmissionDecision::NoServerKey => 3,
            AdmissionDecision::ServerFull => 4,
        };
        bytes
    }

    /// Reads what a server sent first, and the version that it speaks.
    ///
    /// # Errors
    /// Another protocol, a version of this one that this crate does not speak, or an unknown verdict.
    pub fn decode(bytes: &[u8; Self::SIZE]) -> Result<(Self, Version), PreambleError> {
        let version = decode_magic_and_version(bytes)?;
        let answer = PreambleReply(match bytes[8] {
            0 => AdmissionDecision::Accepted,
            1 => AdmissionDecision::UnsupportedVersion,
            2 => AdmissionDecision::KeyRequired,
            3 => AdmissionDecision::NoServerKey,
            4 => AdmissionDecision::ServerFull,
            _ => return Err(PreambleError::Malformed),
        });
        Ok((answer, version))
    }
}

/// Whether `bytes`, as far as they go, can be the beginning of a preamble or answer.
pub(crate) fn is_magic_prefix(bytes: &[u8]) -> bool {
    bytes.iter().zip(&MAGIC).all(|(a, b)| a == b)
}

/// Magic and version.
pub(crate) fn encode_magic_and_version(version: Version) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..6].copy_from_slice(&MAGIC);
    bytes[6..].copy_from_slice(&version.number().to_be_bytes());
    bytes
}

/// The version behind the magic. `bytes` holds at least eight.
pub(crate) fn decode_magic_and_version(bytes: &[u8]) -> Result<Version, PreambleError> {
    if bytes[..6] != MAGIC {
        return Err(PreambleError::NotKumade);
    }
    let theirs = u16::from_be_bytes(to_array(&bytes[6..8]));
    Version::from_number(theirs).ok_or(PreambleError::UnsupportedVersion { theirs })
}

/// A slice whose length the caller knows, as an array.
pub(crate) fn to_array<const N: usize>(slice: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(slice);
    array
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preambles_come_back_as_they_were() {
        for preamble in [
            Preamble::Control { encrypted: false },
            Preamble::Control { encrypted: true },
            Preamble::Probe { authenticator: Token([7; 16]), index: 0x1234 },
        ] {
            for version in [Version::OLDEST, Version::NEWEST] {
                assert_eq!(Preamble::decode(&preamble.encode(version)), Ok((preamble, version)));
            }
        }
        for verdict in [
            AdmissionDecision::Accepted,
            AdmissionDecision::UnsupportedVersion,
            AdmissionDecision::KeyRequired,
            AdmissionDecision::NoServerKey,
            AdmissionDecision::ServerFull,
        ] {
            let version = Version::OLDEST;
            assert_eq!(
                PreambleReply::decode(&PreambleReply(verdict).encode(version)),
                Ok((PreambleReply(verdict), version))
            );
        }
    }

    #[test]
    fn strangers_and_other_versions_are_told_apart() {
        assert_eq!(PreambleReply::decode(b"HTTP/1.1 400 Bad"), Err(PreambleError::NotKumade));
        let mut other = PreambleReply(AdmissionDecision::UnsupportedVersion).encode(Version::NEWEST);
        other[7] = 99;
        assert_eq!(PreambleReply::decode(&other), Err(PreambleError::UnsupportedVersion { theirs: 99 }));
        let mut unknown = Preamble::Control { encrypted: false }.encode(Version::NEWEST);
        unknown[8] = 77;
        assert_eq!(Preamble::decode(&unknown), Err(PreambleError::Malformed));
        let control = Preamble::Control { encrypted: false }.encode(Version::NEWEST);
        let probe = Preamble::Probe { authenticator: Token([7; 16]), index: 1 }.encode(Version::NEWEST);
        for (preamble, place, value) in
            [(control, 9, 2), (control, 10, 1), (control, 31, 1), (probe, 9, 1), (probe, 28, 1)]
        {
            let mut other = preamble;
            other[place] = value;
            assert_eq!(Preamble::decode(&other), Err(PreambleError::Malformed), "octet {place}");
        }
    }
}
