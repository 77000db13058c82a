use super::packet::Wire;
use crate::network::{Source, TcpConfig};
use link::{CrossConfig, CrossKind, Link, LinkConfig, Loss};
use multipath::{Class, PathChoice};
use units::{ConfigError, Rate, Span, Time};

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
    pub known_rate: Option<Rate>,
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
    /// Packets are numbered, wait at the gateway until a path has room, and are put back in order: [`multipath`].
    Bonded {
        /// By which path packets go, in both directions.
        choice: PathChoice,
    },
}

/// A flow from a host of the first site to one of the second.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowConfig {
    /// The sender. The times of UDP traffic count from the flow's start. ([`TcpConfig::access_rate`] has no effect.)
    pub source: Source,
    /// Whether the gateways have to keep its packets in order.
    pub class: Class,
    /// When it begins to send.
    pub start: Time,
    /// When it stops sending new data.
    pub stop: Option<Time>,
}

/// Bytes that the bonded plane adds to each packet: IPv4 and UDP headers, those of a sealed datagram, those of a data
/// message, and one predecessor.
pub(super) const OVERHEAD: u32 = 20 + 8 + 32 + 12 + 4;
const MIN_QUEUE_BYTES: u64 = 100_000;

impl PathModel {
    /// A path without random loss, with a queue for a round trip, at least 100 kB, whose rate is known.
    pub fn new(rate: Rate, delay: Span) -> Self {
        let queue_bytes = rate.bytes_in(delay * 2).max(MIN_QUEUE_BYTES);
        PathModel { rate, delay, loss: 0.0, queue_bytes, known_rate: Some(rate) }
    }

    pub(super) fn link(&self, seed: u64) -> Result<Link<Wire>, ConfigError> {
        let PathModel { rate, delay, loss, queue_bytes, .. } = *self;
        let (rate, loss) = (Some(rate), Loss::Independent(loss));
        let config = LinkConfig { rate, delay, loss, queue_bytes, seed, ..LinkConfig::default() };
        Ok(Link::new(config.validate()?))
    }
}

impl Default for Plane {
    /// The bonded plane that decides by itself which paths to use.
    fn default() -> Self {
        Plane::Bonded { choice: PathChoice::EarliestArrival }
    }
}

impl Plane {
    /// All packets, in both directions, over one path of so many, without more.
    pub fn single(path: usize, paths: usize) -> Self {
        let shares: Vec<u32> = (0..paths).map(|index| u32::from(index == path)).collect();
        Plane::Direct { shares_back: shares.clone(), shares }
    }

    /// Bytes that a packet is longer by on its path.
    pub fn overhead_bytes(&self) -> u32 {
        if matches!(self, Plane::Direct { .. }) { 0 } else { OVERHEAD }
    }
}

impl SitesConfig {
    /// What all paths can carry of such connections at most, in payload bits per second: the sum of their rates less the
    /// share of the headers, those of the plane included.
    pub fn max_goodput(&self, tcp: &TcpConfig) -> f64 {
        let sum: f64 = self.paths.iter().map(|path| path.rate.as_f64()).sum();
        let on_path = tcp.packet_bytes().saturating_add(self.plane.overhead_bytes());
        sum * f64::from(tcp.segment_bytes) / f64::from(on_path)
    }
}

impl FlowConfig {
    /// A connection from time zero on.
    pub fn tcp(tcp: TcpConfig) -> Self {
        FlowConfig { source: Source::Tcp(tcp), class: Class::Ordered, start: Time::ZERO, stop: None }
    }

    /// UDP packets of so many IP bytes at equal intervals from time zero on, numbered.
    pub fn udp(rate: Rate, packet_bytes: u32) -> Self {
        let kind = CrossKind::Constant { rate, size: packet_bytes };
        let source = Source::Udp(CrossConfig { kind, start: Time::ZERO, phase: 0.0, seed: 0 });
        FlowConfig { source, class: Class::Ordered, start: Time::ZERO, stop: None }
    }
}
