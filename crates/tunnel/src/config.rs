use crate::peer::PeerConfig;
use ipnet::IpNet;
use kumade_daemon::RuntimeDir;
use kumade_multipath::{PathId, PathPolicy, UnorderedFlows};
use kumade_net::policy_routing::NetworkRoute;
use kumade_net::{ResolvedHost, SocketBinding};
use kumade_noise_session::{PresharedKey, PrivateKey, PublicKey};
use kumade_overlay_io::{
    BondedConfig, BondedRemote, ConnectionConfig, ConnectionRole, ConnectionTuning, DatagramConfig, OuterDscp,
    OuterTransportConfig,
};
use kumade_relay::{AllowedTargets, ConnectionRedirect, Forward, RelayConfig, RelayRole};
use kumade_units::Span;
use std::cmp::Reverse;
use std::net::{Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use thiserror::Error;

/// The port of tunnels where none is given, for TCP and for UDP.
pub const DEFAULT_PORT: u16 = 7274;

/// The settings of one end of a tunnel.
#[derive(Debug, Clone)]
pub struct TunnelConfig {
    /// Which end, and where the other one is.
    pub end: TunnelEnd,
    /// What carries the packets.
    pub transport: TransportMode,
    /// The name of the TUN device.
    pub device: String,
    /// The length of the longest packet that passes, in bytes. If none: where UDP may carry, what the path passes that way, so
    /// that packets suit either carrier; 1500 over TCP alone.
    pub mtu: Option<u16>,
    /// The addresses of the device, each with the network that is reached through it.
    pub addresses: Vec<IpNet>,
    /// This end's key.
    pub identity: PrivateKey,
    /// A second key that both ends have, or the default one.
    pub psk: PresharedKey,
    /// Who may be at the other end: one, where this end connects.
    pub peers: Vec<PeerConfig>,
    /// The congestion control of TCP connections; the system's default, if none.
    pub congestion_control: Option<String>,
    /// What else is set on them.
    pub tuning: ConnectionTuning,
    /// The DSCP of the packets between the ends; of relayed connections, it is zero.
    pub dscp: OuterDscp,
    /// TCP connections that are carried without packets.
    pub relayed_connections: RelayedConfig,
}

/// TCP connections that are ended at this end and carried as streams: no device is needed for them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RelayedConfig {
    /// Local ports, where this end connects.
    pub forwards: Vec<Forward>,
    /// Other hosts whose connections are relayed as this host's are, where [`TransportMode::Relay`] carries.
    pub sources: Vec<IpNet>,
    /// What the other ends may reach, where this end listens.
    pub allowed: Vec<AllowedTargets>,
}

/// Which end of a tunnel.
#[derive(Debug, Clone)]
pub enum TunnelEnd {
    /// It waits for others at this address.
    Listen(SocketAddr),
    /// It connects to the one that waits there.
    Connect(ResolvedHost),
}

/// What carries the packets of a tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransportMode {
    /// UDP or up to so many TCP connections, whichever passes and performs ([`kumade_multipath::TransportSelector`]); the end that listens
    /// takes whatever comes.
    Auto(usize),
    /// UDP datagrams.
    Udp,
    /// One TCP connection.
    Tcp,
    /// So many TCP connections; the end that listens takes as many as come.
    Rake(usize),
    /// The same for packets; TCP connections from the connecting end to the other end's networks are relayed.
    Relay(usize),
}

