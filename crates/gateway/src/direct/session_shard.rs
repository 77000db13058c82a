use super::flow_rules::NEW_FLOWS_LOG_GROUP;
use super::plan::path_mark;
use super::session_node::{OutboundDatagram, SessionNode};
use crate::config::{GatewayConfig, SessionsConfig};
use kumade_net::interface::Family;
use kumade_net::nftables::LogWatch;
use kumade_net::route_watch::RouteWatch;
use kumade_net::udp::{BatchReceiver, BatchSocket};
use kumade_net::{SetupError, SocketBinding, clock};
use kumade_noise_session::{PeerError, Route};
use kumade_packet::Ecn;
use kumade_packet_loop::{CheckSchedule, Shard, WakeReason};
use kumade_units::{Span, Time};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use thiserror::Error;

/// Why NAT sessions cannot start, or ended.
#[derive(Debug, Error)]
pub enum SessionsError {
    /// The system refuses a socket or a rule.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// Two remote sites have one key, or one has this gateway's.
    #[error(transparent)]
    Peer(#[from] PeerError),
    /// A socket has failed.
    #[error("cannot receive messages about sessions on path {path}: {cause}")]
    Receive {
        /// The path's name.
        path: String,
        /// What happened.
        cause: io::Error,
    },
    /// No randomness for keys.
    #[error("the system gives no random bytes: {0}")]
    Random(getrandom::Error),
}

/// While flows pass undivided, they are looked for this often, and less often where that takes more than a tenth of the time; else when packet
/// rules tell that one has begun, or at all times where the kernel does not tell.
pub(super) const FLOW_POLL_INTERVAL: Span = Span::from_millis(100);
const MIN_POLL_INTERVAL_RATIO: i64 = 10;
/// While there are sessions, counters are read so many times within the idle time, and when a session may be idle, but not more often than
/// flows are looked for.
const READS_PER_IDLE_TIME: i64 = 16;
const MAX_READ_INTERVAL: Span = Span::from_secs(5);
/// Between two looks at whether interfaces were made again, while interfaces or routes change.
const INTERFACE_CHECK_INTERVAL: Span = Span::from_secs(1);
/// Times that each socket is read in a turn.
const MAX_READS_PER_SOCKET: usize = 8;

/// The sockets of all paths, and the sessions.
pub(super) struct SessionShard {
    paths: Vec<String>,
    sockets: Vec<BatchSocket>,
    receivers: Vec<BatchReceiver>,
    node: SessionNode,
    idle: Span,
    /// What packet rules tell of flows that have begun, where they do, and the kernel of interfaces.
    new_flows: Option<LogWatch>,
    system: RouteWatch,
    flow_polls: CheckSchedule,
    interface_checks: CheckSchedule,
    next_counter_read: Time,
    /// What was said last of why a socket cannot follow its interface, by path.
    reported: Vec<Option<String>>,
}

impl SessionShard {
    /// `logs_new_flows` says whether packet rules tell of them.
    pub(super) fn new(
        config: &GatewayConfig,
        sessions: &SessionsConfig,
        node: SessionNode,
        logs_new_flows: bool,
    ) -> Result<Self, SessionsError> {
        let mut sockets = Vec::new();
        for (place, path) in config.paths.iter().enumerate() {
            let interface = Some(path.interface.clone());
            let binding = SocketBinding { interface, mark: Some(path_mark(place)), ..SocketBinding::default() };
            let mut addresses = sessions.peers.iter().flatten().filter_map(|peer| peer.addresses[place]);
            let family = addresses.next().map_or(Family::V4, |address| Family::from_address(address.ip()));
            sockets.push(BatchSocket::bind(&binding, family, sessions.port)?);
        }
        let watch = logs_new_flows.then(|| LogWatch::open(NEW_FLOWS_LOG_GROUP)).transpose();
        let new_flows = watch.unwrap_or_else(|error| {
            tracing::warn!("{error}; until the gateway is started anew, flows are looked for ten times a second");
            None
        });
        let system = RouteWatch::open()?;
        let [mut flow_polls, mut interface_checks] = [CheckSchedule::default(); 2];
        // Flows and interfaces that there are already.
        flow_polls.record_activity();
        interface_checks.record_activity();
        Ok(SessionShard {
            paths: config.paths.iter().map(|path| path.name.clone()).collect(),
            receivers: sockets.iter().map(BatchReceiver::new).collect(),
            sockets,
            node,
            idle: sessions.limits.idle_timeout,
            new_flows,
            system,
            flow_polls,
            interface_checks,
            next_counter_read: Time::ZERO,
            reported: vec![None; config.paths.len()],
        })
    }

    pub(super) fn node(&self) -> &SessionNode {
        &self.node
    }

