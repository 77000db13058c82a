//! How long a run is given.

use crate::plan::{MAX_SLOT, RunKind};
use kumade_units::Span;

/// Number of past durations that are kept: the 95th percentile of 20 is the second greatest, so that one odd run
/// lengthens no slot.
const MAX_KEPT_DURATIONS: usize = 20;
/// With fewer known durations than this, a run is given no less than the prior.
const MIN_KNOWN_DURATIONS: usize = 5;
/// What a full measurement takes before it is known: 8 s are typical, slow and long paths take up to twice that.
const PRIOR_FULL: Span = Span::from_secs(16);
/// The same with transfers that fill the path, 10 s in each direction.
const PRIOR_LOAD: Span = Span::from_secs(45);
/// What is recorded of a run that was cut off is no longer: a server gives a measurement three minutes (a turn), so that one which has not ended
/// in this, and its guard, does not end by itself, and a longer slot would only hold its hosts.
const MAX_RECORDED_CUT_OFF: Span = Span::from_secs(240);
/// Minimum of the guard: connections are opened, and a stalled train is sent again.
const MIN_GUARD: Span = Span::from_secs(2);
/// The guard as a part of the 95th percentile.
const GUARD_DIVISOR: i64 = 4;

/// What the runs of one pair took lately.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DurationHistory {
    /// The last ones, in milliseconds; the oldest at `next` once all places are taken.
    milliseconds: Vec<u32>,
    next: u8,
}

impl DurationHistory {
    /// A run took so long.
    pub fn record(&mut self, duration: Span) {
        let millis = (duration.as_nanos().max(0) / 1_000_000).min(i64::from(u32::MAX)) as u32;
        if self.milliseconds.len() < MAX_KEPT_DURATIONS {
            self.milliseconds.push(millis);
            return;
        }
        self.milliseconds[usize::from(self.next)] = millis;
        self.next = (self.next + 1) % MAX_KEPT_DURATIONS as u8;
    }

    /// A run was ended at the end of its slot. Half as much again is recorded, so that the next slot is longer: up to five minutes.
    pub fn record_cut_off(&mut self, slot: Span) {
        self.record((slot + slot / 2).min(MAX_RECORDED_CUT_OFF));
    }

    /// The 95th percentile of what is kept, by nearest rank.
    pub fn percentile_95(&self) -> Option<Span> {
        let mut sorted = self.milliseconds.clone();
        sorted.sort_unstable();
        let rank = (sorted.len() * 95).div_ceil(100);
        let millis = *sorted.get(rank.checked_sub(1)?)?;
        Some(Span::from_millis(i64::from(millis)))
    }

    /// What the next run is given: the 95th percentile, or a prior where too little is known, and a guard. At most
    /// [`MAX_SLOT`].
    pub fn slot(&self, kind: RunKind) -> Span {
        let prior = match kind {
            RunKind::Full => PRIOR_FULL,
            RunKind::Load => PRIOR_LOAD,
        };
        let expected = match self.percentile_95() {
            Some(known) if self.milliseconds.len() >= MIN_KNOWN_DURATIONS => known,
            Some(known) => known.max(prior),
            None => prior,
        };
        (expected + MIN_GUARD.max(expected / GUARD_DIVISOR)).min(MAX_SLOT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_the_95th_percentile_and_a_guard() {
        let mut history = DurationHistory::default();
        assert_eq!(history.slot(RunKind::Full), PRIOR_FULL + PRIOR_FULL / 4);
        for seconds in 1..=40 {
            history.record(Span::from_secs(seconds));
        }
        // 21 … 40 are kept.
        assert_eq!(history.percentile_95(), Some(Span::from_secs(39)));
        assert_eq!(history.slot(RunKind::Load), Span::from_secs(39) + Span::from_millis(9750));
        history.record(Span::from_secs(86_400));
        assert_eq!(history.percentile_95(), Some(Span::from_secs(40)));
    }

    #[test]
    fn few_short_runs_do_not_shorten_the_prior_and_a_cut_run_lengthens_the_slot() {
        let mut history = DurationHistory::default();
        history.record(Span::from_secs(1));
        assert_eq!(history.slot(RunKind::Full), DurationHistory::default().slot(RunKind::Full));
        let slot = history.slot(RunKind::Full);
        history.record_cut_off(slot);
        assert!(history.slot(RunKind::Full) > slot);
        for _ in 0..100 {
            history.record_cut_off(history.slot(RunKind::Full));
        }
        assert_eq!(history.slot(RunKind::Full), Span::from_secs(300), "what never ends holds its hosts for no longer");
        history.record(MAX_SLOT);
        history.record(MAX_SLOT);
        assert_eq!(history.slot(RunKind::Full), MAX_SLOT);
    }
}
