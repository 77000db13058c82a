//! ICMP messages as they arrive, with the packets that they quote from the IP header on.

use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, Read};
use std::net::IpAddr;

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

    /// The oldest message that waits, from its ICMP header on; none where none waits.
    ///
    /// # Errors
    /// Where the socket can't be read.
    pub fn receive<'m>(&self, memory: &'m mut [u8; Self::MAX_MESSAGE_BYTES]) -> io::Result<Option<&'m [u8]>> {
        let len = loop {
            match (&self.socket).read(memory) {
                Ok(len) => break len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        };
        // IPv4's sockets deliver the IP header as well (raw(7)).
        let header_bytes = if self.is_v6 { 0 } else { usize::from(memory[0] & 0x0f) * 4 };
        Ok(Some(memory[..len].get(header_bytes..).unwrap_or_default()))
    }
}
