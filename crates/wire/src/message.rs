use serde::{Deserialize, Serialize};
use train::{Train, Transport};
use units::{Span, Time};

/// Names one client's session; random, so that nobody else can join it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Token(pub [u8; 16]);

/// What the server grants one client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Probe connections.
    pub connections: u32,
    /// IP bytes of trains, both directions together, in one turn.
    pub bytes: u64,
    /// Packets of trains, both directions together, in one turn.
    pub packets: u64,
    /// How long a turn lasts at most.
    pub turn: Span,
}

/// A packet that left: its place in the train, its size and its stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Departure {
    /// Counted from zero in the order of sending.
    pub index: u32,
    /// Bytes of the IP packet.
    pub size: u32,
    /// By the sender's clock; none where the kernel gave no stamp.
    pub sent: Option<Time>,
}

/// A packet that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrival {
    /// Its place in the train, counted from zero.
    pub index: u32,
    /// By the receiver's clock; none where the kernel gave no stamp of its own to this packet.
    pub received: Option<Time>,
}

/// What a client says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClientMessage {
    /// Answered by `Pong` at once: measures the round trip, and shows that the client is still there while it waits.
    Ping,
    /// Asks for a turn: from then on nobody else's trains are on the server's line. Answered by `Place` as long as
    /// others are ahead, then by `Turn`.
    Enter,
    /// Gives the turn back.
    Leave,
    /// The nonce that came back by UDP: the client's address takes UDP from here. Answered by `UdpOpen`.
    ProveUdp([u8; 16]),
    /// Which probe connections have arrived? Answered by `Connections` as soon as `expected` have, or at once after
    /// `wait`.
    AwaitConnections {
        /// Rake or single.
        transport: Transport,
        /// Only those with this number or a higher one count: earlier ones belong to a set that is given up.
        first: u16,
        /// How many the client has opened.
        expected: u32,
        /// How long to wait for the rest.
        wait: Span,
    },
    /// A train follows; collect it. Answered by `Received`.
    Receive {
        /// The train's number within the session.
        number: u32,
        /// What is on its way.
        train: Train,
        /// How long after its planned end to wait for the last packet.
        grace: Span,
    },
    /// Send this train. Answered by `Sent` when it has left.
    Send {
        /// The train's number within the session.
        number: u32,
        /// What to send.
        train: Train,
    },
    /// How wrong may the server's clock be? Answered by `Clock`.
    AskClock,
}

/// What a server says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ServerMessage {
    /// The first message: the session's name and limits.
    Welcome {
        /// To be shown on each probe connection and UDP packet.
        token: Token,
        /// What this client may use.
        limits: Limits,
    },
    /// The answer to `Ping`.
    Pong,
    /// So many clients have their turn first. Repeated every second or so, as a sign of life.
    Place(u32),
    /// The turn has come.
    Turn,
    /// UDP is open both ways.
    UdpOpen,
    /// These probe connections (by the number each showed) are in use, in this order; those of an earlier answer that
    /// are not among them are closed.
    Connections(Vec<u16>),
    /// What came of a train.
    Received {
        /// The train's number.
        number: u32,
        /// In the order of the train; packets that did not come are left out.
        arrivals: Vec<Arrival>,
        /// Whether the stamps are the kernel's.
        kernel_stamps: bool,
    },
    /// What left of a train.
    Sent {
        /// The train's number.
        number: u32,
        /// In the order of the train; packets that could not be sent are left out.
        departures: Vec<Departure>,
        /// Whether the stamps are the kernel's.
        kernel_stamps: bool,
    },
    /// The train could not be carried, for this reason, most likely because the path cut the probe connections;
    /// others can be opened.
    Failed {
        /// The train's number.
        number: u32,
        /// One line.
        reason: String,
    },
    /// No, for this reason; the session ends.
    Refused(String),
    /// By how much the clock of the server's stamps may be wrong; none where nobody keeps it.
    Clock {
        /// Either way.
        maximum_error: Option<Span>,
    },
}
