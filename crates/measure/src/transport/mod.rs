//! Packet trains over real sockets, with the kernel's time stamps at both ends.
//!
//! [`Probes`] carries the trains of one session. Both sides build theirs from the same connections in the same order,
//! then one calls [`Probes::send`] and the other [`Probes::receive`] with the same plan, train after train.
//!
//! Neither call outlives its bound: sending ends within [`SEND_SLACK`] after the planned end (plus
//! [`STAMP_WAIT`] for stamps), receiving at the planned end plus the grace it was given; both end early once the
//! [`Lifeline`] is cut. Memory is bounded by the plan's
//! packet count, which [`train::Train::check`] limits.

mod error;
mod ledger;
mod lifeline;
mod tcp;
mod tcp_receive;
mod udp;

pub use error::Error;
pub use lifeline::Lifeline;
pub use net::stamp::StampSource;
pub use net::tcp::{Opened, open_connections};
pub use tcp::{PER_CONNECTION, TcpProbes};
pub use udp::UdpProbes;

use train::Train;
use units::Span;
use wire::{Arrival, Departure, TransportKind};

/// No probe packet is larger, in bytes of the IP packet: beyond the first hop nobody promises more than Ethernet's
/// size, and a too large packet would vanish or be cut up.
pub const MAX_PACKET: u32 = 1500;
/// How long after its planned end a train may still be sending; what has not left by then is given up.
pub const SEND_SLACK: Span = Span::from_secs(2);
/// How long after the last send transmit stamps are waited for at most.
pub const STAMP_WAIT: Span = Span::from_millis(500);

/// From the call of `send` to the train's first packet: the sender is awake and spinning by then.
const LEAD: Span = Span::from_micros(200);

/// Kernel stamps don't mind when the program reads: it wakes up for a batch, not for each packet, and leaves the
/// processor to the kernel (and in the lab to the link). Short enough for the receive buffer at 10 Gbit/s.
const NAP: Span = Span::from_micros(100);

/// The sockets that carry one session's trains.
#[derive(Debug)]
pub enum Probes {
    /// One datagram a packet (PathQuick3).
    Udp(UdpProbes),
    /// Many TCP connections (PathRakeTCP), or one.
    Tcp(TcpProbes),
}

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

impl Probes {
    /// What carries the packets.
    pub fn kind(&self) -> TransportKind {
        match self {
            Probes::Udp(_) => TransportKind::Udp,
            Probes::Tcp(probes) => probes.kind(),
        }
    }

    /// TCP connections that are still alive; zero for UDP.
    pub fn connections(&self) -> u32 {
        match self {
            Probes::Udp(_) => 0,
            Probes::Tcp(probes) => probes.connections(),
        }
    }

    /// The largest IP packet, in bytes, that leaves this host as one packet; at most [`MAX_PACKET`]. It can shrink
    /// when the path turns out to be narrower. Larger ones of a plan are left out by UDP, and cut in two by TCP.
    pub fn max_packet(&self) -> u32 {
        match self {
            Probes::Udp(probes) => probes.max_packet(),
            Probes::Tcp(probes) => probes.max_packet(),
        }
    }

    /// The smallest IP packet, in bytes, that this transport can send: smaller ones of a plan are raised to it.
    pub fn min_packet(&self) -> u32 {
        match self {
            Probes::Udp(probes) => probes.min_packet(),
            Probes::Tcp(probes) => probes.min_packet(),
        }
    }

    /// Sends `train` as its session's number `number`, each packet at its planned offset or at once where that has
    /// passed. Blocks for the train's duration and spins in its gaps.
    ///
    /// # Errors
    /// [`Error::Plan`] and [`Error::TooManyPerConnection`] before anything is sent: the peer must not be told to expect
    /// such a train, or TCP connections get out of step. [`Error::Io`] where UDP's path reports that it is closed (the
    /// probes stay usable), [`Error::NoConnection`] where no TCP connection is left, [`Error::Abandoned`] where the
    /// lifeline was cut.
    pub fn send(&mut self, number: u32, train: &Train) -> Result<Sending, Error> {
        match self {
            Probes::Udp(probes) => probes.send(number, train),
            Probes::Tcp(probes) => probes.send(train),
        }
    }

    /// From now on trains end early once `lifeline` is cut.
    pub fn depend_on(&mut self, lifeline: Lifeline) {
        match self {
            Probes::Udp(probes) => probes.lifeline = lifeline,
            Probes::Tcp(probes) => probes.lifeline = lifeline,
        }
    }

    /// Breaks all connections off (by RST), so that everything on the path forgets them at once. UDP has none.
    pub fn abort(&mut self) {
        match self {
            Probes::Udp(_) => {}
            Probes::Tcp(probes) => probes.abort(),
        }
    }

    /// Collects the train `number`, which the peer sends: returns as soon as every packet has come, at the latest
    /// `grace` after the planned duration, counted from this call.
    ///
    /// # Errors
    /// As for [`send`](Self::send).
    pub fn receive(&mut self, number: u32, train: &Train, grace: Span) -> Result<Receiving, Error> {
        match self {
            Probes::Udp(probes) => probes.receive(number, train, grace),
            Probes::Tcp(probes) => probes.receive(train, grace),
        }
    }
}

/// Bytes that no device on the path can compress (xorshift, from a fixed seed).
fn filling(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_be_bytes()[0]
    };
    (0..len).map(|_| next()).collect()
}
