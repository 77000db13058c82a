use crate::tcp::scoreboard::Scoreboard;

/// Whether the window is what limits the sender (RFC 7661; `tcp_cwnd_validate` in Linux).
#[derive(Debug, Default)]
pub(super) struct WindowUsage {
    is_limited: bool,
    max_outstanding: u32,
    round_end: u32,
}

impl WindowUsage {
    /// After as much was sent as could be.
    pub(super) fn record_usage(&mut self, limited: bool, board: &Scoreboard) {
        let outstanding = board.outstanding();
        if board.first_outstanding() >= self.round_end
            || limited
            || (!self.is_limited && outstanding > self.max_outstanding)
        {
            *self = WindowUsage { is_limited: limited, max_outstanding: outstanding, round_end: board.next_unsent() };
        }
    }

    /// In slow start the window may grow to twice what was used.
    pub(super) fn is_window_limited(&self, slow_start: bool, window: f64) -> bool {
        self.is_limited || (slow_start && window < 2.0 * f64::from(self.max_outstanding))
    }
}
