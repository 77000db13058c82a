//! The sending end of several paths.

use crate::bond::config::BondConfig;
use crate::bond::outgoing::{Divide, HeldPackets, OutgoingPacket, Transmission, WaitingPacket};
use crate::bond::queue::{BondQueues, Burst};
use crate::large_packets::{LargePacketLimit, MAX_DIVIDED_BYTES};
use crate::loss_repair::store::RepeatStore;
use crate::outer_transport::connection_count::{ConnectionCountControl, ConnectionsSample};
use crate::outer_transport::in_flight_control::StreamDelivery;
use crate::outer_transport::in_flight_data::InFlightData;
use crate::outer_transport::kind::OuterTransport;
use crate::outer_transport::selector::{TransportSample, TransportSelector};
use crate::path::id::PathId;
use crate::path::report::PathReport;
use crate::path::shared_set::SharedPaths;
use crate::path::state::{PathSender, PathStatus};
use crate::scheduler::flow_table::FlowTable;
use crate::scheduler::path_scheduler::{PathEstimate, PathScheduler, PathSet};
use crate::scheduler::policy::{PathPolicy, TrafficClass, WeightedRoundRobin};
use crate::sequencer::Sequencer;
use kumade_link::Label;
use kumade_packet::PayloadKind;
use kumade_units::{ConfigError, Rate, Span, Time};
use std::collections::{BTreeMap, VecDeque};

mod burst;
pub(crate) mod config;
pub(crate) mod outgoing;
mod placing;
pub(crate) mod queue;
mod repeating;
mod sending;
mod waiting_queue;

/// The sending end of several paths: what waits, which path takes it when, and its number.
///
/// **Loop contract.** [`Bond::enqueue`] each packet and [`Bond::receive_report`] each report when it arrives. Then call
/// [`Bond::next_transmission`] until it returns nothing, and send what it returns at once, by the path that it names and with the
/// counter that it gives. Then sleep until [`Bond::deadline`] or the next arrival. [`Bond::poll_event`] tells of paths
/// that have come or gone.
///
/// Packets wait here, in a queue discipline, and not in the provider's buffers: each path is paced at the rate that it
/// carries, and pulls a packet when it has room. What is bound to one path has a queue of its own there; where both that
/// and the queue for all paths hold packets, they take turns by the numbers of their active flows.
///
/// What a host has sent as one packet, for its network card to divide, waits as one ([`Bond::enqueue_large`]). Its first segment leaves as
/// any packet does, and what follows stays in its place; but as much of it as the path carries in a short time leaves at once
/// ([`Bond::next_divided`]).
///
/// Packets are numbered when they leave ([`Sequencer`]), from the [`Bond`]'s start on: the far end's
/// [`Resequencer`](crate::Resequencer) is made anew with it. Copies of a packet ([`PathPolicy::Redundant`]) have the same
/// number. It is given when the first of them leaves, and tells which counters the others are going to have.
#[derive(Debug)]
pub struct Bond<P> {
    policy: PathPolicy,
    paths: Vec<PathSender>,
    /// Those that are not taken out of use: of a peer that may have many, most often one or two.
    enabled_paths: PathSet,
    /// Others send on them, too.
    is_shared: bool,
    /// Which of them take packets, where some are datagrams and some connections.
    transport_selector: Option<TransportSelector>,
    /// When no path was up the last time.
    last_all_down: Option<Time>,
    /// Of connections, those that take packets of the queue for all.
    bulk_connections: ConnectionCountControl,
    /// Packets waited when all had been sent for which there was room.
    is_backlogged: bool,
    queues: BondQueues<P>,
    sequencer: Sequencer,
    flows: FlowTable,
    path_selector: PathScheduler,
    round_robin: WeightedRoundRobin,
    /// What each path has sent for its rate, in seconds.
    served_seconds: Vec<f64>,
    next_decision: Time,
    /// When a packet was last sent, other than probes.
    last_packet_at: Time,
    /// What the fastest path carries.
    fastest_capacity: Rate,
    /// A packet of a long flow waits no longer for a path that loses less.
    max_loss_wait: Span,
    /// When it was to be called again, and how much later it was.
    next_call: Option<Time>,
    lateness: Span,
    events: VecDeque<PathEvent>,
    /// Packets of flows that change their place, by flow.
    held_by_flow: BTreeMap<u64, HeldPackets<P>>,
    /// Of all flows.
    held_packets: usize,
    held_bytes: u64,
    overflow_drops: u64,
    /// Every path passes packets of this length.
    common_max_bytes: u32,
    /// Packets that no path passes.
    oversized: Vec<P>,
    merge: Option<MergePackets<P>>,
    /// What may leave without a choice of its own.
    burst: Option<Burst>,
    large_packets: LargePacketLimit,
    read_payload: Option<ReadPayloadFn<P>>,
    /// Datagrams dropped, since they had waited too long.
    stale_drops: u64,
    in_flight_data: InFlightData,
    /// What datagrams have carried of late, to be repeated where a path has lost it.
    repeat_store: RepeatStore<(WaitingPacket<P>, Label)>,
    repeated_packets: u64,
    /// Packets that were not sent, since carriers had their data.
    suppressed_retransmissions: u64,
}

