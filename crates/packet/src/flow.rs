use crate::headers::Headers;
use std::net::{IpAddr, SocketAddr};

/// The 5-tuple that identifies one direction of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowKey {
    /// Protocol number; see [`crate::protocol`].
    pub protocol: u8,
    /// Source; port 0 where the protocol has none or the packet does not contain it.
    pub source: SocketAddr,
    /// Destination; port 0 where the protocol has none or the packet does not contain it.
    pub destination: SocketAddr,
}

/// Both addresses of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Addresses {
    /// Where it comes from.
    pub source: IpAddr,
    /// Where it goes.
    pub destination: IpAddr,
}

impl FlowKey {
    /// The flow to which a packet with these headers belongs.
    pub fn from_headers(headers: &Headers) -> Self {
        let (source_port, destination_port) = headers.ports.unwrap_or((0, 0));
        FlowKey {
            protocol: headers.protocol,
            source: SocketAddr::new(headers.source, source_port),
            destination: SocketAddr::new(headers.destination, destination_port),
        }
    }

    /// The opposite direction of the same flow.
    pub fn reversed(self) -> Self {
        FlowKey { protocol: self.protocol, source: self.destination, destination: self.source }
    }

    /// The addresses of its packets.
    pub fn addresses(&self) -> Addresses {
        Addresses { source: self.source.ip(), destination: self.destination.ip() }
    }

    /// The same flow with other addresses.
    pub fn with_addresses(self, addresses: Addresses) -> Self {
        FlowKey {
            protocol: self.protocol,
            source: SocketAddr::new(addresses.source, self.source.port()),
            destination: SocketAddr::new(addresses.destination, self.destination.port()),
        }
    }
}
