use crate::batch::RecordBatch;
use crate::config::{RelayConfig, RelayRole};
use crate::entries::{FIRST_CONNECTION_NUMBER, RelayEntries, RelayEntry};
use crate::far::FarEnd;
use crate::listeners::{AcceptedConnection, Listener, Listeners};
use crate::near::NearEnd;
use crate::plain;
use crate::report::{RelayReport, RelayStatus};
use crate::resolver::NameResolver;
use crate::slot::{ConnectionSlot, LingeringStream, discard_input};
use crate::stream_end::StreamEndReason;
use crate::{far_end, near_end};
use kumade_daemon::{ActivityWatch, EndNotice, TimeBudget};
use kumade_net::nftables::InstalledTable;
use kumade_net::readiness::{EpollSet, Event};
use kumade_net::route_watch::RouteWatch;
use kumade_net::tcp::RtoLimits;
use kumade_net::{SetupError, clock, is_address_gone};
use kumade_noise_session::HandshakePolicy;
use kumade_noise_session::channel::{StreamAcceptor, StreamInitiator};
use kumade_packet_loop::{CheckSchedule, Shard, WakeReason};
use kumade_units::{Span, Time};
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::collections::BTreeMap;
use std::io;
use std::mem;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

/// All connections that one end relays.
pub(crate) struct RelayShard {
    end: RelayEnd,
    listeners: Listeners,
    /// The rules that lead connections here, while this lives.
    redirection: Option<InstalledTable>,
    connections: RelayEntries,
    events: Vec<Event>,
    batch: RecordBatch,
    /// For accepting those who have not shown to be peers, at the far end.
    stranger_time: TimeBudget,
    /// Interfaces, addresses and routes, on which the near end's streams depend.
    system: Option<RouteWatch>,
    /// When to compare streams with these next.
    system_checks: CheckSchedule,
    /// When to look next at what takes too long.
    checks: CheckSchedule,
    /// When to look next at what is held for peers.
    memory_checks: CheckSchedule,
    /// Who is told of reports and of streams that move.
    activity: ActivityWatch,
    _end_notice: EndNotice,
    /// Whether it was told that reports wait.
    are_reports_told: bool,
    /// As it was told last.
    told_status: RelayStatus,
}

enum RelayEnd {
    Near(Box<NearEnd>),
    Far(Box<FarEnd>),
}

impl RelayEnd {
    fn random(&mut self) -> &mut StdRng {
        match self {
            RelayEnd::Near(near) => &mut near.random,
            RelayEnd::Far(far) => &mut far.random,
        }
    }
}

/// The number of the resolver in the set; listeners have the next ones.
const RESOLVER_NUMBER: u32 = 0;
const FIRST_LISTENER_NUMBER: u32 = 1;
/// The place of what tells of changes of the system among the [sources](Shard::sources).
const SYSTEM_PLACE: usize = 1;
/// Between two looks at what takes too long, or at the system, while something happens. Without that, nothing is looked at before its deadline.
const CHECK_INTERVAL: Span = Span::from_millis(250);
/// Between two looks at what has happened on sockets, so that whoever had nothing to do until then waits for no more than this and one turn of a
/// stream.
const MAX_ADVANCE_TIME: Span = Span::from_millis(1);
/// Connections accepted in a turn, each with a handshake of some 200 µs.
const MAX_ACCEPTS_PER_TURN: usize = 16;
/// The far end takes a tenth of its thread's time at most to accept connections; further ones wait in the kernel's queue.
const STRANGER_TIME_DIVISOR: u32 = 10;
/// As much as that is from one [check](CHECK_INTERVAL) to the next.
const STRANGER_TIME_BURST: Span = Span::from_millis(25);
/// Connections of a near end; further ones wait in the kernel's queue. The far end takes as many.
const MAX_CONNECTIONS: usize = 1000;

