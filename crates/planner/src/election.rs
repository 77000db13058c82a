//! Which of several coordinators leads, by a record in the store that all of them share.
//!
//! Who leads is a matter of liveness alone: that two coordinators never grant the same resource follows from the epoch, which
//! the store compares in each transaction ([`CoordinatorOutput::Persist`](crate::CoordinatorOutput::Persist)).

use kumade_units::{Span, Time};

/// How often the leader renews its record, and the others read it.
pub const RENEW_INTERVAL: Span = Span::from_secs(5);
/// A record that was not renewed for so long may be taken over. With the interval of reading and the time that a store takes,
/// another coordinator leads within 30 s.
pub const TAKE_OVER_AFTER: Span = Span::from_secs(15);

/// What the store knows of who leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaderRecord {
    /// Of the leader; zero if nobody has led.
    pub epoch: u64,
    /// How long ago it was renewed, by the *store's* clock within the transaction (`clock_timestamp()`, as `now()` is when the transaction began).
    pub age: Span,
}

/// What is to be done at the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ElectionStep {
    /// Read the record, and report [`Election::read`].
    Read,
    /// If the epoch there is this one, renew it; report [`Election::renewed`].
    Renew {
        /// The own epoch.
        epoch: u64,
    },
    /// If the epoch there is this one, and its record still older than [`TAKE_OVER_AFTER`], take over: store
    /// [`TokenRecord::next_epoch`](crate::TokenRecord::next_epoch) and renew, in one transaction. Report [`Election::taken`].
    Take {
        /// The epoch of the one before.
        epoch: u64,
    },
}

/// One coordinator's part in the election. Ask [`next_step`](Self::next_step) when [`next_deadline`](Self::next_deadline)
/// has passed; report what came of it. A step that fails since the store can't be reached is not reported: it is repeated.
#[derive(Debug)]
pub struct Election {
    /// The epoch in which this one leads.
    leads: Option<u64>,
    /// The last one in which it led, or leads.
    last_epoch: u64,
    /// What is to be taken over.
    stale: Option<u64>,
    next: Time,
}

impl Election {
    /// One that begins as a follower.
    pub fn new(now: Time) -> Self {
        Election { leads: None, last_epoch: 0, stale: None, next: now }
    }

    /// The epoch in which this one leads, as far as it knows.
    pub fn epoch(&self) -> Option<u64> {
        self.leads
    }

    /// When to ask for the next step.
    pub fn next_deadline(&self) -> Time {
        self.next
    }

    /// What is to be done now, if it is time.
    pub fn next_step(&mut self, now: Time) -> Option<ElectionStep> {
        if now < self.next {
            return None;
        }
        self.next = now + RENEW_INTERVAL;
        Some(match (self.leads, self.stale.take()) {
            (Some(epoch), _) => ElectionStep::Renew { epoch },
            (None, Some(epoch)) => ElectionStep::Take { epoch },
            (None, None) => ElectionStep::Read,
        })
    }

    /// What the store has.
    pub fn read(&mut self, record: &LeaderRecord, now: Time) {
        if self.leads.is_none() && (record.epoch == 0 || record.age >= TAKE_OVER_AFTER) {
            self.stale = Some(record.epoch);
            self.next = now;
        }
    }

    /// Whether the store took the renewal: if not, another one leads.
    pub fn renewed(&mut self, is_leader: bool) {
        if !is_leader {
            self.leads = None;
        }
    }

    /// Whether this one has taken over, and with which epoch. If this returns true, it begins to lead now, with a new
    /// [`Coordinator`](crate::Coordinator); an answer of the store that is old, or comes twice, begins nothing.
    pub fn taken(&mut self, epoch: Option<u64>) -> bool {
        let new = epoch.filter(|epoch| *epoch > self.last_epoch);
        if let Some(epoch) = new {
            self.leads = new;
            self.last_epoch = epoch;
        }
        new.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leader_that_falls_silent_is_replaced_within_30_seconds_and_notices_it() {
        let (mut now, mut epoch, mut renewed) = (Time::ZERO, 0, Time::ZERO);
        let mut ones = [Election::new(now), Election::new(now)];
        let mut taken_over = None;
        while now < Time::ZERO + Span::from_secs(200) {
            // The first one is stopped from 60 s to 120 s.
            let is_stopped = |one: usize| one == 0 && (60..120).contains(&(now.as_nanos() / 1_000_000_000));
            for one in (0..2).filter(|one| !is_stopped(*one)) {
                while let Some(step) = ones[one].next_step(now) {
                    match step {
                        ElectionStep::Read => ones[one].read(&LeaderRecord { epoch, age: now - renewed }, now),
                        ElectionStep::Renew { epoch: own } => {
                            ones[one].renewed(own == epoch);
                            renewed = if own == epoch { now } else { renewed };
                        }
                        ElectionStep::Take { epoch: before } => {
                            let may = before == epoch && (epoch == 0 || now - renewed >= TAKE_OVER_AFTER);
                            (epoch, renewed) = if may { (epoch + 1, now) } else { (epoch, renewed) };
                            ones[one].taken(may.then_some(epoch));
                            taken_over = taken_over.or((epoch == 2).then_some(now));
                        }
                    }
                }
            }
            now += Span::from_millis(500);
        }
        let taken_over = taken_over.expect("the second one leads");
        assert!(taken_over - (Time::ZERO + Span::from_secs(60)) <= Span::from_secs(30), "{taken_over:?}");
        assert_eq!((ones[0].epoch(), ones[1].epoch(), epoch), (None, Some(2), 2));
    }
}
