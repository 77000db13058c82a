use kumade_units::Span;

/// The settings of a [`Resequencer`](crate::Resequencer).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResequencerConfig {
    /// Packets of all buckets that may wait at once.
    pub max_packets: usize,
    /// Their bytes; a single larger packet may wait alone.
    pub max_bytes: u64,
    /// How much longer than the difference of the paths' delays a packet waits for what nothing shows to be lost, and for
    /// how long a path has to be silent before that.
    pub wait_margin: Span,
    /// How long it waits at most, and where delays are not known.
    pub max_wait: Span,
}

impl Default for ResequencerConfig {
    /// For paths whose delays differ by up to 100 ms at 500 Mbit/s: 8192 packets, 16 MiB, a margin of 10 ms, no wait
    /// above 250 ms.
    fn default() -> Self {
        ResequencerConfig {
            max_packets: 8192,
            max_bytes: 16 << 20,
            wait_margin: Span::from_millis(10),
            max_wait: Span::from_millis(250),
        }
    }
}

/// One-way delays of a path. Only differences between paths matter, so that the clocks of sender and receiver need not
/// agree: all may be wrong by the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DelayRange {
    /// Of a packet that finds no queue.
    pub min: Span,
    /// Of one that finds the queues as long as they usually become.
    pub max: Span,
}
