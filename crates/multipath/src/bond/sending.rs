//! Which packet a path with room takes, and the number that it gets.

use super::{Bond, Shorten};
use crate::bond::outgoing::{AssignedNumber, Divide, OutgoingPacket, Transmission, WaitingPacket};
use crate::bond::queue::Dequeued;
use crate::message::{BUCKET_COUNT, DataHeader};
use crate::outer_transport::kind::OuterTransport;
use crate::path::id::PathId;
use crate::scheduler::path_scheduler::PathSet;
use crate::scheduler::policy::{PathPolicy, TrafficClass};
use kumade_link::Label;
use kumade_packet::{PayloadKind, StreamSegment};
use kumade_units::{Span, Time};

/// A packet waits for so long times the difference of the losses: 4 ms for two in ten thousand.
const LOSS_WAIT_SECONDS: f64 = 20.0;
/// Times the root of a loss ratio: among the 10 000 packets that are remembered, the losses of two paths that lose the same
/// differ by less than three standard deviations.
const RELATIVE_LOSS_DEVIATION: f64 = 0.042;
const MIN_LOSS_RATIO: f64 = 1e-4;
/// A path for which so many copies wait, or for so long, is spared the next.
const MAX_QUEUED_COPIES: u64 = 32;
const MAX_COPY_WAIT: Span = Span::from_millis(20);
const FULL_PACKET_BYTES: u64 = 1500;
/// What is said or seen is of use for little longer: ITU-T G.114 has 400 ms at most, from mouth to ear.
const MAX_DATAGRAM_WAIT: Span = Span::from_millis(200);

/// Why a packet is not sent.
enum DropReason {
    /// Carriers still have all its data.
    Retransmitted,
    /// It is of no use any more.
    Stale,
}

impl<P: Clone> Bond<P> {
    pub(super) fn next_probe(&mut self, now: Time) -> Option<Transmission<P>> {
        let path = self.path_ids().find(|path| self.path(*path).is_probe_due(now))?;
        let counter = self.paths[path.index()].record_probe(now);
        Some(Transmission { path, counter, requests_report: true, packet: None })
    }

    /// The packet that a path with room takes now.
    pub(super) fn next_packet(
        &mut self,
        now: Time,
        shorten: &mut Shorten<'_, P>,
        mut divide: Option<&mut Divide<'_, P>>,
    ) -> Option<Transmission<P>> {
        let up = self.paths_up();
        let is_ready = |path: &PathId| self.path(*path).ready_at().is_some_and(|time| time <= now);
        let mut ready: Vec<PathId> = self.path_ids().filter(is_ready).collect();
        self.sort_by_preference(&mut ready, now);
        for path in ready {
            match self.pull_fitting(path, up, divide.as_deref_mut(), now) {
                Some(Dequeued { packet, label, follower }) => {
                    self.begin_burst(path, follower, label.size, now);
                    return Some(self.transmit((path, up), packet, label, now, shorten));
                }
                None if self.awaits_other_shard() => self.paths[path.index()].record_out_of_turn(now),
                None => self.paths[path.index()].record_idle(now),
            }
        }
        None
    }

    /// Whether a path that takes nothing has to leave what there is to others.
    fn awaits_other_shard(&self) -> bool {
        matches!(self.policy, PathPolicy::Ratio { .. }) && self.queues.has_shared()
    }

    /// Those come first that are to take the next packet of all.
    fn sort_by_preference(&self, ready: &mut [PathId], now: Time) {
        match self.policy {
            PathPolicy::EarliestArrival => ready.sort_by_key(|path| self.path(*path).estimate_arrival(0, 1500, now)),
            PathPolicy::LeastSent => ready.sort_by(|one, other| {
                self.is_recovering(*one)
                    .cmp(&self.is_recovering(*other))
                    .then(self.served_seconds[one.index()].total_cmp(&self.served_seconds[other.index()]))
            }),
            _ => ready
                .sort_by(|one, other| self.served_seconds[one.index()].total_cmp(&self.served_seconds[other.index()])),
        }
    }

    /// Whether the path may take what waits for all.
    fn takes_from_shared_queue(&self, path: PathId, up: PathSet) -> bool {
        match &self.policy {
            PathPolicy::Ratio { .. } => self.round_robin.next_path(up) == Some(path),
            PathPolicy::EarliestArrival => self.is_preferred_path(path),
            PathPolicy::LeastSent => self.is_bulk_path(path),
            _ => true,
        }
    }

    /// Whether something waits that the path may take.
    pub(super) fn has_packets_for(&self, path: PathId, up: PathSet) -> bool {
        self.queues.has_packets_for_path(path) || (self.queues.has_shared() && self.takes_from_shared_queue(path, up))
    }

