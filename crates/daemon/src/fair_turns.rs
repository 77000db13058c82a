use kumade_units::Span;
use std::collections::BTreeMap;

/// Divides a thread's time between those who have something for it: whoever has had least is next (start-time fair queueing: Goyal,
/// Vin, Cheng 1996, of time in place of bytes). Who had nothing for a while has saved nothing up.
#[derive(Debug)]
pub struct FairTurns<K> {
    /// The time that each has had, counted as if all had begun together; of others, it is `least`.
    used: BTreeMap<K, Span>,
    /// What the last one whose turn it was had had before.
    least: Span,
}

impl<K> Default for FairTurns<K> {
    fn default() -> Self {
        FairTurns { used: BTreeMap::new(), least: Span::ZERO }
    }
}

impl<K: Copy + Ord> FairTurns<K> {
    /// Whose turn it is, among those that may have something; the first of several.
    pub fn next(&mut self, waiting: impl IntoIterator<Item = K>) -> Option<K> {
        let next = waiting.into_iter().min_by_key(|who| self.used(*who))?;
        self.least = self.used(next);
        let least = self.least;
        self.used.retain(|_, used| *used > least);
        Some(next)
    }

    /// So much time was taken for one of them.
    pub fn charge(&mut self, who: K, time: Span) {
        let used = self.used(who) + time.max(Span::ZERO);
        self.used.insert(who, used);
    }

    fn used(&self, who: K) -> Span {
        self.used.get(&who).copied().unwrap_or(self.least).max(self.least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How much time each gets of those that always have something, where a turn takes as long as this.
    fn share(micros_per_turn: &[i64], turns: usize) -> Vec<i64> {
        let mut fair = FairTurns::default();
        let mut had = vec![0; micros_per_turn.len()];
        for _ in 0..turns {
            let next = fair.next(0..micros_per_turn.len() as u32).unwrap();
            fair.charge(next, Span::from_micros(micros_per_turn[next as usize]));
            had[next as usize] += micros_per_turn[next as usize];
        }
        had
    }

    #[test]
    fn all_that_always_have_something_get_the_same_time_however_long_their_turns_are() {
        let had = share(&[900, 10, 70], 10_000);
        assert!(had.iter().all(|time| (had[0] - time).abs() <= 900), "{had:?}");
    }

    #[test]
    fn who_takes_less_than_its_share_never_waits_for_more_than_one_turn() {
        let mut fair = FairTurns::default();
        for round in 0..1000 {
            // One has always something; the other one now and then, and not for as long as it might.
            let other = (round % 3 == 0).then_some(1);
            let next = fair.next(other.into_iter().chain([0])).unwrap();
            assert_eq!(next, u32::from(round % 3 == 0), "round {round}");
            fair.charge(next, Span::from_micros(if next == 0 { 400 } else { 300 }));
        }
    }

    #[test]
    fn who_had_nothing_for_long_has_saved_nothing_up() {
        let mut fair = FairTurns::default();
        fair.charge(7, Span::from_micros(1));
        for _ in 0..1000 {
            assert_eq!(fair.next([0]), Some(0));
            fair.charge(0, Span::from_millis(1));
        }
        let turns: Vec<_> = (0..6)
            .map(|_| {
                let next = fair.next([0, 7]).unwrap();
                fair.charge(next, Span::from_millis(1));
                next
            })
            .collect();
        assert_eq!(turns.iter().filter(|who| **who == 7).count(), 3, "{turns:?}");
        assert!(fair.used.len() <= 2);
    }
}
