use crate::interval::Verdict;
use crate::pair::Reach;
use kumade_units::{Span, Time};
use std::collections::VecDeque;

/// What speaks for a condition at one pair.
#[derive(Debug, Clone, Default)]
pub(crate) struct Evidence {
    pub(crate) suspicion: Option<Suspicion>,
    /// The time of the latest good observation.
    pub(crate) last_good: Option<Time>,
    /// Good observations since the last bad one.
    pub(crate) goods: u32,
    /// Since when there is enough of it.
    pub(crate) ripe_since: Option<Time>,
    /// What the last bad observation said.
    pub(crate) detail: String,
    /// The latest observations, and whether they were bad.
    observations: VecDeque<(Time, bool)>,
    /// Lost probes that no longer count, of the streak that began at this time.
    discounted: Option<(Time, u32, Time)>,
}

/// Bad observations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Suspicion {
    pub(crate) bad: u32,
    pub(crate) first: Time,
    pub(crate) last: Time,
    /// The last good observation before them.
    pub(crate) good_before: Option<Time>,
}

impl Suspicion {
    /// When it began: after the last good observation, and with the first bad one at the latest.
    pub(crate) fn onset(&self, slack: Span) -> (Time, Time) {
        (self.good_before.unwrap_or(self.first - slack), self.first + slack)
    }
}

impl Evidence {
    /// Takes an observation; as many as `out_of` are remembered. One that is unsure ends a row of good ones.
    pub(crate) fn observe(&mut self, time: Time, verdict: Verdict, out_of: u32) {
        self.goods = if verdict == Verdict::Good { self.goods.saturating_add(1) } else { 0 };
        if verdict == Verdict::Good {
            self.last_good = Some(time);
        }
        self.observations.push_back((time, verdict == Verdict::Bad));
        self.observations.drain(..self.observations.len().saturating_sub(out_of.max(1) as usize));
        let bad = self.observations.iter().filter(|(_, is_bad)| *is_bad);
        let (first, last) = (bad.clone().next(), bad.clone().next_back());
        let before = self.suspicion.and_then(|suspicion| suspicion.good_before);
        self.suspicion = first.zip(last).map(|((first, _), (last, _))| Suspicion {
            bad: bad.count() as u32,
            first: *first,
            last: *last,
            good_before: self.last_good.filter(|good| good < first).or(before),
        });
    }

    /// Takes what is known of the probes.
    pub(crate) fn set_reach(&mut self, reach: &Reach) {
        self.last_good = reach.answered.or(self.last_good);
        self.suspicion = reach.lost.filter(|_| reach.lost_in_a_row > 0).and_then(|(first, last)| {
            let known = Suspicion { bad: reach.lost_in_a_row, first, last, good_before: reach.answered };
            match self.discounted.filter(|(streak, ..)| *streak == first) {
                Some((_, count, since)) => {
                    let bad = known.bad.saturating_sub(count);
                    (bad > 0 && last > since).then_some(Suspicion { bad, first: since, ..known })
                }
                None => Some(known),
            }
        });
        self.discounted = self.discounted.filter(|_| reach.lost_in_a_row > 0);
    }

    /// What was observed so far no longer counts.
    pub(crate) fn discount(&mut self, now: Time) {
        if let Some(suspicion) = self.suspicion.take() {
            let (first, before) = self.discounted.map_or((suspicion.first, 0), |(first, count, _)| (first, count));
            self.discounted = Some((first, before + suspicion.bad, now));
        }
        self.observations.clear();
        (self.goods, self.ripe_since) = (0, None);
    }
}
