use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The network that an address counts for where there is not room for everybody: IPv4 /24, or IPv6 /48, which is what a site
/// has (RFC 6177). What one attacker can take is bounded by the number of its networks, not of its addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Network(IpAddr);

impl Network {
    /// The network of `address`; an IPv4-mapped IPv6 address is IPv4.
    pub fn containing(address: IpAddr) -> Self {
        Network(match address.to_canonical() {
            IpAddr::V4(v4) => Ipv4Addr::from_bits(v4.to_bits() & (u32::MAX << 8)).into(),
            IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & (u128::MAX << 80)).into(),
        })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}/{}", self.0, if self.0.is_ipv4() { 24 } else { 48 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_a_24_or_a_48() {
        let of = |address: &str| Network::containing(address.parse().unwrap());
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:ffff::1"));
        assert_ne!(of("2001:db8:1::1"), of("2001:db8:2::1"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.200"));
        assert_ne!(of("192.0.2.1"), of("192.0.3.1"));
        assert_eq!(of("192.0.2.1").to_string(), "192.0.2.0/24");
        assert_eq!(of("2001:db8:1:2::1").to_string(), "2001:db8:1::/48");
    }
}
