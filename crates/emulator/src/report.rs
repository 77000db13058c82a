//! The document `kumade.link/1`, on which other programs may rely, and the same for people. Its JSON Schema is
//! `schemas/kumade.link.1.json`.

mod text;

use crate::statistics::{DirectionStatistics, DropCause, DurationHistogram, FlowStatistics, fairness_index};
use kumade_link::TrafficCount;
use kumade_packet::{FlowKey, protocol};
use kumade_units::{Rate, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What a link did in a span of time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// The document's kind and version.
    #[schemars(extend("const" = Document::SCHEMA))]
    pub schema: String,
    /// What the span of time is.
    pub covers: ReportSpan,
    /// The link's name.
    pub name: String,
    /// The end of the span: UTC, RFC 3339.
    #[schemars(extend("format" = "date-time"))]
    pub time: String,
    /// How long the span was.
    pub duration_seconds: f64,
    /// From the first interface to the second.
    pub up: DirectionReport,
    /// From the second interface to the first.
    pub down: DirectionReport,
    /// What to think of it.
    pub verdict: TimelinessVerdict,
}

/// What span of time a document is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[serde(rename = "Covers")]
pub enum ReportSpan {
    /// Since the document before.
    Interval,
    /// Since the start.
    Total,
}

/// Whether the machine kept up with the emulated link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[serde(rename = "Verdict")]
pub struct TimelinessVerdict {
    /// Whether packets were delivered when they were due: 99 % of them at most 0.3 ms late.
    pub on_time: bool,
    /// The same in words, with what to do.
    pub message: String,
}

/// One direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[serde(rename = "Direction")]
pub struct DirectionReport {
    /// The interface where packets arrive.
    pub from: String,
    /// The interface where they are sent.
    pub to: String,
    /// The settings at the end of the span, as on the command line.
    pub settings: String,
    /// Reached the link.
    pub offered: Traffic,
    /// Delivered to the other side.
    pub delivered: Traffic,
    /// Marked by the queue (ECN); counted as delivered too.
    pub marked: Traffic,
    /// Delivered with a bit inverted, as settings ask; counted as delivered too.
    #[serde(default)]
    pub corrupted: Traffic,
    /// Dropped, by cause.
    pub dropped: Drops,
    /// In the queue at the end of the span.
    pub queued_bytes: u64,
    /// In the queue: from arrival until transmission began; null where nothing was delivered.
    pub queueing_delay: Option<Percentiles>,
    /// The histogram of that; a bucket does not include the one before it.
    pub queueing_delay_histogram: Vec<Bucket>,
    /// From arrival to delivery; null where nothing was delivered.
    pub sojourn: Option<Percentiles>,
    /// The histogram of that, in the same way.
    pub sojourn_histogram: Vec<Bucket>,
    /// How much later than due packets were delivered, an error of this machine; null where nothing was delivered.
    pub lateness: Option<Percentiles>,
    /// The histogram of that, in the same way.
    pub lateness_histogram: Vec<Bucket>,
    /// Jain's fairness index of the bytes delivered of active flows, in a total the mean over its intervals; null where
    /// no flow was active.
    pub fairness_index_ratio: Option<f64>,
    /// The number of active flows: those with at least ten packets offered.
    pub active_flows: u64,
    /// The largest flows, the largest first: at most twenty.
    pub flows: Vec<Flow>,
    /// All other flows together.
    pub other_flows: FlowTraffic,
}

/// Packets, and their bytes at the IP layer.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Traffic {
    /// How many.
    pub packets: u64,
    /// Their IP packets' bytes.
    pub bytes: u64,
    /// Over the span.
    pub bits_per_second: f64,
}

/// Dropped packets, by cause.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Drops {
    /// The queue had no room.
    pub queue_full: Traffic,
    /// The queue discipline dropped them, although the queue had room.
    #[serde(rename = "managed")]
    pub aqm: Traffic,
    /// The policer dropped them: they exceeded its rate and burst.
    pub policed: Traffic,
    /// The emulated loss.
    pub loss: Traffic,
    /// A filter rule dropped them.
    pub refused: Traffic,
    /// Malformed: they cannot be forwarded.
    pub malformed: Traffic,
    /// Larger than the MTU of the other side.
    pub too_large: Traffic,
    /// They arrived faster than this program could read them, or more were in flight than it may hold.
    pub overload: Traffic,
    /// The other side's interface refused them.
    pub output: Traffic,
}

