use super::scenario::FairnessPoint;
use crate::delay_quantiles::DelayQuantiles;
use crate::statistics::jain_index;
use kumade_units::{Rate, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The result of one run. Goodput counts payload that reached the receiving application, all else IP packets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FairnessRow {
    /// The network: the added delay, or the row of the table of mixes.
    pub case: String,
    /// Round-trip delay added to all connections.
    pub added_delay_seconds: f64,
    /// The discipline before the bottleneck, with its settings.
    pub discipline: String,
    /// Counted from 1 for each case and discipline. In virtual time the seed follows from it and the case.
    #[schemars(range(min = 1))]
    pub run: u32,
    /// Jain's index of the goodputs of all connections; null where nothing arrived.
    #[schemars(range(min = 0, max = 1))]
    pub jain_index: Option<f64>,
    /// Utilisation of the bottleneck: what it carried, relative to its capacity.
    pub utilisation_ratio: f64,
    /// Sum of the goodputs.
    pub goodput_bits_per_second: f64,
    /// By groups of connections, in the scenario's order.
    pub groups: Vec<GroupShare>,
    /// Each connection's, in the order of the groups.
    pub flows: Vec<FlowShare>,
    /// Queueing delay at the bottleneck; null where no packet passed.
    pub queueing: Option<DelayQuantiles>,
    /// Packets that reached the bottleneck, and those dropped or marked there.
    pub drops: DropCounts,
    /// How often the run was discarded and repeated, because host scheduling delay disturbed it.
    pub repeats: u32,
    /// Whether this last repetition was disturbed as well.
    pub disturbed: bool,
    /// 99th percentile of the delay behind schedule at which the emulated link delivered packets; null in virtual time.
    pub lateness_p99_seconds: Option<f64>,
}

/// The share of one group of connections.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupShare {
    /// Congestion control, and the delay that is the group's own.
    pub group: String,
    /// How many connections it has.
    pub connections: u32,
    /// The mean of their goodputs.
    pub mean_goodput_bits_per_second: f64,
    /// Mean queueing delay of their packets at the bottleneck; null where none passed.
    #[serde(default)]
    pub queueing_mean_seconds: Option<f64>,
    /// 99th percentile of it.
    #[serde(default)]
    pub queueing_p99_seconds: Option<f64>,
}

/// The share of one connection.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowShare {
    /// Its group, counted from 0.
    pub group: u32,
    /// Its goodput.
    pub goodput_bits_per_second: f64,
}

/// Packets at the bottleneck.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DropCounts {
    /// Packets that reached it.
    pub offered_packets: u64,
    /// Dropped because the queue was full.
    pub queue_full_packets: u64,
    /// Dropped by active queue management.
    pub managed_packets: u64,
    /// Marked (ECN) instead of being dropped.
    pub marked_packets: u64,
}

/// What was observed in the network during one run.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FairnessObservation {
    /// Payload bytes that each connection delivered within the measured time, in the order of [`FairnessCase::numbered_connections`].
    ///
    /// [`FairnessCase::numbered_connections`]: super::FairnessCase::numbered_connections
    pub(super) delivered_bytes: Vec<u64>,
    /// How long that time was.
    pub(super) duration: Span,
    /// IP bytes that the bottleneck carried within it.
    pub(super) forwarded_bytes: u64,
    /// Queueing delay at the bottleneck.
    pub(super) queueing: Option<DelayQuantiles>,
    /// That of each group, as its mean and its 99th percentile.
    pub(super) group_queueing: Vec<Option<(f64, f64)>>,
    /// Packets at the bottleneck.
    pub(super) drops: DropCounts,
    /// How late the emulated link was.
    pub(super) lateness_p99: Option<Span>,
}

impl FairnessRow {
    /// Sums up `observed`.
    pub(super) fn new(point: &FairnessPoint<'_>, observed: &FairnessObservation) -> Self {
        let case = point.case;
        let rate = |bytes: u64| Rate::from_bytes_over(bytes, observed.duration).as_f64();
        let flows = case.numbered_connections().zip(&observed.delivered_bytes);
        let flows =
            flows.map(|((group, _), bytes)| FlowShare { group: group as u32, goodput_bits_per_second: rate(*bytes) });
        let flows: Vec<_> = flows.collect();
        let goodputs: Vec<_> = flows.iter().map(|flow| flow.goodput_bits_per_second).collect();
        let groups = case.groups.iter().enumerate().map(|(index, group)| {
            let queueing = observed.group_queueing.get(index).copied().flatten();
            let own = flows.iter().filter(|flow| flow.group == index as u32);
            GroupShare {
                group: group.label(),
                connections: group.connections,
                mean_goodput_bits_per_second: own.map(|flow| flow.goodput_bits_per_second).sum::<f64>()
                    / f64::from(group.connections.max(1)),
                queueing_mean_seconds: queueing.map(|(mean, _)| mean),
                queueing_p99_seconds: queueing.map(|(_, p99)| p99),
            }
        });
        FairnessRow {
            case: case.label.clone(),
            added_delay_seconds: case.added_delay.as_secs_f64(),
            discipline: point.discipline.to_string(),
            run: point.run,
            jain_index: jain_index(&goodputs),
            utilisation_ratio: rate(observed.forwarded_bytes) / case.rate.as_f64(),
            goodput_bits_per_second: goodputs.iter().sum(),
            groups: groups.collect(),
            flows,
            queueing: observed.queueing,
            drops: observed.drops,
            repeats: 0,
            disturbed: false,
            lateness_p99_seconds: observed.lateness_p99.map(Span::as_secs_f64),
        }
    }
}

impl DropCounts {
    /// As a link counts them.
    pub(crate) fn from_counters(counters: &kumade_link::Counters) -> Self {
        DropCounts {
            offered_packets: counters.offered.packets,
            queue_full_packets: counters.queue_full.packets,
            managed_packets: counters.aqm_dropped.packets,
            marked_packets: counters.marked.packets,
        }
    }

    /// Those since `earlier`.
    pub(crate) fn difference_since(self, earlier: DropCounts) -> Self {
        DropCounts {
            offered_packets: self.offered_packets - earlier.offered_packets,
            queue_full_packets: self.queue_full_packets - earlier.queue_full_packets,
            managed_packets: self.managed_packets - earlier.managed_packets,
            marked_packets: self.marked_packets - earlier.marked_packets,
        }
    }
}
