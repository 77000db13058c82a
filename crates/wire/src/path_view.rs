//! What one end of a session sees of the other end's packets, as its kernel tells it without privilege.

use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// What the server sees of the session's packets.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PathView {
    /// Of the control connection.
    pub tcp: Option<TcpPathView>,
    /// Of UDP, once it is open.
    pub udp: Option<UdpPathView>,
}

/// What the server sees of a TCP connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpPathView {
    /// Where it comes from.
    pub client: SocketAddr,
    /// Whether it arrived at the address and port that the client has connected to: a host of that address says yes, one behind an address
    /// translator no. (The address itself is not said: it may be one that is nobody's business.)
    pub is_destination_kept: bool,
    /// The SYN from the first byte of its IP header to the last of its TCP options (`TCP_SAVED_SYN`); empty where the server's system does
    /// not keep it, or was too busy to.
    pub syn: Vec<u8>,
    /// The server's end of it.
    pub endpoint: TcpEnd,
}

/// What the kernel of one end says of a TCP connection (`TCP_INFO`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TcpEnd {
    /// `TCPI_OPT_*`: what was negotiated.
    pub options: u8,
    /// The maximum segment size that this end announced, in bytes (RFC 9293, 3.7.1).
    pub announced_mss: u32,
    /// Payload bytes of the largest segment that this end sends.
    pub send_mss: u32,
    /// The largest IP packet, in bytes, that the path takes as far as this end knows.
    pub path_mtu: u32,
    /// TTL or hop limit with which it sends.
    pub hop_limit: Option<u8>,
    /// Segments of its own that arrived marked with CE, as the other end reported.
    pub delivered_ce: u32,
}

/// What the server sees of the client's UDP packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct UdpPathView {
    /// Where they come from.
    pub client: SocketAddr,
    /// TTL or hop limit of the first as it arrived; none where the server's system does not say.
    pub arrived_hop_limit: Option<u8>,
    /// With which the server sends.
    pub hop_limit: Option<u8>,
    /// The largest IP packet, in bytes, that the path to the client takes as far as the server knows.
    pub path_mtu: Option<u32>,
}

impl TcpPathView {
    /// No saved SYN is longer, in bytes: two headers with all of their options, and some more of IPv6.
    pub const MAX_SYN_BYTES: usize = 512;
}
