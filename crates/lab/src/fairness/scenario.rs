use super::discipline::DisciplineChoice;
use super::published::PublishedMix;
use crate::buffer_size::BufferSize;
use crate::paper::Paper;
use crate::values::{optional_rate, parse_one, rate, size, span};
use kumade_link::queue::{Ecn, QueueConfig, QueueLimit};
use kumade_sim::tcp::congestion::CongestionControl;
use kumade_units::{Rate, Span};
use serde::{Deserialize, Deserializer};

/// Connections are opened within so long, before they warm up.
pub(crate) const START_WINDOW: Span = Span::from_secs(1);

/// An experiment on fairness: groups of TCP connections at one bottleneck, and which queue discipline gives them equal
/// shares. Every case (an added delay, or a mix of a table) is run with every discipline, `runs` times each. It comes from
/// a scenario file, read and validated by [`load`](crate::load).
#[derive(Debug, Clone, PartialEq)]
pub struct FairnessExperiment {
    /// Its name, which is also that of the report's directory.
    pub name: String,
    /// The question in one line.
    pub title: String,
    /// The published experiment that this one repeats.
    pub paper: Option<Paper>,
    /// What is compared.
    pub disciplines: Vec<DisciplineChoice>,
    /// The networks with their connections.
    pub cases: Vec<FairnessCase>,
    /// What the cases have in common; none where they come from a table of mixes.
    pub shared: Option<SharedNetwork>,
    /// How often each case is run with each discipline; each run has a seed of its own.
    pub runs: u32,
    /// How long the shares are measured, …
    pub duration: Span,
    /// … after the connections have run for so long.
    pub warm_up: Span,
    /// Whether it runs in virtual time with the simulator's TCP; else over the kernel's.
    pub virtual_time: bool,
    /// Payload bytes of a full segment in virtual time.
    pub segment_bytes: u32,
    /// How many segments an acknowledgement covers in virtual time: 2 with delayed acknowledgements.
    pub segments_per_ack: u32,
}

/// A bottleneck and the groups that compete for it, whatever delay is added.
#[derive(Debug, Clone, PartialEq)]
pub struct SharedNetwork {
    /// The link for which all connections compete.
    pub bottleneck: SharedLink,
    /// The connections, by what they have in common.
    pub groups: Vec<ConnectionGroup>,
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
    /// Its queue's capacity, whatever the discipline.
    pub queue: BufferSize,
}

/// Connections with something in common.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConnectionGroup {
    /// How many.
    pub connections: u32,
    /// Their congestion control.
    #[serde(deserialize_with = "parse_control")]
    pub control: CongestionControl,
    /// One-way delay that these connections have in addition to the bottleneck's.
    #[serde(deserialize_with = "span", default = "default_span")]
    pub delay: Span,
    /// The rate of each sender's own link; unlimited by default.
    #[serde(deserialize_with = "optional_rate", default)]
    pub source_rate: Option<Rate>,
    /// Links between these senders and the bottleneck, the first one first.
    #[serde(default)]
    pub hops: Vec<AccessHop>,
}

/// A link that one group's connections pass before the bottleneck, the same in both directions.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessHop {
    /// Its capacity, counted in IP packets; not for a radio link.
    #[serde(deserialize_with = "optional_rate", default)]
    pub rate: Option<Rate>,
    /// Whether it is an 802.11ac radio link instead: its rate varies, and packets travel in aggregates.
    #[serde(default)]
    pub wireless: bool,
    /// Whether it is a cellular line instead, whose rate varies more slowly and more.
    #[serde(default)]
    pub cellular: bool,
    /// Propagation delay in one direction.
    #[serde(deserialize_with = "span")]
    pub delay: Span,
    /// Its queue's capacity in bytes.
    #[serde(deserialize_with = "size")]
    pub queue: u64,
    /// Mean rate of cross traffic in the direction of the data, in bursts (on/off, exponential periods).
    #[serde(deserialize_with = "optional_rate", default)]
    pub background: Option<Rate>,
}

