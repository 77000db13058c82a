use kumade_daemon::FairTurns;
use kumade_units::{Span, Time};
use std::collections::VecDeque;

/// Among whom the thread's time is divided, whatever sockets they send to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sender {
    /// A peer, by its place: its connections, and the sockets that receive of it alone.
    Peer(usize),
    /// All that share the path's socket with this number.
    Shared(u32),
    /// Who has connected, and has not shown to be a peer.
    Stranger,
}

/// A socket that may have something to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) sender: Sender,
    pub(crate) socket: SourceSocket,
    /// A read takes no more: messages of a socket for datagrams, bytes of a connection.
    pub(crate) limit: usize,
    /// What that is at first, until it is known how long it takes, and at most.
    pub(crate) limits: (usize, usize),
    /// It is read within the time of those who send too much.
    pub(crate) is_held_back: bool,
}

/// What a read has brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ReadAmount {
    /// Messages of a socket for datagrams, bytes of a connection.
    pub(crate) units: usize,
    /// Datagrams, or records of a connection.
    pub(crate) datagrams: u32,
    /// Those of them that bring hosts a packet.
    pub(crate) packets: u32,
}

/// A socket by its number among those of its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SourceSocket {
    Datagrams(u32),
    Connection(u32),
}

/// The sockets that may have something in a turn of the thread. What was read of one is to be sent and delivered before the next one
/// is read, and counts as its sender's time: who sends more than this end can take waits, or loses what it sends.
#[derive(Debug)]
pub(crate) struct ReceiveTurn {
    start: Time,
    waiting: VecDeque<Source>,
    current: Option<Reading>,
    reads_left: usize,
}

/// A source that is being read, since when, and what came.
#[derive(Debug)]
struct Reading {
    source: Source,
    begun: Time,
    amount: ReadAmount,
}

/// A read that is over: how much came of which source, and how long that took with what has come of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FinishedRead {
    pub(crate) source: Source,
    pub(crate) amount: ReadAmount,
    /// Whether there may be more.
    pub(crate) has_more: bool,
    /// What the first read of the next turn may take: as much as takes a quarter of a turn, by what this read took.
    pub(crate) next_limit: usize,
    pub(crate) time: Span,
}

impl Sender {
    /// Its place, if it is one peer.
    pub(crate) fn peer(self) -> Option<usize> {
        match self {
            Sender::Peer(place) => Some(place),
            Sender::Shared(_) | Sender::Stranger => None,
        }
    }
}

impl FinishedRead {
    /// How many datagrams bring hosts nothing, and the part of the time that went into them.
    pub(crate) fn overhead(&self) -> (u32, Span) {
        let ReadAmount { datagrams, packets, .. } = self.amount;
        let messages = datagrams.saturating_sub(packets);
        (messages, self.time * i64::from(messages) / i64::from(datagrams.max(1)))
    }
}

/// Reads of all sockets in a turn, for each of them.
const MAX_READS_PER_SOURCE: usize = 4;
/// No socket is read any more in a turn that takes so long, with what became of what was read, so that none keeps the thread from the
/// device and from what is due.
const MAX_RECEIVE_TIME: Span = Span::from_micros(500);
/// Several senders are read in a turn.
const FIRST_READ_TIME: Span = Span::from_micros(125);

impl ReceiveTurn {
    pub(crate) fn new(waiting: VecDeque<Source>, now: Time) -> Self {
        ReceiveTurn { start: now, reads_left: MAX_READS_PER_SOURCE * waiting.len(), waiting, current: None }
    }

    /// Which source is read next, as long as there is time: one of the sender that has had least.
    pub(crate) fn begin_read(&mut self, turns: &mut FairTurns<Sender>, now: Time) -> Option<Source> {
        if now - self.start >= MAX_RECEIVE_TIME || self.reads_left == 0 {
            return None;
        }
        let sender = turns.next(self.waiting.iter().map(|source| source.sender))?;
        let place = self.waiting.iter().position(|source| source.sender == sender)?;
        let source = self.waiting.remove(place)?;
        self.reads_left -= 1;
        self.current = Some(Reading { source, begun: now, amount: ReadAmount::default() });
        Some(source)
    }

    /// So much came of the source that is being read. It has more, if that is all that could come.
    pub(crate) fn record_read(&mut self, amount: ReadAmount) {
        self.current.iter_mut().for_each(|current| current.amount = amount);
    }

