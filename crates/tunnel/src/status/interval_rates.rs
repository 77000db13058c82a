use super::{PacketCarriage, RelayedConnections, Status};
use kumade_overlay_io::status::StatusDocument;

impl StatusDocument for Status {
    const SERVICE: &'static str = "tunnel";

    fn with_time(self, time: String, duration_seconds: f64) -> Self {
        Status { time, duration_seconds, ..self }
    }

    fn with_rates_since(mut self, earlier: &Self) -> Self {
        let seconds = self.duration_seconds - earlier.duration_seconds;
        if seconds <= 0.0 {
            return self;
        }
        self.interval_seconds = Some(seconds);
        for peer in &mut self.peers {
            // Peers come and go.
            let before = earlier.peers.iter().find(|before| before.public_key == peer.public_key);
            if let (Some(packets), Some(before)) =
                (&mut peer.packets, before.and_then(|before| before.packets.as_ref()))
            {
                packets.set_rates_since(before, seconds);
            }
        }
        if let (Some(relayed), Some(before)) = (&mut self.relayed, &earlier.relayed) {
            relayed.set_rates_since(before, seconds);
        }
        self
    }
}

impl PacketCarriage {
    fn set_rates_since(&mut self, earlier: &PacketCarriage, seconds: f64) {
        self.sent.set_rate_since(&earlier.sent, seconds);
        self.received.set_rate_since(&earlier.received, seconds);
        self.tunnel.set_rates_since(&earlier.tunnel, seconds);
    }
}

impl RelayedConnections {
    fn set_rates_since(&mut self, earlier: &RelayedConnections, seconds: f64) {
        let rate = |now: u64, before: u64| Some((now - before.min(now)) as f64 * 8.0 / seconds);
        self.sent_bits_per_second = rate(self.sent_bytes, earlier.sent_bytes);
        self.received_bits_per_second = rate(self.received_bytes, earlier.received_bytes);
    }
}