/// One network with its connections: with a discipline and a seed, one run.
#[derive(Debug, Clone, PartialEq)]
pub struct FairnessCase {
    /// Names it in reports: the added delay, or the table's row.
    pub label: String,
    /// What is added to the round trip; zero for the rows of a table.
    pub added_delay: Span,
    /// The bottleneck's rate.
    pub rate: Rate,
    /// The bottleneck's delay in one direction, with half of what is added.
    pub delay: Span,
    /// Its queue's capacity.
    pub limit: QueueLimit,
    /// The connections.
    pub groups: Vec<ConnectionGroup>,
    /// The queue before its bottleneck with each of the experiment's disciplines.
    pub queues: Vec<QueueConfig>,
    /// What was published of this very case.
    pub published: Option<PublishedMix>,
}

/// One run: what one row of the report is about.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FairnessPoint<'a> {
    /// The network.
    pub case: &'a FairnessCase,
    /// The discipline before its bottleneck.
    pub discipline: &'a DisciplineChoice,
    /// Its queue.
    pub queue: &'a QueueConfig,
    /// Counted from 1.
    pub run: u32,
}

impl FairnessPoint<'_> {
    /// The seed of the run's random numbers: another one for each case and run, whichever others are run, and the same for
    /// all disciplines. Else one hash that happens to be bad would spoil every case in the same way.
    pub(super) fn seed(&self) -> u64 {
        // FNV-1a (draft-eastlake-fnv).
        let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        // What a mix's name says behind the colon describes it, and may be reworded.
        let name = self.case.label.split(':').next().unwrap_or_default();
        let bytes = name.bytes().chain(self.run.to_be_bytes());
        bytes.fold(0xcbf2_9ce4_8422_2325, hash)
    }
}

impl SharedNetwork {
    /// This network at another rate, which its cases name.
    pub(crate) fn with_rate(&self, rate: Rate) -> Self {
        let bottleneck = SharedLink { rate, ..self.bottleneck.clone() };
        SharedNetwork { bottleneck, groups: self.groups.clone() }
    }

    /// This network with `added` to the round trip of all connections, still without its queues.
    pub(crate) fn case_with_delay(&self, added: Span) -> FairnessCase {
        let SharedNetwork { bottleneck, groups } = self;
        let delay = bottleneck.delay + added / 2;
        let own = |group: &ConnectionGroup| group.hops.iter().fold(group.delay, |sum, hop| sum + hop.delay);
        let longest = groups.iter().map(own).max().unwrap_or_default();
        FairnessCase {
            label: added.to_string(),
            added_delay: added,
            rate: bottleneck.rate,
            delay,
            limit: bottleneck.queue.to_limit(bottleneck.rate, (delay + longest) * 2),
            groups: groups.clone(),
            queues: Vec::new(),
            published: None,
        }
    }
}

impl FairnessCase {
    /// Congestion control and group index of each connection, in order.
    pub fn numbered_connections(&self) -> impl Iterator<Item = (usize, &ConnectionGroup)> {
        connections(&self.groups)
    }
}

/// Each connection of these groups, with the index of its group.
pub(crate) fn connections(groups: &[ConnectionGroup]) -> impl Iterator<Item = (usize, &ConnectionGroup)> {
    groups.iter().enumerate().flat_map(|(index, group)| (0..group.connections).map(move |_| (index, group)))
}

impl ConnectionGroup {
    /// What its packets say of ECN where its senders live on marks, of which hosts do not tell them without being set up for it.
    pub(crate) fn ect(&self) -> Option<Ecn> {
        Some(self.control.usual_ecn()).filter(|ecn| *ecn != Ecn::NotEct)
    }

    /// Its name in reports, such as `cubic`, with the delay that is its own.
    pub fn label(&self) -> String {
        match self.delay {
            Span::ZERO => self.control.to_string(),
            delay => format!("{} +{delay}", self.control),
        }
    }
}

const fn default_span() -> Span {
    Span::ZERO
}

fn parse_control<'de, D: Deserializer<'de>>(deserializer: D) -> Result<CongestionControl, D::Error> {
    parse_one(deserializer, "a congestion control in quotes, such as \"cubic\"", str::parse)
}
