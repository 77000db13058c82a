use crate::capacity::Shaper;

/// What limits the path.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bottleneck {
    /// What it carries in the long run, in bit/s.
    pub(super) capacity: f64,
    /// The rate at which a packet passes that need not wait, in bit/s: the capacity, but for a token bucket.
    pub(super) line_rate: f64,
}

impl Bottleneck {
    /// A link of this rate.
    pub(super) fn from_capacity(capacity: f64) -> Self {
        Bottleneck { capacity, line_rate: capacity }
    }

    /// A token bucket, and the line behind it, which is as good as endless where its rate is not known.
    pub(super) fn behind_shaper(shaper: &Shaper) -> Self {
        let line = shaper.peak_rate.map_or(f64::INFINITY, |peak| peak.value.as_f64());
        Bottleneck { capacity: shaper.committed_rate.value.as_f64(), line_rate: line }
    }

    /// Whether packets pass faster for a while than in the long run.
    pub(super) fn has_token_bucket(&self) -> bool {
        self.line_rate > self.capacity
    }
}
