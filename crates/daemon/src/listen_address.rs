//! Where to listen, as people write it.

use kumade_net::{ScopedAddress, ScopedAddressError};
use std::fmt::{self, Display, Formatter};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use thiserror::Error;

/// Text that does not say where to listen; what it reads like otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub struct ListenAddressError {
    text: String,
    port: Option<u16>,
    /// It is an address, and cannot be used.
    reason: Option<ScopedAddressError>,
}

/// An address, a port, or both: `7272`, `:7272`, `127.0.0.1`, `::1`, `[::1]`, `192.0.2.1:7272`, `[::1]:7272`,
/// `[fe80::1%eth0]:7272`. What is not
/// said is all addresses, and `port`.
///
/// # Errors
/// It is none of these.
pub fn listen_address(text: &str, port: u16) -> Result<SocketAddr, ListenAddressError> {
    parse_address(text, Ipv6Addr::UNSPECIFIED.into(), Some(port))
}

/// Where metrics are fetched: `9272`, which is on the loopback interface alone, or `192.0.2.1:9272`.
///
/// # Errors
/// It is neither.
pub fn metrics_address(text: &str) -> Result<SocketAddr, ListenAddressError> {
    parse_address(text, Ipv4Addr::LOCALHOST.into(), None)
}

/// What is not said is filled in; without `port`, that must be said.
fn parse_address(text: &str, address: IpAddr, port: Option<u16>) -> Result<SocketAddr, ListenAddressError> {
    let text = text.trim();
    let only_port = text.strip_prefix(':').unwrap_or(text).parse().map(|port| SocketAddr::new(address, port));
    let with_address = || match ScopedAddress::parse_with_port(text) {
        Ok((address, own_port)) => match own_port.or(port) {
            Some(port) => Ok(address.with_port(port)),
            None => Err(None),
        },
        Err(ScopedAddressError::Malformed(_)) => Err(None),
        Err(error) => Err(Some(error)),
    };
    only_port.or_else(|_| with_address()).map_err(|reason| ListenAddressError { text: text.to_owned(), port, reason })
}

impl Display for ListenAddressError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let text = &self.text;
        match (&self.reason, self.port) {
            (Some(reason), _) => write!(f, "{reason}"),
            (None, Some(port)) => {
                write!(f, "`{text}` is neither an address nor a port; write it like {port}, 127.0.0.1 or [::1]:{port}")
            }
            (None, None) => {
                write!(f, "`{text}` is neither a port nor an address with one; write it like 9272 or [::1]:9272")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Finding 9 of the review by a new user: a port alone, and an address alone, were refused.
    #[test]
    fn what_is_left_out_is_filled_in() {
        for (text, address) in [
            ("7273", "[::]:7273"),
            (":7273", "[::]:7273"),
            ("127.0.0.1", "127.0.0.1:7272"),
            ("127.0.0.1:80", "127.0.0.1:80"),
            ("[::1]", "[::1]:7272"),
            ("::1", "[::1]:7272"),
            ("[::1]:80", "[::1]:80"),
        ] {
            assert_eq!(listen_address(text, 7272), Ok(address.parse().unwrap()), "{text}");
        }
        for text in ["", "localhost", "70000", "1.2.3", "[::1", "127.0.0.1:"] {
            let error = listen_address(text, 7272).unwrap_err().to_string();
            assert!(error.contains("write it like 7272, 127.0.0.1"), "{error}");
        }
        for text in ["fe80::1%lo", "[fe80::1%lo]", "[fe80::1%lo]:7272"] {
            let address = listen_address(text, 7272).unwrap();
            assert!(matches!(address, SocketAddr::V6(v6) if v6.scope_id() != 0 && v6.port() == 7272), "{address}");
        }
        let error = listen_address("[fe80::1%absent0]:7272", 7272).unwrap_err().to_string();
        assert!(error.contains("no interface `absent0`"), "{error}");
    }

    #[test]
    fn metrics_are_on_the_loopback_interface_unless_another_address_is_given() {
        for (text, address) in [("9272", "127.0.0.1:9272"), (":9272", "127.0.0.1:9272"), ("[::]:1", "[::]:1")] {
            assert_eq!(metrics_address(text), Ok(address.parse().unwrap()), "{text}");
        }
        for text in ["", "here", "127.0.0.1", "::1"] {
            let error = metrics_address(text).unwrap_err().to_string();
            assert!(error.contains("write it like 9272"), "{error}");
        }
    }
}
