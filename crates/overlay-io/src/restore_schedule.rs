use kumade_net::clock;
use kumade_net::route_watch::RouteWatch;
use kumade_units::{Span, Time};

/// When routes and addresses are to be looked at, and put back where they are gone: soon after something of the kind has changed.
#[derive(Debug)]
pub(crate) struct RestoreSchedule {
    /// None where the system refuses it: then it is looked at all the time.
    watch: Option<RouteWatch>,
    next: Time,
    /// When it was time last.
    last: Time,
}

/// Between two looks at whether anything has changed.
const WATCH_INTERVAL: Span = Span::from_millis(100);
/// After a look at the routes, the next one is this much later: others may change theirs all the time.
const RESTORE_INTERVAL: Span = Span::from_secs(1);

impl RestoreSchedule {
    /// From before the routes are added on.
    pub(crate) fn new() -> Self {
        let watch = RouteWatch::open().inspect_err(|error| tracing::debug!("{error}"));
        let now = clock::monotonic();
        RestoreSchedule { watch: watch.ok(), next: now + RESTORE_INTERVAL, last: now }
    }

    /// Whether it is time; also where nothing has changed, if some are missing. To be asked at any time.
    pub(crate) fn is_due(&mut self, is_missing: bool, now: Time) -> bool {
        if now < self.next {
            return false;
        }
        self.next = now + WATCH_INTERVAL;
        let has_changed = self.watch.as_ref().is_none_or(RouteWatch::take_change);
        let is_due = has_changed || is_missing && now - self.last >= RESTORE_INTERVAL;
        if is_due {
            (self.last, self.next) = (now, now + RESTORE_INTERVAL);
        }
        is_due
    }
}
