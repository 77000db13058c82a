use crate::clocks::Clocks;
use estimate::{Allowance, MethodSettings};
use train::Transport;
use units::{Direction, Span};

/// What is to be measured, and how.
#[derive(Debug, Clone)]
pub struct MeasurementPlan {
    /// Which directions.
    pub directions: Directions,
    /// What carries the trains.
    pub transport: TransportChoice,
    /// What plans and reads the trains for the available bandwidth.
    pub method: MethodSettings,
    /// TCP connections to open for the rake.
    pub connections: u16,
    /// What each direction may cost at most. The capacity takes half of it at most, and the method what that leaves.
    pub allowance: Allowance,
    /// Whether to measure the bottleneck's capacity, too. One TCP connection can't tell it.
    pub capacity: bool,
    /// Whether to measure the delay of the idle path in both directions first.
    pub idle_delay: bool,
    /// For what is random in methods.
    pub seed: u64,
}

impl MeasurementPlan {
    /// TCP connections of the papers' rake.
    pub const CONNECTIONS: u16 = 120;
}

impl Default for MeasurementPlan {
    /// Delay, capacity and available bandwidth in both directions, by the default method over what passes.
    fn default() -> Self {
        MeasurementPlan {
            directions: Directions::Both,
            transport: TransportChoice::Auto,
            method: MethodSettings::default(),
            connections: Self::CONNECTIONS,
            allowance: Allowance::default(),
            capacity: true,
            idle_delay: true,
            seed: 0,
        }
    }
}

/// Which directions to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Directions {
    /// From here to the far end.
    Up,
    /// From the far end to here.
    Down,
    /// One after the other, up first.
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

/// What carries the trains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransportChoice {
    /// UDP where it passes, else the rake.
    Auto,
    /// This one, or no measurement.
    Fixed(Transport),
}

/// What is known when the measurement begins.
#[derive(Debug, Clone)]
pub struct Session {
    /// The far end, as the report names it: address and port.
    pub peer: String,
    /// When the measurement began, UTC, RFC 3339.
    pub started: String,
    /// The minimum of a few round trips.
    pub round_trip: Span,
    /// TCP connections that the far end grants.
    pub max_connections: u32,
    /// The clocks of both ends.
    pub clocks: Clocks,
}
