use kumade_link::TrafficCount;
use kumade_packet::FlowKey;

/// The counts of one flow.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FlowStatistics {
    /// The number by which the driver tells it from others.
    pub flow: u64,
    /// Protocol, addresses and ports, where they are known.
    pub key: Option<FlowKey>,
    /// Reached the link.
    pub offered: TrafficCount,
    /// Came out at the other side.
    pub delivered: TrafficCount,
    /// Marked by the queue (ECN).
    pub marked: TrafficCount,
    /// Did not come out, for whatever cause.
    pub dropped: TrafficCount,
}

/// The flows that send most, in bounded memory and time.
///
/// The table is made of small sets, and a flow's number says in which of them it may stand. Each flow has a credit: what
/// it has sent, up to a limit. Where a set is full, a packet of another flow takes its size from the credit of all that
/// stand there, and who has none left makes room (Misra and Gries 1982, within each set). So a flow that sends more
/// than a ninth of what comes to its set stays, and those that have fallen silent go.
#[derive(Debug)]
pub(super) struct FlowTable {
    slots: Vec<FlowSlot>,
}

#[derive(Debug, Clone, Default)]
struct FlowSlot {
    /// None is left: the slot is free for others.
    credit_bytes: u64,
    is_used: bool,
    statistics: FlowStatistics,
}

const TABLE_SETS: usize = 128;
const SLOTS_PER_SET: usize = 8;
/// After so many bytes of others a silent flow is forgotten.
const MAX_CREDIT_BYTES: u64 = 1 << 20;

impl Default for FlowTable {
    fn default() -> Self {
        FlowTable { slots: vec![FlowSlot::default(); Self::MAX_FLOWS] }
    }
}

impl FlowTable {
    /// Flows that are remembered at most.
    pub(super) const MAX_FLOWS: usize = TABLE_SETS * SLOTS_PER_SET;

    /// The flow's place, if it has one or gets one for this packet, and whether that is new.
    pub(super) fn find_or_insert(&mut self, flow: u64, size: u32) -> (Option<&mut FlowStatistics>, bool) {
        let size = u64::from(size).max(1);
        let set = self.slots_of(flow);
        if let Some(index) = set.iter().position(|slot| slot.is_used && slot.statistics.flow == flow) {
            let slot = &mut set[index];
            slot.credit_bytes = (slot.credit_bytes + size).min(MAX_CREDIT_BYTES);
            return (Some(&mut slot.statistics), false);
        }
        let free = set.iter().position(|slot| !slot.is_used || slot.credit_bytes == 0);
        if let Some(index) = free {
            let statistics = FlowStatistics { flow, ..FlowStatistics::default() };
            set[index] = FlowSlot { credit_bytes: size.min(MAX_CREDIT_BYTES), is_used: true, statistics };
            return (Some(&mut set[index].statistics), true);
        }
        set.iter_mut().for_each(|slot| slot.credit_bytes = slot.credit_bytes.saturating_sub(size));
        (None, false)
    }

    /// The flow's place, if it has one.
    pub(super) fn find(&mut self, flow: u64) -> Option<&mut FlowStatistics> {
        let slot = self.slots_of(flow).iter_mut().find(|slot| slot.is_used && slot.statistics.flow == flow);
        slot.map(|slot| &mut slot.statistics)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &FlowStatistics> {
        self.slots.iter().filter(|slot| slot.is_used).map(|slot| &slot.statistics)
    }

    fn slots_of(&mut self, flow: u64) -> &mut [FlowSlot] {
        // Numbers that follow each other are spread too (Fibonacci hashing).
        let set = (flow.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % TABLE_SETS;
        &mut self.slots[set * SLOTS_PER_SET..(set + 1) * SLOTS_PER_SET]
    }
}

impl FlowStatistics {
    /// The difference to earlier statistics. A flow that was forgotten in between has begun anew.
    pub(super) fn delta_since(&self, earlier: Option<&FlowStatistics>) -> FlowStatistics {
        let Some(earlier) = earlier.filter(|earlier| earlier.offered.packets <= self.offered.packets) else {
            return self.clone();
        };
        FlowStatistics {
            flow: self.flow,
            key: self.key,
            offered: self.offered.since(earlier.offered),
            delivered: self.delivered.since(earlier.delivered),
            marked: self.marked.since(earlier.marked),
            dropped: self.dropped.since(earlier.dropped),
        }
    }
}
