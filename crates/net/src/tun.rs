//! TUN devices: the points where a host's packets enter and leave a network that this process plays.
//!
//! [`Tun`] carries single packets, for networks whose links treat each packet on its own. [`TunQueue`] is for speed: it
//! takes what TCP sends 64 kB at a time, and gives it to the host as large again. [`HandoverTimes`] tells when the host handed packets over.

mod handover_times;
mod open;
mod queue;

pub use handover_times::HandoverTimes;
pub use queue::{TunPackets, TunQueue};

use crate::interface::{self, Family};
use crate::setup::SetupError;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use tun_rs::{DeviceBuilder, SyncDevice};

/// A TUN device without packet information and without offloads: what it carries are single, whole IP packets with
/// finished checksums. It vanishes when dropped.
pub struct Tun {
    device: SyncDevice,
}

impl Tun {
    /// Packets that the kernel keeps until they are read.
    const QUEUE_PACKETS: u32 = 10_000;

    /// Makes the device in the namespace of the calling thread, with these addresses and as its default route.
    ///
    /// # Errors
    /// No /dev/net/tun, not allowed, the name is taken, or IPv6 asked for where the system has none.
    pub fn new(name: &str, mtu: u16, v4: Option<Ipv4Addr>, v6: Option<Ipv6Addr>) -> Result<Self, SetupError> {
        let mut builder = DeviceBuilder::new().mtu(mtu).offload(false);
        if let Some(v4) = v4 {
            builder = builder.ipv4(v4, 32u8, None);
        }
        if let Some(v6) = v6 {
            builder = builder.ipv6(v6, 128u8);
        }
        let device = open::open(name, builder)?;
        interface::set_queue_packets(name, Self::QUEUE_PACKETS)?;
        if v4.is_some() {
            interface::add_default_route(name, Family::V4)?;
        }
        if v6.is_some() {
            interface::add_default_route(name, Family::V6)?;
        }
        Ok(Tun { device })
    }

    /// Hands the host one IP packet. The receiving stack runs within this call.
    ///
    /// # Errors
    /// The kernel refused it: no IP packet, the device is down.
    pub fn write(&self, packet: &[u8]) -> io::Result<()> {
        self.device.send(packet).map(drop)
    }

    /// Reads one packet that the host sent, cut to `buffer`.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] where none waits.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.device.recv(buffer)
    }
}

impl AsRawFd for Tun {
    fn as_raw_fd(&self) -> RawFd {
        self.device.as_raw_fd()
    }
}

impl AsFd for Tun {
    /// Readable whenever a packet waits.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}
