//! The sending end of several paths.

use crate::bond_config::BondConfig;
use crate::bond_outgoing::{Outgoing, Place, Transmission, Waiting};
use crate::bond_queue::BondQueues;
use crate::carried_data::CarriedData;
use crate::carrier_choice::{CarrierChoice, CarrierKind, CarrierView};
use crate::choice::{Class, PathChoice, Turns};
use crate::choice_flows::{FlowState, FlowTable};
use crate::choice_pinned::rendezvous;
use crate::large_packets::LargePackets;
use crate::message::{BUCKETS, DataHeader};
use crate::path_carrier::CarrierState;
use crate::path_id::PathId;
use crate::path_report::Report;
use crate::path_state::{FlowControl, Path, PathStatus};
use crate::sequencer::Sequencer;
use crate::shared_paths::SharedPaths;
use crate::use_several::{PathEstimate, PathSet, UseSeveral};
use link::Label;
use packet::StreamData;
use std::collections::{BTreeMap, VecDeque};
use units::{ConfigError, Rate, Span, Time};

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
    read_data: Option<ReadData<P>>,
    carried: CarriedData,
    /// Packets that were not sent, since carriers had their data.
    repeated: u64,
}

/// Appends the second packet to the first one, if that may stand for both and is no longer than so many bytes then. Returns
/// its length, in bytes.
pub type Merge<P> = fn(&mut P, &P, usize) -> Option<u32>;

/// Reads what a packet carries of a TCP connection's byte stream.
pub type ReadData<P> = fn(&P) -> Option<StreamData>;

/// A path has come or gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathEvent {
    /// It carries packets.
    Up(PathId),
    /// It does not: what was sent on it and not reported may be lost.
    Down(PathId),
}

