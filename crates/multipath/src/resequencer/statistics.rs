use units::Span;

/// What a [`Resequencer`](crate::Resequencer) has done since it was made. Packets, unless it says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResequencerStatistics {
    /// Delivered in order, at once or after waiting.
    pub in_order: u64,
    /// Delivered at once because they were sent as needing no order.
    pub unordered: u64,
    /// Declared lost: later ones were delivered before them. Some may have come after that; see `late`.
    pub lost: u64,
    /// Delivered although later ones had been. TCP can use them: they spare a retransmission, or undo its effect
    /// (RFC 2883, RFC 3522).
    pub late: u64,
    /// Dropped because they had been delivered, or were so late that nobody knows.
    pub duplicates: u64,
    /// Gaps that ended by the timer and not by what paths delivered.
    pub expired: u64,
    /// Gaps that ended because memory was needed.
    pub evicted: u64,
    /// The most packets of one bucket that waited at once: the reorder depth.
    pub max_depth: u32,
    /// How long packets waited.
    pub waits: WaitStatistics,
}

/// The distribution of waits. Only packets that waited are in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WaitStatistics {
    /// Packets that waited.
    pub count: u64,
    /// All their waits.
    pub total: Span,
    /// The longest wait.
    pub max: Span,
    /// How many waited for less than 1 µs, then for 1 to less than 2 µs, 2 to less than 4 µs, and so on.
    pub doublings: [u64; 32],
}

impl WaitStatistics {
    pub(super) fn note(&mut self, wait: Span) {
        if wait <= Span::ZERO {
            return;
        }
        self.count += 1;
        self.total += wait;
        self.max = self.max.max(wait);
        let micros = (wait.as_nanos() / 1000) as u64;
        let doubling = (u64::BITS - micros.leading_zeros()) as usize;
        self.doublings[doubling.min(self.doublings.len() - 1)] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_counted_by_doublings() {
        let mut waits = WaitStatistics::default();
        for nanos in [0, 999, 1000, 1999, 2000, 3999, 4000, i64::MAX / 2] {
            waits.note(Span::from_nanos(nanos));
        }
        assert_eq!((waits.count, waits.max), (7, Span::from_nanos(i64::MAX / 2)));
        assert_eq!(waits.doublings[..4], [1, 2, 2, 1]);
        assert_eq!(waits.doublings[31], 1);
    }
}
