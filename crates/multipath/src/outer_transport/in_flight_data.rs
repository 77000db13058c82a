use crate::path::id::PathId;
use crate::scheduler::path_scheduler::PathSet;
use crate::scheduler::rendezvous_hash::mix_bits;
use kumade_packet::StreamSegment;
use std::collections::VecDeque;

/// The data of the TCP connections inside that carriers still have.
///
/// **Rule.** A carrier that repeats what is lost delivers all that it was given. Data that it has not delivered yet, but that the
/// connection inside sends again since its own timeout was shorter, would only lengthen the queue: such a segment is not
/// sent, unless it says more than was said (it acknowledges other data), or the carrier is held up by a loss of its own while
/// another is not, on which the segment may come first.
#[derive(Debug)]
pub(crate) struct InFlightData {
    /// What each carrier has, in the order in which it was given it.
    paths: [VecDeque<InFlightSegment>; PathId::MAX_PATHS],
    flows: Vec<NewestFlowData>,
}

#[derive(Debug, Clone, Copy)]
struct InFlightSegment {
    flow: u64,
    start: u32,
    end: u32,
    /// Where its last octet stands in the carrier's own stream.
    stream_offset: u64,
}

/// The newest of a flow.
#[derive(Debug, Clone, Copy, Default)]
struct NewestFlowData {
    flow: u64,
    end: u32,
    acknowledgment: u32,
}

/// Of each path; what was given to it earlier is forgotten.
const MAX_SEGMENTS_PER_PATH: usize = 4096;
const FLOW_SLOTS: u64 = 1024;

impl Default for InFlightData {
    fn default() -> Self {
        InFlightData { paths: Default::default(), flows: vec![NewestFlowData::default(); FLOW_SLOTS as usize] }
    }
}

impl InFlightData {
    /// A carrier was given this, up to a place in its stream.
    pub fn record_sent(&mut self, path: PathId, flow: u64, data: StreamSegment, until: u64) {
        let newest = &mut self.flows[(mix_bits(flow) % FLOW_SLOTS) as usize];
        let is_newer = newest.flow != flow || is_after(data.end, newest.end);
        let end = if is_newer { data.end } else { newest.end };
        *newest = NewestFlowData { flow, end, acknowledgment: data.acknowledgment };
        if data.start == data.end {
            return;
        }
        let carried = &mut self.paths[path.index()];
        if carried.len() == MAX_SEGMENTS_PER_PATH {
            carried.pop_front();
        }
        carried.push_back(InFlightSegment { flow, start: data.start, end: data.end, stream_offset: until });
    }

    /// A carrier has delivered its stream up to this place.
    pub fn record_delivered(&mut self, path: PathId, up_to: u64) {
        let carried = &mut self.paths[path.index()];
        while carried.front().is_some_and(|first| first.stream_offset <= up_to) {
            carried.pop_front();
        }
    }

    /// A carrier has failed: what it has may be lost.
    pub fn clear_path(&mut self, path: PathId) {
        self.paths[path.index()].clear();
    }

    /// Whether these carriers have all of this data, and it says nothing new.
    pub fn is_in_flight(&self, carriers: PathSet, flow: u64, data: StreamSegment) -> bool {
        let newest = &self.flows[(mix_bits(flow) % FLOW_SLOTS) as usize];
        let says_more = newest.flow != flow || newest.acknowledgment != data.acknowledgment;
        if data.start == data.end || says_more || is_after(data.end, newest.end) {
            return false;
        }
        let mut from = data.start;
        while is_after(data.end, from) {
            let holds = |carried: &&InFlightSegment| {
                carried.flow == flow && !is_after(carried.start, from) && is_after(carried.end, from)
            };
            match carriers.iter().find_map(|path| self.paths[path.index()].iter().find(holds)) {
                Some(carried) => from = carried.end,
                None => return false,
            }
        }
        true
    }
}