/// Durations.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Percentiles {
    /// The mean.
    pub mean_seconds: f64,
    /// The median.
    pub p50_seconds: f64,
    /// The 90th percentile.
    pub p90_seconds: f64,
    /// The 99th percentile.
    pub p99_seconds: f64,
    /// The 99.9th percentile.
    pub p99_9_seconds: f64,
    /// The maximum.
    pub maximum_seconds: f64,
}

/// A bucket of a histogram.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bucket {
    /// The upper bound; null for the last bucket, which has none.
    pub up_to_seconds: Option<f64>,
    /// How many.
    pub packets: u64,
}

/// A flow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// Its identifier, as the setting `heavy-flows` takes it.
    pub id: String,
    /// Protocol, addresses and ports, such as `tcp 10.0.0.1:5000 > 10.0.0.2:80`; null where they are not known.
    pub name: Option<String>,
    /// Its packets.
    pub traffic: FlowTraffic,
}

/// What became of a flow's packets.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowTraffic {
    /// Reached the link.
    pub offered: Traffic,
    /// Delivered to the other side.
    pub delivered: Traffic,
    /// Marked by the queue (ECN).
    pub marked: Traffic,
    /// Dropped, for whatever cause.
    pub dropped: Traffic,
}

/// Which link and which span a document is about.
#[derive(Debug, Clone)]
pub struct ReportContext<'a> {
    /// The link's name.
    pub name: &'a str,
    /// The names of its interfaces.
    pub ports: [&'a str; 2],
    /// What is set.
    pub settings: &'a [String; 2],
    /// What the span is.
    pub covers: ReportSpan,
    /// How long it was.
    pub duration: Span,
    /// The mean fairness index of each direction over the intervals within; of the span itself where there are none.
    pub fairness: [Option<f64>; 2],
}

/// Above this lateness the emulated link differs from its settings. The lab has the same bound.
pub const MAX_LATENESS: Span = Span::from_micros(300);
/// The ranges of the histograms.
const SOJOURN_BUCKETS: [Span; 13] = [
    Span::from_micros(100),
    Span::from_micros(300),
    Span::from_millis(1),
    Span::from_millis(2),
    Span::from_millis(5),
    Span::from_millis(10),
    Span::from_millis(20),
    Span::from_millis(50),
    Span::from_millis(100),
    Span::from_millis(200),
    Span::from_millis(500),
    Span::from_secs(1),
    Span::from_secs(5),
];
const LATENESS_BUCKETS: [Span; 13] = [
    Span::from_micros(1),
    Span::from_micros(2),
    Span::from_micros(5),
    Span::from_micros(10),
    Span::from_micros(20),
    Span::from_micros(50),
    Span::from_micros(100),
    Span::from_micros(200),
    MAX_LATENESS,
    Span::from_millis(1),
    Span::from_millis(3),
    Span::from_millis(10),
    Span::from_millis(100),
];
/// So many flows are named.
const MAX_NAMED_FLOWS: usize = 20;

impl Document {
    /// The name and version of the document.
    pub const SCHEMA: &str = "kumade.link/1";

    /// What the statistics of both directions come to.
    pub fn new(occasion: &ReportContext<'_>, statistics: &[DirectionStatistics; 2]) -> Self {
        let [first, second] = occasion.ports;
        let direction = |number: usize, ports| {
            DirectionReport::new(ports, &occasion.settings[number], occasion.duration, &statistics[number])
                .with_fairness(occasion.fairness[number])
        };
        Document {
            schema: Document::SCHEMA.to_owned(),
            covers: occasion.covers,
            name: occasion.name.to_owned(),
            time: format!("{:.3}", jiff::Timestamp::now()),
            duration_seconds: occasion.duration.as_secs_f64(),
            up: direction(0, [first, second]),
            down: direction(1, [second, first]),
            verdict: TimelinessVerdict::new(statistics),
        }
    }

