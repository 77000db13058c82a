use super::controller::Ack;

/// Tells round trips apart: one ends when something sent after its beginning is acknowledged.
#[derive(Debug, Clone, Default)]
pub(super) struct RoundCounter {
    /// What had been delivered when the round began.
    begun_at: u64,
}

impl RoundCounter {
    /// A round begins with `ack`, whatever it acknowledges.
    pub(super) fn restart(&mut self, ack: &Ack) {
        self.begun_at = ack.total_delivered;
    }

    /// Whether `ack` begins a round; the first one does.
    pub(super) fn begins_round(&mut self, ack: &Ack) -> bool {
        let begins = ack.delivered_when_sent >= self.begun_at;
        if begins {
            self.restart(ack);
        }
        begins
    }
}
