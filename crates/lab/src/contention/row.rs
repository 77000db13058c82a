use super::scenario::ContentionPoint;
use crate::delay_quantiles::DelayQuantiles;
use crate::fairness::{DropCounts, FlowShare};
use crate::statistics::jain_index;
use kumade_units::{Rate, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The result of one run. Rates count IP packets that came through the bottleneck.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ContentionRow {
    /// Who competed.
    pub case: String,
    /// The discipline before the bottleneck, with its settings.
    pub discipline: String,
    /// Counted from 1 for each case and discipline.
    #[schemars(range(min = 1))]
    pub run: u32,
    /// The seed of all its random numbers.
    pub seed: u64,
    /// Jain's index of the bulk transfers' shares; null where nothing arrived.
    #[schemars(range(min = 0, max = 1))]
    pub jain_index: Option<f64>,
    /// What the bulk transfers got together, relative to what max-min fairness leaves them beside the attacker's demand.
    pub bulk_share_ratio: f64,
    /// Each bulk transfer's share, in the order of the groups.
    pub flows: Vec<FlowShare>,
    /// The longest time without an arrival of any one bulk transfer, to 10 ms.
    pub longest_stall_seconds: f64,
    /// What the attacker got; null without one.
    pub attack: Option<AttackShare>,
    /// What became of sparse packets; null without them.
    pub probes: Option<ProbeDelays>,
    /// What became of short transfers; null without them.
    pub short_flows: Option<ShortFlowTimes>,
    /// Utilisation of the bottleneck: what it carried, relative to its capacity.
    pub utilisation_ratio: f64,
    /// Queueing delay at the bottleneck; null where no packet passed.
    pub queueing: Option<DelayQuantiles>,
    /// Packets that reached the bottleneck, and those dropped or marked there.
    pub drops: DropCounts,
    /// Packets of bulk transfers that they had to send again.
    pub bulk_retransmissions: u64,
    /// Packets that bulk transfers sent; in real time, as many full packets as they delivered and sent again.
    pub bulk_packets: u64,
    /// How often the run was discarded and repeated, because host scheduling delay disturbed it.
    pub repeats: u32,
    /// Whether this last repetition was disturbed as well.
    pub disturbed: bool,
    /// 99th percentile of the delay behind schedule at which the emulated link delivered packets; null in virtual time.
    pub lateness_p99_seconds: Option<f64>,
}

/// What an attacker got.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AttackShare {
    /// What it sent, in words.
    pub pattern: String,
    /// What it sent.
    pub offered_bits_per_second: f64,
    /// What came through.
    pub goodput_bits_per_second: f64,
    /// What came through, relative to an equal share of the bottleneck.
    pub share_ratio: f64,
}

/// Probes arrive within this, or are lost.
pub(super) const MAX_PROBE_DELAY: Span = Span::from_millis(500);

/// Delays of sparse packets.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProbeDelays {
    /// What competition added to the delay of the idle path; null where none arrived.
    pub added: Option<DelayQuantiles>,
    /// Those that were sent within the measured time and arrived, also after it.
    pub packets: u64,
    /// Part of the packets sent within that time that were lost.
    pub lost_ratio: f64,
}

/// How long short transfers took, from the first packet to the last acknowledgement, without a handshake.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShortFlowTimes {
    /// Those that began early enough to be counted.
    pub started: u32,
    /// Those that had not ended when the run did.
    pub unfinished: u32,
    /// Mean time of those that ended; null without any.
    pub mean_seconds: Option<f64>,
    /// Quantiles of these times.
    pub times: Option<DelayQuantiles>,
}

/// What was observed in the network during one run.
#[derive(Debug, Clone)]
pub(super) struct ContentionObservation {
    /// IP bits per second of each bulk transfer, with its group.
    pub(super) flows: Vec<FlowShare>,
    pub(super) longest_stall_seconds: f64,
    /// What was sent, in words; offered, and delivered.
    pub(super) attack: Option<(String, f64, f64)>,
    pub(super) probes: Option<ProbeDelays>,
    pub(super) short_flows: Option<ShortFlowTimes>,
    /// IP bits per second that the bottleneck carried.
    pub(super) forwarded_bits_per_second: f64,
    pub(super) queueing: Option<DelayQuantiles>,
    pub(super) drops: DropCounts,
    pub(super) bulk_retransmissions: u64,
    pub(super) bulk_packets: u64,
    /// How late the emulated link was.
    pub(super) lateness_p99: Option<Span>,
}

impl ContentionRow {
    /// Sums up `observed` at a bottleneck of that rate.
    pub(super) fn new(point: &ContentionPoint<'_>, bottleneck: Rate, observed: ContentionObservation) -> Self {
        let (rate, share) =
            (point.case.measured_rate(bottleneck).as_f64(), point.case.equal_share(bottleneck).as_f64());
        let shares: Vec<_> = observed.flows.iter().map(|flow| flow.goodput_bits_per_second).collect();
        // Who asks for less than an equal share gets that; the others divide the rest.
        let demand = observed.attack.as_ref().map_or(0.0, |(_, offered, _)| offered.min(share));
        let attack = |(pattern, offered_bits_per_second, goodput_bits_per_second)| AttackShare {
            pattern,
            offered_bits_per_second,
            goodput_bits_per_second,
            share_ratio: goodput_bits_per_second / share,
        };
        ContentionRow {
            case: point.case.label.clone(),
            discipline: point.discipline.to_string(),
            run: point.run,
            seed: point.seed,
            jain_index: jain_index(&shares),
            bulk_share_ratio: shares.iter().sum::<f64>() / (rate - demand),
            flows: observed.flows,
            longest_stall_seconds: observed.longest_stall_seconds,
            attack: observed.attack.map(attack),
            probes: observed.probes,
            short_flows: observed.short_flows,
            utilisation_ratio: observed.forwarded_bits_per_second / rate,
            queueing: observed.queueing,
            drops: observed.drops,
            bulk_retransmissions: observed.bulk_retransmissions,
            bulk_packets: observed.bulk_packets,
            repeats: 0,
            disturbed: false,
            lateness_p99_seconds: observed.lateness_p99.map(Span::as_secs_f64),
        }
    }
}
