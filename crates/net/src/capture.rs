//! Every packet that leaves (or enters) through an interface, with the kernel's own time stamp.
//!
//! A reader that polls a device learns of a packet when it is scheduled, up to 140 µs late. Here the kernel stamps the
//! packet as the sender's thread hands it to the device, and reading it later costs neither a system call nor accuracy.

use crate::ring::{DEFAULT_FRAME_COUNT, Ring};
use crate::setup::SetupError;
use kumade_units::Time;
use nix::libc;
use socket2::{SockFilter, SockRef};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The outgoing, or the incoming, packets of one interface.
#[derive(Debug)]
pub struct Capture(Ring);

impl Capture {
    /// Captures the packets that leave through the interface `name` of the calling thread's namespace. The stamps are the
    /// kernel's: CLOCK_REALTIME, taken within the sender's system call.
    ///
    /// # Errors
    /// No such interface, not allowed, or no memory for the ring.
    pub fn outgoing(name: &str) -> Result<Self, SetupError> {
        Ring::open(name, DEFAULT_FRAME_COUNT, |socket| filter_packet_type(socket, libc::PACKET_OUTGOING)).map(Capture)
    }

    /// The same for packets that arrive at the interface for this host.
    ///
    /// # Errors
    /// As for [`outgoing`](Self::outgoing).
    pub fn incoming(name: &str) -> Result<Self, SetupError> {
        Ring::open(name, DEFAULT_FRAME_COUNT, |socket| filter_packet_type(socket, libc::PACKET_HOST)).map(Capture)
    }

    /// Whether a packet waits. Reads one word of memory.
    pub fn is_ready(&self) -> bool {
        self.0.is_ready()
    }

    /// Gives the oldest packet, from its IP header on, and its stamp to `read`, if one waits.
    pub fn next<R>(&mut self, read: impl FnOnce(Time, &[u8]) -> R) -> Option<R> {
        self.0.next(|slot| read(slot.stamp, &slot.memory[slot.network_offset..slot.end_offset]))
    }

    /// How many packets the kernel could not put into the full ring, since the start.
    pub fn dropped_packets(&mut self) -> u64 {
        self.0.dropped_packets()
    }
}

impl AsFd for Capture {
    /// Readable whenever a packet waits.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A classic BPF filter: load the packet's type; keep all of it if it is this `kind`, else nothing.
fn filter_packet_type(socket: &OwnedFd, kind: u8) -> io::Result<()> {
    const LOAD_WORD: u16 = 0x20;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    let packet_type = (libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE) as u32;
    SockRef::from(socket).attach_filter(&[
        SockFilter::new(LOAD_WORD, 0, 0, packet_type),
        SockFilter::new(JUMP_IF_EQUAL, 0, 1, u32::from(kind)),
        SockFilter::new(RETURN, 0, 0, u32::MAX),
        SockFilter::new(RETURN, 0, 0, 0),
    ])
}
