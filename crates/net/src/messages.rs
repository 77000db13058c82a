//! Many datagrams with one system call: recvmmsg(2), sendmmsg(2).

use crate::control_messages::{ArrivalMetadata, ControlMessages};
use kumade_packet::DsField;
use nix::libc;
use socket2::SockAddr;
use std::io;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd};

/// What the system call fills besides the datagrams themselves, for up to `N` of them.
pub(crate) struct MessageBatch<const N: usize> {
    /// An IPv6 address is the longest that comes.
    names: [libc::sockaddr_in6; N],
    controls: [ControlMessages; N],
    headers: [libc::mmsghdr; N],
    /// Bytes of memory for each.
    max_datagram_bytes: usize,
}

impl<const N: usize> Default for MessageBatch<N> {
    fn default() -> Self {
        // SAFETY: both are plain data, for which all zeroes (null pointers, zero lengths) is a valid value.
        let (names, headers) = unsafe { (mem::zeroed(), mem::zeroed()) };
        MessageBatch { names, headers, controls: [ControlMessages::EMPTY; N], max_datagram_bytes: 0 }
    }
}

impl<const N: usize> MessageBatch<N> {
    /// Receives without waiting, each datagram into the next `longest` bytes of the memory. Returns how many have come.
    pub(crate) fn receive(&mut self, socket: &impl AsFd, memory: &mut [u8], longest: usize) -> io::Result<usize> {
        self.receive_up_to(N, socket, memory, longest)
    }

    /// The same, no more than so many.
    pub(crate) fn receive_up_to(
        &mut self,
        max_datagrams: usize,
        socket: &impl AsFd,
        memory: &mut [u8],
        longest: usize,
    ) -> io::Result<usize> {
        self.max_datagram_bytes = longest;
        let mut parts = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; N];
        for (part, bytes) in parts.iter_mut().zip(memory.chunks_mut(longest.max(1))) {
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
        let (headers, count) = (self.headers.as_mut_ptr(), max_datagrams.min(N) as u32);
        // SAFETY: each header leads to an address, to control data and to one part of `memory` or none, of the lengths given
        // with them, that live across the call and that nothing else refers to; any bytes are valid there.
        let received = unsafe { libc::recvmmsg(socket, headers, count, flags, std::ptr::null_mut()) };
        usize::try_from(received).map_err(|_| io::Error::last_os_error())
    }

    /// Bytes of a datagram that are in the memory.
    pub(crate) fn len(&self, index: usize) -> usize {
        (self.headers[index].msg_len as usize).min(self.max_datagram_bytes)
    }

    /// Whether a datagram was longer.
    pub(crate) fn is_truncated(&self, index: usize) -> bool {
        self.headers[index].msg_hdr.msg_flags & libc::MSG_TRUNC != 0
    }

    /// What the kernel says about a datagram.
    pub(crate) fn metadata(&self, index: usize) -> ArrivalMetadata {
        let control = &self.controls[index].0;
        ArrivalMetadata::read(&control[..control.len().min(self.headers[index].msg_hdr.msg_controllen as _)])
    }

    /// Who sent a datagram.
    pub(crate) fn sender(&self, index: usize) -> Option<SocketAddr> {
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

/// A datagram to be sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OutgoingDatagram<'a> {
    pub(crate) destination: SocketAddr,
    /// From which address of this host; none for that which the system chooses.
    pub(crate) source: Option<IpAddr>,
    /// With which DSCP and ECN; those of the socket where they are zero.
    pub(crate) ds_field: DsField,
    pub(crate) payload: &'a [u8],
}

/// Datagrams that one call of [`send`] sends at most.
pub(crate) const MAX_SENT_DATAGRAMS: usize = 8;

/// Sends the first of these without waiting, as many as one system call takes. Returns how many those are, at least one.
///
/// # Errors
/// That of the first, if it cannot be sent; there is none to be sent.
pub(crate) fn send(socket: &impl AsFd, outgoing: &[OutgoingDatagram]) -> io::Result<usize> {
    let count = outgoing.len().min(MAX_SENT_DATAGRAMS);
    let names: Vec<_> = outgoing[..count].iter().map(|datagram| SockAddr::from(datagram.destination)).collect();
    let mut controls = [ControlMessages::EMPTY; MAX_SENT_DATAGRAMS];
    let mut parts = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; MAX_SENT_DATAGRAMS];
    // SAFETY: mmsghdr is plain data, for which all zeroes (null pointers, zero lengths) is a valid value.
    let mut headers: [libc::mmsghdr; MAX_SENT_DATAGRAMS] = unsafe { mem::zeroed() };
    for (index, (datagram, name)) in outgoing.iter().zip(&names).enumerate() {
        let payload = datagram.payload;
        parts[index] = libc::iovec { iov_base: payload.as_ptr().cast_mut().cast(), iov_len: payload.len() };
        let control = datagram.source.map_or(0, |source| controls[index].write_source(source));
        let is_v4 = datagram.destination.ip().to_canonical().is_ipv4();
        let control = controls[index].write_ds_field(control, is_v4, datagram.ds_field);
        let header = &mut headers[index].msg_hdr;
        (header.msg_name, header.msg_namelen) = (name.as_ptr().cast_mut().cast(), name.len());
        (header.msg_iov, header.msg_iovlen) = (&raw mut parts[index], 1);
        (header.msg_control, header.msg_controllen) = (controls[index].0.as_mut_ptr().cast(), control as _);
    }
    let flags = libc::MSG_DONTWAIT as _;
    // SAFETY: each of the `count` headers leads to an address, to control data and to a payload, of the lengths given with
    // them, that live across the call; the kernel writes nothing but each header's `msg_len`.
    let sent = unsafe { libc::sendmmsg(socket.as_fd().as_raw_fd(), headers.as_mut_ptr(), count as u32, flags) };
    match usize::try_from(sent) {
        Ok(0) => Err(io::ErrorKind::InvalidInput.into()),
        Ok(sent) => Ok(sent),
        Err(_) => Err(io::Error::last_os_error()),
    }
}
