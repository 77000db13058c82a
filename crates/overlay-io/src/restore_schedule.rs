use kumade_units::{Span, Time};

/// When routes and addresses are to be looked at, and put back where they are gone: soon after something of the kind has changed.
#[derive(Debug)]
pub(crate) struct RestoreSchedule {
    has_changed: bool,
    /// When it was time last.
    last: Time,
}

/// After a look at the routes, the next one is this much later: others may change theirs all the time.
const RESTORE_INTERVAL: Span = Span::from_secs(1);

impl RestoreSchedule {
    /// From before the routes are added on.
    pub(crate) fn new(now: Time) -> Self {
        RestoreSchedule { has_changed: false, last: now }
    }

    /// Interfaces, addresses or routes have changed.
    pub(crate) fn record_change(&mut self) {
        self.has_changed = true;
    }

    /// When to look; also where nothing has changed, if some are missing.
    pub(crate) fn deadline(&self, is_missing: bool) -> Option<Time> {
        (self.has_changed || is_missing).then(|| self.last + RESTORE_INTERVAL)
    }

    /// Whether it is time.
    pub(crate) fn is_due(&mut self, is_missing: bool, now: Time) -> bool {
        let is_due = self.deadline(is_missing).is_some_and(|deadline| deadline <= now);
        if is_due {
            *self = RestoreSchedule::new(now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_looked_at_when_something_has_changed_and_at_most_once_a_second() {
        let at = |millis| Time::ZERO + Span::from_millis(millis);
        let mut schedule = RestoreSchedule::new(at(0));
        assert_eq!((schedule.deadline(false), schedule.deadline(true)), (None, Some(at(1000))));
        schedule.record_change();
        assert!(!schedule.is_due(false, at(999)) && schedule.is_due(false, at(5000)));
        assert!(!schedule.is_due(false, at(60_000)));
        schedule.record_change();
        assert!(schedule.is_due(false, at(60_000)) && !schedule.is_due(true, at(60_500)));
        assert!(schedule.is_due(true, at(61_000)));
    }
}
