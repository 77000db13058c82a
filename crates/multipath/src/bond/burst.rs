//! What came as one packet and leaves by a path at once.

use super::{Bond, Shorten};
use crate::bond::outgoing::{Divide, Transmission};
use crate::bond::queue::{Burst, QueueFollower};
use crate::outer_transport::kind::OuterTransport;
use crate::path::id::PathId;
use crate::scheduler::policy::PathPolicy;
use kumade_units::Time;

impl<P: Clone> Bond<P> {
    /// Whether what hosts send as one packet may wait as one: it takes one path, as long as that has room, and the queue discipline serves
    /// its segments as packets. Other policies share packet by packet, or send copies.
    pub(super) fn has_bursts(&self) -> bool {
        use PathPolicy::{EarliestArrival, Pinned, Weighted};
        let (in_use, is_datagrams) = (self.paths_in_use(), |path| self.path(path).transport() == OuterTransport::Udp);
        matches!(self.policy, EarliestArrival | Weighted | Pinned)
            && self.queues.divides_packets()
            && !in_use.is_empty()
            && in_use.iter().all(is_datagrams)
    }

    /// A segment of so many bytes leaves, with others behind it.
    pub(super) fn begin_burst(&mut self, path: PathId, follower: Option<QueueFollower>, bytes: u32, now: Time) {
        let Some(follower) = follower.filter(|_| self.has_bursts()) else { return };
        let (sent_bytes, max_bytes) = (bytes.into(), self.path(path).burst_bytes());
        self.burst = Some(Burst { path, follower, started: now, sent_bytes, max_bytes, segment_bytes: bytes });
    }

    /// The next segment, if the path may still take it.
    pub(super) fn next_of_burst(
        &mut self,
        now: Time,
        shorten: &mut Shorten<'_, P>,
        divide: &mut Divide<'_, P>,
    ) -> Option<Transmission<P>> {
        let burst = self.burst.take()?;
        let Burst { path, follower, started, sent_bytes, max_bytes, segment_bytes } = burst;
        let (state, with_next) = (self.path(path), sent_bytes + u64::from(segment_bytes));
        if started != now || with_next > max_bytes || !state.is_open() || !state.fits_packet(segment_bytes) {
            return None;
        }
        let weights = (self.flows.bound_flows(path), self.flows.long_flows());
        let (packet, label) =
            self.queues.dequeue_following(path, (follower, (with_next, max_bytes)), weights, divide)?;
        self.burst = Some(Burst { sent_bytes: sent_bytes + u64::from(label.size), ..burst });
        self.flow_packets_sent(label.flow, packet.segments, now);
        Some(self.transmit((path, self.paths_up()), packet, label, now, shorten))
    }
}