/// Appends the second packet to the first one, if that may stand for both and is no longer than so many bytes then. Returns
/// its length, in bytes.
pub type MergePackets<P> = fn(&mut P, &P, usize) -> Option<u32>;

/// Makes a packet shorter that leaves by a path, with a counter: [`Bond::next_shortened`].
pub type Shorten<'s, P> = dyn FnMut(&mut OutgoingPacket<P>, PathId, u64) -> u32 + 's;

/// Reads what a packet carries.
pub type ReadPayloadFn<P> = fn(&P) -> PayloadKind;

/// A path has come or gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathEvent {
    /// It carries packets.
    Up(PathId),
    /// It does not: what was sent on it and not reported may be lost.
    Down(PathId),
}

/// What ends within this after no path was up has failed for the same cause: the connections of a host wait for their
/// retransmission timers at most for so long.
const COMMON_FAILURE_WINDOW: Span = Span::from_secs(2);
const DECISION_INTERVAL: Span = Span::from_millis(250);
/// By so much more seldom idle TCP connections are probed beside the first one. With sixteen, a third of all probes is left, and each
/// connection still passes a firewall several times a minute.
const IDLE_CONNECTION_INTERVAL_FACTOR: u32 = 8;
/// … once none has carried a packet for so long: what others say of the path is of use to one that is to carry something.
const IDLE_AFTER: Span = Span::from_secs(5);
/// A packet of a long flow waits for a path that loses less no longer than for this part of the round trip: CUBIC reduces
/// its window to 7/10, and with so much in the queue the paths stay busy all the same.
const LOSS_WAIT_ROUND_TRIP_FRACTION: f64 = 3.0 / 7.0;
/// Well below what the queue discipline takes for too long.
const MAX_LOSS_WAIT: Span = Span::from_millis(10);

impl<P: Clone> Bond<P> {
    /// Paths of which nothing is known yet: they are probed first.
    ///
    /// # Errors
    /// There is no path or more than [`PathId::MAX_PATHS`], or the choice or the queue has a value out of range.
    pub fn new(config: &BondConfig, now: Time) -> Result<Self, ConfigError> {
        Bond::for_shard(config, &SharedPaths::new(&config.paths, 1, now), 0, now)
    }

    /// The same as shard number `shard` of several that have these paths in common. What they know of the paths' rates is
    /// kept; which of them answer this shard is not known yet.
    ///
    /// # Errors
    /// As [`Bond::new`]; or there are other numbers of paths or fewer shards in `paths`.
    pub fn for_shard(config: &BondConfig, paths: &SharedPaths, shard: usize, now: Time) -> Result<Self, ConfigError> {
        check_paths(config, paths, shard)?;
        let count = config.paths.len();
        let mut bond = Bond {
            policy: config.policy.clone(),
            paths: config
                .paths
                .iter()
                .zip(paths.shard_paths(shard))
                .map(|(path, part)| PathSender::new(*path, part, now))
                .collect(),
            enabled_paths: PathSet::default(),
            is_shared: paths.shard_count() > 1,
            transport_selector: None,
            last_all_down: None,
            bulk_connections: ConnectionCountControl::new(),
            is_backlogged: false,
            queues: BondQueues::new(&config.queue, count, config.seed)?,
            sequencer: Sequencer::new(),
            flows: FlowTable::new(now),
            path_selector: PathScheduler::default(),
            round_robin: round_robin(&config.policy),
            served_seconds: vec![0.0; count],
            next_decision: now,
            last_packet_at: now,
            fastest_capacity: Rate::default(),
            max_loss_wait: MAX_LOSS_WAIT,
            next_call: None,
            lateness: Span::ZERO,
            events: VecDeque::new(),
            held_by_flow: BTreeMap::new(),
            held_packets: 0,
            held_bytes: 0,
            overflow_drops: 0,
            common_max_bytes: u32::MAX,
            oversized: Vec::new(),
            merge: None,
            burst: None,
            large_packets: LargePacketLimit::default(),
            read_payload: None,
            stale_drops: 0,
            in_flight_data: InFlightData::default(),
            repeat_store: RepeatStore::new(paths.shard_count()),
            repeated_packets: 0,
            suppressed_retransmissions: 0,
        };
        bond.update_enabled_paths();
        bond.record_transport_views(now);
        Ok(bond)
    }

