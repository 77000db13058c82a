use super::delays::DelayHistogram;
use crate::tcp::SenderStatistics;
use kumade_units::{Rate, Span, Time};

/// What a flow got in an interval.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowReport {
    /// Where the interval begins, …
    pub from: Time,
    /// … and where it ends.
    pub to: Time,
    /// Payload bytes that arrived in order, each counted once; of UDP, all, less 28 bytes of headers per packet.
    pub goodput_bytes: u64,
    /// Packets that the source sent.
    pub sent_packets: u64,
    /// Packets that reached the receiving host.
    pub delivered_packets: u64,
    /// Packets that it got after one with a higher number (RFC 4737), retransmissions by TCP not counted.
    pub out_of_order: u64,
    /// The longest reordering extent of these: how many packets earlier the first with a higher number came.
    pub max_reordering_extent: u64,
    /// UDP packets that it got again.
    pub duplicates: u64,
    /// The longest time in which the receiving application got nothing, up to the ends of the interval.
    pub longest_stall: Span,
    /// One-way delays of UDP packets from host to host; round trips of those that are echoed.
    pub delays: DelayHistogram,
    /// From the end of an outage of a path to the next arrival of data that may have passed it since.
    pub recovery: Option<Span>,
    /// Bytes of its packets that came out of each path, those of the gateways' headers included.
    pub path_bytes: Vec<u64>,
    /// The counters of a TCP sender.
    pub tcp: SenderStatistics,
}

impl FlowReport {
    /// Payload bits per second.
    pub fn goodput(&self) -> Rate {
        Rate::from_bytes_over(self.goodput_bytes, self.to - self.from)
    }
}
