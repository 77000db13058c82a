use crate::control_messages::ControlMessages;
use kumade_packet::DsField;
use nix::errno::Errno;
use nix::libc;
use socket2::SockAddr;
use std::mem;
use std::os::fd::{AsFd, AsRawFd};

/// Messages that one system call sends.
const MAX_MESSAGES: usize = 8;
/// As many datagrams as any kernel segments one message into (`UDP_MAX_SEGMENTS`).
const MAX_SEGMENTS: usize = 64;
/// Of a message; the headers take the rest of 64 kB.
const MAX_MESSAGE_BYTES: usize = u16::MAX as usize - 28;

/// A message that the kernel refused.
pub(super) struct SendFailure {
    /// errno(3).
    pub(super) errno: i32,
    /// How many datagrams it was of.
    pub(super) datagram_count: usize,
}

/// Sends as many datagrams as one system call takes; of the first of them, this many as messages of their own. Returns how
/// many were sent, at least one.
pub(super) fn send_messages<D: AsRef<[u8]>>(
    socket: &impl AsFd,
    to: &SockAddr,
    field: DsField,
    datagrams: &[D],
    singly: usize,
) -> Result<usize, SendFailure> {
    let part = |bytes: &[u8]| libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut parts = [part(&[]); MAX_MESSAGES * MAX_SEGMENTS];
    let mut controls = [ControlMessages::EMPTY; MAX_MESSAGES];
    // SAFETY: mmsghdr is plain data, for which all zeroes (null pointers, zero lengths) is a valid value.
    let mut messages: [libc::mmsghdr; MAX_MESSAGES] = unsafe { mem::zeroed() };
    // By message: how many datagrams it and those before it are of.
    let mut ends = [0; MAX_MESSAGES];
    let (mut count, mut done) = (0, 0);
    while count < MAX_MESSAGES && done < datagrams.len() {
        let run = if done < singly { 1 } else { equal_length_run(&datagrams[done..]) };
        let parts = &mut parts[done..done + run];
        for (place, datagram) in parts.iter_mut().zip(&datagrams[done..]) {
            *place = part(datagram.as_ref());
        }
        let segment_bytes = (run > 1).then_some(parts[0].iov_len as u16);
        let control = controls[count].write(to.is_ipv4(), field, segment_bytes);
        let header = &mut messages[count].msg_hdr;
        (header.msg_name, header.msg_namelen) = (to.as_ptr().cast_mut().cast(), to.len());
        (header.msg_iov, header.msg_iovlen) = (parts.as_mut_ptr(), run as _);
        (header.msg_control, header.msg_controllen) = (controls[count].0.as_mut_ptr().cast(), control as _);
        done += run;
        ends[count] = done;
        count += 1;
    }
    let socket = socket.as_fd().as_raw_fd();
    // SAFETY: each of the `count` headers leads to an address, to control data, and to parts which lead to bytes, all of
    // the lengths given with them, that live across the call; the kernel writes nothing but each header's `msg_len`.
    let sent = unsafe { libc::sendmmsg(socket, messages.as_mut_ptr(), count as u32, libc::MSG_DONTWAIT as _) };
    match usize::try_from(sent) {
        Ok(sent) if sent > 0 => Ok(ends[sent - 1]),
        _ => Err(SendFailure { errno: Errno::last_raw(), datagram_count: ends[0] }),
    }
}

/// How many of these the kernel makes of one message: of equal length, or the last one shorter. At least one.
fn equal_length_run<D: AsRef<[u8]>>(datagrams: &[D]) -> usize {
    let mut lengths = datagrams.iter().map(|datagram| datagram.as_ref().len()).take(MAX_SEGMENTS);
    let Some(segment_bytes @ 1..) = lengths.next() else { return 1 };
    let (mut run, mut bytes) = (1, segment_bytes);
    for len in lengths {
        bytes += len;
        if len > segment_bytes || len == 0 || bytes > MAX_MESSAGE_BYTES {
            break;
        }
        run += 1;
        if len < segment_bytes {
            break;
        }
    }
    run
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_of_equal_lengths_but_the_last() {
        let run = |lengths: &[usize]| equal_length_run(&lengths.iter().map(|&len| vec![0; len]).collect::<Vec<_>>());
        for (lengths, expected) in [
            (&[5][..], 1),
            (&[5, 5, 5], 3),
            (&[5, 5, 4, 5], 3),
            (&[5, 5, 6], 2),
            (&[4, 5], 1),
            (&[5, 0], 1),
            (&[0, 0], 1),
            (&[1; 70], 64),
            (&[1472; 70], 44),
            (&[65_507, 1], 1),
        ] {
            assert_eq!(run(lengths), expected, "{lengths:?}");
        }
    }
}
