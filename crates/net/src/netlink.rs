//! Requests to the kernel by netlink(7): sent as they are encoded, and answered in the same call.

use crate::option::NetlinkStrictCheck;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, sendto, setsockopt, socket,
    sockopt,
};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// A socket of one netlink protocol, in the namespace of the thread that opened it.
#[derive(Debug)]
pub(crate) struct NetlinkSocket {
    socket: OwnedFd,
}

/// Of each message: length, type, flags, sequence number, port.
pub(crate) const HEADER_BYTES: usize = 16;
/// No answer is longer: the kernel fills at most this much of a buffer with a dump.
const MAX_ANSWER_BYTES: usize = 64 << 10;

/// More than the buffers hold that notifications have.
const MAX_NOTIFICATIONS: usize = 64;

/// So often a list is asked for that changes meanwhile.
const MAX_LIST_TRIES: usize = 5;

/// A message of the kernel.
struct Message<'a> {
    kind: u16,
    flags: u16,
    sequence: u32,
    /// Behind the header.
    body: &'a [u8],
}

impl AsFd for NetlinkSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl NetlinkSocket {
    pub(crate) fn open(protocol: SockProtocol) -> io::Result<Self> {
        let socket = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol)?;
        Ok(NetlinkSocket { socket })
    }

    /// NETLINK_XFRM, which the other library does not name.
    pub(crate) fn open_ipsec() -> io::Result<Self> {
        let protocol = socket2::Protocol::from(libc::NETLINK_XFRM);
        let socket = socket2::Socket::new(socket2::Domain::from(libc::AF_NETLINK), socket2::Type::RAW, Some(protocol))?;
        Ok(NetlinkSocket { socket: socket.into() })
    }

    /// Notifications are kept up to so many bytes until they are read.
    pub(crate) fn set_receive_buffer(&self, bytes: usize) -> io::Result<()> {
        Ok(setsockopt(&self.socket, sockopt::RcvBuf, &bytes)?)
    }

    /// From now on, notifications of these groups come, a bit each.
    pub(crate) fn join_groups(&self, groups: u32) -> io::Result<()> {
        Ok(bind(self.socket.as_raw_fd(), &NetlinkAddr::new(0, groups))?)
    }

    /// Takes the notifications that have come, without looking at what they say. Whether any have, or the kernel had no room for some.
    pub(crate) fn take_notifications(&self) -> bool {
        let mut has_come = false;
        // What comes meanwhile is told next time.
        for _ in 0..MAX_NOTIFICATIONS {
            // What does not fit is discarded.
            match recv(self.socket.as_raw_fd(), &mut [0; HEADER_BYTES], MsgFlags::MSG_DONTWAIT) {
                // Some were lost; others follow.
                Ok(_) | Err(Errno::ENOBUFS) => has_come = true,
                Err(_) => break,
            }
        }
        has_come
    }

    /// From now on, lists have only what a request describes (Linux 4.20), where they had everything.
    pub(crate) fn enable_strict_check(&self) -> io::Result<()> {
        Ok(setsockopt(&self.socket, NetlinkStrictCheck, &true)?)
    }

    /// Sends one request and waits for its acknowledgement.
    pub(crate) fn request(&self, kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
        self.query(kind, flags | libc::NLM_F_ACK as u16, body).map(drop)
    }

    /// Sends one request; the first message that answers it, with its header.
    pub(crate) fn query(&self, kind: u16, flags: u16, body: &[u8]) -> io::Result<Vec<u8>> {
        self.send(&encode_message(kind, flags | libc::NLM_F_REQUEST as u16, body))?;
        let answer = self.receive()?;
        let first = decode_messages(&answer).next().ok_or(io::ErrorKind::InvalidData)?;
        first.check_error()?;
        Ok(answer)
    }

    /// Sends messages that the kernel carries out together or not at all, and waits until the one of this sequence number,
    /// the last, is acknowledged.
    pub(crate) fn transact(&self, batch: &[u8], last: u32) -> io::Result<()> {
        self.send(batch)?;
        loop {
            for message in decode_messages(&self.receive()?) {
                message.check_error()?;
                if message.sequence == last {
                    return Ok(());
                }
            }
        }
    }

    /// Sends one request for a list; `read` gets the body of each entry. What changes meanwhile may be there or not.
    pub(crate) fn dump(&self, kind: u16, body: &[u8], read: impl FnMut(&[u8])) -> io::Result<()> {
        self.try_dump(kind, body, read).map(drop)
    }

    /// A list as it was at one time, of what `decode` makes of its entries.
    pub(crate) fn list<T>(&self, kind: u16, body: &[u8], decode: impl Fn(&[u8]) -> Option<T>) -> io::Result<Vec<T>> {
        for _ in 0..MAX_LIST_TRIES {
            let mut entries = Vec::new();
            if self.try_dump(kind, body, |body| entries.extend(decode(body)))? {
                return Ok(entries);
            }
        }
        Err(io::ErrorKind::Interrupted.into())
    }

    /// Whether nothing has changed meanwhile.
    fn try_dump(&self, kind: u16, body: &[u8], mut read: impl FnMut(&[u8])) -> io::Result<bool> {
        self.send(&encode_message(kind, (libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16, body))?;
        let mut is_consistent = true;
        loop {
            for message in decode_messages(&self.receive()?) {
                message.check_error()?;
                is_consistent &= message.flags & libc::NLM_F_DUMP_INTR as u16 == 0;
                match i32::from(message.kind) {
                    libc::NLMSG_DONE => return Ok(is_consistent),
                    libc::NLMSG_ERROR => {}
                    _ => read(message.body),
                }
            }
        }
    }

    fn send(&self, messages: &[u8]) -> io::Result<()> {
        // Where an earlier transaction failed, the kernel has told of every fault, and only the first was read.
        while self.receive().is_ok() {}
        let sent = sendto(self.socket.as_raw_fd(), messages, &NetlinkAddr::new(0, 0), MsgFlags::empty())?;
        if sent == messages.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }

    /// The kernel answers before `send` returns: nothing there means that nothing comes.
    fn receive(&self) -> io::Result<Vec<u8>> {
        let mut answer = vec![0; MAX_ANSWER_BYTES];
        let length = recv(self.socket.as_raw_fd(), &mut answer, MsgFlags::MSG_DONTWAIT)?;
        answer.truncate(length);
        Ok(answer)
    }
}

