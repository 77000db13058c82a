//! Settings of the kernel that decide which packets pass this host, and what an administrator may do about them.

use crate::interface::Family;
use crate::sysctl;
use thiserror::Error;

/// This host does not forward packets of an IP version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("this host does not forward {version} packets: set `sysctl -w {key}=1`")]
pub struct MissingForwarding {
    /// `IPv4` or `IPv6`.
    pub version: &'static str,
    /// The setting.
    pub key: &'static str,
}

/// Which of these IP versions this host does not forward. What the system does not tell is taken for right.
pub fn missing_forwarding(families: &[Family]) -> Vec<MissingForwarding> {
    let settings = [
        (Family::V4, MissingForwarding { version: "IPv4", key: "net.ipv4.ip_forward" }),
        (Family::V6, MissingForwarding { version: "IPv6", key: "net.ipv6.conf.all.forwarding" }),
    ];
    let lacks = |(family, missing): &(Family, MissingForwarding)| {
        families.contains(family) && sysctl::read_number(missing.key) == Some(0)
    };
    settings.into_iter().filter(lacks).map(|(_, missing)| missing).collect()
}

/// Whether an interface drops IPv4 packets whose source would be reached by another one: reverse path filtering in strict mode
/// (RFC 3704).
pub fn has_strict_reverse_path_filter(interface: &str) -> bool {
    let of = |name: &str| sysctl::read_number(&format!("net/ipv4/conf/{name}/rp_filter"));
    // The greater of the two counts; 1 is strict (ip-sysctl).
    of(interface).max(of("all")) == Some(1)
}
