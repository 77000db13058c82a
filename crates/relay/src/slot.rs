use crate::far::{OpeningStream, UnauthenticatedConnection};
use crate::near::DialingStream;
use crate::relayed_stream::RelayedStream;
use kumade_daemon::Network;
use kumade_units::Span;
use std::io::{self, Read};
use std::net::{Shutdown, TcpStream};

/// What became of a connection so far.
pub(crate) enum ConnectionSlot {
    /// At the near end: the far end is being connected.
    Dialing(DialingStream),
    /// At the far end: it has not shown to be a peer's.
    Unauthenticated(UnauthenticatedConnection),
    /// It has shown to be none, and gets the same silence as who sends nothing.
    Silent(TcpStream, Network),
    /// At the far end: its target is being connected.
    Opening(Box<OpeningStream>),
    /// Bytes pass.
    Relayed(Box<RelayedStream>),
    /// At the far end: it was refused, and what the peer still sends must not keep it from reading that.
    Draining(TcpStream),
}

impl ConnectionSlot {
    /// For how long it may stay what it is.
    pub(crate) fn timeout(&self) -> Option<Span> {
        let seconds = match self {
            ConnectionSlot::Dialing(_) | ConnectionSlot::Unauthenticated(_) | ConnectionSlot::Silent(..) => 10,
            ConnectionSlot::Opening(_) => 30,
            ConnectionSlot::Relayed(_) => return None,
            ConnectionSlot::Draining(_) => 5,
        };
        Some(Span::from_secs(seconds))
    }

    /// Where who has not shown to be a peer comes from; none for all others.
    pub(crate) fn unauthenticated_network(&self) -> Option<Network> {
        match self {
            ConnectionSlot::Unauthenticated(stranger) => Some(stranger.network),
            ConnectionSlot::Silent(_, network) => Some(*network),
            _ => None,
        }
    }

    /// The connection between the ends, while it is not handed on.
    pub(crate) fn socket(&self) -> Option<&TcpStream> {
        match self {
            ConnectionSlot::Dialing(dialing) => dialing.socket(),
            ConnectionSlot::Unauthenticated(stranger) => Some(&stranger.stream),
            ConnectionSlot::Opening(opening) => Some(&opening.sealed.stream),
            ConnectionSlot::Relayed(carried) => Some(&carried.sealed.stream),
            ConnectionSlot::Silent(stream, _) | ConnectionSlot::Draining(stream) => Some(stream),
        }
    }
}

/// Ends what is sent, so that the peer reads it all.
pub(crate) fn closing(stream: TcpStream) -> ConnectionSlot {
    let _ = stream.shutdown(Shutdown::Write);
    ConnectionSlot::Draining(stream)
}

/// Reads what a peer still sends, which is bounded. Whether it has ended.
pub(crate) fn discard_input(mut stream: &TcpStream) -> bool {
    let mut scratch = [0; 1 << 14];
    for _ in 0..64 {
        match stream.read(&mut scratch) {
            Ok(1..) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
            Ok(0) | Err(_) => return true,
        }
    }
    true
}
