use crate::timestamp::Timestamp;
use std::collections::BTreeSet;

/// Which initiations of a peer have come. They may overtake each other on their connections, so that the last one alone does
/// not tell: the latest are remembered, and older ones are refused.
#[derive(Debug, Default)]
pub(super) struct InitiationLog {
    latest: BTreeSet<Timestamp>,
    /// Up to this one all are refused.
    floor: Option<Timestamp>,
}

/// More than a peer opens streams in the time that one of them takes to arrive.
const MAX_LOGGED_INITIATIONS: usize = 4096;

impl InitiationLog {
    /// The greatest timestamp of all, where this one is so old that nobody knows whether it has come.
    pub(super) fn greatest_if_outdated(&self, stamp: Timestamp) -> Option<Timestamp> {
        let is_outdated = self.floor.is_some_and(|floor| stamp < floor);
        self.latest.last().copied().filter(|_| is_outdated)
    }

    /// Notes an initiation; whether it is a new one.
    pub(super) fn record(&mut self, stamp: Timestamp) -> bool {
        if self.floor.is_some_and(|floor| stamp <= floor) || !self.latest.insert(stamp) {
            return false;
        }
        if self.latest.len() > MAX_LOGGED_INITIATIONS {
            self.floor = self.latest.pop_first();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timestamp::TimestampSource;
    use kumade_units::Time;

    #[test]
    fn nothing_counts_as_new_twice_however_much_has_come_since() {
        let mut stamper = TimestampSource::new();
        let stamps: Vec<_> = (0..2 * MAX_LOGGED_INITIATIONS).map(|_| stamper.next_timestamp(Time::ZERO)).collect();
        let mut seen = InitiationLog::default();
        for pair in stamps.chunks(2) {
            assert!(seen.record(pair[1]) && seen.record(pair[0]));
        }
        assert!(stamps.iter().all(|stamp| !seen.record(*stamp)));
        assert_eq!(seen.latest.len(), MAX_LOGGED_INITIATIONS);
        let (last, last_forgotten) = (stamps.last().copied(), stamps[MAX_LOGGED_INITIATIONS - 1]);
        assert_eq!(seen.greatest_if_outdated(stamps[0]), last);
        assert_eq!(
            (seen.greatest_if_outdated(last_forgotten), seen.greatest_if_outdated(stamps[9000 - 1000])),
            (None, None)
        );
    }
}
