use crate::message::Missing;
use crate::path::id::PathId;
use kumade_units::{Span, Time};
use std::collections::VecDeque;

/// Finds the datagrams that are missing on the paths from a peer.
///
/// Call [`MissingDatagrams::receive`] for each counted datagram, and [`MissingDatagrams::poll`] when it returns or the
/// [`MissingDatagrams::deadline`] comes.
#[derive(Debug, Clone, Default)]
pub struct MissingDatagrams {
    /// By path, as far as there are any.
    paths: Vec<PathGaps>,
    /// Of all paths.
    gap_count: usize,
    /// What is still to be said, and by which paths.
    unsent: VecDeque<(PathId, MissingReport)>,
}

/// What is missing on one path.
#[derive(Debug, Clone, Default)]
struct PathGaps {
    /// The counter after the highest one that has come; 0 before any has.
    next_counter: u64,
    gaps: VecDeque<Gap>,
}

#[derive(Debug, Clone, Copy)]
struct Gap {
    counter: u64,
    found: Time,
    /// How many have come that were sent later.
    later: u32,
}

/// Datagrams that are missing on a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingReport {
    /// The path.
    pub path: PathId,
    /// Their counters, rising, at least one; the last is less than 2¹⁶ above the first.
    pub counters: Vec<u64>,
}

/// As many later ones show that a datagram is lost and not only late (RFC 5681 §3.2, RFC 9002 §6.1.1), …
const LOSS_PACKETS: u32 = 3;
/// … or so much time: less than TCP connections inside take to notice a loss on any path that is not very near.
const LOSS_WAIT: Span = Span::from_millis(4);
/// More than this in a row is an outage, which nothing makes good in time; also what is kept of a path at most.
const MAX_GAPS: usize = Missing::MAX_DATAGRAMS;

impl MissingDatagrams {
    /// Nothing has come yet.
    pub fn new() -> Self {
        MissingDatagrams::default()
    }

    /// The datagram with this counter has come over a path. Returns whether it shows others to be missing.
    pub fn receive(&mut self, path: PathId, counter: u64, now: Time) -> bool {
        if path.index() >= self.paths.len() {
            self.paths.resize_with(path.index() + 1, PathGaps::default);
        }
        let path = &mut self.paths[path.index()];
        let before = path.gaps.len();
        let is_after_gap = path.receive(counter, now);
        self.gap_count = self.gap_count + path.gaps.len() - before;
        is_after_gap
    }

    /// When to call [`poll`](Self::poll).
    pub fn deadline(&self) -> Option<Time> {
        if self.gap_count == 0 {
            return None;
        }
        self.paths.iter().flat_map(|path| &path.gaps).map(Gap::due).min()
    }

    /// What is to be said now, and by which path: each datagram once by each of these paths, or by its own where there is none.
    pub fn poll<I>(&mut self, by: impl FnOnce() -> I, now: Time) -> Option<(PathId, MissingReport)>
    where
        I: IntoIterator<Item = PathId>,
    {
        if self.unsent.is_empty()
            && let Some(report) = self.next_report(now)
        {
            self.unsent.extend(by().into_iter().map(|path| (path, report.clone())));
            if self.unsent.is_empty() {
                self.unsent.push_back((report.path, report));
            }
        }
        self.unsent.pop_front()
    }

    /// What is to be said now of a path.
    fn next_report(&mut self, now: Time) -> Option<MissingReport> {
        if self.gap_count == 0 {
            return None;
        }
        for (id, path) in PathId::all().zip(&mut self.paths) {
            let first = path.gaps.iter().find(|gap| gap.due() <= now).map(|gap| gap.counter);
            let Some(first) = first else { continue };
            let is_told = |gap: &Gap| gap.due() <= now && gap.counter - first <= u64::from(u16::MAX);
            let counters: Vec<u64> = path.gaps.iter().filter(|gap| is_told(gap)).map(|gap| gap.counter).collect();
            path.gaps.retain(|gap| !is_told(gap));
            self.gap_count -= counters.len();
            return Some(MissingReport { path: id, counters });
        }
        None
    }
}

