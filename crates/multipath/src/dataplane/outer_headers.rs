use crate::OuterTransport;
use kumade_noise_session::Route;
use kumade_packet::Ecn;
use kumade_units::Time;

/// How a datagram arrived, and what the headers around it said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OuterHeaders {
    /// By which path it came, and who sent it.
    pub route: Route,
    /// What carried it.
    pub transport: OuterTransport,
    /// Its ECN field: what it says of the path is passed on to the packet in it (RFC 6040 §4.2).
    pub ecn: Ecn,
    /// Bytes of the datagram's packet with all headers from the IP header on.
    pub packet_bytes: u32,
    /// When its host received it: not after the call that hands it over, and nearer to the truth than that, since the delay
    /// of the path is told by it. It may be before an earlier one's.
    pub arrival: Time,
}
