use super::block_sweep::BlockRate;
use super::observation::MultipathObservation;
use super::reordering::Reordering;
use super::scenario::{MultipathPoint, Workload};
use super::trace::TraceSegment;
use crate::delay_quantiles::{DelayQuantiles, EchoDelays};
use kumade_units::{Rate, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The result of one run. Goodput counts payload that reached the receiving application, the paths' rates IP packets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MultipathRow {
    /// The set of paths.
    pub case: String,
    /// The plane, with its ratio.
    pub contender: String,
    /// Counted from 1 for each case and contender; also the seed.
    #[schemars(range(min = 1))]
    pub run: u32,
    /// Payload delivered per second.
    pub goodput_bits_per_second: f64,
    /// The same relative to the sum of the paths' rates; null where the paths have none.
    pub share_of_sum_ratio: Option<f64>,
    /// What the framing leaves: the payload of a full packet relative to its length on a path.
    pub framing_ratio: Option<f64>,
    /// Goodput relative to what the framing leaves of the sum of the paths' rates.
    pub share_of_framing_ratio: Option<f64>,
    /// TCP segments that were sent more than once; null for UDP.
    pub retransmitted_segments: Option<u64>,
    /// In which order packets arrived at the receiving host; null for Multipath TCP, whose connections are several.
    pub order: Option<Reordering>,
    /// The numbers of packets in the order of their arrival, for a part of the run.
    #[serde(default)]
    pub arrival_order: Vec<u64>,
    /// Packets that did not arrive; null for TCP.
    pub lost_packets: Option<u64>,
    /// The longest time without an arrival at the application; null for UDP.
    pub longest_gap_seconds: Option<f64>,
    /// One-way delay of the sparse flow; null where there was none.
    pub sparse_delay: Option<DelayQuantiles>,
    /// The same above the delay of the shortest path, of 99 of 100 packets.
    pub sparse_added_p99_seconds: Option<f64>,
    /// Of the echo beside the flow; null where there was none.
    #[serde(default)]
    pub echo: Option<EchoDelays>,
    /// From the end of an outage until data of the flow arrived again; null where there was none, or none arrived.
    #[serde(default)]
    pub recovery_seconds: Option<f64>,
    /// The congestion control of the flow; null for UDP.
    #[serde(default)]
    pub congestion_control: Option<String>,
    /// That of the connections that carry it; null where none do.
    #[serde(default)]
    pub lower_congestion_control: Option<String>,
    /// Goodput by the length of writes; empty where that was not varied.
    #[serde(default)]
    pub blocks: Vec<BlockRate>,
    /// The segments of both layers as they left, thinned out but for those that were repeated; empty where they were not
    /// recorded.
    #[serde(default)]
    pub trace: Vec<TraceSegment>,
    /// Each path's part of the packets that all carried.
    pub path_ratios: Vec<f64>,
    /// How often the run was discarded and repeated, because host scheduling delay disturbed it.
    pub repeats: u32,
    /// Whether this last repetition was disturbed as well.
    pub disturbed: bool,
    /// 99th percentile of the delay behind schedule at which the emulated links delivered packets; null in virtual time.
    pub lateness_p99_seconds: Option<f64>,
}

impl MultipathRow {
    /// Sums up `observed`.
    pub(crate) fn new(point: &MultipathPoint<'_>, workload: Workload, observed: MultipathObservation) -> Self {
        let goodput = Rate::from_bytes_over(observed.delivered_bytes, observed.duration).as_f64();
        let has_rates = !matches!(workload, Workload::Flood { .. });
        let sum = has_rates.then(|| point.case.total_rate().as_f64());
        let framing = (observed.full_packet_bytes > 0)
            .then(|| observed.full_payload_bytes as f64 / observed.full_packet_bytes as f64);
        let carried: u64 = observed.forwarded_by_path.iter().sum();
        let part = |packets: &u64| *packets as f64 / carried.max(1) as f64;
        let shortest = point.case.min_delay().as_secs_f64();
        MultipathRow {
            case: point.case.label.clone(),
            contender: point.contender.to_string(),
            run: point.run,
            goodput_bits_per_second: goodput,
            share_of_sum_ratio: sum.map(|sum| goodput / sum),
            framing_ratio: framing,
            share_of_framing_ratio: sum.zip(framing).map(|(sum, framing)| goodput / (sum * framing)),
            retransmitted_segments: observed.retransmitted_segments,
            order: observed.reordering,
            arrival_order: observed.arrival_order,
            lost_packets: observed.lost_packets,
            longest_gap_seconds: observed.longest_gap.map(Span::as_secs_f64),
            sparse_added_p99_seconds: observed.sparse_delays.map(|delays| delays.p99_seconds - shortest),
            sparse_delay: observed.sparse_delays,
            echo: observed.echo_delays,
            recovery_seconds: observed.recovery_time.map(Span::as_secs_f64),
            congestion_control: workload.congestion_control().map(str::to_owned),
            lower_congestion_control: point.contender.plane.lower_congestion_control().map(str::to_owned),
            blocks: observed.block_rates,
            trace: observed.trace,
            path_ratios: observed.forwarded_by_path.iter().map(part).collect(),
            repeats: 0,
            disturbed: false,
            lateness_p99_seconds: observed.lateness_p99.map(Span::as_secs_f64),
        }
    }
}
