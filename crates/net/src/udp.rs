//! UDP sockets that carry packet trains, and those that carry traffic: [`BatchSocket`].

mod batch;
mod burst;
mod datagrams;
mod marked;
mod receive;
mod send;

pub use batch::{BatchSocket, SendRefusal};
pub use burst::send_burst;
pub use datagrams::DatagramReceiver;
pub use marked::{report_marks, send_marked};
pub use receive::{BatchReceiver, ReceivedDatagrams};

pub use crate::header_bytes::udp_header_bytes as header_bytes;
pub use crate::system_facts::{DatagramArrival, SentBurst};
pub use crate::udp_socket::{hop_limit, is_packet_specific, receive_buffer_bytes};

use crate::header_bytes::ip_header_bytes;
use crate::option::{Ipv4MtuDiscover, Ipv6Mtu, Ipv6MtuDiscover};
use crate::udp_socket::BUFFER_BYTES;
use nix::libc;
use nix::sys::socket::sockopt::IpMtu;
use nix::sys::socket::{getsockopt, setsockopt};
use socket2::SockRef;
use std::io;
use std::net::UdpSocket;
use std::time::Duration;

/// Prepares a connected socket: large buffers, no packet ever cut up on its way (too large ones fail, and the path's MTU
/// is learnt), and a blocked send that gives up after `patience`.
///
/// # Errors
/// Where the system refuses an option.
pub fn prepare_socket(socket: &UdpSocket, patience: Duration) -> io::Result<()> {
    let options = SockRef::from(socket);
    options.set_recv_buffer_size(BUFFER_BYTES)?;
    options.set_send_buffer_size(BUFFER_BYTES)?;
    options.set_nonblocking(false)?;
    options.set_write_timeout(Some(patience))?;
    if socket.local_addr()?.is_ipv6() {
        setsockopt(socket, Ipv6MtuDiscover, &libc::IPV6_PMTUDISC_DO)?;
    }
    if ip_header_bytes(socket.peer_addr()?) == 20 {
        setsockopt(socket, Ipv4MtuDiscover, &libc::IP_PMTUDISC_DO)?;
    }
    Ok(())
}

/// Sends a datagram over a connected socket, and waits for room as long as the socket was prepared to.
///
/// # Errors
/// What the socket reports; `WouldBlock` where there was no room in time.
pub fn send(socket: &UdpSocket, payload: &[u8]) -> io::Result<()> {
    socket.send(payload).map(drop)
}

/// The largest IP packet, in bytes, that the path takes as far as this host knows.
///
/// # Errors
/// Where the socket is not connected.
pub fn path_mtu(socket: &UdpSocket) -> io::Result<u32> {
    let mtu: i32 = if socket.local_addr()?.is_ipv6() && ip_header_bytes(socket.peer_addr()?) == 40 {
        getsockopt(socket, Ipv6Mtu)?
    } else {
        getsockopt(socket, IpMtu)?
    };
    Ok(mtu.max(0) as u32)
}