    /// What a path takes next. Packets that it does not pass, because it did when they were placed, are placed anew; copies
    /// are not missed.
    fn pull_fitting(
        &mut self,
        path: PathId,
        up: PathSet,
        divide: Option<&mut Divide<'_, P>>,
        now: Time,
    ) -> Option<Dequeued<P>> {
        let mut divide = divide.filter(|_| self.path(path).transport() == OuterTransport::Udp);
        loop {
            let taken = self.dequeue(path, up, divide.as_deref_mut(), now)?;
            if self.path(path).fits_packet(taken.packet.longest_bytes.min(taken.label.size)) {
                return Some(taken);
            }
            if taken.packet.number.is_none() {
                self.place_packet(taken.packet, taken.label, now);
            }
        }
    }

    /// Whether a path is to take packets of long flows now: one that loses more than another only when those that wait
    /// are more than the other carries soon.
    fn is_preferred_path(&self, path: PathId) -> bool {
        let set = self.path_selector.paths();
        if !set.contains(path) {
            return false;
        }
        // Asked for each packet: mostly there is nothing to weigh.
        let lost = self.unrepaired_loss(path);
        if lost <= MIN_LOSS_RATIO {
            return true;
        }
        let suffices = |other: PathId| {
            let less = self.unrepaired_loss(other);
            let wait = Span::from_secs_f64((lost - less) * LOSS_WAIT_SECONDS).min(self.max_loss_wait);
            lost > less + RELATIVE_LOSS_DEVIATION * less.sqrt() + MIN_LOSS_RATIO
                && self.queues.shared_bytes()
                    < self.path(other).shard_potential_rate(self.fastest_capacity).bytes_in(wait)
        };
        !set.iter().any(|other| other != path && self.path(other).is_open() && suffices(other))
    }

    fn dequeue(
        &mut self,
        path: PathId,
        up: PathSet,
        mut divide: Option<&mut Divide<'_, P>>,
        now: Time,
    ) -> Option<Dequeued<P>> {
        let shared = self.takes_from_shared_queue(path, up);
        let weights = (self.flows.bound_flows(path), self.flows.long_flows());
        let mut taken = self.queues.dequeue(path, shared, weights, divide.as_deref_mut(), now);
        while let Some(Dequeued { packet, label, .. }) = &taken
            && let Some(waste) = self.drop_reason(path, packet, *label, now)
        {
            match waste {
                DropReason::Retransmitted => self.suppressed_retransmissions += u64::from(packet.segments),
                DropReason::Stale => self.stale_drops += u64::from(packet.segments),
            }
            let (flow, segments) = (label.flow, packet.segments);
            self.flow_packets_sent(flow, segments, now);
            taken = self.queues.dequeue(path, shared, weights, divide.as_deref_mut(), now);
        }
        if let Some(Dequeued { packet, label, .. }) = &mut taken {
            // What is repeated is not among the packets of the flow that wait. Copies for connections are counted down once more than they should be:
            // without that, 16 connections carry 73 Mbit/s where they carry 94 (several_paths::tunnels).
            if packet.number.is_none() || !self.repeat_store.is_on() {
                self.flow_packets_sent(label.flow, packet.segments, now);
            }
            if shared {
                self.merge_followers(path, packet, label, now);
            }
        }
        self.record_drops(now);
        taken
    }

    /// Why a packet is not to be sent by this path, if there is a reason: the carriers that are not held up have all that it
    /// carries, or it is a datagram that has waited too long, and its flow goes on.
    fn drop_reason(&self, path: PathId, packet: &WaitingPacket<P>, label: Label, now: Time) -> Option<DropReason> {
        let state = self.path(path);
        if !state.suppresses_retransmissions() && !state.drops_stale_data() {
            return None;
        }
        let read = self.read_payload.filter(|_| packet.number.is_none())?;
        match read(&packet.content) {
            PayloadKind::Stream(data) => {
                let up = self.paths_up();
                let in_time = PathSet::from_paths(up.iter().filter(|path| !self.is_recovering(*path)));
                let carriers = if in_time.is_empty() { up } else { in_time };
                (state.suppresses_retransmissions() && self.in_flight_data.is_in_flight(carriers, label.flow, data))
                    .then_some(DropReason::Retransmitted)
            }
            PayloadKind::Datagram => {
                let is_late = state.drops_stale_data() && now - packet.queued_at > MAX_DATAGRAM_WAIT;
                (is_late && self.flows.is_steady(label.flow, label.size, now)).then_some(DropReason::Stale)
            }
            PayloadKind::Other => None,
        }
    }

    /// So many packets of the flow wait no more.
    pub(super) fn flow_packets_sent(&mut self, flow: u64, packets: u16, now: Time) {
        self.flows.packets_left(flow, packets);
        self.release_flow(flow, now);
    }

    /// Has a packet stand for those of its flow that are next.
    fn merge_followers(&mut self, path: PathId, packet: &mut WaitingPacket<P>, label: &mut Label, now: Time) {
        let (Some(merge), Some(max_bytes)) = (self.merge, self.large_packets.max_bytes()) else { return };
        let flows = self.flows.long_flows();
        loop {
            let joins = |next: &WaitingPacket<P>, flow| {
                let is_alike =
                    flow == label.flow && next.delivery_order == packet.delivery_order && next.number.is_none();
                let joined = if is_alike { merge(&mut packet.content, &next.content, max_bytes) } else { None };
                joined.inspect(|bytes| label.size = *bytes).is_some()
            };
            let Some((next, _)) = self.queues.take_shared_if(path, flows, now, joins) else { return };
            packet.is_ecn_marked |= next.is_ecn_marked;
            self.flow_packets_sent(label.flow, next.segments, now);
        }
    }