    /// The JSON Schema of such documents.
    pub fn json_schema() -> serde_json::Value {
        schemars::schema_for!(Document).to_value()
    }
}

impl DirectionReport {
    fn new([from, to]: [&str; 2], settings: &str, duration: Span, statistics: &DirectionStatistics) -> Self {
        let over = |count: TrafficCount| Traffic::new(count, duration);
        let fairness = fairness_index(&statistics.flows);
        let (flows, other_flows) = largest_flows(statistics, duration);
        DirectionReport {
            from: from.to_owned(),
            to: to.to_owned(),
            settings: settings.to_owned(),
            offered: over(statistics.counts.offered),
            delivered: over(statistics.counts.delivered),
            marked: over(statistics.counts.marked),
            corrupted: over(statistics.counts.corrupted),
            dropped: Drops::new(|cause| over(statistics.counts.dropped_for(cause))),
            queued_bytes: statistics.counts.queued_bytes,
            queueing_delay: Percentiles::new(&statistics.queueing),
            queueing_delay_histogram: histogram_buckets(&statistics.queueing, &SOJOURN_BUCKETS),
            sojourn: Percentiles::new(&statistics.sojourn),
            sojourn_histogram: histogram_buckets(&statistics.sojourn, &SOJOURN_BUCKETS),
            lateness: Percentiles::new(&statistics.lateness),
            lateness_histogram: histogram_buckets(&statistics.lateness, &LATENESS_BUCKETS),
            fairness_index_ratio: fairness.map(|(index, _)| index),
            active_flows: fairness.map_or(0, |(_, flows)| flows as u64),
            flows,
            other_flows,
        }
    }

    fn with_fairness(self, mean: Option<f64>) -> Self {
        DirectionReport { fairness_index_ratio: mean.or(self.fairness_index_ratio), ..self }
    }
}

impl TimelinessVerdict {
    fn new(statistics: &[DirectionStatistics; 2]) -> Self {
        /// One moment in which the machine did something else delays as many: of a few dozen packets, those are more than 1 %.
        const MIN_LATE_PACKETS: u64 = 5;
        let late = statistics.iter().filter_map(|direction| direction.lateness.quantile(0.99)).max();
        let late_packets = |lateness: &DurationHistogram| lateness.count() - lateness.count_up_to(MAX_LATENESS);
        let is_told = statistics.iter().any(|direction| {
            direction.lateness.quantile(0.99) > Some(MAX_LATENESS)
                && late_packets(&direction.lateness) >= MIN_LATE_PACKETS
        });
        let overload = statistics.iter().any(|direction| direction.counts.dropped_for(DropCause::Overload).packets > 0);
        let (on_time, message) = match late {
            _ if overload => {
                let text = "packets were dropped because they arrived faster than this program could read them, or more of \
                            them were in flight than it may hold: lower the rate or the delay, or leave it a CPU of its own";
                (false, text.to_owned())
            }
            Some(late) if late > MAX_LATENESS && is_told => {
                let text = format!(
                    "this machine was too slow: 1 % of the packets were delivered {late} late or more, above the bound of \
                     {MAX_LATENESS}; lower the rate, or leave this program a CPU of its own"
                );
                (false, text)
            }
            Some(late) if late > MAX_LATENESS => (
                true,
                format!(
                    "a few packets were delivered {late} late or more: too few to say that this machine is too slow"
                ),
            ),
            Some(late) => {
                (true, format!("the machine kept up: 99 % of the packets were delivered at most {late} late"))
            }
            None => (true, "no packet was delivered".to_owned()),
        };
        TimelinessVerdict { on_time, message }
    }
}

impl Traffic {
    fn new(count: TrafficCount, duration: Span) -> Self {
        let rate = Rate::from_bytes_over(count.bytes, duration);
        Traffic { packets: count.packets, bytes: count.bytes, bits_per_second: rate.as_f64() }
    }
}

