use crate::Sketch;
use crate::sample::{BucketedDelay, Lane, LostIn, Outcome, Sample};
use std::ops::{Index, IndexMut};

/// What became of the probes of some time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tally {
    /// Not answered, and lost in this lane.
    pub lost: u64,
    /// Neither has a delay nor is known to be lost in this lane: they were lost in one of two directions, or on the way back.
    pub unknown: u64,
    /// Answered late; their delays are among the others.
    pub late: u64,
    /// Answers besides the first.
    pub duplicated: u64,
    /// The delays of those that were answered.
    pub delays: Sketch,
}

/// The probes of one lane.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LaneSummary {
    /// Sent while no exclusive run used the path.
    pub idle: Tally,
    /// Sent while one did.
    pub disturbed: Tally,
}

/// The probes of a pair in some time, by lane. One without probes is empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Summary {
    lanes: [LaneSummary; 3],
}

impl Tally {
    /// Probes that were sent in this lane.
    pub fn sent(&self) -> u64 {
        self.delays.count().saturating_add(self.lost).saturating_add(self.unknown)
    }

    /// The part that was lost, from the least to the greatest that the unknown ones leave; none of no probes.
    pub fn loss_ratio(&self) -> Option<(f64, f64)> {
        let sent = self.sent() as f64;
        (sent > 0.0).then(|| (self.lost as f64 / sent, (self.lost + self.unknown) as f64 / sent))
    }

    /// Whether it counts nothing.
    pub fn is_empty(&self) -> bool {
        self.delays.is_empty() && self.counters().iter().all(|count| *count == 0)
    }

    /// Adds another.
    pub fn merge(&mut self, other: &Tally) {
        let others = other.counters();
        for (own, other) in self.counters_mut().into_iter().zip(others) {
            *own = own.saturating_add(other);
        }
        self.delays.merge(&other.delays);
    }

    /// In the order in which they are stored.
    pub(crate) fn counters(&self) -> [u64; 4] {
        [self.lost, self.unknown, self.late, self.duplicated]
    }

    pub(crate) fn counters_mut(&mut self) -> [&mut u64; 4] {
        [&mut self.lost, &mut self.unknown, &mut self.late, &mut self.duplicated]
    }
}

impl LaneSummary {
    /// All probes, disturbed or not.
    pub fn all(&self) -> Tally {
        let mut all = self.idle.clone();
        all.merge(&self.disturbed);
        all
    }

    /// Idle, then disturbed: as they are stored.
    pub(crate) fn tallies(&self) -> [&Tally; 2] {
        [&self.idle, &self.disturbed]
    }

    pub(crate) fn tallies_mut(&mut self) -> [&mut Tally; 2] {
        [&mut self.idle, &mut self.disturbed]
    }
}

impl Index<Lane> for Summary {
    type Output = LaneSummary;
    fn index(&self, lane: Lane) -> &LaneSummary {
        &self.lanes[lane as usize]
    }
}

impl IndexMut<Lane> for Summary {
    fn index_mut(&mut self, lane: Lane) -> &mut LaneSummary {
        &mut self.lanes[lane as usize]
    }
}

impl Summary {
    /// Counts a probe.
    pub fn add_sample(&mut self, sample: &Sample<BucketedDelay>) {
        match sample.outcome {
            Outcome::Answered { up, down } => {
                self.count(sample, Lane::Up, |tally| tally.delays.add(up, 1));
                self.count(sample, Lane::Down, |tally| tally.delays.add(down, 1));
            }
            Outcome::RoundTrip(delay) => self.count(sample, Lane::RoundTrip, |tally| tally.delays.add(delay, 1)),
            // What did not arrive was not answered either.
            Outcome::Lost(LostIn::Up) => self.count(sample, Lane::Up, |tally| tally.lost += 1),
            Outcome::Lost(LostIn::Down) => {
                self.count(sample, Lane::Up, |tally| tally.unknown += 1);
                self.count(sample, Lane::Down, |tally| tally.lost += 1);
            }
            Outcome::Lost(LostIn::EitherWay) => {
                self.count(sample, Lane::Up, |tally| tally.unknown += 1);
                self.count(sample, Lane::Down, |tally| tally.unknown += 1);
            }
            Outcome::Lost(LostIn::RoundTrip) => self.count(sample, Lane::RoundTrip, |tally| tally.lost += 1),
        }
    }

    /// Adds another.
    pub fn merge(&mut self, other: &Summary) {
        for lane in Lane::ALL {
            self[lane].idle.merge(&other[lane].idle);
            self[lane].disturbed.merge(&other[lane].disturbed);
        }
    }

    /// Whether it has no probes.
    pub fn is_empty(&self) -> bool {
        self.lanes.iter().flat_map(LaneSummary::tallies).all(Tally::is_empty)
    }

    fn count(&mut self, sample: &Sample<BucketedDelay>, lane: Lane, add: impl FnOnce(&mut Tally)) {
        let lane = &mut self[lane];
        let tally = if sample.disturbed { &mut lane.disturbed } else { &mut lane.idle };
        tally.late += u64::from(sample.late);
        tally.duplicated += u64::from(sample.duplicates);
        add(tally);
    }
}

impl<'a> FromIterator<&'a Summary> for Summary {
    fn from_iter<I: IntoIterator<Item = &'a Summary>>(summaries: I) -> Self {
        let mut sum = Summary::default();
        summaries.into_iter().for_each(|summary| sum.merge(summary));
        sum
    }
}
