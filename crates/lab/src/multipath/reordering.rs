use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How far packets came out of order (RFC 4737).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reordering {
    /// Packets that arrived.
    pub packets: u64,
    /// Those that arrived after a later one (RFC 4737, section 3.3). Of TCP, that counts retransmissions that fill a gap, too.
    pub reordered_packets: u64,
    /// The extent of reordering (section 4.2.2): how many packets before, the first later one had arrived. The median over the
    /// reordered packets; null without any.
    pub median_extent_packets: Option<u64>,
    /// Its 95th percentile.
    pub p95_extent_packets: Option<u64>,
    /// The largest.
    pub max_extent_packets: Option<u64>,
}

/// Watches the order in which packets arrive.
#[derive(Debug, Default)]
pub(super) struct ReorderingMeter {
    next_expected: u64,
    arrived: u64,
    /// Numbers greater than all before, in the order of arrival: each with its place.
    maxima: Vec<(u64, u64)>,
    extents: Vec<u64>,
}

impl ReorderingMeter {
    /// A packet arrives that holds `length` numbers from `first` on: one, or a segment's bytes.
    pub(super) fn record_arrival(&mut self, first: u64, length: u64) {
        let place = self.arrived;
        self.arrived += 1;
        if first >= self.next_expected {
            self.next_expected = first + length;
            self.maxima.push((first, place));
            return;
        }
        // The earliest packet with a greater number is greater than all before it.
        let later = self.maxima.partition_point(|(number, _)| *number <= first);
        let extent = self.maxima.get(later).map_or(0, |(_, earliest)| place - earliest);
        self.extents.push(extent);
    }

    pub(super) fn summary(mut self) -> Reordering {
        self.extents.sort_unstable();
        let at = |part: f64| {
            self.extents.get(((self.extents.len() as f64 * part) as usize).min(self.extents.len().max(1) - 1))
        };
        Reordering {
            packets: self.arrived,
            reordered_packets: self.extents.len() as u64,
            median_extent_packets: at(0.5).copied(),
            p95_extent_packets: at(0.95).copied(),
            max_extent_packets: self.extents.last().copied(),
        }
    }
}

/// Makes whole numbers of TCP's, which wrap around.
#[derive(Debug, Default)]
pub(super) struct SequenceUnwrapper {
    highest: Option<u64>,
}

impl SequenceUnwrapper {
    pub(super) fn unwrap_sequence(&mut self, sequence: u32) -> u64 {
        // Far from zero, so that nothing is before the first.
        let highest = self.highest.unwrap_or(1 << 40 | u64::from(sequence));
        let distance = sequence.wrapping_sub(highest as u32) as i32;
        let number = highest.saturating_add_signed(distance.into());
        self.highest = Some(highest.max(number));
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reordering_of(numbers: &[u64]) -> Reordering {
        let mut meter = ReorderingMeter::default();
        numbers.iter().for_each(|number| meter.record_arrival(*number, 1));
        meter.summary()
    }

    /// The examples of RFC 4737, section 4.2.5 and appendix.
    #[test]
    fn extents_are_counted_as_in_the_rfc() {
        let order = reordering_of(&[1, 2, 3, 7, 8, 9, 10, 4, 5, 6, 11]);
        assert_eq!((order.reordered_packets, order.max_extent_packets), (3, Some(6)));
        assert_eq!((order.median_extent_packets, order.packets), (Some(5), 11));
        let in_order = reordering_of(&[1, 2, 5, 9]);
        assert_eq!((in_order.reordered_packets, in_order.max_extent_packets), (0, None));
    }

    #[test]
    fn segments_that_touch_are_in_order_also_around_the_end_of_the_numbers() {
        let (mut meter, mut unwrapped) = (ReorderingMeter::default(), SequenceUnwrapper::default());
        for sequence in [u32::MAX - 999, 0_u32.wrapping_sub(0), 1000, 500] {
            meter.record_arrival(unwrapped.unwrap_sequence(sequence), 1000);
        }
        let order = meter.summary();
        assert_eq!((order.reordered_packets, order.max_extent_packets), (1, Some(1)));
    }
}
