//! UDP datagrams with what any system tells of them: bytes and sender.

pub use crate::system_facts::Datagram;

use super::MAX_DATAGRAM_BYTES;
use super::readiness::wait_readable;
use super::udp::set_tos;
use crate::SocketBinding;
use kumade_packet::DsField;
use kumade_units::Time;
use std::io;
use std::net::{SocketAddr, UdpSocket};

/// Gives all datagrams of a socket this DSCP and ECN.
///
/// # Errors
/// Where the system refuses it.
pub fn set_ds_field(socket: &UdpSocket, field: DsField) -> io::Result<()> {
    set_tos(socket, field.octet())
}

/// A socket that talks to the first of these addresses to which this host knows a way.
///
/// # Errors
/// The error of the last of them; `AddrNotAvailable` where none is given.
pub fn connect(addresses: &[SocketAddr], binding: &SocketBinding) -> io::Result<UdpSocket> {
    binding.connect_first_udp(addresses, |socket| socket.set_nonblocking(true))
}

/// Receives without waiting.
///
/// # Errors
/// `WouldBlock` where nothing is there, else what the socket reports.
pub fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<Datagram> {
    if !wait_readable(socket, Time::ZERO)? {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    let mut memory = [0; MAX_DATAGRAM_BYTES];
    let (received, source) = socket.recv_from(&mut memory)?;
    let len = received.min(buffer.len());
    buffer[..len].copy_from_slice(&memory[..len]);
    let is_truncated = received > len;
    Ok(Datagram { len, is_truncated, source, destination: None, ttl: None, ds_field: None, stamp: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_told() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert_eq!(receive(&socket, &mut [0; 10]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        socket.send_to(&[1; 20], socket.local_addr().unwrap()).unwrap();
        let end = crate::clock::monotonic() + kumade_units::Span::from_secs(60);
        assert!(wait_readable(&socket, end).unwrap());
        let datagram = receive(&socket, &mut [0; 10]).unwrap();
        assert!(datagram.is_truncated && datagram.len == 10 && datagram.source == socket.local_addr().unwrap());
    }
}
