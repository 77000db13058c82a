//! The document `kumade.link/1`, on which other programs may rely, and the same for people. Its JSON Schema is
//! `schemas/kumade.link.1.json`.

mod text;

use crate::settings::Settings;
use crate::statistics::{DirectionStatistics, DropCause, FlowStatistics, Times, fairness_index};
use link::Count;
use packet::{FlowKey, protocol};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use units::{Rate, Span};

/// What a link did in a span of time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// The document's kind and version.
    #[schemars(extend("const" = Document::SCHEMA))]
    pub schema: String,
    /// What the span of time is.
    pub covers: Covers,
    /// The link's name.
    pub name: String,
    /// The end of the span: UTC, RFC 3339.
    #[schemars(extend("format" = "date-time"))]
    pub time: String,
    /// How long the span was.
    pub duration_seconds: f64,
    /// From the first interface to the second.
    pub up: Direction,
    /// From the second interface to the first.
    pub down: Direction,
    /// What to think of it.
    pub verdict: Verdict,
}

/// What span of time a document is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Covers {
    /// Since the document before.
    Interval,
    /// Since the start.
    Total,
}

/// Whether the machine kept up with the link that it was to be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Verdict {
    /// Whether what was delivered came out when it was due: 99 of 100 packets at most 0.3 ms late.
    pub on_time: bool,
    /// The same in words, with what to do.
    pub message: String,
}

/// One direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Direction {
    /// The interface where packets come in.
    pub from: String,
    /// The interface where they go out.
    pub to: String,
    /// The settings at the end of the span, as they are written.
    pub settings: String,
    /// Reached the link.
    pub offered: Traffic,
    /// Came out.
    pub delivered: Traffic,
    /// Marked by the queue (ECN); counted as delivered too.
    pub marked: Traffic,
    /// Did not come out, by cause.
    pub dropped: Drops,
    /// What waited for the link at the end of the span.
    pub queued_bytes: u64,
    /// From arrival to delivery; null where nothing was delivered.
    pub sojourn: Option<Percentiles>,
    /// How many packets took how long, each bucket without those of the one before it.
    pub sojourn_histogram: Vec<Bucket>,
    /// How much later than due packets were delivered: what this machine added. Null where nothing was delivered.
    pub lateness: Option<Percentiles>,
    /// How many packets were how late, in the same way.
    pub lateness_histogram: Vec<Bucket>,
    /// Jain's index of what the active flows got through, in a total the mean of its intervals; null where none was
    /// active.
    pub fairness_index_ratio: Option<f64>,
    /// Flows of which at least ten packets were offered.
    pub active_flows: u64,
    /// The flows that sent most, most first: at most twenty.
    pub flows: Vec<Flow>,
    /// All the others together.
    pub other_flows: FlowTraffic,
}

/// Packets, and their bytes at the IP layer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Traffic {
    /// How many.
    pub packets: u64,
    /// Their IP packets' bytes.
    pub bytes: u64,
    /// Over the span.
    pub bits_per_second: f64,
}

/// What did not come out, by cause.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Drops {
    /// The queue had no room.
    pub queue_full: Traffic,
    /// The queue's discipline chose it.
    pub managed: Traffic,
    /// Lost as the settings ask.
    pub loss: Traffic,
    /// A rule refused it.
    pub refused: Traffic,
    /// It was no packet that can be forwarded.
    pub malformed: Traffic,
    /// It was larger than the other side takes.
    pub too_large: Traffic,
    /// More came than this program could read in time, or was on its way than it may hold.
    pub overload: Traffic,
    /// The other side did not take it.
    pub output: Traffic,
}

/// How long something took.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Percentiles {
    /// The mean.
    pub mean_seconds: f64,
    /// What half of them do not exceed.
    pub p50_seconds: f64,
    /// What 90 % do not exceed.
    pub p90_seconds: f64,
    /// What 99 % do not exceed.
    pub p99_seconds: f64,
    /// What 99.9 % do not exceed.
    pub p99_9_seconds: f64,
    /// The longest.
    pub maximum_seconds: f64,
}

