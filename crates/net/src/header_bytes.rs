//! Sizes of the headers before what a socket sends.

use std::net::{IpAddr, SocketAddr};

/// Bytes of the IP and UDP headers towards `peer`.
pub fn udp_header_bytes(peer: SocketAddr) -> u32 {
    ip_header_bytes(peer) + 8
}

/// Bytes of the IP header towards `peer`; packets to an IPv4-mapped address travel by IPv4.
pub(crate) fn ip_header_bytes(peer: SocketAddr) -> u32 {
    match peer.ip().to_canonical() {
        IpAddr::V4(_) => 20,
        IpAddr::V6(_) => 40,
    }
}