impl RelayShard {
    pub(crate) fn new(config: RelayConfig, activity: ActivityWatch) -> Result<Self, SetupError> {
        let failed = |error| SetupError::new("wait for TCP connections", error);
        let set = EpollSet::new().map_err(failed)?;
        let (end, listeners, redirection) = open_end(config)?;
        listeners.watch(&set, FIRST_LISTENER_NUMBER).map_err(failed)?;
        let system = matches!(end, RelayEnd::Near(_)).then(RouteWatch::open).transpose()?;
        if let RelayEnd::Far(far) = &end {
            set.add_reader(&far.resolver, RESOLVER_NUMBER).map_err(failed)?;
        }
        let (entries, batch) = (RelayEntries::new(set), RecordBatch::new());
        Ok(RelayShard {
            end,
            listeners,
            redirection,
            connections: entries,
            events: Vec::new(),
            batch,
            stranger_time: TimeBudget::new(STRANGER_TIME_DIVISOR, STRANGER_TIME_BURST),
            system,
            system_checks: CheckSchedule::default(),
            checks: CheckSchedule::default(),
            memory_checks: CheckSchedule::default(),
            _end_notice: activity.end_notice(),
            activity,
            are_reports_told: false,
            told_status: RelayStatus::default(),
        })
    }

    pub(crate) fn status(&self) -> RelayStatus {
        let is_carried = |entry: &RelayEntry| matches!(entry.stage, ConnectionSlot::Relayed(_));
        let connections = self.connections.iter().filter(|(_, entry)| is_carried(entry)).count();
        RelayStatus { connections, ..self.connections.status }
    }

    pub(crate) fn take_reports(&mut self) -> Vec<RelayReport> {
        self.are_reports_told = false;
        let handshakes = match &mut self.end {
            RelayEnd::Far(far) => far.acceptor.take_notices(),
            RelayEnd::Near(_) => Vec::new(),
        };
        let reports = self.connections.reports.take(clock::monotonic());
        handshakes.into_iter().map(RelayReport::Handshake).chain(reports).collect()
    }

    /// Has it told that there are reports, or that streams have moved.
    fn tell_activity(&mut self, now: Time) {
        let has_notices = matches!(&self.end, RelayEnd::Far(far) if far.acceptor.has_notices());
        if (self.connections.reports.advance(now) || has_notices) && !mem::replace(&mut self.are_reports_told, true) {
            self.activity.notify();
        }
        if mem::replace(&mut self.told_status, self.connections.status) != self.connections.status {
            self.activity.record_movement();
        }
    }

    /// Opens what it takes to become this, and changes nothing.
    pub(crate) fn prepare_update(&self, config: RelayConfig) -> Result<PreparedUpdate, SetupError> {
        let opened = match &config.role {
            RelayRole::Near { forwards, .. } => self.listeners.open_missing(forwards)?,
            RelayRole::Far { .. } => Vec::new(),
        };
        Ok(PreparedUpdate { config, opened })
    }