/// One of the histogram's ranges.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bucket {
    /// No more than this; null for all that are beyond the bucket before.
    pub up_to_seconds: Option<f64>,
    /// How many.
    pub packets: u64,
}

/// What one flow did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// The number by which it is told from others, as `heavy-flows` wants it.
    pub id: String,
    /// Who speaks to whom, such as `tcp 10.0.0.1:5000 > 10.0.0.2:80`; null where that is not known.
    pub name: Option<String>,
    /// What it did.
    pub traffic: FlowTraffic,
}

/// What became of a flow's packets.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowTraffic {
    /// Reached the link.
    pub offered: Traffic,
    /// Came out.
    pub delivered: Traffic,
    /// Marked by the queue (ECN).
    pub marked: Traffic,
    /// Did not come out, for whatever cause.
    pub dropped: Traffic,
}

/// Which link and which span a document is about.
#[derive(Debug, Clone)]
pub struct Occasion<'a> {
    /// The link's name.
    pub name: &'a str,
    /// The names of its interfaces.
    pub ports: [&'a str; 2],
    /// What is set.
    pub settings: &'a [Settings; 2],
    /// What the span is.
    pub covers: Covers,
    /// How long it was.
    pub duration: Span,
    /// The mean fairness index of each direction over the intervals within; of the span itself where there are none.
    pub fairness: [Option<f64>; 2],
}

/// Above this the link was not what it was set to be. The lab judges by the same.
pub const LATE_ABOVE: Span = Span::from_micros(300);
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
    LATE_ABOVE,
    Span::from_millis(1),
    Span::from_millis(3),
    Span::from_millis(10),
    Span::from_millis(100),
];
/// So many flows are named.
const MAX_FLOWS: usize = 20;

impl Document {
    /// The name and version of the document.
    pub const SCHEMA: &str = "kumade.link/1";

    /// What the statistics of both directions come to.
    pub fn new(occasion: &Occasion<'_>, statistics: &[DirectionStatistics; 2]) -> Self {
        let [first, second] = occasion.ports;
        let [up_settings, down_settings] = occasion.settings;
        let direction = |number: usize, ports, settings| {
            Direction::new(ports, settings, occasion.duration, &statistics[number])
                .with_fairness(occasion.fairness[number])
        };
        Document {
            schema: Document::SCHEMA.to_owned(),
            covers: occasion.covers,
            name: occasion.name.to_owned(),
            time: format!("{:.3}", jiff::Timestamp::now()),
            duration_seconds: occasion.duration.as_secs_f64(),
            up: direction(0, [first, second], up_settings),
            down: direction(1, [second, first], down_settings),
            verdict: Verdict::new(statistics),
        }
    }

    /// The JSON Schema of such documents.
    pub fn json_schema() -> serde_json::Value {
        schemars::schema_for!(Document).to_value()
    }
}

impl Direction {
    fn new([from, to]: [&str; 2], settings: &Settings, duration: Span, statistics: &DirectionStatistics) -> Self {
        let over = |count: Count| Traffic::new(count, duration);
        let fairness = fairness_index(&statistics.flows);
        let (flows, other_flows) = heaviest(statistics, duration);
        Direction {
            from: from.to_owned(),
            to: to.to_owned(),
            settings: settings.to_string(),
            offered: over(statistics.counts.offered),
            delivered: over(statistics.counts.delivered),
            marked: over(statistics.counts.marked),
            dropped: Drops::new(|cause| over(statistics.counts.dropped(cause))),
            queued_bytes: statistics.counts.queued_bytes,
            sojourn: Percentiles::new(&statistics.sojourn),
            sojourn_histogram: histogram(&statistics.sojourn, &SOJOURN_BUCKETS),
            lateness: Percentiles::new(&statistics.lateness),
            lateness_histogram: histogram(&statistics.lateness, &LATENESS_BUCKETS),
            fairness_index_ratio: fairness.map(|(index, _)| index),
            active_flows: fairness.map_or(0, |(_, flows)| flows as u64),
            flows,
            other_flows,
        }
    }

