//! Which packet a path with room takes, and the number that it gets.

use super::Bond;
use crate::bond_outgoing::{Outgoing, Place, Transmission, Waiting};
use crate::choice::{Class, PathChoice};
use crate::message::{BUCKETS, DataHeader};
use crate::path_id::PathId;
use crate::use_several::PathSet;
use kumade_link::Label;
use kumade_packet::Payload;
use kumade_units::{Span, Time};

/// A packet waits for so long times the difference of the losses: 4 ms for two in ten thousand.
const LOSS_WAIT_SECONDS: f64 = 20.0;
/// Times the root of a loss ratio: among the 10 000 packets that are remembered, the losses of two paths that lose the same
/// differ by less than three standard deviations.
const LOSS_DEVIATION: f64 = 0.042;
const MIN_LOSS: f64 = 1e-4;
/// A path for which so many copies wait, or for so long, is spared the next.
const MAX_COPIES: u64 = 32;
const MAX_COPY_WAIT: Span = Span::from_millis(20);
const FULL_PACKET_BYTES: u64 = 1500;
/// What is said or seen is of use for little longer: ITU-T G.114 has 400 ms at most, from mouth to ear.
const MAX_DATAGRAM_WAIT: Span = Span::from_millis(200);

/// Why a packet is not sent.
enum Waste {
    /// Carriers still have all its data.
    Repeated,
    /// It is of no use any more.
    Stale,
}

impl<P: Clone> Bond<P> {
    pub(super) fn probe(&mut self, now: Time) -> Option<Transmission<P>> {
        let path = self.ids().find(|path| self.path(*path).probe_at().is_some_and(|time| time <= now))?;
        let counter = self.paths[path.index()].send_probe(now);
        Some(Transmission { path, counter, answer: true, packet: None })
    }

    /// The packet that a path with room takes now.
    pub(super) fn packet(&mut self, now: Time) -> Option<Transmission<P>> {
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

    /// Whether the path may take what waits for all.
    fn takes_shared(&self, path: PathId, up: PathSet) -> bool {
        match &self.choice {
            PathChoice::Ratio { .. } => self.turns.turn(up) == Some(path),
            PathChoice::EarliestArrival => self.is_wanted(path),
            PathChoice::Available => self.is_available(path),
            _ => true,
        }
    }

    /// Whether something waits that the path may take.
    pub(super) fn has_work(&self, path: PathId, up: PathSet) -> bool {
        self.queues.has_own(path) || (self.takes_shared(path, up) && self.queues.has_shared())
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
        let shared = self.takes_shared(path, up);
        let weights = (self.flows.own_flows(path), self.flows.long_flows());
        let mut taken = self.queues.pull(path, shared, weights, now);
        while let Some((packet, label)) = &taken
            && let Some(waste) = self.waste(path, packet, *label, now)
        {
            match waste {
                Waste::Repeated => self.repeated += 1,
                Waste::Stale => self.stale += 1,
            }
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

    /// Why a packet is not to be sent by this path, if there is a reason: the carriers that are not held up have all that it
    /// carries, or it is a datagram that has waited too long, and its flow goes on.
    fn waste(&self, path: PathId, packet: &Waiting<P>, label: Label, now: Time) -> Option<Waste> {
        let (state, read) = (self.path(path), self.read_payload.filter(|_| packet.place.is_none())?);
        match read(&packet.content) {
            Payload::Stream(data) => {
                let up = self.up();
                let in_time = PathSet::of(up.iter().filter(|path| !self.is_recovering(*path)));
                let carriers = if in_time.is_empty() { up } else { in_time };
                (state.drops_repeated() && self.carried.has(carriers, label.flow, data)).then_some(Waste::Repeated)
            }
            Payload::Datagram => {
                let is_late = state.drops_stale() && now - packet.since > MAX_DATAGRAM_WAIT;
                (is_late && self.flows.is_steady(label.flow, label.size, now)).then_some(Waste::Stale)
            }
            Payload::Other => None,
        }
    }

    /// A packet of the flow waits no more.
    pub(super) fn left(&mut self, flow: u64, now: Time) {
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
        if let (Some(carrier), Some(read)) = (carrier, self.read_payload)
            && let Payload::Stream(data) = read(content)
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
