//! IP addresses as people write them, those of a link included.

use crate::index::{index_of, name_of};
use std::fmt::{self, Display, Formatter};
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::str::FromStr;
use thiserror::Error;

/// An IP address, and the interface at whose link it is, where it is an IPv6 address that each link may have (RFC 4007, 11.2):
/// `192.0.2.1`, `2001:db8::1`, `fe80::1%eth0`, `fe80::1%2`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScopedAddress {
    ip: IpAddr,
    /// The interface's number, or 0.
    scope_id: u32,
}

/// Text that is no [`ScopedAddress`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ScopedAddressError {
    /// It has another form.
    #[error("`{0}` is no IP address: write it like 192.0.2.1, 2001:db8::1 or fe80::1%eth0")]
    Malformed(String),
    /// The network namespace of the calling thread has no interface of this name.
    #[error("this host has no interface `{interface}`, which the address `{address}` names")]
    NoInterface {
        /// The address.
        address: String,
        /// The interface.
        interface: String,
    },
    /// It is not an address of one link.
    #[error(
        "`{0}` names an interface, which only link-local addresses of IPv6 do: leave out what stands behind the `%`"
    )]
    NeedsNoInterface(String),
}

impl ScopedAddress {
    /// The address alone.
    pub fn ip(self) -> IpAddr {
        self.ip
    }

    /// The name of the interface, if one was given and is there.
    pub fn interface(self) -> Option<String> {
        name_of(self.scope_id)
    }

    /// A port there.
    pub fn with_port(self, port: u16) -> SocketAddr {
        match self.ip {
            IpAddr::V4(_) => SocketAddr::new(self.ip, port),
            IpAddr::V6(ip) => SocketAddrV6::new(ip, port, 0, self.scope_id).into(),
        }
    }

    /// An address, with a port or without: `192.0.2.1`, `192.0.2.1:80`, `fe80::1%eth0`, `[fe80::1%eth0]`, `[fe80::1%eth0]:80`.
    ///
    /// # Errors
    /// It has another form, or the interface is not there.
    pub fn parse_with_port(text: &str) -> Result<(Self, Option<u16>), ScopedAddressError> {
        let malformed = || ScopedAddressError::Malformed(text.to_owned());
        let (address, port) = match (text.strip_prefix('['), text.split_once(':')) {
            (Some(rest), _) => {
                let (address, rest) = rest.split_once(']').ok_or_else(malformed)?;
                if !address.contains(':') {
                    return Err(malformed());
                }
                (address, if rest.is_empty() { None } else { Some(rest.strip_prefix(':').ok_or_else(malformed)?) })
            }
            (None, Some((address, port))) if !port.contains(':') => (address, Some(port)),
            _ => (text, None),
        };
        // Also with a sign, numbers could be read.
        let is_number = |port: &&str| port.chars().all(|c| c.is_ascii_digit());
        let port = port.map(|port| Some(port).filter(is_number)?.parse().ok()).map(|port| port.ok_or_else(malformed));
        let address = address.parse().map_err(|error| match error {
            ScopedAddressError::Malformed(_) => malformed(),
            error => error,
        });
        Ok((address?, port.transpose()?))
    }
}

impl FromStr for ScopedAddress {
    type Err = ScopedAddressError;

    fn from_str(text: &str) -> Result<Self, ScopedAddressError> {
        let malformed = || ScopedAddressError::Malformed(text.to_owned());
        let Some((address, interface)) = text.split_once('%') else {
            return text.parse::<IpAddr>().map(Self::from).map_err(|_| malformed());
        };
        let ip: IpAddr = address.parse().map_err(|_| malformed())?;
        if interface.is_empty() {
            return Err(malformed());
        }
        if !is_of_one_link(ip) {
            return Err(ScopedAddressError::NeedsNoInterface(text.to_owned()));
        }
        // A name may consist of digits.
        let found =
            index_of(interface).ok().or_else(|| interface.parse().ok().filter(|number| name_of(*number).is_some()));
        let scope_id = found.ok_or_else(|| ScopedAddressError::NoInterface {
            address: text.to_owned(),
            interface: interface.to_owned(),
        })?;
        Ok(ScopedAddress { ip, scope_id })
    }
}

impl From<IpAddr> for ScopedAddress {
    fn from(ip: IpAddr) -> Self {
        ScopedAddress { ip, scope_id: 0 }
    }
}

impl Display for ScopedAddress {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let ScopedAddress { ip, scope_id } = self;
        match self.interface() {
            Some(name) => write!(f, "{ip}%{name}"),
            None if *scope_id != 0 => write!(f, "{ip}%{scope_id}"),
            None => write!(f, "{ip}"),
        }
    }
}

/// Whether each link may have the address, so that it takes an interface to know which is meant.
pub fn is_of_one_link(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(_) => false,
        // ff02::/16 are multicast addresses of a link.
        IpAddr::V6(ip) => ip.is_unicast_link_local() || ip.segments()[0] & 0xff0f == 0xff02,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lo() -> u32 {
        index_of("lo").unwrap()
    }

    #[test]
    fn an_address_of_a_link_has_its_interface() {
        let link = |text: &str| text.parse::<ScopedAddress>().unwrap();
        for text in ["fe80::1%lo".to_owned(), format!("fe80::1%{}", lo())] {
            let address = link(&text);
            assert_eq!((address.to_string(), address.interface()), ("fe80::1%lo".into(), Some("lo".into())), "{text}");
            assert_eq!(address.with_port(80), SocketAddrV6::new("fe80::1".parse().unwrap(), 80, 0, lo()).into());
        }
        for text in ["192.0.2.1", "2001:db8::1", "::ffff:192.0.2.1", "fe80::1"] {
            assert_eq!((link(text).to_string(), link(text).interface()), (text.to_owned(), None));
        }
    }

    #[test]
    fn a_port_stands_behind_it_or_not() {
        let read = |text: &str| ScopedAddress::parse_with_port(text).map(|(address, port)| (address.to_string(), port));
        for (text, address, port) in [
            ("192.0.2.1", "192.0.2.1", None),
            ("192.0.2.1:80", "192.0.2.1", Some(80)),
            ("::1", "::1", None),
            ("[::1]", "::1", None),
            ("[::1]:80", "::1", Some(80)),
            ("fe80::1%lo", "fe80::1%lo", None),
            ("[fe80::1%lo]:80", "fe80::1%lo", Some(80)),
        ] {
            assert_eq!(read(text), Ok((address.to_owned(), port)), "{text}");
        }
        for text in [
            "",
            ":80",
            "[",
            "[]",
            "[::1",
            "::1]",
            "[::1]80",
            "[::1]:",
            "[::1]:+80",
            "1.2.3.4:",
            "1.2.3.4:65536",
            "host:80",
            "[192.0.2.1]:80",
        ] {
            assert_eq!(read(text), Err(ScopedAddressError::Malformed(text.to_owned())), "{text}");
        }
        assert!(matches!(read("[fe80::1%absent0]:80"), Err(ScopedAddressError::NoInterface { .. })));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_the_reason() {
        for (text, reason) in [
            ("fe80::1%absent0", "no interface `absent0`"),
            ("fe80::1%4000000000", "no interface `4000000000`"),
            ("fe80::1%0", "no interface `0`"),
            ("2001:db8::1%lo", "leave out what stands behind"),
            ("192.0.2.1%lo", "leave out what stands behind"),
            ("fe80::1%", "is no IP address"),
            ("%lo", "is no IP address"),
            ("localhost", "is no IP address"),
        ] {
            let error = text.parse::<ScopedAddress>().unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
