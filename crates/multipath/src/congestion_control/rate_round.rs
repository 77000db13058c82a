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
    pub last_queue: Span,
    pub min_queue: Span,
    pub max_queue: Span,
}

impl RateRound {
    /// It begins with this sample.
    pub fn new(start: &DeliverySample, queue: Span) -> Self {
        RateRound { start: *start, first_queue: queue, last_queue: queue, min_queue: queue, max_queue: queue }
    }

    /// Packets wait for so long.
    pub fn record_queue(&mut self, queue: Span) {
        self.last_queue = queue;
        self.min_queue = self.min_queue.min(queue);
        self.max_queue = self.max_queue.max(queue);
    }

    /// By how much the queue has become longer.
    pub fn queue_growth(&self) -> Span {
        self.last_queue - self.first_queue
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