    /// What was read last has been sent and delivered. The other sources of its sender come before it.
    pub(crate) fn end_read(&mut self, turns: &mut FairTurns<Sender>, now: Time) -> Option<FinishedRead> {
        let Reading { source, begun, amount } = self.current.take()?;
        let (time, has_more) = (now - begun, amount.units >= source.limit);
        turns.charge(source.sender, time);
        let fitting = |span: Span| {
            let units = (amount.units as i64).saturating_mul(span.as_nanos()) / time.as_nanos().max(1);
            (units.max(0) as usize).clamp(source.limits.0, source.limits.1)
        };
        if has_more {
            let limit = fitting(MAX_RECEIVE_TIME - (now - self.start));
            self.waiting.push_back(Source { limit, ..source });
        }
        let next_limit = if amount.units > 0 { fitting(FIRST_READ_TIME) } else { source.limit };
        Some(FinishedRead { source, amount, has_more, next_limit, time })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Time = Time::from_nanos(1_000_000_000);

    fn connection(peer: usize, number: u32) -> Source {
        let socket = SourceSocket::Connection(number);
        Source { sender: Sender::Peer(peer), socket, limit: 4096, limits: (4096, 80_000), is_held_back: false }
    }

    fn read(units: usize) -> ReadAmount {
        ReadAmount { units, datagrams: 1, packets: 1 }
    }

    /// The time that each of two peers gets that always have something, the first one over so many connections, where a byte of theirs
    /// takes so many nanoseconds.
    fn shares(connections: u32, nanos_per_byte: [i64; 2]) -> [f64; 2] {
        let (mut turns, mut now, mut had) = (FairTurns::default(), START, [Span::ZERO; 2]);
        for _ in 0..1000 {
            let first = (0..connections).map(|number| connection(0, number));
            let mut turn = ReceiveTurn::new(first.chain([connection(1, connections)]).collect(), now);
            while let Some(source) = turn.begin_read(&mut turns, now) {
                let Sender::Peer(peer) = source.sender else { unreachable!() };
                let time = Span::from_nanos(source.limit as i64 * nanos_per_byte[peer]);
                turn.record_read(read(source.limit));
                (now, had[peer]) = (now + time, had[peer] + time);
                assert_eq!(turn.end_read(&mut turns, now).map(|read| read.time), Some(time));
            }
        }
        had.map(|had| had.as_secs_f64() / (now - START).as_secs_f64())
    }

    #[test]
    fn a_peer_has_the_same_time_however_many_connections_it_has_and_whatever_its_bytes_cost() {
        for (connections, nanos_per_byte) in [(1, [50, 1]), (16, [50, 1]), (16, [1, 50]), (16, [50, 50])] {
            let shares = shares(connections, nanos_per_byte);
            assert!((shares[0] - shares[1]).abs() < 0.02, "{connections} {nanos_per_byte:?}: {shares:?}");
        }
    }

    #[test]
    fn overhead_is_the_time_of_what_brings_hosts_nothing() {
        let overhead = |datagrams, packets| {
            let amount = ReadAmount { units: 1, datagrams, packets };
            let time = Span::from_micros(90);
            FinishedRead { source: connection(0, 0), amount, has_more: false, next_limit: 4096, time }.overhead()
        };
        let micros = [(3, 3, 0), (3, 2, 30), (3, 0, 90), (0, 0, 0)];
        micros.into_iter().for_each(|(datagrams, packets, micros)| {
            assert_eq!(
                overhead(datagrams, packets),
                (datagrams - packets, Span::from_micros(micros)),
                "{packets} of {datagrams}"
            );
        });
    }

    #[test]
    fn connections_of_one_peer_are_read_in_turn() {
        let (mut turns, mut now) = (FairTurns::default(), START);
        let mut turn = ReceiveTurn::new((0..3).map(|number| connection(0, number)).collect(), now);
        let mut order = Vec::new();
        while let Some(source) = turn.begin_read(&mut turns, now) {
            order.push(source.socket);
            // The second has nothing more.
            turn.record_read(read(source.limit - usize::from(source.socket == SourceSocket::Connection(1))));
            now += Span::from_micros(1);
            turn.end_read(&mut turns, now);
        }
        let expected = [0, 1, 2, 0, 2, 0, 2].map(SourceSocket::Connection);
        assert_eq!(order[..7], expected);
        assert_eq!(order.len(), 3 * MAX_READS_PER_SOURCE);
    }

    #[test]
    fn a_turn_ends_in_time_and_reads_no_more_at_once_than_fits() {
        let (mut turns, mut now) = (FairTurns::default(), START);
        let mut turn = ReceiveTurn::new([connection(0, 0)].into(), now);
        let (mut limits, mut next_limit) = (Vec::new(), 0);
        while let Some(source) = turn.begin_read(&mut turns, now) {
            limits.push(source.limit);
            turn.record_read(read(source.limit));
            now += Span::from_nanos(20 * source.limit as i64);
            next_limit = turn.end_read(&mut turns, now).unwrap().next_limit;
        }
        assert_eq!(next_limit, 6250);
        // 82 µs, then what is left.
        assert_eq!((limits[0], limits.iter().sum::<usize>()), (4096, 25_000), "{limits:?}");
        assert!(now - START < MAX_RECEIVE_TIME + Span::from_micros(100), "{limits:?}");
    }
}