/// Silent for so long, a flow begins anew.
const FLOW_SILENCE: Span = Span::from_secs(1);
const PINNED_SILENCE: Span = Span::from_secs(180);
/// A bound flow changes to a path that is better by this.
const MIN_ADVANTAGE: Span = Span::from_millis(10);
/// Of a flow, and of all; more are dropped.
const MAX_HELD: usize = 1000;
const MAX_HELD_IN_ALL: usize = 8000;
/// A packet waits for so long times the difference of the losses: 4 ms for two in ten thousand, …
const LOSS_WAIT_SECONDS: f64 = 20.0;
/// … but no longer than for this part of the round trip: CUBIC reduces its window to 7/10, and with so much in the queue the
/// paths stay busy all the same.
const LOSS_WAIT_PER_ROUND_TRIP: f64 = 3.0 / 7.0;
/// Times the root of a loss ratio: among the 10 000 packets that are remembered, the losses of two paths that lose the same
/// differ by less than three standard deviations.
const LOSS_DEVIATION: f64 = 0.042;
const MIN_LOSS: f64 = 1e-4;
/// Well below what the queue discipline takes for too long.
const MAX_LOSS_WAIT: Span = Span::from_millis(10);
const DECISION_INTERVAL: Span = Span::from_millis(250);
/// A path for which so many copies wait, or for so long, is spared the next.
const MAX_COPIES: u64 = 32;
const MAX_COPY_WAIT: Span = Span::from_millis(20);
/// With so many paths that have room of their own, …
const MIN_PATHS_TO_RESERVE: usize = 4;
/// … so many are kept for small packets …
const RESERVED: usize = 2;
/// … of up to this length …
const SMALL_PACKET_BYTES: u32 = 600;
/// … of flows that have sent up to this within about 100 ms: speech, a game, keystrokes, the beginning of anything.
const SPARSE_BYTES: f64 = 3000.0;
const FULL_PACKET_BYTES: u64 = 1500;

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
            read_data: None,
            carried: CarriedData::default(),
            repeated: 0,
        };
        bond.note_carriers(now);
        Ok(bond)
    }

    /// A packet arrives. The queue discipline may drop it, or another one.
    pub fn offer(&mut self, packet: P, label: Label, class: Class, now: Time) {
        self.place(Waiting { content: packet, marked: false, class, place: None }, label, now);
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
        if let Some(path_state) = self.paths.get_mut(path.index()) {
            path_state.set_carrier(state, now);
            self.carried.delivered(path, state.acknowledged);
        }
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

    /// Data that TCP connections inside repeat is not sent while carriers still have it. Those repeat by themselves what is lost.
    pub fn drop_repeated_by(&mut self, read: ReadData<P>) {
        self.read_data = Some(read);
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
        self.queues.dropped() + self.overflowed
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
        self.in_use().contains(path) && !self.reserved().contains(path)
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
        let carriers = self.in_use().iter().map(|path| self.paths[path.index()].carrier());
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

    /// Finds another place for what waits for a path.
    fn move_own(&mut self, path: PathId, now: Time) {
        let taken = self.queues.take_own(path, now);
        taken.iter().for_each(|(_, label)| self.flows.left(label.flow));
        for (packet, label) in taken {
            self.place(packet, label, now);
        }
        // What was held for them follows.
        for flow in self.held.keys().copied().collect::<Vec<_>>() {
            self.release(flow, now);
        }
    }

    fn probe(&mut self, now: Time) -> Option<Transmission<P>> {
        let path = self.ids().find(|path| self.path(*path).probe_at().is_some_and(|time| time <= now))?;
        let counter = self.paths[path.index()].send_probe(now);
        Some(Transmission { path, counter, answer: true, packet: None })
    }

    /// Puts a packet into the queue where it belongs. As long as packets of its flow wait in another one, it is held, so
    /// that it does not overtake them.
    fn place(&mut self, packet: Waiting<P>, label: Label, now: Time) {
        if !self.passes(label.size) {
            self.oversized.push(packet.content);
            return;
        }
        let silence = if self.choice == PathChoice::Pinned { PINNED_SILENCE } else { FLOW_SILENCE };
        let before = *self.flows.touch(label.flow, silence, now);
        let after = self.bind(&before, &label, packet.class, now);
        let held = self.held.get_mut(&label.flow);
        let moves = before.waiting > 0 && after.path != before.path;
        if held.is_none() && !moves {
            *self.flows.touch(label.flow, silence, now) = FlowState { waiting: before.waiting + 1, ..after };
            self.flows.count(label.flow, now);
            self.queues.offer(packet, label, after.path, now);
            self.note_drops(now);
            return;
        }
        let held = held.map_or(0, |held| held.len());
        if held < MAX_HELD && self.held_packets < MAX_HELD_IN_ALL {
            self.held.entry(label.flow).or_default().push_back((packet, label));
            self.held_packets += 1;
        } else {
            self.overflowed += 1;
        }
    }

    fn note_drops(&mut self, now: Time) {
        while let Some(flow) = self.queues.take_dropped() {
            self.flows.left(flow);
            self.release(flow, now);
        }
    }

    /// Lets the packets of a flow go on if none of it waits any more.
    fn release(&mut self, flow: u64, now: Time) {
        if !self.held.contains_key(&flow) || self.flows.touch(flow, PINNED_SILENCE, now).waiting > 0 {
            return;
        }
        let held = self.held.remove(&flow).unwrap_or_default();
        self.held_packets -= held.len();
        for (packet, label) in held {
            self.place(packet, label, now);
        }
    }

    /// What becomes of a flow with this packet: its path, or none for the queue of all.
    fn bind(&self, flow: &FlowState, label: &Label, class: Class, now: Time) -> FlowState {
        let up = self.up();
        let bytes = (flow.bytes - self.several.forgotten(flow.path, now - flow.last)).max(0.0);
        let long = (flow.long && bytes > 0.0) || self.several.is_long(bytes);
        // Nobody else asks.
        let is_asked = self.choice == PathChoice::Available;
        let recent = if is_asked { flow.recent_with(label.size, now) } else { 0.0 };
        // What was merged for connections must not keep its flow on one.
        let largest = if self.carriers.is_some() { label.size } else { flow.largest.max(label.size) };
        let largest = if self.passes(largest) { largest } else { label.size };
        let bound = flow.path.filter(|path| up.contains(*path) && self.path(*path).fits(largest));
        let (path, long) = match (&self.choice, class) {
            (PathChoice::Redundant, _) => (None, true),
            (PathChoice::Ratio { .. } | PathChoice::Weighted, Class::Ordered) => (None, true),
            (PathChoice::EarliestArrival, Class::Ordered) if long => (None, true),
            (PathChoice::EarliestArrival, _) => (self.earliest(bound, label.size, largest, now), false),
            (PathChoice::Available, _) => (self.reserved_for(bound, recent, label.size), true),
            _ => (bound.or_else(|| rendezvous(label.flow, self.weights())), false),
        };
        let fits_all = largest <= self.passed_by_all || self.in_use().iter().all(|path| self.path(path).fits(largest));
        let path = if fits_all { path } else { self.earliest(bound, label.size, largest, now) };
        FlowState {
            last: now,
            bytes: bytes + f64::from(label.size),
            path,
            long,
            waiting: flow.waiting,
            recent,
            largest,
        }
    }

    /// The paths that are kept for sparse flows.
    fn reserved(&self) -> PathSet {
        let in_use = self.in_use();
        let is_kept = self.choice == PathChoice::Available && in_use.len() >= MIN_PATHS_TO_RESERVE;
        let kept = in_use.iter().take(RESERVED).filter(|path| self.path(*path).may_be_kept());
        if is_kept { PathSet::of(kept) } else { PathSet::default() }
    }

    /// The one of them that a packet takes, if it is for these; `recent` is of its flow.
    fn reserved_for(&self, bound: Option<PathId>, recent: f64, size: u32) -> Option<PathId> {
        if recent > SPARSE_BYTES || size > SMALL_PACKET_BYTES {
            return None;
        }
        let cost = |path: &PathId| (self.is_recovering(*path), !self.path(*path).is_open(), Some(*path) != bound);
        self.reserved().iter().min_by_key(cost)
    }

    /// Whether the path's carrier repeats what was lost.
    fn is_recovering(&self, path: PathId) -> bool {
        self.path(path).carrier().is_some_and(|carrier| carrier.is_recovering())
    }

    fn weights(&self) -> impl Iterator<Item = (PathId, f64)> {
        let up = self.ids().filter(|path| self.path(*path).is_up());
        up.map(|path| (path, self.path(path).rate().capacity().as_f64()))
    }

    /// Whether any path does that is up, or none is.
    fn passes(&self, size: u32) -> bool {
        let up = self.up();
        size <= self.passed_by_all || up.is_empty() || up.iter().any(|path| self.path(path).fits(size))
    }

    /// The path on which a packet arrives first, of those that pass all packets of its flow; the one to which its flow is
    /// bound unless another is clearly better.
    fn earliest(&self, bound: Option<PathId>, size: u32, largest: u32, now: Time) -> Option<PathId> {
        let arrival = |path: PathId| self.path(path).arrival(self.queues.own_bytes(path), size, now);
        let fits = |path: &PathId| self.path(*path).is_up() && self.path(*path).fits(largest);
        let best = self.ids().filter(fits).min_by_key(|path| arrival(*path))?;
        match bound {
            Some(bound) if arrival(bound) <= arrival(best) + MIN_ADVANTAGE => Some(bound),
            _ => Some(best),
        }
    }

    /// The packet that a path with room takes now.
    fn packet(&mut self, now: Time) -> Option<Transmission<P>> {
        let up = self.up();
        let is_ready = |path: &PathId| self.path(*path).ready_at().is_some_and(|time| time <= now);
        let mut ready: Vec<PathId> = self.ids().filter(is_ready).collect();
        self.sort(&mut ready, now);
        for path in ready {
            match self.fitting(path, up, now) {
                Some((packet, label)) => return Some(self.transmit(path, up, packet, label, now)),
                None if self.awaits_turn() => self.paths[path.index()].note_turn(now),
                None => self.paths[path.index()].note_idle(now),
            }
        }
        None
    }

    /// Whether a path that takes nothing has to leave what there is to others.
    fn awaits_turn(&self) -> bool {
        matches!(self.choice, PathChoice::Ratio { .. }) && self.queues.has_shared()
    }

    /// Those come first that are to take the next packet of all.
    fn sort(&self, ready: &mut [PathId], now: Time) {
        match self.choice {
            PathChoice::EarliestArrival => ready.sort_by_key(|path| self.path(*path).arrival(0, 1500, now)),
            PathChoice::Available => ready.sort_by(|one, other| {
                self.is_recovering(*one)
                    .cmp(&self.is_recovering(*other))
                    .then(self.served[one.index()].total_cmp(&self.served[other.index()]))
            }),
            _ => ready.sort_by(|one, other| self.served[one.index()].total_cmp(&self.served[other.index()])),
        }
    }

    /// Whether something waits that the path may take.
    fn has_work(&self, path: PathId, up: PathSet) -> bool {
        let shared = match &self.choice {
            PathChoice::Ratio { .. } => self.turns.clone().turn(up) == Some(path),
            PathChoice::EarliestArrival => self.is_wanted(path),
            PathChoice::Available => self.is_available(path),
            _ => true,
        };
        self.queues.has_own(path) || (shared && self.queues.has_shared())
    }

    /// What a path takes next. Packets that it does not pass, because it did when they were placed, are placed anew; copies
    /// are not missed.
    fn fitting(&mut self, path: PathId, up: PathSet, now: Time) -> Option<(Waiting<P>, Label)> {
        loop {
            let (packet, label) = self.pull(path, up, now)?;
            if self.path(path).fits(label.size) {
                return Some((packet, label));
            }
            if packet.place.is_none() {
                self.place(packet, label, now);
            }
        }
    }

    /// Whether a path is to take packets of long flows now: one that loses more than another only when those that wait
    /// are more than the other carries soon.
    fn is_wanted(&self, path: PathId) -> bool {
        let set = self.several.set();
        let loss = |path: PathId| self.path(path).rate().loss();
        let suffices = |other: PathId| {
            let wait = Span::from_secs_f64((loss(path) - loss(other)) * LOSS_WAIT_SECONDS).min(self.max_loss_wait);
            let clearly_less = loss(path) > loss(other) + LOSS_DEVIATION * loss(other).sqrt() + MIN_LOSS;
            clearly_less && self.queues.shared_bytes() < self.path(other).own_potential(self.fastest).bytes_in(wait)
        };
        set.contains(path) && !set.iter().any(|other| other != path && self.path(other).is_open() && suffices(other))
    }

    fn pull(&mut self, path: PathId, up: PathSet, now: Time) -> Option<(Waiting<P>, Label)> {
        let shared = match &self.choice {
            PathChoice::Ratio { .. } => self.turns.turn(up) == Some(path),
            PathChoice::EarliestArrival => self.is_wanted(path),
            PathChoice::Available => self.is_available(path),
            _ => true,
        };
        let weights = (self.flows.own_flows(path), self.flows.long_flows());
        let mut taken = self.queues.pull(path, shared, weights, now);
        let drops_repeated = self.path(path).drops_repeated();
        while let Some((_, label)) =
            taken.take_if(|(packet, label)| drops_repeated && self.is_repeated(packet, label.flow))
        {
            self.repeated += 1;
            self.left(label.flow, now);
            taken = self.queues.pull(path, shared, weights, now);
        }
        if let Some((packet, label)) = &mut taken {
            self.left(label.flow, now);
            if shared {
                self.merge_followers(path, packet, label, now);
            }
        }
        self.note_drops(now);
        taken
    }

    /// Whether the carriers that are not held up have all that the packet carries.
    fn is_repeated(&self, packet: &Waiting<P>, flow: u64) -> bool {
        let Some(data) = self.read_data.and_then(|read| read(&packet.content)) else { return false };
        let up = self.up();
        let in_time = PathSet::of(up.iter().filter(|path| !self.is_recovering(*path)));
        packet.place.is_none() && self.carried.has(if in_time.is_empty() { up } else { in_time }, flow, data)
    }

    /// A packet of the flow waits no more.
    fn left(&mut self, flow: u64, now: Time) {
        self.flows.left(flow);
        self.release(flow, now);
    }

    /// Has a packet stand for those of its flow that are next.
    fn merge_followers(&mut self, path: PathId, packet: &mut Waiting<P>, label: &mut Label, now: Time) {
        let (Some(merge), Some(max_bytes)) = (self.merge, self.max_large_packet()) else { return };
        let flows = self.flows.long_flows();
        loop {
            let joins = |next: &Waiting<P>, flow| {
                let is_alike = flow == label.flow && next.class == packet.class && next.place.is_none();
                let joined = if is_alike { merge(&mut packet.content, &next.content, max_bytes) } else { None };
                joined.inspect(|bytes| label.size = *bytes).is_some()
            };
            let Some((next, _)) = self.queues.take_shared_if(path, flows, now, joins) else { return };
            packet.marked |= next.marked;
            self.left(label.flow, now);
        }
    }

    fn transmit(&mut self, path: PathId, up: PathSet, packet: Waiting<P>, label: Label, now: Time) -> Transmission<P> {
        let Place { header, assignment } = match &packet.place {
            Some(place) => **place,
            None => self.number(path, up, &packet, label),
        };
        let state = &mut self.paths[path.index()];
        let answer = state.asks(now);
        let counter = state.send(label.size, self.late, now);
        let rate = state.rate().capacity().as_f64();
        self.served[path.index()] += f64::from(state.wire_bytes(label.size)) * 8.0 / rate;
        if packet.class == Class::Ordered && matches!(self.choice, PathChoice::Ratio { .. }) {
            self.turns.sent(path, label.size, up);
        }
        let header = DataHeader { counter: counter as u32, answer, ..header };
        let Waiting { content, marked, .. } = packet;
        self.note_carried(path, label.flow, &content);
        Transmission { path, counter, answer, packet: Some(Outgoing { content, marked, header, assignment }) }
    }

    fn note_carried(&mut self, path: PathId, flow: u64, content: &P) {
        let state = &self.paths[path.index()];
        let carrier = state.carrier().filter(|_| state.drops_repeated());
        if let (Some(carrier), Some(read)) = (carrier, self.read_data)
            && let Some(data) = read(content)
        {
            self.carried.given(path, flow, data, carrier.given());
        }
    }

    /// Whether a path is not so far behind that it is spared a copy: what is lost elsewhere is waited for until it comes.
    fn takes_copy(&self, path: PathId) -> bool {
        let copies = self.queues.copies(path);
        match self.path(path).carrier() {
            Some(carrier) => carrier.room() > 0 && copies == 0,
            None => {
                let wait = self.path(path).rate().pace().time_for(copies * FULL_PACKET_BYTES);
                copies < MAX_COPIES && wait <= MAX_COPY_WAIT
            }
        }
    }

    /// Numbers a packet that is about to leave, and has its copies follow on other paths.
    fn number(&mut self, path: PathId, up: PathSet, packet: &Waiting<P>, label: Label) -> Place {
        let all = match self.choice {
            PathChoice::Redundant => up,
            PathChoice::Available => Some(self.reserved()).filter(|kept| kept.contains(path)).unwrap_or_default(),
            _ => PathSet::default(),
        };
        let fits = |other: PathId| self.path(other).fits(label.size) && self.takes_copy(other);
        let others = PathSet::of(all.iter().filter(|other| *other != path && fits(*other)));
        let redundant = !others.is_empty() || self.choice == PathChoice::Redundant;
        let bucket = (label.flow % u64::from(BUCKETS)) as u16;
        let header = DataHeader { bucket, redundant, ..DataHeader::default() };
        let place = match packet.class {
            Class::Unordered => {
                let number = self.sequencer.assign_unordered(bucket);
                Place { header: DataHeader { number, unordered: true, ..header }, assignment: None }
            }
            Class::Ordered => {
                let (paths, queues) = (&self.paths, &self.queues);
                let counter = |path: PathId| paths[path.index()].next_counter() + queues.copies(path);
                let copies = others.with(path).iter().map(|path| (path, counter(path)));
                let assignment = self.sequencer.assign(bucket, copies);
                Place { header: DataHeader { number: assignment.number, ..header }, assignment: Some(assignment) }
            }
        };
        for other in others.iter() {
            self.queues.copy(other, Waiting { place: Some(Box::new(place)), ..packet.clone() }, label);
        }
        place
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
