//! What the UDP sockets of all systems have in common.

use rustix::fd::AsFd;
use rustix::io::Errno;
use socket2::SockRef;
use std::io;
use std::net::IpAddr;

/// Bytes asked for on either side of a socket; the system may grant less. A train that comes while the receiver sleeps
/// must fit, and so must the transmit stamps of one sent back to back.
pub(crate) const BUFFER_BYTES: usize = 4 << 20;

/// Whether a failed send or receive concerns that packet only, and the next may pass: it was too large for the path as known by now, the
/// device's queue had no room for it, or, as Windows reports of an earlier one, the far end's port was closed.
pub fn is_packet_specific(error: &io::Error) -> bool {
    let errno = error.raw_os_error();
    [Errno::MSGSIZE, Errno::NOBUFS].iter().any(|specific| errno == Some(specific.raw_os_error()))
        || cfg!(windows) && error.kind() == io::ErrorKind::ConnectionReset
}

/// Bytes of the receive buffer, which on Linux the error queue with its transmit stamps shares.
///
/// # Errors
/// Where the system does not say.
pub fn receive_buffer_bytes(socket: &impl AsFd) -> io::Result<usize> {
    SockRef::from(&socket.as_fd()).recv_buffer_size()
}

/// TTL or hop limit of packets that a socket sends to an address, unless it is told another; none where the system does not say.
pub fn hop_limit(socket: &impl AsFd, destination: IpAddr) -> Option<u8> {
    let socket = socket.as_fd();
    let options = SockRef::from(&socket);
    let hops = if destination.to_canonical().is_ipv4() { options.ttl_v4() } else { options.unicast_hops_v6() };
    hops.ok().and_then(|hops| u8::try_from(hops).ok()).filter(|hops| *hops > 0)
}