impl PathGaps {
    fn receive(&mut self, counter: u64, now: Time) -> bool {
        let mut is_after_gap = false;
        if counter < self.next_counter {
            self.gaps.retain(|gap| gap.counter != counter);
        } else {
            // What was sent before the first one that comes is none of this end's business.
            let missing = if self.next_counter == 0 { 0 } else { counter - self.next_counter };
            if missing > MAX_GAPS as u64 {
                self.gaps.clear();
            } else {
                is_after_gap = missing > 0;
                let new = (self.next_counter..counter).take(missing as usize);
                self.gaps.extend(new.map(|counter| Gap { counter, found: now, later: 0 }));
                self.gaps.drain(..self.gaps.len().saturating_sub(MAX_GAPS));
            }
            self.next_counter = counter.saturating_add(1);
        }
        self.gaps.iter_mut().filter(|gap| gap.counter < counter).for_each(|gap| gap.later += 1);
        is_after_gap
    }
}

impl Gap {
    fn due(&self) -> Time {
        if self.later >= LOSS_PACKETS { self.found } else { self.found + LOSS_WAIT }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn path(number: u8) -> PathId {
        PathId::new(number).unwrap()
    }

    fn time_at_millis(millis: i64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    #[test]
    fn what_three_later_ones_overtake_is_missing() {
        let mut missing = MissingDatagrams::new();
        let shown = [7, 8, 10, 11].map(|counter| missing.receive(path(2), counter, time_at_millis(1)));
        assert_eq!(shown, [false, false, true, false]);
        assert_eq!((poll(&mut missing, time_at_millis(1)), missing.deadline()), (None, Some(time_at_millis(5))));
        missing.receive(path(2), 12, time_at_millis(2));
        assert_eq!(poll(&mut missing, time_at_millis(2)), Some(MissingReport { path: path(2), counters: vec![9] }));
        assert_eq!((poll(&mut missing, time_at_millis(9)), missing.deadline()), (None, None), "it is told once");
    }

    #[test]
    fn what_comes_late_is_not_missing_and_what_does_not_come_in_a_while_is() {
        let mut missing = MissingDatagrams::new();
        for counter in [0, 2, 4, 1] {
            missing.receive(path(0), counter, time_at_millis(1));
        }
        assert_eq!(poll(&mut missing, time_at_millis(4)), None);
        assert_eq!(poll(&mut missing, time_at_millis(5)), Some(MissingReport { path: path(0), counters: vec![3] }));
    }

    #[test]
    fn an_outage_is_not_made_good() {
        let mut missing = MissingDatagrams::new();
        missing.receive(path(0), 0, time_at_millis(0));
        missing.receive(path(0), 1000, time_at_millis(0));
        assert_eq!((missing.deadline(), poll(&mut missing, time_at_millis(9))), (None, None));
    }

    #[test]
    fn it_is_said_by_each_path_that_is_given() {
        let mut missing = MissingDatagrams::new();
        for counter in [0, 2] {
            missing.receive(path(0), counter, time_at_millis(1));
        }
        let report = MissingReport { path: path(0), counters: vec![1] };
        for over in [3, 1] {
            assert_eq!(missing.poll(|| [3, 1].map(path), time_at_millis(5)), Some((path(over), report.clone())));
        }
        assert_eq!(missing.poll(|| [path(3)], time_at_millis(5)), None);
    }

    fn poll(missing: &mut MissingDatagrams, now: Time) -> Option<MissingReport> {
        let (by, report) = missing.poll(|| [], now)?;
        assert_eq!(by, report.path, "there is no other");
        Some(report)
    }

    proptest! {
        /// Told are those that have not come, in rising order, once, and few at a time.
        #[test]
        fn all_that_is_told_is_missing(steps in prop::collection::vec((0u8..3, -20i64..80, 0i64..3), 1..300)) {
            let (mut missing, mut now, mut highest) = (MissingDatagrams::new(), Time::ZERO, [0u64; 3]);
            let (mut came, mut told) = (BTreeSet::new(), BTreeSet::new());
            for (over, step, millis) in steps {
                now += Span::from_millis(millis);
                let counter = highest[usize::from(over)].saturating_add_signed(step);
                highest[usize::from(over)] = highest[usize::from(over)].max(counter);
                missing.receive(path(over), counter, now);
                came.insert((over, counter));
                while let Some(MissingReport { path, counters }) = poll(&mut missing, now) {
                    prop_assert!(counters.len() <= MAX_GAPS && counters.is_sorted());
                    for counter in counters {
                        prop_assert!(!came.contains(&(path.number(), counter)) && told.insert((path, counter)));
                    }
                }
                prop_assert!(missing.deadline().is_none_or(|deadline| deadline > now));
                let kept: usize = missing.paths.iter().map(|path| path.gaps.len()).sum();
                prop_assert_eq!(kept, missing.gap_count);
            }
        }
    }
}
