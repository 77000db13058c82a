use crate::choice::Class;
use crate::message::DataHeader;
use crate::path_id::PathId;
use crate::predecessor::Predecessor;
use crate::sequencer::Assignment;
use kumade_units::Time;

/// What is to be sent now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transmission<P> {
    /// By this path, …
    pub path: PathId,
    /// … with this counter of it.
    pub counter: u64,
    /// Whether the far end is to report it at once ([`PathReceiver::receive`](crate::PathReceiver::receive)).
    pub answer: bool,
    /// The packet; a probe has none.
    pub packet: Option<Outgoing<P>>,
}

/// A packet on its way out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing<P> {
    /// As it was offered.
    pub content: P,
    /// Whether the queue has marked it: its ECN field has to say so (RFC 3168).
    pub marked: bool,
    /// What stands before it in its message.
    pub header: DataHeader,
    /// Where it has to be put in order.
    pub(crate) assignment: Option<Assignment>,
}

impl<P> Outgoing<P> {
    /// What was sent before it over other paths than `path`, by which it leaves.
    pub fn predecessors(&self, path: PathId) -> impl Iterator<Item = Predecessor> + Clone + use<P> {
        self.assignment.into_iter().flat_map(move |assignment| assignment.predecessors(path))
    }
}

/// A packet that waits until a path has room.
#[derive(Debug, Clone)]
pub(crate) struct Waiting<P> {
    pub content: P,
    pub marked: bool,
    pub class: Class,
    /// When it came.
    pub since: Time,
    /// Its place, where copies of it are sent: all have the same.
    pub place: Option<Box<Place>>,
}

/// A packet's place among those of its bucket.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub header: DataHeader,
    pub assignment: Option<Assignment>,
}
