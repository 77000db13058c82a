use ipnet::IpNet;
use kumade_noise_session::PublicKey;
use std::net::IpAddr;
use std::str::FromStr;
use thiserror::Error;

/// The other end of a tunnel, and which addresses are there: `KEY=10.77.0.2` or `KEY=10.77.0.2,10.2.0.0/16`; or `KEY`, if it
/// sends no packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerConfig {
    /// What it is called, besides by its key.
    pub name: Option<String>,
    /// Its public key.
    pub key: PublicKey,
    /// Packets to these go there, and from these may come from there.
    pub networks: Vec<IpNet>,
}

/// Text that is no [`PeerConfig`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PeerConfigError {
    /// The key is none.
    #[error(
        "the key of peer `{text}`: {cause}; write its public key, =, and its addresses or networks, like \
         KEY=10.77.0.2,10.2.0.0/16"
    )]
    Key {
        /// As given.
        text: String,
        /// What is wrong.
        cause: String,
    },
    /// A network is none.
    #[error("`{0}` is no address or network: write 10.77.0.2 or 10.2.0.0/16")]
    Network(String),
}

impl PeerConfig {
    /// Its name, or the first digits of its key, enough to tell peers apart.
    pub fn label(&self) -> String {
        self.name.clone().unwrap_or_else(|| short_key(&self.key))
    }
}

/// A key's first digits, enough to tell peers apart.
pub fn short_key(key: &PublicKey) -> String {
    key.to_string().chars().take(8).collect()
}

impl FromStr for PeerConfig {
    type Err = PeerConfigError;

    fn from_str(text: &str) -> Result<Self, PeerConfigError> {
        let (key, networks) = text.split_once('=').map_or((text, None), |(key, networks)| (key, Some(networks)));
        let networks = networks.into_iter().flat_map(|networks| networks.split(','));
        let networks: Vec<_> = networks.map(parse_network).collect::<Result<_, _>>()?;
        let key = key.trim();
        let key = key.parse::<PublicKey>();
        let key = key.map_err(|cause| PeerConfigError::Key { text: text.to_owned(), cause: cause.to_string() })?;
        Ok(PeerConfig { name: None, key, networks })
    }
}

/// An address or a network.
pub(crate) fn parse_network(text: &str) -> Result<IpNet, PeerConfigError> {
    let text = text.trim();
    let address = || text.parse::<IpAddr>().map(IpNet::from);
    text.parse()
        .or_else(|_| address())
        .map(|network: IpNet| network.trunc())
        .map_err(|_| PeerConfigError::Network(text.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_noise_session::PrivateKey;

    #[test]
    fn a_peer_is_a_key_and_its_networks() {
        let key = PrivateKey::from_bytes([7; 32]).public_key();
        let peer: PeerConfig = format!("{key}=10.77.0.2, fd77::/64").parse().unwrap();
        assert_eq!(peer.key, key);
        assert_eq!(peer.networks, ["10.77.0.2/32", "fd77::/64"].map(|network| network.parse().unwrap()));
        assert_eq!(key.to_string().parse::<PeerConfig>().unwrap().networks, []);
        for (text, part) in
            [("none".to_owned(), "like KEY="), (format!("{key}=x"), "`x`"), ("ab=10.0.0.1".into(), "key")]
        {
            let error = text.parse::<PeerConfig>().unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
