use crate::dataplane::config::NodeError;
use ipnet::IpNet;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Which peer has an address: the one with the longest matching prefix.
#[derive(Debug)]
pub(crate) struct Networks {
    peers: BTreeMap<IpNet, usize>,
    /// That there are, the longest first: there are few, however many networks.
    prefix_lengths: Vec<u8>,
}

impl Networks {
    /// Of peers in their order.
    pub(crate) fn new<'n>(peers: impl Iterator<Item = &'n [IpNet]>) -> Result<Self, NodeError> {
        let mut networks = BTreeMap::new();
        for (peer, own) in peers.enumerate() {
            for network in own.iter().map(IpNet::trunc) {
                if networks.insert(network, peer).is_some() {
                    return Err(NodeError::SharedNetwork(network));
                }
            }
        }
        let lengths: BTreeSet<_> = networks.keys().map(IpNet::prefix_len).collect();
        Ok(Networks { peers: networks, prefix_lengths: lengths.into_iter().rev().collect() })
    }

    pub(crate) fn find_peer(&self, address: IpAddr) -> Option<usize> {
        let networks = self.prefix_lengths.iter().filter_map(|length| IpNet::new(address, *length).ok());
        networks.filter_map(|network| self.peers.get(&network.trunc()).copied()).next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn networks(texts: &[&str]) -> Vec<IpNet> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn the_longest_prefix_decides() {
        let peers = [networks(&["0.0.0.0/0", "10.1.2.0/24"]), networks(&["10.1.0.0/16", "fd00::/8"])];
        let table = Networks::new(peers.iter().map(Vec::as_slice)).unwrap();
        for (address, peer) in
            [("10.1.2.3", Some(0)), ("10.1.3.3", Some(1)), ("192.0.2.1", Some(0)), ("fd01::1", Some(1)), ("::1", None)]
        {
            assert_eq!(table.find_peer(address.parse().unwrap()), peer, "{address}");
        }
    }

    #[test]
    fn a_network_has_one_peer() {
        let peers = [networks(&["10.1.0.0/16"]), networks(&["10.1.2.3/16"])];
        let error = Networks::new(peers.iter().map(Vec::as_slice)).unwrap_err().to_string();
        assert!(error.contains("10.1.0.0/16"), "{error}");
    }
}
