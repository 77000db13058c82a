use crate::status::{Bucket, Path, PathState, Refused, Resequencing, Status, Traffic, Tunnel, TunnelPath, Waits};
use bonded::BondedStatus;
use dataplane::{RemotePath, RemoteStatus};
use multipath::{ResequencerStatistics, WaitStatistics};
use units::{Span, Time};

/// Of the histogram of waits: powers of two, in microseconds, as they are counted.
const WAIT_BOUNDS: [Span; 14] = {
    let mut bounds = [Span::ZERO; 14];
    let mut place = 0;
    while place < bounds.len() {
        bounds[place] = Span::from_micros(128 << place);
        place += 1;
    }
    bounds
};

/// Enters what the plane knows into the status of the gateway, which has the names. `now` is the monotonic clock's time.
pub fn fill(plane: &BondedStatus, status: &mut Status, now: Time) {
    status.refused = Some(Refused {
        unroutable_packets: plane.node.unroutable,
        foreign_source_packets: plane.node.foreign_sources,
        datagrams: plane.node.refused_datagrams,
        handshakes: plane.node.refused_handshakes,
        output_packets: plane.refused,
    });
    for (remote, known) in status.remotes.iter_mut().zip(&plane.remotes) {
        let threads = (plane.threads > 1).then_some(known.shards);
        remote.tunnel = Some(Tunnel { threads, ..tunnel(known, &status.paths, now) });
    }
    let tunnels: Vec<_> = status.remotes.iter().filter_map(|remote| remote.tunnel.as_ref()).collect();
    for (place, path) in status.paths.iter_mut().enumerate() {
        sum_up(path, tunnels.iter().filter_map(|tunnel| tunnel.paths.get(place)));
    }
}

/// What all remote gateways get of a path.
fn sum_up<'a>(path: &mut Path, parts: impl Iterator<Item = &'a TunnelPath> + Clone) {
    let up = parts.clone().filter(|part| part.state == PathState::Up).map(|part| part.state_seconds);
    let longest_up = up.reduce(f64::max);
    path.up = longest_up.is_some();
    // It went down when the last part did.
    let last_down = parts.clone().map(|part| part.state_seconds).reduce(f64::min);
    path.state_seconds = longest_up.or(last_down).unwrap_or_default();
    for part in parts {
        path.sent.packets += part.sent.packets;
        path.sent.bytes += part.sent.bytes;
    }
}

fn tunnel(known: &RemoteStatus, paths: &[Path], now: Time) -> Tunnel {
    Tunnel {
        public_key: known.key.to_string(),
        connected: known.is_connected,
        state_seconds: seconds(now - known.since),
        key_changes: known.handshakes.saturating_sub(1),
        restarts: known.restarts,
        paths: paths.iter().zip(&known.paths).map(|(path, known)| tunnel_path(path, known, now)).collect(),
        mtu_bytes: known.mtu,
        queued_packets: known.queued as u64,
        dropped_packets: known.dropped,
        resequencing: resequencing(known.waiting, &known.resequencing),
        threads: None,
    }
}

fn tunnel_path(path: &Path, known: &RemotePath, now: Time) -> TunnelPath {
    let status = &known.status;
    TunnelPath {
        name: path.name.clone(),
        address: known.address.map(|address| address.to_string()),
        mtu_bytes: known.mtu,
        state: match status.state {
            multipath::PathState::Probing => PathState::Probing,
            multipath::PathState::Up => PathState::Up,
            multipath::PathState::Down { .. } => PathState::Down,
        },
        state_seconds: seconds(now - status.since),
        rate_bits_per_second: status.rate.as_f64(),
        round_trip_seconds: status.round_trip.map(seconds),
        min_round_trip_seconds: status.min_round_trip.map(seconds),
        queue_seconds: seconds(status.queue),
        loss_ratio: status.loss,
        lost_packets: status.lost_packets,
        sent: traffic(status.sent_packets, status.sent_bytes),
        delivered: traffic(status.delivered_packets, status.delivered_bytes),
        received: traffic(known.received_packets, known.received_bytes),
        share_ratio: None,
    }
}

fn traffic(packets: u64, bytes: u64) -> Traffic {
    Traffic { packets, bytes, bits_per_second: None }
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
        waits: waits(&known.waits),
        waits_histogram: histogram(&known.waits),
    }
}

fn waits(known: &WaitStatistics) -> Option<Waits> {
    Some(Waits {
        packets: known.count,
        total_seconds: seconds(known.total),
        p50_seconds: seconds(known.quantile(0.5)?),
        p99_seconds: seconds(known.quantile(0.99)?),
        maximum_seconds: seconds(known.max),
    })
}

