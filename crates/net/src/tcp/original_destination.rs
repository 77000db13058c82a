use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::{Ip6tOriginalDst, OriginalDst};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};

/// Where a connection was to go that a packet rule has
/// [redirected](crate::nftables::Statement::Redirect) to this host. The socket is of its IP version.
///
/// # Errors
/// It was not redirected, or connection tracking passes over it.
pub fn original_destination(stream: &TcpStream) -> io::Result<SocketAddr> {
    if stream.local_addr()?.is_ipv4() {
        let address = getsockopt(stream, OriginalDst)?;
        Ok((Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)), u16::from_be(address.sin_port)).into())
    } else {
        let address = getsockopt(stream, Ip6tOriginalDst)?;
        Ok((Ipv6Addr::from(address.sin6_addr.s6_addr), u16::from_be(address.sin6_port)).into())
    }
}
