//! UDP datagrams with what the kernel knows about them: stamp, TTL, DSCP and ECN, and the address they were sent to.

pub use crate::system_facts::Datagram;

use crate::control_messages::ArrivalMetadata;
use crate::messages::{self, MessageBatch, OutgoingDatagram};
use crate::{SocketBinding, stamp};
use kumade_packet::DsField;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{
    IpRecvTos, Ipv4PacketInfo, Ipv4RecvTtl, Ipv4Tos, Ipv4Ttl, Ipv6RecvHopLimit, Ipv6RecvPacketInfo, Ipv6RecvTClass,
    Ipv6TClass, Ipv6Ttl,
};
use std::io;
use std::net::{SocketAddr, UdpSocket};

impl Datagram {
    /// What has come with one of these; none where it has no sender.
    pub(crate) fn read<const N: usize>(messages: &MessageBatch<N>, index: usize) -> Option<Self> {
        let ArrivalMetadata { destination, ttl, ds_field, stamp, .. } = messages.metadata(index);
        let (len, is_truncated) = (messages.len(index), messages.is_truncated(index));
        Some(Datagram { len, is_truncated, source: messages.sender(index)?, destination, ttl, ds_field, stamp })
    }

    /// What goes back to where this came from, from the address that it was sent to: a host with several would otherwise
    /// choose another.
    pub(crate) fn reply_with<'a>(&self, payload: &'a [u8], ds_field: DsField) -> OutgoingDatagram<'a> {
        OutgoingDatagram { destination: self.source, source: self.destination, ds_field, payload }
    }
}

/// Prepares a socket: datagrams leave with the largest TTL (RFC 8762, 4.2: so that the far end can count hops), and come
/// with stamp, TTL, DSCP and ECN, and address.
///
/// # Errors
/// Where the system refuses an option that every Linux has; one without stamps is no error.
pub fn prepare_socket(socket: &UdpSocket) -> io::Result<()> {
    const MAX_TTL: i32 = 255;
    if let Err(error) = stamp::enable_receive(socket) {
        tracing::debug!("no kernel stamps: {error}");
    }
    if socket.local_addr()?.is_ipv6() {
        setsockopt(socket, Ipv6RecvHopLimit, &true)?;
        setsockopt(socket, Ipv6RecvPacketInfo, &true)?;
        setsockopt(socket, Ipv6RecvTClass, &true)?;
        setsockopt(socket, Ipv6Ttl, &MAX_TTL)?;
    } else {
        setsockopt(socket, Ipv4PacketInfo, &true)?;
    }
    // IPv6 sockets carry IPv4 packets, too.
    setsockopt(socket, Ipv4RecvTtl, &true)?;
    setsockopt(socket, IpRecvTos, &true)?;
    Ok(setsockopt(socket, Ipv4Ttl, &MAX_TTL)?)
}

/// Gives all datagrams of a socket this DSCP and ECN.
///
/// # Errors
/// Where the system refuses it.
pub fn set_ds_field(socket: &UdpSocket, field: DsField) -> io::Result<()> {
    if socket.local_addr()?.is_ipv6() {
        setsockopt(socket, Ipv6TClass, &field.octet().into())?;
    }
    Ok(setsockopt(socket, Ipv4Tos, &field.octet().into())?)
}

/// A prepared socket that talks to the first of these addresses to which this host knows a way.
///
/// # Errors
/// The error of the last of them; `AddrNotAvailable` where none is given.
pub fn connect(addresses: &[SocketAddr], binding: &SocketBinding) -> io::Result<UdpSocket> {
    binding.connect_first_udp(addresses, prepare_socket)
}

/// Receives without waiting.
///
/// # Errors
/// `WouldBlock` where nothing is there, else what the socket reports.
pub fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<Datagram> {
    let mut messages = MessageBatch::<1>::default();
    let longest = buffer.len();
    messages.receive(socket, buffer, longest)?;
    Ok(Datagram::read(&messages, 0).ok_or(io::ErrorKind::InvalidData)?)
}

