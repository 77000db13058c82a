use crate::index::index_of;
use crate::option::{PacketQdiscBypass, PacketVnetHeader};
use crate::ring;
use crate::segment_coalescing::{Coalescer, Group, Joining};
use crate::setup::SetupError;
use kumade_packet::Ethernet;
use kumade_packet::offload::Offload;
use nix::libc;
use nix::sys::socket::sockopt::{SndBuf, SndBufForce};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, setsockopt, socket};
use std::io::{self, IoSlice};
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd};

/// Frames that one system call sends.
pub const MAX_BATCH_FRAMES: usize = 64;
const SEND_BUFFER_BYTES: usize = 8 << 20;

/// Sends frames through an interface, past its queue discipline.
#[derive(Debug)]
pub struct Sender {
    socket: OwnedFd,
    coalescer: Coalescer,
}

/// A frame to be sent.
#[derive(Debug, Clone, Copy)]
pub struct OutgoingFrame<'a> {
    /// What precedes the network header.
    pub link_header: &'a [u8],
    /// From the network header on.
    pub packet: &'a [u8],
    /// Whether it may leave in one large packet with the frames before it: their link headers are those of Ethernet alone, and the same.
    pub may_join: bool,
}

impl<'a> OutgoingFrame<'a> {
    /// One that leaves as it is.
    pub fn new(link_header: &'a [u8], packet: &'a [u8]) -> Self {
        OutgoingFrame { link_header, packet, may_join: false }
    }
}

impl AsRef<[u8]> for OutgoingFrame<'_> {
    fn as_ref(&self) -> &[u8] {
        self.packet
    }
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
        Ok(Sender { socket, coalescer: Coalescer::new(false, Ethernet::HEADER_BYTES as u16) })
    }

    /// Sends frames, [`MAX_BATCH_FRAMES`] with each system call. Segments of one TCP connection that follow each other, and
    /// [may join](OutgoingFrame::may_join), leave as one packet, which the interface divides if its line has to have single ones. A
    /// frame that the kernel refuses is reported to `refused` by its index, and the others are sent.
    pub fn send(&mut self, frames: &[OutgoingFrame<'_>], mut refused: impl FnMut(usize, io::Error)) {
        for (number, batch) in frames.chunks(MAX_BATCH_FRAMES).enumerate() {
            self.send_batch(batch, |index, error| refused(number * MAX_BATCH_FRAMES + index, error));
        }
    }

    fn send_batch(&mut self, frames: &[OutgoingFrame<'_>], mut refused: impl FnMut(usize, io::Error)) {
        let Sender { socket, coalescer } = self;
        coalescer
            .group_packets(frames, |index| Joining { may_join: frames[index].may_join, has_partial_checksum: false });
        // For each group its own headers, the link header, those of its packet, and what of its frames is not headers.
        let mut parts = Vec::with_capacity(4 * frames.len());
        let mut ends = Vec::with_capacity(frames.len());
        for group in coalescer.groups() {
            let (offload, headers) = group.headers().split_at(Offload::HEADER_BYTES);
            parts.extend([offload, frames[group.first()].link_header, headers].map(IoSlice::new));
            let payload = |index: usize| IoSlice::new(&frames[index].packet[group.skipped_bytes()..]);
            parts.extend(coalescer.members(group).map(payload));
            ends.push(parts.len());
        }
        let mut messages = Vec::with_capacity(ends.len());
        let (mut rest, mut begin) = (&mut parts[..], 0);
        for end in ends {
            let (own, others) = rest.split_at_mut(end - begin);
            messages.push(message(own));
            (rest, begin) = (others, end);
        }
        let mut done = 0;
        while done < messages.len() {
            match send_messages(socket, &mut messages[done..]) {
                Ok(sent) => done += sent,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let Some(group) = coalescer.groups().nth(done) else { return };
                    if group.is_single() {
                        refused(group.first(), error);
                    } else {
                        // The parts are what would have come without this.
                        let alone = |index| send_single(socket, &frames[index]).map_err(|error| (index, error));
                        coalescer
                            .members(group)
                            .filter_map(|index| alone(index).err())
                            .for_each(|(index, error)| refused(index, error));
                    }
                    done += 1;
                }
            }
        }
    }
}

fn send_single(socket: &OwnedFd, frame: &OutgoingFrame<'_>) -> io::Result<()> {
    let mut parts = [Group::NO_OFFLOAD, frame.link_header, frame.packet].map(IoSlice::new);
    send_messages(socket, &mut [message(&mut parts)]).map(drop)
}

/// What leads the kernel to these parts.
fn message(parts: &mut [IoSlice<'_>]) -> libc::mmsghdr {
    // SAFETY: mmsghdr is plain data, for which all zeroes (null pointers, zero lengths) is a valid value.
    let mut message: libc::mmsghdr = unsafe { mem::zeroed() };
    // IoSlice is laid out as struct iovec.
    message.msg_hdr.msg_iov = parts.as_mut_ptr().cast();
    message.msg_hdr.msg_iovlen = parts.len() as _;
    message
}

fn send_messages(socket: &OwnedFd, messages: &mut [libc::mmsghdr]) -> io::Result<usize> {
    let (socket, count) = (socket.as_raw_fd(), messages.len() as u32);
    // SAFETY: each of the `count` headers leads to parts, and these to bytes, that live across the call; the kernel reads
    // the bytes and writes nothing but each header's `msg_len`.
    let sent = unsafe { libc::sendmmsg(socket, messages.as_mut_ptr(), count, libc::MSG_DONTWAIT as _) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent.unsigned_abs() as usize) }
}

fn prepare_socket(socket: &OwnedFd) -> io::Result<()> {
    setsockopt(socket, PacketQdiscBypass, &1)?;
    setsockopt(socket, PacketVnetHeader, &1)?;
    // Beyond the system's limit it takes CAP_NET_ADMIN; less room without it is no error.
    if setsockopt(socket, SndBufForce, &SEND_BUFFER_BYTES).is_err() {
        setsockopt(socket, SndBuf, &SEND_BUFFER_BYTES)?;
    }
    Ok(())
}
