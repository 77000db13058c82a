use super::packet::OuterPacket;
use super::shard::overhead_bytes;
use crate::network::{TcpConfig, TrafficSource};
use crate::tcp::RecoveryConfig;
use crate::tcp::congestion::CongestionControl;
use kumade_link::{CrossConfig, CrossKind, Link, LinkConfig, Loss};
use kumade_multipath::{PathId, PathPolicy, SAVED_SEGMENT_BYTES, TcpOverTcpTuning, TrafficClass};
use kumade_units::{ConfigError, Rate, Span, Time};

/// What joins two sites.
#[derive(Debug, Clone, PartialEq)]
pub struct SitesConfig {
    /// The paths; 1 to 16.
    pub paths: Vec<PathModel>,
    /// How packets are shared over them.
    pub plane: Plane,
    /// The seed of all random numbers.
    pub seed: u64,
}

/// A path as it is, the same in both directions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PathModel {
    /// Bits of IP packets per second.
    pub rate: Rate,
    /// One-way delay of an empty path, besides the time that a packet takes at the rate.
    pub delay: Span,
    /// The probability that a packet is lost, whatever the load.
    pub loss: f64,
    /// The provider's queue (tail drop).
    pub queue_bytes: u64,
    /// The rate that a gateway of the bonded plane has been told; it finds the rate by itself if not given.
    pub configured_rate: Option<Rate>,
}

/// How packets are shared over the paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plane {
    /// Packets leave as they are, so many in a row over each path, and are delivered as they arrive.
    Direct {
        /// How many packets of the first site go over each path.
        shares: Vec<u32>,
        /// How many of the second site's.
        shares_back: Vec<u32>,
    },
    /// Packets are numbered, wait at the gateway until a path has room, and are put back in order: [`kumade_multipath`].
    Bonded {
        /// By which path packets go, in both directions.
        choice: PathPolicy,
    },
    /// As with [`Plane::Bonded`], but over TCP connections on the first path.
    Tunnel(TunnelModel),
}

/// TCP connections between the gateways, and how they are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TunnelModel {
    /// How many; 1 to 16.
    pub connections: usize,
    /// What each is, in both directions. (Of it, [`TcpConfig::bytes`], [`TcpConfig::ecn`] and [`TcpConfig::access_rate`] have no
    /// effect.)
    pub tcp: TcpConfig,
    /// How they are used.
    pub tuning: TcpOverTcpTuning,
    /// Whether an AQM manages the queue in front of them; else it drops what does not fit.
    pub has_aqm: bool,
    /// Bytes not sent yet above which a connection takes no more; what it delivers in 2 ms, if none.
    pub unsent_bytes: Option<u32>,
}

/// A flow from a host of the first site to one of the second.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowConfig {
    /// The sender. The times of UDP traffic count from the flow's start. ([`TcpConfig::access_rate`] has no effect.)
    pub source: TrafficSource,
    /// Whether the gateways have to keep its packets in order.
    pub class: TrafficClass,
    /// When it begins to send.
    pub start: Time,
    /// When it stops sending new data.
    pub stop: Option<Time>,
    /// Whether the receiving host sends its UDP packets back: their delays are round trips then.
    pub is_echoed: bool,
    /// Whether it passes the gateways of the bonded plane or of a tunnel as it is, over the first path: a connection that they relay,
    /// which is one of theirs, or one of somebody else who shares that path.
    pub bypasses_plane: bool,
}

/// Bytes that the bonded plane adds to each packet: IPv4 and UDP headers, those of a sealed datagram, those of a data
/// message, and one predecessor.
pub(super) const OVERHEAD_BYTES: u32 = overhead_bytes(OUTER_BYTES);
/// Of IPv4 and UDP.
pub(super) const OUTER_BYTES: u32 = 20 + 8;
const MIN_QUEUE_BYTES: u64 = 100_000;

