use crate::accuracy::full::Limits;
use crate::accuracy::path::{Bottleneck, BottleneckKind, Later};
use crate::scenario::{Also, Sweep};
use serde::{Deserialize, Deserializer};
use units::{Direction, Rate, Span, parse};

/// What to build, what to send across it and what to measure: one experiment.
///
/// Every level of cross traffic is measured by every method over every transport, `runs` times each.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// How people and issues call it; also the name of the report's directory.
    pub name: String,
    /// The question in one line.
    pub title: String,
    /// What each method is measured over.
    pub transports: Vec<Transport>,
    /// The estimators.
    pub methods: Vec<Method>,
    /// The directions measured; from the left host to the right one where nothing is said.
    #[serde(default = "up_only")]
    pub directions: Vec<Direction>,
    /// How often each point is measured.
    pub runs: u32,
    /// The last exponent that `pathtester-classic` scans: its longest wait is 2^this µs. The default is the shortest
    /// range that the paper found to work from 100 kbit/s on.
    #[serde(default = "shortest_range")]
    pub last_iunit: u32,
    /// Whether each run measures everything, both directions and capacity and delay, and not just one direction's
    /// available bandwidth. Virtually, only the row's own direction is measured, and the delay.
    #[serde(default)]
    pub whole: bool,
    /// What is varied besides the levels of cross traffic.
    #[serde(default)]
    pub sweep: Sweep,
    /// Whether the report shows when each packet of the first train left and came.
    #[serde(default)]
    pub timeline: bool,
    /// The published experiment that this one repeats.
    pub paper: Option<Paper>,
    /// What it is to reach.
    #[serde(default)]
    pub limits: Limits,
    /// The link that limits the path.
    pub bottleneck: Bottleneck,
    /// A faster link behind it.
    pub later: Option<Later>,
    /// What else is on the bottleneck.
    pub cross: Cross,
    /// Further paths on which the same is measured.
    #[serde(default)]
    pub also: Vec<Also>,
    /// What does not pass.
    #[serde(default)]
    pub firewall: Vec<FirewallRule>,
}

/// What carries the trains; `auto` leaves the choice to the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// UDP where it passes, else many TCP connections.
    Auto,
    /// UDP datagrams.
    Udp,
    /// Many TCP connections.
    Rake,
    /// One TCP connection.
    Single,
}

/// An estimator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// kumade's own.
    Primed,
    /// The papers' rule on the papers' train, its interval scaled to the bottleneck's rate.
    LinearScan,
    /// PathTester, improved.
    #[serde(rename = "pathtester")]
    PathTester,
    /// PathTester before.
    #[serde(rename = "pathtester-classic")]
    PathTesterClassic,
    /// Pathload.
    Pathload,
    /// pathChirp.
    #[serde(rename = "pathchirp")]
    PathChirp,
}

/// What was published about the experiment.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    /// The system measured there.
    pub system: String,
    /// The paper's figures or tables.
    pub figure: String,
    /// Its set-up or result in a few words.
    pub setting: String,
    /// Its figures.
    #[serde(default)]
    pub published: Vec<Published>,
}

/// A published figure, and what it is about: what is not said was the same for all, or is not known.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// What the paper calls it.
    pub series: String,
    /// What carried the trains there.
    pub transport: Option<Transport>,
    /// The estimator.
    pub method: Option<Method>,
    /// The last exponent that the estimator scanned.
    pub last_iunit: Option<u32>,
    /// The cross traffic.
    #[serde(default, deserialize_with = "optional_rate")]
    pub cross: Option<Rate>,
    /// Mean of |estimate − truth| over all runs.
    #[serde(default, deserialize_with = "optional_rate")]
    pub mean_absolute_error: Option<Rate>,
    /// The estimate.
    #[serde(default, deserialize_with = "optional_rate")]
    pub available: Option<Rate>,
    /// How long that took.
    pub seconds: Option<f64>,
    /// Whether the time is that of everything, and not of the available bandwidth alone.
    #[serde(default)]
    pub whole: bool,
}

/// Traffic of other users on the bottleneck, in the direction that is measured.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cross {
    /// How its packets follow each other.
    pub kind: CrossKind,
    /// Whether packets exist; where nothing is said, only if they have to.
    pub by: Option<Carrier>,
    /// Mean rates, counted in IP packets; each is one point of the experiment. Of TCP, the most that it may send: a
    /// level of the bottleneck's rate or above leaves it greedy.
    #[serde(deserialize_with = "rates")]
    pub levels: Vec<Rate>,
    /// Bytes of each IP packet; TCP chooses for itself.
    #[serde(default = "full_size")]
    pub packet_bytes: u32,
}

