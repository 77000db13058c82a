use crate::handover::Handover;
use crate::outer_dscp::OuterDscp;
use ipnet::IpNet;
use kumade_daemon::RuntimeDir;
use kumade_multipath::{PathId, PathPolicy, TcpOverTcpTuning, UnorderedFlows};
use kumade_net::interface::Family;
use kumade_net::policy_routing::{MarkedRoute, NetworkRoute};
use kumade_net::tcp::RtoLimits;
use kumade_net::{ResolvedHost, SocketBinding};
use kumade_noise_session::{PresharedKey, PrivateKey, PublicKey};
use kumade_packet::Dscp;
use kumade_units::{Rate, Span};
use std::net::SocketAddr;

/// The settings of a [`BondedPlane`](crate::BondedPlane).
#[derive(Debug, Clone)]
pub struct BondedConfig {
    /// The name of the TUN device.
    pub device: String,
    /// The length of the longest IP packet, in bytes, that passes the tunnel; what all paths pass, if none.
    pub mtu: Option<u16>,
    /// The addresses of the device; none is needed to forward.
    pub addresses: Vec<IpNet>,
    /// This end's key.
    pub identity: PrivateKey,
    /// What carries the packets between the ends.
    pub transports: OuterTransportConfig,
    /// Which path takes the next packet.
    pub policy: PathPolicy,
    /// Which flows prefer speed to order.
    pub unordered_flows: UnorderedFlows,
    /// The far ends.
    pub remotes: Vec<BondedRemote>,
    /// The routes of those networks of theirs that have none in the main table: where that has others for them, or where they
    /// contain the far end's own address.
    pub network_routes: Vec<NetworkRoute>,
    /// Where changes of the system are written down, so that they can be undone after a crash.
    pub directory: RuntimeDir,
}

/// A far end: the gateway of another site, or the other end of a tunnel.
#[derive(Debug, Clone)]
pub struct BondedRemote {
    /// Its key.
    pub key: PublicKey,
    /// A second key that both ends have, or the default one.
    pub psk: PresharedKey,
    /// The networks behind it.
    pub networks: Vec<IpNet>,
    /// Where it is reached on each path by UDP; `None` until it writes first. None at all, where only connections carry.
    pub addresses: Vec<Option<SocketAddr>>,
    /// The only remote may be known by its name: while it does not answer, other addresses of that take the place of the one by
    /// UDP on the first path, and of that of connections.
    pub host: Option<ResolvedHost>,
}

/// What carries the packets between the ends.
#[derive(Debug, Clone)]
pub enum OuterTransportConfig {
    /// UDP, a socket on each path.
    Udp(DatagramConfig),
    /// TCP connections, each a path of its own, of which one end opens all.
    Tcp(ConnectionConfig),
    /// Whichever passes and performs ([`kumade_multipath::TransportSelector`]): UDP on the first path, connections on the others. An end
    /// that listens takes either on every path. The path choice is to be [`PathPolicy::LeastSent`].
    UdpOrTcp(DatagramConfig, ConnectionConfig),
}

impl OuterTransportConfig {
    /// The settings of UDP, where that may carry.
    pub fn datagrams(&self) -> Option<&DatagramConfig> {
        match self {
            OuterTransportConfig::Udp(datagrams) | OuterTransportConfig::UdpOrTcp(datagrams, _) => Some(datagrams),
            OuterTransportConfig::Tcp(_) => None,
        }
    }

    /// The settings of TCP, where that may carry.
    pub fn connections(&self) -> Option<&ConnectionConfig> {
        match self {
            OuterTransportConfig::Tcp(connections) | OuterTransportConfig::UdpOrTcp(_, connections) => {
                Some(connections)
            }
            OuterTransportConfig::Udp(_) => None,
        }
    }

    /// The same, to be changed.
    pub fn connections_mut(&mut self) -> Option<&mut ConnectionConfig> {
        match self {
            OuterTransportConfig::Tcp(connections) | OuterTransportConfig::UdpOrTcp(_, connections) => {
                Some(connections)
            }
            OuterTransportConfig::Udp(_) => None,
        }
    }
}

/// Paths by UDP.
#[derive(Debug, Clone)]
pub struct DatagramConfig {
    /// The port on all paths; any, if 0. Further threads have the ports behind it.
    pub port: u16,
    /// How many threads carry packets, from 1 to [`MAX_THREADS`]: each has a queue of the device, and a port.
    pub threads: usize,
    /// From where datagrams leave on each path, and what it carries, if that is known.
    pub paths: Vec<(SocketBinding, Option<Rate>)>,
    /// The next hops of the paths: the routes of those packets that have the mark of a path's binding.
    pub routes: Vec<MarkedRoute>,
    /// The DSCP of the datagrams.
    pub dscp: OuterDscp,
}

