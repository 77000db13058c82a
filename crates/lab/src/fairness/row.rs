use super::scenario::FairnessPoint;
use crate::statistics::jain_index;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Rate, Span};

/// What one run came to. Goodput counts payload that reached the receiving application, all else IP packets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FairnessRow {
    /// The network: the added delay, or the row of the table of mixes.
    pub case: String,
    /// Round-trip delay added to all connections.
    pub added_delay_seconds: f64,
    /// The discipline before the bottleneck, with its settings.
    pub discipline: String,
    /// Counted from 1 for each case and discipline; also the seed.
    #[schemars(range(min = 1))]
    pub run: u32,
    /// Jain's index of the goodputs of all connections; null where nothing arrived.
    #[schemars(range(min = 0, max = 1))]
    pub jain_index: Option<f64>,
    /// What part of its capacity the bottleneck carried.
    pub utilisation_ratio: f64,
    /// Sum of the goodputs.
    pub goodput_bits_per_second: f64,
    /// By groups of connections, in the scenario's order.
    pub groups: Vec<GroupShare>,
    /// Each connection's, in the order of the groups.
    pub flows: Vec<FlowShare>,
    /// How long packets waited at the bottleneck; null where none passed.
    pub queueing: Option<Delays>,
    /// What became of the packets that reached the bottleneck.
    pub drops: DropCounts,
    /// Runs that were thrown away and repeated before this one, because the machine stalled in them.
    pub stalled_repeats: u32,
    /// Whether the machine stalled in this run too, and no repetition was left.
    pub stalled: bool,
    /// How late 99 of 100 packets were delivered by the emulated link at most; null in virtual time.
    pub lateness_p99_seconds: Option<f64>,
}

/// What one group of connections got.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupShare {
    /// Congestion control, and the delay that is the group's own.
    pub group: String,
    /// How many connections it has.
    pub connections: u32,
    /// The mean of their goodputs.
    pub mean_goodput_bits_per_second: f64,
}

/// What one connection got.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowShare {
    /// Its group, counted from 0.
    pub group: u32,
    /// Its goodput.
    pub goodput_bits_per_second: f64,
}

/// How long packets waited.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Delays {
    /// Half of them at most.
    pub median_seconds: f64,
    /// 95 of 100 at most.
    pub p95_seconds: f64,
    /// 99 of 100 at most.
    pub p99_seconds: f64,
}

/// Packets at the bottleneck.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DropCounts {
    /// Reached it.
    pub offered_packets: u64,
    /// Found no room.
    pub queue_full_packets: u64,
    /// Dropped by the discipline though there was room.
    pub managed_packets: u64,
    /// Marked in place of being dropped.
    pub marked_packets: u64,
}

/// What a network tells of one run.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Observed {
    /// Payload bytes that each connection delivered within the measured time, in the order of [`Case::connections`].
    ///
    /// [`Case::connections`]: super::Case::connections
    pub(super) delivered: Vec<u64>,
    /// How long that time was.
    pub(super) duration: Span,
    /// IP bytes that the bottleneck carried within it.
    pub(super) carried: u64,
    /// How long packets waited.
    pub(super) queueing: Option<Delays>,
    /// What became of them.
    pub(super) drops: DropCounts,
    /// How late the emulation was.
    pub(super) lateness_p99: Option<Span>,
}

impl FairnessRow {
    /// What `observed` comes to.
    pub(super) fn new(point: &FairnessPoint<'_>, observed: &Observed) -> Self {
        let case = point.case;
        let rate = |bytes: u64| Rate::from_bytes_over(bytes, observed.duration).as_f64();
        let flows = case.connections().zip(&observed.delivered);
        let flows =
            flows.map(|((group, _), bytes)| FlowShare { group: group as u32, goodput_bits_per_second: rate(*bytes) });
        let flows: Vec<_> = flows.collect();
        let goodputs: Vec<_> = flows.iter().map(|flow| flow.goodput_bits_per_second).collect();
        let groups = case.groups.iter().enumerate().map(|(index, group)| {
            let own = flows.iter().filter(|flow| flow.group == index as u32);
            GroupShare {
                group: group.label(),
                connections: group.connections,
                mean_goodput_bits_per_second: own.map(|flow| flow.goodput_bits_per_second).sum::<f64>()
                    / f64::from(group.connections.max(1)),
            }
        });
        FairnessRow {
            case: case.label.clone(),
            added_delay_seconds: case.added_delay.as_secs_f64(),
            discipline: point.discipline.to_string(),
            run: point.run,
            jain_index: jain_index(&goodputs),
            utilisation_ratio: rate(observed.carried) / case.rate.as_f64(),
            goodput_bits_per_second: goodputs.iter().sum(),
            groups: groups.collect(),
            flows,
            queueing: observed.queueing,
            drops: observed.drops,
            stalled_repeats: 0,
            stalled: false,
            lateness_p99_seconds: observed.lateness_p99.map(Span::as_secs_f64),
        }
    }
}

impl DropCounts {
    /// As a link counts them.
    pub(super) fn of(counters: &link::Counters) -> Self {
        DropCounts {
            offered_packets: counters.offered.packets,
            queue_full_packets: counters.queue_full.packets,
            managed_packets: counters.managed.packets,
            marked_packets: counters.marked.packets,
        }
    }

    /// What has come since `earlier`.
    pub(super) fn since(self, earlier: DropCounts) -> Self {
        DropCounts {
            offered_packets: self.offered_packets - earlier.offered_packets,
            queue_full_packets: self.queue_full_packets - earlier.queue_full_packets,
            managed_packets: self.managed_packets - earlier.managed_packets,
            marked_packets: self.marked_packets - earlier.marked_packets,
        }
    }
}
