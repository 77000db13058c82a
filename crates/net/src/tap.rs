//! Every packet that leaves (or enters) through an interface, with the kernel's own time stamp.
//!
//! A reader that polls a device learns of a packet when it is scheduled, up to 140 µs late. This is a packet(7) ring
//! (TPACKET_V2, one frame per packet): the kernel stamps the packet as the sender's thread hands it to the device,
//! and reading it later costs no system call and no exactness.

use crate::interface;
use crate::setup::SetupError;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicU32, Ordering};
use units::Time;

/// The outgoing, or the incoming, packets of one interface.
#[derive(Debug)]
pub struct Tap {
    socket: OwnedFd,
    ring: NonNull<u8>,
    next: usize,
    missed: u64,
}

// SAFETY: the ring belongs to this value alone; nothing in it is tied to a thread.
unsafe impl Send for Tap {}

const FRAME_BYTES: usize = 2048;
const FRAMES: usize = 4096;
const BLOCK_BYTES: usize = 1 << 16;
const RING_BYTES: usize = FRAME_BYTES * FRAMES;

impl Tap {
    /// Longer packets are cut to this.
    pub const MAX_PACKET: usize = FRAME_BYTES - 128;

    /// Begins to watch what leaves through the interface `name` of the calling thread's namespace. Packets and stamps
    /// are the kernel's: CLOCK_REALTIME, taken within the sender's system call.
    ///
    /// # Errors
    /// No such interface, not allowed, or no memory for the ring.
    pub fn outgoing(name: &str) -> Result<Self, SetupError> {
        Self::open(name, libc::PACKET_OUTGOING)
    }

    /// The same for what comes in through the interface for this host.
    ///
    /// # Errors
    /// As for [`outgoing`](Self::outgoing).
    pub fn incoming(name: &str) -> Result<Self, SetupError> {
        Self::open(name, libc::PACKET_HOST)
    }

    /// Whether a packet waits. Reads one word of memory.
    pub fn is_ready(&self) -> bool {
        self.status(self.next).load(Ordering::Acquire) & TP_STATUS_USER != 0
    }

    /// Gives the oldest packet, from its IP header on, and its stamp to `read`, if one waits.
    pub fn next<R>(&mut self, read: impl FnOnce(Time, &[u8]) -> R) -> Option<R> {
        if !self.is_ready() {
            return None;
        }
        // SAFETY: the frame lies within the ring, and belongs to us until its status is given back; the kernel wrote
        // a tpacket2_hdr at its start before it set the status that `is_ready` acquired.
        let header = unsafe { self.frame(self.next).cast::<PacketHeader>().read() };
        let stamp = Time::from_nanos(i64::from(header.seconds) * 1_000_000_000 + i64::from(header.nanoseconds));
        let start = usize::from(header.network_offset).min(FRAME_BYTES);
        let end = (usize::from(header.link_offset) + header.captured as usize).clamp(start, FRAME_BYTES);
        // SAFETY: the range lies within the frame, and see above.
        let packet = unsafe { slice::from_raw_parts(self.frame(self.next).add(start).as_ptr(), end - start) };
        let result = read(stamp, packet);
        self.status(self.next).store(TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % FRAMES;
        Some(result)
    }

    /// How many packets the kernel could not put into the full ring, since the start.
    pub fn missed(&mut self) -> u64 {
        let mut statistics = Statistics { packets: 0, drops: 0 };
        let mut length = mem::size_of::<Statistics>() as libc::socklen_t;
        let socket = self.socket.as_raw_fd();
        // SAFETY: the kernel writes at most `length` bytes, a tpacket_stats, and then forgets the counts.
        let outcome = unsafe {
            libc::getsockopt(socket, libc::SOL_PACKET, PACKET_STATISTICS, (&raw mut statistics).cast(), &raw mut length)
        };
        if outcome == 0 {
            self.missed += u64::from(statistics.drops);
        }
        self.missed
    }

    fn open(name: &str, kind: u8) -> Result<Self, SetupError> {
        let index = interface::index_of(name)?;
        let fail = |error: io::Error| SetupError::new(format!("watch the packets of {name}"), error);
        // Protocol 0: nothing arrives before the ring and the filter are in place and the socket is bound.
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(AddressFamily::Packet, SockType::Raw, flags, None).map_err(|error| fail(error.into()))?;
        let ring = prepare(&socket, kind).map_err(fail)?;
        let tap = Tap { socket, ring, next: 0, missed: 0 };
        bind(&tap.socket, index).map_err(fail)?;
        Ok(tap)
    }

    fn frame(&self, index: usize) -> NonNull<u8> {
        // SAFETY: callers pass an index below FRAMES, so the offset stays in the mapping.
        unsafe { self.ring.add(index * FRAME_BYTES) }
    }

    fn status(&self, index: usize) -> &AtomicU32 {
        // SAFETY: each frame begins with its aligned status word, which both sides access atomically.
        unsafe { self.frame(index).cast::<AtomicU32>().as_ref() }
    }
}

impl AsFd for Tap {
    /// Readable whenever a packet waits.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `prepare` with this length, and no reference into it outlives `self`.
        unsafe { libc::munmap(self.ring.as_ptr().cast(), RING_BYTES) };
    }
}

