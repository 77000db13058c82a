//! The sending end of several paths.

use crate::bond_config::BondConfig;
use crate::bond_outgoing::{Transmission, Waiting};
use crate::bond_queue::BondQueues;
use crate::carried_data::CarriedData;
use crate::carrier_choice::{CarrierChoice, CarrierKind, CarrierView};
use crate::choice::{Class, PathChoice, Turns};
use crate::choice_flows::FlowTable;
use crate::connection_count::{ConnectionCount, ConnectionsView};
use crate::large_packets::LargePackets;
use crate::path_carrier::CarrierState;
use crate::path_id::PathId;
use crate::path_report::Report;
use crate::path_state::{FlowControl, Path, PathStatus};
use crate::sequencer::Sequencer;
use crate::shared_paths::SharedPaths;
use crate::use_several::{PathEstimate, PathSet, UseSeveral};
use kumade_link::Label;
use kumade_packet::Payload;
use kumade_units::{ConfigError, Rate, Span, Time};
use std::collections::{BTreeMap, VecDeque};

mod placing;
mod sending;

/// The sending end of several paths: what waits, which path takes it when, and its number.
///
/// **Loop contract.** [`Bond::offer`] each packet and [`Bond::report`] each report when it arrives. Then call
/// [`Bond::next`] until it returns nothing, and send what it returns at once, by the path that it names and with the
/// counter that it gives. Then sleep until [`Bond::deadline`] or the next arrival. [`Bond::poll_event`] tells of paths
/// that have come or gone.
///
/// Packets wait here, in a queue discipline, and not in the provider's buffers: each path is paced at the rate that it
/// carries, and pulls a packet when it has room. What is bound to one path has a queue of its own there; where both that
/// and the queue for all paths hold packets, they take turns by the numbers of their active flows.
///
/// Packets are numbered when they leave ([`Sequencer`]), from the [`Bond`]'s start on: the far end's
/// [`Resequencer`](crate::Resequencer) is made anew with it. Copies of a packet ([`PathChoice::Redundant`]) have the same
/// number. It is given when the first of them leaves, and tells which counters the others are going to have.
#[derive(Debug)]
pub struct Bond<P> {
    choice: PathChoice,
    paths: Vec<Path>,
    /// Others send on them, too.
    is_shared: bool,
    /// Which of them take packets, where some are datagrams and some connections.
    carriers: Option<CarrierChoice>,
    /// When no path was up the last time.
    none_up: Option<Time>,
    /// Of connections, those that take packets of the queue for all.
    bulk_connections: ConnectionCount,
    /// Packets waited when all had been sent for which there was room.
    is_backlogged: bool,
    queues: BondQueues<P>,
    sequencer: Sequencer,
    flows: FlowTable,
    several: UseSeveral,
    turns: Turns,
    /// What each path has sent for its rate, in seconds.
    served: Vec<f64>,
    decide_at: Time,
    /// What the fastest path carries.
    fastest: Rate,
    /// A packet of a long flow waits no longer for a path that loses less.
    max_loss_wait: Span,
    /// When it was to be called again, and how much later it was.
    due: Option<Time>,
    late: Span,
    events: VecDeque<PathEvent>,
    /// Packets of flows that change their place, by flow.
    held: BTreeMap<u64, VecDeque<(Waiting<P>, Label)>>,
    /// Of all flows.
    held_packets: usize,
    overflowed: u64,
    /// Every path passes packets of this length.
    passed_by_all: u32,
    /// Packets that no path passes.
    oversized: Vec<P>,
    merge: Option<Merge<P>>,
    large_packets: LargePackets,
    read_payload: Option<ReadPayload<P>>,
    /// Datagrams dropped, since they had waited too long.
    stale: u64,
    carried: CarriedData,
    /// Packets that were not sent, since carriers had their data.
    repeated: u64,
}

/// Appends the second packet to the first one, if that may stand for both and is no longer than so many bytes then. Returns
/// its length, in bytes.
pub type Merge<P> = fn(&mut P, &P, usize) -> Option<u32>;

/// Reads what a packet carries.
pub type ReadPayload<P> = fn(&P) -> Payload;

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
const COMMON_FAILURE: Span = Span::from_secs(2);
const DECISION_INTERVAL: Span = Span::from_millis(250);
/// A packet of a long flow waits for a path that loses less no longer than for this part of the round trip: CUBIC reduces
/// its window to 7/10, and with so much in the queue the paths stay busy all the same.
const LOSS_WAIT_PER_ROUND_TRIP: f64 = 3.0 / 7.0;
/// Well below what the queue discipline takes for too long.
const MAX_LOSS_WAIT: Span = Span::from_millis(10);

