//! Where a packet that arrives waits: in the queue for all paths, or for the path to which its flow is bound.

use super::Bond;
use crate::bond::outgoing::WaitingPacket;
use crate::path::id::PathId;
use crate::scheduler::flow_table::FlowState;
use crate::scheduler::path_scheduler::PathSet;
use crate::scheduler::policy::{PathPolicy, TrafficClass};
use crate::scheduler::rendezvous_hash::rendezvous_path;
use kumade_link::Label;
use kumade_units::{Span, Time};
use std::mem;

/// Silent for so long, a flow begins anew.
const FLOW_IDLE_TIMEOUT: Span = Span::from_secs(1);
const PINNED_FLOW_IDLE_TIMEOUT: Span = Span::from_secs(180);
/// A bound flow changes to a path that is better by this.
const MIN_DELAY_ADVANTAGE: Span = Span::from_millis(2);
/// Of a flow, and of all; more are dropped. (A flow may have twice as much for a moment, as what waited for a path and what followed it are
/// [put together](Bond::reassign_path_queue); the bound of all holds.) A thousand full packets, and eight times as many: less
/// than the queue that they leave holds ([`BondConfig::managed_queue`](crate::BondConfig::managed_queue)).
const MAX_HELD_BYTES_PER_FLOW: u64 = 1000 * 1500;
const MAX_HELD_BYTES: u64 = 8 * MAX_HELD_BYTES_PER_FLOW;
/// With so many paths that have room of their own, …
const MIN_PATHS_TO_RESERVE: usize = 4;
/// … so many are kept for small packets …
const RESERVED_PATHS: usize = 2;
/// … of up to this length …
const MAX_SMALL_PACKET_BYTES: u32 = 600;
/// … of flows that have sent up to this within about 100 ms: speech, a game, keystrokes, the beginning of anything.
const MAX_SPARSE_FLOW_BYTES: f64 = 3000.0;

impl<P: Clone> Bond<P> {
    /// Finds another place for what waits for a path.
    pub(super) fn reassign_path_queue(&mut self, path: PathId, now: Time) {
        let taken = self.queues.drain_path_queue(path, now);
        taken.iter().for_each(|(packet, label)| self.flows.packets_left(label.flow, packet.segments));
        // What is held has come later, and follows.
        let held = mem::take(&mut self.held_by_flow);
        for (packet, label) in taken {
            self.place_packet(packet, label, now);
        }
        for (flow, mut later) in held {
            let held = self.held_by_flow.entry(flow).or_default();
            held.bytes += later.bytes;
            held.packets.append(&mut later.packets);
            self.release_flow(flow, now);
        }
    }

    /// Puts a packet into the queue where it belongs. As long as packets of its flow wait in another one, it is held, so
    /// that it does not overtake them.
    pub(super) fn place_packet(&mut self, packet: WaitingPacket<P>, label: Label, now: Time) {
        let longest = packet.longest_bytes.min(label.size);
        if !self.fits_any_path(longest) {
            self.oversized.push(packet.content);
            return;
        }
        let silence = if self.policy == PathPolicy::Pinned { PINNED_FLOW_IDLE_TIMEOUT } else { FLOW_IDLE_TIMEOUT };
        let before = *self.flows.get_or_insert(label.flow, silence, now);
        let after = self.bind_flow(&before, (&label, longest), packet.delivery_order, now);
        let held = self.held_by_flow.get_mut(&label.flow);
        let moves = before.waiting_packets > 0 && after.bound_path != before.bound_path;
        if held.is_none() && !moves {
            *self.flows.get_or_insert(label.flow, silence, now) =
                FlowState { waiting_packets: before.waiting_packets + u32::from(packet.segments), ..after };
            self.flows.count_flow(label.flow, now);
            self.queues.enqueue(packet, label, after.bound_path, now);
            self.record_drops(now);
            return;
        }
        let bytes = u64::from(label.size);
        let held_bytes = held.map_or(0, |held| held.bytes);
        if held_bytes + bytes <= MAX_HELD_BYTES_PER_FLOW && self.held_bytes + bytes <= MAX_HELD_BYTES {
            self.held_packets += usize::from(packet.segments);
            self.held_bytes += bytes;
            let held = self.held_by_flow.entry(label.flow).or_default();
            held.bytes += bytes;
            held.packets.push_back((packet, label));
        } else {
            self.overflow_drops += u64::from(packet.segments);
        }
    }

    pub(super) fn record_drops(&mut self, now: Time) {
        while let Some((flow, packets)) = self.queues.take_dropped_flow() {
            self.flows.packets_left(flow, packets);
            self.release_flow(flow, now);
        }
    }

