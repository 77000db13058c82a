//! The near end of a measurement: `kumade measure`.

mod carrier;
mod delay;
mod direction;
mod error;
mod exchange;
mod grace;
mod open;
mod peer;

pub use error::Error;
pub(crate) use peer::resolve;

use crate::clocks::{Known, NtpServer};
use crate::report::{CapacityReport, DirectionReport, Report, SCHEMA};
use delay::Delays;
use direction::Run;
use estimate::MethodSettings;
use peer::Peer;
use schemars::JsonSchema;
use serde::Serialize;
use train::{Train, TrainRecord};
use units::{Rate, Span};
use wire::{Key, TransportKind};

/// What to measure, and how.
#[derive(Debug, Clone)]
pub struct MeasureConfig {
    /// A name or an address.
    pub host: String,
    /// The server's port.
    pub port: u16,
    /// Which addresses of the host to use.
    pub family: Family,
    /// Which ways.
    pub directions: Directions,
    /// What carries the trains.
    pub transport: TransportChoice,
    /// What plans and reads them.
    pub method: MethodSettings,
    /// TCP connections to open for the rake.
    pub connections: u16,
    /// IP bytes to send per direction at most; none leaves it to the method.
    pub budget_bytes: Option<u64>,
    /// How long to measure each direction; none leaves it to the method.
    pub budget_time: Option<Span>,
    /// Whether to look for the bottleneck's capacity, too. One TCP connection can't tell it.
    pub capacity: bool,
    /// The key that the server wants.
    pub key: Option<Key>,
    /// A server that knows how wrong this host's clock is.
    pub ntp: Option<NtpServer>,
}

impl MeasureConfig {
    /// TCP connections of the papers' rake.
    pub const CONNECTIONS: u16 = 120;

    /// Available bandwidth and delay in both directions to `host`, everything else chosen by kumade.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        MeasureConfig {
            host: host.into(),
            port,
            family: Family::Any,
            directions: Directions::Both,
            transport: TransportChoice::Auto,
            method: MethodSettings::default(),
            connections: Self::CONNECTIONS,
            budget_bytes: None,
            budget_time: None,
            capacity: false,
            key: None,
            ntp: None,
        }
    }
}

/// Which addresses of a host to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// As the system prefers.
    Any,
    /// IPv4 only.
    V4,
    /// IPv6 only.
    V6,
}

/// Which ways to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Directions {
    /// From here to the server.
    Up,
    /// From the server to here.
    Down,
    /// One after the other.
    Both,
}

/// What carries the trains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransportChoice {
    /// UDP where it passes, else the rake.
    Auto,
    /// This one.
    Fixed(TransportKind),
}

/// One way of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From here to the server.
    Up,
    /// From the server to here.
    Down,
}

/// What happens during a measurement, as it happens.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// The server has answered.
    Connected {
        /// Address and port.
        peer: String,
        /// The least of a few round trips on the control connection.
        round_trip_seconds: f64,
    },
    /// Others have their turn first.
    Waiting {
        /// So many.
        ahead: u32,
    },
    /// Trains can be sent.
    Opened {
        /// What carries them.
        transport: crate::report::Transport,
        /// TCP connections in use; zero for UDP.
        connections: u32,
    },
    /// A train has been read.
    Train {
        /// Which way it went.
        direction: Direction,
        /// Counted from one in each direction.
        number: u32,
        /// IP bytes sent in this direction so far.
        bytes_sent: u64,
        /// The value so far.
        available_bits_per_second: Option<u64>,
        /// What was planned; not written out.
        #[serde(skip)]
        train: Train,
        /// What became of it, packet by packet; not written out.
        #[serde(skip)]
        record: TrainRecord,
    },
    /// It is known how fast the narrowest link is, or why that can't be known.
    Capacity {
        /// Which way.
        direction: Direction,
        /// What was found.
        result: Box<CapacityReport>,
    },
    /// A direction is done.
    Done {
        /// Which.
        direction: Direction,
        /// What it came to.
        result: Box<DirectionReport>,
    },
}

/// Measures the path to a server. `on_event` is called in this thread, between trains.
///
/// # Errors
/// Where the server can't be reached or the path can't carry trains: within ten seconds, unless the server makes us
/// wait for others, or an NTP server or its name does not answer. A path that carries trains which tell nothing is no
/// error: the report gives the reason.
pub fn measure(config: &MeasureConfig, on_event: &mut dyn FnMut(&Event)) -> Result<Report, Error> {
    let started = jiff::Timestamp::now();
    let mut peer = Peer::connect(config)?;
    let address = peer.address.to_string();
    on_event(&Event::Connected { peer: address.clone(), round_trip_seconds: peer.round_trip.as_secs_f64() });
    // A server of the time that is silent must not cost others their turn.
    let known = Known::of_this_host(config.ntp.as_ref())?;
    peer.enter(on_event)?;
    let known = known.refreshed(config.ntp.as_ref())?;
    let delays = Delays::begin(&mut peer, known)?;
    let mut run = Run::open(&mut peer, config, delays, on_event)?;
    run.measure_idle()?;
    let mut way = |direction, wanted: bool| wanted.then(|| run.measure(direction)).transpose();
    let up = way(Direction::Up, config.directions != Directions::Down)?;
    let down = way(Direction::Down, config.directions != Directions::Up)?;
    let delay = Some(run.into_delay());
    peer.leave();
    Ok(Report { schema: SCHEMA.to_owned(), peer: address, started: format!("{started:.3}"), up, down, delay })
}

/// The value so far, as events state it.
fn bits(rate: Option<Rate>) -> Option<u64> {
    rate.map(Rate::bits_per_second)
}