/// Settings that contradict each other.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TunnelConfigError {
    /// Nobody to talk to.
    #[error("no peer: give the public key of one, from `kumade key public` there")]
    NoPeer,
    /// More than one peer at one address.
    #[error("{0} peers, where this end connects to one")]
    SeveralPeers(usize),
    /// A peer has this end's own key.
    #[error(
        "{0} is this end's own public key: give the one that `kumade key public` prints at the other end, from the key file there"
    )]
    OwnKey(PublicKey),
    /// A key is given twice.
    #[error(
        "two peers have the key {0}: give each end a key of its own, or one peer all networks, like KEY=10.77.0.2,10.2.0.0/16"
    )]
    SameKey(PublicKey),
    /// Packets are carried, but none to this peer.
    #[error(
        "no packet could reach the peer {0}: write its addresses in the tunnel behind its key, like KEY=10.77.0.2 or \
         KEY=10.77.0.2,10.2.0.0/16; in a file, as its `networks`"
    )]
    NoNetworks(PublicKey),
    /// A packet to a network goes to one peer.
    #[error("two peers have the network {0}: a packet to it goes to one of them only")]
    SharedNetwork(IpNet),
    /// No interface can be called so.
    #[error("`{0}` is no name of a device: give 1 to 15 characters without spaces and slashes")]
    DeviceName(String),
    /// Two forwardings begin at one port.
    #[error("two forwardings begin at {0}: connections to it go to one of their targets only")]
    SamePort(SocketAddr),
    /// Too many connections, or none.
    #[error("{0} connections: give 1 to {max}", max = PathId::MAX_PATHS)]
    ConnectionCount(usize),
    /// A least timeout that the kernel refuses.
    #[error(
        "a minimum retransmission timeout of {0}: a socket's may be 1 µs to 200 ms; a longer one is the system's to set, with \
         `sysctl net.ipv4.tcp_rto_min_us` or `ip route change ... rto_min`, and --min-rto 0"
    )]
    MinRto(Span),
    /// A greatest timeout that the kernel refuses.
    #[error("a maximum retransmission timeout of {0}: give 1 s to 120 s")]
    MaxRto(Span),
    /// Neither an address of a device nor anything to relay.
    #[error("nothing to carry: give this end an address in the tunnel (--address), in a file `addresses`, or {0}")]
    NothingToCarry(&'static str),
}

const TCP_MTU_BYTES: u16 = 1500;
/// Routing table and rule priority of the first network that has its own; those of further ones follow. Behind those of
/// gateways.
pub(crate) const FIRST_ROUTE_TABLE: u32 = 0x6b61;
/// Those of the default routes of IPv4 and IPv6: behind all others, since smaller networks come first.
pub(crate) const DEFAULT_ROUTE_TABLES: [u32; 2] = [FIRST_ROUTE_TABLE + 62, FIRST_ROUTE_TABLE + 63];
/// The mark of packets between the ends, of IPv4 and IPv6.
pub(crate) const OUTER_MARK: u32 = FIRST_ROUTE_TABLE;
/// `IFNAMSIZ`, without the byte that ends it.
const MAX_DEVICE_NAME_BYTES: usize = 15;
/// What the kernel takes for one socket (`TCP_RTO_MIN_US`).
const MIN_RTO_RANGE: RangeInclusive<Span> = Span::from_micros(1)..=Span::from_millis(200);
/// The same of the greatest (`TCP_RTO_MAX_MS`).
const MAX_RTO_RANGE: RangeInclusive<Span> = Span::from_secs(1)..=Span::from_secs(120);

impl TransportMode {
    /// As many connections as a rake has where no other number is given.
    pub const DEFAULT_CONNECTIONS: usize = PathId::MAX_PATHS;

    /// As people give it.
    pub fn name(self) -> &'static str {
        match self {
            TransportMode::Auto(_) => "auto",
            TransportMode::Udp => "udp",
            TransportMode::Tcp => "tcp",
            TransportMode::Rake(_) => "rake",
            TransportMode::Relay(_) => "relay",
        }
    }
}

