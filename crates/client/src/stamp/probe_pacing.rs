use kumade_units::{Span, Time};

/// When test packets leave: at a constant interval, until queues on the path mark ECN-capable ones (CE).
///
/// **Rule.** Whoever sends ECN-capable packets must slow down where they are marked, in either direction
/// (draft-ietf-ippm-stamp-cos-ecn, 3.4): the interval doubles, once in a round trip at most, up to eight times. That leaves a dozen
/// packets a second at the default, and a session that ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProbePacing {
    interval: Span,
    max_interval: Span,
    /// Until then, marks are of packets that were sent at the interval before.
    settled: Time,
}

const MAX_INTERVAL_FACTOR: i64 = 8;

impl ProbePacing {
    pub(super) fn new(interval: Span) -> Self {
        let max_interval = Span::from_nanos(interval.as_nanos().saturating_mul(MAX_INTERVAL_FACTOR));
        ProbePacing { interval, max_interval, settled: Time::ZERO }
    }

    /// From one test packet to the next.
    pub(super) fn interval(&self) -> Span {
        self.interval
    }

    /// A test packet or its answer was marked, which took this round trip.
    pub(super) fn record_mark(&mut self, now: Time, round_trip: Span) {
        if now < self.settled {
            return;
        }
        self.settled = now + round_trip.max(self.interval);
        self.interval = Span::from_nanos(self.interval.as_nanos().saturating_mul(2)).min(self.max_interval);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_slow_it_down_once_in_a_round_trip_and_not_for_ever() {
        let at_millis = |millis: i64| Time::from_nanos(millis * 1_000_000);
        let mut pacing = ProbePacing::new(Span::from_millis(10));
        let mut mark = |millis| {
            pacing.record_mark(at_millis(millis), Span::from_millis(50));
            pacing.interval().as_nanos() / 1_000_000
        };
        assert_eq!([1000, 1010, 1049].map(&mut mark), [20, 20, 20]);
        assert_eq!([1050, 1099, 1100, 1200].map(&mut mark), [40, 40, 80, 80]);
        assert_eq!(mark(9_000), 80);
    }
}