    /// From now on packets are shared so, over these paths: those that there are, which keep what is known of them, and perhaps
    /// further ones behind them. A path that is to be used no more is [taken out of use](Self::set_enabled): its number stays. The
    /// queue stays as it is.
    ///
    /// # Errors
    /// As [`Bond::for_shard`], or there are fewer paths than before; then nothing is changed.
    pub fn reconfigure(
        &mut self,
        config: &BondConfig,
        paths: &SharedPaths,
        shard: usize,
        now: Time,
    ) -> Result<(), ConfigError> {
        let (before, count) = (self.paths.len(), config.paths.len());
        check_paths(config, paths, shard)?;
        if count < before {
            let error = ConfigError::for_part("gateway");
            return Err(error("number of paths", count.to_string(), "less than before", "disable paths instead"));
        }
        let added = config.paths.iter().zip(paths.shard_paths(shard)).skip(before);
        self.paths.extend(added.map(|(path, part)| PathSender::new(*path, part, now)));
        self.update_enabled_paths();
        self.served_seconds.resize(count, 0.0);
        self.queues.set_path_count(count);
        if self.policy != config.policy || count > before {
            self.round_robin = round_robin(&config.policy);
            self.policy = config.policy.clone();
        }
        self.record_transport_views(now);
        Ok(())
    }

    /// A packet arrives. The queue discipline may drop it, or another one.
    pub fn enqueue(&mut self, packet: P, label: Label, class: TrafficClass, now: Time) {
        self.enqueue_large(packet, (1, label.size), label, class, now);
    }

    /// The same of a packet that stands for so many, of which the longest has so many bytes.
    pub fn enqueue_large(
        &mut self,
        packet: P,
        (segments, longest_bytes): (u16, u32),
        label: Label,
        class: TrafficClass,
        now: Time,
    ) {
        self.place_packet(
            WaitingPacket {
                content: packet,
                segments: segments.max(1),
                longest_bytes,
                is_ecn_marked: false,
                delivery_order: class,
                queued_at: now,
                number: None,
            },
            label,
            now,
        );
    }

    /// What is to be sent now.
    pub fn next_transmission(&mut self, now: Time) -> Option<Transmission<P>> {
        self.next_shortened(now, &mut |_, _, _| 0)
    }

    /// The same where a packet is made shorter just before it leaves, as the datagram with this counter of this path: `shorten` does so
    /// with its content, and returns by how many bytes. One that [stands for several](Self::enqueue_large) leaves whole.
    pub fn next_shortened(&mut self, now: Time, shorten: &mut Shorten<'_, P>) -> Option<Transmission<P>> {
        self.next(now, shorten, None)
    }

    /// The same where there are packets that [stand for several](Self::enqueue_large): where datagrams carry one, its first segment leaves,
    /// and the rest waits. To the queue discipline, the choice of a path, and statistics, that is as if each segment waited by itself. But of
    /// what came as one, so much leaves at once as the path is sent in half of the delay at which its queue is aimed.
    pub fn next_divided(
        &mut self,
        now: Time,
        shorten: &mut Shorten<'_, P>,
        divide: &mut Divide<'_, P>,
    ) -> Option<Transmission<P>> {
        self.next(now, shorten, Some(divide))
    }

