use crate::error::Error;
use crate::lifeline::Lifeline;
use crate::parts::{Receiving, Sending};
use crate::tcp::TcpProbes;
use crate::udp::UdpProbes;
use train::{Train, Transport};
use units::Span;

/// The sockets that carry one session's trains.
#[derive(Debug)]
pub enum Probes {
    /// One datagram a packet (PathQuick3).
    Udp(UdpProbes),
    /// Many TCP connections (PathRakeTCP), or one.
    Tcp(TcpProbes),
}

impl Probes {
    /// What carries the packets.
    pub fn kind(&self) -> Transport {
        match self {
            Probes::Udp(_) => Transport::Udp,
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

    /// The largest IP packet, in bytes, that leaves this host as one packet; at most [`Train::MAX_PACKET`]. It can shrink
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
    /// `timeout` after the planned duration, counted from this call.
    ///
    /// # Errors
    /// As for [`send`](Self::send).
    pub fn receive(&mut self, number: u32, train: &Train, timeout: Span) -> Result<Receiving, Error> {
        match self {
            Probes::Udp(probes) => probes.receive(number, train, timeout),
            Probes::Tcp(probes) => probes.receive(train, timeout),
        }
    }
}
