use super::discipline::DisciplineChoice;
use crate::scenario::mixes::PublishedMix;
use link::queue::Limit;
use serde::{Deserialize, Deserializer};
use sim::tcp::congestion::Control;
use std::str::FromStr;
use units::{Rate, Span, parse};

/// Groups of TCP connections at one bottleneck: which queue discipline gives them equal shares?
///
/// Every case (an added delay, or a mix of a table) is run with every discipline, `runs` times each.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fairness {
    /// How people and issues call it; also the name of the report's directory.
    pub name: String,
    /// The question in one line.
    pub title: String,
    /// What is compared.
    pub disciplines: Vec<DisciplineChoice>,
    /// How often each case is run with each discipline; each run has a seed of its own.
    pub runs: u32,
    /// How long the shares are measured, …
    #[serde(deserialize_with = "span")]
    pub duration: Span,
    /// … after the connections have had so long to find them.
    #[serde(deserialize_with = "span", default = "none")]
    pub warm_up: Span,
    /// Whether it runs under a virtual clock; else over the kernel's TCP.
    #[serde(rename = "virtual", default)]
    pub virtual_time: bool,
    /// Payload bytes of a full segment, where the run is virtual.
    #[serde(default = "full_segment")]
    pub segment_bytes: u32,
    /// How many segments an acknowledgement covers, where the run is virtual: 2 with delayed acknowledgements.
    #[serde(default = "delayed")]
    pub segments_per_ack: u32,
    /// The published experiment that this one repeats.
    pub paper: Option<Statement>,
    /// The link for which all connections compete.
    pub bottleneck: Option<SharedLink>,
    /// The connections, by what they have in common.
    #[serde(default)]
    pub groups: Vec<Group>,
    /// Delays added to the round trip of all connections: each is one case.
    #[serde(default, deserialize_with = "spans")]
    pub delays: Vec<Span>,
    /// A table of mixes in place of bottleneck, groups and delays: each of its rows is one case. See
    /// [`mixes`](super::mixes).
    #[serde(rename = "mixes", default)]
    pub mixes_file: Option<String>,
    /// The cases of that table, once it is read.
    #[serde(skip)]
    pub mixes: Vec<Case>,
}

/// What was published about an experiment on fairness.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    /// The system measured there.
    pub system: String,
    /// The paper's figures or tables.
    pub figure: String,
    /// Its set-up in a few words.
    pub setting: String,
    /// What it found.
    pub result: String,
}

/// The link for which connections compete, the same in both directions.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharedLink {
    /// Its capacity, counted in IP packets.
    #[serde(deserialize_with = "rate")]
    pub rate: Rate,
    /// Propagation delay in one direction, without what is added.
    #[serde(deserialize_with = "span")]
    pub delay: Span,
    /// How much waits in front of it at most, whatever the discipline.
    pub queue: Buffer,
}

/// How much may wait: `256kb` (bytes), `250p` (packets), or `1rtt`.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub enum Buffer {
    /// A number of bytes.
    Bytes(u64),
    /// A number of packets.
    Packets(u64),
    /// What the link carries in so many round trips, and no less than [`Buffer::LEAST_PACKETS`].
    RoundTrips(f64),
}

/// Connections with something in common.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// How many.
    pub connections: u32,
    /// Their congestion control.
    #[serde(deserialize_with = "control")]
    pub control: Control,
    /// One-way delay that these connections have in addition to the bottleneck's.
    #[serde(deserialize_with = "span", default = "none")]
    pub delay: Span,
    /// The rate of each sender's own link; what it has to send leaves at once where nothing is said.
    #[serde(deserialize_with = "some_rate", default)]
    pub source_rate: Option<Rate>,
    /// Links between these senders and the bottleneck, the first one first.
    #[serde(default)]
    pub hops: Vec<AccessHop>,
}

/// A link that one group's connections pass before the bottleneck, the same in both directions.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessHop {
    /// Its capacity, counted in IP packets; a radio link has none that is constant.
    #[serde(deserialize_with = "some_rate", default)]
    pub rate: Option<Rate>,
    /// Whether it is an 802.11ac radio link instead: its rate varies, and packets travel in aggregates.
    #[serde(default)]
    pub wireless: bool,
    /// Propagation delay in one direction.
    #[serde(deserialize_with = "span")]
    pub delay: Span,
    /// How many bytes wait in front of it at most.
    #[serde(deserialize_with = "size")]
    pub queue: u64,
    /// Mean rate of other users' packets in the direction of the data, in bursts (on/off, exponential periods).
    #[serde(deserialize_with = "some_rate", default)]
    pub background: Option<Rate>,
}

