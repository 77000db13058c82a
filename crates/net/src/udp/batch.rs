use super::send::{SendFailure, send_messages};
use crate::binding::bind_to_interface;
use crate::index::index_of;
use crate::interface::Family;
use crate::option::{self, Ipv4MtuDiscover, Ipv6MtuDiscover, SocketMemory};
use crate::scoped_address::is_of_one_link;
use crate::setup::SetupError;
use crate::{SocketBinding, stamp};
use kumade_packet::DsField;
use nix::libc;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{IpRecvTos, Ipv6RecvTClass, RcvBuf, RcvBufForce, SndBuf, SndBufForce, UdpGroSegment};
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// A bound UDP socket of one IP version for many datagrams at a time. Datagrams that follow each other and are of equal
/// length go to the kernel, and by many devices to the network card, as one packet (UDP segmentation offload). No datagram
/// is ever fragmented, and what routers report of the path's MTU is ignored: the peers find that out themselves
/// (RFC 8899).
///
/// Clones are the same socket; all may be used at once, by several threads. [`BatchReceiver`](super::BatchReceiver)
/// receives.
#[derive(Debug, Clone)]
pub struct BatchSocket(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    socket: UdpSocket,
    is_segmenting: AtomicBool,
    interface: Option<BoundInterface>,
}

/// The interface of a socket, which the kernel knows by its number.
#[derive(Debug)]
struct BoundInterface {
    name: String,
    index: AtomicU32,
}

/// Why the kernel did not take a datagram.
#[derive(Debug)]
#[non_exhaustive]
pub enum SendRefusal {
    /// It is longer than the MTU of the device by which it should leave.
    TooLong,
    /// Anything else, such as a missing route, a device that is down, or a rule of the firewall.
    Other(io::Error),
}

/// Asked for on either side; the system may grant less. At 1 Gbit/s it lasts for 64 ms.
const BUFFER_BYTES: usize = 8 << 20;

impl BatchSocket {
    /// Binds a socket to a port, or to any where it is 0, in the namespace of the calling thread.
    ///
    /// # Errors
    /// The port is taken; this host has no such address or interface; the address is of the other IP version; not
    /// allowed.
    pub fn bind(binding: &SocketBinding, family: Family, port: u16) -> Result<Self, SetupError> {
        let socket = binding.bind_udp(family, port).and_then(|socket| prepare_socket(&socket, family).map(|()| socket));
        let socket = socket.map_err(|error| {
            let hint = hint(&error);
            SetupError::new(format!("open UDP port {port} at {binding}"), error).with_hint(hint)
        })?;
        let interface = binding.interface.as_ref().map(|name| {
            index_of(name).map(|index| BoundInterface { name: name.clone(), index: AtomicU32::new(index) })
        });
        let interface = interface.transpose()?;
        Ok(BatchSocket(Arc::new(Shared { socket, is_segmenting: AtomicBool::new(true), interface })))
    }

    /// A further socket of the same port, which receives what comes from this address from now on: the kernel leads it there, with a
    /// buffer of its own. `others` are all that there are already. Datagrams from elsewhere that come while it is opened may be in it, too.
    ///
    /// # Errors
    /// The process is of another user than the one that has bound the socket, lacks what that took, or has no descriptor left.
    pub fn connected_to<'o, O>(&self, peer: SocketAddr, others: O) -> io::Result<BatchSocket>
    where
        O: IntoIterator<Item = &'o BatchSocket, IntoIter: Clone>,
    {
        let local = self.local_addr()?;
        let further = Socket::new(Domain::for_address(local), Type::DGRAM, Some(Protocol::UDP))?;
        if local.is_ipv6() {
            further.set_only_v6(true)?;
        }
        if let Some(BoundInterface { name, .. }) = &self.0.interface {
            bind_to_interface(&SockRef::from(&further), name)?;
        }
        // All of them, for this moment: from then on, nobody else gets the port.
        let all = others.into_iter().map(|other| &other.0.socket).chain([&self.0.socket]);
        let share = |is_shared| all.clone().try_for_each(|socket| SockRef::from(socket).set_reuse_port(is_shared));
        further.set_reuse_port(true)?;
        let connected = share(true)
            .and_then(|()| further.bind(&local.into()))
            .and_then(|()| further.connect(&self.destination(peer)));
        share(false)?;
        further.set_reuse_port(false)?;
        connected?;
        let socket = UdpSocket::from(further);
        prepare_socket(&socket, Family::from_address(local.ip()))?;
        Ok(BatchSocket(Arc::new(Shared { socket, is_segmenting: AtomicBool::new(true), interface: None })))
    }

