//! The transport in use: chosen, tested, and mended when the path breaks it.

use crate::client::exchange::{Carried, exchange};
use crate::client::open::{self, UdpFails, Wanted};
use crate::client::peer::Peer;
use crate::client::{Direction, Directions, Error, MeasureConfig, TransportChoice};
use crate::transport::{PER_CONNECTION, Probes};
use net::clock;
use train::{Segment, Train};
use units::Span;
use wire::TransportKind;

/// How often broken probes are replaced in one measurement; servers bound the connections of a turn, too.
const REOPENINGS: u32 = 4;
/// What all of that may take: a firewall that lets few new connections pass makes each replacement slow.
const REOPENING: Span = Span::from_secs(2);
/// Sizes that are tried by UDP where the largest does not pass: a tunnel's, and what IPv6 guarantees (RFC 8200, 5).
const SMALLER_SIZES: [u32; 2] = [1400, 1280];
/// What a test train's packets may take beyond a round trip.
const TEST_GRACE: Span = Span::from_millis(500);

/// The transport in use.
pub(super) struct Carrier {
    probes: Probes,
    /// The largest packet that passes, in bytes.
    pub(super) max_packet: u32,
    /// What a reader of the result should know of the opening.
    warnings: Vec<String>,
    next_train: u32,
    next_connection: u16,
    opened: u32,
    /// How often broken probes were replaced, and how long that took.
    reopened: (u32, Span),
}

impl Carrier {
    /// Opens what the configuration asks for, or what passes.
    pub(super) fn open(peer: &mut Peer, config: &MeasureConfig) -> Result<Self, Error> {
        match config.transport {
            TransportChoice::Fixed(TransportKind::Udp) => {
                let address = peer.address;
                Self::udp(peer, config)?.map_err(|UdpFails(why)| Error::NoUdp { address, why })
            }
            TransportChoice::Fixed(kind) => Self::tcp(peer, config, kind),
            TransportChoice::Auto => match Self::udp(peer, config)? {
                Ok(carrier) => Ok(carrier),
                Err(UdpFails(why)) => {
                    let mut carrier = Self::tcp(peer, config, TransportKind::Rake)?;
                    carrier.warnings.insert(0, format!("UDP does not pass ({why}): measured over TCP connections"));
                    Ok(carrier)
                }
            },
        }
    }

    /// What carries the trains.
    pub(super) fn kind(&self) -> TransportKind {
        self.probes.kind()
    }

    /// TCP connections in use.
    pub(super) fn connections(&self) -> u32 {
        self.probes.connections()
    }

    /// What a reader of the result should know.
    pub(super) fn warnings(&self) -> Vec<String> {
        let mut warnings = self.warnings.clone();
        let broken = match (self.reopened.0, self.kind()) {
            (0, _) => return warnings,
            (times, TransportKind::Udp) => {
                format!("UDP was broken off in the middle of {} and opened anew", trains(times))
            }
            (times, _) => format!(
                "connections broke in the middle of {}: fresh ones took their place, {} at the end",
                trains(times),
                self.connections()
            ),
        };
        warnings.push(broken);
        warnings
    }

    /// Carries a train, and replaces connections that broke during it.
    pub(super) fn carry(
        &mut self,
        peer: &mut Peer,
        config: &MeasureConfig,
        direction: Direction,
        train: &Train,
        grace: Span,
    ) -> Result<Carried, Error> {
        let carried = self.exchange(peer, direction, train, grace)?;
        if carried.broken || self.probes.connections() < self.opened {
            self.mend(peer, config)?;
        }
        Ok(carried)
    }

    fn new(probes: Probes, next_connection: u16) -> Self {
        let (max_packet, opened) = (probes.max_packet(), probes.connections());
        Carrier {
            probes,
            max_packet,
            warnings: Vec::new(),
            next_train: 0,
            next_connection,
            opened,
            reopened: (0, Span::ZERO),
        }
    }

