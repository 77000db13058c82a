use crate::path_view::PathView;
use crate::ports::{IdleFlow, IdleFlowRecord, OpenedPort, PortArrival};
use kumade_probe_train::{
    DsFieldArrival, DsFieldTrain, HopTrace, HopTraceRecord, MarkedArrival, MarkedTrain, PortProtocol, Train, Transport,
};
use kumade_units::{Direction, Span, Time};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};

/// Names one client's session; random, so that nobody else can join it. See [`Credential`](crate::Credential).
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

/// A packet that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrival {
    /// Its place in the train, counted from zero.
    pub index: u32,
    /// By the receiver's clock; none where the kernel gave no stamp of its own to this packet.
    pub received: Option<Time>,
}

/// What one end knows of the TCP connections to its neighbour: the other end, or a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpEndpointInfo {
    /// Bytes of the IP and TCP headers on each data packet.
    pub header: u32,
    /// The most payload bytes that leave as one packet.
    pub payload: u32,
    /// The round trip that the kernel measured, the shortest of all connections.
    pub round_trip: Span,
}

/// A message from the client to the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClientMessage {
    /// Answered by `Pong` at once: measures the round trip, and shows that the client is still there while it waits.
    Ping,
    /// Asks for a turn, during which the server carries no other client's trains. Answered by `Place` while other clients
    /// are ahead, then by `Turn`.
    EnterQueue,
    /// Gives the turn back.
    EndTurn,
    /// Returns the nonce that arrived by UDP, which proves that the client's address accepts UDP. Answered by `UdpOpen`.
    ProveUdp([u8; 16]),
    /// Which probe connections have arrived? Answered by `Connections` as soon as `expected` have, or at once after
    /// `wait`.
    AwaitConnections {
        /// Rake or single.
        transport: Transport,
        /// Only those with this number or a higher one count: earlier ones belong to a set that is no longer used.
        first: u16,
        /// How many the client has opened.
        expected: u32,
        /// How long to wait for the rest.
        wait: Span,
        /// Bytes of headers that both ends take from a planned packet's size to have its payload's. The client dictates
        /// it: where a proxy ends the connections, the server's headers may have another size, and the streams would fall
        /// out of step.
        header: u32,
    },
    /// A train follows; collect it. Answered by `Received`.
    Receive {
        /// The train's number within the session.
        number: u32,
        /// What is on its way.
        train: Train,
        /// How long after its planned end to wait for the last packet.
        timeout: Span,
    },
    /// Send this train. Answered by `Sent` when it has left.
    Send {
        /// The train's number within the session.
        number: u32,
        /// What to send.
        train: Train,
    },
    /// Asks for the maximum error of the server's clock. Answered by `Clock`.
    AskClock,
    /// Since [version 5](crate::Version::LOAD): fill the path with TCP transfers that always have something to send, over
    /// connections that arrive as probe connections do. Answered by `LoadBegins` as soon as `expected` have arrived, or after
    /// `wait`, and by `LoadEnded` once the time is over; pings are answered meanwhile.
    Load {
        /// The direction of the transfers.
        direction: Direction,
        /// Only connections with this number or a higher one count.
        first: u16,
        /// How many the client has opened.
        expected: u32,
        /// How long to wait for the rest.
        wait: Span,
        /// How long to send, or to receive.
        duration: Span,
    },
    /// Since [version 7](crate::Version::PATH): asks what the server sees of the session's packets. Answered by `PathView`, at any time.
    AskPathView {
        /// Where the client has connected to.
        destination: SocketAddr,
    },
    /// Since [version 7](crate::Version::PATH): a marked train follows by UDP; collect it. Answered by `ReceivedMarked`, or by `Failed`.
    ReceiveMarked {
        /// The train's number within the session.
        number: u32,
        /// What is on its way.
        train: MarkedTrain,
        /// How long after its planned end to wait for the last packet.
        timeout: Span,
    },
    /// Since [version 7](crate::Version::PATH): send this marked train by UDP. Answered by `SentMarked` when it has left, or by `Failed`.
    SendMarked {
        /// The train's number within the session.
        number: u32,
        /// What to send.
        train: MarkedTrain,
    },
    /// Since [version 7](crate::Version::PATH): how did the SYNs of these probe connections arrive? Answered by `ConnectionSyns` as soon as
    /// `expected` have arrived, or after `wait`; the server closes them.
    AskSyns {
        /// Only connections with this number or a higher one count.
        first: u16,
        /// How many the client has opened.
        expected: u32,
        /// How long to wait for the rest.
        wait: Span,
    },
    /// Since [version 8](crate::Version::DS_FIELDS): a train whose packets have a DSCP and ECN codepoint each follows by UDP; collect it.
    /// Answered by `ReceivedDsFields`, or by `Failed`.
    ReceiveDsFields {
        /// The train's number within the session.
        number: u32,
        /// What is on its way.
        train: DsFieldTrain,
        /// How long after its planned end to wait for the last packet.
        timeout: Span,
    },
    /// Since [version 8](crate::Version::DS_FIELDS): send such a train by UDP. Answered by `SentDsFields` when it has left, or by `Failed`.
    SendDsFields {
        /// The train's number within the session.
        number: u32,
        /// What to send.
        train: DsFieldTrain,
    },
    /// Since [version 8](crate::Version::PORTS): listen at these ports for packets ([`PortProbe`](crate::PortProbe)) of this client, and no
    /// longer at those asked for before; zero is any port. Answered by `PortsOpened`.
    OpenPorts {
        /// At most as many as the server allows at once.
        ports: Vec<(PortProtocol, u16)>,
    },
    /// Since [version 8](crate::Version::PORTS): what has arrived at these ports since they were opened, or since this was asked last?
    /// Answered by `PortArrivals`.
    AskPortArrivals,
    /// Since [version 8](crate::Version::PORTS): send eight packets ([`PortAnswer`](crate::PortAnswer)) from this UDP port, which is open, to the
    /// address that has received this nonce by UDP. Answered by `SentFromPort`.
    SendFromPort {
        /// It proves that packets are wanted there.
        nonce: [u8; 16],
        /// Of those at which the server listens.
        port: u16,
    },
    /// Since [version 8](crate::Version::PORTS): keep these flows beyond the turn, send down each after it has been idle for as long as it
    /// says, and note what arrives then. Answered by `FlowsHeld`.
    HoldFlows {
        /// Flows of UDP: the nonce that was received there.
        udp: Vec<([u8; 16], IdleFlow)>,
        /// Probe connections: the number that each has shown.
        tcp: Vec<(u16, IdleFlow)>,
        /// How long to wait for connections that have not arrived yet.
        wait: Span,
    },
    /// Since [version 8](crate::Version::PORTS): what has become of those flows? Answered by `FlowRecords`, and they are closed.
    EndFlows,
    /// Since [version 8](crate::Version::HOP_TRACES): send these packets by UDP, which end on the way to the client, and say what routers answered.
    /// Answered by `HopsTraced` when all have been, or their time is over, or by `Failed`.
    TraceHops {
        /// The trace's number within the session, as of a train.
        number: u32,
        /// What to send. Flow 0 is that of the trains.
        trace: HopTrace,
        /// Where flows 1, 2 … go: the nonce that was received there. Of one that is not known, nothing is sent.
        flows: Vec<[u8; 16]>,
    },
}