    pub(super) fn transmit(
        &mut self,
        (path, up): (PathId, PathSet),
        packet: WaitingPacket<P>,
        label: Label,
        now: Time,
        shorten: &mut Shorten<'_, P>,
    ) -> Transmission<P> {
        let place = match &packet.number {
            Some(place) => **place,
            None => self.assign_number(path, up, &packet, label),
        };
        let AssignedNumber { header, assignment } = place;
        self.last_packet_at = now;
        let state = &mut self.paths[path.index()];
        let answer = state.claim_report_request(now);
        let counter = state.next_counter();
        let data = self.read_data_for_carrier(path, &packet.content);
        self.keep_for_repeat(path, counter, (&packet, &place, label), now);
        let WaitingPacket { content, is_ecn_marked, delivery_order, .. } = packet;
        let header = DataHeader { requests_report: answer, ..header };
        let mut packet = OutgoingPacket { content, is_ecn_marked, header, assignment };
        let bytes = label.size.saturating_sub(shorten(&mut packet, path, counter));
        let state = &mut self.paths[path.index()];
        state.send_packet((bytes, bytes < label.size), self.lateness, now);
        let rate = state.rate().capacity().as_f64();
        self.served_seconds[path.index()] += f64::from(state.wire_bytes(bytes)) * 8.0 / rate;
        // Shares are of what hosts send; as is what waits, by which paths are compared: how much of it will be compressed is not known
        // before it leaves, and is about the same on all paths.
        if delivery_order == TrafficClass::Ordered && matches!(self.policy, PathPolicy::Ratio { .. }) {
            self.round_robin.record_sent(path, label.size, up);
        }
        if let Some(data) = data {
            self.record_in_flight(path, label.flow, data);
        }
        Transmission { path, counter, requests_report: answer, packet: Some(packet) }
    }

    /// What of a connection inside the packet has, where the carrier of the path is to have it once.
    fn read_data_for_carrier(&self, path: PathId, content: &P) -> Option<StreamSegment> {
        if !self.paths[path.index()].suppresses_retransmissions() {
            return None;
        }
        match self.read_payload?(content) {
            PayloadKind::Stream(data) => Some(data),
            _ => None,
        }
    }

    fn record_in_flight(&mut self, path: PathId, flow: u64, data: StreamSegment) {
        if let Some(carrier) = self.paths[path.index()].in_flight_control() {
            self.in_flight_data.record_sent(path, flow, data, carrier.given_bytes());
        }
    }

    /// Whether a path is not so far behind that it is spared a copy: what is lost elsewhere is waited for until it comes.
    fn can_take_copy(&self, path: PathId) -> bool {
        let copies = self.queues.queued_copies(path);
        match self.path(path).in_flight_control() {
            Some(carrier) => carrier.room_bytes() > 0 && copies == 0,
            None => {
                let wait = self.path(path).rate().pacing_rate().time_for(copies * FULL_PACKET_BYTES);
                copies < MAX_QUEUED_COPIES && wait <= MAX_COPY_WAIT
            }
        }
    }

    /// Numbers a packet that is about to leave, and has its copies follow on other paths.
    fn assign_number(&mut self, path: PathId, up: PathSet, packet: &WaitingPacket<P>, label: Label) -> AssignedNumber {
        let all = match self.policy {
            PathPolicy::Redundant => up,
            PathPolicy::LeastSent => Some(self.reserved_paths()).filter(|kept| kept.contains(path)).unwrap_or_default(),
            _ => PathSet::default(),
        };
        let fits = |other: PathId| self.path(other).fits_packet(label.size) && self.can_take_copy(other);
        let others = PathSet::from_paths(all.iter().filter(|other| *other != path && fits(*other)));
        let redundant = !others.is_empty();
        let bucket = (label.flow % u64::from(BUCKET_COUNT)) as u16;
        let header = DataHeader { bucket, is_redundant: redundant, ..DataHeader::default() };
        let place = match packet.delivery_order {
            TrafficClass::Unordered => {
                let number = self.sequencer.assign_unordered(bucket);
                AssignedNumber { header: DataHeader { number, is_unordered: true, ..header }, assignment: None }
            }
            TrafficClass::Ordered => {
                let (paths, queues) = (&self.paths, &self.queues);
                let counter = |path: PathId| paths[path.index()].next_counter() + queues.queued_copies(path);
                let copies = others.with_path(path).iter().map(|path| (path, counter(path)));
                let assignment = self.sequencer.assign(bucket, copies);
                AssignedNumber {
                    header: DataHeader { number: assignment.number, ..header },
                    assignment: Some(assignment),
                }
            }
        };
        for other in others.iter() {
            self.queues.enqueue_copy(other, WaitingPacket { number: Some(Box::new(place)), ..packet.clone() }, label);
        }
        place
    }
}
