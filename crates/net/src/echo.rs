//! ICMP echo (RFC 792, RFC 4443 §4): requests to a host that runs nothing of ours, and its replies.

use crate::{SocketBinding, stamp};
use kumade_packet::checksum;
use kumade_units::Time;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

/// A socket that sends echo requests to one host and receives its replies. It is a *ping socket* where the system lets this process
/// have one (`net.ipv4.ping_group_range`), otherwise a raw one, which takes `CAP_NET_RAW`.
#[derive(Debug)]
pub struct EchoSocket {
    socket: Socket,
    is_v6: bool,
    /// What identifies this socket's requests, on a raw socket; a ping socket's are identified by the kernel.
    raw_identifier: Option<u16>,
}

/// A reply to one of this socket's requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EchoReply<'b> {
    /// The request's sequence number.
    pub sequence: u16,
    /// The request's data, which a host returns as they came (RFC 1122 §3.2.2.6).
    pub data: &'b [u8],
    /// When it came, where the kernel has said so credibly.
    pub stamp: Option<Time>,
}

/// Type, code, checksum, identifier, sequence number.
const HEADER_BYTES: usize = 8;
const V4_REQUEST: u8 = 8;
const V4_REPLY: u8 = 0;
const V6_REQUEST: u8 = 128;
const V6_REPLY: u8 = 129;

impl EchoSocket {
    /// A socket that is connected to `peer`, whose port means nothing. Requests and replies are stamped by the kernel where it can.
    ///
    /// # Errors
    /// This process may have neither kind of socket, or there is no route to the host.
    pub fn connect(peer: IpAddr, scope: u32, binding: &SocketBinding) -> io::Result<Self> {
        let mut peer = SocketAddr::new(peer, 0);
        if let SocketAddr::V6(peer) = &mut peer {
            peer.set_scope_id(scope);
        }
        let is_v6 = peer.is_ipv6();
        let protocol = if is_v6 { Protocol::ICMPV6 } else { Protocol::ICMPV4 };
        let open = |kind| Socket::new(Domain::for_address(peer), kind, Some(protocol));
        let (socket, raw_identifier) = match open(Type::DGRAM) {
            Ok(socket) => (socket, None),
            // The first refusal is the one that a user can do something about.
            Err(refusal) => (open(Type::RAW).map_err(|_| refusal)?, Some(raw_identifier())),
        };
        binding.apply(&socket, peer)?;
        socket.connect(&peer.into())?;
        socket.set_nonblocking(true)?;
        if let Err(error) = stamp::enable_transmit(&socket, false) {
            tracing::debug!("no kernel stamps: {error}");
        }
        Ok(EchoSocket { socket, is_v6, raw_identifier })
    }

    /// Sends a request.
    ///
    /// # Errors
    /// The socket's error; one that an earlier request has caused, too.
    pub fn send(&self, sequence: u16, data: &[u8]) -> io::Result<()> {
        let mut packet = vec![0; HEADER_BYTES];
        packet[0] = if self.is_v6 { V6_REQUEST } else { V4_REQUEST };
        packet[4..6].copy_from_slice(&self.raw_identifier.unwrap_or_default().to_be_bytes());
        packet[6..8].copy_from_slice(&sequence.to_be_bytes());
        packet.extend_from_slice(data);
        // The kernel computes that of ICMPv6, and on a ping socket all.
        if self.raw_identifier.is_some() && !self.is_v6 {
            let sum = checksum::compute(&packet);
            packet[2..4].copy_from_slice(&sum.to_be_bytes());
        }
        self.socket.send(&packet).map(drop)
    }

    /// Receives without waiting; none where what has come is no reply to a request of this socket.
    ///
    /// # Errors
    /// `WouldBlock` where nothing is there, else what the socket reports.
    pub fn receive<'b>(&self, buffer: &'b mut [u8]) -> io::Result<Option<EchoReply<'b>>> {
        let read = stamp::receive(&self.socket, buffer)?;
        Ok(self.reply_in(&buffer[..read.len.min(buffer.len())], read.stamp))
    }

    fn reply_in<'b>(&self, packet: &'b [u8], stamp: Option<Time>) -> Option<EchoReply<'b>> {
        // A raw IPv4 socket has the IP header before it.
        let header =
            if self.raw_identifier.is_some() && !self.is_v6 { 4 * usize::from(packet.first()? & 0xf) } else { 0 };
        let message = packet.get(header..)?;
        let (head, data) = message.split_first_chunk::<HEADER_BYTES>()?;
        let expected = if self.is_v6 { V6_REPLY } else { V4_REPLY };
        let identifier = u16::from_be_bytes([head[4], head[5]]);
        let is_ours = self.raw_identifier.is_none_or(|own| own == identifier);
        let sequence = u16::from_be_bytes([head[6], head[7]]);
        (head[0] == expected && is_ours).then_some(EchoReply { sequence, data, stamp })
    }
}

impl AsFd for EchoSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Another one for each socket of this process; other processes' replies are told apart by their data as well.
fn raw_identifier() -> u16 {
    use std::sync::atomic::{AtomicU16, Ordering};
    static NEXT: AtomicU16 = AtomicU16::new(0);
    (std::process::id() as u16).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{clock, readiness};
    use kumade_units::Span;

    /// None where this process may not have such a socket.
    fn socket_to(peer: &str) -> Option<EchoSocket> {
        EchoSocket::connect(peer.parse().unwrap(), 0, &SocketBinding::default())
            .inspect_err(|error| eprintln!("passed over: no echo socket: {error}"))
            .ok()
    }

    #[test]
    fn a_host_replies_with_the_requests_data() {
        for peer in ["127.0.0.1", "::1"] {
            let Some(socket) = socket_to(peer) else { continue };
            let mut buffer = [0; 256];
            for sequence in [0, 1, 65_535] {
                socket.send(sequence, b"eight by").unwrap();
                // A raw socket on loopback sees the request, too.
                let end = clock::monotonic() + Span::from_secs(60);
                let has_come = std::iter::from_fn(|| {
                    assert!(readiness::wait_readable(&socket, end).unwrap(), "no reply from {peer}");
                    Some(socket.receive(&mut buffer).unwrap().is_some_and(|reply| {
                        assert_eq!((reply.sequence, reply.data), (sequence, &b"eight by"[..]));
                        true
                    }))
                });
                assert!(has_come.take(10).any(|is_reply| is_reply));
            }
        }
    }

    #[test]
    fn what_is_no_reply_is_passed_over() {
        let Some(socket) = socket_to("127.0.0.1") else { return };
        for packet in [&[][..], &[0; 7], &[0x4f; 20], &[V4_REQUEST; 8]] {
            assert_eq!(socket.reply_in(packet, None), None);
        }
    }
}
