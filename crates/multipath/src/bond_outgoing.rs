use crate::choice::Class;
use crate::path_id::PathId;

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
    /// Whether the far end has to put it in order.
    pub class: Class,
}
