//! What a session's connections and packets show to be known as the session's.

use crate::{Token, Version};
use kumade_probe_train::PortProtocol;

/// What a session's probe connections and UDP packets show beside its control connection, in place of its token where that is
/// a secret.
///
/// The token is a secret where the control connection over which it is told is encrypted, from
/// [version 4](Version::AUTHENTICATED) on. It is then the key of a code (keyed BLAKE2s, RFC 7693) for each connection and packet
/// of its own: who sees them all can make no other, and a copy has the number of the one that came first. In other sessions the
/// token itself is shown, but for packets and connections to ports ([`CredentialBearer::Port`]): these may go to an address of the
/// server's choice, which also chooses the token, and is not to choose what others are sent.
#[derive(Debug, Clone, Copy)]
pub struct Credential {
    token: Token,
    is_secret: bool,
}

/// What shows that it belongs to a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CredentialBearer {
    /// The packet by which a client asks for UDP.
    UdpRequest,
    /// A probe connection.
    Connection {
        /// Its number within the session.
        index: u16,
    },
    /// A packet at a port at which the server listens for the client ([`PortProbe`](crate::PortProbe)), or the answer to one.
    Port {
        /// Who sends it.
        sender: SessionEndpoint,
        /// Whose port it is.
        protocol: PortProtocol,
        /// The port at which the server listens.
        port: u16,
        /// Which packet it is.
        index: u32,
    },
    /// A UDP packet of a train.
    Packet {
        /// Who sends it.
        sender: SessionEndpoint,
        /// The train's number within the session.
        train: u32,
        /// The packet's place in the train.
        index: u32,
    },
}

/// An end of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionEndpoint {
    /// Who measures.
    Client,
    /// Who answers.
    Server,
}

impl SessionEndpoint {
    /// The other one.
    pub fn peer(self) -> Self {
        match self {
            SessionEndpoint::Client => SessionEndpoint::Server,
            SessionEndpoint::Server => SessionEndpoint::Client,
        }
    }
}

impl Credential {
    /// Of a session that speaks this version.
    pub fn new(token: Token, version: Version, is_encrypted: bool) -> Self {
        Credential { token, is_secret: is_encrypted && version >= Version::AUTHENTICATED }
    }

    /// What this one shows.
    pub fn authenticator_for(&self, bearer: CredentialBearer) -> Token {
        if self.is_secret || matches!(bearer, CredentialBearer::Port { .. }) {
            Token(kumade_noise_session::keyed_hash(&self.token.0, &bearer.encode()))
        } else {
            self.token
        }
    }

    /// Whether that is what this one shows. Compares in constant time.
    pub fn is_authenticator_of(&self, bearer: CredentialBearer, shown: &Token) -> bool {
        kumade_noise_session::is_equal(&self.authenticator_for(bearer).0, &shown.0)
    }
}

impl CredentialBearer {
    /// Different for any two.
    fn encode(self) -> [u8; 9] {
        let (kind, first, second) = match self {
            CredentialBearer::UdpRequest => (0, 0, 0),
            CredentialBearer::Connection { index } => (1, 0, index.into()),
            CredentialBearer::Packet { sender: SessionEndpoint::Client, train, index } => (2, train, index),
            CredentialBearer::Packet { sender: SessionEndpoint::Server, train, index } => (3, train, index),
            CredentialBearer::Port { sender, protocol, port, index } => {
                let kind = match (sender, protocol) {
                    (SessionEndpoint::Client, PortProtocol::Udp) => 4,
                    (SessionEndpoint::Server, PortProtocol::Udp) => 5,
                    (SessionEndpoint::Client, PortProtocol::Tcp) => 6,
                    (SessionEndpoint::Server, PortProtocol::Tcp) => 7,
                };
                (kind, port.into(), index)
            }
        };
        let mut bytes = [kind; 9];
        bytes[1..5].copy_from_slice(&u32::to_be_bytes(first));
        bytes[5..].copy_from_slice(&u32::to_be_bytes(second));
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const TOKEN: Token = Token([7; 16]);
    const BEARERS: [CredentialBearer; 12] = [
        CredentialBearer::UdpRequest,
        CredentialBearer::Connection { index: 0 },
        CredentialBearer::Connection { index: 256 },
        CredentialBearer::Packet { sender: SessionEndpoint::Client, train: 0, index: 0 },
        CredentialBearer::Packet { sender: SessionEndpoint::Client, train: 0, index: 1 },
        CredentialBearer::Packet { sender: SessionEndpoint::Client, train: 1, index: 0 },
        CredentialBearer::Packet { sender: SessionEndpoint::Client, train: 1 << 24, index: 0 },
        CredentialBearer::Packet { sender: SessionEndpoint::Server, train: 0, index: 0 },
        CredentialBearer::Packet { sender: SessionEndpoint::Server, train: 0, index: 1 << 24 },
        port(SessionEndpoint::Client, PortProtocol::Udp),
        port(SessionEndpoint::Server, PortProtocol::Udp),
        port(SessionEndpoint::Client, PortProtocol::Tcp),
    ];

    const fn port(sender: SessionEndpoint, protocol: PortProtocol) -> CredentialBearer {
        CredentialBearer::Port { sender, protocol, port: 0, index: 0 }
    }

    #[test]
    fn a_secret_token_is_never_shown_and_what_is_shown_serves_one_thing_in_one_session() {
        let credential = Credential::new(TOKEN, Version::AUTHENTICATED, true);
        let other = Credential::new(Token([8; 16]), Version::AUTHENTICATED, true);
        let shown: BTreeSet<_> = BEARERS.iter().map(|&bearer| credential.authenticator_for(bearer)).collect();
        assert_eq!(shown.len(), BEARERS.len());
        assert!(!shown.contains(&TOKEN));
        for bearer in BEARERS {
            let accepted: Vec<_> = shown.iter().filter(|shown| credential.is_authenticator_of(bearer, shown)).collect();
            assert_eq!(accepted, [&credential.authenticator_for(bearer)]);
            assert!(!shown.iter().any(|shown| other.is_authenticator_of(bearer, shown)));
            assert!(!credential.is_authenticator_of(bearer, &TOKEN));
        }
    }

    #[test]
    fn every_bit_of_it_counts() {
        let credential = Credential::new(TOKEN, Version::AUTHENTICATED, true);
        for bit in 0..128 {
            let mut forged = credential.authenticator_for(CredentialBearer::UdpRequest);
            forged.0[bit / 8] ^= 1 << (bit % 8);
            assert!(!credential.is_authenticator_of(CredentialBearer::UdpRequest, &forged), "bit {bit}");
        }
    }

    #[test]
    fn the_token_itself_is_shown_without_a_key_and_before_version_4_but_not_at_ports() {
        let before = Version::from_number(Version::AUTHENTICATED.number() - 1).unwrap();
        for (version, is_encrypted) in [(Version::AUTHENTICATED, false), (before, true), (before, false)] {
            let credential = Credential::new(TOKEN, version, is_encrypted);
            for bearer in BEARERS {
                let is_at_port = matches!(bearer, CredentialBearer::Port { .. });
                assert_eq!(credential.authenticator_for(bearer) == TOKEN, !is_at_port, "{bearer:?}");
            }
            assert!(!credential.is_authenticator_of(CredentialBearer::UdpRequest, &Token([8; 16])));
        }
    }
}
