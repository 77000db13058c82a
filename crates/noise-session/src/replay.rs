/// Bits of one word of the bitmap.
const WORD_BITS: u64 = u64::BITS as u64;
/// Words of the bitmap: a power of two.
const BITMAP_WORDS: u64 = 256;

/// Which counters have been received, of those that are not yet too old: a sliding bitmap as in RFC 6479, which moves
/// by whole words and never shifts one.
///
/// It holds for the [`WINDOW_PACKETS`](Self::WINDOW_PACKETS) counters up to the greatest one; what is older is refused.
#[derive(Debug, Clone)]
pub struct ReplayWindow {
    /// One more than the greatest counter received.
    next_counter: u64,
    bitmap: [u64; BITMAP_WORDS as usize],
}

impl ReplayWindow {
    /// How far behind the greatest counter another may arrive, in packets. At 10 Gbit/s these are 19 ms of packets with
    /// 1500 bytes. (One word of the bitmap is always being filled.)
    pub const WINDOW_PACKETS: u64 = (BITMAP_WORDS - 1) * WORD_BITS;

    /// Nothing has been received.
    pub const fn new() -> Self {
        ReplayWindow { next_counter: 0, bitmap: [0; BITMAP_WORDS as usize] }
    }

    /// Notes a counter; whether it is new. The packet must have been authenticated before.
    pub fn accept(&mut self, counter: u64) -> bool {
        if counter >= self.next_counter {
            self.advance_to(counter);
        } else if self.next_counter - counter > Self::WINDOW_PACKETS {
            return false;
        }
        let word = &mut self.bitmap[(counter / WORD_BITS % BITMAP_WORDS) as usize];
        let bit = 1 << (counter % WORD_BITS);
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    /// Makes `counter` the greatest one: clears the words that it enters.
    fn advance_to(&mut self, counter: u64) {
        // Before the first packet no word has been entered, not even the first: it is clear as well.
        let entered = counter / WORD_BITS - self.next_counter.saturating_sub(1) / WORD_BITS;
        for ahead in 0..entered.min(BITMAP_WORDS) {
            self.bitmap[((counter / WORD_BITS - ahead) % BITMAP_WORDS) as usize] = 0;
        }
        self.next_counter = counter.saturating_add(1);
    }
}

impl Default for ReplayWindow {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_window_is_at_least_8192_wide() {
        const { assert!(ReplayWindow::WINDOW_PACKETS >= 8192) };
        // One of the 256 words is always being filled.
        assert_eq!(ReplayWindow::WINDOW_PACKETS, 255 * 64);
        let mut window = ReplayWindow::new();
        assert!(window.accept(ReplayWindow::WINDOW_PACKETS));
        assert!(window.accept(1) && !window.accept(0), "one is within the window, the other not");
        assert!(!window.accept(1) && !window.accept(ReplayWindow::WINDOW_PACKETS));
    }

    #[test]
    fn the_greatest_counter_does_no_harm() {
        let mut window = ReplayWindow::new();
        assert!(window.accept(u64::MAX - 1) && !window.accept(u64::MAX - 1));
        assert!(window.accept(u64::MAX - 2) && !window.accept(3));
    }

    proptest! {
        /// Against a set of all that was received.
        #[test]
        fn as_a_set_would_do_it(jumps in prop::collection::vec((0u64..3, 0u64..40_000), 1..400)) {
            let (mut window, mut seen, mut greatest) = (ReplayWindow::new(), BTreeSet::new(), 0u64);
            for (kind, distance) in jumps {
                let counter = match kind {
                    0 => greatest + distance % 70,
                    1 => greatest + distance,
                    _ => greatest.saturating_sub(distance),
                };
                let is_recent = counter >= greatest || greatest - counter < ReplayWindow::WINDOW_PACKETS;
                prop_assert_eq!(window.accept(counter), is_recent && !seen.contains(&counter), "{}", counter);
                seen.insert(counter);
                greatest = greatest.max(counter);
            }
        }
    }
}
