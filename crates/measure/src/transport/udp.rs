use super::{Error, Receiving, Sending};
use estimate::Train;
use std::net::{SocketAddr, UdpSocket};
use units::Span;
use wire::Token;

/// Trains as UDP datagrams on one connected socket.
#[derive(Debug)]
pub struct UdpProbes {
    socket: UdpSocket,
    peer: SocketAddr,
    token: Token,
}

impl UdpProbes {
    /// Takes over a socket that is connected to the peer; `token` is the session's.
    ///
    /// # Errors
    /// Where the socket is not connected or refuses an option.
    pub fn new(socket: UdpSocket, token: Token) -> Result<Self, Error> {
        let peer = socket.peer_addr().map_err(Error::io("use the UDP socket to", ([0, 0, 0, 0], 0).into()))?;
        Ok(UdpProbes { socket, peer, token })
    }

    /// See [`Probes::max_packet`](super::Probes::max_packet).
    pub fn max_packet(&self) -> u32 {
        1500
    }

    /// See [`Probes::min_packet`](super::Probes::min_packet).
    pub fn min_packet(&self) -> u32 {
        52
    }

    /// See [`Probes::send`](super::Probes::send).
    pub fn send(&mut self, _number: u32, _train: &Train) -> Result<Sending, Error> {
        Err(Error::NoConnection(0))
    }

    /// See [`Probes::receive`](super::Probes::receive).
    pub fn receive(&mut self, _number: u32, _train: &Train, _grace: Span) -> Result<Receiving, Error> {
        Err(Error::NoConnection(0))
    }
}
