use std::collections::BTreeMap;

/// Which numbers of an instance have been delivered, as ranges: a few, since agents deliver all in the end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct DeliveredNumbers {
    /// First and last of each range; none touches the next.
    ranges: BTreeMap<u64, u64>,
}

impl DeliveredNumbers {
    pub(crate) fn from_ranges(ranges: impl IntoIterator<Item = (u64, u64)>) -> Self {
        DeliveredNumbers { ranges: ranges.into_iter().collect() }
    }

    pub(crate) fn ranges(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.ranges.iter().map(|(first, last)| (*first, *last))
    }

    pub(crate) fn contains(&self, number: u64) -> bool {
        self.ranges.range(..=number).next_back().is_some_and(|(_, last)| number <= *last)
    }

    pub(crate) fn insert(&mut self, number: u64) {
        if self.contains(number) {
            return;
        }
        let (mut first, mut last) = (number, number);
        if let Some((&begin, &end)) = self.ranges.range(..number).next_back()
            && end + 1 == number
        {
            first = begin;
        }
        if let Some(&end) = number.checked_add(1).and_then(|next| self.ranges.get(&next)) {
            self.ranges.remove(&(number + 1));
            last = end;
        }
        self.ranges.insert(first, last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn it_is_a_set(numbers in prop::collection::vec(prop_oneof![0u64..30, Just(u64::MAX), Just(u64::MAX - 1)], 0..60)) {
            let (mut delivered, mut set) = (DeliveredNumbers::default(), BTreeSet::new());
            for number in numbers {
                prop_assert_eq!(delivered.contains(number), !set.insert(number));
                delivered.insert(number);
                prop_assert!(delivered.contains(number));
            }
            let gaps = set.iter().zip(set.iter().skip(1)).filter(|(a, b)| *a + 1 < **b).count();
            prop_assert_eq!(delivered.ranges().count(), if set.is_empty() { 0 } else { gaps + 1 });
        }
    }
}
