use super::{Packets, Relayed, Status};
use ::kumade_overlay_status::Document;

impl Document for Status {
    fn at(self, time: String, duration_seconds: f64) -> Self {
        Status { time, duration_seconds, ..self }
    }

    fn since(mut self, earlier: &Self) -> Self {
        let seconds = self.duration_seconds - earlier.duration_seconds;
        if seconds <= 0.0 {
            return self;
        }
        self.interval_seconds = Some(seconds);
        for (peer, before) in self.peers.iter_mut().zip(&earlier.peers) {
            if let (Some(packets), Some(before)) = (&mut peer.packets, &before.packets) {
                packets.rates_since(before, seconds);
            }
        }
        if let (Some(relayed), Some(before)) = (&mut self.relayed, &earlier.relayed) {
            relayed.rates_since(before, seconds);
        }
        self
    }
}

impl Packets {
    fn rates_since(&mut self, earlier: &Packets, seconds: f64) {
        self.sent.rate_since(&earlier.sent, seconds);
        self.received.rate_since(&earlier.received, seconds);
        self.tunnel.rates_since(&earlier.tunnel, seconds);
    }
}

impl Relayed {
    fn rates_since(&mut self, earlier: &Relayed, seconds: f64) {
        let rate = |now: u64, before: u64| Some((now - before.min(now)) as f64 * 8.0 / seconds);
        self.sent_bits_per_second = rate(self.sent_bytes, earlier.sent_bytes);
        self.received_bits_per_second = rate(self.received_bytes, earlier.received_bytes);
    }
}
