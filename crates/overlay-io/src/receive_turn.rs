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
    /// As much as takes [`READ_TIME`], as far as is known: messages of a socket for datagrams, bytes of a connection.
    pub(crate) limit: usize,
    /// What is read at first, until it is known how long it takes, and at most.
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

/// The sockets that may have something in a turn of the thread. What was read of one sender is to be sent and delivered before the next
/// one is read, and counts as its sender's time: who sends more than this end can take waits, or loses what it sends.
#[derive(Debug)]
pub(crate) struct ReceiveTurn {
    start: Time,
    waiting: VecDeque<Source>,
    /// What is being read, of one sender.
    current: Vec<Reading>,
    begun: Time,
    /// How long may be taken for what else is read of that sender.
    left: Span,
    reads_left: usize,
}

/// A source that is being read, and what came.
#[derive(Debug)]
struct Reading {
    source: Source,
    /// As much of it as was asked for.
    limit: usize,
    amount: ReadAmount,
    /// How long that takes, by what earlier reads of it took.
    expected: Span,
}

/// A read that is over: how much came of which source, and how long that took with what has come of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FinishedRead {
    pub(crate) source: Source,
    pub(crate) amount: ReadAmount,
    /// Whether there may be more.
    pub(crate) has_more: bool,
    /// As much as takes [`READ_TIME`], by what this read took.
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
/// What is read of one sender before it is sent and delivered takes so long: several senders are read in a turn, and what goes to a device or
/// a path goes there in batches, over however many connections it came.
const READ_TIME: Span = Span::from_micros(125);

impl ReceiveTurn {
    pub(crate) fn new(waiting: VecDeque<Source>, now: Time) -> Self {
        let reads_left = MAX_READS_PER_SOURCE * waiting.len();
        ReceiveTurn { start: now, waiting, current: Vec::new(), begun: now, left: Span::ZERO, reads_left }
    }

    /// Which source is read next, and how much of it at most: one of the sender that has had least time, then its other ones, until what
    /// came of them takes [`READ_TIME`]. None when that is to be sent and delivered, or nothing came and the turn is over.
    pub(crate) fn next_source(&mut self, turns: &mut FairTurns<Sender>, now: Time) -> Option<Source> {
        if self.current.is_empty() {
            self.begun = now;
            self.left = READ_TIME.min(MAX_RECEIVE_TIME - (now - self.start));
        }
        if self.left.min(READ_TIME - (now - self.begun)) <= Span::ZERO || self.reads_left == 0 {
            return None;
        }
        let sender = match self.current.first() {
            Some(reading) => reading.source.sender,
            None => turns.next(self.waiting.iter().map(|source| source.sender))?,
        };
        let place = self.waiting.iter().position(|source| source.sender == sender)?;
        let source = self.waiting.remove(place)?;
        let limit = units_in(self.left, source.limit, READ_TIME).clamp(source.limits.0, source.limits.1);
        self.reads_left -= 1;
        self.current.push(Reading { source, limit, amount: ReadAmount::default(), expected: Span::ZERO });
        Some(Source { limit, ..source })
    }

    /// So much came of the source that was named last. It has more, if that is all that could come.
    pub(crate) fn record_read(&mut self, amount: ReadAmount) {
        let Some(reading) = self.current.last_mut() else { return };
        reading.amount = amount;
        reading.expected = READ_TIME * amount.units as i64 / reading.source.limit.max(1) as i64;
        self.left -= reading.expected;
    }

    /// What was read since the last call has been sent and delivered. The other sources of its sender come before those.
    pub(crate) fn end_read(&mut self, turns: &mut FairTurns<Sender>, now: Time) -> Vec<FinishedRead> {
        let Some(sender) = self.current.first().map(|reading| reading.source.sender) else { return Vec::new() };
        let taken = now - self.begun;
        turns.charge(sender, taken);
        let expected = self.current.iter().fold(Span::ZERO, |sum, reading| sum + reading.expected);
        let count = self.current.len() as f64;
        let readings = self.current.drain(..).map(|Reading { source, limit, amount, expected: part }| {
            let part = if expected > Span::ZERO { part.as_secs_f64() / expected.as_secs_f64() } else { 1.0 / count };
            let time = Span::from_secs_f64(taken.as_secs_f64() * part);
            let next_limit = match amount.units {
                0 => source.limit,
                units => units_in(READ_TIME, units, time).clamp(source.limits.0, source.limits.1),
            };
            FinishedRead { source, amount, has_more: amount.units >= limit, next_limit, time }
        });
        let finished: Vec<_> = readings.collect();
        let again = finished.iter().filter(|read| read.has_more);
        self.waiting.extend(again.map(|read| Source { limit: read.next_limit, ..read.source }));
        finished
    }
}

