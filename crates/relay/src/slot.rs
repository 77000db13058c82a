use crate::far::{OpeningStream, UnauthenticatedConnection};
use crate::near::DialingStream;
use crate::plain;
use crate::relayed_stream::RelayedStream;
use kumade_daemon::Network;
use kumade_units::{Span, Time};
use std::io::{self, Read};
use std::mem;
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
    /// At the far end: both directions have ended, and somebody has not acknowledged all of it.
    Lingering(Box<LingeringStream>),
}

/// The connections of a complete stream, until all that was sent has arrived: the kernel would hold it for whoever does not
/// take it, and for however many.
pub(crate) struct LingeringStream {
    sealed: TcpStream,
    plain: TcpStream,
    held_bytes: usize,
}

impl LingeringStream {
    pub(crate) fn new(carried: RelayedStream) -> Self {
        let (sealed, plain) = (carried.sealed.stream, carried.plain.into_closing());
        let _ = sealed.shutdown(Shutdown::Write);
        LingeringStream { sealed, plain, held_bytes: usize::MAX }
    }

    /// Whether all has arrived, or the peer has closed it.
    pub(crate) fn is_done(&self) -> bool {
        discard_input(&self.sealed);
        [&self.sealed, &self.plain].into_iter().all(plain::is_all_acknowledged)
    }

    /// Whether less is left than when this was last asked.
    pub(crate) fn has_progressed(&mut self) -> bool {
        let held = plain::kernel_bytes(&self.sealed) + plain::kernel_bytes(&self.plain);
        held < mem::replace(&mut self.held_bytes, held)
    }
}

impl ConnectionSlot {
    /// For how long it may stay what it is.
    pub(crate) fn timeout(&self) -> Option<Span> {
        let seconds = match self {
            ConnectionSlot::Dialing(_) | ConnectionSlot::Unauthenticated(_) | ConnectionSlot::Silent(..) => 10,
            ConnectionSlot::Opening(_) => 30,
            ConnectionSlot::Relayed(_) => return None,
            ConnectionSlot::Draining(_) => 5,
            // Since it has progressed.
            ConnectionSlot::Lingering(_) => 60,
        };
        Some(Span::from_secs(seconds))
    }

    /// Whenever the interval between checks is over.
    pub(crate) const EACH_CHECK: Time = Time::ZERO;

    /// From when on a check looks at it although nothing has come, if it is still what it is: an address that does not answer is left for the next
    /// one, a complete stream once all has arrived, which no event tells, and a handshake that others came before has its turn.
    pub(crate) fn recheck_at(&self) -> Option<Time> {
        match self {
            ConnectionSlot::Dialing(_) | ConnectionSlot::Lingering(_) => Some(Self::EACH_CHECK),
            ConnectionSlot::Unauthenticated(stranger) => stranger.is_deferred().then_some(Self::EACH_CHECK),
            ConnectionSlot::Opening(opening) => opening.next_attempt_at(),
            ConnectionSlot::Silent(..) | ConnectionSlot::Relayed(_) | ConnectionSlot::Draining(_) => None,
        }
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
            ConnectionSlot::Lingering(lingering) => Some(&lingering.sealed),
            ConnectionSlot::Silent(stream, _) | ConnectionSlot::Draining(stream) => Some(stream),
        }
    }

    /// Bytes that are held for it, here and in the kernel.
    pub(crate) fn held_bytes(&self) -> usize {
        match self {
            ConnectionSlot::Relayed(carried) => carried.held_bytes(),
            ConnectionSlot::Opening(opening) => opening.sealed.held_bytes(),
            ConnectionSlot::Lingering(lingering) => {
                plain::kernel_bytes(&lingering.sealed) + plain::kernel_bytes(&lingering.plain)
            }
            other => other.socket().map_or(0, plain::kernel_bytes),
        }
    }

    /// Has all end with an RST, so that the kernel holds nothing of it any more.
    pub(crate) fn reset_when_dropped(&self) {
        self.socket().into_iter().for_each(plain::reset_when_dropped);
        if let ConnectionSlot::Lingering(lingering) = self {
            plain::reset_when_dropped(&lingering.plain);
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
