use crate::message::DataHeader;
use crate::path::id::PathId;
use crate::predecessor::Predecessor;
use crate::scheduler::policy::TrafficClass;
use crate::sequencer::Assignment;
use kumade_link::Label;
use kumade_units::Time;
use std::collections::VecDeque;

/// What is to be sent now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transmission<P> {
    /// By this path, …
    pub path: PathId,
    /// … with this counter of it.
    pub counter: u64,
    /// Whether the far end is to report it at once ([`PathReceiver::receive`](crate::PathReceiver::receive)).
    pub requests_report: bool,
    /// The packet; a probe has none.
    pub packet: Option<OutgoingPacket<P>>,
}

/// A packet on its way out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutgoingPacket<P> {
    /// As it was offered, until whoever sends it has changed it ([`Shorten`](crate::Shorten)).
    pub content: P,
    /// Whether the queue has marked it: its ECN field has to say so (RFC 3168).
    pub is_ecn_marked: bool,
    /// What stands before it in its message.
    pub header: DataHeader,
    /// Where it has to be put in order.
    pub(crate) assignment: Option<Assignment>,
}

impl<P> OutgoingPacket<P> {
    /// What was sent before it over other paths than `path`, by which it leaves.
    pub fn predecessors(&self, path: PathId) -> impl Iterator<Item = Predecessor> + Clone + use<P> {
        self.assignment.into_iter().flat_map(move |assignment| assignment.predecessors(path))
    }
}

/// A packet that waits until a path has room.
#[derive(Debug, Clone)]
pub(crate) struct WaitingPacket<P> {
    pub content: P,
    /// For how many packets it stands: as so many it leaves, where datagrams carry it.
    pub segments: u16,
    /// Bytes of the longest of them.
    pub longest_bytes: u32,
    pub is_ecn_marked: bool,
    pub delivery_order: TrafficClass,
    /// When it came.
    pub queued_at: Time,
    /// Its place, where copies of it are sent: all have the same.
    pub number: Option<Box<AssignedNumber>>,
}

/// Takes the first segment of a packet that stands for several; `None` of any other: [`Bond::next_divided`](crate::Bond::next_divided).
pub type Divide<'d, P> = dyn FnMut(&mut P) -> Option<FirstSegment<P>> + 'd;

/// Of a packet that stands for several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FirstSegment<P> {
    /// The segment.
    pub packet: P,
    /// Its length.
    pub bytes: u32,
    /// The length of what is left of the packet.
    pub left_bytes: u32,
}

/// Packets of a flow that wait until none of it waits in the queue that it has left.
#[derive(Debug)]
pub(crate) struct HeldPackets<P> {
    pub packets: VecDeque<(WaitingPacket<P>, Label)>,
    pub bytes: u64,
}

impl<P> Default for HeldPackets<P> {
    fn default() -> Self {
        HeldPackets { packets: VecDeque::new(), bytes: 0 }
    }
}

/// A packet's place among those of its bucket.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AssignedNumber {
    pub header: DataHeader,
    pub assignment: Option<Assignment>,
}
