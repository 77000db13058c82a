//! TCP connections: those that carry packet trains, with one write, one packet, at once; and those that carry a tunnel,
//! whose unsent bytes are bounded and whose state is looked at.

mod original_destination;
mod path_info;
mod rto;
mod sender_state;

pub use original_destination::original_destination;
pub use path_info::{path_info, save_syns, saved_syn};
pub use rto::{AdaptiveMaxRto, RtoLimits};
pub use sender_state::{
    BufferedBytes, SendState, buffered_bytes, limit_unsent, release_buffer_sizes, send_state, set_dscp,
};

pub use crate::connect::{OpenedConnections, PendingConnection, SynOption, open_connections};
pub use crate::header_bytes::{TIMESTAMPS_OPTION, tcp_header_bytes as header_bytes};
pub use crate::system_facts::{SegmentSizes, TcpPathInfo};

use crate::connect::prepare_unconnected;
use crate::header_bytes::MAX_SAFE_SEGMENT_BYTES;
use crate::option::{self, MaxPacingRate, TcpInfo};
use kumade_units::{Rate, Span};
use nix::libc;
use nix::sys::socket::setsockopt;
use socket2::{SockRef, Socket, TcpKeepalive};
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Duration;

/// The system's own limit (`net.core.somaxconn`, 4096 by default) may be lower.
const BACKLOG: i32 = 4096;
const TIMESTAMPS_BYTES: u32 = 12;

/// Prepares a listening socket whose connections will carry trains; they inherit it. Only here does the congestion
/// control come in time: a connection that was once BBR's keeps pacing. The backlog is made long enough for many
/// clients that open all their connections at once.
///
/// # Errors
/// Where the system has no congestion control without pacing, or refuses an option.
pub fn prepare_listener(listener: &TcpListener) -> io::Result<()> {
    // Listening once more only changes the backlog; the standard library's is 128.
    SockRef::from(listener).listen(BACKLOG)?;
    prepare_unconnected(listener)
}

/// Prepares an open connection: writes leave at once, reads and writes do not block. To be followed by
/// [`stamp::enable_transmit`], which it would undo.
///
/// # Errors
/// Where the system refuses an option.
pub fn prepare_connection(stream: &TcpStream) -> io::Result<()> {
    prepare_unconnected(stream)?;
    stream.set_nonblocking(true)
}

/// The same as what [`limit_segments`] sets: an MSS does not count the options.
pub const SHORT_SEGMENT_BYTES: u32 = 1220;

/// Has a connection, in both directions, use segments of [`SHORT_SEGMENT_BYTES`] at most, so that it passes wherever IPv6 does.
/// Comes in time only before it is opened.
///
/// # Errors
/// Where the socket is no more.
pub fn limit_segments(socket: &Socket) -> io::Result<()> {
    socket.set_tcp_mss(SHORT_SEGMENT_BYTES)
}

/// Writes the first bytes of what is to be sent as one packet that every path passes, and waits for room as the connection is set to.
/// Returns how many bytes it took.
///
/// # Errors
/// What the connection reports; `WouldBlock` where there was no room in time.
pub fn write_short_segment(stream: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    let first = &bytes[..bytes.len().min(MAX_SAFE_SEGMENT_BYTES)];
    // The kernel joins it with no other, also where it sends again.
    SockRef::from(stream).send_with_flags(first, libc::MSG_NOSIGNAL | libc::MSG_EOR)
}

/// What the connection has negotiated.
///
/// # Errors
/// Where the connection is no more.
pub fn segment_sizes(stream: &TcpStream) -> io::Result<SegmentSizes> {
    let info = option::read(stream, TcpInfo)?;
    let header = header_bytes(stream.peer_addr()?, info.options & TIMESTAMPS_OPTION != 0);
    Ok(SegmentSizes { header_bytes: header, max_payload_bytes: info.snd_mss })
}

/// Has the system ask an idle peer for a sign of life after this time, and again at this interval, so often before it takes the connection for broken
/// (RFC 9293, 3.8.4).
///
/// # Errors
/// Where the system refuses an option.
pub fn set_keepalive(stream: &TcpStream, time: Duration, interval: Duration, retries: u32) -> io::Result<()> {
    let keepalive = TcpKeepalive::new().with_time(time).with_interval(interval).with_retries(retries);
    SockRef::from(stream).set_tcp_keepalive(&keepalive)
}

/// Whether [`segment_sizes`] says what a connection has negotiated.
pub const ARE_SIZES_KNOWN: bool = true;

/// Has the kernel close the connection where what was sent is not acknowledged for so long (RFC 5482).
///
/// # Errors
/// Where the connection is no more.
pub fn set_user_timeout(stream: &TcpStream, timeout: Span) -> io::Result<()> {
    SockRef::from(stream).set_tcp_user_timeout(Some(timeout.to_duration()))
}

/// The round trip that the kernel has measured last, smoothed.
///
/// # Errors
/// Where the connection is no more.
pub fn smoothed_round_trip(stream: &TcpStream) -> io::Result<Span> {
    let info = option::read(stream, TcpInfo)?;
    Ok(Span::from_micros(info.rtt.into()))
}

/// The kernel's present retransmission timeout (RFC 6298): the smoothed round trip, four times its variation, and twice as long for
/// each repetition that was not answered either.
///
/// # Errors
/// Where the connection is no more.
pub fn retransmission_timeout(stream: &TcpStream) -> io::Result<Span> {
    Ok(Span::from_micros(option::read(stream, TcpInfo)?.rto.into()))
}

/// Lets the connection send no faster than `rate`, counted in IP packets: the kernel spaces them (`SO_MAX_PACING_RATE`).
///
/// # Errors
/// Where the connection is no more.
pub fn set_max_pacing_rate(stream: &TcpStream, rate: Rate) -> io::Result<()> {
    let SegmentSizes { header_bytes: header, max_payload_bytes: payload } = segment_sizes(stream)?;
    // The kernel counts payload.
    let share = f64::from(payload) / f64::from(payload + header);
    let bytes_per_second = (rate.as_f64() / 8.0 * share) as u32;
    Ok(setsockopt(stream, MaxPacingRate, &bytes_per_second)?)
}

/// Sends without waiting and without a signal where the connection is closed. Returns the bytes taken. With
/// `own_packet` the kernel never joins them with earlier or later ones (`MSG_EOR`), not even when it has to hold them
/// back or send them again.
///
/// # Errors
/// `WouldBlock` where the send buffer is full, else what the connection reports.
pub fn send(stream: &TcpStream, bytes: &[u8], own_packet: bool) -> io::Result<usize> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | if own_packet { libc::MSG_EOR } else { 0 };
    // SAFETY: the pointer and length are a live slice's, which the kernel only reads.
    let sent = unsafe { libc::send(stream.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}