impl PathModel {
    /// A path without random loss, with a queue for a round trip, at least 100 kB, whose rate is known.
    pub fn new(rate: Rate, delay: Span) -> Self {
        let queue_bytes = rate.bytes_in(delay * 2).max(MIN_QUEUE_BYTES);
        PathModel { rate, delay, loss: 0.0, queue_bytes, configured_rate: Some(rate) }
    }

    pub(super) fn new_link(&self, seed: u64) -> Result<Link<OuterPacket>, ConfigError> {
        let PathModel { rate, delay, loss, queue_bytes, .. } = *self;
        let (rate, loss) = (Some(rate), Loss::Independent(loss));
        let config = LinkConfig { rate, delay, loss, queue_bytes, seed, ..LinkConfig::default() };
        Ok(Link::new(config.validate()?))
    }
}

impl Default for Plane {
    /// The bonded plane that decides by itself which paths to use.
    fn default() -> Self {
        Plane::Bonded { choice: PathPolicy::EarliestArrival }
    }
}

impl Plane {
    /// All packets, in both directions, over one path of so many, without more.
    pub fn single(path: usize, paths: usize) -> Self {
        let shares: Vec<u32> = (0..paths).map(|index| u32::from(index == path)).collect();
        Plane::Direct { shares_back: shares.clone(), shares }
    }

    /// Bytes that a packet is longer by on its path; of a tunnel none, as streams divide packets anew.
    pub fn overhead_bytes(&self) -> u32 {
        if matches!(self, Plane::Bonded { .. }) { OVERHEAD_BYTES } else { 0 }
    }
}

impl TunnelModel {
    /// One connection with all that adapts it: a timeout of 20 ms to 1 s ([`RecoveryConfig`]).
    pub fn tcp(control: CongestionControl) -> Self {
        let recovery = RecoveryConfig {
            min_timeout: Span::from_millis(20),
            max_timeout: Span::from_secs(1),
            probe_restarts_timeout: true,
            ..RecoveryConfig::default()
        };
        let tcp = TcpConfig { recovery, ..TcpConfig::new(control) };
        TunnelModel { connections: 1, tcp, tuning: TcpOverTcpTuning::default(), has_aqm: true, unsent_bytes: None }
    }

    /// Sixteen of them.
    pub fn rake(control: CongestionControl) -> Self {
        TunnelModel { connections: PathId::MAX_PATHS, ..TunnelModel::tcp(control) }
    }
}

impl SitesConfig {
    /// What all paths can carry of such connections at most, in payload bits per second: the sum of their rates less the
    /// share of the headers, those of the plane included.
    pub fn max_goodput(&self, tcp: &TcpConfig) -> f64 {
        let sum: f64 = self.paths.iter().map(|path| path.rate.as_f64()).sum();
        let saved = if matches!(self.plane, Plane::Bonded { .. }) { SAVED_SEGMENT_BYTES } else { 0 };
        let on_path = tcp.packet_bytes().saturating_add(self.plane.overhead_bytes()) - saved;
        sum * f64::from(tcp.segment_bytes) / f64::from(on_path)
    }
}

impl FlowConfig {
    /// A connection from time zero on.
    pub fn tcp(tcp: TcpConfig) -> Self {
        FlowConfig::from_source(TrafficSource::Tcp(tcp))
    }

    /// UDP packets of so many IP bytes at equal intervals from time zero on, numbered.
    pub fn udp(rate: Rate, packet_bytes: u32) -> Self {
        let kind = CrossKind::Constant { rate, size: packet_bytes };
        let source = TrafficSource::Udp(CrossConfig { kind, start: Time::ZERO, phase: 0.0, seed: 0 });
        FlowConfig::from_source(source)
    }

    fn from_source(source: TrafficSource) -> Self {
        let (is_echoed, bypasses_plane) = (false, false);
        FlowConfig { source, class: TrafficClass::Ordered, start: Time::ZERO, stop: None, is_echoed, bypasses_plane }
    }
}
