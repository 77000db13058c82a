use kumade_net::platform::stamp::StampSource;
use kumade_units::Time;
use kumade_wire::{Arrival, Departure};

/// The sender's record of a train.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentTrain {
    /// Sent packets in the order of the train; packets that could not be sent are omitted.
    pub departures: Vec<Departure>,
    /// When the program gave each of them to the kernel, in the same order; none where the sender does not say.
    pub submitted: Vec<Option<Time>>,
    /// Source of the time stamps, the same for the whole train; the kernel if there are no packets.
    pub stamp_source: StampSource,
}

/// The receiver's record of a train.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedTrain {
    /// Received packets in the order of the train; packets that did not arrive are omitted.
    pub arrivals: Vec<Arrival>,
    /// Source of the time stamps, the same for the whole train; the kernel if there are no packets.
    pub stamp_source: StampSource,
}
