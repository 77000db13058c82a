use crate::status::{GatewayPathStatus, GatewayStatus, PathState, RefusedTraffic, Tunnel, TunnelPath};
use kumade_overlay_io::BondedStatus;
use kumade_units::Time;

/// Enters what the plane knows into the status of the gateway, which has the names. `now` is the monotonic clock's time.
pub fn fill_bonded_status(plane: &BondedStatus, status: &mut GatewayStatus, now: Time) {
    status.refused = Some(RefusedTraffic::new(plane));
    let names: Vec<_> = status.paths.iter().map(|path| path.name.clone()).collect();
    for (remote, known) in status.remotes.iter_mut().zip(&plane.remotes) {
        let threads = (plane.threads > 1).then_some(known.reaching_shards);
        remote.tunnel = Some(Tunnel { threads, ..Tunnel::new(known, &names, now) });
    }
    let tunnels: Vec<_> = status.remotes.iter().filter_map(|remote| remote.tunnel.as_ref()).collect();
    for (place, path) in status.paths.iter_mut().enumerate() {
        sum_path_traffic(path, tunnels.iter().filter_map(|tunnel| tunnel.paths.get(place)));
    }
}

/// What all remote gateways get of a path.
fn sum_path_traffic<'a>(path: &mut GatewayPathStatus, parts: impl Iterator<Item = &'a TunnelPath> + Clone) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Traffic;
    use kumade_multipath::dataplane::{NodeStatistics, RemotePath, RemoteStatus};
    use kumade_multipath::{OuterTransport, PathState as State, PathStatus, ResequencerStatistics};
    use kumade_noise_session::PrivateKey;
    use kumade_units::{Rate, Span};

    fn time_at_seconds(seconds: i64) -> Time {
        Time::ZERO + Span::from_secs(seconds)
    }

    fn path(state: State, since: i64, sent_bytes: u64) -> RemotePath {
        let status = PathStatus {
            transport: OuterTransport::Udp,
            state,
            state_since: time_at_seconds(since),
            rate: Rate::from_mbit(8),
            pacing_rate: Rate::from_mbit(8),
            round_trip: Some(Span::from_millis(20)),
            min_round_trip: None,
            base_delay: None,
            queue_delay: Span::from_millis(1),
            loss_ratio: 0.01,
            sent_packets: 10,
            sent_bytes,
            lost_packets: 1,
            delivered_packets: 9,
            delivered_bytes: 900,
        };
        RemotePath { address: None, status, mtu: Some(1500), received_packets: 3, received_bytes: 300, failures: 1 }
    }

    fn remote(paths: Vec<RemotePath>) -> RemoteStatus {
        RemoteStatus {
            key: PrivateKey::from_bytes([7; 32]).public_key(),
            is_connected: true,
            state_since: time_at_seconds(1),
            last_heard: Some(time_at_seconds(8)),
            losses: 2,
            handshakes: 3,
            restarts: 0,
            paths,
            outer_transport: Some(OuterTransport::Udp),
            mtu: Some(1428),
            queued_packets: 2,
            dropped_packets: 1,
            suppressed_retransmissions: 0,
            saved_header_bytes: 0,
            undecompressed_packets: 0,
            repeated_packets: 0,
            resequencing: ResequencerStatistics::default(),
            waiting_packets: 5,
            reaching_shards: 2,
        }
    }

    #[test]
    fn a_path_is_up_while_any_remote_gateway_answers_on_it_and_carries_what_all_get() {
        let down = State::Down { hold_until: time_at_seconds(9) };
        let remotes = vec![
            remote(vec![path(State::Up, 4, 1000), path(down, 6, 10)]),
            remote(vec![path(down, 2, 500), path(State::Probing, 8, 20)]),
        ];
        let known = BondedStatus {
            node: NodeStatistics { unroutable_packets: 4, ..Default::default() },
            refused_packets: 6,
            threads: 1,
            remotes,
        };
        let mut status: GatewayStatus = serde_json::from_str(include_str!("../../tests/statuses/bonded.json")).unwrap();
        let name = status.remotes[0].name.clone();
        status.remotes.push(crate::status::RemoteSiteStatus { name, paths: vec![], tunnel: None, sessions: None });
        status.paths.iter_mut().for_each(|path| path.sent = Traffic::default());
        fill_bonded_status(&known, &mut status, time_at_seconds(10));
        assert_eq!(status.remotes[0].tunnel.as_ref().unwrap().threads, None);
        let [first, second] = [&status.paths[0], &status.paths[1]];
        assert_eq!((first.up, first.state_seconds, first.sent.bytes, first.sent.packets), (true, 6.0, 1500, 20));
        assert_eq!((second.up, second.state_seconds, second.sent.bytes), (false, 2.0, 30));
        let tunnel = status.remotes[0].tunnel.as_ref().unwrap();
        assert_eq!((tunnel.connected, tunnel.state_seconds, tunnel.key_changes), (true, 9.0, 2));
        assert_eq!((tunnel.last_heard_seconds, tunnel.losses, tunnel.paths[0].failures), (Some(2.0), 2, 1));
        assert_eq!((tunnel.resequencing.waiting_packets, tunnel.resequencing.waits), (5, None));
        assert_eq!((tunnel.paths[1].state, tunnel.paths[1].round_trip_seconds), (PathState::Down, Some(0.02)));
        let refused = status.refused.unwrap();
        assert_eq!((refused.unroutable_packets, refused.output_packets), (4, 6));
        fill_bonded_status(&BondedStatus { threads: 3, ..known }, &mut status, time_at_seconds(10));
        assert_eq!(status.remotes[0].tunnel.as_ref().unwrap().threads, Some(2));
        assert!(status.to_string().contains(", threads: 2\n"), "{status}");
    }
}
