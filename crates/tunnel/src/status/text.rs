use super::{
    EndKind, OuterTransport, PacketCarriage, PathState, PeerStatus, RelayedConnections, Status, Tunnel, TunnelPath,
};
use kumade_daemon::{format_age, format_known, format_percent, format_rate, write_table};
use kumade_units::Span;
use std::fmt::{self, Display, Formatter};

impl Display for Status {
    /// A table for people, and lines, without an end of line after the last.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let end = match self.end {
            EndKind::Listens => "waits at",
            EndKind::Connects => "connects to",
        };
        let Status { name, address, carrier, duration_seconds, .. } = self;
        write!(f, "{name} ({carrier}) {end} {address}, running for {}", format_age(*duration_seconds))?;
        let known: Vec<_> = self.peers.iter().filter_map(|peer| Some((peer, peer.packets.as_ref()?))).collect();
        if !known.is_empty() {
            let heads =
                ["peer", "state", "address", "carrier", "round trip", "sent", "received", "loss", "waiting", "dropped"];
            write_table(f, "", heads, known.iter().map(|(peer, packets)| peer_row(peer, packets)))?;
        }
        for (peer, PacketCarriage { tunnel, .. }) in known.iter().filter(|(_, packets)| packets.tunnel.connected) {
            write!(f, "\n\n{}: {}", peer.label(), tunnel.resequencing)?;
        }
        if let Some(relayed) = &self.relayed {
            write!(f, "\n\nrelayed connections: {relayed}")?;
        }
        self.refused.iter().try_for_each(|refused| write!(f, "\nrefused: {refused}"))
    }
}

fn peer_row(peer: &PeerStatus, packets: &PacketCarriage) -> [String; 10] {
    let PacketCarriage { address, carrier, round_trip_seconds, loss_ratio, sent, received, tunnel, .. } = packets;
    let state = if tunnel.connected { "connected" } else { "not connected" };
    [
        peer.label().to_owned(),
        format!("{state} {}", format_age(tunnel.state_seconds)),
        format_known(address.as_ref()),
        format_known(carrier.map(|carrier| transport_text(carrier, tunnel))),
        format_known(round_trip_seconds.map(Span::from_secs_f64)),
        format_rate(sent.bits_per_second),
        format_rate(received.bits_per_second),
        format_percent(*loss_ratio),
        tunnel.queued_packets.to_string(),
        tunnel.dropped_packets.to_string(),
    ]
}

/// Paths of the other kind, which are kept up beside those that carry, do not count.
fn transport_text(carrier: OuterTransport, tunnel: &Tunnel) -> String {
    let carry = |path: &&TunnelPath| path.carrier == carrier && path.state == PathState::Up;
    match (carrier, tunnel.paths.iter().filter(carry).count()) {
        (OuterTransport::Udp, _) => "UDP".to_owned(),
        (OuterTransport::Tcp, 1) => "1 TCP connection".to_owned(),
        (OuterTransport::Tcp, paths) => format!("{paths} TCP connections"),
    }
}

impl Display for RelayedConnections {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let RelayedConnections { connections, opened, refused, sent_bits_per_second, received_bits_per_second, .. } =
            self;
        let (sent, received) = (format_rate(*sent_bits_per_second), format_rate(*received_bits_per_second));
        write!(f, "{connections} open, {opened} opened so far, {refused} refused; sent {sent}, received {received}")
    }
}
