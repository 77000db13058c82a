use super::controller::Ack;

/// A window that grows by acknowledgements, with what the loss-based controllers share: slow start, a step per so many
/// acknowledged segments, reduction, collapse and their undoing.
///
/// It counts whole segments and keeps the credit for the next one, as Linux does: growth counts what was delivered
/// (RFC 3465 without its limit), so that delayed acknowledgements do not slow it.
#[derive(Debug, Clone)]
pub(super) struct CongestionWindow {
    segments: u32,
    /// `u32::MAX` before the first loss.
    threshold: u32,
    /// Segments acknowledged towards the next step.
    credit: u32,
    /// Whether a fast recovery is under way: the window then stands.
    is_reducing: bool,
    /// Window and threshold before the last reduction, while that may still be taken back.
    before_reduction: Option<(u32, u32)>,
}

/// The window that a connection begins with (RFC 6928).
pub(super) const INITIAL_SEGMENTS: u32 = 10;
/// The least that a threshold may be (RFC 5681).
pub(super) const MIN_THRESHOLD_SEGMENTS: u32 = 2;

impl CongestionWindow {
    pub(super) fn new() -> Self {
        CongestionWindow {
            segments: INITIAL_SEGMENTS,
            threshold: u32::MAX,
            credit: 0,
            is_reducing: false,
            before_reduction: None,
        }
    }

    pub(super) fn segments(&self) -> u32 {
        self.segments
    }

    /// As [`super::Controller::threshold`] tells it.
    pub(super) fn threshold(&self) -> f64 {
        if self.threshold == u32::MAX { f64::INFINITY } else { f64::from(self.threshold) }
    }

    pub(super) fn is_in_slow_start(&self) -> bool {
        self.segments < self.threshold
    }

    /// Whether a fast recovery is under way.
    pub(super) fn is_reducing(&self) -> bool {
        self.is_reducing
    }

    /// The segments by which `ack` may let the window grow: none in fast recovery, none while the window is not what
    /// limits the sender, none for segments out of sequence alone.
    pub(super) fn growth(&self, ack: &Ack) -> Option<u32> {
        (!self.is_reducing && ack.window_limited && ack.acked > 0 && ack.delivered > 0).then_some(ack.delivered)
    }

    /// Grows by `acked` segments up to the threshold, and returns what is left of them.
    #[must_use]
    pub(super) fn slow_start(&mut self, acked: u32) -> u32 {
        if !self.is_in_slow_start() {
            return acked;
        }
        let before = self.segments;
        self.segments = before.saturating_add(acked).min(self.threshold);
        acked - (self.segments - before)
    }

    /// Grows by one segment per `count` of those acknowledged.
    pub(super) fn avoid_congestion(&mut self, count: u32, acked: u32) {
        let count = count.max(1);
        // Credit gathered while steps were rarer buys one of them only.
        if self.credit >= count {
            self.credit = 0;
            self.segments = self.segments.saturating_add(1);
        }
        self.credit = self.credit.saturating_add(acked);
        self.segments = self.segments.saturating_add(self.credit / count);
        self.credit %= count;
    }

    /// Slow start, then a segment per round trip (RFC 5681).
    pub(super) fn grow_as_reno(&mut self, acked: u32) {
        let rest = self.slow_start(acked);
        if rest > 0 {
            self.avoid_congestion(self.segments, rest);
        }
    }

    /// Sets the window, at least to one segment.
    pub(super) fn set_segments(&mut self, segments: u32) {
        self.segments = segments.max(1);
    }

    /// Sets the threshold, at least to the least there is.
    pub(super) fn set_threshold(&mut self, segments: u32) {
        self.threshold = segments.max(MIN_THRESHOLD_SEGMENTS);
    }

    /// The threshold no higher than the window: slow start is over.
    pub(super) fn cap_threshold_at_window(&mut self) {
        self.set_threshold(self.threshold.min(self.segments));
    }

    /// The threshold no lower than three quarters of the window, so that a small window later finds its way back.
    pub(super) fn raise_threshold(&mut self) {
        self.threshold = self.raised_threshold();
    }

    fn raised_threshold(&self) -> u32 {
        self.threshold.max(self.segments / 2 + self.segments / 4)
    }

    /// This many 1024ths of the window.
    pub(super) fn scaled_window(&self, factor: u64) -> u32 {
        (u64::from(self.segments) * factor / 1024) as u32
    }

    /// What to take for the path's limit when a loss leaves so many 1024ths: the window. But a flow that did not come
    /// back to its `last_limit` takes less, and so gives way (fast convergence; RFC 9438, section 4.7).
    pub(super) fn limit_at_loss(&self, last_limit: u32, left: u64) -> u32 {
        if self.segments < last_limit { self.scaled_window(1024 + left) / 2 } else { self.segments }
    }

    /// A recovery begins that shall end at `threshold`.
    pub(super) fn enter_reduction(&mut self, threshold: u32) {
        self.save_before_reduction();
        self.is_reducing = true;
        self.set_threshold(threshold);
        self.segments = self.threshold;
        self.credit = 0;
    }

    /// The recovery is over. After a timeout this means nothing: the window has begun to grow already.
    pub(super) fn end_reduction(&mut self) {
        if self.is_reducing {
            self.segments = self.threshold;
            self.is_reducing = false;
        }
    }

    /// Whether a timeout lowers the threshold: only once per window of data.
    pub(super) fn timeout_reduces(&self, again: bool) -> bool {
        !again && !self.is_reducing
    }

    /// A timeout: one segment beyond those still in flight, and a new threshold if there is one.
    pub(super) fn collapse(&mut self, in_flight: u32, threshold: Option<u32>) {
        if let Some(threshold) = threshold {
            self.save_before_reduction();
            self.set_threshold(threshold);
        }
        self.segments = in_flight.saturating_add(1);
        self.credit = 0;
        self.is_reducing = false;
    }

    /// Takes the last reduction back.
    pub(super) fn undo_reduction(&mut self) {
        if let Some((segments, threshold)) = self.before_reduction.take() {
            self.segments = self.segments.max(segments);
            self.threshold = self.threshold.max(threshold);
        }
        self.is_reducing = false;
    }

    /// As Linux does, the threshold remembered is at least three quarters of the window, so that an undone timeout
    /// does not begin slow start far below.
    fn save_before_reduction(&mut self) {
        let threshold = if self.is_reducing { self.threshold } else { self.raised_threshold() };
        self.before_reduction = Some((self.segments, threshold));
    }
}