impl TunnelConfig {
    /// What it comes to. In `directory` changes of the system are written down, so that they can be undone after a crash.
    ///
    /// # Errors
    /// Settings that contradict each other.
    pub fn bonded_config(self, directory: RuntimeDir) -> Result<BondedConfig, TunnelConfigError> {
        self.validate_packets()?;
        let has_datagrams = matches!(self.transport, TransportMode::Auto(_) | TransportMode::Udp);
        let mtu = if has_datagrams { self.mtu } else { self.mtu.or(Some(TCP_MTU_BYTES)) };
        let host = match &self.end {
            TunnelEnd::Connect(host) => Some(host.clone()),
            TunnelEnd::Listen(_) => None,
        };
        let far = host.as_ref().map(ResolvedHost::address);
        let choice =
            if self.transport == TransportMode::Udp { PathPolicy::EarliestArrival } else { PathPolicy::LeastSent };
        let (carriers, network_routes) = (self.transport_config(), self.network_routes());
        let addresses = if has_datagrams { vec![far] } else { Vec::new() };
        let remotes = self.peers.into_iter().map(|peer| BondedRemote {
            key: peer.key,
            psk: self.psk.clone(),
            networks: peer.networks,
            addresses: addresses.clone(),
            host: host.clone(),
        });
        Ok(BondedConfig {
            device: self.device,
            mtu,
            addresses: self.addresses,
            identity: self.identity,
            transports: carriers,
            policy: choice,
            unordered_flows: UnorderedFlows::default(),
            remotes: remotes.collect(),
            network_routes,
            directory,
        })
    }

    fn transport_config(&self) -> OuterTransportConfig {
        match self.transport {
            TransportMode::Auto(connections) => {
                OuterTransportConfig::UdpOrTcp(self.datagram_config(), self.connection_config(connections))
            }
            TransportMode::Udp => OuterTransportConfig::Udp(self.datagram_config()),
            TransportMode::Tcp => OuterTransportConfig::Tcp(self.connection_config(1)),
            TransportMode::Rake(connections) | TransportMode::Relay(connections) => {
                OuterTransportConfig::Tcp(self.connection_config(connections))
            }
        }
    }

    fn connection_config(&self, connections: usize) -> ConnectionConfig {
        let role = match &self.end {
            TunnelEnd::Listen(address) => ConnectionRole::Listen { address: *address, handover: None },
            TunnelEnd::Connect(host) => {
                ConnectionRole::Connect { address: host.address(), binding: self.outer_binding(), connections }
            }
        };
        ConnectionConfig {
            role,
            congestion_control: self.congestion_control.clone(),
            dscp: self.dscp.connection_dscp(),
            tuning: self.tuning,
        }
    }

    fn datagram_config(&self) -> DatagramConfig {
        let (port, source) = match &self.end {
            TunnelEnd::Listen(address) => (address.port(), Some(address.ip())),
            // Its next address may be of the other IP version.
            TunnelEnd::Connect(host) if host.is_named() => (0, Some(Ipv6Addr::UNSPECIFIED.into())),
            TunnelEnd::Connect(_) => (0, None),
        };
        let paths = vec![(SocketBinding { source, ..self.outer_binding() }, None)];
        DatagramConfig { port, threads: 1, paths, routes: Vec::new(), dscp: self.dscp }
    }

    /// Where this end connects and has a device, the sockets to the far end have a mark: no route leads their packets into
    /// the tunnel.
    fn outer_binding(&self) -> SocketBinding {
        let is_marked = self.has_device() && matches!(self.end, TunnelEnd::Connect(_));
        SocketBinding { mark: is_marked.then_some(OUTER_MARK), ..SocketBinding::default() }
    }

