use kumade_units::Span;

/// How long replies to the last test packets are waited for: what has not come by then counts as lost.
///
/// **Rule.** As the retransmission timeout of RFC 6298, with the longest round trip in place of the smoothed one, since the end of a
/// session is no time to learn that a queue has grown further: that, and four times the variation. The floor is twice the time after which a
/// reply is late.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReplyTimeout {
    late_after: Span,
    estimate: Option<RoundTripEstimate>,
}

#[derive(Debug, Clone, Copy)]
struct RoundTripEstimate {
    smoothed: Span,
    variation: Span,
    longest: Span,
}

/// A floor for replies that are as regular as those before.
const REPLY_LATENESS_FACTOR: i64 = 2;
/// Before any reply has come, nothing is known of the path: at the default of 1 s, 5 s.
const FIRST_REPLY_LATENESS_FACTOR: i64 = 5;
/// RFC 6298 §2: K, and the inverse of β and α.
const VARIATIONS: i64 = 4;
const VARIATION_SMOOTHING: i64 = 4;
const ROUND_TRIP_SMOOTHING: i64 = 8;
/// Whatever the replies say, a session ends.
const MAX_TIMEOUT: Span = Span::from_secs(30);

impl ReplyTimeout {
    pub(super) fn new(late_after: Span) -> Self {
        ReplyTimeout { late_after, estimate: None }
    }

    /// A first reply to a test packet has come. Those that come after a step of the system's clock may be negative.
    pub(super) fn record_round_trip(&mut self, round_trip: Span) {
        let round_trip = round_trip.max(Span::ZERO);
        let estimate = self.estimate.get_or_insert(RoundTripEstimate {
            smoothed: round_trip,
            variation: round_trip / 2,
            longest: round_trip,
        });
        let deviation = (round_trip - estimate.smoothed).max(estimate.smoothed - round_trip);
        estimate.variation = estimate.variation + (deviation - estimate.variation) / VARIATION_SMOOTHING;
        estimate.smoothed = estimate.smoothed + (round_trip - estimate.smoothed) / ROUND_TRIP_SMOOTHING;
        estimate.longest = estimate.longest.max(round_trip);
    }

    /// From the last test packet on, as far as is known now.
    pub(super) fn after_last_probe(&self) -> Span {
        let least = self.late_after * REPLY_LATENESS_FACTOR;
        let measured = match self.estimate {
            Some(estimate) => estimate.longest + estimate.variation * VARIATIONS,
            None => self.late_after * FIRST_REPLY_LATENESS_FACTOR,
        };
        // A user who waits for late replies for longer than the bound is to have that.
        measured.min(MAX_TIMEOUT).max(least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Span = Span::from_secs(1);

    fn after(round_trips_millis: impl IntoIterator<Item = i64>) -> Span {
        let mut timeout = ReplyTimeout::new(SECOND);
        round_trips_millis.into_iter().for_each(|millis| timeout.record_round_trip(Span::from_millis(millis)));
        timeout.after_last_probe()
    }

    #[test]
    fn a_short_path_is_waited_for_as_long_as_replies_may_be_late() {
        assert_eq!(after([20; 100]), SECOND * 2);
        // The first says little.
        assert_eq!(after([20]), SECOND * 2);
    }

    /// Of 200 packets in two seconds, half were lost at a round trip of three: the wait ended two seconds after the last.
    #[test]
    fn replies_of_a_long_path_are_waited_for() {
        assert_eq!(after([]), SECOND * 5, "the first reply may take longer than late ones");
        for count in [1, 10, 200] {
            assert!(after(vec![3000; count]) > Span::from_millis(3000), "{count}");
        }
        // A queue that grows by 10 ms with each packet.
        let grown = after((0..200).map(|number| 3000 + 10 * number));
        assert!(grown > Span::from_millis(5000), "{grown}");
    }

    #[test]
    fn the_wait_is_bounded() {
        assert_eq!(after([1_000_000; 3]), MAX_TIMEOUT);
        assert_eq!(after([-1_000_000; 3]), SECOND * 2);
        assert_eq!(ReplyTimeout::new(Span::from_secs(60)).after_last_probe(), Span::from_secs(120));
    }
}
