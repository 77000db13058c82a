//! ICMP messages as they arrive, with the packets that they quote from the IP header on.

use nix::errno::Errno;
use nix::sys::socket::{SockaddrStorage, recvfrom};
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::IpAddr;
use std::os::fd::AsRawFd;

/// A raw socket that hears a copy of each ICMP (ICMPv6) message to this host: the kernel tells nothing else of the IP header that errors quote.
/// It takes `CAP_NET_RAW`, and is for reading only.
#[derive(Debug)]
pub struct IcmpListener {
    socket: Socket,
    is_v6: bool,
}

impl IcmpListener {
    /// What is longer is cut off: two IP headers with options, and the beginning of the packet that is quoted.
    pub const MAX_MESSAGE_BYTES: usize = 256;

    /// Hears messages of the version of IP by which packets to this address travel.
    ///
    /// # Errors
    /// This process may not have such a socket.
    pub fn open(towards: IpAddr) -> io::Result<Self> {
        let is_v6 = towards.to_canonical().is_ipv6();
        let (domain, protocol) =
            if is_v6 { (Domain::IPV6, Protocol::ICMPV6) } else { (Domain::IPV4, Protocol::ICMPV4) };
        let socket = Socket::new(domain, Type::RAW, Some(protocol))?;
        socket.set_nonblocking(true)?;
        Ok(IcmpListener { socket, is_v6 })
    }

    /// The oldest message that waits, from its ICMP header on, and who sent it; none where none waits.
    ///
    /// # Errors
    /// Where the socket can't be read.
    pub fn receive<'m>(
        &self,
        memory: &'m mut [u8; Self::MAX_MESSAGE_BYTES],
    ) -> io::Result<Option<(&'m [u8], Option<IpAddr>)>> {
        let (len, source) = loop {
            match recvfrom::<SockaddrStorage>(self.socket.as_raw_fd(), memory) {
                Ok(received) => break received,
                Err(Errno::EAGAIN) => return Ok(None),
                Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        };
        let v4 = |source: &SockaddrStorage| Some(source.as_sockaddr_in()?.ip().into());
        let v6 = |source: &SockaddrStorage| Some(source.as_sockaddr_in6()?.ip().into());
        let source = source.and_then(|source| v4(&source).or_else(|| v6(&source)));
        // IPv4's sockets deliver the IP header as well (raw(7)).
        let header_bytes = if self.is_v6 { 0 } else { usize::from(memory[0] & 0x0f) * 4 };
        Ok(Some((memory[..len].get(header_bytes..).unwrap_or_default(), source)))
    }
}
