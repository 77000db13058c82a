//! UDP sockets that carry packet trains.

pub use crate::header_bytes::udp_header_bytes as header_bytes;
pub use crate::system_facts::{DatagramArrival, SentBurst};
pub use crate::udp_socket::{hop_limit, is_packet_specific, receive_buffer_bytes};

use super::{ASSUMED_MTU, MAX_DATAGRAM_BYTES, unsupported};
use crate::clock;
use crate::header_bytes::ip_header_bytes;
use crate::poll::wait_writable;
use crate::udp_socket::BUFFER_BYTES;
use kumade_units::Span;
use socket2::SockRef;
use std::fmt;
use std::io;
use std::net::UdpSocket;
use std::time::Duration;

/// Prepares a connected socket: large buffers, and a blocked send that gives up after `patience`; reads do not wait.
///
/// # Errors
/// Where the system refuses an option.
pub fn prepare_socket(socket: &UdpSocket, patience: Duration) -> io::Result<()> {
    let options = SockRef::from(socket);
    // macOS and BSD refuse more than they grant.
    let _ = options.set_recv_buffer_size(BUFFER_BYTES);
    let _ = options.set_send_buffer_size(BUFFER_BYTES);
    options.set_write_timeout(Some(patience))?;
    options.set_nonblocking(true)
}

/// The largest IP packet, in bytes, that the path is taken to pass.
///
/// # Errors
/// None.
pub fn path_mtu(_socket: &UdpSocket) -> io::Result<u32> {
    Ok(ASSUMED_MTU)
}

/// Sends the first of these datagrams over a connected socket; see [`SentBurst::Separate`].
///
/// # Errors
/// What the socket reports.
pub fn send_burst(socket: &UdpSocket, bytes: &[u8], datagram_bytes: u16, segments: &mut bool) -> io::Result<SentBurst> {
    *segments = false;
    send(socket, &bytes[..bytes.len().min(datagram_bytes.into())])?;
    Ok(SentBurst::Separate(1))
}

/// Sends a datagram over a connected socket, and waits for room as long as the socket was prepared to.
///
/// # Errors
/// What the socket reports; `WouldBlock` where there was no room in time.
pub fn send(socket: &UdpSocket, payload: &[u8]) -> io::Result<()> {
    let begin = clock::monotonic();
    loop {
        match socket.send(payload) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let patience = socket.write_timeout()?.map_or(Span::ZERO, Span::from);
                if !wait_writable(socket, begin + patience)? {
                    return Err(error);
                }
            }
            sent => return sent.map(drop),
        }
    }
}

/// Has the system tell DSCP, ECN and hop limit of each datagram, which it does not.
///
/// # Errors
/// Where they are to be told.
pub fn report_marks(_socket: &UdpSocket, are_reported: bool) -> io::Result<()> {
    if are_reported { unsupported("the marks of packets that arrive") } else { Ok(()) }
}

/// Sends a datagram over a connected socket with this DSCP and ECN, and with this hop limit, or that which the system uses.
///
/// # Errors
/// What the socket reports; where the system marks no packets.
pub fn send_marked(socket: &UdpSocket, payload: &[u8], ds_field: u8, hop_limit: Option<u8>) -> io::Result<()> {
    let usual = hop_limit.and_then(|_| crate::udp_socket::hop_limit(socket, socket.peer_addr().ok()?.ip()));
    let set = |octet, hops: Option<u8>| {
        let marked = set_tos(socket, octet);
        hops.map_or(Ok(()), |hops| set_hops(socket, hops.into())).and(marked)
    };
    let sent = set(ds_field, hop_limit).and_then(|()| send(socket, payload));
    // Whatever has failed: later packets are to have what they had before.
    set(0, usual).and(sent)
}

fn set_hops(socket: &UdpSocket, hops: u32) -> io::Result<()> {
    let options = SockRef::from(socket);
    if ip_header_bytes(socket.peer_addr()?) == 20 {
        options.set_ttl_v4(hops)
    } else {
        options.set_unicast_hops_v6(hops)
    }
}

