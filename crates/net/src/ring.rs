//! A packet(7) ring for receiving (TPACKET_V2, one frame per packet): the kernel stamps each packet as it passes, and
//! reading it costs no system call.

use crate::index::index_of;
use crate::option::{self, PacketReceiveRing, PacketStatistics, PacketVersion};
use crate::setup::SetupError;
use kumade_units::Time;
use nix::libc;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, setsockopt, socket};
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicU32, Ordering};

/// A socket bound to one interface, and its ring.
#[derive(Debug)]
pub(crate) struct Ring {
    socket: OwnedFd,
    frames: NonNull<u8>,
    frame_count: usize,
    next_frame: usize,
    dropped_packets: u64,
}

// SAFETY: the mapping belongs to this value alone; nothing in it is tied to a thread.
unsafe impl Send for Ring {}

/// What the kernel wrote of one packet.
pub(crate) struct Slot<'a> {
    /// CLOCK_REALTIME.
    pub(crate) stamp: Time,
    /// `TP_STATUS_` of linux/if_packet.h.
    pub(crate) status: u32,
    /// All memory of the slot.
    pub(crate) memory: &'a [u8],
    /// Where the link's header begins in it …
    pub(crate) link_offset: usize,
    /// … where the network's …
    pub(crate) network_offset: usize,
    /// … and where the packet ends, or is cut.
    pub(crate) end_offset: usize,
    /// The VLAN tag that was taken out: its number and what kind of tag.
    pub(crate) vlan_tag: [u16; 2],
}

pub(crate) const FRAME_BYTES: usize = 2048;
/// Packets of a fast interface for some milliseconds, in which its reader may not run.
pub(crate) const DEFAULT_FRAME_COUNT: usize = 4096;
const BLOCK_BYTES: usize = 1 << 16;
const BLOCK_FRAMES: usize = BLOCK_BYTES / FRAME_BYTES;

impl Ring {
    /// Opens a socket on the interface `name` of the calling thread's namespace, with room for this many packets, rounded up to
    /// whole blocks. `prepare` sets what must be set before there is a ring and any packet.
    pub(crate) fn open(
        name: &str,
        frame_count: usize,
        prepare: impl FnOnce(&OwnedFd) -> io::Result<()>,
    ) -> Result<Self, SetupError> {
        let frame_count = frame_count.max(1).next_multiple_of(BLOCK_FRAMES);
        let index = index_of(name)?;
        let fail = |error: io::Error| SetupError::new(format!("watch the packets of {name}"), error);
        // Protocol 0: nothing arrives before the ring and the filter are in place and the socket is bound.
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(AddressFamily::Packet, SockType::Raw, flags, None).map_err(|error| fail(error.into()))?;
        prepare(&socket).map_err(fail)?;
        let frames = map_ring(&socket, frame_count).map_err(fail)?;
        let ring = Ring { socket, frames, frame_count, next_frame: 0, dropped_packets: 0 };
        bind(&ring.socket, index, libc::ETH_P_ALL as u16).map_err(fail)?;
        Ok(ring)
    }

    /// Whether a packet waits. Reads one word of memory.
    pub(crate) fn is_ready(&self) -> bool {
        self.status(self.next_frame).load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }

    /// Gives the oldest packet to `read`, if one waits, and its place back to the kernel.
    pub(crate) fn next<R>(&mut self, read: impl FnOnce(Slot<'_>) -> R) -> Option<R> {
        let status = self.status(self.next_frame).load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the frame lies within the ring, and belongs to us until its status is given back; the kernel wrote
        // a tpacket2_hdr at its start before it set the status that was acquired above.
        let header = unsafe { self.frame(self.next_frame).cast::<libc::tpacket2_hdr>().read() };
        // SAFETY: as above; the kernel leaves the frame alone until then.
        let memory = unsafe { slice::from_raw_parts(self.frame(self.next_frame).as_ptr(), FRAME_BYTES) };
        let stamp = Time::from_nanos(i64::from(header.tp_sec) * 1_000_000_000 + i64::from(header.tp_nsec));
        let link = usize::from(header.tp_mac).min(FRAME_BYTES);
        let network = usize::from(header.tp_net).min(FRAME_BYTES);
        let end = (link + header.tp_snaplen as usize).clamp(link.max(network), FRAME_BYTES);
        let vlan = [header.tp_vlan_tci, header.tp_vlan_tpid];
        let result = read(Slot {
            stamp,
            status,
            memory,
            link_offset: link,
            network_offset: network,
            end_offset: end,
            vlan_tag: vlan,
        });
        self.status(self.next_frame).store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next_frame = (self.next_frame + 1) % self.frame_count;
        Some(result)
    }

    /// How many packets the kernel could not put into the full ring, since the start.
    pub(crate) fn dropped_packets(&mut self) -> u64 {
        // The kernel then forgets the counts.
        if let Ok(statistics) = option::read(&self.socket, PacketStatistics) {
            self.dropped_packets += u64::from(statistics.tp_drops);
        }
        self.dropped_packets
    }

    fn frame(&self, index: usize) -> NonNull<u8> {
        // SAFETY: callers pass an index below `frame_count`, so the offset stays in the mapping.
        unsafe { self.frames.add(index * FRAME_BYTES) }
    }

    fn status(&self, index: usize) -> &AtomicU32 {
        // SAFETY: each frame begins with its aligned status word, which both sides access atomically.
        unsafe { self.frame(index).cast::<AtomicU32>().as_ref() }
    }
}

impl AsFd for Ring {
    /// Readable whenever a packet waits.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map_ring` with this length, and no reference into it outlives `self`.
        unsafe { libc::munmap(self.frames.as_ptr().cast(), self.frame_count * FRAME_BYTES) };
    }
}

fn map_ring(socket: &OwnedFd, frame_count: usize) -> io::Result<NonNull<u8>> {
    setsockopt(socket, PacketVersion, &(libc::tpacket_versions::TPACKET_V2 as libc::c_int))?;
    let ring = libc::tpacket_req {
        tp_block_size: BLOCK_BYTES as u32,
        tp_block_nr: (frame_count / BLOCK_FRAMES) as u32,
        tp_frame_size: FRAME_BYTES as u32,
        tp_frame_nr: frame_count as u32,
    };
    setsockopt(socket, PacketReceiveRing, &ring)?;
    // SAFETY: a fresh shared mapping of the ring that the socket now has; its result is checked.
    let mapped = unsafe {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        libc::mmap(std::ptr::null_mut(), frame_count * FRAME_BYTES, access, libc::MAP_SHARED, socket.as_raw_fd(), 0)
    };
    if mapped == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(mapped.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

/// Binds a packet socket to an interface; with protocol 0 it receives nothing.
pub(crate) fn bind(socket: &OwnedFd, index: u32, protocol: u16) -> io::Result<()> {
    // SAFETY: all zeroes is a valid sockaddr_ll.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = index as i32;
    let length = mem::size_of_val(&address) as libc::socklen_t;
    // SAFETY: `address` is a sockaddr_ll of that length and lives across the call.
    let outcome = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
