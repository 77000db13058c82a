use crate::replay::ReplayWindow;

/// How much a numbered datagram says of its counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderForm {
    /// All of it, behind [`HEADER_BYTES`](crate::HEADER_BYTES): it opens whatever the receiver knows, and shows it where the path is.
    Whole,
    /// The lowest 16 bits, behind [`SHORT_HEADER_BYTES`](crate::SHORT_HEADER_BYTES) at most: see [`CounterReference`].
    Short,
}

/// What the receiver of a numbered datagram knows of the path that it came over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CounterReference {
    /// The number of the path in the session.
    pub path: u8,
    /// The counter after the highest one that has come over it; 0 before any has.
    pub next_counter: u64,
}

impl CounterReference {
    /// How far above the next counter others are recognised by their lowest 16 bits. The range of 2¹⁶ begins where the replay window
    /// ends: what is older is refused in any case.
    pub const MAX_COUNTERS_AHEAD: u64 = (1 << u16::BITS) - ReplayWindow::WINDOW_PACKETS;

    /// The counter with these lowest bits, of those from the replay window's width below the next one on (compare RFC 9000 §A.3,
    /// whose range lies as far above the next one as below).
    pub(crate) fn expand(self, lowest: u16) -> u64 {
        let first = self.next_counter.saturating_sub(ReplayWindow::WINDOW_PACKETS);
        // Beyond all counters that there are, none authenticates.
        first.wrapping_add(lowest.wrapping_sub(first as u16).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_number_that_there_is_overflows_nothing() {
        for next in [u64::MAX, u64::MAX - 20_000] {
            for lowest in [0, 7, u16::MAX] {
                assert_eq!(CounterReference { path: 0, next_counter: next }.expand(lowest) as u16, lowest);
            }
        }
    }

    proptest::proptest! {
        /// Whatever is lost and however it is reordered: a datagram that is no more ahead of what has come than is proven, and no older
        /// than the replay window, has the counter that it was sealed with. Any other one fails to authenticate or has been refused.
        #[test]
        fn a_counter_is_known_by_its_lowest_bits_within_the_window(
            next in 0u64..1 << 54,
            offset in -20_000i64..60_000,
        ) {
            let sent = next.saturating_add_signed(offset);
            let expanded = CounterReference { path: 0, next_counter: next }.expand(sent as u16);
            let is_within = sent + ReplayWindow::WINDOW_PACKETS >= next
                && sent < next.max(ReplayWindow::WINDOW_PACKETS) + CounterReference::MAX_COUNTERS_AHEAD;
            proptest::prop_assert_eq!(expanded == sent, is_within, "{} {}", expanded, sent);
        }
    }
}
