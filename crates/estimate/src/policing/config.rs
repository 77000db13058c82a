use kumade_units::{Rate, Span};

/// What is to be tried, and what it may cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PolicingConfig {
    /// The rate that short trains showed.
    pub rate: Rate,
    /// A faster one that is tried after it, where other trains lost packets: if it falls as behind a policer, that is what limits. No queue
    /// that it fills tells anything, since as much need not be available.
    pub faster_rate: Option<Rate>,
    /// Of cross traffic, as far as known: no more.
    pub max_cross_rate: Rate,
    /// The same if as much is available as short trains showed at the most likely.
    pub expected_cross_rate: Rate,
    /// The largest packet that the transport carries whole, in bytes.
    pub max_packet: u32,
    /// The longest train that it carries, in packets.
    pub max_packets: u32,
    /// Connections on which its packets are in turn and which send again what is lost; none where nothing is. What they retransmit takes a
    /// part of what lasts, and what follows a loss on the same connection is not seen to arrive until then.
    pub connections: Option<u32>,
    /// Whether other trains hint at a token bucket, of which nothing else is known: it is then looked for longer, and may not be full.
    pub is_bucket_hinted: bool,
    /// Whether packets may be lost at any rate, as where a queue is very short: then it is told which part of the train passes, and nothing more
    /// is tried.
    pub is_lossy: bool,
    /// Whether packets arrive as they leave a queue, and do not catch up with those before: only then does their delay tell how a queue grows.
    pub arrives_one_by_one: bool,
    /// IP bytes for which the rate is to be tried at least, as far as the budget allows it: smaller token buckets are not overlooked.
    pub min_trial_bytes: u64,
    /// IP bytes to send at most.
    pub budget_bytes: u64,
    /// How long it may take.
    pub budget_time: Span,
    /// IP bytes that earlier trains may have used of a bucket that has not filled again.
    pub spent_bytes: u64,
    /// The least difference between receive and send stamps before, the clocks' unknown offset included; none if there were none.
    pub min_delay: Option<Span>,
    /// By so much delays vary without queues, where packets catch up with those before: as many of a train wait as long as the slowest of them.
    pub idle_delay_variation: Span,
    /// For the bootstrap.
    pub seed: u64,
}
