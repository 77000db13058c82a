//! The metrics of one end of a tunnel.

use crate::status::{OuterTransport, PacketCarriage, RelayedConnections, Status, Tunnel};
use kumade_daemon::metrics::{Counter, Encoder, Gauge, bool_as_f64};
use kumade_overlay_io::status::metrics::encode_refused;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use std::fmt;

const TUNNEL_GAUGES: [Gauge<Status>; 1] =
    [("uptime_seconds", "For how long the end has run", |status| Some(status.duration_seconds))];
const PACKET_COUNTERS: [Counter<PacketCarriage>; 1] = [(
    "repeated_packets",
    "Packets that were not sent, since TCP connections that carry still had their data",
    |packets| packets.suppressed_retransmissions,
)];
const TRANSPORT_GAUGES: [Gauge<PacketCarriage>; 1] =
    [("over_udp", "Whether UDP carries packets, and not TCP", |packets| {
        Some(bool_as_f64(packets.carrier? == OuterTransport::Udp))
    })];
const RELAYED_GAUGES: [Gauge<RelayedConnections>; 1] =
    [("relayed_connections", "TCP connections that are relayed now", |relayed| Some(relayed.connections as f64))];
const RELAYED_COUNTERS: [Counter<RelayedConnections>; 4] = [
    ("relayed_opened_connections", "TCP connections that were relayed", |relayed| relayed.opened),
    ("relayed_refused_connections", "Those that were not: to what is not allowed, or not reached", |relayed| {
        relayed.refused
    }),
    ("relayed_sent_bytes", "Bytes of relayed connections that went to the other end", |relayed| relayed.sent_bytes),
    ("relayed_received_bytes", "Bytes of relayed connections that came from there", |relayed| relayed.received_bytes),
];

impl Collector for Status {
    fn encode(&self, mut descriptors: DescriptorEncoder) -> fmt::Result {
        let tunnel = ("tunnel", self.name.as_str());
        let peers = self.peers.iter().filter_map(|peer| {
            let labels = vec![tunnel, ("peer", peer.label())];
            Some((labels, peer.packets.as_ref()?))
        });
        let peers: Vec<_> = peers.collect();
        let tunnels: Vec<_> = peers.iter().map(|(labels, packets)| (labels.clone(), &packets.tunnel)).collect();
        Tunnel::encode_metrics(&mut descriptors, "", &tunnels)?;
        let mut encoder = Encoder::new(&mut descriptors, "");
        encoder.encode_gauges(&peers, &TRANSPORT_GAUGES)?;
        encoder.encode_counters(&peers, &PACKET_COUNTERS)?;
        encoder.encode_gauges(&[(vec![tunnel], self)], &TUNNEL_GAUGES)?;
        let relayed: Vec<_> = self.relayed.iter().map(|relayed| (vec![tunnel], relayed)).collect();
        encoder.encode_gauges(&relayed, &RELAYED_GAUGES)?;
        encoder.encode_counters(&relayed, &RELAYED_COUNTERS)?;
        self.refused.iter().try_for_each(|refused| encode_refused(&mut encoder, tunnel, refused))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_daemon::metrics::encode_text;

    #[test]
    fn metrics_are_as_prometheus_wants_them() {
        let status: Status = serde_json::from_str(include_str!("../tests/statuses/rake.json")).unwrap();
        insta::assert_snapshot!("rake", encode_text("kumade_tunnel", status));
    }
}
