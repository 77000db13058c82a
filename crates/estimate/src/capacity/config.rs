use kumade_units::Span;

/// Budget and accuracy of a measurement of capacity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CapacityConfig {
    /// The largest packet that the transport carries whole, in bytes.
    pub max_packet: u32,
    /// The longest train that it carries, in packets; more than [`CapacityProbe::MAX_PACKETS`](super::CapacityProbe::MAX_PACKETS) change nothing.
    pub max_packets: u32,
    /// IP bytes to send at most.
    pub budget_bytes: u64,
    /// How long to go on at most. Where the path or its bucket is so slow that it does not suffice, up to five times as long.
    pub budget_time: Span,
    /// Half the interval's width at which the value is known well enough, as a part of the value.
    pub precision: f64,
    /// By how much the receiver's stamps scatter: bursts take longer where it is known to be much.
    pub stamp_scatter: Span,
    /// For the waits between bursts and for the bootstrap.
    pub seed: u64,
}

impl CapacityConfig {
    /// Trains of any length, 900 kB, one second, one percent.
    pub fn new(max_packet: u32) -> Self {
        CapacityConfig {
            max_packet,
            max_packets: u32::MAX,
            budget_bytes: 900_000,
            budget_time: Span::from_secs(1),
            precision: 0.01,
            stamp_scatter: Span::ZERO,
            seed: 0x6361_7061,
        }
    }
}
