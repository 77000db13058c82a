//! How many packets PIE would have marked that waited as others did.
//!
//! RFC 8033: "Proportional Integral Controller Enhanced (PIE): A Lightweight Control Scheme to Address the Bufferbloat Problem", section 4.

use kumade_units::{Span, Time};

/// `QDELAY_REF`, in seconds.
const TARGET: f64 = 0.015;
/// `T_UPDATE`.
const UPDATE_INTERVAL: Span = Span::from_millis(15);
/// `MAX_BURST`: so long, nothing is marked.
const BURST_ALLOWANCE: Span = Span::from_millis(150);
/// Per second.
const ALPHA: f64 = 0.125;
const BETA: f64 = 1.25;
/// Probabilities below the first of these change by this part of what they would else (4.2).
const SCALES: [(f64, f64); 6] = [
    (0.000_001, 1.0 / 2048.0),
    (0.000_01, 1.0 / 512.0),
    (0.000_1, 1.0 / 128.0),
    (0.001, 1.0 / 32.0),
    (0.01, 1.0 / 8.0),
    (0.1, 1.0 / 2.0),
];
/// `mark_ecnth`: above, packets are dropped (5.1), so that no more marks are expected.
const MAX_MARKING_PROBABILITY: f64 = 0.1;

/// Expected marks of packets, each with when it was sent and how long it waited, in the order of sending, of a queue that was empty before.
pub(super) fn expected_marks(packets: impl Iterator<Item = (Time, Span)>) -> f64 {
    let (mut probability, mut marks, mut last_delay) = (0.0f64, 0.0, 0.0);
    let mut packets = packets.peekable();
    let Some((began, _)) = packets.peek().copied() else { return marks };
    let mut next_update = began + UPDATE_INTERVAL;
    for (sent, waited) in packets {
        let delay = waited.as_secs_f64();
        while sent >= next_update {
            next_update += UPDATE_INTERVAL;
            let change = ALPHA * (delay - TARGET) + BETA * (delay - last_delay);
            let scale = SCALES.iter().find(|(below, _)| probability < *below).map_or(1.0, |(_, scale)| *scale);
            probability = (probability + change * scale).clamp(0.0, 1.0);
            last_delay = delay;
        }
        let is_marked = sent - began >= BURST_ALLOWANCE && delay >= TARGET / 2.0;
        if is_marked && probability <= MAX_MARKING_PROBABILITY {
            marks += probability;
        }
    }
    marks
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of so many packets a second, for so many milliseconds, of which each waits so long.
    fn marks(per_second: i64, duration: i64, waited: i64) -> f64 {
        let interval = Span::from_secs(1) / per_second;
        let packets = (0..duration * per_second / 1000).map(|place| Time::ZERO + interval * place);
        expected_marks(packets.map(|sent| (sent, Span::from_millis(waited))))
    }

    #[test]
    fn what_waits_for_the_target_is_not_marked_and_what_waits_longer_the_more_the_longer_it_lasts() {
        assert_eq!((marks(4000, 149, 100), marks(4000, 1000, 7)), (0.0, 0.0));
        assert!(marks(4000, 1000, 15) < 0.5);
        let found = [300, 500, 1000].map(|duration| marks(4000, duration, 45));
        assert!(found.is_sorted() && found[0] < 5.0 && found[2] > 30.0, "{found:?}");
        assert!(marks(600, 500, 45) < 5.0, "a slow link, of which a second is needed");
        assert!(marks(600, 1000, 45) > 5.0);
    }
}
