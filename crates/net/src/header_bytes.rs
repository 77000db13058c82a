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

/// Bytes of the IP and TCP headers of data segments towards `peer`, which have time stamps (RFC 7323) or no option.
pub fn tcp_header_bytes(peer: SocketAddr, has_timestamps: bool) -> u32 {
    const TCP_HEADER_BYTES: u32 = 20;
    const TIMESTAMPS_BYTES: u32 = 12;
    ip_header_bytes(peer) + TCP_HEADER_BYTES + if has_timestamps { TIMESTAMPS_BYTES } else { 0 }
}

/// `TCPI_OPT_TIMESTAMPS` of Linux, by which the ends of a measurement tell each other of connections.
pub const TIMESTAMPS_OPTION: u8 = 1;

/// Payload bytes of a TCP segment that passes wherever IPv6 does (1280-byte packets, RFC 8200 §5), with the timestamps option: what
/// a path passes of longer ones may become less at any time, and nobody may say so (RFC 2923, 2.1).
pub(crate) const MAX_SAFE_SEGMENT_BYTES: usize = 1200;