    /// Routes in tables of their own. The default route, which the main table mostly has already, and networks in which the
    /// far end itself is reached: the tunnel's own packets must not go into the tunnel.
    pub fn network_routes(&self) -> Vec<NetworkRoute> {
        let TunnelEnd::Connect(host) = &self.end else { return Vec::new() };
        let far = host.address().ip().to_canonical();
        let networks = self.peers.iter().flat_map(|peer| &peer.networks).copied();
        let mut networks: Vec<_> = networks.filter(|own| own.prefix_len() == 0 || own.contains(&far)).collect();
        // The smallest come first.
        networks.sort_by_key(|network| (Reverse(network.prefix_len()), *network));
        networks.dedup();
        let route = |(number, network): (u32, IpNet)| NetworkRoute {
            number: if network.prefix_len() > 0 {
                number
            } else {
                DEFAULT_ROUTE_TABLES[usize::from(network.addr().is_ipv6())]
            },
            network,
            excluded_mark: OUTER_MARK,
            interface: self.device.clone(),
        };
        (FIRST_ROUTE_TABLE..DEFAULT_ROUTE_TABLES[0]).zip(networks).map(route).collect()
    }

    /// The relay that it comes to, if any. A listening end has one for what its connections may ask of it, be it to refuse
    /// that. Whether packets are carried says whether connections come by way of these.
    pub(crate) fn relay_config(&self) -> Option<RelayConfig> {
        let role = match &self.end {
            TunnelEnd::Connect(host) => self.near_role(host)?,
            TunnelEnd::Listen(address) => self.far_role(*address)?,
        };
        Some(RelayConfig { identity: self.identity.clone(), psk: self.psk.clone(), rto: self.tuning.rto, role })
    }

    fn near_role(&self, host: &ResolvedHost) -> Option<RelayRole> {
        let peer = self.peers.first()?;
        let redirect = self.is_relaying().then(|| ConnectionRedirect {
            networks: peer.networks.clone(),
            device: self.device.clone(),
            sources: self.relayed_connections.sources.clone(),
        });
        let forwards = self.relayed_connections.forwards.clone();
        let congestion_control = self.congestion_control.clone();
        let has_any = redirect.is_some() || !forwards.is_empty();
        let (host, peer, binding) = (host.clone(), peer.key, self.outer_binding());
        has_any.then_some(RelayRole::Near { host, peer, binding, congestion_control, forwards, redirect })
    }

    fn far_role(&self, address: SocketAddr) -> Option<RelayRole> {
        let mut allowed = self.relayed_connections.allowed.clone();
        if self.is_relaying() {
            // What packets would reach without being forwarded.
            allowed.extend(self.own_addresses().into_iter().map(AllowedTargets::from_network));
        }
        let shares_port = self.has_device() && self.transport != TransportMode::Udp;
        let listen = (!shares_port).then_some(address);
        let peers = self.peers.iter().map(|peer| peer.key).collect();
        (shares_port || !allowed.is_empty()).then_some(RelayRole::Far { listen, peers, allowed })
    }

    /// Whether connections are relayed in place of their packets.
    fn is_relaying(&self) -> bool {
        self.has_device() && matches!(self.transport, TransportMode::Relay(_))
    }

    fn own_addresses(&self) -> Vec<IpNet> {
        self.addresses.iter().map(|own| IpNet::from(own.addr())).collect()
    }

    /// Whether packets are carried.
    pub fn has_device(&self) -> bool {
        !self.addresses.is_empty()
    }

    /// Whether there is anything to carry, and the settings agree.
    ///
    /// # Errors
    /// Settings that contradict each other.
    pub fn validate(&self) -> Result<(), TunnelConfigError> {
        match &self.end {
            _ if self.has_device() => {}
            TunnelEnd::Connect(_) if self.relayed_connections.forwards.is_empty() => {
                return Err(TunnelConfigError::NothingToCarry(
                    "ports whose connections are carried (--forward), in a file `forwards`",
                ));
            }
            TunnelEnd::Listen(_) if self.relayed_connections.allowed.is_empty() => {
                return Err(TunnelConfigError::NothingToCarry(
                    "what the other ends may connect to (--allow), in a file `allow`",
                ));
            }
            TunnelEnd::Connect(_) | TunnelEnd::Listen(_) => {}
        }
        self.validate_packets()
    }

