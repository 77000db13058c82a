use super::{Error, Receiving, Sending};
use estimate::Train;
use std::net::TcpStream;
use units::Span;
use wire::TransportKind;

/// Trains over TCP connections: packet *i* goes to connection *i* mod M, where M and the order of the connections were
/// agreed on at the session's start and stay, even when a connection dies.
#[derive(Debug)]
pub struct TcpProbes {
    slots: Vec<TcpStream>,
    kind: TransportKind,
}

impl TcpProbes {
    /// PathRakeTCP's probes: `streams` in the order of [`wire::ServerMessage::Connections`].
    ///
    /// # Errors
    /// Where there is no stream, or one refuses an option.
    pub fn rake(streams: Vec<TcpStream>) -> Result<Self, Error> {
        Ok(TcpProbes { slots: streams, kind: TransportKind::Rake })
    }

    /// Everything on one connection, as any other program would write it.
    ///
    /// # Errors
    /// Where the stream refuses an option.
    pub fn single(stream: TcpStream) -> Result<Self, Error> {
        Ok(TcpProbes { slots: vec![stream], kind: TransportKind::Single })
    }

    /// See [`Probes::kind`](super::Probes::kind).
    pub fn kind(&self) -> TransportKind {
        self.kind
    }

    /// See [`Probes::connections`](super::Probes::connections).
    pub fn connections(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Which connections are alive, in the agreed order.
    pub fn alive(&self) -> Vec<bool> {
        vec![true; self.slots.len()]
    }

    /// See [`Probes::max_packet`](super::Probes::max_packet).
    pub fn max_packet(&self) -> u32 {
        1500
    }

    /// See [`Probes::min_packet`](super::Probes::min_packet).
    pub fn min_packet(&self) -> u32 {
        53
    }

    /// See [`Probes::send`](super::Probes::send).
    pub fn send(&mut self, _train: &Train) -> Result<Sending, Error> {
        Err(Error::NoConnection(0))
    }

    /// See [`Probes::receive`](super::Probes::receive).
    pub fn receive(&mut self, _train: &Train, _grace: Span) -> Result<Receiving, Error> {
        Err(Error::NoConnection(0))
    }
}
