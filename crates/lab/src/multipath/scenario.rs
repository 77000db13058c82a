use super::block_sweep::BlockSweep;
use super::comparison::Comparison;
use super::contender::Contender;
use super::plane::Plane;
use super::published::PublishedGoodput;
use super::tcp_stack::TcpStack;
use super::tuning::HostRto;
use crate::buffer_size::BufferSize;
use crate::paper::Paper;
use crate::values::{optional_span, rate, ratio, span};
use kumade_link::queue::QueueLimit;
use kumade_link::{LinkConfig, Loss};
use kumade_multipath::{SAVED_DATAGRAM_BYTES, SAVED_SEGMENT_BYTES};
use kumade_netns_testbed::{NetworkSpec, PathLinks};
use kumade_units::{Direction, Rate, Span};
use serde::Deserialize;

/// An experiment on several paths. Every case is run with each of its contenders, `runs` times each. It comes from a scenario
/// file, read and validated by [`load`](crate::load).
#[derive(Debug, Clone, PartialEq)]
pub struct MultipathExperiment {
    /// Its name, which is also that of the report's directory.
    pub name: String,
    /// The question in one line.
    pub title: String,
    /// The published experiment that this one repeats.
    pub paper: Option<Paper>,
    /// What the hosts send.
    pub workload: Workload,
    /// The sets of paths.
    pub cases: Vec<MultipathCase>,
    /// How often each case is run with each contender; each run has a seed of its own.
    pub runs: u32,
    /// How long goodput is measured, …
    pub duration: Span,
    /// … after the flow has run for so long.
    pub warm_up: Span,
    /// The lengths of blocks; none for other traffic.
    pub blocks: BlockSweep,
    /// What is asked about contenders in each case.
    pub comparisons: Vec<Comparison>,
    /// Whether it runs in virtual time with the simulator's TCP; else over the kernel's.
    pub virtual_time: bool,
}

/// What one host sends to the other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Workload {
    /// One TCP connection (CUBIC) that always has something to send.
    Transfer,
    /// Numbered UDP packets at a constant rate, to see in which order they arrive.
    Numbered {
        /// How many.
        packets: u64,
        /// Payload of each in bytes.
        payload: u32,
        /// Their rate on the paths, relative to the sum of the paths' rates.
        load: f64,
    },
    /// One TCP connection (CUBIC) that is written to in blocks of different lengths.
    Blocks,
    /// UDP packets as fast as the host sends them, over veth pairs: how much the gateways can forward.
    Flood {
        /// Payload of each in bytes.
        payload: u32,
    },
}

impl Workload {
    /// What a bonded plane saves of the headers of its packets, in bytes.
    pub(super) fn saved_header_bytes(self) -> u32 {
        match self {
            Workload::Transfer | Workload::Blocks => SAVED_SEGMENT_BYTES,
            Workload::Numbered { .. } | Workload::Flood { .. } => SAVED_DATAGRAM_BYTES,
        }
    }

    /// That of the flow whose goodput is measured; none for UDP. In virtual time it is the simulator's of this name.
    pub fn congestion_control(self) -> Option<&'static str> {
        match self {
            Workload::Transfer | Workload::Blocks => Some(Self::CONGESTION_CONTROL),
            Workload::Numbered { .. } | Workload::Flood { .. } => None,
        }
    }

    /// Of every connection, also of the subflows of Multipath TCP.
    pub(crate) const CONGESTION_CONTROL: &str = "cubic";
}

/// A set of paths, and what is compared there.
#[derive(Debug, Clone, PartialEq)]
pub struct MultipathCase {
    /// Names it in reports.
    pub label: String,
    /// The paths, the first one first.
    pub paths: Vec<PathSettings>,
    /// What is compared.
    pub contenders: Vec<Contender>,
    /// The receiving host's window in bytes; as large as it takes where there is none.
    pub window_bytes: Option<u64>,
    /// A path that fails while goodput is measured.
    pub outage: Option<PathOutage>,
    /// Whether a sparse flow runs beside: 50 packets of 128 bytes a second.
    pub sparse: bool,
    /// Whether an echo runs beside: 100 packets of 128 bytes a second there and back.
    pub echo: bool,
    /// Whether the segments of both layers are recorded as they leave.
    pub trace: bool,
    /// How TCP repairs losses.
    pub stack: TcpStack,
    /// The retransmission timeouts of both hosts.
    pub host_rto: HostRto,
    /// What was published of such paths.
    pub published: Vec<PublishedGoodput>,
    /// The minimum share of what the framing leaves that a plane is to reach.
    pub required: Vec<(Plane, f64)>,
}

