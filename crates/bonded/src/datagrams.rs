use crate::config::{BondedConfig, DatagramConfig};
use crate::error::BondedError;
use crate::policy_routes::PathRoutes;
use dataplane::{Node, Outbound, OuterHeaders};
use net::interface::{self, Family};
use net::udp::{BatchReceiver, BatchSocket, Refusal};
use net::{Binding, SetupError, clock};
use runtime::{Buffer, StampClock};
use secure::Route;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use units::{Span, Time};

/// Paths by UDP: a socket on each.
pub(crate) struct Datagrams {
    sockets: Vec<BatchSocket>,
    receivers: Vec<BatchReceiver>,
    stamps: StampClock,
    check_clock_at: Time,
    /// Of the first shard, for all.
    routes: Option<PathRoutes>,
}

/// Reads of a socket in a turn, of 16 messages each, so that none keeps the thread from the others.
const MAX_READS: usize = 2;
const CHECK_CLOCK_INTERVAL: Span = Span::from_millis(500);

impl Datagrams {
    pub(crate) fn open(config: &BondedConfig, datagrams: &DatagramConfig, shard: usize) -> Result<Self, BondedError> {
        let now = clock::monotonic();
        let install = || PathRoutes::install(&datagrams.routes, &config.directory, now);
        let routes = (shard == 0).then(install).transpose()?;
        let port = if datagrams.port == 0 { 0 } else { datagrams.port.saturating_add(shard as u16) };
        let mut sockets = Vec::new();
        for (place, (binding, _)) in datagrams.paths.iter().enumerate() {
            sockets.push(BatchSocket::bind(binding, config.family(datagrams, place), port)?);
        }
        let receivers = sockets.iter().map(BatchReceiver::new).collect();
        Ok(Datagrams { sockets, receivers, stamps: StampClock::new(), check_clock_at: now, routes })
    }

    pub(crate) fn sources(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.receivers.iter().map(AsFd::as_fd)
    }

    pub(crate) fn receive(&mut self, node: &mut Node<Buffer>) -> Result<(), BondedError> {
        let Datagrams { receivers, stamps, .. } = self;
        for (path, receiver) in receivers.iter_mut().enumerate() {
            for _ in 0..MAX_READS {
                let count = receiver.receive(|received| {
                    let now = clock::monotonic();
                    let stamp = received.stamp.map(|stamp| stamps.to_monotonic(stamps.from_stamp(stamp, Time::ZERO)));
                    let arrived = stamp.map_or(now, |stamp| stamp.min(now));
                    let from = Route { path: path as u8, address: received.from };
                    let (ecn, outer) = (received.ecn, outer_bytes(Family::of(from.address.ip())));
                    for datagram in received.datagrams() {
                        let size = datagram.len() as u32 + outer;
                        node.receive(datagram, OuterHeaders { from, ecn, size, arrived }, now);
                    }
                });
                match count {
                    Ok(0) => break,
                    Ok(_) => {}
                    // What a router or the far end reported of an earlier datagram.
                    Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                    Err(cause) => return Err(BondedError::Receive { path, cause }),
                }
            }
        }
        Ok(())
    }

    /// Returns how many datagrams the system did not take.
    pub(crate) fn send(&mut self, datagrams: &mut Vec<Outbound<Buffer>>, node: &mut Node<Buffer>, now: Time) -> u64 {
        let mut refused = 0;
        // Only those of one path need their order, and what goes to one address leaves together.
        datagrams.sort_by_key(|datagram| datagram.to.path);
        for run in datagrams.chunk_by(|one, other| one.to == other.to && one.ecn == other.ecn) {
            let Some(Outbound { to, ecn, .. }) = run.first() else { continue };
            let Some(socket) = self.sockets.get(usize::from(to.path)) else { continue };
            let sent = socket.send(to.address, *ecn, run, |index, refusal| {
                refused += 1;
                if matches!(refusal, Refusal::TooLong) {
                    node.refused(*to, run[index].datagram.len(), now);
                }
            });
            // A full send buffer is a full queue.
            refused += (run.len() - sent) as u64;
        }
        datagrams.clear();
        refused
    }

    /// Follows clocks and interfaces.
    pub(crate) fn follow(&mut self, now: Time) {
        self.routes.iter_mut().for_each(|routes| routes.follow_interfaces(now));
        if now >= self.check_clock_at {
            self.check_clock_at = now + CHECK_CLOCK_INTERVAL;
            self.stamps.check_for_step();
        }
    }
}

/// Bytes of the IP and UDP headers of datagrams.
pub(crate) fn outer_bytes(family: Family) -> u32 {
    match family {
        Family::V4 => 28,
        Family::V6 => 48,
    }
}

/// The MTUs of the paths' interfaces.
pub(crate) fn interface_mtus(datagrams: &DatagramConfig) -> Result<Vec<u32>, SetupError> {
    const ETHERNET: u32 = 1500;
    let mtu = |binding: &Binding| binding.interface.as_deref().map_or(Ok(ETHERNET), interface::mtu);
    datagrams.paths.iter().map(|(binding, _)| mtu(binding)).collect()
}
