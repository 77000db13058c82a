//! Whole Ethernet frames of an interface, received with the kernel's stamps and sent in batches: packet(7).

mod receive;
mod send;

pub use receive::{ReceivedFrame, Receiver};
pub use send::{MAX_BATCH_FRAMES, OutgoingFrame, Sender};

use crate::option::PacketAddMembership;
use nix::libc;
use nix::sys::socket::sockopt::SocketError;
use nix::sys::socket::{getsockopt, setsockopt};
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd};

/// A fault of a socket's interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InterfaceFault {
    /// It was switched off; packets come again when it is switched on.
    Down,
    /// It no longer exists.
    Removed,
}

/// Asks a socket for a fault of its interface. The socket then forgets it, unless the interface is gone.
fn take_fault(socket: &impl AsFd) -> Option<InterfaceFault> {
    // The kernel unbinds a socket from an interface that vanishes.
    if bound_address(socket).ok()?.sll_ifindex <= 0 {
        return Some(InterfaceFault::Removed);
    }
    match getsockopt(&socket.as_fd(), SocketError) {
        Ok(libc::ENETDOWN) => Some(InterfaceFault::Down),
        Ok(libc::ENODEV | libc::ENXIO) => Some(InterfaceFault::Removed),
        _ => None,
    }
}

/// What the socket is bound to, and of which kind that is. By hand: nix takes no `sockaddr_ll` without all eight bytes of
/// hardware address, and the kernel writes as many as the interface has.
fn bound_address(socket: &impl AsFd) -> io::Result<libc::sockaddr_ll> {
    // SAFETY: all zeroes is a valid sockaddr_ll.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    let mut length = mem::size_of_val(&address) as libc::socklen_t;
    let socket = socket.as_fd().as_raw_fd();
    // SAFETY: the kernel writes at most `length` bytes to `address`, of which any are valid.
    let outcome = unsafe { libc::getsockname(socket, (&raw mut address).cast(), &raw mut length) };
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(address) }
}

/// Makes an interface promiscuous for as long as the socket lives.
fn join_promiscuous(socket: &impl AsFd, index: u32) -> io::Result<()> {
    let request = libc::packet_mreq {
        mr_ifindex: index as i32,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    Ok(setsockopt(socket, PacketAddMembership, &request)?)
}
