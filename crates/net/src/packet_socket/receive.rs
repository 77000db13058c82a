use super::{InterfaceFault, bound_address, join_promiscuous, take_fault};
use crate::index::index_of;
use crate::option::{PacketCopyThreshold, PacketIgnoreOutgoing, PacketVnetHeader};
use crate::ring::{DEFAULT_FRAME_COUNT, FRAME_BYTES, Ring, Slot};
use crate::setup::SetupError;
use kumade_packet::offload::Offload;
use kumade_units::Time;
use nix::libc;
use nix::sys::socket::sockopt::{RcvBuf, RcvBufForce};
use nix::sys::socket::{MsgFlags, recv, setsockopt};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// All that arrives at an interface, for whomever it is, and nothing that leaves it.
#[derive(Debug)]
pub struct Receiver {
    ring: Ring,
    /// For frames too long for the ring.
    long_frame: Vec<u8>,
    /// Frames that were truncated: they did not fit the ring, nor what waits beside it.
    truncated_frames: u64,
}

/// A frame as it arrived.
#[derive(Debug, Clone, Copy)]
pub struct ReceivedFrame<'a> {
    /// When it passed the interface: CLOCK_REALTIME.
    pub stamp: Time,
    /// From the Ethernet header on, without the outermost VLAN tag.
    pub frame: &'a [u8],
    /// That tag, if there was one, as it stood behind the addresses.
    pub vlan_tag: Option<[u8; 4]>,
    /// The work that its sender left to the network card. Offsets are from the start of `frame`.
    pub offload: Offload,
}

/// Of frames too long for the ring, so much may wait.
const MAX_WAITING_LONG_FRAMES_BYTES: usize = 8 << 20;
/// The longest frame: 64 kB of IP, its headers and tags, and what stands before them here.
const MAX_FRAME_BYTES: usize = (1 << 16) + 256;

impl Receiver {
    /// For how many frames of usual length there is room, where nothing else is asked for.
    pub const DEFAULT_FRAMES: usize = DEFAULT_FRAME_COUNT;

    /// Opens the Ethernet interface `name` of the calling thread's namespace; it is promiscuous from now on, until
    /// this is dropped.
    ///
    /// # Errors
    /// No such interface, none of Ethernet, or not allowed.
    pub fn open(name: &str) -> Result<Self, SetupError> {
        Self::with_room_for(name, Self::DEFAULT_FRAMES)
    }

    /// As [`open`](Self::open), with room for this many frames of usual length, which take 2 kB each.
    ///
    /// # Errors
    /// As there.
    pub fn with_room_for(name: &str, frames: usize) -> Result<Self, SetupError> {
        let index = index_of(name)?;
        let ring = Ring::open(name, frames, |socket| prepare_socket(socket, index)).map_err(|error| {
            match error.io_error().kind() {
                io::ErrorKind::PermissionDenied => {
                    error.with_hint("it takes CAP_NET_RAW in this namespace: run it as root")
                }
                _ => error,
            }
        })?;
        let address =
            bound_address(&ring).map_err(|error| SetupError::new(format!("look at the socket on {name}"), error))?;
        if address.sll_hatype != libc::ARPHRD_ETHER {
            let refusal = io::Error::new(io::ErrorKind::Unsupported, "it is not an Ethernet interface");
            return Err(SetupError::new(format!("take frames from {name}"), refusal)
                .with_hint("give an Ethernet, veth or bridge-free VLAN interface, or use TUN devices"));
        }
        Ok(Receiver { ring, long_frame: vec![0; MAX_FRAME_BYTES], truncated_frames: 0 })
    }

    /// Whether a frame waits. Reads one word of memory.
    pub fn is_ready(&self) -> bool {
        self.ring.is_ready()
    }

    /// Takes the oldest frame, if one waits, and gives it to `read`; false where none waits. One that was truncated
    /// for want of room is taken but not given, and counts as [`dropped_frames`](Self::dropped_frames).
    pub fn next(&mut self, read: impl FnOnce(ReceivedFrame<'_>)) -> bool {
        let Receiver { ring, long_frame: long, truncated_frames: truncated } = self;
        let socket = ring.as_fd().as_raw_fd();
        let outcome = ring.next(|slot| match complete_frame(&slot, socket, long) {
            Some((frame, offload)) => {
                read(ReceivedFrame { stamp: slot.stamp, frame, vlan_tag: vlan_tag(&slot), offload });
            }
            None => *truncated += 1,
        });
        outcome.is_some()
    }

    /// How many frames there was no room for, since the start.
    pub fn dropped_frames(&mut self) -> u64 {
        self.ring.dropped_packets() + self.truncated_frames
    }

    /// A fault of the interface, if there is one. To be asked when a wait has ended and no frame is ready.
    pub fn fault(&self) -> Option<InterfaceFault> {
        take_fault(&self.ring)
    }
}

impl AsFd for Receiver {
    /// Readable whenever a frame waits, or the interface has a fault.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }
}

fn prepare_socket(socket: &OwnedFd, index: u32) -> io::Result<()> {
    setsockopt(socket, PacketVnetHeader, &1)?;
    setsockopt(socket, PacketIgnoreOutgoing, &1)?;
    setsockopt(socket, PacketCopyThreshold, &1)?;
    // Beyond the system's limit it takes CAP_NET_ADMIN; less room without it is no error.
    if setsockopt(socket, RcvBufForce, &MAX_WAITING_LONG_FRAMES_BYTES).is_err() {
        setsockopt(socket, RcvBuf, &MAX_WAITING_LONG_FRAMES_BYTES)?;
    }
    join_promiscuous(socket, index)
}

/// All of a frame and what is left to do for it; `None` where it was truncated.
fn complete_frame<'a>(slot: &Slot<'a>, socket: RawFd, long: &'a mut [u8]) -> Option<(&'a [u8], Offload)> {
    let (header, frame) = if slot.status & libc::TP_STATUS_COPY != 0 {
        let length = recv(socket, long, MsgFlags::MSG_DONTWAIT).ok()?;
        long[..length].split_at_checked(Offload::HEADER_BYTES)?
    } else if slot.end_offset < FRAME_BYTES {
        let header = slot.link_offset.checked_sub(Offload::HEADER_BYTES)?;
        slot.memory[header..slot.end_offset].split_at(Offload::HEADER_BYTES)
    } else {
        // What fills its slot to the end was truncated.
        return None;
    };
    Some((frame, Offload::read(header.try_into().ok()?)))
}

fn vlan_tag(slot: &Slot<'_>) -> Option<[u8; 4]> {
    if slot.status & libc::TP_STATUS_VLAN_VALID == 0 {
        return None;
    }
    let [number, kind] = slot.vlan_tag;
    let kind = if slot.status & libc::TP_STATUS_VLAN_TPID_VALID == 0 { kumade_packet::ethertype::VLAN } else { kind };
    let ([k0, k1], [n0, n1]) = (kind.to_be_bytes(), number.to_be_bytes());
    Some([k0, k1, n0, n1])
}
