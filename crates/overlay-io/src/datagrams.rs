use crate::config::{BondedConfig, DatagramConfig};
use crate::error::BondedError;
use crate::outer_dscp::OuterDscp;
use crate::policy_routes::{KeptRoutes, replace_path_routes};
use kumade_dataplane::{Node, Outbound, OuterHeaders};
use kumade_multipath::OuterTransport;
use kumade_net::interface::{self, Family};
use kumade_net::policy_routing::MarkedRoute;
use kumade_net::udp::{BatchReceiver, BatchSocket, SendRefusal};
use kumade_net::{SetupError, SocketBinding, clock};
use kumade_noise_session::Route;
use kumade_packet_loop::{Buffer, StampClock};
use kumade_units::{Span, Time};
use std::io;
use std::net::{Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

/// Paths by UDP: a socket on each, or one for either version of IP.
pub(crate) struct Datagrams {
    shard: usize,
    sockets: Vec<PathSocket>,
    dscp: OuterDscp,
    stamp_clock: StampClock,
    next_system_check: Time,
    interface_mtus: Vec<u32>,
    /// Of the first shard, for all.
    routes: Option<KeptRoutes<MarkedRoute>>,
}

struct PathSocket {
    place: PathPlace,
    family: Family,
    socket: BatchSocket,
    receiver: BatchReceiver,
    /// What was said last of why it cannot follow its interface.
    reported: Option<String>,
}

/// Where the datagrams of a path leave and arrive.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PathPlace {
    path: usize,
    binding: SocketBinding,
    /// None for both, on all addresses of this host.
    family: Option<Family>,
}

/// Reads of a socket in a turn, of 16 messages each, so that none keeps the thread from the others.
const MAX_READS: usize = 2;
/// Between two looks at the clock and at the interfaces.
const SYSTEM_CHECK_INTERVAL: Span = Span::from_millis(500);

impl Datagrams {
    pub(crate) fn open(config: &BondedConfig, datagrams: &DatagramConfig, shard: usize) -> Result<Self, BondedError> {
        let mut opened = Datagrams {
            shard,
            sockets: Vec::new(),
            dscp: datagrams.dscp,
            stamp_clock: StampClock::new(),
            next_system_check: clock::monotonic() + SYSTEM_CHECK_INTERVAL,
            interface_mtus: Vec::new(),
            routes: None,
        };
        opened.reconfigure(config, datagrams)?;
        Ok(opened)
    }

    /// Has the paths of this configuration from now on. The sockets of those that are as they were stay as they are.
    ///
    /// # Errors
    /// The system refuses a route or a socket. What came before it is done; to take over the earlier configuration again undoes
    /// it.
    pub(crate) fn reconfigure(&mut self, config: &BondedConfig, datagrams: &DatagramConfig) -> Result<(), BondedError> {
        self.dscp = datagrams.dscp;
        self.interface_mtus = interface_mtus(datagrams);
        if self.shard == 0 {
            replace_path_routes(&mut self.routes, &datagrams.routes, &config.directory)?;
        }
        let port = if datagrams.port == 0 { 0 } else { datagrams.port.saturating_add(self.shard as u16) };
        let place_of = |(place, (binding, _)): (usize, &(SocketBinding, _))| PathPlace {
            path: place,
            binding: binding.clone(),
            family: (binding.source != Some(Ipv6Addr::UNSPECIFIED.into()))
                .then(|| config.path_family(datagrams, place)),
        };
        let places: Vec<_> = datagrams.paths.iter().enumerate().map(place_of).collect();
        // A path may have the port that another one had.
        self.sockets.retain(|socket| places.contains(&socket.place));
        for place in places {
            if !self.sockets.iter().any(|socket| socket.place == place) {
                self.sockets.extend(PathSocket::bind(&place, port)?);
            }
        }
        Ok(())
    }

    pub(crate) fn sources(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.sockets.iter().map(|socket| socket.receiver.as_fd())
    }