    fn with_fairness(self, mean: Option<f64>) -> Self {
        Direction { fairness_index_ratio: mean.or(self.fairness_index_ratio), ..self }
    }
}

impl Verdict {
    fn new(statistics: &[DirectionStatistics; 2]) -> Self {
        let late = statistics.iter().filter_map(|direction| direction.lateness.quantile(0.99)).max();
        let overload = statistics.iter().any(|direction| direction.counts.dropped(DropCause::Overload).packets > 0);
        let (on_time, message) = match late {
            _ if overload => {
                let text = "packets were dropped because more came than this program could read in time, or was on its \
                            way than it may hold: lower the rate or the delay, or leave it a processor of its own";
                (false, text.to_owned())
            }
            Some(late) if late > LATE_ABOVE => {
                let text = format!(
                    "this machine was too slow: one packet in a hundred came out {late} late or more, where {LATE_ABOVE} \
                     are the bound; lower the rate, or leave this program a processor of its own"
                );
                (false, text)
            }
            Some(late) => (true, format!("the machine kept up: 99 of 100 packets came out at most {late} late")),
            None => (true, "nothing has come out".to_owned()),
        };
        Verdict { on_time, message }
    }
}

impl Traffic {
    fn new(count: Count, duration: Span) -> Self {
        let rate = Rate::from_bytes_over(count.bytes, duration);
        Traffic { packets: count.packets, bytes: count.bytes, bits_per_second: rate.as_f64() }
    }
}

impl Drops {
    fn new(of: impl Fn(DropCause) -> Traffic) -> Self {
        Drops {
            queue_full: of(DropCause::QueueFull),
            managed: of(DropCause::Managed),
            loss: of(DropCause::Loss),
            refused: of(DropCause::Refused),
            malformed: of(DropCause::Malformed),
            too_large: of(DropCause::TooLarge),
            overload: of(DropCause::Overload),
            output: of(DropCause::Output),
        }
    }
}

impl Percentiles {
    fn new(times: &Times) -> Option<Self> {
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
fn heaviest(statistics: &DirectionStatistics, duration: Span) -> (Vec<Flow>, FlowTraffic) {
    let mut flows: Vec<_> = statistics.flows.iter().filter(|flow| flow.offered.packets > 0).collect();
    flows.sort_unstable_by_key(|flow| (std::cmp::Reverse(flow.offered.bytes), flow.flow));
    flows.truncate(MAX_FLOWS);
    let rest = |total: Count, of: fn(&FlowStatistics) -> Count| {
        flows.iter().fold(total, |rest, flow| Count {
            packets: rest.packets.saturating_sub(of(flow).packets),
            bytes: rest.bytes.saturating_sub(of(flow).bytes),
        })
    };
    let others = FlowStatistics {
        offered: rest(statistics.counts.offered, |flow| flow.offered),
        delivered: rest(statistics.counts.delivered, |flow| flow.delivered),
        marked: rest(statistics.counts.marked, |flow| flow.marked),
        dropped: rest(statistics.counts.dropped_in_all(), |flow| flow.dropped),
        ..FlowStatistics::default()
    };
    let named = |flow: &&FlowStatistics| Flow {
        id: flow.flow.to_string(),
        name: flow.key.map(|key| name(&key)),
        traffic: FlowTraffic::new(flow, duration),
    };
    (flows.iter().map(named).collect(), FlowTraffic::new(&others, duration))
}

fn histogram(times: &Times, ends: &[Span]) -> Vec<Bucket> {
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
fn name(key: &FlowKey) -> String {
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
