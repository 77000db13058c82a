//! Packets to ports at which the far end listens for this host, and its answers.

use crate::server_connection::ServerConnection;
use kumade_probe_train::PortProtocol;
use kumade_wire::{Credential, CredentialBearer, PortAnswer, PortProbe, SessionEndpoint, Version};

/// Packets that are read from a socket at once: a stream of them is not read for ever.
pub(crate) const MAX_TAKEN_AT_ONCE: usize = 64;

/// What such packets show.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PortSession {
    pub(crate) credential: Credential,
    pub(crate) version: Version,
}

impl PortSession {
    pub(crate) fn new(peer: &ServerConnection) -> Self {
        PortSession { credential: peer.credential, version: peer.version() }
    }

    /// The packet of this number to a port.
    pub(crate) fn probe(&self, protocol: PortProtocol, port: u16, index: u32) -> [u8; PortProbe::SIZE] {
        let bearer = CredentialBearer::Port { sender: SessionEndpoint::Client, protocol, port, index };
        PortProbe { authenticator: self.credential.authenticator_for(bearer), index }.encode(self.version)
    }
}

/// The number of the packet to this port that these bytes answer; none where they are not the far end's.
pub(crate) fn answered_index(session: &PortSession, protocol: PortProtocol, port: u16, bytes: &[u8]) -> Option<u32> {
    let PortAnswer { authenticator, index } = PortAnswer::decode(bytes).ok()?;
    let bearer = CredentialBearer::Port { sender: SessionEndpoint::Server, protocol, port, index };
    session.credential.is_authenticator_of(bearer, &authenticator).then_some(index)
}