/// Paths by TCP.
#[derive(Debug, Clone)]
pub struct ConnectionConfig {
    /// Who opens them.
    pub role: ConnectionRole,
    /// Their congestion control; the system's default, if none.
    pub congestion_control: Option<String>,
    /// The DSCP of their packets: one for each connection, whatever it carries.
    pub dscp: Dscp,
    /// What else is set on them.
    pub tuning: ConnectionTuning,
}

/// What is set on TCP connections that carry packets, and how they are used. The default suits most paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionTuning {
    /// The limits of the retransmission timeout.
    pub rto: RtoLimits,
    /// Bytes of the send buffer; as the system has it, if none.
    pub send_buffer_bytes: Option<u32>,
    /// Whether short segments leave while others are not acknowledged (no Nagle algorithm).
    pub has_no_delay: bool,
    /// Bytes not sent yet above which a connection takes no more; what it delivers in 2 ms, if none.
    pub unsent_bytes: Option<u32>,
    /// Whether an AQM (FQ-CoDel) manages the queue in front of the connections; else it drops what does not fit.
    pub has_aqm: bool,
    /// How the connections are used.
    pub tcp_over_tcp: TcpOverTcpTuning,
}

impl ConnectionTuning {
    /// The least timeout must be shorter than that of the connections inside, 200 ms by default, or both repeat what is lost
    /// (Nakagawa, Nakamura: *TCP over TCP*). RFC 6298 §2.4 has 1 s, for hosts that cannot tell the time exactly.
    pub const DEFAULT_MIN_RTO: Span = Span::from_millis(20);
    /// After an outage, a connection that has doubled its timeout would wait for about as long as that lasted. A segment each
    /// second on each connection does no harm meanwhile, though RFC 6298 §2.5 has 60 s.
    pub const DEFAULT_MAX_RTO: Span = Span::from_secs(1);
}

impl Default for ConnectionTuning {
    fn default() -> Self {
        ConnectionTuning {
            rto: RtoLimits { min: Some(Self::DEFAULT_MIN_RTO), max: Some(Self::DEFAULT_MAX_RTO) },
            send_buffer_bytes: None,
            has_no_delay: true,
            unsent_bytes: None,
            has_aqm: true,
            tcp_over_tcp: TcpOverTcpTuning::default(),
        }
    }
}

/// Which end of connections this is.
#[derive(Debug, Clone)]
pub enum ConnectionRole {
    /// It waits for those of all remotes.
    Listen {
        /// Where.
        address: SocketAddr,
        /// Who takes those that begin with the handshake of a byte stream.
        handover: Option<Handover>,
    },
    /// It opens them, to its only remote.
    Connect {
        /// Where that listens.
        address: SocketAddr,
        /// From where on this host.
        binding: SocketBinding,
        /// How many.
        connections: usize,
    },
}

/// How many threads can carry packets.
pub const MAX_THREADS: usize = kumade_multipath::dataplane::MAX_SHARDS;

impl BondedConfig {
    /// How many threads carry packets.
    pub(crate) fn thread_count(&self) -> usize {
        match &self.transports {
            OuterTransportConfig::Udp(datagrams) => datagrams.threads.clamp(1, MAX_THREADS),
            // A connection is one thread's, and each carries a part of all flows.
            OuterTransportConfig::Tcp(_) | OuterTransportConfig::UdpOrTcp(..) => 1,
        }
    }

    /// How many paths lead to each remote at most.
    pub(crate) fn max_paths(&self) -> usize {
        let datagrams = self.datagram_path_count();
        match self.transports.connections().map(|connections| &connections.role) {
            None => datagrams,
            Some(ConnectionRole::Listen { .. }) => PathId::MAX_PATHS,
            Some(ConnectionRole::Connect { connections, .. }) => (datagrams + connections).min(PathId::MAX_PATHS),
        }
    }

    /// How many of them, the first ones, are carried by UDP.
    pub(crate) fn datagram_path_count(&self) -> usize {
        self.transports.datagrams().map_or(0, |datagrams| datagrams.paths.len())
    }

    /// The IP version of datagrams on a path: that of the remotes' addresses there.
    pub(crate) fn path_family(&self, datagrams: &DatagramConfig, path: usize) -> Family {
        let addresses = self.remotes.iter().filter_map(|remote| *remote.addresses.get(path)?);
        let addresses = addresses.map(|address| address.ip()).chain(datagrams.paths[path].0.source);
        addresses.map(Family::from_address).next().unwrap_or(Family::V4)
    }
}
