use std::collections::VecDeque;

/// What became of the order of numbered packets (RFC 4737), and whether any came twice.
#[derive(Debug, Clone)]
pub(super) struct ArrivalOrder {
    /// The number after the highest so far.
    next: u64,
    /// Of the numbers before `next`, whether they have come: a bit for each of the last [`WINDOW_PACKETS`].
    received_bits: Vec<u64>,
    /// Packets so far, copies not counted.
    pub(super) packets: u64,
    /// Packets that came after one with a higher number.
    pub(super) out_of_order: u64,
    /// The longest reordering extent.
    pub(super) max_extent: u64,
    pub(super) duplicates: u64,
    /// The packets that raised the highest number: their place among all, and their number.
    new_maxima: VecDeque<(u64, u64)>,
}

/// What is later than by this many is not told from a copy, nor is its extent known exactly.
const WINDOW_PACKETS: u64 = 1 << 16;

impl ArrivalOrder {
    pub(super) fn new() -> Self {
        ArrivalOrder {
            next: 0,
            received_bits: vec![0; WINDOW_PACKETS as usize / 64],
            packets: 0,
            out_of_order: 0,
            max_extent: 0,
            duplicates: 0,
            new_maxima: VecDeque::new(),
        }
    }

    pub(super) fn record_arrival(&mut self, number: u64) {
        if !self.insert(number) {
            self.duplicates += 1;
            return;
        }
        if number + 1 < self.next {
            self.out_of_order += 1;
            // Section 4.2.1: how many packets earlier the first with a higher number came.
            let first = self.new_maxima.partition_point(|(_, raised)| *raised < number);
            let earlier = self.new_maxima.get(first).map_or(WINDOW_PACKETS, |(place, _)| self.packets - place);
            self.max_extent = self.max_extent.max(earlier);
        } else {
            self.new_maxima.push_back((self.packets, number));
            if self.new_maxima.len() as u64 > WINDOW_PACKETS {
                self.new_maxima.pop_front();
            }
        }
        self.packets += 1;
    }

    /// Counts anew from here on, of what comes from here on.
    pub(super) fn reset(&mut self) {
        (self.out_of_order, self.max_extent, self.duplicates) = (0, 0, 0);
    }

    /// Returns whether a number has not come before.
    fn insert(&mut self, number: u64) -> bool {
        for skipped in self.next.max(number.saturating_sub(WINDOW_PACKETS - 1))..=number {
            self.received_bits[word_index(skipped)] &= !bit_mask(skipped);
        }
        self.next = self.next.max(number + 1);
        let is_new =
            self.next - number <= WINDOW_PACKETS && self.received_bits[word_index(number)] & bit_mask(number) == 0;
        self.received_bits[word_index(number)] |= bit_mask(number);
        is_new
    }
}

fn word_index(number: u64) -> usize {
    (number % WINDOW_PACKETS / 64) as usize
}

fn bit_mask(number: u64) -> u64 {
    1 << (number % 64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(numbers: &[u64]) -> ArrivalOrder {
        let mut arrivals = ArrivalOrder::new();
        numbers.iter().for_each(|number| arrivals.record_arrival(*number));
        arrivals
    }

    /// RFC 4737, section 10.1: packets 1, 2, 3, 7, 8, 9, 10, 4, 5, 6, 11 arrive; extents 4, 5, 6.
    #[test]
    fn extents_are_those_of_the_example() {
        let arrivals = noted(&[1, 2, 3, 7, 8, 9, 10, 4, 5, 6, 11]);
        assert_eq!((arrivals.out_of_order, arrivals.max_extent, arrivals.duplicates), (3, 6, 0));
    }

    #[test]
    fn losses_are_no_reordering_and_copies_count_as_such() {
        let arrivals = noted(&[0, 5, 5, 6, 0, 200_000, 200_001, 200_001]);
        assert_eq!((arrivals.out_of_order, arrivals.duplicates, arrivals.packets), (0, 3, 5));
    }
}
