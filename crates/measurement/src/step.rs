use crate::event::Event;
use crate::report::Report;
use train::{Train, Transport};
use units::{Direction, Span};

/// What a measurement wants done next.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Open this transport at both ends, then call [`opened`](crate::Measurement::opened) or
    /// [`not_opened`](crate::Measurement::not_opened).
    Open(OpenRequest),
    /// Send this train, then call [`carried`](crate::Measurement::carried).
    Send(SendRequest),
    /// Nothing to do: this has happened.
    Progress(Event),
    /// The measurement has ended with this result.
    Done(Box<Report>),
    /// The measurement has ended without one.
    Failed(Failure),
}

/// A transport to be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenRequest {
    /// Which.
    pub transport: Transport,
    /// TCP connections to open; of no meaning for UDP.
    pub connections: u16,
    /// How many of them suffice.
    pub needed: u16,
    /// The number of the first one; the others follow. None is used twice in a measurement.
    pub first: u16,
    /// Whether it replaces one that broke: that is to be closed before, by RST where it is TCP, so that a firewall that
    /// counts connections forgets them.
    pub replaces: bool,
}

/// A transport that is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// The largest IP packet that this host can send over it as one packet, in bytes.
    pub max_packet: u32,
    /// Whether packets of that size are known to pass the path; else those over UDP are tested.
    pub is_size_known: bool,
    /// TCP connections that both ends have; zero for UDP.
    pub connections: u32,
    /// What a reader of the result should know of the opening.
    pub warning: Option<String>,
}

/// A train to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SendRequest {
    /// In which direction.
    pub direction: Direction,
    /// What for.
    pub purpose: Purpose,
    /// How long to wait first, from the call that gave this.
    pub wait: Span,
    /// What to send.
    pub train: Train,
    /// How long after the train's planned end its receiver waits for the last packets.
    pub timeout: Span,
}

/// What a train is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Whether packets of a size pass.
    PacketSize,
    /// The delay of the idle path.
    IdleDelay,
    /// The bottleneck's capacity.
    Capacity,
    /// The available bandwidth.
    AvailableBandwidth,
}

/// Why a measurement has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The transport asked for can't be opened, or not again.
    TransportUnavailable {
        /// Which.
        transport: Transport,
        /// Why.
        reason: String,
    },
    /// Sockets broke again and again in the middle of trains.
    ConnectionsKeepBreaking {
        /// How often they were replaced.
        replacements: u32,
    },
}