    /// Lets the packets of a flow go on if none of it waits any more.
    pub(super) fn release_flow(&mut self, flow: u64, now: Time) {
        if !self.held_by_flow.contains_key(&flow)
            || self.flows.get_or_insert(flow, PINNED_FLOW_IDLE_TIMEOUT, now).waiting_packets > 0
        {
            return;
        }
        let held = self.held_by_flow.remove(&flow).unwrap_or_default();
        self.held_packets -= held.packets.iter().map(|(packet, _)| usize::from(packet.segments)).sum::<usize>();
        self.held_bytes -= held.bytes;
        for (packet, label) in held.packets {
            self.place_packet(packet, label, now);
        }
    }

    /// What becomes of a flow with this packet: its path, or none for the queue of all.
    fn bind_flow(
        &self,
        flow: &FlowState,
        (label, longest): (&Label, u32),
        class: TrafficClass,
        now: Time,
    ) -> FlowState {
        let up = self.paths_up();
        let bytes = (flow.bytes - self.path_selector.forgotten_bytes(flow.bound_path, now - flow.last_seen)).max(0.0);
        let long = (flow.is_long && bytes > 0.0) || self.path_selector.is_long_flow(bytes);
        // Nobody else asks.
        let is_asked = self.policy == PathPolicy::LeastSent;
        let recent = if is_asked { flow.recent_bytes_with(label.size, now) } else { 0.0 };
        // What was merged for connections must not keep its flow on one.
        let largest = if self.transport_selector.is_some() { longest } else { flow.largest_packet_bytes.max(longest) };
        let largest = if self.fits_any_path(largest) { largest } else { longest };
        let bound = flow.bound_path.filter(|path| up.contains(*path) && self.path(*path).fits_packet(largest));
        let (path, long) = match (&self.policy, class) {
            (PathPolicy::Redundant, _) => (None, true),
            (PathPolicy::Ratio { .. } | PathPolicy::Weighted, TrafficClass::Ordered) => (None, true),
            (PathPolicy::EarliestArrival, TrafficClass::Ordered) if long => (None, true),
            (PathPolicy::EarliestArrival, _) => (self.earliest_arrival_path(bound, label.size, largest, now), false),
            (PathPolicy::LeastSent, _) => (self.reserved_path_for(bound, recent, label.size), true),
            _ => (bound.or_else(|| rendezvous_path(label.flow, self.path_weights())), false),
        };
        let fits_all = largest <= self.common_max_bytes
            || self.paths_in_use().iter().all(|path| self.path(path).fits_packet(largest));
        let path = if fits_all { path } else { self.earliest_arrival_path(bound, label.size, largest, now) };
        FlowState {
            last_seen: now,
            bytes: bytes + f64::from(label.size),
            bound_path: path,
            is_long: long,
            waiting_packets: flow.waiting_packets,
            recent_bytes: recent,
            largest_packet_bytes: largest,
        }
    }

    /// The paths that are kept for sparse flows.
    pub(super) fn reserved_paths(&self) -> PathSet {
        let in_use = self.paths_in_use();
        let is_kept = self.policy == PathPolicy::LeastSent && in_use.len() >= MIN_PATHS_TO_RESERVE;
        let kept = in_use.iter().take(RESERVED_PATHS).filter(|path| self.path(*path).duplicates_sparse_flows());
        if is_kept { PathSet::from_paths(kept) } else { PathSet::default() }
    }

    /// The one of them that a packet takes, if it is for these; `recent` is of its flow.
    fn reserved_path_for(&self, bound: Option<PathId>, recent: f64, size: u32) -> Option<PathId> {
        if recent > MAX_SPARSE_FLOW_BYTES || size > MAX_SMALL_PACKET_BYTES {
            return None;
        }
        let cost = |path: &PathId| (self.is_recovering(*path), !self.path(*path).is_open(), Some(*path) != bound);
        self.reserved_paths().iter().min_by_key(cost)
    }

    fn path_weights(&self) -> impl Iterator<Item = (PathId, f64)> {
        let up = self.path_ids().filter(|path| self.path(*path).is_up());
        up.map(|path| (path, self.path(path).rate().capacity().as_f64()))
    }

    /// Whether any path does that is up, or none is.
    fn fits_any_path(&self, size: u32) -> bool {
        let up = self.paths_up();
        size <= self.common_max_bytes || up.is_empty() || up.iter().any(|path| self.path(path).fits_packet(size))
    }

    /// The path on which a packet arrives first, of those that pass all packets of its flow; the one to which its flow is
    /// bound unless another is clearly better.
    fn earliest_arrival_path(&self, bound: Option<PathId>, size: u32, largest: u32, now: Time) -> Option<PathId> {
        let arrival = |path: PathId| self.path(path).estimate_arrival(self.queues.path_queue_bytes(path), size, now);
        let fits = |path: &PathId| self.path(*path).is_up() && self.path(*path).fits_packet(largest);
        let best = self.path_ids().filter(fits).min_by_key(|path| arrival(*path))?;
        match bound {
            Some(bound) if arrival(bound) <= arrival(best) + MIN_DELAY_ADVANTAGE => Some(bound),
            _ => Some(best),
        }
    }
}
