use crate::timestamp::Timestamp;
use std::collections::BTreeSet;

/// Which initiations of a peer have come. They may overtake each other on their connections, so that the last one alone does
/// not tell: the latest are remembered, and older ones are refused.
#[derive(Debug, Default)]
pub(super) struct Seen {
    latest: BTreeSet<Timestamp>,
    /// Up to this one all are refused.
    floor: Option<Timestamp>,
}

/// More than a peer opens streams in the time that one of them takes to arrive.
const REMEMBERED: usize = 4096;

impl Seen {
    /// Notes an initiation; whether it is a new one.
    pub(super) fn note(&mut self, stamp: Timestamp) -> bool {
        if self.floor.is_some_and(|floor| stamp <= floor) || !self.latest.insert(stamp) {
            return false;
        }
        if self.latest.len() > REMEMBERED {
            self.floor = self.latest.pop_first();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timestamp::Stamper;
    use kumade_units::Time;

    #[test]
    fn nothing_counts_as_new_twice_however_much_has_come_since() {
        let mut stamper = Stamper::new();
        let stamps: Vec<_> = (0..2 * REMEMBERED).map(|_| stamper.stamp(Time::ZERO)).collect();
        let mut seen = Seen::default();
        for pair in stamps.chunks(2) {
            assert!(seen.note(pair[1]) && seen.note(pair[0]));
        }
        assert!(stamps.iter().all(|stamp| !seen.note(*stamp)));
        assert_eq!(seen.latest.len(), REMEMBERED);
    }
}
