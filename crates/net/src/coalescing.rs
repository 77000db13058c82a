//! How long an interface holds received packets back before it interrupts the host, by ethtool's ioctl: packets that arrive meanwhile
//! are stamped together.

pub use crate::system_facts::InterruptCoalescing;

use crate::offloads::{ETHTOOL_WORDS, ethtool};
use crate::setup::SetupError;
use kumade_units::Span;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, socket};
use std::net::IpAddr;

/// struct ethtool_coalesce of linux/ethtool.h, as a row of numbers.
type EthtoolCoalesce = [u32; ETHTOOL_WORDS];
const RX_USECS: usize = 1;
const RX_FRAMES: usize = 2;
const USE_ADAPTIVE_RX: usize = 10;
const RX_USECS_HIGH: usize = 18;
/// The longest of the kernel's own algorithm (`lib/dim/net_dim.c`), which many drivers use, and which it does not tell.
const MAX_ADAPTIVE_USECS: u32 = 256;
/// `ETHTOOL_GCOALESCE`.
const ETHTOOL_GCOALESCE: u32 = 0x0e;

impl InterruptCoalescing {
    /// Of an interface of the calling thread's namespace; none where it does not coalesce interrupts, or does not say.
    ///
    /// # Errors
    /// No such interface.
    pub fn of_interface(interface: &str) -> Result<Option<Self>, SetupError> {
        let failed = |error| SetupError::new(format!("read the interrupt coalescing of {interface}"), error);
        let control = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)
            .map_err(|error| failed(error.into()))?;
        Ok(ethtool(&control, interface, ETHTOOL_GCOALESCE, 0)
            .map_err(failed)?
            .and_then(|settings| Self::from_settings(&settings)))
    }

    /// None where interrupts are not coalesced.
    fn from_settings(settings: &EthtoolCoalesce) -> Option<Self> {
        let is_adaptive = settings[USE_ADAPTIVE_RX] != 0;
        let adaptive = if is_adaptive { settings[RX_USECS_HIGH].max(MAX_ADAPTIVE_USECS) } else { 0 };
        let delay = Span::from_micros(settings[RX_USECS].max(adaptive).into());
        let packets = Some(settings[RX_FRAMES]).filter(|&packets| packets > 0);
        // One packet interrupts at once.
        let waits = delay > Span::ZERO && (is_adaptive || packets != Some(1));
        waits.then_some(InterruptCoalescing { max_delay: delay, max_packets: packets, is_adaptive })
    }
}

/// The interface of the calling thread's namespace that has this address; none where there is none.
pub fn interface_with_address(address: IpAddr) -> Option<String> {
    let address = address.to_canonical();
    let has = |found: &SockaddrStorage| {
        let v4 = found.as_sockaddr_in().map(|found| IpAddr::from(found.ip()));
        v4.or(found.as_sockaddr_in6().map(|found| found.ip().into())) == Some(address)
    };
    let found = getifaddrs().ok()?.find(|interface| interface.address.as_ref().is_some_and(has))?;
    Some(found.interface_name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn read(changes: &[(usize, u32)]) -> Option<InterruptCoalescing> {
        let mut settings = [0; ETHTOOL_WORDS];
        changes.iter().for_each(|&(place, value)| settings[place] = value);
        InterruptCoalescing::from_settings(&settings)
    }

    #[test]
    fn an_interface_coalesces_if_a_packet_may_wait() {
        assert_eq!([read(&[]), read(&[(RX_FRAMES, 8)]), read(&[(RX_USECS, 50), (RX_FRAMES, 1)])], [None; 3]);
        let fixed = |micros, packets| {
            Some(InterruptCoalescing { max_delay: Span::from_micros(micros), max_packets: packets, is_adaptive: false })
        };
        assert_eq!(read(&[(RX_USECS, 50)]), fixed(50, None));
        assert_eq!(read(&[(RX_USECS, 8), (RX_FRAMES, 128), (RX_USECS_HIGH, 200)]), fixed(8, Some(128)));
        for (high, longest) in [(0, 256), (300, 300)] {
            let adaptive = read(&[(RX_USECS, 8), (USE_ADAPTIVE_RX, 1), (RX_USECS_HIGH, high)]).unwrap();
            assert_eq!((adaptive.max_delay, adaptive.is_adaptive), (Span::from_micros(longest), true));
        }
    }

    /// Loopback has no interrupts, which is no error.
    #[test]
    fn an_interface_without_interrupts_coalesces_none() {
        for address in
            [Ipv4Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.to_ipv6_mapped().into(), Ipv6Addr::LOCALHOST.into()]
        {
            let Some(loopback) = interface_with_address(address) else { continue };
            assert_eq!(InterruptCoalescing::of_interface(&loopback).unwrap(), None);
        }
        assert!(interface_with_address(Ipv4Addr::LOCALHOST.into()).is_some());
        assert_eq!(interface_with_address(Ipv4Addr::new(192, 0, 2, 1).into()), None);
        assert!(InterruptCoalescing::of_interface("none-such").is_err());
    }
}
