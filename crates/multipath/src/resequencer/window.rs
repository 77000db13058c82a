use crate::message::NUMBER_BITS;
use crate::path::state::MAX_UNREPORTED_DATAGRAMS;

/// Which of the numbers before the next one have come: of so many, no more (as the window of RFC 6479).
#[derive(Debug, Clone)]
pub(super) struct SequenceWindow {
    next: u64,
    /// Of each number below `next`, at its place modulo [`WINDOW_NUMBERS`], whether it has come.
    received_bits: [u64; WINDOW_WORDS],
    /// The last number, if it was too old to tell whether it had come before, and how many such ones have come that rise.
    stale_run: Option<(u64, u32)>,
}

/// Numbers remembered.
pub(super) const WINDOW_NUMBERS: u64 = 2048;
/// From the next number on, so many are recognised by their lowest bits: those that may be on their way, and as many as wait. All
/// others are taken for late ones.
const MAX_NUMBERS_AHEAD: u64 = MAX_UNREPORTED_DATAGRAMS + 8192;
/// So many rising ones in a row that seem to be too old are ahead: of what comes late, fewer come without others between. If it is not
/// so, nothing is taken for what it is not, since all that comes is known by its lowest bits still.
const MAX_STALE_RUN: u32 = 32;
const NUMBER_RANGE: u64 = 1 << NUMBER_BITS;
const WINDOW_WORDS: usize = (WINDOW_NUMBERS / 64) as usize;

impl SequenceWindow {
    /// Nothing can come from before the first.
    pub(super) fn new(first: u64) -> Self {
        SequenceWindow { next: first, received_bits: [u64::MAX; WINDOW_WORDS], stale_run: None }
    }

    /// The number after the highest one so far.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// The number of which these are the lowest bits, of those that may come: see [`MAX_NUMBERS_AHEAD`].
    pub(super) fn expand_number(&self, number: u32) -> u64 {
        let ahead = u64::from(number.wrapping_sub(self.next as u32)) % NUMBER_RANGE;
        let behind = if ahead < MAX_NUMBERS_AHEAD { 0 } else { NUMBER_RANGE };
        (self.next + ahead).saturating_sub(behind)
    }

    /// The number of which these are the lowest bits, and whether it is so far ahead, after a long loss, that the bits of some before it
    /// have told another one: nothing before it is waited for any more.
    pub(super) fn recognise(&mut self, lowest: u32) -> (u64, bool) {
        let number = self.expand_number(lowest);
        if !self.is_too_old(number) {
            self.stale_run = None;
            return (number, false);
        }
        let run = self.stale_run.filter(|(last, _)| number > *last).map_or(1, |(_, run)| run + 1);
        self.stale_run = (run < MAX_STALE_RUN).then_some((number, run));
        if self.stale_run.is_some() { (number, false) } else { (number + NUMBER_RANGE, true) }
    }

    /// Passes over what is before `number`; it may still come.
    pub(super) fn skip_to(&mut self, number: u64) {
        if number >= self.next.saturating_add(WINDOW_NUMBERS) {
            // Whoever jumps with each number has it done at once, not number by number.
            self.received_bits.fill(0);
        } else {
            for skipped in self.next..number {
                self.received_bits[word_index(skipped)] &= !bit_mask(skipped);
            }
        }
        self.next = self.next.max(number);
    }

    /// Whether the number is so old that nobody knows whether it has come.
    pub(super) fn is_too_old(&self, number: u64) -> bool {
        number < self.next && self.next - number > WINDOW_NUMBERS
    }

    /// A number comes. Returns whether it is known not to have come before.
    pub(super) fn insert(&mut self, number: u64) -> bool {
        if number >= self.next {
            self.skip_to(number);
            self.next = number.wrapping_add(1);
        } else if self.is_too_old(number) || self.received_bits[word_index(number)] & bit_mask(number) != 0 {
            return false;
        }
        self.received_bits[word_index(number)] |= bit_mask(number);
        true
    }
}

fn word_index(number: u64) -> usize {
    (number % WINDOW_NUMBERS / 64) as usize
}

fn bit_mask(number: u64) -> u64 {
    1 << (number % 64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn numbers_are_known_by_their_lowest_bits() {
        let window = SequenceWindow::new(3 << 32);
        assert_eq!(window.expand_number(5), (3 << 32) + 5);
        assert_eq!(window.expand_number(u32::MAX), (3 << 32) - 1);
        assert_eq!(window.expand_number(40_959), (3 << 32) + 40_959);
        assert_eq!(window.expand_number(40_960), (3 << 32) - 221_184);
    }

    proptest! {
        #[test]
        fn a_number_comes_once(
            steps in prop::collection::vec((any::<bool>(), prop_oneof![0i64..40, -40i64..0, -3000i64..3000]), 1..200)
        ) {
            let first = 1 << 32;
            let mut window = SequenceWindow::new(first);
            let mut come = BTreeSet::new();
            for (skip, offset) in steps {
                let next = window.next();
                let number = next.saturating_add_signed(offset);
                if skip {
                    window.skip_to(number);
                    prop_assert_eq!(window.next(), next.max(number));
                } else {
                    let expected = number >= first && next.saturating_sub(number) <= WINDOW_NUMBERS && come.insert(number);
                    prop_assert_eq!(window.insert(number), expected);
                }
            }
        }
    }
}
