//! The kernel's time stamps of packets (`SO_TIMESTAMPING`): when one was handed to the network device, and when one came
//! from it.
//!
//! A program's own clock readings around `send` and `recv` are off by the whole way through the host's stack (on
//! loopback 2.7 µs out and 2.8 µs in, against 0.16 µs between the kernel's stamps). Stamps are of CLOCK_REALTIME.
//!
//! *Transmit* stamps arrive on the socket's error queue after the packet has left, each with a key. On UDP the key counts
//! datagrams, on TCP it is the number of the last byte sent, both from zero at [`enable_transmit`]. A TCP packet that is
//! sent again is stamped again, with the same key: the first stamp is the right one.
//!
//! *Receive* stamps of TCP belong to the newest packet among those that the kernel has merged in the receive queue; see
//! [`receive`].

use crate::clock;
use nix::libc;
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr;
use units::{Span, Time};

/// Where stamps come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StampSource {
    /// The kernel, at the network device.
    Kernel,
    /// The program's own clock readings just before sending and just after receiving: microseconds off, more under
    /// load.
    User,
}

/// A stamp is of this host's recent past; enabling takes effect late, and the first packets after it may carry the
/// sender's or another clock's time.
const OLDEST: Span = Span::from_secs(60);

const RECEIVE: u32 = libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
/// `OPT_TSONLY`: without the packet itself, which an unprivileged reader may not be allowed to see again.
const TRANSMIT: u32 =
    libc::SOF_TIMESTAMPING_TX_SOFTWARE | libc::SOF_TIMESTAMPING_OPT_ID | libc::SOF_TIMESTAMPING_OPT_TSONLY;

/// Has packets stamped as they come in. Takes effect some time later, so enable it long before the first packet of
/// interest: for TCP before connecting or listening (accepted sockets inherit it).
///
/// # Errors
/// Where the kernel has no such stamps.
pub fn enable_receive(socket: &impl AsFd) -> io::Result<()> {
    set(socket, RECEIVE)
}

/// Has packets stamped as they come in and as they leave; counts the keys of leaving ones from zero. A TCP socket must
/// be connected.
///
/// Returns the number of the next byte (TCP; always zero on UDP) by the kernel's count: where the kernel lacks
/// `OPT_ID_TCP` (before 6.2) it counts from the last *acknowledged* byte.
///
/// # Errors
/// Where the kernel has no such stamps, or its count can't be told.
pub fn enable_transmit(socket: &impl AsFd, is_tcp: bool) -> io::Result<u32> {
    // The count starts anew only when the option goes from off to on.
    set(socket, RECEIVE)?;
    if !is_tcp {
        return set(socket, RECEIVE | TRANSMIT).map(|()| 0);
    }
    if set(socket, RECEIVE | TRANSMIT | libc::SOF_TIMESTAMPING_OPT_ID_TCP).is_ok() {
        return Ok(0);
    }
    count_from_acknowledged(socket)
}

/// What one call of [`receive`] brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Bytes written to the buffer; a longer datagram is cut off. Zero on TCP means the peer has closed.
    pub len: usize,
    /// When it came, where the kernel has said so credibly.
    pub stamp: Option<Time>,
}

/// Receives without waiting, with the kernel's stamp.
///
/// On TCP, the kernel may have merged several packets in its queue; the stamp is the newest's, whichever part is read.
/// So where consecutive reads, each limited to one packet, show the *same* stamp, it is that of the last of them.
///
/// # Errors
/// `WouldBlock` where nothing is there, else what the socket reports.
pub fn receive(socket: &impl AsFd, buffer: &mut [u8]) -> io::Result<Received> {
    let message = receive_message(socket, buffer, libc::MSG_DONTWAIT)?;
    Ok(Received { len: message.len, stamp: message.stamp })
}

/// When a packet left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransmitStamp {
    /// Which: see the module's description.
    pub key: u32,
    /// When the network device took it.
    pub at: Time,
}

/// Takes the oldest transmit stamp that waits; none where none does. Anything else in the error queue is dropped.
///
/// # Errors
/// Where the socket can't be read.
pub fn next_transmit_stamp(socket: &impl AsFd) -> io::Result<Option<TransmitStamp>> {
    loop {
        match receive_message(socket, &mut [], libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT) {
            Ok(Message { stamp: Some(at), key: Some(key), .. }) => return Ok(Some(TransmitStamp { key, at })),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        }
    }
}

struct Message {
    len: usize,
    stamp: Option<Time>,
    key: Option<u32>,
}

/// Room for a stamp (3 × 16 bytes) and an extended error with its address, with their headers; aligned for both.
#[repr(C, align(8))]
struct Control([u8; 256]);

