//! The two versions of IP.

use ipnet::IpNet;
#[cfg(target_os = "linux")]
use nix::libc;
use std::fmt;
#[cfg(target_os = "linux")]
use std::io;
use std::net::IpAddr;

/// Which internet protocol a route is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// That of an address.
    pub fn from_address(address: IpAddr) -> Self {
        if address.is_ipv4() { Family::V4 } else { Family::V6 }
    }

    /// That of a network.
    pub fn from_network(network: IpNet) -> Self {
        Family::from_address(network.addr())
    }

    /// 4 or 6.
    pub fn version(self) -> u8 {
        match self {
            Family::V4 => 4,
            Family::V6 => 6,
        }
    }

    /// Whether a socket could not be opened because this system has no such protocol.
    #[cfg(target_os = "linux")]
    pub fn is_unsupported(error: &io::Error) -> bool {
        error.raw_os_error() == Some(libc::EAFNOSUPPORT)
    }

    #[cfg(target_os = "linux")]
    pub(crate) fn address_family(self) -> u8 {
        match self {
            Family::V4 => libc::AF_INET as u8,
            Family::V6 => libc::AF_INET6 as u8,
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Family::V4 { "IPv4" } else { "IPv6" })
    }
}