/// Whether a sequence number comes after another (RFC 9293 §3.4).
fn is_after(one: u32, other: u32) -> bool {
    (one.wrapping_sub(other) as i32) > 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn data(start: u32, bytes: u32) -> StreamSegment {
        StreamSegment { start, end: start.wrapping_add(bytes), acknowledgment: 1 }
    }

    fn paths() -> (PathId, PathId, PathSet) {
        let mut all = PathId::all();
        let (one, other) = (all.next().unwrap(), all.next().unwrap());
        (one, other, PathSet::from_paths([one, other]))
    }

    #[test]
    fn what_carriers_have_is_not_wanted_again_until_it_is_delivered_or_lost() {
        let (one, other, both) = paths();
        let mut carried = InFlightData::default();
        carried.record_sent(one, 5, data(u32::MAX - 999, 1000), 1100);
        carried.record_sent(other, 5, data(0, 1000), 1100);
        // One segment, or both, as the sender divides them now; across the end of the numbers.
        assert!(
            carried.is_in_flight(both, 5, data(u32::MAX - 999, 1000))
                && carried.is_in_flight(both, 5, data(u32::MAX - 499, 1000))
        );
        // New data, another flow, a path that does not count.
        assert!(!carried.is_in_flight(both, 5, data(500, 1000)) && !carried.is_in_flight(both, 6, data(0, 1000)));
        assert!(!carried.is_in_flight(PathSet::from_paths([one]), 5, data(0, 1000)));
        assert!(!carried.is_in_flight(both, 5, StreamSegment { acknowledgment: 2, ..data(0, 1000) }));
        carried.record_delivered(one, 1099);
        assert!(carried.is_in_flight(both, 5, data(u32::MAX - 999, 1000)));
        carried.record_delivered(one, 1100);
        assert!(!carried.is_in_flight(both, 5, data(u32::MAX - 999, 1000)));
        carried.clear_path(other);
        assert!(!carried.is_in_flight(both, 5, data(0, 1000)));
    }

    #[test]
    fn an_acknowledgement_that_was_sent_meanwhile_counts() {
        let (one, _, both) = paths();
        let mut carried = InFlightData::default();
        carried.record_sent(one, 5, data(0, 1000), 1000);
        carried.record_sent(one, 5, StreamSegment { acknowledgment: 2, ..data(1000, 0) }, 1050);
        assert!(!carried.is_in_flight(both, 5, data(0, 1000)));
        assert!(carried.is_in_flight(both, 5, StreamSegment { acknowledgment: 2, ..data(0, 1000) }));
    }

    proptest! {
        /// Against a plain set of octets.
        #[test]
        fn it_has_what_was_given_and_not_delivered(
            first: u32,
            steps in prop::collection::vec((0..2_usize, 0..60_u32, 1..20_u32, 0..8_u8), 1..80),
        ) {
            let (one, other, both) = paths();
            let mut carried = InFlightData::default();
            let mut given: Vec<(usize, u32, u32, u64)> = Vec::new();
            for (at, (path, start, bytes, action)) in steps.into_iter().enumerate() {
                let id = [one, other][path];
                match action {
                    0 => {
                        carried.clear_path(id);
                        given.retain(|entry| entry.0 != path);
                    }
                    1 | 2 => {
                        carried.record_delivered(id, at as u64 / 2);
                        given.retain(|entry| entry.0 != path || entry.3 > at as u64 / 2);
                    }
                    _ => {
                        let octets: BTreeSet<u32> = given.iter().flat_map(|entry| entry.1..entry.1 + entry.2).collect();
                        let all = (start..start + bytes).all(|octet| octets.contains(&octet));
                        prop_assert_eq!(carried.is_in_flight(both, 9, data(first.wrapping_add(start), bytes)), all);
                        if !all {
                            carried.record_sent(id, 9, data(first.wrapping_add(start), bytes), at as u64);
                            given.push((path, start, bytes, at as u64));
                        }
                    }
                }
            }
        }
    }
}
