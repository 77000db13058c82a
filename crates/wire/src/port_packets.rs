//! Packets at ports at which a server listens for the client of the turn, and of flows that it keeps while they are idle.

use crate::preamble::{PreambleError, decode_magic_and_version, encode_magic_and_version, to_array};
use crate::{Token, Version};

/// What a client sends to a port at which the server listens: a UDP packet, or the first bytes of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortProbe {
    /// What shows the session ([`CredentialBearer::Port`](crate::CredentialBearer::Port)).
    pub authenticator: Token,
    /// Which one it is.
    pub index: u32,
}

impl PortProbe {
    /// Bytes: more than the answer has, so that nobody gains by a forged source.
    pub const SIZE: usize = 48;
    const KIND: u8 = 5;

    /// As it stands on the wire.
    pub fn encode(&self, version: Version) -> [u8; Self::SIZE] {
        encode(self.authenticator, self.index, Self::KIND, version)
    }

    /// Reads a UDP payload, or the first bytes of a connection.
    ///
    /// # Errors
    /// Anything that is not exactly such a packet.
    pub fn decode(bytes: &[u8]) -> Result<(Self, Version), PreambleError> {
        let (authenticator, index, version) = decode(bytes, Self::SIZE, Self::KIND)?;
        Ok((PortProbe { authenticator, index }, version))
    }
}

/// The server's answer, or a packet that it was asked to send from there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortAnswer {
    /// What shows the session.
    pub authenticator: Token,
    /// That of the packet that is answered.
    pub index: u32,
}

impl PortAnswer {
    /// Bytes.
    pub const SIZE: usize = 32;
    const KIND: u8 = 6;

    /// As it stands on the wire.
    pub fn encode(&self, version: Version) -> [u8; Self::SIZE] {
        encode(self.authenticator, self.index, Self::KIND, version)
    }

    /// Reads a UDP payload, or what came on a connection.
    ///
    /// # Errors
    /// Anything that is not exactly such a packet.
    pub fn decode(bytes: &[u8]) -> Result<Self, PreambleError> {
        let (authenticator, index, _) = decode(bytes, Self::SIZE, Self::KIND)?;
        Ok(PortAnswer { authenticator, index })
    }
}

fn encode<const SIZE: usize>(authenticator: Token, index: u32, kind: u8, version: Version) -> [u8; SIZE] {
    let mut bytes = [0; SIZE];
    bytes[..8].copy_from_slice(&encode_magic_and_version(version));
    bytes[8] = kind;
    bytes[12..16].copy_from_slice(&index.to_be_bytes());
    bytes[16..32].copy_from_slice(&authenticator.0);
    bytes
}

fn decode(bytes: &[u8], size: usize, kind: u8) -> Result<(Token, u32, Version), PreambleError> {
    if bytes.len() != size {
        return Err(PreambleError::NotKumade);
    }
    let version = decode_magic_and_version(bytes)?;
    match bytes[8] == kind {
        true => Ok((Token(to_array(&bytes[16..32])), u32::from_be_bytes(to_array(&bytes[12..16])), version)),
        false => Err(PreambleError::Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_shorter_than_its_question() {
        const { assert!(PortAnswer::SIZE < PortProbe::SIZE) };
    }

    #[test]
    fn packets_come_back_as_they_were_and_nothing_else_does() {
        let (authenticator, index, version) = (Token([3; 16]), 0x0102_0304, Version::PORTS);
        let (probe, answer) = (PortProbe { authenticator, index }, PortAnswer { authenticator, index });
        assert_eq!(PortProbe::decode(&probe.encode(version)), Ok((probe, version)));
        assert_eq!(PortAnswer::decode(&answer.encode(version)), Ok(answer));
        for bytes in [&probe.encode(version)[..40], &answer.encode(version), b""] {
            assert_eq!(PortProbe::decode(bytes), Err(PreambleError::NotKumade));
        }
        let mut wrong_kind = answer.encode(version);
        wrong_kind[8] = 4;
        assert_eq!(PortAnswer::decode(&wrong_kind), Err(PreambleError::Malformed));
    }
}
