use crate::random::mix_bits;

/// How often each flow stands in a list of bounded length. A table of fixed size with open addressing: it allocates
/// nothing after its making, and its order depends on the seed alone.
#[derive(Debug)]
pub(super) struct FlowCounts {
    slots: Vec<CountSlot>,
    seed: u64,
}

/// Free while the count is zero.
#[derive(Debug, Clone, Copy, Default)]
struct CountSlot {
    flow: u64,
    count: u32,
}

impl FlowCounts {
    /// For at most so many flows at a time.
    pub(super) fn new(flows: usize, seed: u64) -> Self {
        // At most half full, so that searches stay short.
        let slots = (flows.max(1) * 2).next_power_of_two();
        FlowCounts { slots: vec![CountSlot::default(); slots], seed }
    }

    pub(super) fn add_packet(&mut self, flow: u64) {
        let index = self.find(flow);
        let slot = &mut self.slots[index];
        *slot = CountSlot { flow, count: slot.count + 1 };
    }

    /// Takes back one [`FlowCounts::add_packet`].
    pub(super) fn remove(&mut self, flow: u64) {
        let index = self.find(flow);
        let slot = &mut self.slots[index];
        slot.count = slot.count.saturating_sub(1);
        if slot.count == 0 {
            self.close_gap(index);
        }
    }

    pub(super) fn get(&self, flow: u64) -> u32 {
        self.slots[self.find(flow)].count
    }

    /// The flow that stands there most often; of equals the one that the seed puts first.
    pub(super) fn largest_flow(&self) -> Option<u64> {
        let used = self.slots.iter().filter(|slot| slot.count > 0);
        used.reduce(|most, slot| if slot.count > most.count { slot } else { most }).map(|slot| slot.flow)
    }

    /// Where the flow is or would go.
    fn find(&self, flow: u64) -> usize {
        let mut index = self.home_slot(flow);
        while self.slots[index].count > 0 && self.slots[index].flow != flow {
            index = (index + 1) & (self.slots.len() - 1);
        }
        index
    }

    fn home_slot(&self, flow: u64) -> usize {
        mix_bits(flow ^ self.seed) as usize & (self.slots.len() - 1)
    }

    /// Moves up those behind a freed slot that would not be found across it.
    fn close_gap(&mut self, mut gap: usize) {
        let mask = self.slots.len() - 1;
        let mut index = (gap + 1) & mask;
        while self.slots[index].count > 0 {
            let from_home = index.wrapping_sub(self.home_slot(self.slots[index].flow)) & mask;
            if from_home >= (index.wrapping_sub(gap) & mask) {
                self.slots[gap] = self.slots[index];
                self.slots[index].count = 0;
                gap = index;
            }
            index = (index + 1) & mask;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn it_counts_like_a_map(operations in prop::collection::vec((0u64..12, any::<bool>()), 0..300), seed: u64) {
            let (mut counts, mut map) = (FlowCounts::new(12, seed), BTreeMap::<u64, u32>::new());
            for (flow, adds) in operations {
                let entry = map.entry(flow).or_default();
                if adds {
                    *entry += 1;
                    counts.add_packet(flow);
                } else if *entry > 0 {
                    *entry -= 1;
                    counts.remove(flow);
                }
                for (flow, count) in &map {
                    prop_assert_eq!(counts.get(*flow), *count);
                }
                let most = map.values().copied().max().filter(|count| *count > 0);
                prop_assert_eq!(counts.largest_flow().map(|flow| map[&flow]), most);
            }
        }
    }
}
