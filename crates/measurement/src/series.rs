use train::TrainRecord;
use units::{Direction, Span, Time};

/// What trains have cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cost {
    /// IP packets sent.
    pub packets: u64,
    /// IP bytes sent.
    pub bytes: u64,
    /// From the beginning of the series to its result.
    pub duration: Span,
}

/// What became of a train, and of what carried it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CarriedTrain {
    /// Packet by packet, as planned.
    pub record: TrainRecord,
    /// Packets that were sent.
    pub packets: u64,
    /// Their IP bytes.
    pub bytes: u64,
    /// When the last packet left (up) or came (down), on the clock of `now`: the wait for the next train counts from then.
    pub ended: Time,
    /// Whether all stamps are of the kernels.
    pub kernel_stamps: bool,
    /// Whether either side could not go on with its sockets: they must be replaced.
    pub broken: bool,
    /// TCP connections that are alive afterwards; zero for UDP.
    pub connections: u32,
}

/// The trains of one purpose in one direction, one after the other.
#[derive(Debug, Clone)]
pub struct TrainSeries {
    direction: Direction,
    began: Time,
    /// When the newest train had gone.
    ended: Time,
    trains: u32,
    packets: u64,
    bytes: u64,
    kernel_stamps: bool,
}

impl TrainSeries {
    /// Begins now, without a train.
    pub fn new(direction: Direction, now: Time) -> Self {
        TrainSeries { direction, began: now, ended: now, trains: 0, packets: 0, bytes: 0, kernel_stamps: true }
    }

    /// The direction of its trains.
    pub fn direction(&self) -> Direction {
        self.direction
    }

    /// How long to wait from now, where the next train is to leave `gap` after the end of the newest one. What became of
    /// that is known later only.
    pub fn wait(&self, gap: Span, now: Time) -> Span {
        (self.ended + gap - now).max(Span::ZERO)
    }

    /// Counts a train.
    pub fn add(&mut self, carried: &CarriedTrain) {
        self.ended = carried.ended;
        self.trains += 1;
        self.packets += carried.packets;
        self.bytes += carried.bytes;
        self.kernel_stamps &= carried.kernel_stamps;
    }

    /// Trains so far.
    pub fn trains(&self) -> u32 {
        self.trains
    }

    /// IP bytes sent so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether all stamps so far are of the kernels.
    pub fn has_kernel_stamps(&self) -> bool {
        self.kernel_stamps
    }

    /// What it has cost so far.
    pub fn cost(&self, now: Time) -> Cost {
        Cost { packets: self.packets, bytes: self.bytes, duration: now - self.began }
    }
}