/// One network with its connections: with a discipline and a seed, one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// Names it in reports: the added delay, or the table's row.
    pub label: String,
    /// What is added to the round trip; zero for the rows of a table.
    pub added_delay: Span,
    /// The bottleneck's rate.
    pub rate: Rate,
    /// The bottleneck's delay in one direction, with half of what is added.
    pub delay: Span,
    /// How much waits in front of it at most.
    pub limit: Limit,
    /// The connections.
    pub groups: Vec<Group>,
    /// What was published of this very case.
    pub published: Option<PublishedMix>,
}

/// One run: what one row of the report is about.
#[derive(Debug, Clone, PartialEq)]
pub struct FairnessPoint<'a> {
    /// The network.
    pub case: &'a Case,
    /// What stands before its bottleneck.
    pub discipline: &'a DisciplineChoice,
    /// Counted from 1; also the seed.
    pub run: u32,
}

impl Fairness {
    /// The networks that are tried.
    pub fn cases(&self) -> Vec<Case> {
        let Some(bottleneck) = &self.bottleneck else { return self.mixes.clone() };
        self.delays.iter().map(|added| self.case(bottleneck, *added)).collect()
    }

    fn case(&self, bottleneck: &SharedLink, added: Span) -> Case {
        let delay = bottleneck.delay + added / 2;
        let own = |group: &Group| group.hops.iter().fold(group.delay, |sum, hop| sum + hop.delay);
        let longest = self.groups.iter().map(own).max().unwrap_or_default();
        Case {
            label: added.to_string(),
            added_delay: added,
            rate: bottleneck.rate,
            delay,
            limit: bottleneck.queue.limit(bottleneck.rate, (delay + longest) * 2),
            groups: self.groups.clone(),
            published: None,
        }
    }

    /// Every run in order. Runs come outermost, so that a disturbance of some minutes spoils one run of many points
    /// and not all runs of one.
    pub fn points<'a>(&'a self, cases: &'a [Case]) -> Vec<FairnessPoint<'a>> {
        let mut points = Vec::new();
        for run in 1..=self.runs {
            for case in cases {
                points.extend(self.disciplines.iter().map(|discipline| FairnessPoint { case, discipline, run }));
            }
        }
        points
    }
}

impl Case {
    /// Congestion control and group index of each connection, in order.
    pub fn connections(&self) -> impl Iterator<Item = (usize, &Group)> {
        self.groups.iter().enumerate().flat_map(|(index, group)| (0..group.connections).map(move |_| (index, group)))
    }
}

impl Group {
    /// How reports call it, such as `cubic`; the delay that is its own tells like groups apart.
    pub fn label(&self) -> String {
        match self.delay {
            Span::ZERO => self.control.to_string(),
            delay => format!("{} +{delay}", self.control),
        }
    }
}

impl Buffer {
    /// A queue of round trips holds at least so many full packets: on the shortest paths one each would fill it.
    pub const LEAST_PACKETS: u64 = 100;

    /// On a link of that rate, with paths of that round-trip time.
    pub fn limit(self, rate: Rate, round_trip: Span) -> Limit {
        match self {
            Buffer::Bytes(bytes) => Limit::Bytes(bytes),
            Buffer::Packets(packets) => Limit::Packets(packets),
            Buffer::RoundTrips(count) => {
                let bytes = rate.bytes_in(Span::from_secs_f64(round_trip.as_secs_f64() * count));
                Limit::Bytes(bytes.max(Self::LEAST_PACKETS * 1500))
            }
        }
    }
}

impl FromStr for Buffer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |digits: &str| digits.trim().parse::<f64>().ok().filter(|n| (0.0..1e9).contains(n));
        if let Some(count) = text.strip_suffix("rtt").and_then(number) {
            return Ok(Buffer::RoundTrips(count));
        }
        if let Some(packets) = text.strip_suffix('p').and_then(number) {
            return Ok(Buffer::Packets(packets as u64));
        }
        parse::bytes(text).map(Buffer::Bytes).map_err(|error| format!("{error}, 250p (packets) or 1rtt (round trips)"))
    }
}

impl TryFrom<String> for Buffer {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

const fn none() -> Span {
    Span::ZERO
}

/// On Ethernet, with TCP time stamps.
const fn full_segment() -> u32 {
    1448
}

const fn delayed() -> u32 {
    2
}

fn rate<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Rate, D::Error> {
    parse::rate(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
}

fn some_rate<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Rate>, D::Error> {
    rate(deserializer).map(Some)
}

fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    parse::bytes(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
}

fn control<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Control, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
}

fn span<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Span, D::Error> {
    parse::span(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
}

fn spans<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Span>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    texts.iter().map(|text| parse::span(text).map_err(serde::de::Error::custom)).collect()
}