/// Windows says that it has set the field, and leaves it as it was (KB 248611).
pub(super) fn set_tos(socket: &UdpSocket, octet: u8) -> io::Result<()> {
    #[cfg(windows)]
    return match (socket, octet) {
        (_, 0) => Ok(()),
        _ => {
            Err(io::Error::new(io::ErrorKind::Unsupported, "this system lets no program mark packets with DSCP or ECN"))
        }
    };
    #[cfg(not(windows))]
    if ip_header_bytes(socket.peer_addr()?) == 40 {
        SockRef::from(socket).set_tclass_v6(octet.into())
    } else {
        SockRef::from(socket).set_tos_v4(octet.into())
    }
}

/// Receives the first bytes of datagrams, one at a time: what the clock says then is when it was read.
pub struct DatagramReceiver {
    memory: Box<[u8]>,
    max_datagram_bytes: usize,
}

impl DatagramReceiver {
    /// Gives up to so many bytes of each datagram, at least one.
    pub fn new(longest: usize) -> Self {
        DatagramReceiver { memory: vec![0; MAX_DATAGRAM_BYTES].into(), max_datagram_bytes: longest.max(1) }
    }

    /// Takes the datagram that waits, and gives `read` its first bytes.
    ///
    /// # Errors
    /// `WouldBlock` where nothing waits, else what the socket reports.
    pub fn receive(&mut self, socket: &UdpSocket, mut read: impl FnMut(&[u8], DatagramArrival)) -> io::Result<()> {
        let received = socket.recv(&mut self.memory)?;
        read(&self.memory[..received.min(self.max_datagram_bytes)], DatagramArrival::default());
        Ok(())
    }
}

impl fmt::Debug for DatagramReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatagramReceiver").field("longest", &self.max_datagram_bytes).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poll::wait_readable;

    fn pair() -> (UdpSocket, UdpSocket) {
        let (one, other) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        one.connect(other.local_addr().unwrap()).unwrap();
        other.connect(one.local_addr().unwrap()).unwrap();
        for socket in [&one, &other] {
            prepare_socket(socket, Duration::from_secs(1)).unwrap();
        }
        (one, other)
    }

    #[test]
    fn the_first_bytes_of_one_datagram_at_a_time_are_given() {
        let (sender, receiver) = pair();
        let mut segments = true;
        let sent = send_burst(&sender, &[[1; 9], [2; 9]].concat(), 9, &mut segments).unwrap();
        assert_eq!((sent, segments), (SentBurst::Separate(1), false));
        sender.send(&[3; 2]).unwrap();
        let (mut datagrams, mut found) = (DatagramReceiver::new(4), Vec::new());
        while found.len() < 2 {
            assert!(wait_readable(&receiver, clock::monotonic() + Span::from_secs(60)).unwrap());
            let _ = datagrams.receive(&receiver, |bytes, _| found.push(bytes.to_vec()));
        }
        assert_eq!(found, [vec![1; 4], vec![3; 2]]);
        assert_eq!(datagrams.receive(&receiver, |_, _| ()).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn a_send_waits_for_room() {
        let (near, far) = std::os::unix::net::UnixDatagram::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        near.set_write_timeout(Some(Duration::from_millis(1))).unwrap();
        // Of the same calls: its peer makes room only as it reads, whereas the loopback of IP drops.
        let socket = UdpSocket::from(std::os::fd::OwnedFd::from(near));
        let refused = (0..100_000).find_map(|_| send(&socket, &[0; 1000]).err()).unwrap();
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
        socket.set_write_timeout(Some(Duration::from_secs(60))).unwrap();
        std::thread::scope(|scope| {
            let sending = scope.spawn(|| send(&socket, &[1; 1000]));
            assert_eq!(far.recv(&mut [0; 1000]).unwrap(), 1000);
            sending.join().unwrap().unwrap();
        });
    }

    #[test]
    fn a_packets_own_hop_limit_is_that_of_no_other() {
        let (sender, receiver) = pair();
        let usual = hop_limit(&sender, sender.peer_addr().unwrap().ip()).unwrap();
        send_marked(&sender, b"x", 0, Some(usual - 1)).unwrap();
        assert_eq!(hop_limit(&sender, receiver.local_addr().unwrap().ip()), Some(usual));
        assert_eq!(report_marks(&receiver, true).unwrap_err().kind(), io::ErrorKind::Unsupported);
        report_marks(&receiver, false).unwrap();
    }
}
