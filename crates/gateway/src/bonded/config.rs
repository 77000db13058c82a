use crate::config::{Bonded, Config, Path};
use ipnet::IpNet;
use multipath::{PathChoice, UnorderedFlows};
use net::Binding;
use secure::{PresharedKey, PrivateKey, PublicKey};
use std::net::{IpAddr, SocketAddr};
use units::Rate;

/// The settings of a [`BondedPlane`](crate::bonded::BondedPlane).
#[derive(Debug, Clone)]
pub struct BondedConfig {
    /// The name of the TUN device.
    pub device: String,
    /// The length of the longest IP packet, in bytes, that passes the tunnel.
    pub mtu: u16,
    /// The addresses of the device; none is needed to forward.
    pub addresses: Vec<IpNet>,
    /// The UDP port on all paths.
    pub port: u16,
    /// This gateway's key.
    pub identity: PrivateKey,
    /// From where datagrams leave on each path, and what it carries, if that is known.
    pub paths: Vec<(Binding, Option<Rate>)>,
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
    /// What a valid configuration comes to. `identity` is the key of its key file, `psks` are those of the remotes' files, or
    /// the default one.
    pub fn new(config: &Config, bonded: &Bonded, identity: PrivateKey, psks: Vec<PresharedKey>) -> Self {
        let path = |path: &Path| (Binding { interface: Some(path.interface.clone()), ..Binding::default() }, path.rate);
        let remotes = config.remotes.iter().zip(&bonded.peers).zip(psks);
        let remotes = remotes.map(|((remote, peer), psk)| BondedRemote {
            key: peer.key,
            psk,
            networks: remote.networks.clone(),
            addresses: peer.addresses.clone(),
        });
        BondedConfig {
            device: bonded.device.clone(),
            mtu: bonded.mtu,
            addresses: bonded.addresses.clone(),
            port: bonded.port,
            identity,
            paths: config.paths.iter().map(path).collect(),
            choice: bonded.choice.clone(),
            unordered: bonded.unordered.clone(),
            remotes: remotes.collect(),
        }
    }

    /// Bytes of the IP and UDP headers of datagrams on a path.
    pub(super) fn outer_bytes(address: Option<SocketAddr>) -> u32 {
        match address.map(|address| address.ip().to_canonical()) {
            Some(IpAddr::V4(_)) => 28,
            _ => 48,
        }
    }
}