    fn next(
        &mut self,
        now: Time,
        shorten: &mut Shorten<'_, P>,
        mut divide: Option<&mut Divide<'_, P>>,
    ) -> Option<Transmission<P>> {
        if let Some(divide) = divide.as_deref_mut()
            && let Some(next) = self.next_of_burst(now, shorten, divide)
        {
            return Some(next);
        }
        if let Some(due) = self.next_call.take() {
            self.lateness = (now - due).max(Span::ZERO);
        }
        self.advance(now);
        let next = self.next_probe(now).or_else(|| self.next_packet(now, shorten, divide));
        if next.is_none() {
            self.next_call = self.deadline();
            self.is_backlogged = self.queues.has_shared();
            self.publish_waiting_flows();
        }
        next
    }

    /// Has the other shards know for which paths packets wait here.
    fn publish_waiting_flows(&self) {
        if !self.is_shared {
            return;
        }
        let up = self.paths_up();
        for path in PathId::all().take(self.paths.len()) {
            let waits = up.contains(path) && self.has_packets_for(path, up);
            let own = if self.queues.has_packets_for_path(path) { self.flows.bound_flows(path) } else { 0 };
            let shared = if self.queues.has_shared() { self.flows.long_flows() } else { 0 };
            self.path(path).set_waiting_flows(if waits { own + shared } else { 0 });
        }
    }

    /// When to call [`Bond::next_transmission`] again.
    pub fn deadline(&self) -> Option<Time> {
        let states = self.path_ids().filter_map(|path| self.path(path).deadline());
        let up = self.paths_up();
        let ready = self
            .path_ids()
            .filter(|path| self.has_packets_for(*path, up))
            .filter_map(|path| self.path(path).ready_at());
        states.chain(ready).min()
    }

    /// A report of the far end about a path has arrived.
    pub fn receive_report(&mut self, path: PathId, report: &PathReport, now: Time) {
        let Some(state) = self.paths.get_mut(path.index()) else { return };
        self.sequencer.counter_reported(path, report.highest_counter);
        if state.record_report(report, now) {
            self.events.push_back(PathEvent::Up(path));
            self.start_path(path, now);
        }
    }

    /// Whether a path may have ceased to pass long packets since this was last asked: several were lost in a row, and short ones
    /// behind them arrived. [`PathMtuDiscovery::confirm`](crate::PathMtuDiscovery::confirm) finds out.
    pub fn take_long_packet_suspicion(&mut self, path: PathId) -> bool {
        self.paths.get_mut(path.index()).is_some_and(PathSender::take_long_packet_suspicion)
    }

    /// A path has ceased to pass long packets: it carries as much as before they were lost.
    pub fn undo_rate_reduction(&mut self, path: PathId, now: Time) {
        if let Some(path) = self.paths.get_mut(path.index()) {
            path.undo_rate_reduction(now);
        }
    }

    fn start_path(&mut self, path: PathId, now: Time) {
        // It begins with what the others have already sent.
        let others = self.served_seconds.iter().copied().fold(0.0, f64::max);
        self.served_seconds[path.index()] = self.served_seconds[path.index()].max(others);
        self.update_scheduler(now);
    }

    /// Takes a path out of use, or back into it, whatever it answers: its interface went, or an operator wants it so. Returns
    /// whether it is down because of that.
    pub fn set_enabled(&mut self, path: PathId, enabled: bool, now: Time) -> bool {
        let is_ended = self.paths.get_mut(path.index()).is_some_and(|path| path.set_enabled(enabled, now));
        self.update_enabled_paths();
        if is_ended {
            self.handle_path_failure(path, now);
        }
        is_ended
    }

    /// How the carrier of a path does now, where that controls the flow
    /// ([`OuterTransport::Tcp`](crate::OuterTransport)). To be told before [`Bond::next_transmission`].
    pub fn update_transport(&mut self, path: PathId, state: StreamDelivery, now: Time) {
        let is_up = self.paths.get(path.index()).is_some_and(PathSender::is_up);
        if !is_up && self.paths_up().is_empty() {
            self.last_all_down = Some(now);
        }
        let all_failed = self.last_all_down.is_some_and(|none_up| now - none_up < COMMON_FAILURE_WINDOW);
        let Some(path_state) = self.paths.get_mut(path.index()) else { return };
        if path_state.update_transport(state, all_failed, now) {
            self.events.push_back(PathEvent::Up(path));
            self.start_path(path, now);
        }
        self.in_flight_data.record_delivered(path, state.acknowledged_bytes);
    }

