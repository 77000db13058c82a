//! TCP connections that carry packet trains, with one write, one packet, at once.

pub use crate::connect::{OpenedConnections, PendingConnection, SynOption, open_connections};
pub use crate::header_bytes::{TIMESTAMPS_OPTION, tcp_header_bytes as header_bytes};
pub use crate::system_facts::{SegmentSizes, TcpPathInfo};

use super::{ASSUMED_MTU, unsupported};
use crate::header_bytes::MAX_SAFE_SEGMENT_BYTES;
use kumade_units::Span;
use socket2::{SockRef, TcpKeepalive};
use std::io::{self, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

/// Whether [`segment_sizes`] says what a connection has negotiated: it assumes it.
pub const ARE_SIZES_KNOWN: bool = false;

const CONNECTIONS: &str = "its TCP connections";

/// Prepares an open connection: writes leave at once, reads and writes do not block.
///
/// # Errors
/// Where the system refuses an option.
pub fn prepare_connection(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)
}

/// Writes the first bytes of what is to be sent as one packet that every path passes, and waits for room as the connection is set to.
/// Returns how many bytes it took.
///
/// # Errors
/// What the connection reports; `WouldBlock` where there was no room in time.
pub fn write_short_segment(mut stream: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    stream.write(&bytes[..bytes.len().min(MAX_SAFE_SEGMENT_BYTES)])
}

/// What a connection over Ethernet negotiates by default: with time stamps (RFC 7323), but for Windows. The far end knows better.
///
/// # Errors
/// Where the connection is no more.
pub fn segment_sizes(stream: &TcpStream) -> io::Result<SegmentSizes> {
    let header = header_bytes(stream.peer_addr()?, !cfg!(windows));
    Ok(SegmentSizes { header_bytes: header, max_payload_bytes: ASSUMED_MTU - header })
}

/// Has the system ask an idle peer for a sign of life after this time, and again at this interval, as often as the system
/// does before it takes the connection for broken: ten times on Windows, where older ones let no program choose (RFC 9293, 3.8.4).
///
/// # Errors
/// Where the system refuses an option.
pub fn set_keepalive(stream: &TcpStream, time: Duration, interval: Duration, _retries: u32) -> io::Result<()> {
    SockRef::from(stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(time).with_interval(interval))
}

/// Not known.
///
/// # Errors
/// Always.
pub fn smoothed_round_trip(_stream: &TcpStream) -> io::Result<Span> {
    unsupported(CONNECTIONS)
}

/// Not known.
///
/// # Errors
/// Always.
pub fn retransmission_timeout(_stream: &TcpStream) -> io::Result<Span> {
    unsupported(CONNECTIONS)
}

/// Has nothing wait for acknowledgements so long; what is written waits as long as the system has it.
///
/// # Errors
/// None.
pub fn set_user_timeout(_stream: &TcpStream, _timeout: Span) -> io::Result<()> {
    Ok(())
}

/// Sends without waiting, on a connection that does not block. Returns the bytes taken. Nothing keeps the system from joining what it has to
/// hold back.
///
/// # Errors
/// `WouldBlock` where the send buffer is full, else what the connection reports.
pub fn send(mut stream: &TcpStream, bytes: &[u8], _own_packet: bool) -> io::Result<usize> {
    stream.write(bytes)
}

/// Has the system keep SYNs, which it does not.
///
/// # Errors
/// Always.
pub fn save_syns(_listener: &TcpListener) -> io::Result<()> {
    unsupported(CONNECTIONS)
}

/// None.
///
/// # Errors
/// None.
pub fn saved_syn(_stream: &TcpStream, _max_bytes: usize) -> io::Result<Option<Vec<u8>>> {
    Ok(None)
}

/// Not known.
///
/// # Errors
/// Always.
pub fn path_info(_stream: &TcpStream) -> io::Result<TcpPathInfo> {
    unsupported(CONNECTIONS)
}