/// Sends an answer to where `question` came from, from the address that it was sent to.
///
/// # Errors
/// The socket's error.
pub fn answer(socket: &UdpSocket, question: &Datagram, payload: &[u8]) -> io::Result<()> {
    messages::send(socket, &[question.reply_with(payload, DsField::default())]).map(|_sent| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{clock, readiness};
    use kumade_packet::Ecn;
    use kumade_units::Span;
    use std::net::IpAddr;

    fn goes_and_comes_back(bind: &str, from: &str, target: &str) {
        let server = UdpSocket::bind(bind).unwrap();
        prepare_socket(&server).unwrap();
        let client = UdpSocket::bind(from).unwrap();
        prepare_socket(&client).unwrap();
        let field = DsField::new("ef".parse().unwrap(), Ecn::Ect1);
        set_ds_field(&client, field).unwrap();
        let target: IpAddr = target.parse().unwrap();
        client.connect((target, server.local_addr().unwrap().port())).unwrap();
        let mut buffer = [0; 100];
        // Stamps are switched on by a thread of the kernel, some packets later or many.
        let end = clock::monotonic() + Span::from_secs(120);
        while clock::monotonic() < end {
            client.send(b"question").unwrap();
            assert!(readiness::wait_readable(&server, clock::monotonic() + Span::from_secs(60)).unwrap());
            let question = receive(&server, &mut buffer).unwrap();
            assert_eq!((question.len, question.ttl, question.ds_field), (8, Some(255), Some(field)));
            assert_eq!(question.destination.map(|to| to.to_canonical()), Some(target));
            messages::send(&server, &[question.reply_with(b"marked", Ecn::Ce.into())]).unwrap();
            assert!(readiness::wait_readable(&client, clock::monotonic() + Span::from_secs(60)).unwrap());
            assert_eq!(receive(&client, &mut buffer).unwrap().ds_field, Some(Ecn::Ce.into()));
            answer(&server, &question, b"answer").unwrap();
            assert!(readiness::wait_readable(&client, clock::monotonic() + Span::from_secs(60)).unwrap());
            let answer = receive(&client, &mut buffer).unwrap();
            assert_eq!(answer.source, client.peer_addr().unwrap(), "from where it was asked");
            assert_eq!(answer.ds_field, Some(DsField::default()));
            if question.stamp.is_some() && answer.stamp > question.stamp {
                return;
            }
        }
        panic!("no stamps");
    }

    #[test]
    fn answers_come_from_the_address_that_was_asked() {
        goes_and_comes_back("0.0.0.0:0", "127.0.0.1:0", "127.0.0.7");
        goes_and_comes_back("[::]:0", "[::1]:0", "::1");
        goes_and_comes_back("[::]:0", "127.0.0.1:0", "127.0.0.9");
    }

    #[test]
    fn an_address_that_cannot_be_reached_gives_way_to_the_next() {
        let (there, anywhere): (SocketAddr, _) = ("127.0.0.1:9".parse().unwrap(), SocketBinding::default());
        // Nobody may send there without asking for it; this host needs no other route for that.
        let broadcast: SocketAddr = "127.255.255.255:9".parse().unwrap();
        assert_eq!(connect(&[broadcast, there], &anywhere).unwrap().peer_addr().unwrap(), there);
        assert_eq!(connect(&[broadcast], &anywhere).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(connect(&[], &anywhere).unwrap_err().kind(), io::ErrorKind::AddrNotAvailable);
    }

    #[test]
    fn what_does_not_fit_is_told() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.send_to(&[1; 20], socket.local_addr().unwrap()).unwrap();
        assert!(readiness::wait_readable(&socket, clock::monotonic() + Span::from_secs(60)).unwrap());
        let datagram = receive(&socket, &mut [0; 10]).unwrap();
        assert!(datagram.is_truncated && datagram.len == 10);
        assert_eq!(receive(&socket, &mut [0; 10]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
}