/// One path, the same in both directions.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathSettings {
    /// Its capacity, counted in IP packets on it.
    #[serde(deserialize_with = "rate")]
    pub rate: Rate,
    /// Propagation delay in one direction. An emulated link has 0.2 ms at least.
    #[serde(deserialize_with = "span")]
    pub delay: Span,
    /// Ratio of packets that are lost at random, in either direction.
    #[serde(deserialize_with = "ratio", default)]
    pub loss: f64,
    /// Its queue's capacity, by its own round-trip time. Tail drop.
    #[serde(default = "default_queue")]
    pub queue: BufferSize,
}

/// A path that fails: nothing passes any more, in either direction, for a time or until the run ends.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathOutage {
    /// The path, counted from 1.
    pub path: usize,
    /// How long goodput has been measured by then.
    #[serde(deserialize_with = "span")]
    pub after: Span,
    /// How long it lasts; until the run ends, if none.
    #[serde(rename = "for", deserialize_with = "optional_span", default)]
    pub duration: Option<Span>,
}

/// One run: what one row of the report is about.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MultipathPoint<'a> {
    /// The paths.
    pub case: &'a MultipathCase,
    /// What divides the packets among them.
    pub contender: &'a Contender,
    /// Counted from 1; also the seed.
    pub run: u32,
}

impl MultipathExperiment {
    /// Contenders that cannot be run on this host, and why.
    pub(crate) fn skipped(&self) -> Vec<String> {
        let contenders = self.cases.iter().flat_map(|case| &case.contenders);
        let skipped =
            contenders.filter_map(|contender| Some(format!("{contender}: {}", contender.missing_requirement()?)));
        skipped.collect::<std::collections::BTreeSet<_>>().into_iter().collect()
    }
}

impl MultipathCase {
    /// The sum of the paths' rates.
    pub fn total_rate(&self) -> Rate {
        Rate::from_bits_per_second(self.paths.iter().map(|path| path.rate.bits_per_second()).sum())
    }

    /// The delay of the shortest path in one direction.
    pub fn min_delay(&self) -> Span {
        self.paths.iter().map(PathSettings::emulated_delay).min().unwrap_or_default()
    }

    /// The delay of the longest path in one direction.
    pub fn max_delay(&self) -> Span {
        self.paths.iter().map(PathSettings::emulated_delay).max().unwrap_or_default()
    }
}

impl PathSettings {
    /// A queue of a round trip.
    pub(crate) const DEFAULT_QUEUE: BufferSize = BufferSize::RoundTrips(1.0);

    /// In a few words: `8 Mbit/s, 50 ms`.
    pub fn in_words(&self) -> String {
        let loss = if self.loss > 0.0 { format!(", {:.2} % loss", self.loss * 100.0) } else { String::new() };
        format!("{}, {}{loss}", self.rate, self.delay)
    }

    pub(crate) fn emulated_delay(&self) -> Span {
        self.delay.max(NetworkSpec::MIN_DELAY)
    }

    /// Its links; `seed` is that of the run and the path.
    pub(crate) fn new_links(&self, seed: u64) -> PathLinks {
        let delay = self.emulated_delay();
        let queue_bytes = match self.queue.to_limit(self.rate, delay * 2) {
            QueueLimit::Bytes(bytes) => bytes,
            QueueLimit::Packets(packets) => packets * 1500,
        };
        let link = |direction: Direction| LinkConfig {
            rate: Some(self.rate),
            queue_bytes,
            delay,
            loss: if self.loss > 0.0 { Loss::Independent(self.loss) } else { Loss::None },
            seed: seed * 2 + u64::from(direction == Direction::Down),
            ..LinkConfig::default()
        };
        PathLinks { up: link(Direction::Up), down: link(Direction::Down) }
    }
}

const fn default_queue() -> BufferSize {
    PathSettings::DEFAULT_QUEUE
}
