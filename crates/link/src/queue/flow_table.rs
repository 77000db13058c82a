use crate::random::mix_bits;

/// What is known of each of a bounded number of flows: a table of small sets. A flow that is not in it takes the place of
/// an idle one of its set; where none is idle, it shares the place of another.
#[derive(Debug)]
pub(super) struct FlowTable<T> {
    /// A part of each flow's hash.
    keys: Vec<[u32; SLOTS_PER_SET]>,
    flows: Vec<T>,
    seed: u64,
}

/// Places that are searched for a flow.
const SLOTS_PER_SET: usize = 8;

impl<T: Copy + Default> FlowTable<T> {
    /// For at least so many flows.
    pub(super) fn new(flows: u32, seed: u64) -> Self {
        let sets = (flows as usize).div_ceil(SLOTS_PER_SET).next_power_of_two();
        FlowTable { keys: vec![[0; SLOTS_PER_SET]; sets], flows: vec![T::default(); sets * SLOTS_PER_SET], seed }
    }

    /// How many places there are.
    pub(super) fn slot_count(&self) -> usize {
        self.flows.len()
    }

    /// The place of a flow, which gets one if it has none.
    #[inline]
    pub(super) fn slot_of(&mut self, flow: u64, idle: impl Fn(&T) -> bool) -> u32 {
        let hash = mix_bits(flow ^ self.seed);
        let (set, key) = self.set_and_key(hash);
        let first = set * SLOTS_PER_SET;
        if let Some(way) = self.keys[set].iter().position(|other| *other == key) {
            return (first + way) as u32;
        }
        // Always the same one, so that the packets of flows that share it stay in order.
        let preferred = (hash >> 29) as usize % SLOTS_PER_SET;
        // From there on: were it from the first place on, that would belong to who has come last, and be idle the most seldom.
        let mut ways = (0..SLOTS_PER_SET).map(|step| (preferred + step) % SLOTS_PER_SET);
        let unused = self.keys[set].iter().position(|other| *other == 0);
        let found = unused.or_else(|| ways.find(|way| idle(&self.flows[first + way])));
        let Some(way) = found else { return (first + preferred) as u32 };
        self.keys[set][way] = key;
        self.flows[first + way] = T::default();
        (first + way) as u32
    }

    /// The place of a flow that has one of its own.
    pub(super) fn find(&self, flow: u64) -> Option<u32> {
        let (set, key) = self.set_and_key(mix_bits(flow ^ self.seed));
        let way = self.keys[set].iter().position(|other| *other == key)?;
        Some((set * SLOTS_PER_SET + way) as u32)
    }

    /// Where a flow of this hash would be, and by what it is told from others there. Zero is for places that nobody has used.
    #[inline]
    fn set_and_key(&self, hash: u64) -> (usize, u32) {
        (hash as usize & (self.keys.len() - 1), (hash >> 32) as u32 | 1)
    }

    /// What is known of the flow at this place.
    #[inline]
    pub(super) fn get(&mut self, place: u32) -> &mut T {
        &mut self.flows[place as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_keeps_its_place_until_it_is_idle_and_another_needs_it() {
        let mut table: FlowTable<u32> = FlowTable::new(8, 1);
        let busy = |waiting: &u32| *waiting == 0;
        let mut places: Vec<u32> = (0..8).map(|flow| table.slot_of(flow, busy)).collect();
        places.iter().for_each(|place| *table.get(*place) = 1);
        assert_eq!((0..8).map(|flow| table.slot_of(flow, busy)).collect::<Vec<_>>(), places);
        // A ninth shares a place, always the same one, as long as all are busy.
        let shared = table.slot_of(8, busy);
        assert_eq!((shared, *table.get(shared)), (table.slot_of(8, busy), 1));
        *table.get(places[3]) = 0;
        assert_eq!(table.slot_of(8, busy), places[3]);
        places.sort_unstable();
        assert_eq!(places, (0..8).collect::<Vec<_>>());
    }

    #[test]
    fn almost_as_many_flows_as_it_is_made_for_have_a_place_of_their_own() {
        let mut table: FlowTable<u32> = FlowTable::new(16_384, 7);
        let mut shared = 0;
        for flow in 0..10_000 {
            let place = table.slot_of(flow, |waiting| *waiting == 0);
            let waiting = table.get(place);
            shared += u32::from(*waiting > 0);
            *waiting += 1;
        }
        assert!(shared < 400, "{shared}");
    }
}
