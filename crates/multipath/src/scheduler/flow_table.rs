use crate::path::id::PathId;
use crate::scheduler::rendezvous_hash::mix_bits;
use kumade_link::SparseTable;
use kumade_units::{Span, Time};

/// What is remembered of the flows seen last, in a bounded table: a new flow takes the place of the one that was silent
/// longest among those of its row.
#[derive(Debug)]
pub(crate) struct FlowTable {
    rows: SparseTable<Row>,
    epoch: u32,
    epoch_end: Time,
    /// Long flows of this epoch and of the last.
    long_flow_counts: [u32; 2],
    /// Flows of each path's own queue, this epoch and the last.
    bound_flow_counts: [[u32; PathId::MAX_PATHS]; 2],
}

type Row = [Slot; SLOTS_PER_ROW];

#[derive(Debug, Clone, Copy)]
struct Slot {
    flow: u64,
    state: FlowState,
    epoch: u32,
}

/// What is remembered of a flow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FlowState {
    pub last_seen: Time,
    /// Bytes that it has sent, but for those forgotten.
    pub bytes: f64,
    /// Where it goes as long as it is bound to a path.
    pub bound_path: Option<PathId>,
    /// Whether it uses several paths.
    pub is_long: bool,
    /// How many of its packets wait: it changes its place only while there are none, so that it keeps its order.
    pub waiting_packets: u32,
    /// Bytes that it has sent within about 100 ms.
    pub recent_bytes: f64,
    /// Bytes of its longest packet: paths that do not pass that are not for it.
    pub largest_packet_bytes: u32,
}

const TABLE_ROWS: u64 = 1 << 12;
const SLOTS_PER_ROW: usize = 4;
const EPOCH_DURATION: Span = Span::from_millis(200);

/// A flow that goes on has sent so many packets of late.
const MIN_STEADY_PACKETS: f64 = 3.0;
/// The time constant of [`FlowState::recent_bytes`].
const RECENT_PERIOD: Span = Span::from_millis(100);

impl FlowState {
    /// What [`Self::recent_bytes`] is with a packet that comes now.
    pub fn recent_bytes_with(&self, size: u32, now: Time) -> f64 {
        let age = (now - self.last_seen).as_secs_f64() / RECENT_PERIOD.as_secs_f64();
        self.recent_bytes * (-age).exp() + f64::from(size)
    }
}

impl Slot {
    fn new(flow: u64, last_seen: Time, epoch: u32) -> Self {
        let state = FlowState {
            last_seen,
            bytes: 0.0,
            bound_path: None,
            is_long: false,
            waiting_packets: 0,
            recent_bytes: 0.0,
            largest_packet_bytes: 0,
        };
        Slot { flow, state, epoch }
    }
}

fn row_of(flow: u64) -> usize {
    (mix_bits(flow) % TABLE_ROWS) as usize
}

impl FlowTable {
    pub fn new(now: Time) -> Self {
        let rows =
            SparseTable::new(TABLE_ROWS as usize, || [Slot::new(0, Time::from_nanos(i64::MIN), 0); SLOTS_PER_ROW]);
        let own = [[0; PathId::MAX_PATHS]; 2];
        FlowTable { rows, epoch: 1, epoch_end: now + EPOCH_DURATION, long_flow_counts: [0; 2], bound_flow_counts: own }
    }

    /// The flow to which a packet belongs; forgotten if it was silent for longer than `silence`.
    pub fn get_or_insert(&mut self, flow: u64, silence: Span, now: Time) -> &mut FlowState {
        let row = self.rows.get_mut(row_of(flow));
        let known = row.iter().position(|slot| slot.flow == flow && slot.epoch > 0);
        let oldest = || (0..SLOTS_PER_ROW).min_by_key(|index| row[*index].state.last_seen).unwrap_or(0);
        let index = known.unwrap_or_else(oldest);
        let slot = &mut row[index];
        if known.is_none() || (now - slot.state.last_seen > silence && slot.state.waiting_packets == 0) {
            *slot = Slot::new(flow, now, slot.epoch.max(1));
        }
        &mut slot.state
    }

    /// Whether the flow has sent a few packets of this size within the last 100 ms, and one of them waits besides: it does not
    /// wait for answers, which a connection such as QUIC's does after a few packets.
    pub fn is_steady(&self, flow: u64, size: u32, now: Time) -> bool {
        let slot = self.rows.get(row_of(flow)).and_then(|row| row.iter().find(|slot| slot.flow == flow));
        slot.map(|slot| slot.state).is_some_and(|state| {
            state.waiting_packets > 1 && state.recent_bytes_with(0, now) >= MIN_STEADY_PACKETS * f64::from(size)
        })
    }

    /// So many packets of the flow wait no more.
    pub fn packets_left(&mut self, flow: u64, packets: u16) {
        if let Some(slot) = self.rows.get_mut(row_of(flow)).iter_mut().find(|slot| slot.flow == flow) {
            slot.state.waiting_packets = slot.state.waiting_packets.saturating_sub(packets.into());
        }
    }

    /// Counts the flow as active, among the long ones or those of a path.
    pub fn count_flow(&mut self, flow: u64, now: Time) {
        if now >= self.epoch_end {
            self.epoch += 1;
            self.epoch_end = now + EPOCH_DURATION;
            self.long_flow_counts = [0, self.long_flow_counts[0]];
            self.bound_flow_counts = [[0; PathId::MAX_PATHS], self.bound_flow_counts[0]];
        }
        let row = self.rows.get_mut(row_of(flow));
        let Some(slot) = row.iter_mut().find(|slot| slot.flow == flow) else { return };
        if slot.epoch == self.epoch {
            return;
        }
        slot.epoch = self.epoch;
        match slot.state.bound_path {
            Some(path) => self.bound_flow_counts[0][path.index()] += 1,
            None => self.long_flow_counts[0] += 1,
        }
    }

    /// Flows over several paths that were active of late; at least 1.
    pub fn long_flows(&self) -> u32 {
        self.long_flow_counts[0].max(self.long_flow_counts[1]).max(1)
    }

    /// Flows bound to this path that were active of late; at least 1.
    pub fn bound_flows(&self, path: PathId) -> u32 {
        self.bound_flow_counts[0][path.index()].max(self.bound_flow_counts[1][path.index()]).max(1)
    }
}