    /// How many messages were lost since the socket was opened, as its buffer was full; datagrams that the kernel has merged are one. It
    /// begins anew after 2³².
    ///
    /// # Errors
    /// The system does not tell.
    pub fn dropped_messages(&self) -> io::Result<u32> {
        let [.., dropped] = option::read(&self.0.socket, SocketMemory)?;
        Ok(dropped)
    }

    /// Binds the socket anew where its interface was deleted and made again, which has another number then: until this, nothing
    /// leaves or comes. Returns the number, if it is another one; none while there is no interface of that name.
    ///
    /// # Errors
    /// The process lacks `CAP_NET_RAW`, which it takes to bind a socket to another interface than before.
    pub fn follow_interface(&self) -> Result<Option<u32>, SetupError> {
        let Some(BoundInterface { name, index }) = &self.0.interface else { return Ok(None) };
        let Ok(current) = index_of(name) else { return Ok(None) };
        if current == index.load(Ordering::Relaxed) {
            return Ok(None);
        }
        bind_to_interface(&SockRef::from(&self.0.socket), name).map_err(|error| {
            let hint = hint(&error);
            SetupError::new(format!("bind a UDP socket to the new interface {name}"), error).with_hint(hint)
        })?;
        index.store(current, Ordering::Relaxed);
        Ok(Some(current))
    }

    /// An address of one link is one at the link of the socket's interface, whatever number that had before.
    fn destination(&self, mut to: SocketAddr) -> SockAddr {
        if let (Some(interface), SocketAddr::V6(v6)) = (&self.0.interface, &mut to)
            && is_of_one_link((*v6.ip()).into())
        {
            v6.set_scope_id(interface.index.load(Ordering::Relaxed));
        }
        to.into()
    }

    /// Where it is bound.
    ///
    /// # Errors
    /// Where the system does not say.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.socket.local_addr()
    }

    /// Whether several datagrams go to the kernel as one packet: until it has refused that.
    pub fn is_segmenting(&self) -> bool {
        self.0.is_segmenting.load(Ordering::Relaxed)
    }

    /// Sends datagrams in their order. Returns how many of them have been dealt with: fewer than there are where the
    /// socket's buffer is full; it is writable when there is room again. One that the kernel refuses is reported to
    /// `refused` by its index, and those after it are sent. The field is DSCP and ECN, or ECN alone.
    pub fn send<D: AsRef<[u8]>>(
        &self,
        to: SocketAddr,
        field: impl Into<DsField>,
        datagrams: &[D],
        mut refused: impl FnMut(usize, SendRefusal),
    ) -> usize {
        let (to, field) = (self.destination(to), field.into());
        // Datagrams before this one are tried one by one, because together they were refused.
        let mut singly_until = 0;
        let mut is_segmentation_in_doubt = false;
        let mut done = 0;
        while done < datagrams.len() {
            let singly = if self.is_segmenting() { singly_until.max(done) - done } else { usize::MAX };
            match send_messages(self, &to, field, &datagrams[done..], singly) {
                Ok(sent) => done += sent,
                Err(SendFailure { errno: libc::EINTR, .. }) => {}
                Err(SendFailure { errno: libc::EAGAIN, .. }) => return done,
                Err(SendFailure { errno: error, datagram_count: count @ 2.. }) => {
                    singly_until = done + count;
                    // What a device (or IPsec) that cannot do it says, and what an older kernel says; but also what one
                    // says of datagrams that are too long.
                    is_segmentation_in_doubt = matches!(error, libc::EIO | libc::EINVAL);
                }
                Err(SendFailure { errno: error, .. }) => {
                    is_segmentation_in_doubt = false;
                    refused(done, SendRefusal::from_error_number(error));
                    done += 1;
                }
            }
            if is_segmentation_in_doubt && done >= singly_until {
                self.0.is_segmenting.store(false, Ordering::Relaxed);
            }
        }
        done
    }
}

impl AsFd for BatchSocket {
    /// Readable whenever a datagram waits; writable whenever the send buffer has room.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.socket.as_fd()
    }
}

impl SendRefusal {
    fn from_error_number(error: i32) -> Self {
        match error {
            libc::EMSGSIZE => SendRefusal::TooLong,
            error => SendRefusal::Other(io::Error::from_raw_os_error(error)),
        }
    }
}