    pub(crate) fn receive(&mut self, node: &mut Node<Buffer>) -> Result<(), BondedError> {
        let Datagrams { sockets, stamp_clock: stamps, .. } = self;
        for PathSocket { place, receiver, .. } in sockets {
            let path = place.path;
            for _ in 0..MAX_READS {
                let count = receiver.receive(|received| {
                    let now = clock::monotonic();
                    let stamp = received.stamp.map(|stamp| stamps.to_monotonic(stamps.from_stamp(stamp, Time::ZERO)));
                    let arrived = stamp.map_or(now, |stamp| stamp.min(now));
                    let from = Route { path: path as u8, address: received.source };
                    let (ecn, outer) = (received.ecn, outer_header_bytes(Family::from_address(from.address.ip())));
                    let carrier = OuterTransport::Udp;
                    for datagram in received.datagrams() {
                        let size = datagram.len() as u32 + outer;
                        node.receive(
                            datagram,
                            OuterHeaders { route: from, transport: carrier, ecn, packet_bytes: size, arrival: arrived },
                            now,
                        );
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
        datagrams.sort_by_key(|datagram| datagram.route.path);
        let dscp = self.dscp;
        let header = |datagram: &Outbound<Buffer>| (datagram.route, dscp.outer_field(datagram.ds_field));
        for run in datagrams.chunk_by(|one, other| header(one) == header(other)) {
            let Some((to, ds_field)) = run.first().map(header) else { continue };
            let (path, family) = (usize::from(to.path), Family::from_address(to.address.ip()));
            let mut sockets = self.sockets.iter();
            let Some(of_path) = sockets.find(|socket| socket.place.path == path && socket.family == family) else {
                continue;
            };
            let sent = of_path.socket.send(to.address, ds_field, run, |index, refusal| {
                refused += 1;
                if matches!(refusal, SendRefusal::TooLong) {
                    node.record_send_refusal(to, run[index].datagram.len(), now);
                }
            });
            // A full send buffer is a full queue.
            refused += (run.len() - sent) as u64;
        }
        datagrams.clear();
        refused
    }

    /// The only remote is reached elsewhere from now on, on its first path.
    pub(crate) fn set_far_address(address: SocketAddr, node: &mut Node<Buffer>, now: Time) {
        let family = Family::from_address(address.ip());
        let overhead_bytes = outer_header_bytes(family) + kumade_dataplane::OVERHEAD_BYTES;
        node.set_datagram_route(0, Route { path: 0, address }, overhead_bytes, now);
    }

    /// Follows clocks and interfaces.
    pub(crate) fn advance(&mut self, node: &mut Node<Buffer>, now: Time) {
        self.routes.iter_mut().for_each(|routes| routes.restore_if_due(now));
        if now >= self.next_system_check {
            self.next_system_check = now + SYSTEM_CHECK_INTERVAL;
            self.stamp_clock.check_for_step();
            self.follow_interfaces(node, now);
        }
    }

    /// An interface may be deleted and made again, as each PPP connection does, and may have another MTU then or at any time.
    fn follow_interfaces(&mut self, node: &mut Node<Buffer>, now: Time) {
        for PathSocket { place: PathPlace { path, binding, .. }, socket, reported, .. } in &mut self.sockets {
            let Some(interface) = &binding.interface else { continue };
            match socket.follow_interface() {
                Ok(None) => {}
                Ok(Some(index)) => {
                    *reported = None;
                    tracing::warn!(
                        "path {path}: {interface} is a new interface (number {index}); the path uses it now"
                    );
                }
                Err(error) => {
                    let text = error.to_string();
                    if reported.as_deref() != Some(&text) {
                        tracing::warn!("path {path}: {text}");
                        *reported = Some(text);
                    }
                }
            }
            // One that is gone has none.
            let Ok(mtu) = interface::mtu(interface) else { continue };
            if self.interface_mtus[*path] != mtu {
                self.interface_mtus[*path] = mtu;
                node.set_interface_mtu(*path, mtu, now);
            }
        }
    }
}

impl PathSocket {
    /// On all addresses of this host, one for either version of IP; of IPv4 only, where the system has no IPv6.
    fn bind(place: &PathPlace, port: u16) -> Result<Vec<Self>, SetupError> {
        if let Some(family) = place.family {
            return Ok(vec![PathSocket::bind_family(place, &place.binding, family, port)?]);
        }
        let binding = SocketBinding { source: None, ..place.binding.clone() };
        let v6 = match PathSocket::bind_family(place, &binding, Family::V6, port) {
            Err(error) if Family::is_unsupported(error.io_error()) => None,
            outcome => Some(outcome?),
        };
        let v4 = PathSocket::bind_family(place, &binding, Family::V4, port)?;
        Ok(v6.into_iter().chain([v4]).collect())
    }

    fn bind_family(place: &PathPlace, binding: &SocketBinding, family: Family, port: u16) -> Result<Self, SetupError> {
        let socket = BatchSocket::bind(binding, family, port)?;
        let receiver = BatchReceiver::new(&socket);
        Ok(PathSocket { place: place.clone(), family, receiver, socket, reported: None })
    }
}

/// Bytes of the IP and UDP headers of datagrams.
pub(crate) fn outer_header_bytes(family: Family) -> u32 {
    match family {
        Family::V4 => 28,
        Family::V6 => 48,
    }
}

/// The MTUs of the paths' interfaces; of one that is gone, that of Ethernet until it is back.
pub(crate) fn interface_mtus(datagrams: &DatagramConfig) -> Vec<u32> {
    const ETHERNET_MTU: u32 = 1500;
    let mtu = |binding: &SocketBinding| binding.interface.as_deref().and_then(|name| interface::mtu(name).ok());
    datagrams.paths.iter().map(|(binding, _)| mtu(binding).unwrap_or(ETHERNET_MTU)).collect()
}