    fn validate_packets(&self) -> Result<(), TunnelConfigError> {
        match (&self.end, self.peers.len()) {
            (_, 0) => return Err(TunnelConfigError::NoPeer),
            (TunnelEnd::Connect(_), peers @ 2..) => return Err(TunnelConfigError::SeveralPeers(peers)),
            _ => {}
        }
        self.validate_peers()?;
        self.validate_timeouts()?;
        self.validate_names()?;
        match self.transport {
            TransportMode::Auto(connections) | TransportMode::Rake(connections) | TransportMode::Relay(connections)
                if !(1..=PathId::MAX_PATHS).contains(&connections) =>
            {
                Err(TunnelConfigError::ConnectionCount(connections))
            }
            _ => Ok(()),
        }
    }

    fn validate_peers(&self) -> Result<(), TunnelConfigError> {
        let own = self.identity.public_key();
        for (place, PeerConfig { key, networks, .. }) in self.peers.iter().enumerate() {
            if *key == own {
                return Err(TunnelConfigError::OwnKey(own));
            }
            if self.peers[..place].iter().any(|other| other.key == *key) {
                return Err(TunnelConfigError::SameKey(*key));
            }
            if self.has_device() && networks.is_empty() {
                return Err(TunnelConfigError::NoNetworks(*key));
            }
        }
        if self.has_device() {
            let networks = self.peers.iter().flat_map(|peer| &peer.networks).map(IpNet::trunc);
            find_repeated(networks).map_or(Ok(()), |shared| Err(TunnelConfigError::SharedNetwork(shared)))?;
        }
        Ok(())
    }

    fn validate_names(&self) -> Result<(), TunnelConfigError> {
        let fits = |c: char| !c.is_whitespace() && c != '/' && c != '\0';
        let is_name = (1..=MAX_DEVICE_NAME_BYTES).contains(&self.device.len()) && self.device.chars().all(fits);
        if self.has_device() && (!is_name || [".", ".."].contains(&self.device.as_str())) {
            return Err(TunnelConfigError::DeviceName(self.device.clone()));
        }
        // The system chooses one for each where it is 0.
        let listened = self.relayed_connections.forwards.iter().map(|forward| forward.listen);
        let repeated = find_repeated(listened.filter(|address| address.port() > 0));
        repeated.map_or(Ok(()), |address| Err(TunnelConfigError::SamePort(address)))
    }

    fn validate_timeouts(&self) -> Result<(), TunnelConfigError> {
        match (self.tuning.rto.min, self.tuning.rto.max) {
            (Some(least), _) if !MIN_RTO_RANGE.contains(&least) => Err(TunnelConfigError::MinRto(least)),
            (_, Some(most)) if !MAX_RTO_RANGE.contains(&most) => Err(TunnelConfigError::MaxRto(most)),
            _ => Ok(()),
        }
    }
}

