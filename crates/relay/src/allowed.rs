use crate::target::TargetHost;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use thiserror::Error;

/// What peers may reach through this host: `HOST[:PORT]` or `NETWORK[:PORT]`, all ports where none is given.
///
/// A network does not mean what is this host's own business, though it contains it: loopback, link-local (with
/// 169.254.169.254, where clouds have their secrets), unspecified, broadcast and multicast addresses have to be named by a
/// network within their range, and other addresses of this host one by one. A name means whatever it leads to but for
/// link-local, unspecified, broadcast and multicast addresses: names are made elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedTargets {
    hosts: AllowedHosts,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum AllowedHosts {
    Network(IpNet),
    /// Asked for by this name, whatever its address.
    Name(String),
}

/// Text that is no [`AllowedTargets`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "`{0}` is no host or network: write HOST[:PORT] or NETWORK[:PORT], like db.example:5432, 127.0.0.1:80, 10.2.0.0/16 \
     or [fd77::/64]:22"
)]
pub struct AllowedTargetError(String);

impl AllowedTargets {
    /// One network, all ports.
    pub fn from_network(network: IpNet) -> Self {
        AllowedTargets { hosts: AllowedHosts::Network(network.trunc()), port: None }
    }

    /// Whether this name may be asked for. Link-local, unspecified, broadcast and multicast
    /// addresses to which it leads are not reached by it all the same.
    pub fn permits_name(&self, name: &str, port: u16) -> bool {
        matches!(&self.hosts, AllowedHosts::Name(allowed) if allowed == name) && self.permits_port(port)
    }

    /// Whether this address may be reached, whatever name led to it. `is_own` says whether it is this host's.
    pub fn permits_address(&self, address: SocketAddr, is_own: bool) -> bool {
        let AllowedHosts::Network(network) = &self.hosts else { return false };
        let ip = address.ip().to_canonical();
        let is_named_alone = network.prefix_len() == network.max_prefix_len();
        network.contains(&ip)
            && special_range(ip).is_none_or(|range| range.contains(network))
            && (!is_own || ip.is_loopback() || is_named_alone)
            && self.permits_port(address.port())
    }

    fn permits_port(&self, port: u16) -> bool {
        self.port.is_none_or(|allowed| allowed == port)
    }
}

/// What larger networks do not mean (RFC 6890, RFC 5771, RFC 4291 §2.4).
const SPECIAL_RANGES: [IpNet; 9] = [
    v4_network([0, 0, 0, 0], 8),
    v4_network([127, 0, 0, 0], 8),
    v4_network([169, 254, 0, 0], 16),
    v4_network([224, 0, 0, 0], 4),
    v4_network([255, 255, 255, 255], 32),
    v6_network(0, 0, 128),
    v6_network(0, 1, 128),
    v6_network(0xfe80, 0, 10),
    v6_network(0xff00, 0, 8),
];

const fn v4_network([a, b, c, d]: [u8; 4], prefix_bits: u8) -> IpNet {
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix_bits))
}

const fn v6_network(first: u16, last: u16, prefix_bits: u8) -> IpNet {
    IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::new(first, 0, 0, 0, 0, 0, 0, last), prefix_bits))
}

fn special_range(address: IpAddr) -> Option<IpNet> {
    SPECIAL_RANGES.into_iter().find(|range| range.contains(&address))
}

/// Whether an allowed name may lead to this address.
pub(crate) fn is_reachable_by_name(address: IpAddr) -> bool {
    let address = address.to_canonical();
    address.is_loopback() || special_range(address).is_none()
}

impl FromStr for AllowedTargets {
    type Err = AllowedTargetError;

    fn from_str(text: &str) -> Result<Self, AllowedTargetError> {
        let invalid = || AllowedTargetError(text.to_owned());
        if let Some(hosts) = parse_network(text) {
            return Ok(AllowedTargets { hosts, port: None });
        }
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) => (host, Some(port.parse().ok().filter(|port| *port > 0).ok_or_else(invalid)?)),
            None => (text, None),
        };
        let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = bracketed.or_else(|| (!host.contains(':')).then_some(host)).ok_or_else(invalid)?;
        let hosts = parse_network(host).or_else(|| parse_name(host)).ok_or_else(invalid)?;
        Ok(AllowedTargets { hosts, port })
    }
}

fn parse_network(text: &str) -> Option<AllowedHosts> {
    let address = || text.parse::<IpAddr>().map(|address| IpNet::from(address.to_canonical()));
    text.parse().or_else(|_| address()).ok().map(|network: IpNet| AllowedHosts::Network(network.trunc()))
}

fn parse_name(text: &str) -> Option<AllowedHosts> {
    match TargetHost::parse(text)? {
        TargetHost::Name(name) => Some(AllowedHosts::Name(name)),
        TargetHost::Address(_) => None,
    }
}

