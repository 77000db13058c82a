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
//! The device takes a packet *behind* the interface's queue discipline. Where that holds packets back (a shaper on the host's
//! own interface), [`add_queue_stamps`] has them stamped before it as well.
//!
//! *Receive* stamps of TCP belong to the newest packet among those that the kernel has merged in the receive queue; see
//! [`receive`].

pub use crate::system_facts::{StampPlace, StampSource, StampedRead, TransmitStamp};

use crate::clock;
use kumade_units::{Span, Time};
use nix::libc;
use nix::sys::socket::sockopt::Timestamping;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, TimestampingFlag, recvmsg, setsockopt};
use nix::sys::time::TimeSpec;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd};

/// Packets have the time at which they arrived, whenever they are read.
pub const IS_TIME_OF_READING: bool = false;

/// A stamp is of this host's recent past; enabling takes effect late, and the first packets after it may carry the
/// sender's or another clock's time.
const MAX_STAMP_AGE: Span = Span::from_secs(60);

const RECEIVE_FLAGS: u32 = libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
/// `OPT_TSONLY`: without the packet itself, which an unprivileged reader may not be allowed to see again.
const TRANSMIT_FLAGS: u32 =
    libc::SOF_TIMESTAMPING_TX_SOFTWARE | libc::SOF_TIMESTAMPING_OPT_ID | libc::SOF_TIMESTAMPING_OPT_TSONLY;

/// Kinds of transmit stamps (`linux/errqueue.h`).
const SCM_TSTAMP_SND: u32 = 0;
const SCM_TSTAMP_SCHED: u32 = 1;

/// Has packets stamped as they come in. Takes effect some time later, so enable it long before the first packet of
/// interest: for TCP before connecting or listening (accepted sockets inherit it).
///
/// # Errors
/// Where the kernel has no such stamps.
pub fn enable_receive(socket: &impl AsFd) -> io::Result<()> {
    set_flags(socket, RECEIVE_FLAGS)
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
    set_flags(socket, RECEIVE_FLAGS)?;
    if !is_tcp {
        return set_flags(socket, RECEIVE_FLAGS | TRANSMIT_FLAGS).map(|()| 0);
    }
    if set_flags(socket, RECEIVE_FLAGS | TRANSMIT_FLAGS | libc::SOF_TIMESTAMPING_OPT_ID_TCP).is_ok() {
        return Ok(0);
    }
    count_from_acknowledged(socket)
}

/// Has packets stamped also as they enter the interface's queue discipline, or no more, on a socket of [`enable_transmit`], whose count
/// goes on.
///
/// # Errors
/// Where the kernel has no such stamps.
pub fn set_queue_stamps(socket: &impl AsFd, is_tcp: bool, are_wanted: bool) -> io::Result<()> {
    let queue_flag = if are_wanted { libc::SOF_TIMESTAMPING_TX_SCHED } else { 0 };
    let flags = RECEIVE_FLAGS | TRANSMIT_FLAGS | queue_flag;
    match is_tcp {
        true => set_flags(socket, flags | libc::SOF_TIMESTAMPING_OPT_ID_TCP).or_else(|_| set_flags(socket, flags)),
        false => set_flags(socket, flags),
    }
}

/// Receives without waiting, with the kernel's stamp.
///
/// On TCP, the kernel may have merged several packets in its queue; the stamp is the newest's, whichever part is read.
/// So where consecutive reads, each limited to one packet, show the *same* stamp, it is that of the last of them.
///
/// # Errors
/// `WouldBlock` where nothing is there, else what the socket reports.
pub fn receive(socket: &impl AsFd, buffer: &mut [u8]) -> io::Result<StampedRead> {
    let message = receive_message(socket, buffer, MsgFlags::MSG_DONTWAIT)?;
    Ok(StampedRead { len: message.len, stamp: message.stamp })
}

