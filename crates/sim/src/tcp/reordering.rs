use super::scoreboard::Segment;
use units::{Span, Time};

/// Loss by time (RACK, RFC 8985): a segment is lost when one sent later has arrived and it has not within a reordering
/// window after.
#[derive(Debug)]
pub(super) struct Reordering {
    /// The segment sent last of those that arrived, and its round trip.
    newest: Option<(Segment, Span)>,
    /// Whether any arrived out of order without having been sent again.
    seen: bool,
    /// How many segments may have overtaken before that alone means loss, while no reordering was seen.
    tolerated: u32,
    /// The window in quarters of the least round trip.
    quarters: u32,
    /// A duplicate was reported and the window has not grown for it yet.
    duplicate: bool,
    /// Until this much is delivered a further duplicate counts as the same.
    grown_at: u64,
    /// After so many recoveries without duplicates the window is small again.
    recoveries_left: u32,
}

const TOLERATED: u32 = 3;
/// Linux's `sysctl_tcp_max_reordering`.
const MOST_TOLERATED: u32 = 300;
/// `TCP_RACK_RECOVERY_THRESH`.
const RECOVERIES: u32 = 16;
const MOST_QUARTERS: u32 = 255;

impl Reordering {
    pub(super) fn new() -> Self {
        Reordering {
            newest: None,
            seen: false,
            tolerated: TOLERATED,
            quarters: 1,
            duplicate: false,
            grown_at: 0,
            recoveries_left: 0,
        }
    }

    /// Section 6.2, step 2. One that was sent again within less than the least round trip is answered for its first
    /// sending.
    pub(super) fn arrived(&mut self, newest: &Segment, now: Time, least: Option<Span>) {
        let round_trip = now - newest.sent;
        if newest.again && least.is_some_and(|least| round_trip < least) {
            return;
        }
        if self.newest.is_none_or(|(segment, _)| segment.order < newest.order) {
            self.newest = Some((*newest, round_trip));
        }
    }

    /// A segment sent once arrived `distance` segments behind others.
    pub(super) fn overtaken_by(&mut self, distance: u32) {
        self.seen = true;
        self.tolerated = self.tolerated.max(distance.min(MOST_TOLERATED));
    }

    /// The receiver has reported a duplicate, not of a probe. Without reordering it says nothing about the window.
    pub(super) fn duplicated(&mut self) {
        self.duplicate = self.seen;
    }

    /// Once for each acknowledgement: section 6.2, step 4, the window's adaptation.
    pub(super) fn adapt(&mut self, delivered: u64, delivered_when_sent: Option<u64>) {
        if delivered_when_sent.is_some_and(|then| then < self.grown_at) {
            self.duplicate = false;
        }
        if std::mem::take(&mut self.duplicate) {
            self.quarters = (self.quarters + 1).min(MOST_QUARTERS);
            self.grown_at = delivered;
            self.recoveries_left = RECOVERIES;
        } else if self.recoveries_left == 0 {
            self.quarters = 1;
        }
    }

    /// A recovery has ended.
    pub(super) fn recovery_ended(&mut self) {
        self.recoveries_left = self.recoveries_left.saturating_sub(1);
    }

    /// How long to wait for what was overtaken.
    pub(super) fn window(&self, recovering: bool, arrived: u32, least: Span, smoothed: Span) -> Span {
        if !self.seen && (recovering || arrived >= self.tolerated) {
            return Span::ZERO;
        }
        (least * i64::from(self.quarters) / 4).min(smoothed)
    }

    /// Until when a segment may arrive; `None` while none sent later has.
    pub(super) fn deadline(&self, segment: &Segment, window: Span) -> Option<Time> {
        let (newest, round_trip) = self.newest?;
        (segment.order < newest.order).then_some(segment.sent + round_trip + window)
    }

    /// Whether a segment should have been acknowledged by now, whatever was sent later.
    pub(super) fn overdue(&self, segment: &Segment, now: Time) -> bool {
        self.newest.is_none_or(|(_, round_trip)| segment.sent + round_trip <= now)
    }
}