// linux/if_packet.h
const PACKET_RX_RING: libc::c_int = 5;
const PACKET_STATISTICS: libc::c_int = 6;
const PACKET_VERSION: libc::c_int = 10;
const TPACKET_V2: libc::c_int = 1;
const TP_STATUS_KERNEL: u32 = 0;
const TP_STATUS_USER: u32 = 1;

/// struct tpacket2_hdr.
#[repr(C)]
struct PacketHeader {
    status: u32,
    length: u32,
    captured: u32,
    link_offset: u16,
    network_offset: u16,
    seconds: u32,
    nanoseconds: u32,
    vlan: [u16; 2],
    padding: [u8; 4],
}

/// struct tpacket_req.
#[repr(C)]
struct RingRequest {
    block_size: u32,
    blocks: u32,
    frame_size: u32,
    frames: u32,
}

/// struct tpacket_stats.
#[repr(C)]
struct Statistics {
    packets: u32,
    drops: u32,
}

fn prepare(socket: &OwnedFd, kind: u8) -> io::Result<NonNull<u8>> {
    set(socket, libc::SOL_PACKET, PACKET_VERSION, &TPACKET_V2)?;
    only(socket, kind)?;
    let blocks = (RING_BYTES / BLOCK_BYTES) as u32;
    let ring =
        RingRequest { block_size: BLOCK_BYTES as u32, blocks, frame_size: FRAME_BYTES as u32, frames: FRAMES as u32 };
    set(socket, libc::SOL_PACKET, PACKET_RX_RING, &ring)?;
    // SAFETY: a fresh shared mapping of the ring that the socket now has; its result is checked.
    let mapped = unsafe {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        libc::mmap(std::ptr::null_mut(), RING_BYTES, access, libc::MAP_SHARED, socket.as_raw_fd(), 0)
    };
    if mapped == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(mapped.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

/// A classic BPF filter: load the packet's type; keep all of it if it is this `kind`, else nothing.
fn only(socket: &OwnedFd, kind: u8) -> io::Result<()> {
    const LOAD_WORD: u16 = 0x20;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut program = [
        step(LOAD_WORD, 0, 0, (libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE) as u32),
        step(JUMP_IF_EQUAL, 0, 1, u32::from(kind)),
        step(RETURN, 0, 0, u32::MAX),
        step(RETURN, 0, 0, 0),
    ];
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    set(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

fn bind(socket: &OwnedFd, index: u32) -> io::Result<()> {
    // SAFETY: all zeroes is a valid sockaddr_ll.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = index as i32;
    let length = mem::size_of_val(&address) as libc::socklen_t;
    // SAFETY: `address` is a sockaddr_ll of that length and lives across the call.
    let outcome = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn set<T>(socket: &OwnedFd, level: i32, option: i32, value: &T) -> io::Result<()> {
    let length = mem::size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` is a live T of that length, which the kernel only reads.
    let outcome =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, std::ptr::from_ref(value).cast(), length) };
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
