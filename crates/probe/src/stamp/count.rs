//! What became of the probes: all of them there and back, and each way by itself where the reflector counts.

use super::flight::Return;
use estimate::delay::Deliveries;
use units::Span;

/// Counts of one measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) there_and_back: Deliveries,
    /// Up and down; none where the replies' numbers don't tell.
    pub(super) ways: Option<(Deliveries, Deliveries)>,
}

/// Of `sent` probes, by the replies in the order in which they came; one that took longer than the deadline is late.
pub(super) fn count(sent: u32, deadline: Span, returns: &[Return]) -> Counts {
    let there_and_back = Deliveries::of(sent, returns.iter().map(|back| (back.probe, back.took > deadline)));
    Counts { there_and_back, ways: each_way(sent, deadline, returns, there_and_back) }
}

/// A reflector that counts gives each of its answers the next number, be it to a copy: the numbers tell what came to it,
/// in which order, and which of its answers did not come back. One that does not count repeats the probe's number, and so
/// does, in effect, one that all probes reach in order: then it is only known what happened if nothing did.
fn each_way(
    sent: u32,
    deadline: Span,
    returns: &[Return],
    there_and_back: Deliveries,
) -> Option<(Deliveries, Deliveries)> {
    let is_flawless = there_and_back.lost + there_and_back.duplicates + there_and_back.reordered == 0;
    let counts = returns.iter().any(|back| back.answer != back.probe);
    // A session's count begins with zero (RFC 8762, 4.3), but not with every reflector.
    let lowest = returns.iter().min_by_key(|back| back.answer)?;
    let first = if lowest.probe == 0 { lowest.answer } else { 0 };
    let place = |back: &Return| back.answer - first;
    let answered = returns.iter().map(place).max()?.saturating_add(1);
    // More answers than replies can be kept of are made up.
    if !(counts || is_flawless) || answered > sent.saturating_mul(Return::MOST_COPIES) {
        return None;
    }
    let mut came: Vec<(u32, u32)> = returns.iter().map(|back| (place(back), back.probe)).collect();
    came.sort_unstable();
    came.dedup_by_key(|(answer, _)| *answer);
    let mut up = Deliveries::of(sent, came.iter().map(|&(_, probe)| (probe, false)));
    // Answers that did not come back were given to probes that had arrived. What was lost behind the last reply may have
    // been lost either way: it is counted as lost on the way up.
    let unseen = (answered - came.len() as u32).min(up.lost);
    up.arrived += unseen;
    up.lost -= unseen;
    let down = Deliveries::of(answered, returns.iter().map(|back| (place(back), back.took > deadline)));
    Some((up, down))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEADLINE: Span = Span::from_secs(1);

    /// Replies as (probe, answer), all in time.
    fn counted(sent: u32, replies: &[(u32, u32)]) -> Counts {
        let back = |&(probe, answer)| Return { probe, answer, took: Span::from_millis(1) };
        count(sent, DEADLINE, &replies.iter().map(back).collect::<Vec<_>>())
    }

    /// Lost, copied, reordered.
    fn flaws(counts: Deliveries) -> [u32; 3] {
        [counts.lost, counts.duplicates, counts.reordered]
    }

    #[test]
    fn a_reflectors_numbers_tell_the_ways_apart() {
        // Probe 1 is lost on its way up, the answer to probe 3 on its way down.
        let (up, down) = counted(5, &[(0, 0), (2, 1), (4, 3)]).ways.unwrap();
        assert_eq!((up.sent, flaws(up), up.arrived), (5, [1, 0, 0], 4));
        assert_eq!((down.sent, flaws(down), down.arrived), (4, [1, 0, 0], 3));
        // Probe 2 overtakes probe 1; the last two answers overtake each other.
        let counts = counted(5, &[(0, 0), (2, 1), (1, 2), (4, 4), (3, 3)]);
        assert_eq!(flaws(counts.there_and_back), [0, 0, 2]);
        let (up, down) = counts.ways.unwrap();
        assert_eq!((flaws(up), flaws(down)), ([0, 0, 1], [0, 0, 1]));
    }

    #[test]
    fn a_count_may_begin_with_any_number() {
        for first in [1, 5000] {
            let (up, down) = counted(4, &[(0, first), (1, first + 1), (3, first + 3)]).ways.unwrap();
            assert_eq!((flaws(up), down.sent, flaws(down)), ([0; 3], 4, [1, 0, 0]));
        }
    }

    #[test]
    fn copies_are_counted_where_they_were_made() {
        // Probe 1 is copied on its way up, and answered twice; the answer to probe 3 is copied on its way down.
        let counts = counted(4, &[(0, 0), (1, 1), (1, 2), (2, 3), (3, 4), (3, 4)]);
        assert_eq!(flaws(counts.there_and_back), [0, 2, 0]);
        let (up, down) = counts.ways.unwrap();
        assert_eq!((up.sent, flaws(up)), (4, [0, 1, 0]));
        assert_eq!((down.sent, flaws(down)), (5, [0, 1, 0]));
        // A copy of probe 1 whose answer is lost is no probe that arrived, where another is missing.
        let (up, down) = counted(3, &[(0, 0), (1, 1), (2, 3)]).ways.unwrap();
        assert_eq!((flaws(up), flaws(down)), ([0, 0, 0], [1, 0, 0]));
    }

    #[test]
    fn a_reflector_that_does_not_count_tells_only_that_nothing_happened() {
        assert_eq!(counted(2, &[(0, 0), (1, 1)]).ways.map(|(up, down)| [flaws(up), flaws(down)]), Some([[0; 3]; 2]));
        for replies in [&[(0, 0), (2, 2)][..], &[(1, 1), (0, 0), (2, 2)], &[(0, 0), (1, 1), (1, 1), (2, 2)]] {
            assert_eq!(counted(3, replies).ways, None, "{replies:?}");
        }
        assert_eq!(counted(2, &[(0, u32::MAX), (1, 7)]).ways, None, "made up");
        assert_eq!(counted(2, &[]).ways, None);
    }

    #[test]
    fn late_is_not_lost() {
        let back = |probe, took| Return { probe, answer: probe, took };
        let counts = count(2, DEADLINE, &[back(0, DEADLINE), back(1, DEADLINE + Span::from_nanos(1))]);
        assert_eq!((counts.there_and_back.late, counts.there_and_back.lost), (1, 0));
        assert_eq!(counts.ways.map(|(up, down)| (up.late, down.late)), Some((0, 1)));
    }
}