impl<P: Clone> Bond<P> {
    /// Paths of which nothing is known yet: they are probed first.
    ///
    /// # Errors
    /// There is no path or more than [`PathId::MAX_PATHS`], or the choice or the queue has a value out of range.
    pub fn new(config: &BondConfig, now: Time) -> Result<Self, ConfigError> {
        Bond::sharing(config, &SharedPaths::new(&config.paths, 1, now), 0, now)
    }

    /// The same as shard number `shard` of several that have these paths in common. What they know of the paths' rates is
    /// kept; which of them answer this shard is not known yet.
    ///
    /// # Errors
    /// As [`Bond::new`]; or there are other numbers of paths or fewer shards in `paths`.
    pub fn sharing(config: &BondConfig, paths: &SharedPaths, shard: usize, now: Time) -> Result<Self, ConfigError> {
        let count = config.paths.len();
        if !(1..=PathId::MAX_PATHS).contains(&count) {
            let error = ConfigError::of("gateway");
            return Err(error("number of paths", count.to_string(), "out of range", "give 1 to 16 paths"));
        }
        if paths.paths() != count || shard >= paths.shards() {
            let error = ConfigError::of("gateway");
            let value = format!("{} for shard {shard} of {}", paths.paths(), paths.shards());
            return Err(error("shared paths", value, "do not match", "give as many as the bond has"));
        }
        config.choice.check(count)?;
        let turns = match &config.choice {
            PathChoice::Ratio { shares, unit } => Turns::new(shares, *unit),
            _ => Turns::new(&[1], Default::default()),
        };
        let mut bond = Bond {
            choice: config.choice.clone(),
            paths: config
                .paths
                .iter()
                .zip(paths.parts(shard))
                .map(|(path, part)| Path::new(*path, part, now))
                .collect(),
            is_shared: paths.shards() > 1,
            carriers: None,
            none_up: None,
            bulk_connections: ConnectionCount::new(),
            is_backlogged: false,
            queues: BondQueues::new(&config.queue, count, config.seed)?,
            sequencer: Sequencer::new(),
            flows: FlowTable::new(now),
            several: UseSeveral::default(),
            turns,
            served: vec![0.0; count],
            decide_at: now,
            fastest: Rate::default(),
            max_loss_wait: MAX_LOSS_WAIT,
            due: None,
            late: Span::ZERO,
            events: VecDeque::new(),
            held: BTreeMap::new(),
            held_packets: 0,
            overflowed: 0,
            passed_by_all: u32::MAX,
            oversized: Vec::new(),
            merge: None,
            large_packets: LargePackets::default(),
            read_payload: None,
            stale: 0,
            carried: CarriedData::default(),
            repeated: 0,
        };
        bond.note_carriers(now);
        Ok(bond)
    }

    /// A packet arrives. The queue discipline may drop it, or another one.
    pub fn offer(&mut self, packet: P, label: Label, class: Class, now: Time) {
        self.place(Waiting { content: packet, marked: false, class, since: now, place: None }, label, now);
    }

    /// What is to be sent now.
    pub fn next(&mut self, now: Time) -> Option<Transmission<P>> {
        if let Some(due) = self.due.take() {
            self.late = (now - due).max(Span::ZERO);
        }
        self.advance(now);
        let next = self.probe(now).or_else(|| self.packet(now));
        if next.is_none() {
            self.due = self.deadline();
            self.is_backlogged = self.queues.has_shared();
            self.tell_waiting();
        }
        next
    }

    /// Has the other shards know for which paths packets wait here.
    fn tell_waiting(&self) {
        if !self.is_shared {
            return;
        }
        let up = self.up();
        for path in self.ids() {
            let waits = up.contains(path) && self.has_work(path, up);
            let own = if self.queues.has_own(path) { self.flows.own_flows(path) } else { 0 };
            let shared = if self.queues.has_shared() { self.flows.long_flows() } else { 0 };
            self.path(path).set_waiting(if waits { own + shared } else { 0 });
        }
    }

    /// When to call [`Bond::next`] again.
    pub fn deadline(&self) -> Option<Time> {
        let states = self.paths.iter().filter_map(Path::deadline);
        let up = self.up();
        let ready = self.ids().filter(|path| self.has_work(*path, up)).filter_map(|path| self.path(path).ready_at());
        states.chain(ready).min()
    }

    /// A report of the far end about a path has arrived.
    pub fn report(&mut self, path: PathId, report: &Report, now: Time) {
        let Some(state) = self.paths.get_mut(path.index()) else { return };
        self.sequencer.reported(path, report.highest);
        if state.report(report, now) {
            self.events.push_back(PathEvent::Up(path));
            self.begin_to_use(path, now);
        }
    }

    fn begin_to_use(&mut self, path: PathId, now: Time) {
        // It begins with what the others have already sent.
        let others = self.served.iter().copied().fold(0.0, f64::max);
        self.served[path.index()] = self.served[path.index()].max(others);
        self.decide(now);
    }

