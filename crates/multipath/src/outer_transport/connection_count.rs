//! How many of a tunnel's connections carry bulk traffic.

use crate::path::id::PathId;
use kumade_units::{Rate, Span};

/// What is seen of the connections that carry bulk traffic now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConnectionsSample {
    /// What they deliver together.
    pub rate: Rate,
    /// The least round trip of the path.
    pub min_round_trip: Span,
    /// How long the path's own queue is: what all of them see. Where one waits for what was lost, another one shows it.
    pub queue_delay: Span,
    /// One of them could have taken no more of late.
    pub is_any_limited: bool,
    /// So many there are.
    pub available_connections: usize,
}

/// The number of connections that carry bulk traffic.
///
/// **Rule.** Connections that share a slow path have windows of a few packets each: too few to find a loss by what arrives
/// after it, and together more than the path's queue holds. So where the path is full, as its queue shows, and each has less than
/// [`MIN_WINDOW_BYTES`] of what the path and its queue are to hold, fewer are used, until each has that or up to [`TARGET_WINDOW_BYTES`]. Where it is not full although they take no more, losses hold
/// them back, whatever their number: then two more are used each time. All are used until a full path is seen.
///
/// **Loop contract.** Tell it what is seen a few times a second ([`ConnectionCountControl::update`]).
#[derive(Debug)]
pub(crate) struct ConnectionCountControl {
    count: usize,
}

/// Of what connections deliver, so much is to be on its way besides a round trip's worth: as [`path_carrier`] has it.
///
/// [`path_carrier`]: crate::outer_transport::in_flight_control
const TARGET_QUEUE_DELAY: Span = Span::from_millis(5);
/// A path with a longer queue is full.
const FULL_PATH_QUEUE_DELAY: Span = Span::from_millis(2);
/// Five full packets: with fewer, the loss of one is often found by a timeout only.
const MIN_WINDOW_BYTES: u64 = 7_500;
const TARGET_WINDOW_BYTES: u64 = 12_000;
const MIN_CONNECTIONS: usize = 2;
const EXTRA_CONNECTIONS: usize = 2;

impl ConnectionCountControl {
    /// All that there are: nothing is known yet.
    pub fn new() -> Self {
        ConnectionCountControl { count: PathId::MAX_PATHS }
    }

    /// How many carry bulk traffic, if there are as many.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Takes what is seen now.
    pub fn update(&mut self, view: &ConnectionsSample) {
        // With little to carry, this end says nothing of the path; the queue may be of the other direction.
        if !view.is_any_limited {
            return;
        }
        let count = self.count.min(view.available_connections);
        if view.queue_delay < FULL_PATH_QUEUE_DELAY {
            self.count = (count + EXTRA_CONNECTIONS).min(view.available_connections.max(MIN_CONNECTIONS));
            return;
        }
        let held = view.rate.bytes_in(view.min_round_trip + TARGET_QUEUE_DELAY);
        if held < MIN_WINDOW_BYTES * count as u64 {
            let enough = usize::try_from(held / TARGET_WINDOW_BYTES).unwrap_or(usize::MAX).max(MIN_CONNECTIONS);
            // Half of what is too many at once: what is seen of the rate is of the past.
            self.count = count - count.saturating_sub(enough).div_ceil(2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: ConnectionsSample = ConnectionsSample {
        rate: Rate::from_mbit(20),
        min_round_trip: Span::from_millis(20),
        queue_delay: Span::ZERO,
        is_any_limited: false,
        available_connections: 14,
    };

    fn after(count: &mut ConnectionCountControl, view: ConnectionsSample, times: usize) -> usize {
        (0..times).for_each(|_| count.update(&view));
        count.count()
    }

    #[test]
    fn a_slow_path_has_few_and_a_lossy_one_all() {
        let mut count = ConnectionCountControl::new();
        let (waiting, full) = (
            ConnectionsSample { is_any_limited: true, ..IDLE },
            ConnectionsSample { is_any_limited: true, queue_delay: Span::from_millis(4), ..IDLE },
        );
        assert_eq!(after(&mut count, IDLE, 5), PathId::MAX_PATHS, "nothing is known");
        let other_direction = ConnectionsSample { is_any_limited: false, rate: Rate::from_mbit(1), ..full };
        assert_eq!(after(&mut count, other_direction, 5), PathId::MAX_PATHS);
        assert_eq!(after(&mut count, waiting, 5), 14);
        // 62 kB are eight windows of 7.5 kB; half of what exceeds five of 12 kB goes at once.
        assert_eq!(after(&mut count, full, 1), 9);
        assert_eq!(after(&mut count, full, 5), 7);
        assert_eq!(after(&mut count, waiting, 1), 9);
        assert_eq!(after(&mut count, ConnectionsSample { rate: Rate::from_mbit(1), ..full }, 9), MIN_CONNECTIONS);
        assert_eq!(after(&mut count, ConnectionsSample { rate: Rate::from_mbit(100), ..full }, 9), MIN_CONNECTIONS);
        assert_eq!(after(&mut count, waiting, 30), 14);
    }
}
