//! How many of a tunnel's connections carry bulk traffic.

use crate::path_id::PathId;
use kumade_units::{Rate, Span};

/// What is seen of the connections that carry bulk traffic now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConnectionsView {
    /// What they deliver together.
    pub rate: Rate,
    /// The least round trip of the path.
    pub least: Span,
    /// How long the path's own queue is: what all of them see. Where one waits for what was lost, another one shows it.
    pub queue: Span,
    /// One of them could have taken no more of late.
    pub are_limited: bool,
    /// So many there are.
    pub available: usize,
}

/// The number of connections that carry bulk traffic.
///
/// **Rule.** Connections that share a slow path have windows of a few packets each: too few to find a loss by what arrives
/// after it, and together more than the path's queue holds. So where the path is full, as its queue shows, and each has less than
/// [`MIN_WINDOW`] of what the path and its queue are to hold, fewer are used, until each has that or up to [`WINDOW`]. Where it is not full although they take no more, losses hold
/// them back, whatever their number: then two more are used each time. All are used until a full path is seen.
///
/// **Loop contract.** Tell it what is seen a few times a second ([`ConnectionCount::update`]).
#[derive(Debug)]
pub(crate) struct ConnectionCount {
    count: usize,
}

/// Of what connections deliver, so much is to be on its way besides a round trip's worth: as [`path_carrier`] has it.
///
/// [`path_carrier`]: crate::path_carrier
const QUEUE: Span = Span::from_millis(5);
/// A path with a longer queue is full.
const MIN_QUEUE: Span = Span::from_millis(2);
/// Five full packets: with fewer, the loss of one is often found by a timeout only.
const MIN_WINDOW: u64 = 7_500;
const WINDOW: u64 = 12_000;
const MIN_COUNT: usize = 2;
const MORE: usize = 2;

impl ConnectionCount {
    /// All that there are: nothing is known yet.
    pub fn new() -> Self {
        ConnectionCount { count: PathId::MAX_PATHS }
    }

    /// How many carry bulk traffic, if there are as many.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Takes what is seen now.
    pub fn update(&mut self, view: &ConnectionsView) {
        // With little to carry, this end says nothing of the path; the queue may be of the other direction.
        if !view.are_limited {
            return;
        }
        let count = self.count.min(view.available);
        if view.queue < MIN_QUEUE {
            self.count = (count + MORE).min(view.available.max(MIN_COUNT));
            return;
        }
        let held = view.rate.bytes_in(view.least + QUEUE);
        if held < MIN_WINDOW * count as u64 {
            let enough = usize::try_from(held / WINDOW).unwrap_or(usize::MAX).max(MIN_COUNT);
            // Half of what is too many at once: what is seen of the rate is of the past.
            self.count = count - count.saturating_sub(enough).div_ceil(2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: ConnectionsView = ConnectionsView {
        rate: Rate::from_mbit(20),
        least: Span::from_millis(20),
        queue: Span::ZERO,
        are_limited: false,
        available: 14,
    };

    fn after(count: &mut ConnectionCount, view: ConnectionsView, times: usize) -> usize {
        (0..times).for_each(|_| count.update(&view));
        count.count()
    }

    #[test]
    fn a_slow_path_has_few_and_a_lossy_one_all() {
        let mut count = ConnectionCount::new();
        let (waiting, full) = (
            ConnectionsView { are_limited: true, ..IDLE },
            ConnectionsView { are_limited: true, queue: Span::from_millis(4), ..IDLE },
        );
        assert_eq!(after(&mut count, IDLE, 5), PathId::MAX_PATHS, "nothing is known");
        let other_direction = ConnectionsView { are_limited: false, rate: Rate::from_mbit(1), ..full };
        assert_eq!(after(&mut count, other_direction, 5), PathId::MAX_PATHS);
        assert_eq!(after(&mut count, waiting, 5), 14);
        // 62 kB are eight windows of 7.5 kB; half of what exceeds five of 12 kB goes at once.
        assert_eq!(after(&mut count, full, 1), 9);
        assert_eq!(after(&mut count, full, 5), 7);
        assert_eq!(after(&mut count, waiting, 1), 9);
        assert_eq!(after(&mut count, ConnectionsView { rate: Rate::from_mbit(1), ..full }, 9), MIN_COUNT);
        assert_eq!(after(&mut count, ConnectionsView { rate: Rate::from_mbit(100), ..full }, 9), MIN_COUNT);
        assert_eq!(after(&mut count, waiting, 30), 14);
    }
}
