//! What this host has to have, whatever plane carries.

use crate::config::{GatewayConfig, GatewayPath, Plane};
use kumade_net::forwarding::{MissingForwarding, missing_forwarding};
use kumade_net::interface::Family;
use kumade_net::interface_address::is_on_link;
use kumade_noise_session::PublicKey;
use std::net::IpAddr;
use thiserror::Error;

/// A configuration that cannot be on this host.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HostRefusal {
    /// A path's next hop is not on its interface's link.
    #[error(
        "the next hop {gateway} of path `{path}` is not on the link of {interface}: give the router's address in a network of \
         {interface} (`ip address show {interface}`), or first `ip route add {gateway} dev {interface}`"
    )]
    NextHopOffLink {
        /// The path's name.
        path: String,
        /// Its interface.
        interface: String,
        /// Its next hop.
        gateway: IpAddr,
    },
    /// A remote has this gateway's own key.
    #[error(
        "{key} of remote `{remote}` is this gateway's own public key: give the one that `kumade key public` prints there"
    )]
    OwnKey {
        /// The remote's name.
        remote: String,
        /// The key.
        key: PublicKey,
    },
}

impl GatewayConfig {
    /// Whether each next hop is on its path's link. What the system does not tell is taken for right.
    ///
    /// # Errors
    /// One is not.
    pub fn check_next_hops(&self) -> Result<(), HostRefusal> {
        self.check_next_hops_unlike(&[])
    }

    /// The same of paths that are not among these: a running gateway's are not refused because an interface is down for a while.
    ///
    /// # Errors
    /// As [`check_next_hops`](Self::check_next_hops).
    pub fn check_next_hops_unlike(&self, known: &[GatewayPath]) -> Result<(), HostRefusal> {
        let next_hops = |path: &GatewayPath| [Family::V4, Family::V6].map(|family| path.next_hop(family));
        let is_known = |path: &GatewayPath| {
            let is_alike =
                |other: &GatewayPath| other.interface == path.interface && next_hops(other) == next_hops(path);
            known.iter().any(is_alike)
        };
        for path in self.paths.iter().filter(|path| !is_known(path)) {
            for gateway in next_hops(path).into_iter().flatten() {
                if !is_on_link(&path.interface, gateway).unwrap_or(true) {
                    let (path, interface) = (path.name.clone(), path.interface.clone());
                    return Err(HostRefusal::NextHopOffLink { path, interface, gateway });
                }
            }
        }
        Ok(())
    }

    /// Whether no remote has this gateway's key, which is `own`.
    ///
    /// # Errors
    /// One has.
    pub fn check_own_key(&self, own: PublicKey) -> Result<(), HostRefusal> {
        let bonded = match &self.plane {
            Plane::Bonded(bonded) => bonded.peers.iter().map(Some).collect(),
            Plane::Direct => Vec::new(),
        };
        let sessions = self.sessions.iter().flat_map(|sessions| sessions.peers.iter().map(Option::as_ref));
        for (remote, peer) in self.remotes.iter().zip(bonded.into_iter().chain(sessions)) {
            if peer.is_some_and(|peer| peer.key == own) {
                return Err(HostRefusal::OwnKey { remote: remote.name.clone(), key: own });
            }
        }
        Ok(())
    }

    /// What a bonded gateway may lack to pass on the packets of its site's hosts, and what to try.
    pub fn forwarding_warnings(&self) -> Vec<String> {
        let networks = self.remotes.iter().flat_map(|remote| &remote.networks);
        let families: Vec<_> = networks.map(|network| Family::from_network(*network)).collect();
        let warning = |missing: &MissingForwarding| {
            let MissingForwarding { version, key } = missing;
            format!(
                "this host does not forward {version} packets, so that only its own pass: `sysctl -w {key}=1` changes that"
            )
        };
        missing_forwarding(&families).iter().map(warning).collect()
    }
}
