use crate::{BondConfig, HeaderCompression, ResequencerConfig};
use ipnet::IpNet;
use kumade_noise_session::{HandshakePolicy, PeerError, PresharedKey, PrivateKey, PublicKey, Route};
use kumade_units::ConfigError;
use thiserror::Error;

/// The settings of a [`Node`](crate::dataplane::Node).
#[derive(Debug, Clone)]
pub struct NodeConfig {
    /// Its own key.
    pub identity: PrivateKey,
    /// How handshakes are admitted; its capabilities are the node's.
    pub policy: HandshakePolicy,
    /// What it does with the headers of packets to and from peers that do that, too; all of it by default.
    pub header_compression: HeaderCompression,
    /// Its peers.
    pub remotes: Vec<RemoteConfig>,
}

/// A peer and the networks that it has.
#[derive(Debug, Clone)]
pub struct RemoteConfig {
    /// Its key.
    pub key: PublicKey,
    /// A second key that both have, or the default one.
    pub psk: PresharedKey,
    /// Packets to these go to it, and from these may come from it.
    pub networks: Vec<IpNet>,
    /// Where it is reached on each path, and from which socket of this host; `None` until it writes first.
    pub routes: Vec<Option<Route>>,
    /// The MTU of the interface of each path, in bytes, up to which the path's own is discovered; `None` for one that passes
    /// packets of every length. None at all, where such are to be sent on all of them.
    pub interface_mtus: Vec<Option<u32>>,
    /// Hosts send no longer packets, in bytes, whatever the paths pass.
    pub max_packet_bytes: u32,
    /// How its packets are shared over those paths.
    pub bond: BondConfig,
    /// How packets that come from it are put in order.
    pub resequencer: ResequencerConfig,
}

impl RemoteConfig {
    /// Whether there is a route, and an interface, for each path.
    pub(crate) fn check_counts(&self) -> Result<(), NodeError> {
        let (routes, paths, interfaces) = (self.routes.len(), self.bond.paths.len(), self.interface_mtus.len());
        if routes != paths {
            return Err(NodeError::RouteCount { routes, paths });
        }
        if interfaces != paths && interfaces != 0 {
            return Err(NodeError::InterfaceMtuCount { interfaces, paths });
        }
        Ok(())
    }

    /// Whether both are about one peer, with one second key.
    pub(crate) fn is_same_peer(&self, other: &RemoteConfig) -> bool {
        self.key == other.key && self.psk == other.psk
    }
}

/// Why there is no node.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NodeError {
    /// A peer is there twice, or is the node itself.
    #[error(transparent)]
    Peer(#[from] PeerError),
    /// A value of a bond is out of range.
    #[error(transparent)]
    Bond(#[from] ConfigError),
    /// Not as many routes as paths.
    #[error("a peer has {routes} routes for {paths} paths: give one for each, or none where it is not known")]
    RouteCount {
        /// How many routes.
        routes: usize,
        /// How many paths.
        paths: usize,
    },
    /// Not as many interfaces as paths.
    #[error("a peer has {interfaces} MTUs of interfaces for {paths} paths: give one for each, or none at all")]
    InterfaceMtuCount {
        /// How many MTUs.
        interfaces: usize,
        /// How many paths.
        paths: usize,
    },
    /// Two peers have the same network.
    #[error("two peers have the network {0}: a packet to it goes to one of them only")]
    SharedNetwork(IpNet),
}
