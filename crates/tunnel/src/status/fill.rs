use super::{PacketCarriage, PathState, RefusedTraffic, RelayedConnections, Status, Traffic, Tunnel, TunnelPath};
use kumade_multipath::dataplane::RemoteStatus;
use kumade_overlay_io::BondedStatus;
use kumade_relay::RelayStatus;
use kumade_units::Time;

impl Status {
    /// Enters what is known; `now` is the monotonic clock's time.
    pub fn fill(&mut self, packets: Option<&BondedStatus>, relayed: Option<&RelayStatus>, now: Time) {
        if let Some(plane) = packets {
            self.refused = Some(RefusedTraffic::new(plane));
            for (peer, known) in self.peers.iter_mut().zip(&plane.remotes) {
                let names: Vec<_> = (1..=known.paths.len()).map(|number| number.to_string()).collect();
                peer.packets = Some(PacketCarriage::new(known, Tunnel::new(known, &names, now)));
            }
        }
        self.relayed = relayed.map(|known| RelayedConnections {
            connections: known.connections as u64,
            opened: known.opened,
            refused: known.refused,
            sent_bytes: known.sent_bytes,
            received_bytes: known.received_bytes,
            ..RelayedConnections::default()
        });
    }
}

impl PacketCarriage {
    fn new(known: &RemoteStatus, mut tunnel: Tunnel) -> Self {
        tunnel.paths.retain(|path| path.address.is_some() || path.received.packets > 0);
        // Most paths of an end that listens are not in use.
        tunnel.paths.shrink_to_fit();
        let up: Vec<_> = tunnel.paths.iter().filter(|path| path.state == PathState::Up).collect();
        PacketCarriage {
            address: up.iter().find_map(|path| path.address.clone()),
            carrier: known.outer_transport,
            paths_up: up.len() as u64,
            round_trip_seconds: up.iter().filter_map(|path| path.round_trip_seconds).reduce(f64::min),
            loss_ratio: weighted_loss_ratio(&up),
            sent: sum_traffic(&tunnel.paths, |path| &path.sent),
            received: sum_traffic(&tunnel.paths, |path| &path.received),
            suppressed_retransmissions: known.suppressed_retransmissions,
            tunnel,
        }
    }
}

/// A path counts for as much as it has sent.
fn weighted_loss_ratio(paths: &[&TunnelPath]) -> Option<f64> {
    let sent: u64 = paths.iter().map(|path| path.sent.packets).sum();
    let lost: f64 = paths.iter().map(|path| path.loss_ratio * path.sent.packets as f64).sum();
    (sent > 0).then(|| lost / sent as f64)
}

fn sum_traffic(paths: &[TunnelPath], part: fn(&TunnelPath) -> &Traffic) -> Traffic {
    let mut all = Traffic::default();
    paths.iter().for_each(|path| all.merge(part(path)));
    all
}
