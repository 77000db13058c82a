use crate::config::{BondedConfig, DatagramConfig};
use crate::error::BondedError;
use crate::outer_dscp::OuterDscp;
use crate::policy_routes::{KeptRoutes, install_path_routes};
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
    sockets: Vec<PathSocket>,
    dscp: OuterDscp,
    stamp_clock: StampClock,
    next_system_check: Time,
    interface_mtus: Vec<u32>,
    /// Of the first shard, for all.
    routes: Option<KeptRoutes<MarkedRoute>>,
}

struct PathSocket {
    path: usize,
    family: Family,
    socket: BatchSocket,
    receiver: BatchReceiver,
    interface: Option<String>,
    /// What was said last of why it cannot follow its interface.
    reported: Option<String>,
}

/// Reads of a socket in a turn, of 16 messages each, so that none keeps the thread from the others.
const MAX_READS: usize = 2;
/// Between two looks at the clock and at the interfaces.
const SYSTEM_CHECK_INTERVAL: Span = Span::from_millis(500);

impl Datagrams {
    pub(crate) fn open(config: &BondedConfig, datagrams: &DatagramConfig, shard: usize) -> Result<Self, BondedError> {
        let now = clock::monotonic();
        let install = || install_path_routes(&datagrams.routes, &config.directory);
        let routes = if shard == 0 { install()? } else { None };
        let port = if datagrams.port == 0 { 0 } else { datagrams.port.saturating_add(shard as u16) };
        let mut sockets = Vec::new();
        for (place, (binding, _)) in datagrams.paths.iter().enumerate() {
            if binding.source == Some(Ipv6Addr::UNSPECIFIED.into()) {
                sockets.extend(PathSocket::bind_both_families(place, binding, port)?);
            } else {
                sockets.push(PathSocket::bind(place, binding, config.path_family(datagrams, place), port)?);
            }
        }
        Ok(Datagrams {
            sockets,
            dscp: datagrams.dscp,
            stamp_clock: StampClock::new(),
            next_system_check: now + SYSTEM_CHECK_INTERVAL,
            interface_mtus: interface_mtus(datagrams)?,
            routes,
        })
    }

    pub(crate) fn sources(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.sockets.iter().map(|socket| socket.receiver.as_fd())
    }

    pub(crate) fn receive(&mut self, node: &mut Node<Buffer>) -> Result<(), BondedError> {
        let Datagrams { sockets, stamp_clock: stamps, .. } = self;
        for PathSocket { path, receiver, .. } in sockets {
            let path = *path;
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
            let Some(of_path) = sockets.find(|socket| socket.path == path && socket.family == family) else { continue };
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
        for PathSocket { path, interface, socket, reported, .. } in &mut self.sockets {
            let Some(interface) = interface else { continue };
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
    fn bind(path: usize, binding: &SocketBinding, family: Family, port: u16) -> Result<Self, SetupError> {
        let socket = BatchSocket::bind(binding, family, port)?;
        let receiver = BatchReceiver::new(&socket);
        Ok(PathSocket { path, family, receiver, socket, interface: binding.interface.clone(), reported: None })
    }

    /// On all addresses of this host; of IPv4 only, where the system has no IPv6.
    fn bind_both_families(path: usize, binding: &SocketBinding, port: u16) -> Result<Vec<Self>, SetupError> {
        let binding = SocketBinding { source: None, ..binding.clone() };
        let v6 = match PathSocket::bind(path, &binding, Family::V6, port) {
            Err(error) if Family::is_unsupported(error.io_error()) => None,
            outcome => Some(outcome?),
        };
        let v4 = PathSocket::bind(path, &binding, Family::V4, port)?;
        Ok(v6.into_iter().chain([v4]).collect())
    }
}

/// Bytes of the IP and UDP headers of datagrams.
pub(crate) fn outer_header_bytes(family: Family) -> u32 {
    match family {
        Family::V4 => 28,
        Family::V6 => 48,
    }
}

/// The MTUs of the paths' interfaces.
pub(crate) fn interface_mtus(datagrams: &DatagramConfig) -> Result<Vec<u32>, SetupError> {
    const ETHERNET_MTU: u32 = 1500;
    let mtu = |binding: &SocketBinding| binding.interface.as_deref().map_or(Ok(ETHERNET_MTU), interface::mtu);
    datagrams.paths.iter().map(|(binding, _)| mtu(binding)).collect()
}