/// How many units take a time, where so many take this time.
fn units_in(time: Span, units: usize, taken: Span) -> usize {
    ((units as i64).saturating_mul(time.as_nanos()) / taken.as_nanos().max(1)).max(0) as usize
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

    /// Reads all that a sender has in its turn, where a unit takes so many nanoseconds. Returns what was read of which source.
    fn read_next(
        turn: &mut ReceiveTurn,
        turns: &mut FairTurns<Sender>,
        now: &mut Time,
        mut read_of: impl FnMut(Source) -> (usize, i64),
    ) -> Vec<FinishedRead> {
        let mut end = *now;
        while let Some(source) = turn.next_source(turns, *now) {
            let (units, nanos) = read_of(source);
            turn.record_read(read(units));
            end += Span::from_nanos(units as i64 * nanos);
        }
        *now = end;
        turn.end_read(turns, end)
    }

    /// The time that each of two peers gets that always have something, the first one over so many connections, where a byte of theirs
    /// takes so many nanoseconds.
    fn shares(connections: u32, nanos_per_byte: [i64; 2]) -> [f64; 2] {
        let (mut turns, mut now, mut had) = (FairTurns::default(), START, [Span::ZERO; 2]);
        let mut limits = vec![4096; connections as usize + 1];
        for _ in 0..1000 {
            let all = (0..=connections).map(|number| {
                let source = connection(usize::from(number == connections), number);
                Source { limit: limits[number as usize], ..source }
            });
            let mut turn = ReceiveTurn::new(all.collect(), now);
            loop {
                let finished = read_next(&mut turn, &mut turns, &mut now, |source| {
                    (source.limit, nanos_per_byte[source.sender.peer().unwrap()])
                });
                for read in &finished {
                    had[read.source.sender.peer().unwrap()] += read.time;
                    let SourceSocket::Connection(number) = read.source.socket else { unreachable!() };
                    limits[number as usize] = read.next_limit;
                }
                if finished.is_empty() {
                    break;
                }
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
    fn connections_of_one_peer_are_read_in_turn_and_together_as_long_as_there_is_time() {
        let (mut turns, mut now) = (FairTurns::default(), START);
        let mut turn = ReceiveTurn::new((0..3).map(|number| connection(0, number)).collect(), now);
        let mut order = Vec::new();
        loop {
            // The second has little, and nothing more.
            let finished = read_next(&mut turn, &mut turns, &mut now, |source| {
                (if source.socket == SourceSocket::Connection(1) { 100 } else { source.limit }, 1)
            });
            if finished.is_empty() {
                break;
            }
            order.push(finished.iter().map(|read| read.source.socket).collect::<Vec<_>>());
        }
        let expected =
            [vec![0], vec![1, 2], vec![0], vec![2]].map(|numbers| numbers.into_iter().map(SourceSocket::Connection));
        assert_eq!(order[..4], expected.map(Iterator::collect::<Vec<_>>));
        assert_eq!(order.iter().flatten().count(), 3 * MAX_READS_PER_SOURCE);
    }

    #[test]
    fn time_goes_to_the_sources_that_took_it() {
        let (mut turns, mut now) = (FairTurns::default(), START);
        let mut turn = ReceiveTurn::new((0..3).map(|number| connection(0, number)).collect(), now);
        let finished = read_next(&mut turn, &mut turns, &mut now, |source| {
            (if source.socket == SourceSocket::Connection(2) { 2048 } else { 512 }, 40)
        });
        let micros: Vec<_> = finished.iter().map(|read| (read.time.as_secs_f64() * 1e6).round()).collect();
        assert_eq!(micros, [20.0, 20.0, 82.0]);
        // A byte took 40 ns.
        assert!(finished.iter().all(|read| read.next_limit.clamp(4096, 4097) == read.next_limit), "{finished:?}");
    }

    #[test]
    fn a_turn_ends_in_time_and_reads_no_more_at_once_than_fits() {
        let (mut turns, mut now) = (FairTurns::default(), START);
        let mut turn = ReceiveTurn::new([connection(0, 0)].into(), now);
        let mut limits = Vec::new();
        loop {
            let finished = read_next(&mut turn, &mut turns, &mut now, |source| {
                limits.push(source.limit);
                (source.limit, 25)
            });
            let Some(read) = finished.first() else { break };
            assert_eq!(read.next_limit, 5000);
        }
        // 102 µs, then 125, and what is left.
        assert_eq!(limits, [4096, 5000, 5000, 5000]);
        assert!(now - START < MAX_RECEIVE_TIME, "{limits:?}");
    }
}
