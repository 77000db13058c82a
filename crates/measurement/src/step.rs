use crate::event::Event;
use crate::load::LoadRequest;
use crate::path::{IdleRound, PortRound};
use crate::report::{Report, Warning};
use kumade_probe_train::{DsFieldTrain, HopTrace, MarkedTrain, PortProtocol, Train, Transport};
use kumade_units::{Direction, Span};

/// What the driver of a measurement has to do next.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Open this transport at both ends, then call [`transport_opened`](crate::Measurement::transport_opened) or
    /// [`transport_failed`](crate::Measurement::transport_failed).
    Open(OpenRequest),
    /// Send this train, then call [`train_delivered`](crate::Measurement::train_delivered).
    Send(SendRequest),
    /// Fill the path with TCP transfers, then call [`load_completed`](crate::Measurement::load_completed) or
    /// [`load_failed`](crate::Measurement::load_failed).
    Load(LoadRequest),
    /// Send these marked packets by UDP, then call [`marks_delivered`](crate::Measurement::marks_delivered) or
    /// [`marks_failed`](crate::Measurement::marks_failed).
    Mark(MarkRequest),
    /// Send this train by UDP, whose packets have a DSCP and ECN codepoint each, then call
    /// [`ds_fields_delivered`](crate::Measurement::ds_fields_delivered) or [`ds_fields_failed`](crate::Measurement::ds_fields_failed).
    SendDsFields(DsFieldRequest),
    /// Send these packets, which end on the way, then call [`hops_traced`](crate::Measurement::hops_traced) or
    /// [`hops_not_traced`](crate::Measurement::hops_not_traced).
    Trace(TraceRequest),
    /// Try these ports, then call [`ports_tried`](crate::Measurement::ports_tried) or [`ports_failed`](crate::Measurement::ports_failed).
    Ports(PortRound),
    /// Open these flows, leave each idle, then have the far end send down it, and send up it; then call
    /// [`flows_idled`](crate::Measurement::flows_idled) or [`flows_failed`](crate::Measurement::flows_failed).
    IdleFlows(IdleRound),
    /// Nothing to do: an event for the user.
    Progress(Event),
    /// The measurement has ended with this result.
    Done(Box<Report>),
    /// The measurement has failed.
    Failed(Failure),
}

/// A transport to be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenRequest {
    /// The transport.
    pub transport: Transport,
    /// TCP connections to open; meaningless for UDP.
    pub connections: u16,
    /// Minimum number of them; with fewer, opening fails.
    pub min_connections: u16,
    /// Number of the first connection; they are numbered consecutively, and no number is used twice in a measurement.
    pub first_number: u16,
    /// Whether it replaces a transport that is broken, or whose connections are held back by what they have lost: these must be reset (RST)
    /// before, so that they send nothing again, and a firewall that counts connections removes them from its table.
    pub is_replacement: bool,
    /// From one of them to the next: zero begins to open all at once.
    pub spacing: Span,
}

/// A transport that is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// Size in bytes of the largest IP packet that this host can send unfragmented.
    pub max_packet: u32,
    /// Whether packets of that size are known to pass the path; otherwise sizes are tested over UDP.
    pub is_size_known: bool,
    /// TCP connections that are open at both ends; zero for UDP.
    pub connections: u32,
    /// Warnings for the report.
    pub warnings: Vec<Warning>,
}

/// A train to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SendRequest {
    /// Direction of the train.
    pub direction: Direction,
    /// Purpose of the train.
    pub purpose: Purpose,
    /// How long to wait before it is sent, from the call that returned this request.
    pub wait: Span,
    /// The train.
    pub train: Train,
    /// Receive timeout, from the train's planned end.
    pub timeout: Span,
}

/// Marked packets to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MarkRequest {
    /// Their direction.
    pub direction: Direction,
    /// The packets.
    pub train: MarkedTrain,
    /// Receive timeout, from the planned end.
    pub timeout: Span,
}

/// Packets to be sent so that routers answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceRequest {
    /// Their direction.
    pub direction: Direction,
    /// Their protocol; TCP goes up alone.
    pub protocol: PortProtocol,
    /// The packets.
    pub trace: HopTrace,
}

/// A train to be sent whose packets have a DSCP and ECN codepoint each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DsFieldRequest {
    /// Its direction.
    pub direction: Direction,
    /// How long to wait before it is sent, from the call that returned this request.
    pub wait: Span,
    /// The train.
    pub train: DsFieldTrain,
    /// Receive timeout, from its planned end.
    pub timeout: Span,
}

/// What a train is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To test whether packets of a size pass.
    PacketSize,
    /// To measure the delay of the unloaded path.
    IdleDelay,
    /// To find out whether connections take several links side by side.
    LoadBalancing,
    /// To measure the capacity.
    Capacity,
    /// To measure the available bandwidth.
    AvailableBandwidth,
    /// To find out whether a rate lasts.
    Policing,
    /// To find out whether packets of different connections are served in turn.
    FlowQueueing,
    /// To see which part of the time the narrow link is busy.
    Utilization,
    /// To measure what a link leaves that serves packets in turns, where shorter trains do not tell.
    VaryingLink,
}

/// Why a measurement failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The requested transport could not be opened or reopened.
    TransportUnavailable {
        /// The transport.
        transport: Transport,
        /// The cause.
        reason: String,
    },
    /// Sockets failed repeatedly during trains.
    ConnectionsKeepBreaking {
        /// How often the transport was reopened.
        replacements: u32,
    },
}
