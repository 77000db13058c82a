use crate::index::index_of;
use crate::option::PacketQdiscBypass;
use crate::ring;
use crate::setup::SetupError;
use nix::libc;
use nix::sys::socket::sockopt::{SndBuf, SndBufForce};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, setsockopt, socket};
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd};

/// Frames that one system call sends.
pub const MAX_BATCH_FRAMES: usize = 64;
const SEND_BUFFER_BYTES: usize = 8 << 20;

/// Sends frames through an interface, past its queue discipline.
#[derive(Debug)]
pub struct Sender {
    socket: OwnedFd,
}

impl Sender {
    /// Opens the interface `name` of the calling thread's namespace.
    ///
    /// # Errors
    /// No such interface, or not allowed.
    pub fn open(name: &str) -> Result<Self, SetupError> {
        let index = index_of(name)?;
        let fail = |error: io::Error| SetupError::new(format!("open {name} for sending"), error);
        // Protocol 0: this socket receives nothing.
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(AddressFamily::Packet, SockType::Raw, flags, None).map_err(|error| fail(error.into()))?;
        prepare_socket(&socket).map_err(fail)?;
        ring::bind(&socket, index, 0).map_err(fail)?;
        Ok(Sender { socket })
    }

    /// Sends frames, each given as its link header and what follows, [`MAX_BATCH_FRAMES`] with each system call. A frame that the
    /// kernel refuses is reported to `refused` by its index, and the others are sent.
    pub fn send<'a>(&self, frames: impl IntoIterator<Item = [&'a [u8]; 2]>, mut refused: impl FnMut(usize, io::Error)) {
        let mut frames = frames.into_iter().peekable();
        let mut sent = 0;
        while frames.peek().is_some() {
            sent += self.send_batch(&mut frames, |index, error| refused(sent + index, error));
        }
    }

    /// Returns how many it has taken.
    fn send_batch<'a>(
        &self,
        frames: &mut impl Iterator<Item = [&'a [u8]; 2]>,
        mut refused: impl FnMut(usize, io::Error),
    ) -> usize {
        let part = |bytes: &[u8]| libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        let mut parts = [[part(&[]); 2]; MAX_BATCH_FRAMES];
        // SAFETY: mmsghdr is plain data, for which all zeroes (null pointers, zero lengths) is a valid value.
        let mut messages: [libc::mmsghdr; MAX_BATCH_FRAMES] = unsafe { mem::zeroed() };
        let mut count = 0;
        for ((parts, message), frame) in parts.iter_mut().zip(&mut messages).zip(frames) {
            *parts = frame.map(part);
            message.msg_hdr.msg_iov = parts.as_mut_ptr();
            message.msg_hdr.msg_iovlen = parts.len() as _;
            count += 1;
        }
        let mut done = 0;
        while done < count {
            match self.send_messages(&mut messages[done..count]) {
                Ok(sent) => done += sent,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    refused(done, error);
                    done += 1;
                }
            }
        }
        count
    }

    fn send_messages(&self, messages: &mut [libc::mmsghdr]) -> io::Result<usize> {
        let (socket, count) = (self.socket.as_raw_fd(), messages.len() as u32);
        // SAFETY: each of the `count` headers leads to two parts, and these to bytes, that live across the call; the
        // kernel reads the bytes and writes nothing but each header's `msg_len`.
        let sent = unsafe { libc::sendmmsg(socket, messages.as_mut_ptr(), count, libc::MSG_DONTWAIT as _) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent.unsigned_abs() as usize) }
    }
}

fn prepare_socket(socket: &OwnedFd) -> io::Result<()> {
    setsockopt(socket, PacketQdiscBypass, &1)?;
    // Beyond the system's limit it takes CAP_NET_ADMIN; less room without it is no error.
    if setsockopt(socket, SndBufForce, &SEND_BUFFER_BYTES).is_err() {
        setsockopt(socket, SndBuf, &SEND_BUFFER_BYTES)?;
    }
    Ok(())
}
