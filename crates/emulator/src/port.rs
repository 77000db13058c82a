mod ethernet;
mod tun;

use crate::error::EmulatorError;
use crate::frame::{ClassifiedFrame, Frame};
use crate::port::ethernet::EthernetPort;
use crate::port::tun::TunPort;
use crate::statistics::DropCause;
use kumade_net::packet_socket::Receiver;
use kumade_packet_loop::BufferPool;
use kumade_units::Time;
use std::io;
use std::os::fd::BorrowedFd;

/// One end of an emulated link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PortSpec {
    /// An Ethernet interface that exists, by name. While the link runs it is promiscuous, and its receive offloads (GRO,
    /// LRO) are off.
    Interface(String),
    /// A TUN device that is created for this, switched on and without addresses; it vanishes with the link.
    Tun {
        /// Its name.
        name: String,
    },
}

/// One end of an emulated link, open. It belongs to the network namespace in which it was opened.
#[derive(Debug)]
pub struct Port(PortKind);

#[derive(Debug)]
enum PortKind {
    Ethernet(EthernetPort),
    Tun(TunPort),
}

impl PortSpec {
    /// The name of the interface or device.
    pub fn name(&self) -> &str {
        match self {
            PortSpec::Interface(name) | PortSpec::Tun { name } => name,
        }
    }
}

impl Port {
    /// Opens it in the calling thread's network namespace.
    ///
    /// # Errors
    /// No such interface, none that can be used, or not allowed.
    pub fn open(spec: &PortSpec) -> Result<Self, EmulatorError> {
        Self::with_room_for(spec, Receiver::DEFAULT_FRAMES)
    }

    /// As [`open`](Self::open); of an interface so many packets can wait to be taken.
    pub(crate) fn with_room_for(spec: &PortSpec, packets: usize) -> Result<Self, EmulatorError> {
        Ok(Port(match spec {
            PortSpec::Interface(name) => PortKind::Ethernet(EthernetPort::open(name, packets)?),
            PortSpec::Tun { name } => PortKind::Tun(TunPort::open(name)?),
        }))
    }

    /// The name of the interface or device.
    pub fn name(&self) -> &str {
        match &self.0 {
            PortKind::Ethernet(port) => port.name(),
            PortKind::Tun(port) => port.name(),
        }
    }

    /// Readable when a packet waits, or something is wrong.
    pub(crate) fn poll_fd(&self) -> BorrowedFd<'_> {
        match &self.0 {
            PortKind::Ethernet(port) => port.poll_fd(),
            PortKind::Tun(port) => port.poll_fd(),
        }
    }

    /// Whether a packet is known to wait, or to be about to. Reads one word of memory. Of a device whose packets are not
    /// [stamped](Self::is_stamped), only reading tells.
    pub(crate) fn is_ready(&self) -> bool {
        match &self.0 {
            PortKind::Ethernet(port) => port.is_ready(),
            PortKind::Tun(port) => port.is_ready(),
        }
    }

    /// Whether the time of a packet's arrival does not depend on when it is read.
    pub(crate) fn is_stamped(&self) -> bool {
        match &self.0 {
            PortKind::Ethernet(_) => true,
            PortKind::Tun(port) => port.is_stamped(),
        }
    }

    /// Hands one packet, or the segments that it stands for, to `take` with the time of arrival; false where none waits. A
    /// packet that cannot be forwarded is an error with its size in bytes.
    ///
    /// # Errors
    /// The device fails for good.
    pub(crate) fn receive(
        &mut self,
        pool: &BufferPool,
        take: &mut dyn FnMut(Time, Result<ClassifiedFrame, u32>),
    ) -> Result<bool, EmulatorError> {
        match &mut self.0 {
            PortKind::Ethernet(port) => Ok(port.receive(pool, take)),
            PortKind::Tun(port) => port.receive(pool, take),
        }
    }

    /// Sends packets in this order, each with the time at which it is due, and reports those that the device does not take.
    pub(crate) fn send<'a>(
        &mut self,
        frames: impl Iterator<Item = (&'a Frame, Time)>,
        mut refused: impl FnMut(usize, DropCause),
    ) {
        let refused = |place, error: io::Error| refused(place, drop_cause(&error));
        match &mut self.0 {
            PortKind::Ethernet(port) => port.send(frames, refused),
            PortKind::Tun(port) => port.send(frames.map(|(frame, _)| frame), refused),
        }
    }

    /// How many packets there was no room for before they could be read.
    pub(crate) fn missed_packets(&mut self) -> u64 {
        match &mut self.0 {
            PortKind::Ethernet(port) => port.missed_packets(),
            PortKind::Tun(_) => 0,
        }
    }

    /// Fails once the interface is gone.
    pub(crate) fn check_interface(&self) -> Result<(), EmulatorError> {
        match &self.0 {
            PortKind::Ethernet(port) => port.check_interface(),
            PortKind::Tun(_) => Ok(()),
        }
    }
}

fn drop_cause(error: &io::Error) -> DropCause {
    // EMSGSIZE of packet(7).
    const MESSAGE_TOO_LONG_ERRNO: i32 = 90;
    if error.raw_os_error() == Some(MESSAGE_TOO_LONG_ERRNO) { DropCause::TooLarge } else { DropCause::OutputRefused }
}
