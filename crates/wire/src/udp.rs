//! How UDP is opened: the client shows what proves its session ([`Credential`](crate::Credential)), the server answers with a nonce, and the client returns that nonce
//! over its control connection ([`ClientMessage::ProveUdp`](crate::ClientMessage::ProveUdp)).
//!
//! The answer is smaller than the request, so a forged sender address gains nothing by it, and the server sends
//! nothing else by UDP before the nonce has come back.

use crate::preamble::{PreambleError, decode_magic_and_version, encode_magic_and_version, to_array};
use crate::{Token, Version};

/// The client's first UDP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdpRequest {
    /// What shows the session that wants UDP.
    pub authenticator: Token,
}

impl UdpRequest {
    /// Bytes of the UDP payload: larger than the answer.
    pub const SIZE: usize = 48;

    /// As it stands on the wire.
    pub fn encode(&self, version: Version) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        bytes[..8].copy_from_slice(&encode_magic_and_version(version));
        bytes[8] = 3;
        bytes[16..32].copy_from_slice(&self.authenticator.0);
        bytes
    }

    /// Reads a UDP payload, and the version of its sender.
    ///
    /// # Errors
    /// Anything that is not exactly such a packet.
    pub fn decode(payload: &[u8]) -> Result<(Self, Version), PreambleError> {
        let version = decode_header(payload, Self::SIZE, 3)?;
        Ok((UdpRequest { authenticator: Token(to_array(&payload[16..32])) }, version))
    }
}

/// The server's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdpAnswer {
    /// To be returned over the control connection.
    pub nonce: [u8; 16],
}

impl UdpAnswer {
    /// Bytes of the UDP payload.
    pub const SIZE: usize = 32;

    /// As it stands on the wire.
    pub fn encode(&self, version: Version) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        bytes[..8].copy_from_slice(&encode_magic_and_version(version));
        bytes[8] = 4;
        bytes[16..32].copy_from_slice(&self.nonce);
        bytes
    }

    /// Reads a UDP payload.
    ///
    /// # Errors
    /// Anything that is not exactly such a packet.
    pub fn decode(payload: &[u8]) -> Result<Self, PreambleError> {
        decode_header(payload, Self::SIZE, 4)?;
        Ok(UdpAnswer { nonce: to_array(&payload[16..32]) })
    }
}

fn decode_header(payload: &[u8], size: usize, kind: u8) -> Result<Version, PreambleError> {
    if payload.len() != size {
        return Err(PreambleError::NotKumade);
    }
    let version = decode_magic_and_version(payload)?;
    if payload[8] == kind { Ok(version) } else { Err(PreambleError::Malformed) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_never_exceeds_the_request() {
        const { assert!(UdpAnswer::SIZE <= UdpRequest::SIZE) };
    }

    #[test]
    fn packets_come_back_as_they_were_and_nothing_else_does() {
        let request = UdpRequest { authenticator: Token([3; 16]) };
        let answer = UdpAnswer { nonce: [5; 16] };
        let version = Version::OLDEST;
        assert_eq!(UdpRequest::decode(&request.encode(version)), Ok((request, version)));
        assert_eq!(UdpAnswer::decode(&answer.encode(version)), Ok(answer));
        assert_eq!(UdpRequest::decode(&answer.encode(version)), Err(PreambleError::NotKumade));
        assert_eq!(UdpRequest::decode(b""), Err(PreambleError::NotKumade));
        let mut wrong_kind = request.encode(version);
        wrong_kind[8] = 4;
        assert_eq!(UdpRequest::decode(&wrong_kind), Err(PreambleError::Malformed));
    }
}