impl Message<'_> {
    /// The kernel's refusal, if this is one: struct nlmsgerr begins with zero or a negative error number.
    fn check_error(&self) -> io::Result<()> {
        let is_status = i32::from(self.kind) == libc::NLMSG_ERROR || i32::from(self.kind) == libc::NLMSG_DONE;
        match self.body.first_chunk() {
            Some(&status) if is_status => match i32::from_ne_bytes(status) {
                0.. => Ok(()),
                error => Err(io::Error::from_raw_os_error(error.saturating_neg())),
            },
            _ => Ok(()),
        }
    }
}

fn encode_message(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
    let mut message = Vec::with_capacity(HEADER_BYTES + body.len());
    message.extend(((HEADER_BYTES + body.len()) as u32).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    message
}

/// The messages in one answer; what is cut short is left out.
fn decode_messages(mut answer: &[u8]) -> impl Iterator<Item = Message<'_>> {
    std::iter::from_fn(move || {
        let word = |at: usize| Some(u32::from_ne_bytes(*answer.get(at..)?.first_chunk()?));
        let (length, sequence) = (word(0)? as usize, word(8)?);
        let half_word = |at: usize| Some(u16::from_ne_bytes(*answer.get(at..)?.first_chunk()?));
        let (kind, flags) = (half_word(4)?, half_word(6)?);
        let body = answer.get(HEADER_BYTES..length)?;
        answer = answer.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(Message { kind, flags, sequence, body })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_split_into_messages_and_what_is_cut_short_left_out() {
        let mut answer = encode_message(libc::NLMSG_ERROR as u16, 0, &(-libc::EEXIST).to_ne_bytes());
        answer.extend(encode_message(20, 0, &[1, 2, 3, 4]));
        answer.extend(encode_message(20, 0, &[5; 8]));
        answer.truncate(answer.len() - 1);
        let found: Vec<_> = decode_messages(&answer).map(|m| (m.kind, m.body.len(), m.check_error().err())).collect();
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].2.as_ref().and_then(io::Error::raw_os_error), Some(libc::EEXIST));
        assert_eq!((found[1].0, found[1].1), (20, 4));
        assert_eq!(decode_messages(&[0; 40]).count(), 0);
    }
}
