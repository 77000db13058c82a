//! Connections that have not identified themselves as control or probe connections yet.

use net::clock;
use std::io::{self, Read};
use std::net::TcpStream;
use units::{Span, Time};
use wire::Preamble;

/// Maximum time until a connection has identified itself.
pub(super) const IDENTIFY_TIMEOUT: Span = Span::from_secs(10);

/// A bounded number of connections that are not identified. When full, the oldest is dropped: idle connections can't
/// lock out real clients.
pub(super) struct PendingConnections {
    slots: Vec<Option<Pending>>,
}

struct Pending {
    stream: TcpStream,
    accepted: Time,
    bytes: [u8; Preamble::SIZE],
    have: usize,
}

impl PendingConnections {
    pub(super) fn new(capacity: usize) -> Self {
        PendingConnections { slots: (0..capacity.max(1)).map(|_| None).collect() }
    }

    /// Adds a non-blocking connection; returns its place. Drops the oldest if the table is full.
    pub(super) fn admit(&mut self, stream: TcpStream) -> usize {
        let free = self.slots.iter().position(Option::is_none);
        let place = free.or_else(|| self.oldest()).unwrap_or(0);
        let accepted = clock::monotonic();
        self.slots[place] = Some(Pending { stream, accepted, bytes: [0; Preamble::SIZE], have: 0 });
        place
    }

    /// The connection at `place`. (It must not be duplicated: dropping it removes it from the poll set.)
    pub(super) fn stream(&self, place: usize) -> Option<&TcpStream> {
        Some(&self.slots.get(place)?.as_ref()?.stream)
    }

    /// Drops the oldest connection, to free its descriptor; false if there is none.
    pub(super) fn evict(&mut self) -> bool {
        self.oldest().and_then(|place| self.slots[place].take()).is_some()
    }

    /// Drops connections that have timed out.
    pub(super) fn expire(&mut self) {
        let limit = clock::monotonic() - IDENTIFY_TIMEOUT;
        for slot in &mut self.slots {
            slot.take_if(|pending| pending.accepted < limit);
        }
    }

    /// Reads from the connection at `place`, which is dropped if it is closed. Once its preamble is complete, removes it
    /// from the table and returns both.
    pub(super) fn hear(&mut self, place: usize) -> Option<(TcpStream, [u8; Preamble::SIZE])> {
        let slot = self.slots.get_mut(place)?;
        let pending = slot.as_mut()?;
        match pending.stream.read(&mut pending.bytes[pending.have..]) {
            Ok(count) if count > 0 => pending.have += count,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            _ => *slot = None,
        }
        let pending = slot.take_if(|pending| pending.have == Preamble::SIZE)?;
        Some((pending.stream, pending.bytes))
    }

    fn oldest(&self) -> Option<usize> {
        let taken = self.slots.iter().enumerate().filter_map(|(place, slot)| Some((slot.as_ref()?.accepted, place)));
        taken.min().map(|(_, place)| place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use net::readiness;
    use std::io::Write;
    use std::net::TcpListener;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let theirs = listener.accept().unwrap().0;
        theirs.set_nonblocking(true).unwrap();
        (ours, theirs)
    }

    #[test]
    fn the_oldest_gives_way_when_full() {
        let mut pending = PendingConnections::new(2);
        let (mut first, end) = pair();
        let place = pending.admit(end);
        let (_second, end) = pair();
        assert_ne!(pending.admit(end), place);
        let (mut third, end) = pair();
        assert_eq!(pending.admit(end), place, "the first one's place");
        assert_eq!(first.read(&mut [0]).unwrap(), 0, "the first one was closed");
        third.write_all(&Preamble::Control { encrypted: false }.encode()).unwrap();
        let soon = clock::monotonic() + Span::from_secs(60);
        assert!(readiness::readable(pending.stream(place).unwrap(), soon).unwrap());
        let heard = pending.hear(place).map(|(_, bytes)| bytes);
        assert_eq!(heard, Some(Preamble::Control { encrypted: false }.encode()));
        assert!(pending.evict() && !pending.evict(), "only the second was left");
    }
}
