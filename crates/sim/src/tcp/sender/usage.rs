use crate::tcp::scoreboard::Scoreboard;

/// Whether the window is what limits the sender (RFC 7661; `tcp_cwnd_validate` in Linux).
#[derive(Debug, Default)]
pub(super) struct Usage {
    limited: bool,
    max_outstanding: u32,
    until: u32,
}

impl Usage {
    /// After as much was sent as could be.
    pub(super) fn note(&mut self, limited: bool, board: &Scoreboard) {
        let outstanding = board.outstanding();
        if board.first() >= self.until || limited || (!self.limited && outstanding > self.max_outstanding) {
            *self = Usage { limited, max_outstanding: outstanding, until: board.next() };
        }
    }

    /// In slow start the window may grow to twice what was used.
    pub(super) fn limits(&self, slow_start: bool, window: f64) -> bool {
        self.limited || (slow_start && window < 2.0 * f64::from(self.max_outstanding))
    }
}
