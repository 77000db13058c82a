//! What a bonded plane knows, as documents have it.

use crate::bonded_status::BondedStatus;
use crate::status::refused::RefusedTraffic;
use crate::status::resequencing::{HistogramBucket, Resequencing, Waits};
use crate::status::traffic::Traffic;
use crate::status::tunnel::{PathState, Tunnel, TunnelPath};
use kumade_multipath::dataplane::{RemotePath, RemoteStatus};
use kumade_multipath::{ResequencerStatistics, WaitStatistics};
use kumade_units::{Span, Time};

/// Of the histogram of waits: powers of two, in microseconds, as they are counted.
const WAIT_BUCKET_BOUNDS: [Span; 14] = {
    let mut bounds = [Span::ZERO; 14];
    let mut place = 0;
    while place < bounds.len() {
        bounds[place] = Span::from_micros(128 << place);
        place += 1;
    }
    bounds
};

impl Tunnel {
    /// What a plane knows of a far end, over paths with these names; `now` is the monotonic clock's time.
    pub fn new(known: &RemoteStatus, names: &[impl AsRef<str>], now: Time) -> Self {
        Tunnel {
            public_key: known.key.to_string(),
            connected: known.is_connected,
            state_seconds: seconds(now - known.state_since),
            last_heard_seconds: known.last_heard.map(|heard| seconds(now - heard)),
            losses: known.losses,
            key_changes: known.handshakes.saturating_sub(1),
            restarts: known.restarts,
            paths: names.iter().zip(&known.paths).map(|(name, known)| tunnel_path(name.as_ref(), known, now)).collect(),
            mtu_bytes: known.mtu,
            queued_packets: known.queued_packets as u64,
            dropped_packets: known.dropped_packets,
            saved_header_bytes: known.saved_header_bytes,
            undecompressed_packets: known.undecompressed_packets,
            resequencing: resequencing(known.waiting_packets, &known.resequencing),
            threads: None,
        }
    }
}

impl RefusedTraffic {
    /// What a plane has refused.
    pub fn new(plane: &BondedStatus) -> Self {
        RefusedTraffic {
            unroutable_packets: plane.node.unroutable_packets,
            foreign_source_packets: plane.node.foreign_source_packets,
            datagrams: plane.node.refused_datagrams,
            handshakes: plane.node.refused_handshakes,
            wrong_key_handshakes: plane.node.wrong_key_handshakes,
            output_packets: plane.refused_packets,
        }
    }
}

fn tunnel_path(name: &str, known: &RemotePath, now: Time) -> TunnelPath {
    let status = &known.status;
    TunnelPath {
        name: name.to_owned(),
        carrier: status.transport,
        address: known.address.map(|address| address.to_string()),
        mtu_bytes: known.mtu,
        state: match status.state {
            kumade_multipath::PathState::Probing => PathState::Probing,
            kumade_multipath::PathState::Up => PathState::Up,
            kumade_multipath::PathState::Down { .. } => PathState::Down,
        },
        state_seconds: seconds(now - status.state_since),
        failures: known.failures,
        rate_bits_per_second: status.rate.as_f64(),
        round_trip_seconds: status.round_trip.map(seconds),
        min_round_trip_seconds: status.min_round_trip.map(seconds),
        queue_seconds: seconds(status.queue_delay),
        loss_ratio: status.loss_ratio,
        lost_packets: status.lost_packets,
        sent: Traffic::new(status.sent_packets, status.sent_bytes),
        delivered: Traffic::new(status.delivered_packets, status.delivered_bytes),
        received: Traffic::new(known.received_packets, known.received_bytes),
        share_ratio: None,
    }
}

fn resequencing(waiting: usize, known: &ResequencerStatistics) -> Resequencing {
    Resequencing {
        waiting_packets: waiting as u64,
        max_depth_packets: known.max_depth.into(),
        in_order_packets: known.in_order,
        unordered_packets: known.unordered,
        lost_packets: known.lost,
        late_packets: known.late,
        duplicate_packets: known.duplicates,
        expired_waits: known.expired,
        evicted_waits: known.evicted,
        waits: wait_statistics(&known.waits),
        waits_histogram: wait_histogram(&known.waits),
    }
}

fn wait_statistics(known: &WaitStatistics) -> Option<Waits> {
    Some(Waits {
        packets: known.count,
        total_seconds: seconds(known.total_wait),
        p50_seconds: seconds(known.quantile(0.5)?),
        p99_seconds: seconds(known.quantile(0.99)?),
        maximum_seconds: seconds(known.max_wait),
    })
}

fn wait_histogram(known: &WaitStatistics) -> Vec<HistogramBucket> {
    let mut below = 0;
    let bounds = WAIT_BUCKET_BOUNDS.iter().map(|bound| (Some(*bound), known.count_within(*bound)));
    let buckets = bounds.chain([(None, known.count)]).map(|(bound, total)| {
        let packets = total - below;
        below = total;
        HistogramBucket { up_to_seconds: bound.map(seconds), packets }
    });
    buckets.collect()
}

/// In nanoseconds, not in the nearest fraction of them.
fn seconds(span: Span) -> f64 {
    span.as_nanos() as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wait_is_in_one_bucket() {
        let known = ResequencerStatistics::default();
        assert_eq!(resequencing(0, &known).waits_histogram.len(), WAIT_BUCKET_BOUNDS.len() + 1);
        assert_eq!(WAIT_BUCKET_BOUNDS[0], Span::from_micros(128));
    }
}
