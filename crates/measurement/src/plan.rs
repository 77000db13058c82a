use crate::clocks::Clocks;
use kumade_estimate::{MethodSettings, RequestedBudget};
use kumade_probe_train::Transport;
use kumade_units::{Direction, Span};

/// What to measure, and how.
#[derive(Debug, Clone)]
pub struct MeasurementPlan {
    /// Which directions.
    pub directions: Directions,
    /// Which transport carries the trains.
    pub transport: TransportChoice,
    /// The estimation method for the available bandwidth.
    pub method: MethodSettings,
    /// TCP connections to open for the rake transport.
    pub connections: u16,
    /// Budget of each direction. The capacity uses at most half of it, the method the rest.
    pub budget: RequestedBudget,
    /// Whether to measure the capacity, too. It can't be measured over a single TCP connection.
    pub capacity: bool,
    /// Whether to measure the delay of the unloaded path in both directions first.
    pub idle_delay: bool,
    /// So many of its packets at least in each direction that is measured, where a loss has to be told from none: few tell little of it. Over UDP
    /// only, since TCP hides loss; each takes up to 8 ms, and what is lost is waited for for a second.
    pub min_idle_packets: u32,
    /// How long to fill the path with TCP connections in each direction at the end, for the bufferbloat grade; none for not at
    /// all. No budget counts for it.
    pub load: Option<Span>,
    /// Whether to look at what the path does to packets with ECN codepoints and DSCPs, by some hundred small ones in each direction. What the
    /// kernels of both ends know of the path is in the report always.
    pub path: bool,
    /// Whether to have the routers on the way up answer as well, which takes up to ten seconds.
    pub trace: bool,
    /// Whether to fill the path for moments, to see whether it has queues of its own for some DSCPs, or for ECT(1).
    pub queues: bool,
    /// Ports of the far end that are tried by UDP and TCP at the end; empty for none.
    pub ports: Vec<u16>,
    /// Whether to look, at the end, after which time flows that are idle are forgotten, and up to which; none for not at all.
    pub idle_timeouts: Option<Span>,
    /// Seed of the methods' random numbers.
    pub seed: u64,
}

impl MeasurementPlan {
    /// Default number of TCP connections: that of the paper on PathRakeTCP.
    pub const DEFAULT_CONNECTIONS: u16 = 120;
}

impl Default for MeasurementPlan {
    /// Delay, capacity and available bandwidth in both directions, with the default method, over UDP or else TCP.
    fn default() -> Self {
        MeasurementPlan {
            directions: Directions::Both,
            transport: TransportChoice::Auto,
            method: MethodSettings::default(),
            connections: Self::DEFAULT_CONNECTIONS,
            budget: RequestedBudget::default(),
            capacity: true,
            idle_delay: true,
            min_idle_packets: 0,
            load: None,
            path: false,
            trace: false,
            queues: false,
            ports: Vec::new(),
            idle_timeouts: None,
            seed: 0,
        }
    }
}

/// Which directions to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Directions {
    /// From this host to the peer.
    Up,
    /// From the peer to this host.
    Down,
    /// Both, one after the other, up first.
    Both,
}

impl Directions {
    /// Whether this direction is one of them.
    pub fn contains(self, direction: Direction) -> bool {
        self == Directions::Both || self == direction.into()
    }
}

impl From<Direction> for Directions {
    fn from(direction: Direction) -> Self {
        match direction {
            Direction::Up => Directions::Up,
            Direction::Down => Directions::Down,
        }
    }
}

/// How the transport of the trains is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransportChoice {
    /// UDP if it passes, else many TCP connections ([`Transport::Rake`]).
    Auto,
    /// This one; the measurement fails if it does not pass.
    Fixed(Transport),
}

/// The connection to the peer, as the driver found it before the measurement.
#[derive(Debug, Clone)]
pub struct Session {
    /// Address and port of the peer, for the report.
    pub peer: String,
    /// Start of the measurement in UTC (RFC 3339), for the report.
    pub started: String,
    /// Minimum of a few round-trip times.
    pub round_trip: Span,
    /// Maximum number of TCP connections that the peer allows.
    pub max_connections: u32,
    /// Maximum errors of both clocks.
    pub clocks: Clocks,
    /// How this host's interface to the peer coalesces receive interrupts; none if it does not, or does not say.
    pub coalescing: Option<Coalescing>,
}

impl Session {
    /// So many TCP connections `kumade serve` allows at once where it is not told otherwise.
    pub const DEFAULT_MAX_CONNECTIONS: u32 = 256;
}

/// Receive interrupts of an interface that come for several packets at once, which are stamped then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coalescing {
    /// Its name.
    pub interface: String,
    /// The longest that a packet waits for others.
    pub delay: Span,
}
