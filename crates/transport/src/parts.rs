use net::stamp::StampSource;
use wire::{Arrival, Departure};

/// What became of a train on its sender's side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sending {
    /// In the order of the train; packets that could not be sent are left out.
    pub departures: Vec<Departure>,
    /// Where the train's stamps come from; never mixed within one train. The kernel where there is no packet at all.
    pub source: StampSource,
}

/// What became of a train on its receiver's side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receiving {
    /// In the order of the train; packets that did not come are left out.
    pub arrivals: Vec<Arrival>,
    /// Where the train's stamps come from; never mixed within one train. The kernel where there is no packet at all.
    pub source: StampSource,
}