    fn take_datagrams(&mut self, now: Time) -> Result<(), SessionsError> {
        let SessionShard { receivers, node, paths, .. } = self;
        for (path, receiver) in receivers.iter_mut().enumerate() {
            for _ in 0..MAX_READS_PER_SOCKET {
                let count = receiver.receive(|received| {
                    let from = Route { path: path as u8, address: received.source };
                    received.datagrams().for_each(|datagram| node.receive(datagram, from, now));
                });
                match count {
                    Ok(0) => break,
                    Ok(_) => {}
                    // What a router or the far end reported of an earlier datagram, or the path is down.
                    Err(error) if is_network_error(&error) => {}
                    Err(cause) => return Err(SessionsError::Receive { path: paths[path].clone(), cause }),
                }
            }
        }
        Ok(())
    }

    /// An interface that was deleted and made again is another one. Returns whether a socket cannot follow its own.
    fn follow_interfaces(&mut self) -> bool {
        let mut has_failed = false;
        for ((path, socket), reported) in self.paths.iter().zip(&self.sockets).zip(&mut self.reported) {
            match socket.follow_interface() {
                Ok(None) => {}
                Ok(Some(index)) => {
                    *reported = None;
                    tracing::warn!("path {path}: its interface is a new one (number {index}); sessions use it now");
                }
                Err(error) => {
                    has_failed = true;
                    let text = error.to_string();
                    if reported.as_deref() != Some(&text) {
                        tracing::warn!("path {path}: {text}");
                        *reported = Some(text);
                    }
                }
            }
        }
        has_failed
    }

    /// Asks for sessions of new flows, where there may be some.
    fn look_for_flows(&mut self, now: Time) -> Result<(), SessionsError> {
        let SessionShard { new_flows, flow_polls, .. } = self;
        if flow_polls.poll(|| new_flows.as_ref().is_some_and(LogWatch::take_packets), now) {
            let has_any = self.node.request_sessions(now)?;
            let after = clock::monotonic();
            let interval = FLOW_POLL_INTERVAL.max((after - now) * MIN_POLL_INTERVAL_RATIO);
            self.flow_polls.finish_check(interval, (has_any || self.new_flows.is_none()).then_some(after), after);
        }
        Ok(())
    }

    fn send_outbound(&mut self) {
        for OutboundDatagram { to, datagram } in self.node.take_outbound() {
            if let Some(socket) = self.sockets.get(usize::from(to.path)) {
                // What the system does not take is sent again.
                socket.send(to.address, Ecn::NotEct, &[datagram], |_, _| {});
            }
        }
    }
}

impl Shard for SessionShard {
    type Error = SessionsError;

    fn sources(&self) -> Vec<BorrowedFd<'_>> {
        let new_flows = self.new_flows.iter().map(AsFd::as_fd);
        [self.system.as_fd()].into_iter().chain(new_flows).chain(self.receivers.iter().map(AsFd::as_fd)).collect()
    }

    fn deferrable_sources(&self) -> u64 {
        let bit = |place: usize, is_scheduled: bool| u64::from(is_scheduled) << place;
        let new_flows = self.new_flows.as_ref().and_then(|_| self.flow_polls.deadline());
        bit(0, self.interface_checks.deadline().is_some()) | bit(1, new_flows.is_some())
    }

    fn process(&mut self, _: WakeReason) -> Result<Time, SessionsError> {
        let now = clock::monotonic();
        self.take_datagrams(now)?;
        if self.node.has_sessions() && now >= self.next_counter_read {
            let next_idle = self.node.read_counters(now)?;
            self.next_counter_read = next_counter_read(self.idle, next_idle, now);
        }
        self.look_for_flows(now)?;
        if self.interface_checks.poll(|| self.system.take_change(), now) {
            let has_failed = self.follow_interfaces();
            self.interface_checks.finish_check(INTERFACE_CHECK_INTERVAL, has_failed.then_some(now), now);
        }
        self.node.advance(now, clock::realtime());
        self.send_outbound();
        let counters = self.node.has_sessions().then_some(self.next_counter_read);
        let due = [self.flow_polls.deadline(), self.interface_checks.deadline(), counters, self.node.next_deadline()];
        Ok(due.into_iter().flatten().min().unwrap_or(Time::MAX))
    }
}

impl Drop for SessionShard {
    fn drop(&mut self) {
        self.node.close(clock::monotonic());
        self.send_outbound();
    }
}

/// When counters are read next where sessions end after being idle for so long, the first one at `next_idle`.
pub(super) fn next_counter_read(idle: Span, next_idle: Option<Time>, now: Time) -> Time {
    let interval = (idle / READS_PER_IDLE_TIME).clamp(FLOW_POLL_INTERVAL, MAX_READ_INTERVAL);
    let regular = now + interval;
    next_idle.map_or(regular, |idle| regular.min(idle.max(now + FLOW_POLL_INTERVAL)))
}

fn is_network_error(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkDown, NetworkUnreachable};
    matches!(error.kind(), ConnectionRefused | HostUnreachable | NetworkDown | NetworkUnreachable)
}
