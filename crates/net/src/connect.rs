//! TCP connections that are being opened.

mod open;
mod pending;

pub use open::{OpenedConnections, open_connections};
pub use pending::{PendingConnection, SynOption};

#[cfg(target_os = "linux")]
use crate::{congestion, stamp};
use rustix::fd::AsFd;
use rustix::io::Errno;
use socket2::{SockAddr, SockRef, Socket};
use std::io;

/// Congestion controls that do not pace, in the order of trying. A machine's default may be BBR, which does.
#[cfg(target_os = "linux")]
const UNPACED_CONGESTION_CONTROLS: [&str; 2] = ["cubic", "reno"];

/// What a socket that does not block says of a connection that has begun.
const BEGUN: Errno = if cfg!(windows) { Errno::WOULDBLOCK } else { Errno::INPROGRESS };

/// Begins to connect a socket that does not block.
fn begin_connecting(socket: &Socket, address: &SockAddr) -> io::Result<()> {
    match socket.connect(address) {
        // As this system says that it has begun.
        Err(error) if error.raw_os_error() == Some(BEGUN.raw_os_error()) => Ok(()),
        done => done,
    }
}

/// What must be set before connecting or listening. Where the kernel gives no stamps, transports fall back by themselves.
pub(crate) fn prepare_unconnected(socket: &impl AsFd) -> io::Result<()> {
    SockRef::from(&socket.as_fd()).set_tcp_nodelay(true)?;
    #[cfg(target_os = "linux")]
    prepare_kernel(socket)?;
    Ok(())
}

#[cfg(target_os = "linux")]
fn prepare_kernel(socket: &impl AsFd) -> io::Result<()> {
    let _ = stamp::enable_receive(socket);
    let mut refusal = None;
    for name in UNPACED_CONGESTION_CONTROLS {
        match congestion::set(socket, name) {
            Ok(()) => return Ok(()),
            Err(error) => refusal = Some(io::Error::new(error.io_error().kind(), error)),
        }
    }
    refusal.map_or(Ok(()), Err)
}
