use crate::carried::Carried;
use crate::far::{Opening, Stranger};
use crate::near::Dialing;
use kumade_daemon::Network;
use kumade_units::Span;
use std::io::{self, Read};
use std::net::{Shutdown, TcpStream};

/// What became of a connection so far.
pub(crate) enum Slot {
    /// At the near end: the far end is being connected.
    Dialing(Dialing),
    /// At the far end: it has not shown to be a peer's.
    Stranger(Stranger),
    /// It has shown to be none, and gets the same silence as who sends nothing.
    Silent(TcpStream, Network),
    /// At the far end: its target is being connected.
    Opening(Box<Opening>),
    /// Bytes pass.
    Carried(Box<Carried>),
    /// At the far end: it was refused, and what the peer still sends must not keep it from reading that.
    Leaving(TcpStream),
}

impl Slot {
    /// For how long it may stay what it is.
    pub(crate) fn patience(&self) -> Option<Span> {
        let seconds = match self {
            Slot::Dialing(_) | Slot::Stranger(_) | Slot::Silent(..) => 10,
            Slot::Opening(_) => 30,
            Slot::Carried(_) => return None,
            Slot::Leaving(_) => 5,
        };
        Some(Span::from_secs(seconds))
    }

    /// Where who has not shown to be a peer comes from; none for all others.
    pub(crate) fn stranger_network(&self) -> Option<Network> {
        match self {
            Slot::Stranger(stranger) => Some(stranger.network),
            Slot::Silent(_, network) => Some(*network),
            _ => None,
        }
    }

    /// The connection between the ends, while it is not handed on.
    pub(crate) fn socket(&self) -> Option<&TcpStream> {
        match self {
            Slot::Dialing(dialing) => dialing.socket(),
            Slot::Stranger(stranger) => Some(&stranger.stream),
            Slot::Opening(opening) => Some(&opening.sealed.stream),
            Slot::Carried(carried) => Some(&carried.sealed.stream),
            Slot::Silent(stream, _) | Slot::Leaving(stream) => Some(stream),
        }
    }
}

/// Ends what is sent, so that the peer reads it all.
pub(crate) fn leaving(stream: TcpStream) -> Slot {
    let _ = stream.shutdown(Shutdown::Write);
    Slot::Leaving(stream)
}

/// Reads what a peer still sends, which is bounded. Whether it has ended.
pub(crate) fn discard(mut stream: &TcpStream) -> bool {
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
