//! A TUN device: the point where a host's packets enter and leave a network that this process plays.

use crate::interface::{self, Family};
use crate::setup::SetupError;
use std::fs::OpenOptions;
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
        if !is_name(name) {
            let hint = "the name of an interface is 1 to 15 letters, without `/`, `:`, `%` or blanks";
            return Err(SetupError::new(
                format!("make the TUN device {name}"),
                io::Error::from(io::ErrorKind::InvalidInput),
            )
            .hint(hint));
        }
        let mut builder = DeviceBuilder::new().name(name).mtu(mtu).offload(false);
        if let Some(v4) = v4 {
            builder = builder.ipv4(v4, 32u8, None);
        }
        if let Some(v6) = v6 {
            builder = builder.ipv6(v6, 128u8);
        }
        let device = builder.packet_information(false).enable(true).build_sync().map_err(|error| {
            let hint = match error.kind() {
                io::ErrorKind::NotFound => {
                    "load the module: `modprobe tun`; in a container, pass --device /dev/net/tun"
                }
                io::ErrorKind::PermissionDenied if !may_open() => {
                    "/dev/net/tun is closed to you: run it as root, or open the device to all with \
                     `chmod 666 /dev/net/tun` (most systems do so by themselves; it grants nothing by itself)"
                }
                io::ErrorKind::PermissionDenied => "it takes CAP_NET_ADMIN in this namespace",
                _ if interface::exists(name) => "there is an interface of that name: choose another name",
                _ => "is IPv6 switched off on this system?",
            };
            SetupError::new(format!("make the TUN device {name}"), error).hint(hint)
        })?;
        device.set_nonblocking(true).map_err(|error| SetupError::new(format!("set {name} non-blocking"), error))?;
        interface::set_queue_packets(name, Self::QUEUE_PACKETS)?;
        if v4.is_some() {
            interface::default_route(name, Family::V4)?;
        }
        if v6.is_some() {
            interface::default_route(name, Family::V6)?;
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

/// As dev_valid_name() of the kernel has it; and without `%`, in whose place the kernel puts a number.
fn is_name(name: &str) -> bool {
    let is_odd = |byte: u8| matches!(byte, b'/' | b':' | b'%') || byte.is_ascii_whitespace();
    (1..libc::IFNAMSIZ).contains(&name.len()) && name != "." && name != ".." && !name.bytes().any(is_odd)
}

fn may_open() -> bool {
    OpenOptions::new().read(true).write(true).open("/dev/net/tun").is_ok()
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
