use kumade_units::{Span, Time};
use std::collections::{BTreeSet, VecDeque};

/// Which peers of a node have something to do, and when: what a turn costs does not depend on how many others there are.
#[derive(Debug)]
pub(crate) struct Agenda {
    deadlines: BTreeSet<(Time, usize)>,
    /// The place of each peer among them.
    scheduled: Vec<Option<Time>>,
    /// Peers to which something has happened since their last turn.
    touched: BTreeSet<usize>,
    /// When each peer has a turn for what has no deadline of its own, such as the end of its session; the next one first.
    checks: VecDeque<(Time, usize)>,
}

/// The longest time between two turns of a peer.
const CHECK_INTERVAL: Span = Span::from_millis(500);

impl Agenda {
    /// Of so many peers, each of which has a turn at once.
    pub(crate) fn new(peers: usize, now: Time) -> Self {
        // Not all in the same turn.
        let check = |place: usize| (now + CHECK_INTERVAL * (place + 1) as i64 / peers as i64, place);
        Agenda {
            deadlines: BTreeSet::new(),
            scheduled: vec![None; peers],
            touched: (0..peers).collect(),
            checks: (0..peers).map(check).collect(),
        }
    }

    /// Something has happened to a peer: it has a turn with the next [`Agenda::take_due`].
    pub(crate) fn touch(&mut self, place: usize) {
        self.touched.insert(place);
    }

    /// The peers whose turn it is, in their order. What is still to be done at some time is to be [scheduled](Agenda::schedule) anew.
    pub(crate) fn take_due(&mut self, now: Time) -> BTreeSet<usize> {
        let mut due = std::mem::take(&mut self.touched);
        while let Some(&(at, place)) = self.deadlines.first().filter(|(at, _)| *at <= now) {
            self.deadlines.remove(&(at, place));
            self.scheduled[place] = None;
            due.insert(place);
        }
        while let Some(&(_, place)) = self.checks.front().filter(|(at, _)| *at <= now) {
            self.checks.pop_front();
            self.checks.push_back((now + CHECK_INTERVAL, place));
            due.insert(place);
        }
        due
    }

    /// When a peer has its next turn at the latest.
    pub(crate) fn schedule(&mut self, place: usize, deadline: Option<Time>) {
        let before = std::mem::replace(&mut self.scheduled[place], deadline);
        if before != deadline {
            before.map(|at| self.deadlines.remove(&(at, place)));
            deadline.map(|at| self.deadlines.insert((at, place)));
        }
    }

    /// The peers to which something has happened since their last turn.
    pub(crate) fn touched(&self) -> &BTreeSet<usize> {
        &self.touched
    }

    /// The earliest deadline of the others.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.deadlines.first().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(agenda: &mut Agenda, millis: i64) -> Vec<usize> {
        agenda.take_due(Time::ZERO + Span::from_millis(millis)).into_iter().collect()
    }

    #[test]
    fn whose_turn_it_is_was_touched_or_has_a_deadline_and_each_has_one_in_half_a_second() {
        let mut agenda = Agenda::new(1000, Time::ZERO);
        assert_eq!(due(&mut agenda, 0).len(), 1000);
        agenda.schedule(7, Some(Time::ZERO + Span::from_micros(300)));
        agenda.schedule(900, Some(Time::ZERO + Span::from_micros(200)));
        agenda.schedule(900, None);
        agenda.touch(3);
        assert_eq!(agenda.next_deadline(), Some(Time::ZERO + Span::from_micros(300)));
        assert_eq!(agenda.take_due(Time::ZERO + Span::from_micros(400)).into_iter().collect::<Vec<_>>(), [3, 7]);
        assert_eq!(agenda.next_deadline(), None);
        let mut turns = [0; 1000];
        for millis in 1..=500 {
            let due = due(&mut agenda, millis);
            assert!(due.len() <= 3, "{} peers in one millisecond", due.len());
            due.into_iter().for_each(|place| turns[place] += 1);
        }
        assert_eq!(turns, [1; 1000]);
    }
}
