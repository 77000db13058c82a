use super::delivery::Newest;
use units::{Span, Time};

/// Loss by time (RACK, RFC 8985): a segment is lost when one sent later has arrived and it has not within a reordering
/// window after.
#[derive(Debug)]
pub(super) struct Reordering {
    /// The sending of the segment sent last of those that arrived, its number, and its round trip.
    newest: Option<(Time, u32, Span)>,
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
    pub(super) fn arrived(&mut self, newest: &Newest, now: Time, least: Option<Span>) {
        let sent = newest.segment.sent;
        let round_trip = now - sent;
        if newest.segment.again && least.is_some_and(|least| round_trip < least) {
            return;
        }
        if self.newest.is_none_or(|(time, number, _)| (time, number) < (sent, newest.number)) {
            self.newest = Some((sent, newest.number, round_trip));
        }
    }

    /// A segment sent once arrived `distance` segments behind others.
    pub(super) fn overtaken_by(&mut self, distance: u32) {
        self.seen = true;
        self.tolerated = self.tolerated.max(distance.min(MOST_TOLERATED));
    }

    /// The receiver has reported a duplicate.
    pub(super) fn duplicated(&mut self) {
        self.duplicate = true;
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
        (least * i64::from(self.quarters) / 4).min(smoothed / 8)
    }

    /// Until when a segment sent at `sent` may arrive; `None` while no later one has.
    pub(super) fn deadline(&self, number: u32, sent: Time, window: Span) -> Option<Time> {
        let (newest, newest_number, round_trip) = self.newest?;
        ((sent, number) < (newest, newest_number)).then_some(sent + round_trip + window)
    }

    /// By when everything sent at `sent` should have arrived, after a timeout.
    pub(super) fn overdue(&self, sent: Time, now: Time) -> bool {
        self.newest.is_none_or(|(_, _, round_trip)| sent + round_trip <= now)
    }
}