    /// Takes a path out of use, or back into it, whatever it answers: its interface went, or an operator wants it so.
    pub fn enable(&mut self, path: PathId, enabled: bool, now: Time) {
        if self.paths.get_mut(path.index()).is_some_and(|path| path.enable(enabled, now)) {
            self.lost_path(path, now);
        }
    }

    /// How the carrier of a path does now, where that controls the flow
    /// ([`FlowControl::Backpressure`](crate::FlowControl)). To be told before [`Bond::next`].
    pub fn set_carrier(&mut self, path: PathId, state: CarrierState, now: Time) {
        let is_up = self.paths.get(path.index()).is_some_and(Path::is_up);
        if !is_up && self.up().is_empty() {
            self.none_up = Some(now);
        }
        let all_failed = self.none_up.is_some_and(|none_up| now - none_up < COMMON_FAILURE);
        let Some(path_state) = self.paths.get_mut(path.index()) else { return };
        if path_state.set_carrier(state, all_failed, now) {
            self.events.push_back(PathEvent::Up(path));
            self.begin_to_use(path, now);
        }
        self.carried.delivered(path, state.acknowledged);
    }

    /// Something else carries a path from now on, which adds so many bytes to each packet: the far end has written by that.
    pub fn set_flow_control(&mut self, path: PathId, flow_control: FlowControl, overhead_bytes: u32, now: Time) {
        if let Some(state) = self.paths.get_mut(path.index()) {
            state.set_flow_control(flow_control, overhead_bytes, now);
            self.carried.lost(path);
            self.note_carriers(now);
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
        self.passed_by_all = self.paths.iter().filter_map(Path::max_bytes).min().unwrap_or(0);
        match (was_up, is_up) {
            (false, true) => self.begin_to_use(path, now),
            (true, false) => self.choose_carrier(now),
            _ => {}
        }
        if bytes < before {
            self.move_own(path, now);
        }
    }

    /// The length of the longest packet that may stand for segments, in bytes, where carriers control the flow; `None` where
    /// every packet travels alone. All of such a packet arrives with its last octet.
    pub fn max_large_packet(&self) -> Option<usize> {
        self.large_packets.max_bytes()
    }

    /// Packets that follow each other in the queue for all paths may leave as one, where carriers control the flow.
    pub fn merge_by(&mut self, merge: Merge<P>) {
        self.merge = Some(merge);
    }

    /// Where carriers control the flow, packets that are of no use are not sent: data that TCP connections inside repeat while
    /// carriers, which repeat by themselves what is lost, still have it; and of steady flows of datagrams those that have waited
    /// too long.
    pub fn drop_useless_by(&mut self, read: ReadPayload<P>) {
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
        self.paths.get(path.index()).map(Path::status)
    }

    /// Whether any path carries packets.
    pub fn is_up(&self) -> bool {
        !self.up().is_empty()
    }

    /// What carries packets now; none while no path is up.
    pub fn carrier(&self) -> Option<CarrierKind> {
        self.in_use().iter().next().map(|path| self.path(path).flow_control().into())
    }

    /// The paths that long flows use together now.
    pub fn long_flow_paths(&self) -> PathSet {
        self.several.set()
    }

    /// Packets that the queue disciplines have dropped.
    pub fn dropped(&self) -> u64 {
        self.queues.dropped() + self.overflowed + self.stale
    }

    /// Packets that were not sent, since carriers still had their data.
    pub fn repeated(&self) -> u64 {
        self.repeated
    }

    /// Packets that wait.
    pub fn queued(&self) -> usize {
        self.queues.packets() + self.held_packets
    }

    fn ids(&self) -> impl Iterator<Item = PathId> + use<P> {
        PathId::all().take(self.paths.len())
    }

    fn path(&self, path: PathId) -> &Path {
        &self.paths[path.index()]
    }

    fn up(&self) -> PathSet {
        PathSet::of(self.ids().filter(|path| self.path(*path).is_up()))
    }

    /// Those that are up of the carrier that is in use.
    fn in_use(&self) -> PathSet {
        let up = self.up();
        let Some(carrier) = self.carriers.as_ref().map(CarrierChoice::current) else { return up };
        let in_use = PathSet::of(up.iter().filter(|path| self.path(*path).flow_control() == carrier.into()));
        if in_use.is_empty() { up } else { in_use }
    }

    /// Whether a path takes packets of the queue for all, where each that has room does.
    fn is_available(&self, path: PathId) -> bool {
        self.for_bulk().contains(path)
    }

    /// The paths that take packets of the queue for all, where each that has room does.
    fn for_bulk(&self) -> PathSet {
        let (in_use, reserved) = (self.in_use(), self.reserved());
        let bulk = in_use.iter().filter(|path| !reserved.contains(*path));
        PathSet::of(bulk.take(if reserved.is_empty() { usize::MAX } else { self.bulk_connections.count() }))
    }

    /// Has the number of connections follow what the path holds.
    fn count_connections(&mut self) {
        let reserved = self.reserved();
        if reserved.is_empty() {
            return;
        }
        let bulk = self.for_bulk();
        let statuses: Vec<_> = bulk.iter().map(|path| self.path(path).status()).collect();
        let Some(least) = statuses.iter().filter_map(|status| status.min_round_trip).min() else { return };
        let carriers: Vec<_> = bulk.iter().filter_map(|path| self.path(path).carrier()).collect();
        // While lost data is repeated, round trips are of the past.
        let queues = carriers.iter().filter(|carrier| !carrier.is_recovering()).map(|carrier| carrier.queue());
        self.bulk_connections.update(&ConnectionsView {
            rate: Rate::from_bits_per_second(statuses.iter().map(|status| status.rate.bits_per_second()).sum()),
            least,
            queue: queues.min().unwrap_or_default(),
            are_limited: carriers.iter().any(|carrier| carrier.is_limited()),
            available: self.in_use().len() - reserved.len(),
        });
    }

    /// Has a carrier chosen if the paths have two.
    fn note_carriers(&mut self, now: Time) {
        let is_paced = |path: &Path| path.flow_control() == FlowControl::Pacing;
        let paced = self.paths.iter().filter(|path| is_paced(path)).count();
        let has_both = self.choice == PathChoice::Available && (1..self.paths.len()).contains(&paced);
        self.carriers = has_both.then(|| self.carriers.take().unwrap_or_else(|| CarrierChoice::new(now)));
    }

    fn choose_carrier(&mut self, now: Time) {
        let Some(mut carriers) = self.carriers.take() else { return };
        let mut views = [CarrierView::default(); 2];
        for path in &self.paths {
            views[CarrierKind::from(path.flow_control()) as usize].add(path.is_up(), &path.status());
        }
        carriers.update(views, self.is_backlogged, now);
        let in_use = FlowControl::from(carriers.current());
        self.paths.iter_mut().for_each(|path| path.set_spare(path.flow_control() != in_use, now));
        self.carriers = Some(carriers);
    }

    /// Does what time brings: paths that have failed, decisions made anew.
    fn advance(&mut self, now: Time) {
        for path in self.ids() {
            if self.paths[path.index()].check(now) {
                self.lost_path(path, now);
            }
        }
        if now >= self.decide_at {
            self.decide(now);
        }
    }

    fn decide(&mut self, now: Time) {
        self.decide_at = now + DECISION_INTERVAL;
        if self.up().is_empty() {
            self.paths.iter_mut().for_each(|path| path.lift_hold(now));
        }
        self.choose_carrier(now);
        self.fastest = self.paths.iter().map(|path| path.rate().capacity()).max().unwrap_or_default();
        let estimates: Vec<_> = self.ids().filter_map(|path| self.path(path).estimate(path, self.fastest)).collect();
        self.several.update(&estimates, self.flows.long_flows(), now);
        self.count_connections();
        let carriers = self.for_bulk().iter().map(|path| self.paths[path.index()].carrier());
        self.large_packets.update(carriers.collect());
        self.follow_round_trips();
    }

    fn follow_round_trips(&mut self) {
        let longest_of = |paths: PathSet| paths.iter().filter_map(|path| self.path(path).status().min_round_trip).max();
        let long_flows = longest_of(self.several.set()).map(Span::as_secs_f64).unwrap_or(f64::MAX);
        let longest = longest_of(self.up()).unwrap_or_default();
        self.max_loss_wait =
            Span::from_secs_f64((long_flows * LOSS_WAIT_PER_ROUND_TRIP).min(MAX_LOSS_WAIT.as_secs_f64()));
        self.queues.set_codel_times(BondConfig::codel_times(longest));
    }

    /// What waited for a path that is gone waits for the others.
    fn lost_path(&mut self, path: PathId, now: Time) {
        self.events.push_back(PathEvent::Down(path));
        self.sequencer.path_down(path);
        self.carried.lost(path);
        self.decide(now);
        self.move_own(path, now);
    }

    /// Whether the path's carrier repeats what was lost.
    fn is_recovering(&self, path: PathId) -> bool {
        self.path(path).carrier().is_some_and(|carrier| carrier.is_recovering())
    }
}

impl Path {
    /// As a decision about long flows sees it.
    fn estimate(&self, path: PathId, fastest: Rate) -> Option<PathEstimate> {
        let status = self.is_up().then(|| self.status())?;
        Some(PathEstimate {
            path,
            rate: self.rate().potential(fastest).as_f64(),
            delay: status.base_delay?,
            round_trip: status.min_round_trip?,
            loss: status.loss,
        })
    }
}
