use super::block_sweep::BlockRate;
use super::reordering::Reordering;
use super::trace::TraceSegment;
use crate::delay_quantiles::{DelayQuantiles, EchoDelays};
use kumade_units::Span;

/// What was observed during one run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MultipathObservation {
    /// Payload bytes that were delivered to the receiving application within the measured time, …
    pub delivered_bytes: u64,
    /// … and how long that was.
    pub duration: Span,
    /// Payload of the longest packet.
    pub full_payload_bytes: u64,
    /// Bytes of it as an IP packet on a path, with the headers of a tunnel.
    pub full_packet_bytes: u64,
    /// TCP segments that were sent more than once.
    pub retransmitted_segments: Option<u64>,
    /// In which order packets arrived; none where packets of several connections make up the flow.
    pub reordering: Option<Reordering>,
    /// The numbers of packets in the order of their arrival, for a part of the run.
    pub arrival_order: Vec<u64>,
    /// Packets that were sent and did not arrive.
    pub lost_packets: Option<u64>,
    /// The longest time without an arrival at the application.
    pub longest_gap: Option<Span>,
    /// One-way delay of the sparse flow.
    pub sparse_delays: Option<DelayQuantiles>,
    /// What became of the echo.
    pub echo_delays: Option<EchoDelays>,
    /// From the end of an outage to the next arrival of data.
    pub recovery_time: Option<Span>,
    /// Goodput by the length of writes.
    pub block_rates: Vec<BlockRate>,
    /// Segments of both layers.
    pub trace: Vec<TraceSegment>,
    /// Packets of both directions that each path carried within the measured time.
    pub forwarded_by_path: Vec<u64>,
    /// How late the emulated links were.
    pub lateness_p99: Option<Span>,
}
