use crate::error::EmulatorError;
use crate::frame::{ClassifiedFrame, Frame, LinkHeader};
use kumade_net::clock;
use kumade_net::tun::{HandoverTimes, Tun};
use kumade_packet::Classification;
use kumade_packet_loop::BufferPool;
use kumade_units::Time;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// A TUN device.
pub(super) struct TunPort {
    name: String,
    tun: Tun,
    buffer: Vec<u8>,
    handovers: HandoverTimes,
    /// Whether it is known when the packet that was read last was handed to the device.
    is_stamped: bool,
}

/// The longest packet that IP has.
const MAX_PACKET_BYTES: usize = 1 << 16;
const MTU: u16 = 1500;

impl TunPort {
    pub(super) fn open(name: &str) -> Result<Self, EmulatorError> {
        let tun = Tun::new(name, MTU, None, None)?;
        let handovers = HandoverTimes::for_device(name)?;
        Ok(TunPort { name: name.into(), tun, buffer: vec![0; MAX_PACKET_BYTES], handovers, is_stamped: false })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn poll_fd(&self) -> BorrowedFd<'_> {
        self.tun.as_fd()
    }

    pub(super) fn is_ready(&self) -> bool {
        self.handovers.is_ready()
    }

    pub(super) fn is_stamped(&self) -> bool {
        self.is_stamped
    }

    pub(super) fn receive(
        &mut self,
        pool: &BufferPool,
        take: &mut dyn FnMut(Time, Result<ClassifiedFrame, u32>),
    ) -> Result<bool, EmulatorError> {
        match self.tun.read(&mut self.buffer) {
            Ok(length) => {
                let packet = &self.buffer[..length];
                let received =
                    ClassifiedFrame::new(pool, LinkHeader::NONE, packet, Classification::from_packet(packet));
                let stamp = self.handovers.stamp_of(packet);
                self.is_stamped = stamp.is_some();
                take(stamp.unwrap_or_else(clock::realtime), Ok(received));
                Ok(true)
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                self.handovers.discard_lost();
                Ok(false)
            }
            // EFAULT as it is removed, EBADFD afterwards.
            Err(error) if matches!(error.raw_os_error(), Some(14 | 77)) => {
                Err(EmulatorError::InterfaceVanished(self.name.clone()))
            }
            Err(cause) => Err(EmulatorError::ReadFailed { name: self.name.clone(), cause }),
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

impl fmt::Debug for TunPort {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TunPort").field("name", &self.name).finish_non_exhaustive()
    }
}
