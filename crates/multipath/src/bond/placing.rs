//! Where a packet that arrives waits: in the queue for all paths, or for the path to which its flow is bound.

use super::Bond;
use crate::bond_outgoing::Waiting;
use crate::choice::{Class, PathChoice};
use crate::choice_flows::FlowState;
use crate::choice_pinned::rendezvous;
use crate::path_id::PathId;
use crate::use_several::PathSet;
use kumade_link::Label;
use kumade_units::{Span, Time};

/// Silent for so long, a flow begins anew.
const FLOW_SILENCE: Span = Span::from_secs(1);
const PINNED_SILENCE: Span = Span::from_secs(180);
/// A bound flow changes to a path that is better by this.
const MIN_ADVANTAGE: Span = Span::from_millis(2);
/// Of a flow, and of all; more are dropped.
const MAX_HELD: usize = 1000;
const MAX_HELD_IN_ALL: usize = 8000;
/// With so many paths that have room of their own, …
const MIN_PATHS_TO_RESERVE: usize = 4;
/// … so many are kept for small packets …
const RESERVED: usize = 2;
/// … of up to this length …
const SMALL_PACKET_BYTES: u32 = 600;
/// … of flows that have sent up to this within about 100 ms: speech, a game, keystrokes, the beginning of anything.
const SPARSE_BYTES: f64 = 3000.0;

impl<P: Clone> Bond<P> {
    /// Finds another place for what waits for a path.
    pub(super) fn move_own(&mut self, path: PathId, now: Time) {
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

    /// Puts a packet into the queue where it belongs. As long as packets of its flow wait in another one, it is held, so
    /// that it does not overtake them.
    pub(super) fn place(&mut self, packet: Waiting<P>, label: Label, now: Time) {
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

    pub(super) fn note_drops(&mut self, now: Time) {
        while let Some(flow) = self.queues.take_dropped() {
            self.flows.left(flow);
            self.release(flow, now);
        }
    }

    /// Lets the packets of a flow go on if none of it waits any more.
    pub(super) fn release(&mut self, flow: u64, now: Time) {
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
    pub(super) fn reserved(&self) -> PathSet {
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
}
