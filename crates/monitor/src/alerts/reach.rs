use kumade_alerts::Reach;
use kumade_units::Time;
use std::collections::BTreeSet;

/// What is known of a path's probes, in the order in which they were sent: results come in another.
#[derive(Debug, Default)]
pub(super) struct ReachTracker {
    answered: Option<Time>,
    /// Without an answer so far, since the last one that was answered.
    unanswered: BTreeSet<Time>,
    /// Those before the ones that are remembered.
    forgotten: Option<(u32, Time)>,
}

/// Probes that are remembered: more are needed for no alert.
const MAX_UNANSWERED: usize = 256;

impl ReachTracker {
    /// A probe was answered, or has not been in its time; what is said of it later counts. `sent` by the monotonic clock.
    pub(super) fn add(&mut self, sent: Time, is_answered: bool) {
        if is_answered {
            let latest = self.answered.map_or(sent, |answered| answered.max(sent));
            self.answered = Some(latest);
            self.unanswered = self.unanswered.split_off(&latest);
            self.unanswered.remove(&latest);
            self.forgotten = self.forgotten.filter(|(_, first)| *first > latest);
        } else if self.answered.is_none_or(|answered| sent > answered) {
            self.unanswered.insert(sent);
            if self.unanswered.len() > MAX_UNANSWERED
                && let Some(first) = self.unanswered.pop_first()
            {
                let (count, begin) = self.forgotten.unwrap_or((0, first));
                self.forgotten = Some((count + 1, begin));
            }
        }
    }

    pub(super) fn reach(&self) -> Reach {
        let forgotten = self.forgotten.map_or(0, |(count, _)| count);
        let first = self.forgotten.map(|(_, first)| first).or_else(|| self.unanswered.first().copied());
        Reach {
            lost_in_a_row: forgotten + self.unanswered.len() as u32,
            lost: first.zip(self.unanswered.last().copied()),
            answered: self.answered,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_units::Span;

    fn after(seconds: i64) -> Time {
        Time::ZERO + Span::from_secs(seconds)
    }

    #[test]
    fn losses_count_by_when_probes_were_sent() {
        let mut tracker = ReachTracker::default();
        tracker.add(after(1), true);
        tracker.add(after(3), true);
        // It is known late that this one was lost.
        tracker.add(after(2), false);
        assert_eq!(tracker.reach(), Reach { lost_in_a_row: 0, lost: None, answered: Some(after(3)) });
        [4, 5, 6].into_iter().for_each(|second| tracker.add(after(second), false));
        tracker.add(after(5), false);
        assert_eq!(tracker.reach().lost_in_a_row, 3, "each counts once");
        // An answer that is late.
        tracker.add(after(5), true);
        let reach = Reach { lost_in_a_row: 1, lost: Some((after(6), after(6))), answered: Some(after(5)) };
        assert_eq!(tracker.reach(), reach);
    }

    #[test]
    fn an_outage_of_any_length_takes_bounded_memory() {
        let mut tracker = ReachTracker::default();
        (0..10_000).for_each(|second| tracker.add(after(second), false));
        assert_eq!(tracker.unanswered.len(), MAX_UNANSWERED);
        assert_eq!((tracker.reach().lost_in_a_row, tracker.reach().lost), (10_000, Some((after(0), after(9999)))));
        tracker.add(after(10_000), true);
        assert_eq!(tracker.reach(), Reach { answered: Some(after(10_000)), ..Reach::default() });
    }
}
