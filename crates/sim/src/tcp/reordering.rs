use super::scoreboard::SentSegment;
use kumade_units::{Span, Time};

/// Loss by time (RACK, RFC 8985): a segment is lost when one sent later has arrived and it has not within a reordering
/// window after.
#[derive(Debug)]
pub(super) struct RackState {
    /// The segment sent last of those that arrived, and its round trip.
    newest_delivered: Option<(SentSegment, Span)>,
    /// Whether any arrived out of order without having been sent again.
    is_reordering_seen: bool,
    /// The window in quarters of the least round trip.
    window_quarters: u32,
    /// Until this is acknowledged, further duplicates belong to the round trip for which the window has grown.
    round_end: u32,
    /// So many recoveries until the window is small again.
    recoveries_left: u32,
}

/// So many segments that overtake one mean its loss, as long as no reordering was seen (`DupThresh`).
pub(super) const DUPLICATE_THRESHOLD: u32 = 3;
/// Section 6.2, step 4: after so many recoveries without duplicates the window is small again.
const WINDOW_RECOVERIES: u32 = 16;
/// As in Linux, whose counter has 8 bits.
const MAX_WINDOW_QUARTERS: u32 = 255;

impl RackState {
    pub(super) fn new() -> Self {
        RackState {
            newest_delivered: None,
            is_reordering_seen: false,
            window_quarters: 1,
            round_end: 0,
            recoveries_left: 0,
        }
    }

    /// Section 6.2, step 2. One that was sent again within less than the least round trip is answered for its first
    /// sending.
    pub(super) fn record_arrival(&mut self, newest: &SentSegment, now: Time, least: Option<Span>) {
        let round_trip = now - newest.sent;
        if newest.was_retransmitted && least.is_some_and(|least| round_trip < least) {
            return;
        }
        if self.newest_delivered.is_none_or(|(segment, _)| segment.order < newest.order) {
            self.newest_delivered = Some((*newest, round_trip));
        }
    }

    /// A segment sent once arrived behind others sent later.
    pub(super) fn record_reordering(&mut self) {
        self.is_reordering_seen = true;
    }

    /// Section 6.2, step 4: a duplicate was reported, not that of a probe, while all before `first` was acknowledged and
    /// `next` was the next to send. The window grows once per round trip, and as in Linux only for reordering that was
    /// seen.
    pub(super) fn record_duplicate(&mut self, first: u32, next: u32) {
        if self.is_reordering_seen && first >= self.round_end {
            self.round_end = next;
            self.window_quarters = (self.window_quarters + 1).min(MAX_WINDOW_QUARTERS);
            self.recoveries_left = WINDOW_RECOVERIES;
        }
    }

    /// A recovery has ended.
    pub(super) fn record_recovery_end(&mut self) {
        self.recoveries_left = self.recoveries_left.saturating_sub(1);
        if self.recoveries_left == 0 {
            self.window_quarters = 1;
        }
    }

    /// How long to wait for what was overtaken.
    pub(super) fn reordering_window(&self, recovering: bool, arrived: u32, least: Span, smoothed: Span) -> Span {
        if !self.is_reordering_seen && (recovering || arrived >= DUPLICATE_THRESHOLD) {
            return Span::ZERO;
        }
        (least * i64::from(self.window_quarters) / 4).min(smoothed)
    }

    /// Until when a segment may arrive; `None` while none sent later has.
    pub(super) fn loss_deadline(&self, segment: &SentSegment, window: Span) -> Option<Time> {
        let (newest, round_trip) = self.newest_delivered?;
        (segment.order < newest.order).then_some(segment.sent + round_trip + window)
    }

    /// Whether a segment should have been acknowledged by now, whatever was sent later.
    pub(super) fn is_overdue(&self, segment: &SentSegment, now: Time) -> bool {
        self.newest_delivered.is_none_or(|(_, round_trip)| segment.sent + round_trip <= now)
    }
}