impl fmt::Display for AllowedTargets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts = match &self.hosts {
            AllowedHosts::Network(network) if network.prefix_len() == network.max_prefix_len() => {
                network.addr().to_string()
            }
            AllowedHosts::Network(network) => network.to_string(),
            AllowedHosts::Name(name) => name.clone(),
        };
        match self.port {
            Some(port) if hosts.contains(':') => write!(f, "[{hosts}]:{port}"),
            Some(port) => write!(f, "{hosts}:{port}"),
            None => f.write_str(&hosts),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Target;

    /// This host has 10.2.0.1 and fd77::1.
    fn permits(allowed: &str, target: &str) -> bool {
        let allowed = allowed.parse::<AllowedTargets>().unwrap();
        let Target { host, port } = target.parse().unwrap();
        match host {
            TargetHost::Name(name) => allowed.permits_name(&name, port),
            TargetHost::Address(address) => {
                let is_own = ["10.2.0.1", "fd77::1"].iter().any(|own| own.parse() == Ok(address));
                allowed.permits_address(SocketAddr::new(address, port), is_own || address.is_loopback())
            }
        }
    }

    #[test]
    fn networks_that_merely_contain_what_is_the_hosts_own_do_not_mean_it() {
        for own in [
            "127.0.0.1:1",
            "127.9.9.9:1",
            "[::ffff:127.0.0.1]:1",
            "[::1]:1",
            "0.0.0.0:1",
            "0.1.2.3:1",
            "[::]:1",
            "169.254.169.254:80",
            "[::ffff:169.254.169.254]:80",
            "[fe80::1]:1",
            "224.0.0.1:1",
            "255.255.255.255:1",
            "[ff02::1]:1",
            "10.2.0.1:1",
            "[::ffff:10.2.0.1]:1",
            "[fd77::1]:1",
        ] {
            for all in
                ["0.0.0.0/0", "::/0", "0.0.0.0/1", "128.0.0.0/1", "126.0.0.0/7", "::/1", "8000::/1", "10.2.0.0/16"]
            {
                assert!(!permits(all, own), "{all}, {own}");
            }
        }
        for (named, own) in [
            ("127.0.0.0/8", "127.0.0.1:1"),
            ("127.0.0.1", "[::ffff:127.0.0.1]:1"),
            ("::1", "[::1]:1"),
            ("169.254.169.254:80", "169.254.169.254:80"),
            ("fe80::/10", "[fe80::1]:1"),
            ("239.1.0.0/16", "239.1.2.3:1"),
            ("10.2.0.1", "10.2.0.1:1"),
            ("fd77::1", "[fd77::1]:1"),
            ("0.0.0.0/0", "192.0.2.1:1"),
            ("::/0", "[2001:db8::1]:1"),
        ] {
            assert!(permits(named, own), "{named}, {own}");
        }
    }

    #[test]
    fn names_lead_to_hosts_alone() {
        let reachable = |address: &str| is_reachable_by_name(address.parse().unwrap());
        assert!(["127.0.0.1", "::1", "10.2.0.1", "::ffff:10.2.0.1", "2001:db8::1"].into_iter().all(reachable));
        let refused = ["0.0.0.0", "::", "169.254.169.254", "::ffff:169.254.169.254", "fe80::1", "224.0.0.1", "ff02::1"];
        assert!(!refused.into_iter().any(reachable));
    }

    #[test]
    fn networks_and_names_are_allowed_with_one_port_or_all() {
        for (allowed, target) in [
            ("10.2.0.0/16", "10.2.3.4:22"),
            ("10.2.0.0/16:22", "10.2.3.4:22"),
            ("127.0.0.1:80", "127.0.0.1:80"),
            ("127.0.0.1:80", "[::ffff:127.0.0.1]:80"),
            ("[fd77::/64]:22", "[fd77::9]:22"),
            ("fd77::/64", "[fd77::9]:1"),
            ("::1", "[::1]:1"),
            ("DB.example:5432", "db.example.:5432"),
            ("db.example", "db.example:1"),
        ] {
            assert!(permits(allowed, target), "{allowed}, {target}");
        }
        for (allowed, target) in [
            ("10.2.0.0/16", "10.3.0.1:22"),
            ("10.2.0.0/16:22", "10.2.3.4:23"),
            // What the name leads to is looked at once it is known.
            ("0.0.0.0/0", "localhost:80"),
            ("localhost:80", "127.0.0.1:80"),
            ("0.0.0.0/0", "[::1]:80"),
        ] {
            assert!(!permits(allowed, target), "{allowed}, {target}");
        }
    }

    #[test]
    fn what_is_allowed_reads_as_it_was_written() {
        for text in
            ["10.2.0.0/16", "10.2.0.0/16:22", "127.0.0.1:80", "[fd77::/64]:22", "fd77::/64", "db.example:1", "db"]
        {
            assert_eq!(text.parse::<AllowedTargets>().unwrap().to_string(), text);
        }
        for text in ["", ":80", "db:0", "db:x", "a b", "10.0.0.0/33:1", "[::1]x:2"] {
            assert!(text.parse::<AllowedTargets>().is_err(), "{text}");
        }
    }
}
