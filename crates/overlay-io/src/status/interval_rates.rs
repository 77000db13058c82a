//! Rates and shares of an interval.

use crate::status::tunnel::{Tunnel, TunnelPath};

impl Tunnel {
    /// Enters the rates and shares of the interval of so many seconds since an earlier one.
    pub fn set_rates_since(&mut self, earlier: &Tunnel, seconds: f64) {
        let pairs = || self.paths.iter().filter_map(|path| Some((path, path_named(earlier, &path.name)?)));
        let total = pairs().map(|(now, before)| now.sent.bytes_since(&before.sent)).sum();
        for path in &mut self.paths {
            let Some(before) = path_named(earlier, &path.name) else { continue };
            let TunnelPath { sent, delivered, received, share_ratio, .. } = path;
            *share_ratio = sent.share_since(&before.sent, total);
            for (now, before) in [(sent, before.sent), (delivered, before.delivered), (received, before.received)] {
                now.set_rate_since(&before, seconds);
            }
        }
    }
}

/// Paths may come and go.
fn path_named<'a>(tunnel: &'a Tunnel, name: &str) -> Option<&'a TunnelPath> {
    tunnel.paths.iter().find(|path| path.name == name)
}