    /// Something else carries a path from now on, which adds so many bytes to each packet: the far end has written by that.
    pub fn set_transport(&mut self, path: PathId, transport: OuterTransport, overhead_bytes: u32, now: Time) {
        if let Some(state) = self.paths.get_mut(path.index()) {
            state.set_transport(transport, overhead_bytes, now);
            self.in_flight_data.clear_path(path);
            self.update_enabled_paths();
            self.record_transport_views(now);
        }
    }

    /// A measurement says what a path carries, of which traffic has told little lately.
    pub fn suggest_rate(&mut self, path: PathId, measured: Rate, now: Time) {
        if let Some(path) = self.paths.get_mut(path.index()) {
            path.suggest_rate(measured, now);
        }
    }

    /// Says which packets a path passes: those of at most so many bytes within the encapsulation, at first of any length.
    /// With 0 it is not used. What waits for a path that does not pass it waits for another.
    pub fn set_max_bytes(&mut self, path: PathId, bytes: u32, now: Time) {
        let Some(state) = self.paths.get_mut(path.index()) else { return };
        let was_up = state.is_up();
        let before = state.set_max_bytes(bytes);
        let is_up = state.is_up();
        self.common_max_bytes = self.paths.iter().filter_map(PathSender::max_bytes).min().unwrap_or(0);
        match (was_up, is_up) {
            (false, true) => self.start_path(path, now),
            (true, false) => self.select_transport(now),
            _ => {}
        }
        if bytes < before {
            self.reassign_path_queue(path, now);
        }
    }

    /// The length of the longest packet that may stand for segments, in bytes; `None` where every packet waits alone. Connections carry
    /// such a packet as one: all of it arrives with its last octet. Where datagrams do, it is divided when it leaves.
    pub fn max_large_packet_bytes(&self) -> Option<usize> {
        self.large_packets.max_bytes().or_else(|| self.has_bursts().then_some(MAX_DIVIDED_BYTES))
    }

    /// Packets that follow each other in the queue for all paths may leave as one, where carriers control the flow.
    pub fn set_merge(&mut self, merge: MergePackets<P>) {
        self.merge = Some(merge);
    }

    /// Where carriers control the flow, packets that are of no use are not sent: data that TCP connections inside repeat while
    /// carriers, which repeat by themselves what is lost, still have it; and of steady flows of datagrams those that have waited
    /// too long.
    pub fn set_payload_reader(&mut self, read: ReadPayloadFn<P>) {
        self.read_payload = Some(read);
    }

    /// A packet that is longer than what any path passes that is up; each is returned once.
    pub fn take_oversized(&mut self) -> Option<P> {
        self.oversized.pop()
    }

    /// What has happened since the last call.
    pub fn poll_event(&mut self) -> Option<PathEvent> {
        self.events.pop_front()
    }

    /// What is known of a path.
    pub fn status(&self, path: PathId) -> Option<PathStatus> {
        self.paths.get(path.index()).map(PathSender::status)
    }

    /// Whether any path carries packets.
    pub fn is_up(&self) -> bool {
        !self.paths_up().is_empty()
    }

    /// What carries packets now; none while no path is up.
    pub fn current_transport(&self) -> Option<OuterTransport> {
        self.paths_in_use().iter().next().map(|path| self.path(path).transport())
    }

    /// The paths that long flows use together now.
    pub fn long_flow_paths(&self) -> PathSet {
        self.path_selector.paths()
    }

    /// Packets that the queue disciplines have dropped.
    pub fn dropped_packets(&self) -> u64 {
        self.queues.dropped_packets() + self.overflow_drops + self.stale_drops
    }

    /// Packets that were not sent, since carriers still had their data.
    pub fn suppressed_retransmissions(&self) -> u64 {
        self.suppressed_retransmissions
    }

    /// Packets that wait.
    pub fn queued_packets(&self) -> usize {
        self.queues.queued_packets() + self.held_packets
    }

