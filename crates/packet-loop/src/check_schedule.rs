use kumade_units::{Span, Time};

/// When a shard is to look at what no event tells: soon after something has happened, however often that is, and else not before something is
/// due, so that a shard whose descriptors are silent sleeps.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct CheckSchedule {
    /// The earliest look after something has happened.
    earliest: Time,
    next: Option<Time>,
}

impl CheckSchedule {
    /// Something has happened: it is looked at as soon as the interval since the last look allows.
    pub fn record_activity(&mut self) {
        self.next = Some(self.next.map_or(self.earliest, |next| next.min(self.earliest)));
    }

    /// Takes note of what a descriptor tells, and says whether it is now to be looked at, which [ends](Self::finish_check) then. `take` empties
    /// the descriptor, and says whether anything was there: before the look, so that what changes meanwhile is told again. To be called in each turn;
    /// while there is a [deadline](Self::deadline), the descriptor need not be waited for.
    pub fn poll(&mut self, take: impl FnOnce() -> bool, now: Time) -> bool {
        if take() {
            self.record_activity();
        }
        self.is_due(now)
    }

    /// When to look, if ever.
    pub fn deadline(&self) -> Option<Time> {
        self.next
    }

    /// Whether that is now.
    pub fn is_due(&self, now: Time) -> bool {
        self.next.is_some_and(|next| next <= now)
    }

    /// It was looked at. The next look comes no sooner than an `interval` later, and at `due` if nothing happens until then; a `due` that
    /// has passed is for after the interval.
    pub fn finish_check(&mut self, interval: Span, due: Option<Time>, now: Time) {
        self.earliest = now + interval;
        self.next = due.map(|due| due.max(self.earliest));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Span = Span::from_millis(250);

    /// How often it is looked within so many seconds, if something happens at these milliseconds and each look finds this to be due so much later.
    fn look_count(seconds: i64, events: impl Iterator<Item = i64>, due_after: Option<Span>) -> usize {
        let at = |millis| Time::ZERO + Span::from_millis(millis);
        let mut schedule = CheckSchedule::default();
        let mut events = events.map(at).peekable();
        let mut looks = 0;
        loop {
            let event = events.peek().copied();
            let Some(now) = event.into_iter().chain(schedule.deadline()).min().filter(|now| *now < at(seconds * 1000))
            else {
                return looks;
            };
            if event == Some(now) {
                events.next();
                schedule.record_activity();
            }
            if schedule.is_due(now) {
                looks += 1;
                schedule.finish_check(INTERVAL, due_after.map(|after| now + after), now);
            }
        }
    }

    #[test]
    fn what_a_descriptor_tells_is_taken_before_each_look_and_looked_at_once_in_an_interval() {
        let mut schedule = CheckSchedule::default();
        let at = |millis| Time::ZERO + Span::from_millis(millis);
        assert!(!schedule.poll(|| false, at(0)) && schedule.deadline().is_none());
        // Three that come one after another, and what else is found before the look.
        assert!(schedule.poll(|| true, at(10)));
        schedule.finish_check(INTERVAL, None, at(10));
        assert!(!schedule.poll(|| true, at(11)) && !schedule.poll(|| true, at(12)));
        assert_eq!(schedule.deadline(), Some(at(260)));
        assert!(schedule.poll(|| true, at(260)));
        // A look that has failed is repeated.
        schedule.finish_check(INTERVAL, Some(at(260)), at(260));
        assert_eq!(schedule.deadline(), Some(at(510)));
        assert!(!schedule.poll(|| false, at(509)) && schedule.poll(|| false, at(510)));
        schedule.finish_check(INTERVAL, None, at(510));
        assert!(!schedule.poll(|| false, at(9000)) && schedule.deadline().is_none());
    }

    #[test]
    fn who_is_idle_is_left_asleep_and_who_is_busy_is_looked_at_four_times_a_second() {
        assert_eq!(look_count(3600, [].into_iter(), None), 0);
        // At once, since the last look is long ago, and never again.
        assert_eq!(look_count(3600, [10_000].into_iter(), None), 1);
        assert_eq!(look_count(3600, [10_000, 10_001].into_iter(), None), 2);
        assert_eq!(look_count(10, 0..10_000, None), 40);
        assert_eq!(look_count(3600, [0].into_iter(), Some(Span::from_secs(120))), 30);
        // What is overdue does not keep the thread awake.
        assert_eq!(look_count(10, [0].into_iter(), Some(Span::ZERO)), 40);
    }
}
