//! Rates and shares of an interval.

use crate::tunnel::{Tunnel, TunnelPath};

impl Tunnel {
    /// Enters the rates and shares of the interval of so many seconds since an earlier one.
    pub fn rates_since(&mut self, earlier: &Tunnel, seconds: f64) {
        let pairs = || self.paths.iter().filter_map(|path| Some((path, named(earlier, &path.name)?)));
        let total = pairs().map(|(now, before)| now.sent.bytes_since(&before.sent)).sum();
        for path in &mut self.paths {
            let Some(before) = named(earlier, &path.name) else { continue };
            let TunnelPath { sent, delivered, received, share_ratio, .. } = path;
            *share_ratio = sent.share_since(&before.sent, total);
            for (now, before) in [(sent, before.sent), (delivered, before.delivered), (received, before.received)] {
                now.rate_since(&before, seconds);
            }
        }
    }
}

/// Paths may come and go.
fn named<'a>(tunnel: &'a Tunnel, name: &str) -> Option<&'a TunnelPath> {
    tunnel.paths.iter().find(|path| path.name == name)
}