/// How the packets of cross traffic follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CrossKind {
    /// At equal intervals.
    Constant,
    /// At exponentially distributed intervals.
    Poisson,
    /// In bursts at a rate halfway between the mean and the bottleneck's, with pauses between, both of random length.
    OnOff,
    /// As one greedy TCP connection (CUBIC) sends them, which gives way where others push.
    Tcp,
}

/// Whether cross traffic is computed or sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Carrier {
    /// Computed inside the link: it occupies the queue, but no packet exists. Exact, and costs no CPU.
    Link,
    /// Real packets from host to host.
    Packets,
}

/// What a firewall on the path does to some packets. What no rule names passes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FirewallRule {
    /// What happens to them.
    pub action: FirewallAction,
    /// Which packets.
    pub protocol: Protocol,
    /// Only while one of these transports is measured; always where empty.
    #[serde(default)]
    pub transports: Vec<Transport>,
}

/// What a firewall does to a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FirewallAction {
    /// Refuses it and tells the sender.
    Reject,
    /// Swallows it.
    Drop,
}

/// What a firewall tells packets apart by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// UDP.
    Udp,
    /// TCP.
    Tcp,
}

impl Scenario {
    /// The delay of one direction: the kernel's HTB has none.
    pub fn delay(&self) -> Span {
        if self.bottleneck.kind == BottleneckKind::Htb { Span::ZERO } else { self.bottleneck.delay }
    }

    /// Whether cross traffic is computed or sent.
    pub fn cross_by(&self) -> Carrier {
        let fitting = if self.needs_packets() { Carrier::Packets } else { Carrier::Link };
        self.cross.by.unwrap_or(fitting)
    }

    /// Whether cross traffic cannot be computed: before the kernel's HTB, and as the kernel's TCP.
    pub(crate) fn needs_packets(&self) -> bool {
        self.bottleneck.kind == BottleneckKind::Htb || self.cross.kind == CrossKind::Tcp
    }
}

impl std::fmt::Display for FirewallRule {
    /// In words, for reports: `rejects udp while rake is measured`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let action = match self.action {
            FirewallAction::Reject => "rejects",
            FirewallAction::Drop => "drops",
        };
        write!(f, "{action} {}", self.protocol.word())?;
        let transports: Vec<_> = self.transports.iter().map(|transport| transport.word()).collect();
        if transports.is_empty() { Ok(()) } else { write!(f, " while {} is measured", transports.join(" or ")) }
    }
}

/// One measurement of an experiment: what one row of the report is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Point {
    /// Mean rate of the cross traffic.
    pub cross: Rate,
    /// What carries the trains.
    pub transport: Transport,
    /// The estimator.
    pub method: Method,
    /// Which way the trains go.
    pub direction: Direction,
    /// Counted from 1 for each combination of the others.
    pub run: u32,
}

/// The words of scenario files and of the command line are the same.
macro_rules! words {
    ($($kind:ty { $($variant:ident = $word:literal),+ })+) => {$(
        impl $kind {
            /// The word for it in scenario files, on the command line and in reports.
            pub fn word(self) -> &'static str {
                match self { $(<$kind>::$variant => $word),+ }
            }
        }

        impl std::str::FromStr for $kind {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $($word => Ok(<$kind>::$variant),)+
                    _ => Err(format!("choose one of {}", [$($word),+].join(", "))),
                }
            }
        }
    )+};
}

words! {
    BottleneckKind { Own = "own", Htb = "htb", Virtual = "virtual" }
    Transport { Auto = "auto", Udp = "udp", Rake = "rake", Single = "single" }
    Method {
        Primed = "primed",
        LinearScan = "linear-scan",
        PathTester = "pathtester",
        PathTesterClassic = "pathtester-classic",
        Pathload = "pathload",
        PathChirp = "pathchirp"
    }
    CrossKind { Constant = "constant", Poisson = "poisson", OnOff = "on-off", Tcp = "tcp" }
    Carrier { Link = "link", Packets = "packets" }
    FirewallAction { Reject = "reject", Drop = "drop" }
    Protocol { Udp = "udp", Tcp = "tcp" }
}

fn up_only() -> Vec<Direction> {
    vec![Direction::Up]
}

const fn full_size() -> u32 {
    1500
}

pub(crate) const fn shortest_range() -> u32 {
    17
}

pub(crate) fn rate<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Rate, D::Error> {
    parse::rate(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
}

pub(crate) fn optional_rate<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Rate>, D::Error> {
    rate(deserializer).map(Some)
}

pub(crate) fn rates<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Rate>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    texts.iter().map(|text| parse::rate(text).map_err(serde::de::Error::custom)).collect()
}

pub(crate) fn span<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Span, D::Error> {
    parse::span(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
}

pub(crate) fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    parse::bytes(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
}

pub(crate) fn optional_size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    size(deserializer).map(Some)
}

pub(crate) fn ratio<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    parse::ratio(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
}
