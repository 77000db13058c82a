use crate::namespaces::eventually;
use kumade_net::capture::Capture;
use kumade_net::tun::Tun;
use kumade_net::{SetupError, clock, readiness};
use kumade_units::{Span, Time};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

/// Of every emulated device, in bytes.
pub(crate) const DEVICE_MTU: u16 = 1500;
/// No more packets than this that were captured are left in a device's own queue, which must have room for others.
const MAX_UNREAD_PACKETS: usize = 2000;

/// The near end of a host's TUN device. What the host sends is captured with the kernel's stamp of its sending.
pub(crate) struct Device {
    tun: Tun,
    capture: Capture,
    /// Packets that were captured and are still in the device's own queue.
    unread_packets: usize,
}

/// The kernel adds the route to an own address of IPv6 in its own time.
fn wait_until_reached(own: Ipv6Addr) -> Result<(), SetupError> {
    let is_reached = || -> io::Result<bool> {
        let socket = UdpSocket::bind((own, 0))?;
        socket.send_to(b"?", socket.local_addr()?)?;
        readiness::wait_readable(&socket, clock::monotonic() + Span::from_millis(10))
    };
    if eventually(|| is_reached().unwrap_or(false)) {
        return Ok(());
    }
    Err(SetupError::new(format!("reach the own address {own}"), io::Error::from(io::ErrorKind::TimedOut)))
}

impl Device {
    /// Makes the device in the namespace of the calling thread. With an address it is that family's default route.
    pub(crate) fn new(name: &str, v4: Option<Ipv4Addr>, v6: Option<Ipv6Addr>) -> Result<Self, SetupError> {
        let tun = Tun::new(name, DEVICE_MTU, v4, v6)?;
        if let Some(v6) = v6 {
            wait_until_reached(v6)?;
            // What was sent to it before has left by the device.
            while tun.read(&mut [0; 1]).is_ok() {}
        }
        Ok(Device { tun, capture: Capture::outgoing(name)?, unread_packets: 0 })
    }

    /// Gives the next packet that the host has sent, and the stamp of its sending, to `read`.
    pub(crate) fn next<R>(&mut self, read: impl FnOnce(Time, &[u8]) -> R) -> Option<R> {
        let read = self.capture.next(read)?;
        self.unread_packets += 1;
        Some(read)
    }

    /// Writes a packet to the host.
    pub(crate) fn write(&self, packet: &[u8]) {
        if let Err(error) = self.tun.write(packet) {
            tracing::debug!("a host refused a packet: {error}");
        }
    }

    /// Whether the device's queue has to be emptied, however much other work there is.
    pub(crate) fn needs_drain(&self) -> bool {
        self.unread_packets > MAX_UNREAD_PACKETS
    }

    /// Empties the device's queue: the packets have already been captured.
    pub(crate) fn drain(&mut self) {
        while self.unread_packets > 0 {
            self.unread_packets = if self.tun.read(&mut [0; 1]).is_ok() { self.unread_packets - 1 } else { 0 };
        }
    }

    /// Packets that were never captured, because they came too fast.
    pub(crate) fn missed_packets(&mut self) -> u64 {
        self.capture.dropped_packets()
    }

    /// Whether a packet waits. Reads one word of memory.
    pub(crate) fn is_ready(&self) -> bool {
        self.capture.is_ready()
    }
}

impl AsFd for Device {
    /// Readable whenever a packet waits.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.capture.as_fd()
    }
}