impl Drops {
    fn new(of: impl Fn(DropCause) -> Traffic) -> Self {
        Drops {
            queue_full: of(DropCause::QueueFull),
            aqm: of(DropCause::Aqm),
            policed: of(DropCause::Policed),
            loss: of(DropCause::EmulatedLoss),
            refused: of(DropCause::FilteredByRule),
            malformed: of(DropCause::Malformed),
            too_large: of(DropCause::TooLarge),
            overload: of(DropCause::Overload),
            output: of(DropCause::OutputRefused),
        }
    }
}

impl Percentiles {
    fn new(times: &DurationHistogram) -> Option<Self> {
        let quantile = |part| Some(times.quantile(part)?.as_secs_f64());
        Some(Percentiles {
            mean_seconds: times.mean()?.as_secs_f64(),
            p50_seconds: quantile(0.5)?,
            p90_seconds: quantile(0.9)?,
            p99_seconds: quantile(0.99)?,
            p99_9_seconds: quantile(0.999)?,
            maximum_seconds: quantile(1.0)?,
        })
    }
}

impl FlowTraffic {
    fn new(flow: &FlowStatistics, duration: Span) -> Self {
        let over = |count| Traffic::new(count, duration);
        let (offered, delivered) = (over(flow.offered), over(flow.delivered));
        FlowTraffic { offered, delivered, marked: over(flow.marked), dropped: over(flow.dropped) }
    }
}

/// The flows that sent most, and the rest of the totals.
fn largest_flows(statistics: &DirectionStatistics, duration: Span) -> (Vec<Flow>, FlowTraffic) {
    let mut flows: Vec<_> = statistics.flows.iter().filter(|flow| flow.offered.packets > 0).collect();
    flows.sort_unstable_by_key(|flow| (std::cmp::Reverse(flow.offered.bytes), flow.flow));
    flows.truncate(MAX_NAMED_FLOWS);
    let rest = |total: TrafficCount, of: fn(&FlowStatistics) -> TrafficCount| {
        flows.iter().fold(total, |rest, flow| TrafficCount {
            packets: rest.packets.saturating_sub(of(flow).packets),
            bytes: rest.bytes.saturating_sub(of(flow).bytes),
        })
    };
    let others = FlowStatistics {
        offered: rest(statistics.counts.offered, |flow| flow.offered),
        delivered: rest(statistics.counts.delivered, |flow| flow.delivered),
        marked: rest(statistics.counts.marked, |flow| flow.marked),
        dropped: rest(statistics.counts.total_dropped(), |flow| flow.dropped),
        ..FlowStatistics::default()
    };
    let named = |flow: &&FlowStatistics| Flow {
        id: flow.flow.to_string(),
        name: flow.key.map(|key| flow_name(&key)),
        traffic: FlowTraffic::new(flow, duration),
    };
    (flows.iter().map(named).collect(), FlowTraffic::new(&others, duration))
}

fn histogram_buckets(times: &DurationHistogram, ends: &[Span]) -> Vec<Bucket> {
    let mut below = 0;
    let ends = ends.iter().copied().map(Some).chain([None]);
    let buckets = ends.map(|end| {
        let total = end.map_or(times.count(), |end| times.count_up_to(end));
        let packets = total.saturating_sub(below);
        below = total.max(below);
        Bucket { up_to_seconds: end.map(|end| end.as_nanos() as f64 / 1e9), packets }
    });
    buckets.collect()
}

/// A flow as people write it.
fn flow_name(key: &FlowKey) -> String {
    let protocol: &dyn fmt::Display = match key.protocol {
        protocol::TCP => &"tcp",
        protocol::UDP => &"udp",
        protocol::ICMP | protocol::ICMPV6 => &"icmp",
        ref other => &format!("protocol {other}"),
    };
    let has_ports = key.source.port() != 0 || key.destination.port() != 0;
    let end = |end: std::net::SocketAddr| if has_ports { end.to_string() } else { end.ip().to_string() };
    format!("{protocol} {} > {}", end(key.source), end(key.destination))
}

#[cfg(test)]
mod tests;
