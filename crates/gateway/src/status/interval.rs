//! Rates and shares of an interval.

use super::{GatewayPathStatus, GatewayStatus};
use kumade_overlay_io::status::StatusDocument;

impl StatusDocument for GatewayStatus {
    const SERVICE: &'static str = "gateway";

    fn with_time(self, time: String, duration_seconds: f64) -> Self {
        GatewayStatus { time, duration_seconds, ..self }
    }

    fn with_rates_since(mut self, earlier: &Self) -> Self {
        let seconds = self.duration_seconds - earlier.duration_seconds;
        if seconds <= 0.0 {
            return self;
        }
        self.interval_seconds = Some(seconds);
        let pairs = self.paths.iter().zip(&earlier.paths);
        let total = pairs.map(|(now, before)| now.sent.bytes_since(&before.sent)).sum();
        for (path, before) in self.paths.iter_mut().zip(&earlier.paths) {
            let GatewayPathStatus { sent, share_ratio, .. } = path;
            *share_ratio = sent.share_since(&before.sent, total);
            sent.set_rate_since(&before.sent, seconds);
        }
        let tunnels = self.remotes.iter_mut().zip(&earlier.remotes);
        let tunnels = tunnels.filter_map(|(now, before)| Some((now.tunnel.as_mut()?, before.tunnel.as_ref()?)));
        tunnels.for_each(|(tunnel, before)| tunnel.set_rates_since(before, seconds));
        self
    }
}