    /// Becomes what was prepared, of the same role, host, ports of the far end and key. Streams of peers that stay go on, and end
    /// where the far end lets their targets be reached no longer.
    ///
    /// # Errors
    /// The system refuses to lead connections here as the settings say; then those of before are in force.
    pub(crate) fn finish_update(
        &mut self,
        PreparedUpdate { config, opened }: PreparedUpdate,
    ) -> Result<(), SetupError> {
        let RelayConfig { identity, psk, rto, role } = config;
        let rto = bounded_rto(rto);
        match (role, &mut self.end) {
            (RelayRole::Near { peer, congestion_control, forwards, redirect, .. }, RelayEnd::Near(near)) => {
                if let (Some(table), Some(redirect)) = (&self.redirection, &redirect) {
                    let rules = redirect.packet_rules(&self.listeners.redirected_addresses());
                    rules.chains.iter().try_for_each(|chain| table.replace_rules(chain))?;
                }
                let set = (&self.connections.epoll_set, FIRST_LISTENER_NUMBER);
                let replaced = self.listeners.replace_forwards(forwards, opened, redirect.as_ref(), set);
                replaced.map_err(|error| SetupError::new("wait for TCP connections", error))?;
                (near.congestion_control, near.rto) = (congestion_control, rto);
                let peer = (peer, psk);
                if near.peer != peer {
                    near.initiator = StreamInitiator::new(identity, peer.0, peer.1.clone());
                    near.peer = peer;
                    let all: Vec<_> = self.connections.iter().map(|(number, _)| number).collect();
                    all.into_iter().for_each(|number| drop(self.connections.discard(number)));
                }
            }
            (RelayRole::Far { peers, allowed, .. }, RelayEnd::Far(far)) => {
                far.acceptor.set_peers(peers.iter().map(|peer| (*peer, psk.clone())));
                let has_other_psk = far.peers.1 != psk;
                (far.peers, far.allowed, far.rto) = ((peers, psk), allowed, rto);
                far_end::drop_refused_streams(far, &mut self.connections, has_other_psk);
            }
            // A running end stays what it is.
            _ => {}
        }
        Ok(())
    }

    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.addresses()
    }

    pub(crate) fn take_over(&mut self, stream: TcpStream, initiation: &[u8]) {
        if let RelayEnd::Far(far) = &mut self.end {
            far_end::add_accepted(far, &mut self.connections, stream, initiation);
        }
    }

    fn handle_event(&mut self, event: &Event) {
        match (event.number, &mut self.end) {
            (RESOLVER_NUMBER, RelayEnd::Far(far)) => {
                for answer in far.resolver.take_answers() {
                    far_end::name_resolved(far, &mut self.connections, answer);
                }
            }
            (FIRST_CONNECTION_NUMBER.., _) => self.connections.handle_event(event),
            (listener, _) => self.accept(listener.saturating_sub(FIRST_LISTENER_NUMBER) as usize),
        }
    }

    fn accept(&mut self, place: usize) {
        let RelayShard { end, listeners, connections: entries, stranger_time, .. } = self;
        for _ in 0..MAX_ACCEPTS_PER_TURN {
            let begun = clock::monotonic();
            let is_full = match end {
                RelayEnd::Near(_) => entries.len() >= MAX_CONNECTIONS,
                RelayEnd::Far(_) => stranger_time.available_at() > begun,
            };
            if is_full {
                return listeners.pause(place, &entries.epoll_set);
            }
            match (listeners.accept(place, &entries.epoll_set), &mut *end) {
                (Some((stream, AcceptedConnection::Program(target))), RelayEnd::Near(near)) => {
                    near_end::begin_stream(near, entries, stream, target);
                }
                (Some((stream, AcceptedConnection::Unauthenticated)), RelayEnd::Far(_)) => {
                    far_end::accept_connection(entries, stream);
                    let now = clock::monotonic();
                    stranger_time.charge(now - begun, now);
                }
                (Some(_), _) => {}
                (None, _) => return,
            }
        }
    }

    /// Goes on with connections that may have something to do, for a while. Returns when that ended.
    fn advance_busy(&mut self) -> Time {
        let start = clock::monotonic();
        let mut now = start;
        while now - start < MAX_ADVANCE_TIME
            && let Some((peer, number)) = self.connections.busy_mut().next()
        {
            self.advance(number);
            let begun = mem::replace(&mut now, clock::monotonic());
            self.connections.busy_mut().charge(peer, now - begun);
        }
        now
    }

    /// Goes on with a connection.
    fn advance(&mut self, number: u32) {
        let RelayShard { end, connections: entries, .. } = self;
        let Some(entry) = entries.get_mut(number) else { return };
        match (&mut entry.stage, end) {
            (ConnectionSlot::Relayed(_), _) => self.advance_connection(number),
            (ConnectionSlot::Dialing(_), RelayEnd::Near(near)) => near_end::advance_stream(near, entries, number),
            (ConnectionSlot::Unauthenticated(_), RelayEnd::Far(far)) => {
                far_end::advance_unauthenticated(far, entries, number)
            }
            (ConnectionSlot::Opening(_), RelayEnd::Far(far)) => far_end::advance_opening(far, entries, number),
            (ConnectionSlot::Draining(stream), _) if discard_input(stream) => drop(entries.discard(number)),
            (ConnectionSlot::Lingering(_), _) => far_end::advance_lingering(entries, number),
            _ => {}
        }
    }

    fn advance_connection(&mut self, number: u32) {
        let RelayShard { end, connections: entries, batch, .. } = self;
        let Some(RelayEntry { stage: ConnectionSlot::Relayed(carried), .. }) = entries.get_mut(number) else { return };
        let outcome = carried.relay_bytes(batch, end.random());
        let (sent, received) = mem::take(&mut carried.uncounted_bytes);
        entries.status.sent_bytes += sent;
        entries.status.received_bytes += received;
        match outcome {
            Ok(false) => {}
            Ok(true) => entries.schedule(number),
            Err(ended) => {
                let is_complete = matches!(ended, StreamEndReason::Complete);
                let removed = if is_complete { entries.remove(number) } else { entries.discard(number) };
                let Some(RelayEntry { stage: ConnectionSlot::Relayed(carried), peer, .. }) = removed else { return };
                match (end, ended) {
                    (RelayEnd::Far(_), StreamEndReason::Complete) => {
                        let lingering = Box::new(LingeringStream::new(*carried));
                        entries.replace_stage(number, ConnectionSlot::Lingering(lingering), peer);
                        entries.schedule(number);
                    }
                    (RelayEnd::Near(_), StreamEndReason::Complete) => drop(carried.plain.into_closing()),
                    (RelayEnd::Near(near), ended) => {
                        if let Some(report) = near.report_end(&carried.target, &ended) {
                            entries.record_refusal(Some(report));
                        }
                    }
                    (RelayEnd::Far(_), _) => {}
                }
            }
        }
    }

    /// A near end that has moved to another address has streams from which nothing comes any more: their programs are told. As long
    /// as there is no way to the far end at all, it may come back to the one that it had, as an interface does that is made again. Returns
    /// whether streams were kept for that: that the far end has another address then, no change of this host's tells.
    fn drop_streams_of_lost_addresses(&mut self) -> bool {
        let RelayEnd::Near(near) = &self.end else { return false };
        let own = |entry: &RelayEntry| Some(entry.stage.socket()?.local_addr().ok()?.ip());
        let mut by_address = BTreeMap::<_, Vec<_>>::new();
        for (number, entry) in self.connections.iter() {
            own(entry).into_iter().for_each(|own| by_address.entry(own).or_default().push(number));
        }
        let far = near.host.address();
        let has_moved =
            |own: IpAddr| near.binding.source_towards(far).is_some_and(|source| source != own.to_canonical());
        by_address.retain(|own, _| !own.is_unspecified() && is_address_gone(*own));
        let count = by_address.len();
        by_address.retain(|own, _| has_moved(*own));
        let are_any_kept = by_address.len() < count;
        for number in by_address.into_values().flatten() {
            let left = self.connections.remove(number);
            // The kernel would try to end it for minutes.
            left.iter().filter_map(|entry| entry.stage.socket()).for_each(plain::reset_when_dropped);
        }
        are_any_kept
    }

    /// The near end has new keys for streams that have used theirs for long.
    fn exchange_keys(&mut self, now: Time) {
        let RelayEnd::Near(near) = &mut self.end else { return };
        let due = self.connections.relayed_mut().filter_map(|(number, carried)| {
            // One that has failed says so when it is looked at.
            let is_begun = carried.begin_rekey_if_due(now, &mut near.random).unwrap_or(true);
            is_begun.then_some(number)
        });
        let due: Vec<_> = due.collect();
        due.into_iter().for_each(|number| self.connections.schedule(number));
    }

    /// Gives up what takes too long. Returns when there is something to look at again, if nothing happens until then.
    fn expire_connections(&mut self, now: Time) -> Option<Time> {
        self.listeners.resume(&self.connections.epoll_set, FIRST_LISTENER_NUMBER);
        let late: Vec<_> =
            self.connections.iter().filter(|(_, entry)| entry.deadline.is_some_and(|at| at <= now)).collect();
        let late: Vec<_> = late.into_iter().map(|(number, _)| number).collect();
        for number in late {
            let entry = self.connections.discard(number);
            if let (Some(RelayEntry { stage: ConnectionSlot::Dialing(mut dialing), .. }), RelayEnd::Near(near)) =
                (entry, &self.end)
            {
                dialing.record_failure(near);
                self.connections.record_refusal(Some(near.unreachable_report(&StreamEndReason::Timeout)));
            }
        }
        self.connections.relayed_mut().for_each(|(_, carried)| carried.sealed.update_retransmission_timeout());
        self.exchange_keys(now);
        let waiting = self.connections.iter().filter(|(_, entry)| entry.stage.recheck_at().is_some_and(|at| at <= now));
        let waiting: Vec<_> = waiting.map(|(number, _)| number).collect();
        waiting.into_iter().for_each(|number| self.advance(number));
        self.next_check()
    }

    /// When something takes too long, new keys are due, or something is to be tried again.
    fn next_check(&self) -> Option<Time> {
        let is_near = matches!(self.end, RelayEnd::Near(_));
        let entries = self.connections.iter().map(|(_, entry)| entry);
        let of_entry = |entry: &RelayEntry| {
            let rekey = match &entry.stage {
                ConnectionSlot::Relayed(carried) if is_near => carried.rekey_due_at(),
                _ => None,
            };
            [entry.deadline, entry.stage.recheck_at(), rekey].into_iter().flatten().min()
        };
        let has_more = self.listeners.is_any_paused() || !self.connections.busy().is_empty();
        entries.filter_map(of_entry).chain(has_more.then_some(ConnectionSlot::EACH_CHECK)).min()
    }
}

