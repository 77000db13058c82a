use super::batch::BatchSocket;
use super::control::{Arrival, Control};
use nix::libc;
use packet::Ecn;
use std::io;
use std::mem;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::slice::ChunksMut;
use units::Time;

/// Messages that one system call receives.
const MESSAGES: usize = 16;
/// The kernel merges datagrams up to this length.
const MESSAGE_BYTES: usize = 1 << 16;

/// Receives datagrams of a [`BatchSocket`], many at a time. With several receivers of one socket, the datagrams of one
/// peer are spread over them.
#[derive(Debug)]
pub struct BatchReceiver {
    socket: BatchSocket,
    memory: Box<[u8]>,
}

/// Datagrams of one sender that came one after the other, and that the kernel has merged.
#[derive(Debug)]
pub struct Received<'a> {
    /// Who sent them.
    pub from: SocketAddr,
    /// Their ECN field, the same in each.
    pub ecn: Ecn,
    /// When the first of them came, where the kernel has said so credibly.
    pub stamp: Option<Time>,
    bytes: &'a mut [u8],
    segment_bytes: usize,
}

impl<'a> Received<'a> {
    /// The datagrams. Empty ones are left out.
    pub fn datagrams(self) -> ChunksMut<'a, u8> {
        self.bytes.chunks_mut(self.segment_bytes)
    }
}

impl BatchReceiver {
    /// Has 1 MB of memory of its own.
    pub fn new(socket: &BatchSocket) -> Self {
        BatchReceiver { socket: socket.clone(), memory: vec![0; MESSAGES * MESSAGE_BYTES].into() }
    }

    /// Takes what waits, as far as one system call does, and gives it to `read`. Returns how many times it was called:
    /// zero where nothing waits, 16 where more may.
    ///
    /// # Errors
    /// What the socket reports.
    pub fn receive(&mut self, mut read: impl FnMut(Received<'_>)) -> io::Result<usize> {
        let mut messages = Messages::default();
        let count = match messages.receive(&self.socket, &mut self.memory) {
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => 0,
            outcome => outcome?,
        };
        for (index, memory) in self.memory.chunks_mut(MESSAGE_BYTES).enumerate().take(count) {
            let Some(from) = messages.sender(index) else { continue };
            let Arrival { ecn, segment_bytes, stamp } = Arrival::read(messages.control(index));
            let bytes = &mut memory[..messages.len(index)];
            let segment_bytes = segment_bytes.unwrap_or(bytes.len()).max(1);
            read(Received { from, ecn, stamp, bytes, segment_bytes });
        }
        Ok(count)
    }
}

impl AsFd for BatchReceiver {
    /// Readable whenever a datagram waits.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// What recvmmsg(2) fills besides the datagrams themselves.
struct Messages {
    /// An IPv6 address is the longest that comes.
    names: [libc::sockaddr_in6; MESSAGES],
    controls: [Control; MESSAGES],
    headers: [libc::mmsghdr; MESSAGES],
}

impl Default for Messages {
    fn default() -> Self {
        // SAFETY: both are plain data, for which all zeroes (null pointers, zero lengths) is a valid value.
        let (names, headers) = unsafe { (mem::zeroed(), mem::zeroed()) };
        Messages { names, headers, controls: [Control::EMPTY; MESSAGES] }
    }
}

impl Messages {
    /// Returns how many messages have come.
    fn receive(&mut self, socket: &BatchSocket, memory: &mut [u8]) -> io::Result<usize> {
        let mut parts = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; MESSAGES];
        for (part, bytes) in parts.iter_mut().zip(memory.chunks_mut(MESSAGE_BYTES)) {
            (part.iov_base, part.iov_len) = (bytes.as_mut_ptr().cast(), bytes.len());
        }
        for (index, message) in self.headers.iter_mut().enumerate() {
            let (header, control) = (&mut message.msg_hdr, &mut self.controls[index].0);
            header.msg_name = (&raw mut self.names[index]).cast();
            header.msg_namelen = mem::size_of::<libc::sockaddr_in6>() as _;
            (header.msg_iov, header.msg_iovlen) = (&raw mut parts[index], 1);
            (header.msg_control, header.msg_controllen) = (control.as_mut_ptr().cast(), control.len() as _);
        }
        let (socket, flags) = (socket.as_fd().as_raw_fd(), libc::MSG_DONTWAIT as _);
        let (headers, count) = (self.headers.as_mut_ptr(), MESSAGES as u32);
        // SAFETY: each header leads to an address, to control data and to one part of `memory`, of the lengths given with
        // them, that live across the call and that nothing else refers to; any bytes are valid there.
        let received = unsafe { libc::recvmmsg(socket, headers, count, flags, std::ptr::null_mut()) };
        usize::try_from(received).map_err(|_| io::Error::last_os_error())
    }

    fn len(&self, index: usize) -> usize {
        (self.headers[index].msg_len as usize).min(MESSAGE_BYTES)
    }

    fn control(&self, index: usize) -> &[u8] {
        let control = &self.controls[index].0;
        &control[..control.len().min(self.headers[index].msg_hdr.msg_controllen as _)]
    }

    fn sender(&self, index: usize) -> Option<SocketAddr> {
        let name = &self.names[index];
        let port = u16::from_be(name.sin6_port);
        match libc::c_int::from(name.sin6_family) {
            // In sockaddr_in, the address stands where this has the flow label.
            libc::AF_INET => Some((Ipv4Addr::from(u32::from_be(name.sin6_flowinfo)), port).into()),
            libc::AF_INET6 => {
                let address = Ipv6Addr::from(name.sin6_addr.s6_addr);
                Some(SocketAddrV6::new(address, port, 0, name.sin6_scope_id).into())
            }
            _ => None,
        }
    }
}
