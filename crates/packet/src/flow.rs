use crate::Headers;
use std::net::SocketAddr;

/// What packets of one direction of a conversation have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowKey {
    /// What IP carries; see [`crate::protocol`].
    pub protocol: u8,
    /// Sender; port 0 where the protocol has none or the packet does not say.
    pub source: SocketAddr,
    /// Receiver; port 0 where the protocol has none or the packet does not say.
    pub destination: SocketAddr,
}

impl FlowKey {
    /// The flow to which a packet with these headers belongs.
    pub fn of(headers: &Headers) -> Self {
        let (source_port, destination_port) = headers.ports().unwrap_or((0, 0));
        FlowKey {
            protocol: headers.protocol,
            source: SocketAddr::new(headers.source, source_port),
            destination: SocketAddr::new(headers.destination, destination_port),
        }
    }

    /// The other direction of the same conversation.
    pub fn reversed(self) -> Self {
        FlowKey { protocol: self.protocol, source: self.destination, destination: self.source }
    }
}
