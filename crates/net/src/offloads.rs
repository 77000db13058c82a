//! The offloads of an interface, by ethtool's ioctl: what it merges, segments or leaves unfinished for speed.

use crate::index::index_of;
use crate::setup::SetupError;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// The settings of an interface's offloads; those that it does not have are not set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Offloads {
    values: [Option<u32>; OFFLOAD_COUNT],
}

/// One of them: its commands in linux/ethtool.h, and the bits of the value that are to be cleared to switch it off.
struct Offload {
    name: &'static str,
    get: u32,
    set: u32,
    mask: u32,
    /// Whether it merges packets as they arrive.
    is_receive_offload: bool,
}

const OFFLOAD_COUNT: usize = 6;
/// In the order in which they can be switched on: each needs some of those before it.
const ALL_OFFLOADS: [Offload; OFFLOAD_COUNT] = [
    Offload { name: "tx-checksum", get: 0x16, set: 0x17, mask: u32::MAX, is_receive_offload: false },
    Offload { name: "scatter-gather", get: 0x18, set: 0x19, mask: u32::MAX, is_receive_offload: false },
    Offload { name: "tso", get: 0x1e, set: 0x1f, mask: u32::MAX, is_receive_offload: false },
    Offload { name: "gso", get: 0x23, set: 0x24, mask: u32::MAX, is_receive_offload: false },
    Offload { name: "gro", get: 0x2b, set: 0x2c, mask: u32::MAX, is_receive_offload: true },
    // Among the flags, LRO.
    Offload { name: "flags", get: 0x25, set: 0x26, mask: 1 << 15, is_receive_offload: true },
];

/// Reads and sets the offloads of one interface. It stays with the network namespace in which it was opened,
/// whichever thread uses it.
#[derive(Debug)]
pub struct OffloadControl {
    name: String,
    control: OwnedFd,
}

impl OffloadControl {
    /// Of an interface of the calling thread's namespace.
    ///
    /// # Errors
    /// No such interface.
    pub fn open(name: &str) -> Result<Self, SetupError> {
        index_of(name)?;
        let control = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)
            .map_err(|error| SetupError::new(format!("look at the offloads of {name}"), error))?;
        Ok(OffloadControl { name: name.into(), control })
    }

    /// Their present settings.
    ///
    /// # Errors
    /// The interface is gone.
    pub fn read(&self) -> Result<Offloads, SetupError> {
        let mut values = [None; OFFLOAD_COUNT];
        for (value, offload) in values.iter_mut().zip(&ALL_OFFLOADS) {
            *value = self.run_command(offload.get, 0).map_err(|error| {
                SetupError::new(format!("read the offload {} of {}", offload.name, self.name), error)
            })?;
        }
        Ok(Offloads { values })
    }

    /// Sets them. Offloads that the device cannot switch are left alone.
    ///
    /// # Errors
    /// The interface is gone (ENODEV), or it is not allowed.
    pub fn set(&self, offloads: Offloads) -> Result<(), SetupError> {
        for (value, offload) in offloads.values.iter().zip(&ALL_OFFLOADS) {
            let Some(value) = *value else { continue };
            if matches!(self.run_command(offload.get, 0), Ok(Some(found)) if found == value) {
                continue;
            }
            self.run_command(offload.set, value).map_err(|error| {
                SetupError::new(format!("set the offload {} of {} to {value}", offload.name, self.name), error)
            })?;
        }
        Ok(())
    }

    /// One command; none where the device does not know it.
    fn run_command(&self, command: u32, data: u32) -> io::Result<Option<u32>> {
        Ok(ethtool(&self.control, &self.name, command, data)?.map(|[_, value, ..]| value))
    }
}

/// Numbers of the longest of ethtool's structures that are used here: struct ethtool_coalesce.
pub(crate) const ETHTOOL_WORDS: usize = 23;

/// One of ethtool's commands on an interface, with a number behind it. Its answer, of which the first number is the command; none where the
/// device does not know it.
pub(crate) fn ethtool(
    control: &OwnedFd,
    interface: &str,
    command: u32,
    data: u32,
) -> io::Result<Option<[u32; ETHTOOL_WORDS]>> {
    let mut numbers = [0; ETHTOOL_WORDS];
    (numbers[0], numbers[1]) = (command, data);
    let mut request = EthtoolRequest { name: [0; libc::IFNAMSIZ], words: &mut numbers, padding: [0; 16] };
    let name = request.name.get_mut(..interface.len()).ok_or(io::ErrorKind::InvalidInput)?;
    name.copy_from_slice(interface.as_bytes());
    // SAFETY: `request` is laid out as struct ifreq (name, then a union of 24 bytes that begins with the pointer), and both it and
    // the numbers that it points to live across the call. What the kernel reads and writes there is struct ethtool_value of two
    // numbers, or struct ethtool_coalesce.
    let outcome = unsafe { libc::ioctl(control.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
    if outcome >= 0 {
        return Ok(Some(numbers));
    }
    match io::Error::last_os_error() {
        error if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(None),
        error => Err(error),
    }
}

impl Offloads {
    /// The same with all offloads off that change packets.
    #[must_use]
    pub fn without_offloads(self) -> Self {
        let mut values = self.values;
        for (value, offload) in values.iter_mut().zip(&ALL_OFFLOADS) {
            *value = value.map(|value| value & !offload.mask);
        }
        Offloads { values }
    }

    /// The same with what joins arriving packets (GRO, LRO) off. It leaves alone what some drivers cannot switch without
    /// taking the line down for a moment, and what matters only to packets that this host sends itself.
    #[must_use]
    pub fn without_receive_offloads(self) -> Self {
        let mut offloads = self.without_offloads();
        for (value, (found, offload)) in offloads.values.iter_mut().zip(self.values.iter().zip(&ALL_OFFLOADS)) {
            if !offload.is_receive_offload {
                *value = *found;
            }
        }
        offloads
    }

    /// To be written down: the values by name.
    pub fn entries(self) -> impl Iterator<Item = (&'static str, u32)> {
        ALL_OFFLOADS.iter().zip(self.values).filter_map(|(offload, value)| Some((offload.name, value?)))
    }

    /// From what was written down; unknown names are passed over.
    pub fn from_entries<'a>(entries: impl IntoIterator<Item = (&'a str, u32)>) -> Self {
        let mut offloads = Offloads::default();
        for (name, value) in entries {
            if let Some(place) = ALL_OFFLOADS.iter().position(|offload| offload.name == name) {
                offloads.values[place] = Some(value);
            }
        }
        offloads
    }
}

/// struct ifreq, as SIOCETHTOOL uses it.
#[repr(C)]
struct EthtoolRequest {
    name: [u8; libc::IFNAMSIZ],
    words: *mut [u32; ETHTOOL_WORDS],
    padding: [u8; 16],
}
