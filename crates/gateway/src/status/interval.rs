//! Rates and shares of an interval.

use super::{Path, Status, Traffic, Tunnel, TunnelPath};

impl Status {
    /// With the rates and shares of the interval since an earlier status of the same gateway.
    pub fn since(mut self, earlier: &Status) -> Self {
        let seconds = self.duration_seconds - earlier.duration_seconds;
        if seconds <= 0.0 {
            return self;
        }
        self.interval_seconds = Some(seconds);
        let total: u64 = pairs(&self.paths, &earlier.paths).map(|(now, before)| bytes(&now.sent, &before.sent)).sum();
        for (path, before) in self.paths.iter_mut().zip(&earlier.paths) {
            let Path { sent, share_ratio, .. } = path;
            *share_ratio = share(sent, &before.sent, total);
            rate(sent, &before.sent, seconds);
        }
        let tunnels = self.remotes.iter_mut().zip(&earlier.remotes);
        let tunnels = tunnels.filter_map(|(now, before)| Some((now.tunnel.as_mut()?, before.tunnel.as_ref()?)));
        tunnels.for_each(|(tunnel, before)| tunnel.interval(before, seconds));
        self
    }
}

impl Tunnel {
    fn interval(&mut self, earlier: &Tunnel, seconds: f64) {
        let total: u64 = pairs(&self.paths, &earlier.paths).map(|(now, before)| bytes(&now.sent, &before.sent)).sum();
        for (path, before) in self.paths.iter_mut().zip(&earlier.paths) {
            let TunnelPath { sent, delivered, received, share_ratio, .. } = path;
            *share_ratio = share(sent, &before.sent, total);
            for (now, before) in [(sent, before.sent), (delivered, before.delivered), (received, before.received)] {
                rate(now, &before, seconds);
            }
        }
    }
}

fn pairs<'a, T>(now: &'a [T], before: &'a [T]) -> impl Iterator<Item = (&'a T, &'a T)> {
    now.iter().zip(before)
}

/// Those of the interval. A count that has become less began anew in it.
fn bytes(now: &Traffic, before: &Traffic) -> u64 {
    now.bytes.checked_sub(before.bytes).unwrap_or(now.bytes)
}

fn share(now: &Traffic, before: &Traffic, total: u64) -> Option<f64> {
    (total > 0).then(|| bytes(now, before) as f64 / total as f64)
}

fn rate(now: &mut Traffic, before: &Traffic, seconds: f64) {
    now.bits_per_second = Some(bytes(now, before) as f64 * 8.0 / seconds);
}