fn prepare_socket(socket: &UdpSocket, family: Family) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    match family {
        Family::V4 => {
            setsockopt(socket, Ipv4MtuDiscover, &libc::IP_PMTUDISC_PROBE)?;
            setsockopt(socket, IpRecvTos, &true)?;
        }
        Family::V6 => {
            setsockopt(socket, Ipv6MtuDiscover, &libc::IPV6_PMTUDISC_PROBE)?;
            setsockopt(socket, Ipv6RecvTClass, &true)?;
        }
    }
    // Beyond the system's limit it takes CAP_NET_ADMIN; less room without it is no error.
    if setsockopt(socket, RcvBufForce, &BUFFER_BYTES).is_err() {
        setsockopt(socket, RcvBuf, &BUFFER_BYTES)?;
    }
    if setsockopt(socket, SndBufForce, &BUFFER_BYTES).is_err() {
        setsockopt(socket, SndBuf, &BUFFER_BYTES)?;
    }
    if let Err(error) = setsockopt(socket, UdpGroSegment, &true) {
        tracing::debug!("this kernel hands over UDP datagrams one by one: {error}");
    }
    if let Err(error) = stamp::enable_receive(socket) {
        tracing::debug!("no kernel stamps: {error}");
    }
    Ok(())
}

fn hint(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EADDRINUSE) => "another process has that port: choose another one, or end that process (`ss -lunp`)",
        Some(libc::EADDRNOTAVAIL) => "this host has no such address: see `ip address`",
        Some(libc::ENODEV) => "there is no such interface: see `ip link`",
        Some(libc::EACCES) => "ports below 1024 take CAP_NET_BIND_SERVICE",
        Some(libc::EPERM) => "a mark takes CAP_NET_ADMIN, another interface than before CAP_NET_RAW",
        Some(libc::EAFNOSUPPORT) => "IPv6 is switched off on this system",
        _ => "the source address must be of the same IP version",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::option::NoChecksum;
    use crate::udp::BatchReceiver;
    use kumade_netns_testbed::eventually;

    #[test]
    fn where_the_kernel_refuses_to_segment_datagrams_go_one_by_one_from_then_on() {
        let open = || BatchSocket::bind(&SocketBinding::default(), Family::V4, 0).unwrap();
        let (near, far) = (open(), open());
        setsockopt(&near, NoChecksum, &1).unwrap();
        let to = SocketAddr::new("127.0.0.1".parse().unwrap(), far.local_addr().unwrap().port());
        let mut receiver = BatchReceiver::new(&far);
        for _ in 0..2 {
            let sent: Vec<_> = (0..100).map(|number| [number; 300]).collect();
            assert_eq!(near.send(to, DsField::default(), &sent, |_, refusal| panic!("{refusal:?}")), 100);
            assert!(!near.is_segmenting());
            let mut found = Vec::new();
            while found.len() < 100 {
                receiver
                    .receive(|received| found.extend(received.datagrams().map(|datagram| datagram.to_vec())))
                    .unwrap();
            }
            assert_eq!(found, sent);
        }
    }

    #[test]
    fn a_further_socket_receives_of_one_sender_and_the_port_is_nobody_elses() {
        let open = || BatchSocket::bind(&SocketBinding::default(), Family::V4, 0).unwrap();
        let (shared, near, other) = (open(), open(), open());
        let to = SocketAddr::new("127.0.0.1".parse().unwrap(), shared.local_addr().unwrap().port());
        let from = |socket: &BatchSocket| SocketAddr::new(to.ip(), socket.local_addr().unwrap().port());
        let further = shared.connected_to(from(&near), []).unwrap();
        let _another = shared.connected_to(from(&open()), [&further]).unwrap();
        for socket in [&near, &other] {
            assert_eq!(socket.send(to, DsField::default(), &[[7; 10]], |_, refusal| panic!("{refusal:?}")), 1);
        }
        let mut receiver = BatchReceiver::new(&shared);
        for (socket, sender) in [(&further, &near), (&shared, &other)] {
            let mut senders = Vec::new();
            assert!(eventually(|| {
                receiver.receive_from(socket, 16, |received| senders.push(received.source)).unwrap();
                !senders.is_empty()
            }));
            assert_eq!(senders, [from(sender)]);
        }
        let taken = SocketBinding::default().bind_udp(Family::V4, to.port()).map_err(|error| error.kind());
        assert_eq!(taken.err(), Some(io::ErrorKind::AddrInUse));
        let reusing = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP)).unwrap();
        reusing.set_reuse_port(true).unwrap();
        let any = SocketAddr::from(([0, 0, 0, 0], to.port()));
        assert_eq!(reusing.bind(&any.into()).map_err(|error| error.kind()), Err(io::ErrorKind::AddrInUse));
    }
}
