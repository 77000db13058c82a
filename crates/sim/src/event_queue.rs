use kumade_units::Time;

/// When each of a fixed number of places is next to be looked at, and which is first: a tournament of two neighbours
/// at a time. A change costs no more than the matches that it can turn, and nothing is allocated.
#[derive(Debug)]
pub(crate) struct EventQueue {
    times: Vec<Time>,
    /// The winner of each match; the matches below `n` are `2n` and `2n + 1`, and those from `times.len()` on are the
    /// places themselves.
    winners: Vec<u32>,
    entry_count: u32,
}

impl EventQueue {
    pub(crate) fn new() -> Self {
        EventQueue { times: vec![Time::MAX], winners: vec![0, 0], entry_count: 0 }
    }

    /// A further place, at no time.
    pub(crate) fn add_entry(&mut self) -> u32 {
        let place = self.entry_count;
        self.entry_count += 1;
        if self.entry_count as usize > self.times.len() {
            self.times.resize(self.times.len() * 2, Time::MAX);
            self.rebuild();
        }
        place
    }

    /// Sets a place's time; `None` is never.
    pub(crate) fn set_time(&mut self, place: u32, time: Option<Time>) {
        let time = time.unwrap_or(Time::MAX);
        if std::mem::replace(&mut self.times[place as usize], time) == time {
            return;
        }
        let mut node = (self.times.len() + place as usize) / 2;
        while node > 0 {
            let winner = self.earlier_child(node);
            let before = std::mem::replace(&mut self.winners[node], winner);
            if before == winner && winner != place {
                return;
            }
            node /= 2;
        }
    }

    /// The earliest time and its place; of equal times the place added first.
    pub(crate) fn first(&self) -> Option<(Time, u32)> {
        let place = self.winners[1];
        let time = self.times[place as usize];
        (time < Time::MAX).then_some((time, place))
    }

    fn earlier_child(&self, node: usize) -> u32 {
        let (one, other) = (self.winners[2 * node], self.winners[2 * node + 1]);
        if self.times[one as usize] <= self.times[other as usize] { one } else { other }
    }

    fn rebuild(&mut self) {
        let count = self.times.len();
        self.winners = (0..count as u32).map(|_| 0).chain(0..count as u32).collect();
        for node in (1..count).rev() {
            self.winners[node] = self.earlier_child(node);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_first_is_the_earliest_whatever_was_set_before(
            changes in prop::collection::vec((0u32..23, prop::option::of(0i64..50)), 1..200)
        ) {
            let mut agenda = EventQueue::new();
            prop_assert_eq!(agenda.first(), None);
            let mut model = [None; 23];
            for place in 0..23 {
                prop_assert_eq!(agenda.add_entry(), place);
            }
            for (place, time) in changes {
                let time = time.map(Time::from_nanos);
                agenda.set_time(place, time);
                model[place as usize] = time;
                let earliest = (0u32..).zip(model).filter_map(|(place, time)| Some((time?, place))).min();
                prop_assert_eq!(agenda.first(), earliest);
            }
        }
    }
}
