//! What reports tell of a path, and what happens to its queue between two of them.

use crate::path::sent_log::AcknowledgedPackets;
use kumade_units::{Span, Time};

/// What a report says of a packet and all before it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeliverySample {
    pub now: Time,
    pub sent: AcknowledgedPackets,
    /// Its number among all packets that left the path.
    pub counter: u64,
    pub arrival: Time,
    pub round_trip: Span,
    /// Bytes that have arrived in all, …
    pub received_bytes: u64,
    /// … as was concluded from a part of them: while many are lost, that may be too much.
    pub is_received_estimated: bool,
    /// Packets lost in all, but for those while the path was down.
    pub lost_packets: i64,
    /// Bytes sent after it.
    pub in_flight_bytes: u64,
}

/// What has been seen since a sample.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RateRound {
    pub start: DeliverySample,
    pub first_queue: Span,
    /// Of the last two reports.
    pub last_queues: [Span; 2],
    pub min_queue: Span,
    pub max_queue: Span,
}

impl RateRound {
    /// It begins with this sample.
    pub fn new(start: &DeliverySample, queue: Span) -> Self {
        RateRound { start: *start, first_queue: queue, last_queues: [queue; 2], min_queue: queue, max_queue: queue }
    }

    /// Packets wait for so long.
    pub fn record_queue(&mut self, queue: Span) {
        self.last_queues = [self.last_queues[1], queue];
        self.min_queue = self.min_queue.min(queue);
        self.max_queue = self.max_queue.max(queue);
    }

    /// By how much the queue has become longer.
    pub fn queue_growth(&self) -> Span {
        self.last_queues[1] - self.first_queue
    }

    /// How much longer than when it was shortest it was at the last two reports.
    pub fn last_growths(&self) -> [Span; 2] {
        self.last_queues.map(|queue| queue - self.min_queue)
    }
}

/// What the growth of a queue tells while the capacity is searched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueueGrowth {
    /// As good as all that was sent has passed.
    None,
    /// It may be of a host, or of a link that batches.
    Undecided,
    /// More was sent than passes.
    OfCapacity,
}

/// A queue that grows by less than this part of what it would if no more passed than is believed is none: of 2.5 times as much that is sent,
/// at least 2.2 times as much passes, and what is missing shows in the next round.
const SLIGHT_GROWTH_DIVISOR: i64 = 10;
/// Delays of a host, or of a link that batches, vary by so much. What a caller may catch up is as much (`MAX_LATENESS` of
/// path/shared.rs); `an_unknown_path_is_found_at_once_where_delays_vary` of tests/rate.rs holds it.
const MAX_HOST_DELAY: Span = Span::from_millis(5);
/// After so long, a growth that may be of a host is taken for one: then no more than a hundredth of what was sent has not passed.
pub(crate) const MAX_ROUND_DURATION: Span = Span::from_millis(500);

impl QueueGrowth {
    /// By so much, at the last two reports, in a round of this duration, in which it would be by `expected` if no more passed than is believed.
    /// What is below `noise` is none. One report may be late: it takes two to tell the capacity.
    pub fn in_search(growths: [Span; 2], expected: Span, duration: Span, noise: Span) -> Self {
        let [before, last] = growths;
        if last < noise.max(expected / SLIGHT_GROWTH_DIVISOR) {
            QueueGrowth::None
        } else if before.min(last) > MAX_HOST_DELAY.max(noise * 2) {
            QueueGrowth::OfCapacity
        } else if duration < MAX_ROUND_DURATION {
            QueueGrowth::Undecided
        } else {
            QueueGrowth::None
        }
    }
}

/// At which the packets between two left.
pub(crate) fn sent_rate(start: &DeliverySample, end: &DeliverySample) -> f64 {
    (end.sent.total_bytes - start.sent.total_bytes) as f64 * 8.0
        / (end.sent.time - start.sent.time).as_secs_f64().max(1e-6)
}

/// Of so many bytes between the arrivals of two packets.
pub(crate) fn rate_between(start: &DeliverySample, end: &DeliverySample, bytes: u64) -> f64 {
    bytes as f64 * 8.0 / (end.arrival - start.arrival).as_secs_f64().max(1e-6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_growth_is_of_the_capacity_if_no_host_delays_by_as_much() {
        use QueueGrowth::{None, OfCapacity, Undecided};
        // Milliseconds: growth at the last two reports, expected growth, duration, noise.
        for ([before, last, expected, duration, noise], found) in [
            ([0, 0, 15, 10, 1], None),
            ([1, 1, 15, 10, 2], None),
            ([4, 4, 60, 40, 1], None),
            ([9, 1, 15, 10, 1], None),
            ([3, 3, 15, 10, 1], Undecided),
            ([5, 5, 15, 10, 1], Undecided),
            ([0, 20, 15, 10, 1], Undecided),
            ([6, 6, 15, 10, 1], OfCapacity),
            ([6, 6, 15, 10, 4], Undecided),
            ([9, 9, 15, 10, 4], OfCapacity),
            ([9, 9, 150, 100, 1], None),
            ([16, 16, 150, 100, 1], OfCapacity),
            // Hardly more was sent than is believed to pass.
            ([3, 3, 0, 499, 1], Undecided),
            ([3, 3, 0, 500, 1], None),
            ([6, 6, -2, 100, 1], OfCapacity),
        ] {
            let [before, last, expected, duration, noise] =
                [before, last, expected, duration, noise].map(Span::from_millis);
            let got = QueueGrowth::in_search([before, last], expected, duration, noise);
            assert_eq!(got, found, "{before} and {last} of {expected} in {duration}, {noise} of noise");
        }
    }
}
