use crate::target::{Target, TargetHost};
use ipnet::IpNet;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use thiserror::Error;

/// What peers may reach through this host: `HOST[:PORT]` or `NETWORK[:PORT]`, all ports where none is given.
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

    /// Whether the target may be reached as it was asked for, be it by name.
    pub fn permits(&self, target: &Target) -> bool {
        match (&self.hosts, &target.host) {
            (AllowedHosts::Network(_), TargetHost::Address(address)) => {
                self.permits_address(SocketAddr::new(*address, target.port))
            }
            (AllowedHosts::Name(allowed), TargetHost::Name(name)) => allowed == name && self.permits_port(target.port),
            (AllowedHosts::Network(_), TargetHost::Name(_)) | (AllowedHosts::Name(_), TargetHost::Address(_)) => false,
        }
    }

    /// Whether this address may be reached, whatever name led to it.
    pub fn permits_address(&self, address: SocketAddr) -> bool {
        let is_within = match &self.hosts {
            AllowedHosts::Network(network) => network.contains(&address.ip().to_canonical()),
            AllowedHosts::Name(_) => false,
        };
        is_within && self.permits_port(address.port())
    }

    fn permits_port(&self, port: u16) -> bool {
        self.port.is_none_or(|allowed| allowed == port)
    }
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

    fn permits(allowed: &str, target: &str) -> bool {
        allowed.parse::<AllowedTargets>().unwrap().permits(&target.parse().unwrap())
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
