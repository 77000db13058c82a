//! When which pair is measured.

use kumade_units::{Span, Time};

/// Which pairs are measured, and when each is due.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    runs: Vec<ScheduledRun>,
}

#[derive(Debug)]
struct ScheduledRun {
    pair: usize,
    period: Span,
    due: Time,
}

impl Schedule {
    /// Of pairs with their periods; the first measurements begin apart from each other.
    pub(crate) fn new(periods: impl IntoIterator<Item = (usize, Span)>, now: Time) -> Self {
        let first = Span::from_secs(5);
        let run = |(place, (pair, period))| ScheduledRun { pair, period, due: now + first * (1 + place as i64) };
        Schedule { runs: periods.into_iter().enumerate().map(run).collect() }
    }

    /// The pair to measure now, which is not due again before its period.
    pub(crate) fn take_due(&mut self, now: Time) -> Option<usize> {
        let due = self.runs.iter_mut().filter(|run| run.due <= now).min_by_key(|run| run.due)?;
        due.due = due.due.max(now - due.period) + due.period;
        Some(due.pair)
    }
}
