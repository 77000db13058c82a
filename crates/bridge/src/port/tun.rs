use crate::BridgeError;
use crate::engine::{Frame, LinkHeader, Pool};
use net::tun::Tun;
use net::{clock, readiness};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use units::Time;

/// A TUN device.
pub(super) struct TunPort {
    name: String,
    tun: Tun,
    buffer: Vec<u8>,
}

/// The longest packet that IP has.
const LONGEST: usize = 1 << 16;
const MTU: u16 = 1500;

impl TunPort {
    pub(super) fn open(name: &str) -> Result<Self, BridgeError> {
        Ok(TunPort { name: name.into(), tun: Tun::new(name, MTU, None, None)?, buffer: vec![0; LONGEST] })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn source(&self) -> BorrowedFd<'_> {
        self.tun.as_fd()
    }

    pub(super) fn is_ready(&self) -> bool {
        readiness::readable(&self.tun, Time::ZERO).unwrap_or(false)
    }

    pub(super) fn receive(
        &mut self,
        pool: &Pool,
        take: &mut dyn FnMut(Time, Result<Frame, u32>),
    ) -> Result<bool, BridgeError> {
        match self.tun.read(&mut self.buffer) {
            Ok(length) => {
                let mut frame = pool.frame(LinkHeader::NONE);
                frame.packet.extend_from_slice(&self.buffer[..length]);
                take(clock::realtime(), Ok(frame));
                Ok(true)
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(false),
            // EFAULT as it is removed, EBADFD afterwards.
            Err(error) if matches!(error.raw_os_error(), Some(14 | 77)) => {
                Err(BridgeError::Vanished(self.name.clone()))
            }
            Err(cause) => Err(BridgeError::Read { name: self.name.clone(), cause }),
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
