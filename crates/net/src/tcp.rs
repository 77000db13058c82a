//! TCP connections: those that carry packet trains, with one write, one packet, at once; and those that carry a tunnel,
//! whose unsent bytes are bounded and whose state is looked at.

mod carrier;
mod connecting;
mod open;
mod redirected;
mod rto;

pub use carrier::{SendState, limit_unsent, send_state};
pub use connecting::Connecting;
pub use open::{Opened, open_connections};
pub use redirected::original_destination;
pub use rto::{MaxRto, RtoLimits};

use crate::option::{MaxPacingRate, TcpInfo};
use crate::udp::ip_header_bytes;
use crate::{congestion, stamp};
use kumade_units::{Rate, Span};
use nix::libc;
use nix::sys::socket::{getsockopt, setsockopt};
use socket2::SockRef;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};

/// Congestion controls that do not pace, in the order of trying. A machine's default may be BBR, which does.
const UNPACED: [&str; 2] = ["cubic", "reno"];
/// The system's own limit (`net.core.somaxconn`, 4096 by default) may be lower.
const BACKLOG: i32 = 4096;
const TIMESTAMPS: u8 = 1;
const TIMESTAMPS_BYTES: u32 = 12;
const TCP_HEADER_BYTES: u32 = 20;

/// Prepares a listening socket whose connections will carry trains; they inherit it. Only here does the congestion
/// control come in time: a connection that was once BBR's keeps pacing. The backlog is made long enough for many
/// clients that open all their connections at once.
///
/// # Errors
/// Where the system has no congestion control without pacing, or refuses an option.
pub fn prepare_listener(listener: &TcpListener) -> io::Result<()> {
    // Listening once more only changes the backlog; the standard library's is 128.
    SockRef::from(listener).listen(BACKLOG)?;
    prepare_early(listener)
}

/// Prepares an open connection: writes leave at once, reads and writes do not block. To be followed by
/// [`stamp::enable_transmit`], which it would undo.
///
/// # Errors
/// Where the system refuses an option.
pub fn prepare(stream: &TcpStream) -> io::Result<()> {
    prepare_early(stream)?;
    stream.set_nonblocking(true)
}

/// What must be set before connecting or listening. Where the kernel gives no stamps, transports fall back by themselves.
fn prepare_early(socket: &impl AsFd) -> io::Result<()> {
    let options = SockRef::from(socket);
    options.set_tcp_nodelay(true)?;
    let _ = stamp::enable_receive(socket);
    let mut refusal = None;
    for name in UNPACED {
        match congestion::set(socket, name) {
            Ok(()) => return Ok(()),
            Err(error) => refusal = Some(io::Error::new(error.io().kind(), error)),
        }
    }
    refusal.map_or(Ok(()), Err)
}

/// A connection's sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Bytes of the IP and TCP headers on each data packet.
    pub header: u32,
    /// The most payload bytes that leave as one packet.
    pub payload: u32,
}

/// What the connection has negotiated.
///
/// # Errors
/// Where the connection is no more.
pub fn sizes(stream: &TcpStream) -> io::Result<Sizes> {
    let info = getsockopt(stream, TcpInfo)?;
    let options = if info.tcpi_options & TIMESTAMPS != 0 { TIMESTAMPS_BYTES } else { 0 };
    let header = ip_header_bytes(stream.peer_addr()?) + TCP_HEADER_BYTES + options;
    Ok(Sizes { header, payload: info.tcpi_snd_mss })
}

/// The round trip that the kernel has measured last, smoothed.
///
/// # Errors
/// Where the connection is no more.
pub fn round_trip(stream: &TcpStream) -> io::Result<Span> {
    let info = getsockopt(stream, TcpInfo)?;
    Ok(Span::from_micros(info.tcpi_rtt.into()))
}

/// Lets the connection send no faster than `rate`, counted in IP packets: the kernel spaces them (`SO_MAX_PACING_RATE`).
///
/// # Errors
/// Where the connection is no more.
pub fn limit_rate(stream: &TcpStream, rate: Rate) -> io::Result<()> {
    let Sizes { header, payload } = sizes(stream)?;
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