    /// The paths that may do anything.
    fn path_ids(&self) -> impl Iterator<Item = PathId> + use<P> {
        self.enabled_paths.iter()
    }

    fn update_enabled_paths(&mut self) {
        let paths = PathId::all().zip(&self.paths).filter(|(_, state)| state.is_enabled());
        self.enabled_paths = PathSet::from_paths(paths.map(|(path, _)| path));
        // Datagrams and connections are not used together.
        for transport in [OuterTransport::Udp, OuterTransport::Tcp] {
            let is_like = |path: &PathSender| path.transport() == transport;
            let count = self.paths.iter().filter(|path| path.is_enabled() && is_like(path)).count();
            self.paths.iter_mut().filter(|path| is_like(path)).for_each(|path| path.set_path_count(count));
        }
    }

    fn path(&self, path: PathId) -> &PathSender {
        &self.paths[path.index()]
    }

    fn paths_up(&self) -> PathSet {
        PathSet::from_paths(self.path_ids().filter(|path| self.path(*path).is_up()))
    }

    /// Those that are up of the carrier that is in use.
    fn paths_in_use(&self) -> PathSet {
        let up = self.paths_up();
        let Some(carrier) = self.transport_selector.as_ref().map(TransportSelector::current) else { return up };
        let in_use = PathSet::from_paths(up.iter().filter(|path| self.path(*path).transport() == carrier));
        if in_use.is_empty() { up } else { in_use }
    }

    /// Whether a path takes packets of the queue for all, where each that has room does.
    fn is_bulk_path(&self, path: PathId) -> bool {
        self.bulk_paths().contains(path)
    }

    /// The paths that take packets of the queue for all, where each that has room does.
    fn bulk_paths(&self) -> PathSet {
        let (in_use, reserved) = (self.paths_in_use(), self.reserved_paths());
        let bulk = in_use.iter().filter(|path| !reserved.contains(*path));
        PathSet::from_paths(bulk.take(if reserved.is_empty() { usize::MAX } else { self.bulk_connections.count() }))
    }

    /// Has the number of connections follow what the path holds.
    fn update_connection_count(&mut self) {
        let reserved = self.reserved_paths();
        if reserved.is_empty() {
            return;
        }
        let bulk = self.bulk_paths();
        let statuses: Vec<_> = bulk.iter().map(|path| self.path(path).status()).collect();
        let Some(least) = statuses.iter().filter_map(|status| status.min_round_trip).min() else { return };
        let carriers: Vec<_> = bulk.iter().filter_map(|path| self.path(path).in_flight_control()).collect();
        // While lost data is repeated, round trips are of the past.
        let queues = carriers.iter().filter(|carrier| !carrier.is_recovering()).map(|carrier| carrier.queue_delay());
        self.bulk_connections.update(&ConnectionsSample {
            rate: Rate::from_bits_per_second(statuses.iter().map(|status| status.rate.bits_per_second()).sum()),
            min_round_trip: least,
            queue_delay: queues.min().unwrap_or_default(),
            is_any_limited: carriers.iter().any(|carrier| carrier.is_limited()),
            available_connections: self.paths_in_use().len() - reserved.len(),
        });
    }

    /// Has a carrier chosen if the paths have two.
    fn record_transport_views(&mut self, now: Time) {
        let is_paced = |path: &PathSender| path.transport() == OuterTransport::Udp;
        let paced = self.paths.iter().filter(|path| is_paced(path)).count();
        let has_both = self.policy == PathPolicy::LeastSent && (1..self.paths.len()).contains(&paced);
        self.transport_selector =
            has_both.then(|| self.transport_selector.take().unwrap_or_else(|| TransportSelector::new(now)));
    }

    fn select_transport(&mut self, now: Time) {
        let Some(mut carriers) = self.transport_selector.take() else { return };
        let mut views = [TransportSample::default(); 2];
        for path in &self.paths {
            views[path.transport() as usize].add_path(path.is_up(), &path.status());
        }
        carriers.update(views, self.is_backlogged, now);
        let in_use = carriers.current();
        self.paths.iter_mut().for_each(|path| path.set_standby(path.transport() != in_use, now));
        self.transport_selector = Some(carriers);
    }

