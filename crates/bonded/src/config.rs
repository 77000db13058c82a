use ipnet::IpNet;
use multipath::{PathChoice, UnorderedFlows};
use net::Binding;
use net::interface::Family;
use net::policy::MarkedRoute;
use secure::{PresharedKey, PrivateKey, PublicKey};
use service::RuntimeDir;
use std::net::SocketAddr;
use units::Rate;

/// The settings of a [`BondedPlane`](crate::BondedPlane).
#[derive(Debug, Clone)]
pub struct BondedConfig {
    /// The name of the TUN device.
    pub device: String,
    /// The length of the longest IP packet, in bytes, that passes the tunnel; what all paths pass, if none.
    pub mtu: Option<u16>,
    /// The addresses of the device; none is needed to forward.
    pub addresses: Vec<IpNet>,
    /// The UDP port on all paths.
    pub port: u16,
    /// This gateway's key.
    pub identity: PrivateKey,
    /// From where datagrams leave on each path, and what it carries, if that is known.
    pub paths: Vec<(Binding, Option<Rate>)>,
    /// The next hops of the paths: the routes of those packets that have the mark of a path's binding.
    pub routes: Vec<MarkedRoute>,
    /// Where those are written down, so that they can be removed after a crash.
    pub directory: RuntimeDir,
    /// Which path takes the next packet.
    pub choice: PathChoice,
    /// Which flows prefer speed to order.
    pub unordered: UnorderedFlows,
    /// The gateways of other sites.
    pub remotes: Vec<BondedRemote>,
}

/// The gateway of another site.
#[derive(Debug, Clone)]
pub struct BondedRemote {
    /// Its key.
    pub key: PublicKey,
    /// A second key that both gateways have, or the default one.
    pub psk: PresharedKey,
    /// The networks of its site.
    pub networks: Vec<IpNet>,
    /// Where it is reached on each path; `None` until it writes first.
    pub addresses: Vec<Option<SocketAddr>>,
}

impl BondedConfig {
    /// The IP version of datagrams on a path: that of the remote gateways' addresses there.
    pub(crate) fn family(&self, path: usize) -> Family {
        let addresses = self.remotes.iter().filter_map(|remote| remote.addresses[path]).map(|address| address.ip());
        addresses.chain(self.paths[path].0.source).next().map_or(Family::V4, Family::of)
    }

    /// Bytes of the IP and UDP headers of datagrams.
    pub(crate) fn outer_bytes(family: Family) -> u32 {
        match family {
            Family::V4 => 28,
            Family::V6 => 48,
        }
    }
}