/// What comes more than once.
fn find_repeated<T: Ord>(items: impl Iterator<Item = T>) -> Option<T> {
    let mut items: Vec<_> = items.collect();
    items.sort();
    let place = items.windows(2).position(|pair| pair[0] == pair[1])?;
    Some(items.swap_remove(place))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use kumade_net::tcp::RtoLimits;

    pub(crate) fn config(carrier: TransportMode, networks: &str) -> TunnelConfig {
        let key = PrivateKey::from_bytes([7; 32]).public_key();
        TunnelConfig {
            dscp: OuterDscp::default(),
            end: TunnelEnd::Connect("192.0.2.1:443".parse::<SocketAddr>().unwrap().into()),
            transport: carrier,
            device: "tunnel".into(),
            mtu: None,
            addresses: vec!["10.77.0.1/24".parse().unwrap()],
            identity: PrivateKey::from_bytes([8; 32]),
            psk: PresharedKey::default(),
            peers: vec![format!("{key}={networks}").parse().unwrap()],
            congestion_control: None,
            tuning: ConnectionTuning::default(),
            relayed_connections: RelayedConfig::default(),
        }
    }

    fn directory() -> RuntimeDir {
        RuntimeDir::from_path(std::path::PathBuf::from("unused"))
    }

    #[test]
    fn packets_over_tcp_have_the_usual_length_and_those_over_udp_what_the_path_passes() {
        let plane = |carrier| config(carrier, "10.77.0.0/24").bonded_config(directory()).unwrap();
        let carriers = [TransportMode::Auto(16), TransportMode::Udp, TransportMode::Rake(16)];
        assert_eq!(carriers.map(|carrier| plane(carrier).mtu), [None, None, Some(1500)]);
        assert_eq!(plane(TransportMode::Udp).remotes[0].addresses, [Some("192.0.2.1:443".parse().unwrap())]);
    }

    #[test]
    fn the_default_route_and_networks_of_the_far_end_have_tables_of_their_own() {
        let plane =
            config(TransportMode::Tcp, "0.0.0.0/0,10.77.0.0/24,192.0.2.0/24,::/0").bonded_config(directory()).unwrap();
        let routes: Vec<_> = plane.network_routes.iter().map(ToString::to_string).collect();
        let expected = "ip -4 rule add priority 27489 to 192.0.2.0/24 table main suppress_prefixlength 24\n\
            ip -4 rule add priority 27489 not fwmark 0x6b61 table 27489\n\
            ip -4 route add 192.0.2.0/24 dev tunnel table 27489\n\
            ip -4 rule add priority 27551 table main suppress_prefixlength 0\n\
            ip -4 rule add priority 27551 not fwmark 0x6b61 table 27551\n\
            ip -4 route add 0.0.0.0/0 dev tunnel table 27551\n\
            ip -6 rule add priority 27552 table main suppress_prefixlength 0\n\
            ip -6 rule add priority 27552 not fwmark 0x6b61 table 27552\n\
            ip -6 route add ::/0 dev tunnel table 27552";
        assert_eq!(routes.join("\n"), expected);
        assert_eq!(config(TransportMode::Tcp, "10.77.0.0/24").bonded_config(directory()).unwrap().network_routes, []);
    }

    #[test]
    fn what_cannot_be_is_refused_with_what_to_do() {
        let refused = |config: TunnelConfig| config.bonded_config(directory()).unwrap_err().to_string();
        assert!(refused(config(TransportMode::Rake(17), "10.77.0.0/24")).contains("give 1 to 16"));
        let timeouts = |min, max| {
            let tuning = ConnectionTuning { rto: RtoLimits { min, max }, ..ConnectionTuning::default() };
            refused(TunnelConfig { tuning, ..config(TransportMode::Tcp, "10.0.0.1") })
        };
        assert!(timeouts(Some(Span::from_secs(3)), None).contains("sysctl net.ipv4.tcp_rto_min_us"));
        assert!(timeouts(None, Some(Span::from_millis(20))).contains("give 1 s to 120 s"));
        assert!(refused(TunnelConfig { peers: vec![], ..config(TransportMode::Tcp, "10.0.0.1") }).contains("no peer"));
        let peers = |peers: &[&str]| {
            let peers = peers.iter().map(|peer| peer.parse().unwrap()).collect();
            let end = TunnelEnd::Listen("192.0.2.1:443".parse().unwrap());
            refused(TunnelConfig { end, peers, ..config(TransportMode::Tcp, "10.0.0.1") })
        };
        let [own, other] = [8, 7].map(|byte| PrivateKey::from_bytes([byte; 32]).public_key().to_string());
        assert!(peers(&[&format!("{own}=10.0.0.1")]).contains("`kumade key public` prints at the other end"));
        assert!(peers(&[&other]).contains("like KEY=10.77.0.2"));
        let twice = [format!("{other}=10.0.0.1"), format!("{other}=10.0.0.2")];
        assert!(peers(&[&twice[0], &twice[1]]).contains("a key of its own"));
    }
}
