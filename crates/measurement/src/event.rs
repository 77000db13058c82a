use crate::report::{CapacityReport, DirectionReport};
use schemars::JsonSchema;
use serde::Serialize;
use train::{Train, TrainRecord, Transport};
use units::Direction;

/// Progress of a measurement.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// The server has answered. Stated by whoever connects.
    Connected {
        /// Address and port.
        peer: String,
        /// The minimum of a few round trips on the control connection.
        round_trip_seconds: f64,
    },
    /// Other clients of the server are measured first. Stated by whoever connects.
    Waiting {
        /// Clients ahead of this one.
        ahead: u32,
    },
    /// A transport is open and carries trains.
    Opened {
        /// What carries them.
        transport: Transport,
        /// TCP connections in use; zero for UDP.
        connections: u32,
    },
    /// A train for the available bandwidth has been read.
    Train {
        /// The direction in which it went.
        direction: Direction,
        /// Counted from one in each direction.
        number: u32,
        /// IP bytes sent in this direction so far.
        bytes_sent: u64,
        /// The estimate so far.
        available_bits_per_second: Option<u64>,
        /// The plan; not written out.
        #[serde(skip)]
        train: Train,
        /// What became of it, packet by packet; not written out.
        #[serde(skip)]
        record: TrainRecord,
    },
    /// The capacity of a direction is known, or why it can't be.
    Capacity {
        /// Which direction.
        direction: Direction,
        /// What was found.
        result: Box<CapacityReport>,
    },
    /// A direction is done.
    Done {
        /// Which direction.
        direction: Direction,
        /// What it came to.
        result: Box<DirectionReport>,
    },
}
