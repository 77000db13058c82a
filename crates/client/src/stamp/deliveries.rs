//! Loss, duplication and reordering of the test packets: for the round trip, and for each direction if the reflector
//! numbers its replies by itself (a stateful reflector, RFC 8762, 4.3).

use super::exchange::ReturnedReply;
use kumade_estimate::delay::Deliveries;
use kumade_units::Span;

/// Packet counts of one measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DeliveryCounts {
    pub(super) round_trip: Deliveries,
    /// Up and down; none if the replies' sequence numbers don't distinguish them.
    pub(super) directions: Option<(Deliveries, Deliveries)>,
}

/// Counts of `sent` test packets, from the replies in order of arrival; a reply after `late_after` counts as late.
pub(super) fn count_deliveries(sent: u32, late_after: Span, returns: &[ReturnedReply]) -> DeliveryCounts {
    let round_trip =
        Deliveries::from_arrivals(sent, returns.iter().map(|back| (back.probe_sequence, back.round_trip > late_after)));
    DeliveryCounts { round_trip, directions: count_each_direction(sent, late_after, returns, round_trip) }
}

/// A stateful reflector gives every reply the next sequence number, also a reply to a duplicate: the numbers show which
/// test packets arrived there, in which order, and which replies were lost. A stateless reflector repeats the sender's
/// number, which looks the same as a stateful one that received everything in order: then the counts are known only if
/// nothing was lost, duplicated or reordered.
fn count_each_direction(
    sent: u32,
    late_after: Span,
    returns: &[ReturnedReply],
    round_trip: Deliveries,
) -> Option<(Deliveries, Deliveries)> {
    let is_flawless = round_trip.lost + round_trip.duplicates + round_trip.reordered == 0;
    let counts = returns.iter().any(|back| back.reply_sequence != back.probe_sequence);
    // Sequence numbers begin with zero (RFC 8762, 4.3), but not with every reflector.
    let lowest = returns.iter().min_by_key(|back| back.reply_sequence)?;
    let first = if lowest.probe_sequence == 0 { lowest.reply_sequence } else { 0 };
    let place = |back: &ReturnedReply| back.reply_sequence - first;
    let answered = returns.iter().map(place).max()?.saturating_add(1);
    // Sequence numbers beyond the number of replies that are kept are invalid.
    if !(counts || is_flawless) || answered > sent.saturating_mul(ReturnedReply::MAX_KEPT_PER_PROBE) {
        return None;
    }
    let mut arrived: Vec<(u32, u32)> = returns.iter().map(|back| (place(back), back.probe_sequence)).collect();
    arrived.sort_unstable();
    arrived.dedup_by_key(|(answer, _)| *answer);
    let mut up = Deliveries::from_arrivals(sent, arrived.iter().map(|&(_, probe)| (probe, false)));
    // Replies that were lost answered test packets that had arrived. Packets lost after the last reply may have been lost
    // in either direction: they are counted as lost in direction up.
    let unseen = (answered - arrived.len() as u32).min(up.lost);
    up.arrived += unseen;
    up.lost -= unseen;
    let down =
        Deliveries::from_arrivals(answered, returns.iter().map(|back| (place(back), back.round_trip > late_after)));
    Some((up, down))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATE_AFTER: Span = Span::from_secs(1);

    /// Replies as (probe, reply) sequence numbers, all in time.
    fn counted(sent: u32, replies: &[(u32, u32)]) -> DeliveryCounts {
        let back = |&(probe, answer)| ReturnedReply {
            probe_sequence: probe,
            reply_sequence: answer,
            round_trip: Span::from_millis(1),
        };
        count_deliveries(sent, LATE_AFTER, &replies.iter().map(back).collect::<Vec<_>>())
    }

    /// Lost, duplicated, reordered.
    fn flaws(counts: Deliveries) -> [u32; 3] {
        [counts.lost, counts.duplicates, counts.reordered]
    }

    #[test]
    fn a_stateful_reflectors_numbers_distinguish_the_directions() {
        // Probe 1 is lost in direction up, the reply to probe 3 in direction down.
        let (up, down) = counted(5, &[(0, 0), (2, 1), (4, 3)]).directions.unwrap();
        assert_eq!((up.sent, flaws(up), up.arrived), (5, [1, 0, 0], 4));
        assert_eq!((down.sent, flaws(down), down.arrived), (4, [1, 0, 0], 3));
        // Probe 2 overtakes probe 1; the last two answers overtake each other.
        let counts = counted(5, &[(0, 0), (2, 1), (1, 2), (4, 4), (3, 3)]);
        assert_eq!(flaws(counts.round_trip), [0, 0, 2]);
        let (up, down) = counts.directions.unwrap();
        assert_eq!((flaws(up), flaws(down)), ([0, 0, 1], [0, 0, 1]));
    }

    #[test]
    fn a_count_may_begin_with_any_number() {
        for first in [1, 5000] {
            let (up, down) = counted(4, &[(0, first), (1, first + 1), (3, first + 3)]).directions.unwrap();
            assert_eq!((flaws(up), down.sent, flaws(down)), ([0; 3], 4, [1, 0, 0]));
        }
    }

    #[test]
    fn duplicates_are_counted_in_their_direction() {
        // Probe 1 is duplicated in direction up and answered twice; the reply to probe 3 is duplicated in direction down.
        let counts = counted(4, &[(0, 0), (1, 1), (1, 2), (2, 3), (3, 4), (3, 4)]);
        assert_eq!(flaws(counts.round_trip), [0, 2, 0]);
        let (up, down) = counts.directions.unwrap();
        assert_eq!((up.sent, flaws(up)), (4, [0, 1, 0]));
        assert_eq!((down.sent, flaws(down)), (5, [0, 1, 0]));
        // A duplicate of probe 1 whose reply is lost does not count as the arrival of another, missing probe.
        let (up, down) = counted(3, &[(0, 0), (1, 1), (2, 3)]).directions.unwrap();
        assert_eq!((flaws(up), flaws(down)), ([0, 0, 0], [1, 0, 0]));
    }

    #[test]
    fn a_stateless_reflector_distinguishes_directions_only_if_nothing_happened() {
        assert_eq!(
            counted(2, &[(0, 0), (1, 1)]).directions.map(|(up, down)| [flaws(up), flaws(down)]),
            Some([[0; 3]; 2])
        );
        for replies in [&[(0, 0), (2, 2)][..], &[(1, 1), (0, 0), (2, 2)], &[(0, 0), (1, 1), (1, 1), (2, 2)]] {
            assert_eq!(counted(3, replies).directions, None, "{replies:?}");
        }
        assert_eq!(counted(2, &[(0, u32::MAX), (1, 7)]).directions, None, "made up");
        assert_eq!(counted(2, &[]).directions, None);
    }

    #[test]
    fn late_is_not_lost() {
        let back = |probe, took| ReturnedReply { probe_sequence: probe, reply_sequence: probe, round_trip: took };
        let counts = count_deliveries(2, LATE_AFTER, &[back(0, LATE_AFTER), back(1, LATE_AFTER + Span::from_nanos(1))]);
        assert_eq!((counts.round_trip.late, counts.round_trip.lost), (1, 0));
        assert_eq!(counts.directions.map(|(up, down)| (up.late, down.late)), Some((0, 1)));
    }
}
