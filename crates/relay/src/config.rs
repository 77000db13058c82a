use crate::allowed::AllowedTargets;
use crate::redirect::ConnectionRedirect;
use crate::target::{Target, TargetError};
use kumade_net::SocketBinding;
use kumade_net::tcp::RtoLimits;
use kumade_net::{ResolvedHost, ScopedAddress, ScopedAddressError};
use kumade_noise_session::{PresharedKey, PrivateKey, PublicKey};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;
use thiserror::Error;

/// The settings of one end of relayed connections.
#[derive(Debug, Clone)]
pub struct RelayConfig {
    /// This end's key.
    pub identity: PrivateKey,
    /// A second key that both ends have, or the default one.
    pub psk: PresharedKey,
    /// The limits of the retransmission timeout of the connections between the ends, of which the least is 40 ms
    /// or more.
    pub rto: RtoLimits,
    /// Which end it is.
    pub role: RelayRole,
}

/// Which end of relayed connections.
#[derive(Debug, Clone)]
pub enum RelayRole {
    /// Where they begin: accepts connections of local programs.
    Near {
        /// Where the far end listens.
        host: ResolvedHost,
        /// Its key.
        peer: PublicKey,
        /// From where on this host the connections to it leave.
        binding: SocketBinding,
        /// The congestion control of the connections to it; the system's default, if none.
        congestion_control: Option<String>,
        /// What is carried: connections to local ports, …
        forwards: Vec<Forward>,
        /// … and connections to networks.
        redirect: Option<ConnectionRedirect>,
    },
    /// Where they leave: connects to their targets.
    Far {
        /// Where to wait for near ends; none where another part of the program hands their connections over
        /// ([`Relay::acceptor`](crate::Relay::acceptor)).
        listen: Option<SocketAddr>,
        /// Who may be a near end.
        peers: Vec<PublicKey>,
        /// What these may reach.
        allowed: Vec<AllowedTargets>,
    },
}

/// A local port whose connections lead to a target: `[ADDRESS:]PORT:HOST:PORT`, at 127.0.0.1 where no address is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forward {
    /// Where local programs connect to.
    pub listen: SocketAddr,
    /// Where the far end connects to.
    pub target: Target,
}

/// Text that is no [`Forward`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ForwardError {
    /// It has another form.
    #[error(
        "`{0}` is no forwarding: write [ADDRESS:]PORT:HOST:PORT, like 8080:web.example:80 or [::1]:8080:10.2.0.7:80"
    )]
    Malformed(String),
    /// What stands behind the local port.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// Where programs are to connect.
    #[error(transparent)]
    Address(#[from] ScopedAddressError),
}

impl FromStr for Forward {
    type Err = ForwardError;

    fn from_str(text: &str) -> Result<Self, ForwardError> {
        let form = || ForwardError::Malformed(text.to_owned());
        let parts = split_at_colons(text);
        let (address, port, host, target_port) = match parts[..] {
            [port, host, target_port] => (None, port, host, target_port),
            [address, port, host, target_port] => (Some(address), port, host, target_port),
            _ => return Err(form()),
        };
        let address = match address {
            None => IpAddr::from(Ipv4Addr::LOCALHOST).into(),
            Some(address) => unbracketed(address).parse().map_err(|error| match error {
                ScopedAddressError::Malformed(_) => form(),
                error => error.into(),
            })?,
        };
        let port = port.parse().map_err(|_| form())?;
        Ok(Forward {
            listen: ScopedAddress::with_port(address, port),
            target: format!("{host}:{target_port}").parse()?,
        })
    }
}

impl fmt::Display for Forward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.listen, self.target)
    }
}

/// At the colons that stand in no brackets.
fn split_at_colons(text: &str) -> Vec<&str> {
    let mut is_inside = false;
    let outside = |c: char| {
        is_inside = (is_inside || c == '[') && c != ']';
        c == ':' && !is_inside
    };
    text.split(outside).collect()
}

fn unbracketed(address: &str) -> &str {
    address.strip_prefix('[').and_then(|address| address.strip_suffix(']')).unwrap_or(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forwarding_is_a_local_port_and_a_target() {
        for (text, shown) in [
            ("8080:web.example:80", "127.0.0.1:8080:web.example:80"),
            ("0.0.0.0:8080:10.2.0.7:80", "0.0.0.0:8080:10.2.0.7:80"),
            ("[::1]:8080:[fd77::1]:80", "[::1]:8080:[fd77::1]:80"),
        ] {
            assert_eq!(text.parse::<Forward>().unwrap().to_string(), shown);
        }
        for text in
            ["", "8080", "8080:80", "x:web:80", "8080:web:x", "::1:8080:web:80", "host:8080:web:80", "[8080:a:1"]
        {
            assert!(text.parse::<Forward>().unwrap_err().to_string().contains("write "), "{text}");
        }
    }
}