    /// Does what time brings: paths that have failed, decisions made anew.
    fn advance(&mut self, now: Time) {
        for path in self.path_ids() {
            if self.paths[path.index()].check_health(now) {
                self.handle_path_failure(path, now);
            }
        }
        if now >= self.next_decision {
            self.update_scheduler(now);
        }
    }

    fn update_scheduler(&mut self, now: Time) {
        self.next_decision = now + DECISION_INTERVAL;
        if self.paths_up().is_empty() {
            self.paths.iter_mut().for_each(|path| path.end_hold_down(now));
        }
        self.select_transport(now);
        self.update_idle_probing(now);
        self.fastest_capacity = self.paths.iter().map(|path| path.rate().capacity()).max().unwrap_or_default();
        let estimates: Vec<_> = self.path_ids().filter_map(|path| self.path_estimate(path)).collect();
        self.path_selector.update(&estimates, self.flows.long_flows(), now);
        self.update_connection_count();
        let carriers = self.bulk_paths().iter().map(|path| self.paths[path.index()].in_flight_control());
        self.large_packets.update(carriers.collect());
        self.update_codel_times();
        self.update_repeating(now);
    }

    /// Connections take the same path through the network: while nothing is to be carried, and all that there are answer, the first one tells of
    /// an outage.
    fn update_idle_probing(&mut self, now: Time) {
        let is_connection = |path: &PathSender| path.is_enabled() && path.transport() == OuterTransport::Tcp;
        let is_idle = now - self.last_packet_at >= IDLE_AFTER;
        let is_shared = is_idle && self.paths.iter().filter(|path| is_connection(path)).all(PathSender::is_up);
        let mut is_first = true;
        for path in &mut self.paths {
            let is_like_first = is_connection(path) && !std::mem::take(&mut is_first);
            path.set_idle_interval_factor(if is_like_first && is_shared { IDLE_CONNECTION_INTERVAL_FACTOR } else { 1 });
        }
    }

    fn update_codel_times(&mut self) {
        let longest_of = |paths: PathSet| paths.iter().filter_map(|path| self.path(path).status().min_round_trip).max();
        let long_flows = longest_of(self.path_selector.paths()).map(Span::as_secs_f64).unwrap_or(f64::MAX);
        let longest = longest_of(self.paths_up()).unwrap_or_default();
        self.max_loss_wait =
            Span::from_secs_f64((long_flows * LOSS_WAIT_ROUND_TRIP_FRACTION).min(MAX_LOSS_WAIT.as_secs_f64()));
        self.queues.set_codel_times(BondConfig::codel_times(longest));
    }

    /// What waited for a path that is gone waits for the others.
    fn handle_path_failure(&mut self, path: PathId, now: Time) {
        self.events.push_back(PathEvent::Down(path));
        self.sequencer.path_down(path);
        self.in_flight_data.clear_path(path);
        self.update_scheduler(now);
        self.reassign_path_queue(path, now);
    }

    /// A path as a decision about long flows sees it.
    fn path_estimate(&self, path: PathId) -> Option<PathEstimate> {
        let state = self.path(path);
        let status = state.is_up().then(|| state.status())?;
        Some(PathEstimate {
            path,
            rate: state.rate().potential_rate(self.fastest_capacity).as_f64(),
            delay: status.base_delay?,
            round_trip: status.min_round_trip?,
            loss_ratio: self.unrepaired_loss(path),
        })
    }

    /// Whether the path's carrier repeats what was lost.
    fn is_recovering(&self, path: PathId) -> bool {
        self.path(path).in_flight_control().is_some_and(|carrier| carrier.is_recovering())
    }
}

/// Whether a bond can have these paths.
fn check_paths(config: &BondConfig, paths: &SharedPaths, shard: usize) -> Result<(), ConfigError> {
    if paths.path_count() != config.paths.len() || shard >= paths.shard_count() {
        let error = ConfigError::for_part("gateway");
        let value = format!("{} for shard {shard} of {}", paths.path_count(), paths.shard_count());
        return Err(error("shared paths", value, "do not match", "give as many as the bond has"));
    }
    config.check()
}

fn round_robin(policy: &PathPolicy) -> WeightedRoundRobin {
    match policy {
        PathPolicy::Ratio { shares, unit } => WeightedRoundRobin::new(shares, *unit),
        _ => WeightedRoundRobin::new(&[1], Default::default()),
    }
}
