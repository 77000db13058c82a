use crate::ledger::DropCause;
use kumade_packet::{Dscp, Ecn};
use kumade_units::Time;

/// What a queue discipline has to know of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Label {
    /// IP packet size in bytes.
    pub size: u32,
    /// The flow it belongs to: any number, such as a hash of addresses and ports.
    pub flow: u64,
    /// The host that has the flow: any number, such as a hash of the source address.
    pub host: u64,
    /// The host at the other end: any number, such as a hash of the destination address.
    pub destination_host: u32,
    /// The differentiated services codepoint, by which a discipline may sort packets.
    pub dscp: Dscp,
    /// The ECN field, which says whether it can be marked. ECT(1) is of senders that expect frequent marks (RFC 9331); a discipline
    /// that does not know of them treats it as ECT(0).
    pub ecn: Ecn,
}

/// A packet as a queue sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedPacket<P> {
    /// What the caller wants back.
    pub content: P,
    /// IP packet size in bytes.
    pub size: u32,
    /// The flow it belongs to.
    pub flow: u64,
    /// The host that has the flow.
    pub host: u64,
    /// The host at the other end.
    pub destination_host: u32,
    /// The differentiated services codepoint.
    pub dscp: Dscp,
    /// The ECN field on arrival.
    pub ecn: Ecn,
    /// Whether this queue has marked it.
    pub marked: bool,
    /// When it reached the queue.
    pub arrival: Time,
}

/// Takes the first part of a packet that stands for several and leaves the rest, with its size; `None` of any other.
pub type Divide<'d, P> = dyn FnMut(&mut QueuedPacket<P>) -> Option<QueuedPacket<P>> + 'd;

/// A packet that a queue has dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DroppedPacket<P> {
    /// The packet.
    pub packet: QueuedPacket<P>,
    /// Why it was dropped.
    pub cause: DropCause,
}

/// The capacity of a queue. What exceeds it is dropped, whatever the discipline. All disciplines but tail drop need
/// room for one packet even on an idle link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueLimit {
    /// This many bytes of IP packets.
    Bytes(u64),
    /// This many packets of any size.
    Packets(u64),
}

impl<P> QueuedPacket<P> {
    /// A packet without ECN support that reaches a queue at `arrival`, of a flow that has hosts of its own.
    pub fn new(content: P, size: u32, flow: u64, arrival: Time) -> Self {
        let label = Label { size, flow, host: flow, destination_host: flow as u32, ..Label::default() };
        QueuedPacket::with_label(content, label, arrival)
    }

    /// A packet with this label that reaches a queue at `arrival`.
    pub fn with_label(content: P, label: Label, arrival: Time) -> Self {
        let Label { size, flow, host, destination_host, dscp, ecn } = label;
        QueuedPacket { content, size, flow, host, destination_host, dscp, ecn, marked: false, arrival }
    }

    /// As it was labelled.
    pub fn label(&self) -> Label {
        Label {
            size: self.size,
            flow: self.flow,
            host: self.host,
            destination_host: self.destination_host,
            dscp: self.dscp,
            ecn: self.ecn,
        }
    }

    /// The same packet with other content.
    pub(crate) fn map<Q>(self, change: impl FnOnce(P) -> Q) -> QueuedPacket<Q> {
        let QueuedPacket { content, size, flow, host, destination_host, dscp, ecn, marked, arrival } = self;
        QueuedPacket { content: change(content), size, flow, host, destination_host, dscp, ecn, marked, arrival }
    }

    /// Marks the packet if its sender supports ECN; returns false if it has to be dropped instead.
    pub(crate) fn mark(&mut self) -> bool {
        self.marked |= self.ecn != Ecn::NotEct;
        self.marked
    }

    /// Drops the packet, which has just arrived.
    pub(crate) fn drop_into(self, cause: DropCause, drops: &mut Vec<DroppedPacket<P>>) -> Result<(), DropCause> {
        drops.push(DroppedPacket { packet: self, cause });
        Err(cause)
    }
}

impl QueueLimit {
    /// Whether a packet of `size` fits in addition to what is queued.
    pub(crate) fn has_room(self, packets: usize, bytes: u64, size: u32) -> bool {
        match self {
            QueueLimit::Bytes(limit) => bytes.saturating_add(size.into()) <= limit,
            QueueLimit::Packets(limit) => (packets as u64) < limit,
        }
    }
}
