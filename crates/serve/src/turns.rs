//! The queue of measurements, which run one after the other so that they don't disturb each other.

use std::collections::VecDeque;

/// The queue of clients; it is the first one's turn.
#[derive(Debug, Default)]
pub(super) struct Turns(VecDeque<u64>);

impl Turns {
    /// Queues client `id` unless it is queued already.
    pub(super) fn enter(&mut self, id: u64) {
        if !self.0.contains(&id) {
            self.0.push_back(id);
        }
    }

    /// Gives up the turn or the place in the queue; true if another client moved up.
    pub(super) fn leave(&mut self, id: u64) -> bool {
        let Some(place) = self.place(id) else { return false };
        self.0.remove(place);
        self.0.len() > place
    }

    /// Number of clients ahead of `id`; zero means that it is its turn.
    pub(super) fn place(&self, id: u64) -> Option<usize> {
        self.0.iter().position(|&queued| queued == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_go_in_the_order_of_asking_and_leaving_frees_a_place() {
        let mut turns = Turns::default();
        for id in [7, 3, 5, 3] {
            turns.enter(id);
        }
        assert_eq!([7, 3, 5].map(|id| turns.place(id)), [Some(0), Some(1), Some(2)]);
        assert!(turns.leave(3), "the one behind moves up");
        assert!(!turns.leave(3), "it has left already");
        assert_eq!([7, 3, 5].map(|id| turns.place(id)), [Some(0), None, Some(1)]);
        assert!(!turns.leave(5), "nobody was behind");
        assert!(!turns.leave(7));
        turns.enter(7);
        assert_eq!(turns.place(7), Some(0));
    }
}