fn receive_message(socket: &impl AsFd, buffer: &mut [u8], flags: i32) -> io::Result<Message> {
    let mut control = Control([0; 256]);
    let mut parts = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: msghdr is plain data, for which all zeroes (null pointers, zero lengths) is a valid value.
    let mut header: libc::msghdr = unsafe { mem::zeroed() };
    header.msg_iov = &raw mut parts;
    header.msg_iovlen = 1;
    header.msg_control = (&raw mut control).cast();
    header.msg_controllen = mem::size_of::<Control>() as _;
    let len = loop {
        // SAFETY: `header` points at `parts` and `control`, both alive and of the lengths given; `parts` points at
        // `buffer`, which is borrowed mutably for the call.
        let got = unsafe { libc::recvmsg(socket.as_fd().as_raw_fd(), &raw mut header, flags) };
        match usize::try_from(got) {
            Ok(len) => break len,
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    };
    // SAFETY: recvmsg has filled in `header`, whose control buffer is alive.
    Ok(unsafe { read_control(&header, len) })
}

/// # Safety
/// `header` must be as `recvmsg` left it, its control buffer alive.
unsafe fn read_control(header: &libc::msghdr, len: usize) -> Message {
    let mut message = Message { len, stamp: None, key: None };
    // SAFETY: the caller vouches for the header and the buffer; the macros walk within msg_controllen.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(header) };
    while !next.is_null() {
        // SAFETY: CMSG_FIRSTHDR and CMSG_NXTHDR return null or a whole header within the buffer.
        let (part, data) = unsafe { (&*next, libc::CMSG_DATA(next)) };
        // SAFETY: CMSG_LEN only computes.
        let holds = |size: usize| part.cmsg_len >= unsafe { libc::CMSG_LEN(size as u32) } as _;
        match (part.cmsg_level, part.cmsg_type) {
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) if holds(mem::size_of::<libc::timespec>()) => {
                // SAFETY: the data is three timespecs, of which the first is the software stamp; its size is checked.
                message.stamp = credible(unsafe { ptr::read_unaligned(data.cast()) });
            }
            (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR)
                if holds(mem::size_of::<libc::sock_extended_err>()) =>
            {
                // SAFETY: the data begins with a sock_extended_err; its size is checked.
                let error: libc::sock_extended_err = unsafe { ptr::read_unaligned(data.cast()) };
                let is_sending_stamp = error.ee_origin == libc::SO_EE_ORIGIN_TIMESTAMPING && error.ee_info == 0;
                message.key = is_sending_stamp.then_some(error.ee_data);
            }
            _ => {}
        }
        // SAFETY: as for CMSG_FIRSTHDR.
        next = unsafe { libc::CMSG_NXTHDR(header, next) };
    }
    message
}

pub(crate) fn credible(stamp: libc::timespec) -> Option<Time> {
    let at = Time::from_nanos(stamp.tv_sec.checked_mul(1_000_000_000)?.checked_add(stamp.tv_nsec)?);
    let age = clock::realtime() - at;
    (age > Span::from_secs(-1) && age < OLDEST).then_some(at)
}

fn set(socket: &impl AsFd, flags: u32) -> io::Result<()> {
    crate::option::set(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &flags)
}

/// Without `OPT_ID_TCP`, the kernel counts from the last acknowledged byte: the next one's number is however many are not
/// acknowledged, provided that no acknowledgement came in between.
fn count_from_acknowledged(socket: &impl AsFd) -> io::Result<u32> {
    for _ in 0..100 {
        let before = unacknowledged(socket)?;
        set(socket, RECEIVE | TRANSMIT)?;
        if unacknowledged(socket)? == before {
            return Ok(before);
        }
        set(socket, RECEIVE)?;
    }
    Err(io::Error::other("acknowledgements kept coming while the count of bytes was set"))
}

/// Bytes of a TCP socket that are sent, or wait to be, and are not acknowledged.
fn unacknowledged(socket: &impl AsFd) -> io::Result<u32> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: TIOCOUTQ (SIOCOUTQ on sockets) writes one int, to which the pointer leads.
    match unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) } {
        0 => Ok(bytes as u32),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn older_kernels_count_from_the_last_acknowledged_byte() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        tcp::prepare_listener(&listener).unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let stream = listener.accept().unwrap().0;
        // No more packets than the initial window, or they would wait for acknowledgements.
        for _ in 0..4 {
            set(&stream, RECEIVE).unwrap();
            tcp::send(&stream, &[0; 10], true).unwrap();
            let next_byte = count_from_acknowledged(&stream).unwrap();
            tcp::send(&stream, &[0; 7], true).unwrap();
            assert_eq!(next_transmit_stamp(&stream).unwrap().unwrap().key, next_byte + 6);
        }
    }

    #[test]
    fn another_clocks_stamp_is_not_credible() {
        let stamp =
            |at: Time| libc::timespec { tv_sec: at.as_nanos() / 1_000_000_000, tv_nsec: at.as_nanos() % 1_000_000_000 };
        let now = clock::realtime();
        assert_eq!(credible(stamp(now)), Some(now));
        assert_eq!(credible(stamp(clock::monotonic())), None);
        assert_eq!(credible(stamp(now + Span::from_secs(10))), None);
        assert_eq!(credible(libc::timespec { tv_sec: 0, tv_nsec: 0 }), None);
        assert_eq!(credible(libc::timespec { tv_sec: i64::MAX, tv_nsec: 0 }), None);
    }
}
