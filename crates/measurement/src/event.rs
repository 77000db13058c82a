use crate::report::{CapacityReport, DirectionReport, LoadReport};
use kumade_probe_train::{Train, TrainRecord, Transport};
use kumade_units::{Direction, Rate};
use schemars::JsonSchema;
use serde::Serialize;

/// Progress of a measurement.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// Another program measures at this host, and is waited for. Comes from the driver that connects, not from the state machine.
    HostInUse {
        /// Which one.
        holder: String,
    },
    /// The server has answered. Comes from the driver that connects, not from the state machine.
    Connected {
        /// Address and port.
        peer: String,
        /// Minimum of a few round-trip times on the control connection.
        round_trip_seconds: f64,
    },
    /// The server measures other clients first. Comes from the driver that connects, not from the state machine.
    Waiting {
        /// Clients ahead of this one.
        ahead: u32,
    },
    /// A transport is open.
    Opened {
        /// The transport.
        transport: Transport,
        /// TCP connections in use; zero for UDP.
        connections: u32,
    },
    /// A train that measures the available bandwidth has been evaluated.
    Train {
        /// Direction of the train.
        direction: Direction,
        /// Number of the train, counted from one in each direction.
        number: u32,
        /// IP bytes sent in this direction so far.
        bytes_sent: u64,
        /// The estimate so far.
        available_bits_per_second: Option<Rate>,
        /// The plan; not serialised.
        #[serde(skip)]
        train: Train,
        /// Its send and receive times, packet by packet; not serialised.
        #[serde(skip)]
        record: TrainRecord,
    },
    /// The capacity of a direction has been measured, or could not be.
    Capacity {
        /// Which direction.
        direction: Direction,
        /// The result.
        result: Box<CapacityReport>,
    },
    /// A direction is done, but for filling the path.
    Done {
        /// Which direction.
        direction: Direction,
        /// The result.
        result: Box<DirectionReport>,
    },
    /// The routers on the way are asked.
    TraceBegins {
        /// In which direction.
        direction: Direction,
        /// No more packets are sent than that.
        max_packets: u32,
        /// It takes no longer.
        max_duration_seconds: f64,
    },
    /// The path is filled, for up to a second at once, to look at its queues.
    QueuesBegin {
        /// In which direction.
        direction: Direction,
        /// No more bytes are sent than that.
        max_bytes: u64,
        /// It takes no longer.
        max_duration_seconds: f64,
    },
    /// Ports are tried.
    PortsBegin {
        /// How many, by UDP and by TCP.
        ports: u32,
        /// Packets and connections at most, those to the session's own port included.
        max_tries: u32,
        /// What they come to at most, in IP bytes.
        max_bytes: u64,
        /// It takes no longer.
        max_duration_seconds: f64,
    },
    /// Flows are left idle.
    IdleFlowsBegin {
        /// How many at once, at most.
        flows: u32,
        /// For how long at most.
        max_idle_seconds: f64,
        /// It takes no longer, but for waiting for a turn at the far end.
        max_duration_seconds: f64,
    },
    /// So much of the longest idle time of the flows has passed. Comes from the driver, not from the state machine.
    FlowsIdle {
        /// So much.
        seconds: f64,
        /// The longest idle time.
        of_seconds: f64,
    },
    /// TCP connections begin to fill the path in a direction. Comes from the driver, not from the state machine.
    LoadBegins {
        /// Which direction.
        direction: Direction,
        /// For how long.
        duration_seconds: f64,
    },
    /// They have ended.
    LoadDone {
        /// Which direction.
        direction: Direction,
        /// The result.
        result: Box<LoadReport>,
    },
}