/// Takes the oldest transmit stamp that waits; none where none does. Anything else in the error queue is dropped.
///
/// # Errors
/// Where the socket can't be read.
pub fn next_transmit_stamp(socket: &impl AsFd) -> io::Result<Option<TransmitStamp>> {
    loop {
        match receive_message(socket, &mut [], MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT) {
            Ok(Message { stamp: Some(at), key: Some((key, place)), .. }) => {
                return Ok(Some(TransmitStamp { key, time: at, place }));
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

struct Message {
    len: usize,
    stamp: Option<Time>,
    key: Option<(u32, StampPlace)>,
}

/// Room for the control messages of a datagram: a stamp (48 bytes), an extended error with its address, a TTL and packet
/// information, each with its header. Aligned for all of them.
#[repr(align(8))]
pub(crate) struct ControlBuffer(pub(crate) [u8; 256]);

impl Default for ControlBuffer {
    fn default() -> Self {
        ControlBuffer([0; 256])
    }
}

fn receive_message(socket: &impl AsFd, buffer: &mut [u8], flags: MsgFlags) -> io::Result<Message> {
    let mut control = ControlBuffer::default();
    let mut parts = [IoSliceMut::new(buffer)];
    let received = recvmsg::<()>(socket.as_fd().as_raw_fd(), &mut parts, Some(&mut control.0), flags)?;
    let mut message = Message { len: received.bytes, stamp: None, key: None };
    for part in received.cmsgs()? {
        match part {
            ControlMessageOwned::ScmTimestampsns(stamps) => message.stamp = credible_time(stamps.system),
            ControlMessageOwned::Ipv4RecvErr(error, _) | ControlMessageOwned::Ipv6RecvErr(error, _) => {
                let place = match (error.ee_origin == libc::SO_EE_ORIGIN_TIMESTAMPING, error.ee_info) {
                    (true, SCM_TSTAMP_SND) => Some(StampPlace::Device),
                    (true, SCM_TSTAMP_SCHED) => Some(StampPlace::Queue),
                    _ => None,
                };
                message.key = place.map(|place| (error.ee_data, place));
            }
            _ => {}
        }
    }
    Ok(message)
}

/// None for a stamp of another clock.
pub(crate) fn credible_time(stamp: TimeSpec) -> Option<Time> {
    let at = Time::from_nanos(stamp.tv_sec().checked_mul(1_000_000_000)?.checked_add(stamp.tv_nsec())?);
    let age = clock::realtime() - at;
    (age > Span::from_secs(-1) && age < MAX_STAMP_AGE).then_some(at)
}

fn set_flags(socket: &impl AsFd, flags: u32) -> io::Result<()> {
    // Retained, since nix does not name them all.
    Ok(setsockopt(socket, Timestamping, &TimestampingFlag::from_bits_retain(flags))?)
}

/// Without `OPT_ID_TCP`, the kernel counts from the last acknowledged byte: the next one's number is however many are not
/// acknowledged, provided that no acknowledgement came in between.
fn count_from_acknowledged(socket: &impl AsFd) -> io::Result<u32> {
    for _ in 0..100 {
        let before = unacknowledged_bytes(socket)?;
        set_flags(socket, RECEIVE_FLAGS | TRANSMIT_FLAGS)?;
        if unacknowledged_bytes(socket)? == before {
            return Ok(before);
        }
        set_flags(socket, RECEIVE_FLAGS)?;
    }
    Err(io::Error::other("acknowledgements kept coming while the count of bytes was set"))
}

/// Bytes of a TCP socket that are sent, or wait to be, and are not acknowledged.
fn unacknowledged_bytes(socket: &impl AsFd) -> io::Result<u32> {
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
            set_flags(&stream, RECEIVE_FLAGS).unwrap();
            tcp::send(&stream, &[0; 10], true).unwrap();
            let next_byte = count_from_acknowledged(&stream).unwrap();
            tcp::send(&stream, &[0; 7], true).unwrap();
            assert_eq!(next_transmit_stamp(&stream).unwrap().unwrap().key, next_byte + 6);
        }
    }

    #[test]
    fn another_clocks_stamp_is_not_credible() {
        let stamp = |at: Time| TimeSpec::new(at.as_nanos() / 1_000_000_000, at.as_nanos() % 1_000_000_000);
        let now = clock::realtime();
        assert_eq!(credible_time(stamp(now)), Some(now));
        assert_eq!(credible_time(stamp(clock::monotonic())), None);
        assert_eq!(credible_time(stamp(now + Span::from_secs(10))), None);
        assert_eq!(credible_time(TimeSpec::new(0, 0)), None);
        assert_eq!(credible_time(TimeSpec::new(i64::MAX, 0)), None);
    }
}
