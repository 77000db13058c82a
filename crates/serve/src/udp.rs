//! Opening UDP, without sending to addresses that have not requested it.

use crate::server_state::ServerState;
use kumade_net::datagram;
use kumade_wire::{UdpAnswer, UdpRequest};
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6, UdpSocket};

/// Reads one packet, and answers it if it is a request of the client whose turn it is, from the address that its TCP
/// connection has verified; other packets are ignored.
///
/// # Errors
/// `WouldBlock` if no packet is left.
pub(super) fn answer_request(socket: &UdpSocket, shared: &ServerState) -> io::Result<()> {
    let mut payload = [0; UdpRequest::SIZE + 1];
    let received = match datagram::receive(socket, &mut payload) {
        // An ICMP error for an earlier answer.
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return Ok(()),
        result => result?,
    };
    let Ok((request, version)) = UdpRequest::decode(&payload[..received.len]) else { return Ok(()) };
    let source = to_canonical_address(received.source);
    let Some((nonce, local)) = shared.answer_udp(request.authenticator, source, received.ttl) else { return Ok(()) };
    // From the address to which the client is connected, which on a multihomed host may not be the system's first choice.
    let answered =
        connect_to_client(local, source).and_then(|socket| socket.send(&UdpAnswer { nonce }.encode(version)));
    if let Err(error) = answered {
        tracing::debug!("cannot answer {source} by UDP: {error}");
    }
    Ok(())
}

/// A UDP socket on the server's port that is connected to `peer`. `local` is the local address of the client's control
/// connection.
pub(super) fn connect_to_client(local: SocketAddr, peer: SocketAddr) -> io::Result<UdpSocket> {
    let local = to_canonical_address(local);
    let socket = Socket::new(Domain::for_address(local), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_reuse_port(true)?;
    socket.bind(&local.into())?;
    socket.connect(&peer.into())?;
    Ok(socket.into())
}

/// Converts an IPv4-mapped IPv6 address to IPv4.
pub(super) fn to_canonical_address(address: SocketAddr) -> SocketAddr {
    match (address, address.ip().to_canonical()) {
        (SocketAddr::V6(v6), IpAddr::V6(ip)) => SocketAddrV6::new(ip, v6.port(), 0, v6.scope_id()).into(),
        (_, ip) => SocketAddr::new(ip, address.port()),
    }
}