impl Shard for RelayShard {
    type Error = SetupError;

    const MAX_SPIN: Span = Span::ZERO;

    fn sources(&self) -> Vec<BorrowedFd<'_>> {
        let system = self.system.as_ref().map(AsFd::as_fd);
        [self.connections.epoll_set.as_fd()].into_iter().chain(system).collect()
    }

    fn deferrable_sources(&self) -> u64 {
        u64::from(self.system_checks.deadline().is_some()) << SYSTEM_PLACE
    }

    fn process(&mut self, wake: WakeReason) -> Result<Time, SetupError> {
        let mut events = mem::take(&mut self.events);
        let waited = self.connections.epoll_set.wait(&mut events, Time::ZERO);
        waited.map_err(|error| SetupError::new("wait for TCP connections", error))?;
        // Changes of the system alone are none.
        if wake == WakeReason::Requested || !events.is_empty() || !self.connections.busy().is_empty() {
            self.checks.record_activity();
            self.memory_checks.record_activity();
        }
        events.iter().for_each(|event| self.handle_event(event));
        self.events = events;
        let now = self.advance_busy();
        if self.system_checks.poll(|| self.system.as_ref().is_some_and(RouteWatch::take_change), now) {
            let are_any_kept = self.drop_streams_of_lost_addresses();
            self.system_checks.finish_check(CHECK_INTERVAL, are_any_kept.then_some(now), now);
        }
        if self.memory_checks.is_due(now) {
            let interval = far_end::bound_held_bytes(&mut self.connections);
            self.memory_checks.finish_check(interval, None, now);
        }
        if self.checks.is_due(now) {
            let due = self.expire_connections(now);
            self.checks.finish_check(CHECK_INTERVAL, due, now);
        }
        self.tell_activity(now);
        if !self.connections.busy().is_empty() {
            return Ok(now);
        }
        // A near end holds nothing for peers.
        let memory = self.memory_checks.deadline().filter(|_| matches!(self.end, RelayEnd::Far(_)));
        let due = [self.checks.deadline(), self.system_checks.deadline(), memory, self.connections.reports.deadline()];
        Ok(due.into_iter().flatten().min().unwrap_or(Time::MAX))
    }
}

