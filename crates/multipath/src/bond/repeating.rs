//! Packets that a path has lost leave once more, on the path where they arrive first.

use super::Bond;
use crate::bond::outgoing::{AssignedNumber, WaitingPacket};
use crate::loss_repair::store::MAX_REPEATED_RATIO;
use crate::outer_transport::kind::OuterTransport;
use crate::path::id::PathId;
use crate::path::state::PathSender;
use crate::scheduler::policy::{PathPolicy, TrafficClass};
use kumade_link::Label;
use kumade_units::{Span, Time};

/// A path of which the far end reports a loss later than by this is not the fastest, or the loss is older than anybody waits for.
const MAX_REPORT_DELAY: Span = Span::from_millis(500);
/// What a report takes longer than the round trip of the path that it comes by: three packets that follow, queues.
const REPORT_SLACK: Span = Span::from_millis(30);
/// Of what is repeated, as much comes too late, or is not kept any more, by and large.
const MISSED_REPEATS: f64 = 0.002;
/// Another path is taken unless what was lost arrives by so much earlier where it was lost.
const SAME_PATH_PENALTY: Span = Span::from_millis(2);

impl<P: Clone> Bond<P> {
    /// What was sent over a path with these counters is missing at the far end ([`MissingDatagrams`](crate::MissingDatagrams)). As far as
    /// it is still there, it is repeated.
    pub fn receive_missing(&mut self, path: PathId, counters: impl IntoIterator<Item = u64>, now: Time) {
        for counter in counters {
            if !self.repeat_store.may_repeat() {
                return;
            }
            let Some(size) = self.repeat_store.get(path, counter).map(|(_, label)| label.size) else { continue };
            let Some(over) = self.repeating_path(path, size, now) else { continue };
            let Some((packet, label)) = self.repeat_store.take(path, counter) else { continue };
            self.repeated_packets += 1;
            self.queues.enqueue_copy(over, packet, label);
        }
    }

    /// Packets that were repeated.
    pub fn repeated_packets(&self) -> u64 {
        self.repeated_packets
    }

    /// The two paths by which the far end is told soonest of what is missing: by both, since one may lose that.
    pub fn fastest_paths(&self) -> impl Iterator<Item = PathId> + use<P> {
        let round_trip = |path: &PathId| self.path(*path).status().round_trip.unwrap_or(Span::MAX);
        let mut paths: Vec<_> = self.datagram_paths().collect();
        paths.sort_by_key(round_trip);
        paths.into_iter().take(2)
    }

    /// How long the far end's packets wait for what it repeats, counted from the first that follows it: as long as the slower path may be
    /// behind, and until a report has gone there and the packet has come by the fastest one. None where nothing is repeated.
    pub fn repair_wait(&self) -> Option<Span> {
        if !self.repeat_store.is_on() {
            return None;
        }
        let round_trips = || self.datagram_paths().filter_map(|path| self.path(path).status().round_trip);
        Some(round_trips().max()? + round_trips().min()? + REPORT_SLACK)
    }

    /// The ratio of packets on a path that connections inside miss: those that are lost, but for what is repeated. Both reports of it, or
    /// what is repeated twice, may be lost, too.
    pub(super) fn unrepaired_loss(&self, path: PathId) -> f64 {
        let loss = |path: PathId| self.path(path).rate().loss_ratio();
        let lost = loss(path);
        // Asked for each packet, and mostly there is nothing to repair.
        if lost == 0.0 || !self.repeat_store.is_on() {
            return lost;
        }
        let worst = self.datagram_paths().map(loss).fold(0.0, f64::max);
        let repeated = lost.min(MAX_REPEATED_RATIO);
        lost - repeated + repeated * (2.0 * worst * worst + MISSED_REPEATS).min(1.0)
    }

    /// Packets are kept only where there is another path for them.
    pub(super) fn update_repeating(&mut self, now: Time) {
        let sends_once = !matches!(self.policy, PathPolicy::Redundant | PathPolicy::LeastSent | PathPolicy::Pinned);
        let is_on = sends_once && self.datagram_paths().count() > 1;
        let round_trips = self.datagram_paths().filter_map(|path| self.path(path).status().round_trip);
        let keep_time = (round_trips.max().unwrap_or_default() * 2 + REPORT_SLACK).min(MAX_REPORT_DELAY);
        self.repeat_store.set_keep_time(if is_on { keep_time } else { Span::ZERO });
        self.repeat_store.expire(now);
    }

    /// Keeps a packet that leaves, if it is to be in order; also one that is repeated, since that may be lost again.
    pub(super) fn keep_for_repeat(
        &mut self,
        path: PathId,
        counter: u64,
        (packet, place, label): (&WaitingPacket<P>, &AssignedNumber, Label),
        now: Time,
    ) {
        let is_kept = packet.delivery_order == TrafficClass::Ordered;
        if !is_kept || !self.repeat_store.is_on() || self.path(path).transport() != OuterTransport::Udp {
            return;
        }
        let mut place = *place;
        place.header.is_redundant = true;
        let packet = WaitingPacket { number: Some(Box::new(place)), ..packet.clone() };
        self.repeat_store.push(path, counter, label.size, (packet, label), now);
    }

    fn datagram_paths(&self) -> impl Iterator<Item = PathId> {
        let is_usable = |path: &PathSender| path.is_up() && path.transport() == OuterTransport::Udp;
        self.path_ids().filter(move |path| is_usable(self.path(*path)))
    }

    /// Where what a path has lost arrives first.
    fn repeating_path(&self, lost_on: PathId, size: u32, now: Time) -> Option<PathId> {
        let fits = |path: &PathId| self.path(*path).fits_packet(size);
        self.datagram_paths().filter(fits).min_by_key(|path| {
            let penalty = if *path == lost_on { SAME_PATH_PENALTY } else { Span::ZERO };
            let copies = self.queues.copied_bytes(*path);
            self.path(*path).estimate_arrival(copies, size, now) + penalty
        })
    }
}
