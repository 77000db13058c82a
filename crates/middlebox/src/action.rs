use kumade_packet::ResetPair;

/// The direction in which a packet passes a middlebox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// From the inside (the private realm of a translator) to the outside.
    Outbound,
    /// From the outside to the inside.
    Inbound,
}

impl Direction {
    /// The other one.
    pub(crate) fn reversed(self) -> Self {
        match self {
            Direction::Outbound => Direction::Inbound,
            Direction::Inbound => Direction::Outbound,
        }
    }
}

/// What the caller does with a packet after a middlebox has seen it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PacketAction {
    /// Forward it, as translated in place.
    Forward,
    /// Forward it to the inside although it came from there: hairpinning (RFC 4787 §6), translated in place.
    Hairpin,
    /// Discard it: the middlebox keeps a copy of this fragment until the first one of its datagram arrives.
    Hold,
    /// Discard it.
    Drop,
    /// Discard it, and send this packet back to where it came from.
    Reply(Vec<u8>),
    /// Discard it, and send these resets to both ends of its connection.
    Reset(ResetPair),
}