    fn exchange(
        &mut self,
        peer: &mut Peer,
        direction: Direction,
        train: &Train,
        grace: Span,
    ) -> Result<Carried, Error> {
        self.next_train += 1;
        exchange(peer, &mut self.probes, direction, self.next_train, train, grace)
    }

    fn udp(peer: &mut Peer, config: &MeasureConfig) -> Result<Result<Self, UdpFails>, Error> {
        let mut carrier = match open::udp(peer)? {
            Ok(probes) => Carrier::new(probes, 0),
            Err(fails) => return Ok(Err(fails)),
        };
        let largest = carrier.max_packet;
        for size in [largest].into_iter().chain(SMALLER_SIZES.into_iter().filter(|&size| size < largest)) {
            if carrier.passes(peer, config.directions, size)? {
                if size < largest {
                    carrier.warnings.push(format!("UDP packets above {size} bytes do not pass"));
                }
                carrier.max_packet = size;
                return Ok(Ok(carrier));
            }
        }
        Ok(Err(UdpFails("only small packets pass")))
    }

    /// Whether UDP packets of this size pass in the directions to be measured: some of a few do.
    fn passes(&mut self, peer: &mut Peer, directions: Directions, size: u32) -> Result<bool, Error> {
        let segment = Segment { count: 4, interval: Span::from_millis(1), first_size: size, size_step: 0 };
        let train = Train { segments: vec![segment] };
        let grace = peer.round_trip + TEST_GRACE;
        for (direction, unwanted) in [(Direction::Up, Directions::Down), (Direction::Down, Directions::Up)] {
            if directions != unwanted {
                let carried = self.exchange(peer, direction, &train, grace)?;
                if carried.record.packets.iter().all(|packet| packet.received.is_none()) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn tcp(peer: &mut Peer, config: &MeasureConfig, kind: TransportKind) -> Result<Self, Error> {
        let granted = u16::try_from(peer.limits.connections).unwrap_or(u16::MAX);
        let (count, needed) = match kind {
            TransportKind::Single => (1, 1),
            _ => (config.connections.min(granted), needed(config)),
        };
        let (probes, warning) = open::tcp(peer, &Wanted { kind, count, needed, first: 0 })?;
        peer.settle()?;
        let mut carrier = Carrier::new(probes, count);
        carrier.warnings.extend(warning);
        Ok(carrier)
    }

    /// Opens fresh probes in place of broken ones: as many connections as survived, or half as many as there were.
    fn mend(&mut self, peer: &mut Peer, config: &MeasureConfig) -> Result<(), Error> {
        let address = peer.address;
        let (times, took) = self.reopened;
        if times == REOPENINGS || took >= REOPENING {
            return Err(Error::Disturbed { address, times });
        }
        let began = clock::monotonic();
        self.probes = match self.kind() {
            TransportKind::Udp => open::udp(peer)?.map_err(|UdpFails(why)| Error::NoUdp { address, why })?,
            kind => {
                let needed = if kind == TransportKind::Single { 1 } else { needed(config) };
                let count = self.connections().max(self.opened / 2).max(u32::from(needed)) as u16;
                let first = self.next_connection;
                self.next_connection = first.saturating_add(count);
                // A firewall that caps connections must have forgotten the old ones.
                self.probes.abort();
                open::tcp(peer, &Wanted { kind, count, needed, first })?.0
            }
        };
        self.opened = self.probes.connections();
        self.reopened = (times + 1, took + (clock::monotonic() - began));
        Ok(())
    }
}

fn trains(count: u32) -> String {
    if count == 1 { "a train".to_owned() } else { format!("{count} trains") }
}

/// The fewest connections that carry the method's longest train.
fn needed(config: &MeasureConfig) -> u16 {
    config.method.max_packets().div_ceil(PER_CONNECTION).try_into().unwrap_or(u16::MAX)
}
