//! Learning of changes of interfaces, addresses, routes and routing rules without asking for them: notifications of rtnetlink(7).

use crate::netlink::NetlinkSocket;
use crate::setup::SetupError;
use nix::sys::socket::SockProtocol;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// Tells whether interfaces, addresses, routes or rules of the namespace of the thread that opened it have changed, whoever did it.
#[derive(Debug)]
pub struct RouteWatch {
    netlink: NetlinkSocket,
}

/// Of all that changes; that the kernel drops an interface's routes with it, it tells by the interface alone.
const GROUPS: libc::c_int = libc::RTMGRP_LINK
    | libc::RTMGRP_IPV4_IFADDR
    | libc::RTMGRP_IPV4_ROUTE
    | libc::RTMGRP_IPV6_IFADDR
    | libc::RTMGRP_IPV6_ROUTE
    | 1 << (libc::RTNLGRP_IPV4_RULE - 1)
    | 1 << (libc::RTNLGRP_IPV6_RULE - 1);
/// Notifications are kept up to so many bytes, which bounds the time to read them: what they say is not looked at, and that some
/// were lost is told, too.
const BUFFER_BYTES: usize = 16 << 10;

impl RouteWatch {
    /// Watches from now on.
    ///
    /// # Errors
    /// The system refuses a socket.
    pub fn open() -> Result<Self, SetupError> {
        let open = || {
            let netlink = NetlinkSocket::open(SockProtocol::NetlinkRoute)?;
            netlink.set_receive_buffer(BUFFER_BYTES)?;
            netlink.join_groups(GROUPS as u32)?;
            Ok(netlink)
        };
        let failed = |error: io::Error| SetupError::new("watch interfaces and routes", error);
        open().map(|netlink| RouteWatch { netlink }).map_err(failed)
    }

    /// Whether anything has changed since this was last asked. Takes a system call where not.
    pub fn take_change(&self) -> bool {
        self.netlink.take_notifications()
    }
}

impl AsFd for RouteWatch {
    /// Readable once something has changed, until that is [taken](RouteWatch::take_change).
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.netlink.as_fd()
    }
}