fn histogram(known: &WaitStatistics) -> Vec<Bucket> {
    let mut below = 0;
    let bounds = WAIT_BOUNDS.iter().map(|bound| (Some(*bound), known.within(*bound)));
    let buckets = bounds.chain([(None, known.count)]).map(|(bound, total)| {
        let packets = total - below;
        below = total;
        Bucket { up_to_seconds: bound.map(seconds), packets }
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
    use dataplane::NodeStatistics;
    use multipath::{CarrierKind, PathState as State, PathStatus};
    use secure::PrivateKey;
    use units::Rate;

    fn at(seconds: i64) -> Time {
        Time::ZERO + Span::from_secs(seconds)
    }

    fn path(state: State, since: i64, sent_bytes: u64) -> RemotePath {
        let status = PathStatus {
            state,
            since: at(since),
            rate: Rate::from_mbit(8),
            pace: Rate::from_mbit(8),
            round_trip: Some(Span::from_millis(20)),
            min_round_trip: None,
            base_delay: None,
            queue: Span::from_millis(1),
            loss: 0.01,
            sent_packets: 10,
            sent_bytes,
            lost_packets: 1,
            delivered_packets: 9,
            delivered_bytes: 900,
        };
        RemotePath { address: None, status, mtu: Some(1500), received_packets: 3, received_bytes: 300 }
    }

    fn remote(paths: Vec<RemotePath>) -> RemoteStatus {
        RemoteStatus {
            key: PrivateKey::from_bytes([7; 32]).public(),
            is_connected: true,
            since: at(1),
            handshakes: 3,
            restarts: 0,
            paths,
            carrier: Some(CarrierKind::Datagrams),
            mtu: Some(1428),
            queued: 2,
            dropped: 1,
            repeated: 0,
            resequencing: ResequencerStatistics::default(),
            waiting: 5,
            shards: 2,
        }
    }

    #[test]
    fn a_path_is_up_while_any_remote_gateway_answers_on_it_and_carries_what_all_get() {
        let down = State::Down { hold_until: at(9) };
        let remotes = vec![
            remote(vec![path(State::Up, 4, 1000), path(down, 6, 10)]),
            remote(vec![path(down, 2, 500), path(State::Probing, 8, 20)]),
        ];
        let known = BondedStatus {
            node: NodeStatistics { unroutable: 4, ..Default::default() },
            refused: 6,
            threads: 1,
            remotes,
        };
        let mut status: Status = serde_json::from_str(include_str!("../../tests/statuses/bonded.json")).unwrap();
        let name = status.remotes[0].name.clone();
        status.remotes.push(crate::status::Remote { name, paths: vec![], tunnel: None, sessions: None });
        status.paths.iter_mut().for_each(|path| path.sent = Traffic::default());
        fill(&known, &mut status, at(10));
        assert_eq!(status.remotes[0].tunnel.as_ref().unwrap().threads, None);
        let [first, second] = [&status.paths[0], &status.paths[1]];
        assert_eq!((first.up, first.state_seconds, first.sent.bytes, first.sent.packets), (true, 6.0, 1500, 20));
        assert_eq!((second.up, second.state_seconds, second.sent.bytes), (false, 2.0, 30));
        let tunnel = status.remotes[0].tunnel.as_ref().unwrap();
        assert_eq!((tunnel.connected, tunnel.state_seconds, tunnel.key_changes), (true, 9.0, 2));
        assert_eq!((tunnel.resequencing.waiting_packets, tunnel.resequencing.waits), (5, None));
        assert_eq!((tunnel.paths[1].state, tunnel.paths[1].round_trip_seconds), (PathState::Down, Some(0.02)));
        let refused = status.refused.unwrap();
        assert_eq!((refused.unroutable_packets, refused.output_packets), (4, 6));
        fill(&BondedStatus { threads: 3, ..known }, &mut status, at(10));
        assert_eq!(status.remotes[0].tunnel.as_ref().unwrap().threads, Some(2));
        assert!(status.to_string().contains(", threads: 2\n"), "{status}");
    }

    #[test]
    fn each_wait_is_in_one_bucket() {
        let known = ResequencerStatistics::default();
        assert_eq!(resequencing(0, &known).waits_histogram.len(), WAIT_BOUNDS.len() + 1);
        assert_eq!(WAIT_BOUNDS[0], Span::from_micros(128));
    }
}
