use kumade_units::Span;

/// No clock is slewed faster than this, as a part: 500 ppm (adjtimex(2)).
const MAX_SLEW_RATIO: f64 = 500e-6;

/// What is known of one clock: it is ahead of the right time by at least `low` and at most `high`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockError {
    /// The least that it may be ahead; negative where it may be behind.
    pub low: Span,
    /// The most.
    pub high: Span,
}

impl ClockError {
    /// Right within `error` either way.
    pub fn within_error(error: Span) -> Self {
        ClockError { low: -error, high: error }
    }

    /// What is known of it still so long after, or was so long before: a clock is slewed by 500 ppm at most (adjtimex(2)).
    pub fn aged(self, age: Span) -> Self {
        let drift = Span::from_secs_f64((age.as_secs_f64() * MAX_SLEW_RATIO).abs());
        ClockError { low: self.low - drift, high: self.high + drift }
    }

    /// What two sources know together; none where they contradict each other.
    pub fn intersect(self, other: ClockError) -> Option<ClockError> {
        let both = ClockError { low: self.low.max(other.low), high: self.high.min(other.high) };
        (both.low <= both.high).then_some(both)
    }

    /// What several sources know together as long as fewer than half of them are wrong, which takes three or more; of one or
    /// two, all must be right. From the lowest to the highest error that enough of them hold possible (Marzullo and Owicki:
    /// Maintaining the Time in a Distributed System, 1983). None where too few agree on any.
    pub fn agreed_error(sources: &[ClockError]) -> Option<ClockError> {
        let needed = sources.len() - sources.len().saturating_sub(1) / 2;
        let is_possible = |at: &Span| sources.iter().filter(|s| (s.low..=s.high).contains(at)).count() >= needed;
        let low = sources.iter().map(|s| s.low).filter(is_possible).min()?;
        let high = sources.iter().map(|s| s.high).filter(is_possible).max()?;
        Some(ClockError { low, high })
    }

    /// All that any of several sources holds possible, and what is between; none without sources.
    pub fn union(sources: &[ClockError]) -> Option<ClockError> {
        let low = sources.iter().map(|s| s.low).min()?;
        let high = sources.iter().map(|s| s.high).max()?;
        Some(ClockError { low, high })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn between(low: i64, high: i64) -> ClockError {
        ClockError { low: Span::from_millis(low), high: Span::from_millis(high) }
    }

    #[test]
    fn one_of_three_may_lie() {
        let honest = [between(-5, 5), between(-2, 9)];
        let apart = [honest[0], honest[1], between(80, 81)];
        assert_eq!(ClockError::agreed_error(&apart), Some(between(-2, 5)));
        // A lie that overlaps one honest source must not exclude what the others know.
        let beside = [honest[0], honest[1], between(6, 7)];
        assert_eq!(ClockError::agreed_error(&beside), Some(between(-2, 7)));
    }

    #[test]
    fn two_must_agree_and_their_union_is_left_where_they_do_not() {
        assert_eq!(ClockError::agreed_error(&[between(-5, 5), between(3, 9)]), Some(between(3, 5)));
        let apart = [between(-5, 5), between(80, 81)];
        assert_eq!((ClockError::agreed_error(&apart), ClockError::union(&apart)), (None, Some(between(-5, 81))));
        assert_eq!((ClockError::agreed_error(&[]), ClockError::union(&[])), (None, None));
    }

    proptest! {
        #[test]
        fn whatever_less_than_half_say_the_truth_is_within(
            honest in prop::collection::vec((0i64..1000, 0i64..1000), 2..6),
            lies in prop::collection::vec((-5000i64..5000, 0i64..3000), 0..5),
        ) {
            let truth = Span::ZERO;
            let mut sources: Vec<_> = honest.iter().map(|&(below, above)| between(-below, above)).collect();
            let most = (sources.len() - 1).min(lies.len());
            sources.extend(lies[..most].iter().map(|&(low, width)| between(low, low + width)));
            let agreed = ClockError::agreed_error(&sources).expect("the honest ones agree on the truth");
            prop_assert!((agreed.low..=agreed.high).contains(&truth), "{agreed:?} of {sources:?}");
        }
    }
}
