use std::collections::VecDeque;

/// Segments from `start` up to but not including `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SackBlock {
    /// The first.
    pub start: u32,
    /// The one after the last.
    pub end: u32,
}

impl SackBlock {
    /// One segment.
    pub fn single(number: u32) -> Self {
        SackBlock { start: number, end: number.saturating_add(1) }
    }

    /// Whether there is nothing in it.
    pub fn is_empty(self) -> bool {
        self.start >= self.end
    }

    fn contains(self, number: u32) -> bool {
        (self.start..self.end).contains(&number)
    }
}

/// A set of segments as blocks that neither touch nor overlap, in order.
#[derive(Debug, Default)]
pub(super) struct NumberRanges(VecDeque<SackBlock>);

impl NumberRanges {
    /// The block that holds `number`.
    pub(super) fn block_containing(&self, number: u32) -> Option<SackBlock> {
        let place = self.0.partition_point(|block| block.end <= number);
        self.0.get(place).copied().filter(|block| block.contains(number))
    }

    /// Adds a block and tells `fresh` which parts of it were not there before, in order.
    pub(super) fn insert(&mut self, added: SackBlock, mut fresh: impl FnMut(SackBlock)) {
        if added.is_empty() {
            return;
        }
        let first = self.0.partition_point(|block| block.end < added.start);
        let (mut merged, mut covered, mut last) = (added, added.start, first);
        while let Some(block) = self.0.get(last).copied().filter(|block| block.start <= added.end) {
            if covered < block.start {
                fresh(SackBlock { start: covered, end: block.start });
            }
            covered = covered.max(block.end);
            merged = SackBlock { start: merged.start.min(block.start), end: merged.end.max(block.end) };
            last += 1;
        }
        if covered < added.end {
            fresh(SackBlock { start: covered, end: added.end });
        }
        if first == last {
            self.0.insert(first, merged);
        } else {
            self.0[first] = merged;
            self.0.drain(first + 1..last);
        }
    }

    /// Removes all before `number`.
    pub(super) fn remove_before(&mut self, number: u32) {
        while let Some(first) = self.0.front_mut().filter(|first| first.start < number) {
            if first.end > number {
                first.start = number;
                return;
            }
            self.0.pop_front();
        }
    }

    /// Removes the first block if it begins with `number`, and says where it ends.
    pub(super) fn take_from(&mut self, number: u32) -> Option<u32> {
        let end = self.0.front().filter(|first| first.start == number)?.end;
        self.0.pop_front();
        Some(end)
    }

    /// The end of the last block.
    pub(super) fn end(&self) -> Option<u32> {
        self.0.back().map(|block| block.end)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn they_are_a_set_and_tell_what_is_new_once(
            added in prop::collection::vec((0u32..60, 0u32..8), 1..40), cut in 0u32..60
        ) {
            let (mut ranges, mut model) = (NumberRanges::default(), BTreeSet::new());
            for (start, length) in added {
                let block = SackBlock { start, end: start + length };
                let mut fresh = Vec::new();
                ranges.insert(block, |part| fresh.extend(part.start..part.end));
                let expected: Vec<_> = (block.start..block.end).filter(|number| model.insert(*number)).collect();
                prop_assert_eq!(fresh, expected);
            }
            ranges.remove_before(cut);
            model.retain(|number| *number >= cut);
            for number in 0..70 {
                prop_assert_eq!(ranges.block_containing(number).is_some(), model.contains(&number));
            }
            prop_assert_eq!(ranges.end(), model.last().map(|number| number + 1));
            let apart = ranges.0.iter().zip(ranges.0.iter().skip(1)).all(|(one, next)| one.end < next.start);
            prop_assert!(apart && !ranges.0.iter().any(|block| block.is_empty()));
        }
    }
}
