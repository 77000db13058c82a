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
    OtherVersion {
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
        shown: Token,
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
        bytes[..8].copy_from_slice(&opening(version));
        match *self {
            Preamble::Control { encrypted } => {
                bytes[8] = 1;
                bytes[9] = u8::from(encrypted);
            }
            Preamble::Probe { shown, index } => {
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
        let version = read_opening(bytes)?;
        let (flags, index, shown, rest) = (bytes[9], &bytes[10..12], &bytes[12..28], &bytes[28..]);
        let blank = |part: &[u8]| part.iter().all(|&b| b == 0);
        match bytes[8] {
            1 if flags <= 1 && blank(&bytes[10..]) => Ok((Preamble::Control { encrypted: flags == 1 }, version)),
            2 if flags == 0 && blank(rest) => {
                let probe = Preamble::Probe { shown: Token(array(shown)), index: u16::from_be_bytes(array(index)) };
                Ok((probe, version))
            }
            _ => Err(PreambleError::Malformed),
        }
    }
}

/// Whether the server takes a control connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Yes: frames follow (a Noise handshake first, where the client asked for encryption).
    Welcome,
    /// No: the server does not speak the version; its newest stands in the answer.
    OtherVersion,
    /// No: this server takes encrypted sessions only.
    KeyRequired,
    /// No: this server has no key.
    NoKey,
    /// No: too many clients are connected.
    Full,
}

/// What a server answers on a control connection. (Probe connections are answered by
/// [`ServerMessage::Connections`](crate::ServerMessage::Connections) instead, so that nothing but probe packets
/// ever comes back on them.)
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer(pub Verdict);

impl Answer {
    /// Every answer is this long.
    pub const SIZE: usize = 16;

    /// As it stands on the wire.
    pub fn encode(self, version: Version) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        bytes[..8].copy_from_slice(&opening(version));
        bytes[8] = match self.0 {
            Verdict::Welcome => 0,
            Verdict::OtherVersion => 1,
            Verdict::KeyRequired => 2,
            Verdict::NoKey => 3,
            Verdict::Full => 4,
        };
        bytes
    }

    /// Reads what a server sent first, and the version that it speaks.
    ///
    /// # Errors
    /// Another protocol, a version of this one that this crate does not speak, or an unknown verdict.
    pub fn decode(bytes: &[u8; Self::SIZE]) -> Result<(Self, Version), PreambleError> {
        let version = read_opening(bytes)?;
        let answer = Answer(match bytes[8] {
            0 => Verdict::Welcome,
            1 => Verdict::OtherVersion,
            2 => Verdict::KeyRequired,
            3 => Verdict::NoKey,
            4 => Verdict::Full,
            _ => return Err(PreambleError::Malformed),
        });
        Ok((answer, version))
    }
}

/// Whether `bytes`, as far as they go, can be the beginning of a preamble or answer.
pub(crate) fn may_begin(bytes: &[u8]) -> bool {
    bytes.iter().zip(&MAGIC).all(|(a, b)| a == b)
}

/// Magic and version.
pub(crate) fn opening(version: Version) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..6].copy_from_slice(&MAGIC);
    bytes[6..].copy_from_slice(&version.number().to_be_bytes());
    bytes
}

/// The version behind the magic. `bytes` holds at least eight.
pub(crate) fn read_opening(bytes: &[u8]) -> Result<Version, PreambleError> {
    if bytes[..6] != MAGIC {
        return Err(PreambleError::NotKumade);
    }
    let theirs = u16::from_be_bytes(array(&bytes[6..8]));
    Version::spoken(theirs).ok_or(PreambleError::OtherVersion { theirs })
}

/// A slice whose length the caller knows, as an array.
pub(crate) fn array<const N: usize>(slice: &[u8]) -> [u8; N] {
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
            Preamble::Probe { shown: Token([7; 16]), index: 0x1234 },
        ] {
            for version in [Version::OLDEST, Version::NEWEST] {
                assert_eq!(Preamble::decode(&preamble.encode(version)), Ok((preamble, version)));
            }
        }
        for verdict in [Verdict::Welcome, Verdict::OtherVersion, Verdict::KeyRequired, Verdict::NoKey, Verdict::Full] {
            let version = Version::OLDEST;
            assert_eq!(Answer::decode(&Answer(verdict).encode(version)), Ok((Answer(verdict), version)));
        }
    }

    #[test]
    fn strangers_and_other_versions_are_told_apart() {
        assert_eq!(Answer::decode(b"HTTP/1.1 400 Bad"), Err(PreambleError::NotKumade));
        let mut other = Answer(Verdict::OtherVersion).encode(Version::NEWEST);
        other[7] = 99;
        assert_eq!(Answer::decode(&other), Err(PreambleError::OtherVersion { theirs: 99 }));
        let mut unknown = Preamble::Control { encrypted: false }.encode(Version::NEWEST);
        unknown[8] = 77;
        assert_eq!(Preamble::decode(&unknown), Err(PreambleError::Malformed));
        let control = Preamble::Control { encrypted: false }.encode(Version::NEWEST);
        let probe = Preamble::Probe { shown: Token([7; 16]), index: 1 }.encode(Version::NEWEST);
        for (preamble, place, value) in
            [(control, 9, 2), (control, 10, 1), (control, 31, 1), (probe, 9, 1), (probe, 28, 1)]
        {
            let mut other = preamble;
            other[place] = value;
            assert_eq!(Preamble::decode(&other), Err(PreambleError::Malformed), "octet {place}");
        }
    }
}
