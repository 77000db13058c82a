//! Whether pairs fail together.

use crate::evidence::Suspicion;
use kumade_units::{Span, Time};
use std::collections::BTreeMap;

/// A pair that may have failed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Suspect {
    pub(crate) suspicion: Suspicion,
    /// Since when there is enough evidence for an alert; none where there is not.
    pub(crate) ripe_since: Option<Time>,
    /// How exactly its times are known: about the time between two observations.
    pub(crate) slack: Span,
    /// How long its bad observations have to span.
    pub(crate) min_duration: Span,
    /// How long an alert may wait for others of the same cause.
    pub(crate) grace: Span,
    /// It has an alert of its own already.
    pub(crate) is_standing: bool,
}

/// What is asked of evidence.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Needed {
    /// Bad observations of a pair.
    pub(crate) times: u32,
    /// Those of several pairs count together: each is one of its own.
    pub(crate) is_pooled: bool,
}

/// What pairs that share a risk come to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// These fail together.
    Together {
        /// Which.
        members: Vec<usize>,
        /// Of how many that could.
        count: usize,
        /// When they began to.
        onset: (Time, Time),
    },
    /// These may: an alert on one of them is to wait.
    Undecided(Vec<usize>),
}

/// Pairs beyond one whose bad observations would be a coincidence.
const MIN_PARTIAL_GROUP: usize = 3;

impl Suspect {
    pub(crate) fn onset(&self) -> (Time, Time) {
        self.suspicion.onset(self.slack)
    }

    pub(crate) fn began_with(&self, (from, to): (Time, Time)) -> bool {
        let own = self.onset();
        own.0 <= to && own.1 >= from
    }

    fn has_waited(&self, now: Time) -> bool {
        self.ripe_since.is_some_and(|since| now - since >= self.grace)
    }
}

/// Judges pairs that share a risk. `pairs` are those that have no alert of another cause, `last_good` says when a pair was last known
/// to be good.
///
/// All of them fail together if nothing was good for long enough, and at least half of them are known to have failed since. If some
/// are good, at least half of them, and three, have to have failed at the same time: two that fail by themselves are two causes.
pub(crate) fn assess_risk(
    suspects: &BTreeMap<usize, Suspect>,
    pairs: &[usize],
    needed: Needed,
    last_good: impl Fn(usize) -> Option<Time>,
    now: Time,
) -> Option<Finding> {
    let here: Vec<(usize, &Suspect)> = pairs.iter().filter_map(|pair| Some((*pair, suspects.get(pair)?))).collect();
    let began_together = |onset: (Time, Time)| Members {
        members: here.iter().copied().filter(|(_, suspect)| suspect.began_with(onset)).collect(),
        // Pairs that have failed by themselves before say nothing.
        count: pairs.len() - here.iter().filter(|(_, one)| one.is_standing && !one.began_with(onset)).count(),
        onset,
    };
    // Since then nothing was good.
    let good = pairs.iter().filter_map(|pair| last_good(*pair)).max();
    let whole = good.map(|since| began_together((since, since)));
    if let Some(whole) = whole.filter(Members::are_most) {
        let is_enough = whole.is_enough(needed, now);
        return Some(if is_enough { whole.together() } else { whole.undecided() });
    }
    let mut by_onset = here.clone();
    by_onset.sort_by_key(|(_, suspect)| suspect.suspicion.first);
    let (_, middle) = by_onset.get(by_onset.len() / 2)?;
    let partial = began_together(middle.onset());
    let ripe = partial.ripe_members();
    if !partial.are_most() || partial.members.len() < MIN_PARTIAL_GROUP {
        return None;
    }
    let is_enough = partial.have_waited(now) && ripe >= MIN_PARTIAL_GROUP && 2 * ripe >= partial.count;
    Some(if is_enough { partial.together() } else { partial.undecided() })
}

/// Pairs that began to fail at the same time.
struct Members<'a> {
    members: Vec<(usize, &'a Suspect)>,
    /// Of how many that could.
    count: usize,
    onset: (Time, Time),
}

impl Members<'_> {
    /// At least half, not only one, and not only those that have alerts already.
    fn are_most(&self) -> bool {
        let are_new = self.members.iter().any(|(_, suspect)| !suspect.is_standing);
        are_new && self.members.len() >= 2 && 2 * self.members.len() >= self.count
    }

    fn ripe_members(&self) -> usize {
        self.members.iter().filter(|(_, suspect)| suspect.ripe_since.is_some()).count()
    }

    fn have_waited(&self, now: Time) -> bool {
        self.members.iter().any(|(_, suspect)| suspect.has_waited(now))
    }

    /// Whether there is enough evidence for an alert on all of them.
    fn is_enough(&self, needed: Needed, now: Time) -> bool {
        if !needed.is_pooled {
            let ripe = self.ripe_members();
            return ripe == self.members.len() || self.have_waited(now) && ripe >= 2;
        }
        let (mut total, mut most, mut last) = (0, 0, self.onset.0);
        for (_, Suspect { suspicion, .. }) in &self.members {
            (total, most, last) = (total + suspicion.bad, most.max(suspicion.bad), last.max(suspicion.last));
        }
        let min_duration = self.members.iter().map(|(_, suspect)| suspect.min_duration).min().unwrap_or_default();
        // Beside one that has failed, a single loss of another is a coincidence.
        total >= needed.times && total - most >= needed.times / 2 && last - self.onset.0 >= min_duration
    }

    fn numbers(&self) -> Vec<usize> {
        self.members.iter().map(|(pair, _)| *pair).collect()
    }

    fn together(&self) -> Finding {
        Finding::Together { members: self.numbers(), count: self.count, onset: self.onset }
    }

    fn undecided(&self) -> Finding {
        Finding::Undecided(self.numbers())
    }
}
