use crate::choice_pinned::mix;
use crate::path_id::PathId;
use kumade_units::{Span, Time};

/// What is remembered of the flows seen last, in a bounded table: a new flow takes the place of the one that was silent
/// longest among those of its row.
#[derive(Debug)]
pub(crate) struct FlowTable {
    slots: Vec<Slot>,
    epoch: u32,
    epoch_end: Time,
    /// Long flows of this epoch and of the last.
    long: [u32; 2],
    /// Flows of each path's own queue, this epoch and the last.
    own: [[u32; PathId::MAX_PATHS]; 2],
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    flow: u64,
    state: FlowState,
    epoch: u32,
}

/// What is remembered of a flow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FlowState {
    pub last: Time,
    /// Bytes that it has sent, but for those forgotten.
    pub bytes: f64,
    /// Where it goes as long as it is bound to a path.
    pub path: Option<PathId>,
    /// Whether it uses several paths.
    pub long: bool,
    /// How many of its packets wait: it changes its place only while there are none, so that it keeps its order.
    pub waiting: u32,
    /// Bytes that it has sent within about 100 ms.
    pub recent: f64,
    /// Bytes of its longest packet: paths that do not pass that are not for it.
    pub largest: u32,
}

const ROWS: u64 = 1 << 12;
const ROW: usize = 4;
const EPOCH: Span = Span::from_millis(200);

/// A flow that goes on has sent so many packets of late.
const MIN_STEADY: f64 = 3.0;
/// The time constant of [`FlowState::recent`].
const RECENT: Span = Span::from_millis(100);

impl FlowState {
    /// What [`Self::recent`] is with a packet that comes now.
    pub fn recent_with(&self, size: u32, now: Time) -> f64 {
        let age = (now - self.last).as_secs_f64() / RECENT.as_secs_f64();
        self.recent * (-age).exp() + f64::from(size)
    }
}

impl FlowTable {
    pub fn new(now: Time) -> Self {
        let state = FlowState {
            last: Time::from_nanos(i64::MIN),
            bytes: 0.0,
            path: None,
            long: false,
            waiting: 0,
            recent: 0.0,
            largest: 0,
        };
        let slots = vec![Slot { flow: 0, state, epoch: 0 }; ROWS as usize * ROW];
        let own = [[0; PathId::MAX_PATHS]; 2];
        FlowTable { slots, epoch: 1, epoch_end: now + EPOCH, long: [0; 2], own }
    }

    /// The flow to which a packet belongs; forgotten if it was silent for longer than `silence`.
    pub fn touch(&mut self, flow: u64, silence: Span, now: Time) -> &mut FlowState {
        let start = (mix(flow) % ROWS) as usize * ROW;
        let row = &mut self.slots[start..start + ROW];
        let known = row.iter().position(|slot| slot.flow == flow && slot.epoch > 0);
        let oldest = || (0..ROW).min_by_key(|index| row[*index].state.last).unwrap_or(0);
        let index = known.unwrap_or_else(oldest);
        let slot = &mut row[index];
        if known.is_none() || (now - slot.state.last > silence && slot.state.waiting == 0) {
            *slot = Slot {
                flow,
                state: FlowState {
                    last: now,
                    bytes: 0.0,
                    path: None,
                    long: false,
                    waiting: 0,
                    recent: 0.0,
                    largest: 0,
                },
                epoch: slot.epoch.max(1),
            };
        }
        &mut slot.state
    }

    /// Whether the flow has sent a few packets of this size within the last 100 ms, and one of them waits besides: it does not
    /// wait for answers, which a connection such as QUIC's does after a few packets.
    pub fn is_steady(&self, flow: u64, size: u32, now: Time) -> bool {
        let start = (mix(flow) % ROWS) as usize * ROW;
        let state = self.slots[start..start + ROW].iter().find(|slot| slot.flow == flow).map(|slot| slot.state);
        state.is_some_and(|state| state.waiting > 1 && state.recent_with(0, now) >= MIN_STEADY * f64::from(size))
    }

    /// A packet of the flow waits no more.
    pub fn left(&mut self, flow: u64) {
        let start = (mix(flow) % ROWS) as usize * ROW;
        if let Some(slot) = self.slots[start..start + ROW].iter_mut().find(|slot| slot.flow == flow) {
            slot.state.waiting = slot.state.waiting.saturating_sub(1);
        }
    }

    /// Counts the flow as active, among the long ones or those of a path.
    pub fn count(&mut self, flow: u64, now: Time) {
        if now >= self.epoch_end {
            self.epoch += 1;
            self.epoch_end = now + EPOCH;
            self.long = [0, self.long[0]];
            self.own = [[0; PathId::MAX_PATHS], self.own[0]];
        }
        let start = (mix(flow) % ROWS) as usize * ROW;
        let Some(slot) = self.slots[start..start + ROW].iter_mut().find(|slot| slot.flow == flow) else { return };
        if slot.epoch == self.epoch {
            return;
        }
        slot.epoch = self.epoch;
        match slot.state.path {
            Some(path) => self.own[0][path.index()] += 1,
            None => self.long[0] += 1,
        }
    }

    /// Flows over several paths that were active of late; at least 1.
    pub fn long_flows(&self) -> u32 {
        self.long[0].max(self.long[1]).max(1)
    }

    /// Flows bound to this path that were active of late; at least 1.
    pub fn own_flows(&self, path: PathId) -> u32 {
        self.own[0][path.index()].max(self.own[1][path.index()]).max(1)
    }
}
