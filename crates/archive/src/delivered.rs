use kumade_units::Time;
use std::collections::BTreeMap;

/// An instance that leaves more gaps than this has its oldest ones closed: what it delivers there counts as repeated.
const MAX_RANGES: usize = 1024;

/// Which numbers of an instance have been delivered, as ranges: a few, since agents deliver all in the end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct DeliveredNumbers {
    /// First and last of each range; none touches the next.
    ranges: BTreeMap<u64, u64>,
    /// When the last of them came.
    at: Time,
}

impl DeliveredNumbers {
    /// A range as it was stored.
    pub(crate) fn add_stored(&mut self, at: Time, first: u64, last: u64) {
        self.ranges.insert(first, last);
        self.at = self.at.max(at);
    }

    pub(crate) fn last_delivery(&self) -> Time {
        self.at
    }

    pub(crate) fn ranges(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.ranges.iter().map(|(first, last)| (*first, *last))
    }

    pub(crate) fn contains(&self, number: u64) -> bool {
        self.ranges.range(..=number).next_back().is_some_and(|(_, last)| number <= *last)
    }

    pub(crate) fn insert(&mut self, number: u64, now: Time) {
        self.at = now;
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
        if self.ranges.len() > MAX_RANGES
            && let (Some((first, _)), Some((_, last))) = (self.ranges.pop_first(), self.ranges.pop_first())
        {
            self.ranges.insert(first, last);
        }
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
                delivered.insert(number, Time::ZERO);
                prop_assert!(delivered.contains(number));
            }
            let gaps = set.iter().zip(set.iter().skip(1)).filter(|(a, b)| *a + 1 < **b).count();
            prop_assert_eq!(delivered.ranges().count(), if set.is_empty() { 0 } else { gaps + 1 });
        }
    }

    #[test]
    fn an_instance_that_leaves_gaps_is_bounded() {
        let mut delivered = DeliveredNumbers::default();
        (0..10_000).for_each(|i| delivered.insert(i * 2, Time::ZERO));
        assert_eq!(delivered.ranges().count(), MAX_RANGES);
        assert!((0..10_000).all(|i| delivered.contains(i * 2)));
        assert!(!delivered.contains(19_997));
    }
}
