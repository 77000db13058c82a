use crate::ratio::PathRatio;
use ipnet::IpNet;
use kumade_multipath::nat_session::NatConfig;
use kumade_multipath::{PathPolicy, UnorderedFlows};
use kumade_net::interface::Family;
use kumade_noise_session::PublicKey;
use kumade_overlay_io::OuterDscp;
use kumade_units::Rate;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

/// What a gateway is to do, consistent in itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayConfig {
    /// Fit to be a file's name.
    pub name: String,
    /// How packets go from site to site.
    pub plane: Plane,
    /// How paths are measured, where that is wanted.
    pub measurement: MeasurementConfig,
    /// Where Prometheus fetches metrics.
    pub prometheus: Option<SocketAddr>,
    /// The command, for the shell, that is run when a remote gateway or a path changes.
    pub on_event: Option<String>,
    /// What NAT sessions need, if a remote has them; in the direct plane only.
    pub sessions: Option<SessionsConfig>,
    /// Networks behind this gateway. They do not overlap each other or those of remote sites.
    pub locals: Vec<LocalSite>,
    /// Ways to the remote sites, with names that differ.
    pub paths: Vec<GatewayPath>,
    /// Networks that are reached over several paths. None overlaps another, but for 0.0.0.0/0 and ::/0, which mean all others.
    pub remotes: Vec<RemoteSite>,
    /// Addresses that are others on the way. No alias belongs to two networks, and none is an address of a network.
    pub translations: Vec<AddressTranslation>,
}

/// How packets go from site to site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plane {
    /// As they are, but for addresses; forwarded by the kernel.
    Direct,
    /// Encrypted, over several paths at once, and in order.
    Bonded(BondedSettings),
}

/// How paths are measured, and whether those of others are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeasurementConfig {
    /// The file of a key that both sites have; without it, anyone is answered.
    pub key_file: Option<PathBuf>,
    /// Whether this gateway answers the measurements of others.
    pub is_answering: bool,
    /// Where it does, on all addresses: TCP and UDP.
    pub port: u16,
}

/// What the bonded plane needs besides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BondedSettings {
    /// The file of this gateway's private key.
    pub key_file: PathBuf,
    /// The name of the TUN device.
    pub device: String,
    /// The length of the longest packet that passes the tunnel, in bytes; what all paths pass, if none.
    pub mtu: Option<u16>,
    /// The UDP port on all paths.
    pub port: u16,
    /// How many threads carry packets; each further one has the next port.
    pub threads: usize,
    /// Addresses of the TUN device.
    pub addresses: Vec<IpNet>,
    /// Which path takes the next packet.
    pub path_policy: PathPolicy,
    /// Which flows prefer speed to order.
    pub unordered_flows: UnorderedFlows,
    /// The DSCP of the packets between the gateways.
    pub dscp: OuterDscp,
    /// The remote gateways, in the order of [`GatewayConfig::remotes`].
    pub peers: Vec<RemotePeer>,
}

/// What NAT sessions of the direct plane need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionsConfig {
    /// The file of this gateway's private key.
    pub key_file: PathBuf,
    /// The UDP port on all paths.
    pub port: u16,
    /// When sessions end, and how many there may be.
    pub limits: NatConfig,
    /// The remote gateways, in the order of [`GatewayConfig::remotes`]; none where a remote has no sessions.
    pub peers: Vec<Option<RemotePeer>>,
}

/// A remote gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemotePeer {
    /// Its public key.
    pub key: PublicKey,
    /// The file of a second key that both have.
    pub psk_file: Option<PathBuf>,
    /// Where it is on each path; `None` until it writes first.
    pub addresses: Vec<Option<SocketAddr>>,
}

/// Hosts behind this gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalSite {
    /// Where their packets arrive.
    pub interface: String,
    /// Their addresses; all that arrive there if empty.
    pub networks: Vec<IpNet>,
}

/// A way to remote sites.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayPath {
    /// Fit to be a file's name.
    pub name: String,
    /// Where its packets leave and arrive.
    pub interface: String,
    /// The next hop for IPv4.
    pub gateway_v4: Option<Ipv4Addr>,
    /// The next hop for IPv6.
    pub gateway_v6: Option<Ipv6Addr>,
    /// Its part of the packets.
    pub weight: u32,
    /// What it carries, if that is known.
    pub rate: Option<Rate>,
}

/// Hosts at another site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteSite {
    /// Fit to be a file's name.
    pub name: String,
    /// Their addresses.
    pub networks: Vec<IpNet>,
    /// Places in [`GatewayConfig::paths`].
    pub paths: Vec<usize>,
    /// Of these paths' weights; one of them at least is above 0.
    pub ratio: PathRatio,
    /// Where the paths are measured to, in their order; empty where they are not measured.
    pub measurement_addresses: Vec<SocketAddr>,
    /// Whether only single flows are divided, which are set up while packets pass.
    pub divides_single_flows: bool,
}

/// Addresses that are others on the way: each the one of the same place in its network, or, where network and alias differ in
/// size, any of the alias, as NAT sessions agree for each flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressTranslation {
    /// Where the hosts are.
    pub side: GatewaySide,
    /// Their addresses as they and others see them.
    pub network: IpNet,
    /// Their addresses on the way, of the same IP version.
    pub alias: IpNet,
    /// The place in [`GatewayConfig::paths`] of the path on which packets leave with the alias.
    pub path: Option<usize>,
}

/// Where hosts are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GatewaySide {
    /// Behind this gateway: their address is a packet's source on the way out, and its destination on the way in.
    Local,
    /// At a remote site: the other way round.
    Remote,
}

impl AddressTranslation {
    /// Whether a flow has one of the alias's addresses only for as long as its session.
    pub fn is_shared(&self) -> bool {
        self.network.prefix_len() != self.alias.prefix_len()
    }
}

impl GatewayConfig {
    /// Whether a translation is made for all packets, because a remote that it is about has no sessions.
    pub(crate) fn is_static(&self, translation: &AddressTranslation) -> bool {
        let is_about = |remote: &&RemoteSite| match translation.side {
            GatewaySide::Local => true,
            GatewaySide::Remote => {
                remote.networks.iter().any(|net| net.prefix_len() > 0 && net.contains(&translation.network))
            }
        };
        self.remotes.iter().filter(is_about).any(|remote| !remote.divides_single_flows)
    }
}

impl GatewayPath {
    /// Whether it has a next hop for packets of any IP version.
    pub(crate) fn has_next_hop(&self) -> bool {
        self.gateway_v4.is_some() || self.gateway_v6.is_some()
    }

    /// The next hop for packets of that IP version.
    pub fn next_hop(&self, family: Family) -> Option<IpAddr> {
        match family {
            Family::V4 => self.gateway_v4.map(IpAddr::V4),
            Family::V6 => self.gateway_v6.map(IpAddr::V6),
        }
    }
}
