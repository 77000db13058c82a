//! Whole Ethernet frames of an interface, received with the kernel's stamps and sent in batches: packet(7).

mod receive;
mod send;

pub use receive::{Arrived, Receiver};
pub use send::{BATCH, Sender};

use crate::option::PacketAddMembership;
use nix::libc;
use nix::sys::socket::sockopt::SocketError;
use nix::sys::socket::{LinkAddr, getsockname, getsockopt, setsockopt};
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// What has happened to a socket's interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// It was switched off; packets come again when it is switched on.
    Down,
    /// It is gone for good.
    Gone,
}

/// Asks a socket what has become of its interface; what is known then is forgotten, unless it is gone.
fn trouble(socket: &impl AsFd) -> Option<Trouble> {
    // The kernel unbinds a socket from an interface that vanishes.
    let is_bound = i32::try_from(address(socket).ok()?.ifindex()).is_ok_and(|index| index > 0);
    if !is_bound {
        return Some(Trouble::Gone);
    }
    match getsockopt(&socket.as_fd(), SocketError) {
        Ok(libc::ENETDOWN) => Some(Trouble::Down),
        Ok(libc::ENODEV | libc::ENXIO) => Some(Trouble::Gone),
        _ => None,
    }
}

/// What the socket is bound to, and of which kind that is.
fn address(socket: &impl AsFd) -> io::Result<LinkAddr> {
    Ok(getsockname(socket.as_fd().as_raw_fd())?)
}

/// Makes an interface take what is not for this host as well, for as long as the socket lives.
fn join_promiscuous(socket: &impl AsFd, index: u32) -> io::Result<()> {
    let request = libc::packet_mreq {
        mr_ifindex: index as i32,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    Ok(setsockopt(socket, PacketAddMembership, &request)?)
}
