use crate::error::EmulatorError;
use crate::frame::{Frame, LinkHeader, Received};
use net::capture::Capture;
use net::clock;
use net::tun::Tun;
use packet::Classification;
use runtime::BufferPool;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use units::{Span, Time};

/// A TUN device.
pub(super) struct TunPort {
    name: String,
    tun: Tun,
    buffer: Vec<u8>,
    stamps: Stamps,
}

/// When packets were handed to the device. Reading them tells only when this thread was scheduled, and so much later.
struct Stamps {
    capture: Capture,
    /// Packets that are not read yet, oldest first.
    seen: VecDeque<(Time, Beginning)>,
    /// Whether the packet that was read last was among them.
    complete: bool,
}

/// Tells packets apart: their first bytes, with zeroes behind shorter ones.
type Beginning = [u8; 64];

/// The longest packet that IP has.
const MAX_PACKET_BYTES: usize = 1 << 16;
const MTU: u16 = 1500;

impl TunPort {
    pub(super) fn open(name: &str) -> Result<Self, EmulatorError> {
        let tun = Tun::new(name, MTU, None, None)?;
        let stamps = Stamps { capture: Capture::outgoing(name)?, seen: VecDeque::new(), complete: false };
        Ok(TunPort { name: name.into(), tun, buffer: vec![0; MAX_PACKET_BYTES], stamps })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn source(&self) -> BorrowedFd<'_> {
        self.tun.as_fd()
    }

    pub(super) fn is_ready(&self) -> bool {
        self.stamps.capture.is_ready()
    }

    pub(super) fn is_stamped(&self) -> bool {
        self.stamps.complete
    }

    pub(super) fn receive(
        &mut self,
        pool: &BufferPool,
        take: &mut dyn FnMut(Time, Result<Received, u32>),
    ) -> Result<bool, EmulatorError> {
        match self.tun.read(&mut self.buffer) {
            Ok(length) => {
                let packet = &self.buffer[..length];
                let received = Received::new(pool, LinkHeader::NONE, packet, Classification::of(packet));
                take(self.stamps.of(packet), Ok(received));
                Ok(true)
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                self.stamps.drained();
                Ok(false)
            }
            // EFAULT as it is removed, EBADFD afterwards.
            Err(error) if matches!(error.raw_os_error(), Some(14 | 77)) => {
                Err(EmulatorError::Vanished(self.name.clone()))
            }
            Err(cause) => Err(EmulatorError::Read { name: self.name.clone(), cause }),
        }
    }

    pub(super) fn send<'a>(
        &mut self,
        frames: impl Iterator<Item = &'a Frame>,
        mut refused: impl FnMut(usize, io::Error),
    ) {
        for (place, frame) in frames.enumerate() {
            if let Err(error) = self.tun.write(&frame.packet) {
                refused(place, error);
            }
        }
    }
}

impl Stamps {
    /// More than the device keeps.
    const MAX_PENDING: usize = 16_384;
    /// A packet is in the device this soon after the capture has shown it, or never.
    const PATIENCE: Span = Span::from_millis(1);

    /// When this packet, which was just read, was handed to the device; now, where nothing is known of it, as when the
    /// device was moved to another namespace.
    fn of(&mut self, packet: &[u8]) -> Time {
        self.look();
        let wanted = beginning(packet);
        while let Some((stamp, beginning)) = self.seen.pop_front() {
            if beginning == wanted {
                self.complete = true;
                return stamp;
            }
        }
        self.complete = false;
        clock::realtime()
    }

    /// The device is empty: what was shown before now and is not read has been lost.
    fn drained(&mut self) {
        self.look();
        let lost = clock::realtime() - Self::PATIENCE;
        while self.seen.front().is_some_and(|(stamp, _)| *stamp < lost) {
            self.seen.pop_front();
        }
    }

    fn look(&mut self) {
        while let Some(seen) = self.capture.next(|stamp, packet| (stamp, beginning(packet))) {
            if self.seen.len() == Self::MAX_PENDING {
                self.seen.pop_front();
            }
            self.seen.push_back(seen);
        }
    }
}

fn beginning(packet: &[u8]) -> Beginning {
    let mut beginning = [0; 64];
    let length = packet.len().min(64);
    beginning[..length].copy_from_slice(&packet[..length]);
    beginning
}

impl fmt::Debug for TunPort {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TunPort").field("name", &self.name).finish_non_exhaustive()
    }
}
