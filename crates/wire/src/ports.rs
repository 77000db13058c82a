//! What is said of ports at which a server listens for the client of the turn, and of flows that it keeps while they are idle.

use kumade_probe_train::PortProtocol;
use kumade_units::Span;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// The number ([`PortProbe::index`](crate::PortProbe::index)) of the first packet, and the connection, to a server's second address, and of the first packet from there.
pub const FIRST_SECOND_ADDRESS_INDEX: u32 = 16;
/// Packets that a server sends from a port, and at each of its addresses, when it is asked to ([`SendFromPort`](crate::ClientMessage::SendFromPort)).
pub const PACKETS_PER_SEND_REQUEST: u32 = 8;

/// What has become of a request to listen at a port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PortStatus {
    /// The server listens there.
    Listening,
    /// Another program has it.
    InUse,
    /// The server's configuration does not allow it.
    NotAllowed,
    /// The server allows no more at once, or in this turn.
    TooMany,
    /// The system does not give it, for this reason.
    Failed(String),
}

/// A port at which the server was to listen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenedPort {
    /// Its protocol.
    pub protocol: PortProtocol,
    /// Its number, also where any was asked for; zero where there is none.
    pub port: u16,
    /// Whether the server listens there.
    pub status: PortStatus,
}

/// A packet, or the beginning of a connection, that has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortArrival {
    /// Of which protocol.
    pub protocol: PortProtocol,
    /// At which port.
    pub port: u16,
    /// [`PortProbe::index`].
    pub index: u32,
    /// From where.
    pub source: SocketAddr,
}

/// How long a flow is idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdleFlow {
    /// From the server's answer to the request on.
    pub idle: Span,
}

/// What has become of a flow that was idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdleFlowRecord {
    /// For how long it was idle, until the server sent down it; none where it did not.
    pub idle: Option<Span>,
    /// Whether something has arrived on it after it was idle.
    pub has_arrived: bool,
}
