use crate::target::{Host, Target};
use ipnet::IpNet;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use thiserror::Error;

/// What peers may reach through this host: `HOST[:PORT]` or `NETWORK[:PORT]`, all ports where none is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowed {
    hosts: Hosts,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Hosts {
    Network(IpNet),
    /// Asked for by this name, whatever its address.
    Name(String),
}

/// Text that is no [`Allowed`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "`{0}` is no host or network: write HOST[:PORT] or NETWORK[:PORT], like db.example:5432, 127.0.0.1:80, 10.2.0.0/16 \
     or [fd77::/64]:22"
)]
pub struct AllowedError(String);

impl Allowed {
    /// One network, all ports.
    pub fn network(network: IpNet) -> Self {
        Allowed { hosts: Hosts::Network(network.trunc()), port: None }
    }

    /// Whether the target may be reached as it was asked for, be it by name.
    pub fn permits(&self, target: &Target) -> bool {
        match (&self.hosts, &target.host) {
            (Hosts::Network(_), Host::Address(address)) => self.permits_address(SocketAddr::new(*address, target.port)),
            (Hosts::Name(allowed), Host::Name(name)) => allowed == name && self.permits_port(target.port),
            (Hosts::Network(_), Host::Name(_)) | (Hosts::Name(_), Host::Address(_)) => false,
        }
    }

    /// Whether this address may be reached, whatever name led to it.
    pub fn permits_address(&self, address: SocketAddr) -> bool {
        let is_within = match &self.hosts {
            Hosts::Network(network) => network.contains(&address.ip().to_canonical()),
            Hosts::Name(_) => false,
        };
        is_within && self.permits_port(address.port())
    }

    fn permits_port(&self, port: u16) -> bool {
        self.port.is_none_or(|allowed| allowed == port)
    }
}

impl FromStr for Allowed {
    type Err = AllowedError;

    fn from_str(text: &str) -> Result<Self, AllowedError> {
        let invalid = || AllowedError(text.to_owned());
        if let Some(hosts) = network(text) {
            return Ok(Allowed { hosts, port: None });
        }
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) => (host, Some(port.parse().ok().filter(|port| *port > 0).ok_or_else(invalid)?)),
            None => (text, None),
        };
        let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = bracketed.or_else(|| (!host.contains(':')).then_some(host)).ok_or_else(invalid)?;
        let hosts = network(host).or_else(|| name(host)).ok_or_else(invalid)?;
        Ok(Allowed { hosts, port })
    }
}

fn network(text: &str) -> Option<Hosts> {
    let address = || text.parse::<IpAddr>().map(|address| IpNet::from(address.to_canonical()));
    text.parse().or_else(|_| address()).ok().map(|network: IpNet| Hosts::Network(network.trunc()))
}

fn name(text: &str) -> Option<Hosts> {
    match Host::parse(text)? {
        Host::Name(name) => Some(Hosts::Name(name)),
        Host::Address(_) => None,
    }
}

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts = match &self.hosts {
            Hosts::Network(network) if network.prefix_len() == network.max_prefix_len() => network.addr().to_string(),
            Hosts::Network(network) => network.to_string(),
            Hosts::Name(name) => name.clone(),
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
        allowed.parse::<Allowed>().unwrap().permits(&target.parse().unwrap())
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
            assert_eq!(text.parse::<Allowed>().unwrap().to_string(), text);
        }
        for text in ["", ":80", "db:0", "db:x", "a b", "10.0.0.0/33:1", "[::1]x:2"] {
            assert!(text.parse::<Allowed>().is_err(), "{text}");
        }
    }
}