/// What a running end becomes, with the ports that it needs for that.
pub(crate) struct PreparedUpdate {
    config: RelayConfig,
    opened: Vec<Listener>,
}

/// Linux delays acknowledgements of lone segments, such as those of a terminal, by this at least (`TCP_DELACK_MIN`): a timeout that
/// is shorter would take them for lost.
const MIN_DELAYED_ACKNOWLEDGEMENT: Span = Span::from_millis(40);

fn bounded_rto(rto: RtoLimits) -> RtoLimits {
    RtoLimits { min: rto.min.map(|least| least.max(MIN_DELAYED_ACKNOWLEDGEMENT)), ..rto }
}

fn open_end(config: RelayConfig) -> Result<(RelayEnd, Listeners, Option<InstalledTable>), SetupError> {
    let RelayConfig { identity, psk, rto, role } = config;
    let rto = bounded_rto(rto);
    let mut seed = [0; 32];
    getrandom::fill(&mut seed)
        .map_err(|error| SetupError::new("get random bytes for keys", io::Error::other(error.to_string())))?;
    let mut random = StdRng::from_seed(seed);
    match role {
        RelayRole::Near { host, peer, binding, congestion_control, forwards, redirect } => {
            let (initiator, peer) = (StreamInitiator::new(identity, peer, psk.clone()), (peer, psk));
            let near =
                NearEnd { host, binding, peer, initiator, random, congestion_control, rto, has_reported_clock: false };
            let listeners = Listeners::near_end(forwards, redirect.as_ref())?;
            let table = redirect.map(|redirect| redirect.packet_rules(&listeners.redirected_addresses()));
            let installed = table.as_ref().map(InstalledTable::install).transpose()?;
            Ok((RelayEnd::Near(Box::new(near)), listeners, installed))
        }
        RelayRole::Far { listen, peers, allowed } => {
            let keyed = peers.iter().map(|peer| (*peer, psk.clone()));
            let acceptor = StreamAcceptor::new(identity, &HandshakePolicy::default(), keyed, &mut random);
            let far = FarEnd { acceptor, peers: (peers, psk), random, allowed, resolver: NameResolver::new()?, rto };
            Ok((RelayEnd::Far(Box::new(far)), Listeners::far_end(listen)?, None))
        }
    }
}