/// A message from the server to the client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ServerMessage {
    /// The first message: the session's name and limits.
    Welcome {
        /// What each probe connection and UDP packet shows, or the secret of what they show
        /// ([`Credential`](crate::Credential)).
        token: Token,
        /// What this client may use.
        limits: Limits,
    },
    /// The answer to `Ping`.
    Pong,
    /// How many clients have their turn first. Repeated about every second while the client waits.
    QueuePosition(u32),
    /// The client's turn begins.
    TurnBegins,
    /// UDP is open both ways.
    UdpOpen,
    /// These probe connections (by the number each showed) are in use, in this order; those of an earlier answer that
    /// are not among them are closed.
    Connections {
        /// The numbers.
        numbers: Vec<u16>,
        /// As the server sees them; none if there are none.
        server_endpoint: Option<TcpEndpointInfo>,
    },
    /// The record of a train that the server received.
    Received {
        /// The train's number.
        number: u32,
        /// In the order of the train; packets that did not arrive are left out.
        arrivals: Vec<Arrival>,
        /// Whether the stamps are the kernel's.
        kernel_stamps: bool,
    },
    /// The record of a train that the server sent.
    Sent {
        /// The train's number.
        number: u32,
        /// In the order of the train; packets that could not be sent are left out.
        departures: Vec<Departure>,
        /// Whether the stamps are the kernel's.
        kernel_stamps: bool,
    },
    /// The train could not be carried, for this reason, most likely because the path closed the probe connections; the
    /// client may open others.
    Failed {
        /// The train's number.
        number: u32,
        /// One line.
        reason: String,
    },
    /// The request is refused for this reason, and the session ends.
    Refused(String),
    /// The maximum error of the clock that the server's stamps are by; none where it is not synchronised.
    Clock {
        /// Either way.
        maximum_error: Option<Span>,
    },
    /// Since [version 4](crate::Version::SEND_TIMES), before `Sent`: the server's own interface held packets of this train
    /// back, and the stamps are of the time before that.
    QueuedLocally {
        /// The train's number.
        number: u32,
    },
    /// Since [version 4](crate::Version::SEND_TIMES), immediately before `Sent`: when the server's program gave the packets to
    /// its kernel.
    Submitted {
        /// The train's number.
        number: u32,
        /// By how much earlier than it was `sent`, for each departure of `Sent`, in its order; zero for those without a stamp.
        submitted_before_sent: Vec<Span>,
    },
    /// Since [version 5](crate::Version::LOAD): the transfers of a `Load` begin.
    LoadBegins {
        /// Over so many connections; none if there are none, and no `LoadEnded` follows.
        connections: u32,
    },
    /// Since [version 5](crate::Version::LOAD): the transfers of a `Load` have ended.
    LoadEnded {
        /// Bytes that this end has sent or received, in each tenth of a second from the beginning.
        bytes: Vec<u64>,
    },
    /// Since [version 7](crate::Version::PATH): what the server sees of the session's packets.
    PathView(Box<PathView>),
    /// Since [version 7](crate::Version::PATH): the record of a marked train that the server received.
    ReceivedMarked {
        /// The train's number.
        number: u32,
        /// In the order of the train; packets that did not arrive are left out.
        arrivals: Vec<MarkedArrival>,
    },
    /// Since [version 7](crate::Version::PATH): which packets of a marked train the server sent.
    SentMarked {
        /// The train's number.
        number: u32,
        /// Their places in the train; those that could not be sent are left out.
        sent: Vec<u32>,
    },
    /// Since [version 7](crate::Version::PATH): the SYNs of probe connections.
    ConnectionSyns {
        /// The number that each showed, and its SYN as in [`TcpPathView::syn`](crate::TcpPathView::syn).
        syns: Vec<(u16, Vec<u8>)>,
    },
    /// Since [version 8](crate::Version::DS_FIELDS): the record of such a train that the server received.
    ReceivedDsFields {
        /// The train's number.
        number: u32,
        /// In the order of the train; packets that did not arrive are left out.
        arrivals: Vec<DsFieldArrival>,
    },
    /// Since [version 8](crate::Version::DS_FIELDS): the record of such a train that the server sent.
    SentDsFields {
        /// The train's number.
        number: u32,
        /// In the order of the train, with the times before packets waited in the server's own interface; those that could not be sent are
        /// left out.
        departures: Vec<Departure>,
    },
    /// Since [version 8](crate::Version::PORTS): the ports at which the server listens now, in the order of the request.
    PortsOpened {
        /// What has become of each.
        ports: Vec<OpenedPort>,
        /// Another address of the server, where it listens at the same ports; none if it has none for that.
        second_address: Option<IpAddr>,
    },
    /// Since [version 8](crate::Version::PORTS): what has arrived there.
    PortArrivals {
        /// In the order of arrival.
        arrivals: Vec<PortArrival>,
    },
    /// Since [version 8](crate::Version::PORTS): packets have been sent.
    SentFromPort {
        /// Where to: the client's address and port as the server sees them; none where the nonce is not known any more.
        client: Option<SocketAddr>,
    },
    /// Since [version 8](crate::Version::PORTS): these flows are kept.
    FlowsHeld {
        /// Of those of UDP, in their order.
        udp: Vec<bool>,
        /// Of the connections, in their order.
        tcp: Vec<bool>,
    },
    /// Since [version 8](crate::Version::PORTS): what has become of flows that were kept.
    FlowRecords {
        /// Those of UDP, in the order of the request.
        udp: Vec<IdleFlowRecord>,
        /// The connections, likewise.
        tcp: Vec<IdleFlowRecord>,
    },
    /// Since [version 8](crate::Version::HOP_TRACES): what routers have answered.
    HopsTraced {
        /// The trace's number.
        number: u32,
        /// What became of it.
        record: HopTraceRecord,
    },
}
