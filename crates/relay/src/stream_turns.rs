use kumade_daemon::FairTurns;
use kumade_units::Span;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Which of the streams that may have something to do is gone on with next: peers have the same time, however many streams each has,
/// and the streams of one take turns.
#[derive(Debug)]
pub(crate) struct StreamTurns<P> {
    waiting: BTreeMap<P, VecDeque<u32>>,
    /// All that are in there.
    numbers: BTreeSet<u32>,
    turns: FairTurns<P>,
}

impl<P: Copy + Ord> StreamTurns<P> {
    pub(crate) fn new() -> Self {
        StreamTurns { waiting: BTreeMap::new(), numbers: BTreeSet::new(), turns: FairTurns::default() }
    }

    /// A stream of this peer may have something to do. It has one turn, however often that is said meanwhile.
    pub(crate) fn schedule(&mut self, peer: P, number: u32) {
        if self.numbers.insert(number) {
            self.waiting.entry(peer).or_default().push_back(number);
        }
    }

    /// The stream whose turn it is. What it takes is to be [charged](Self::charge) to its peer.
    pub(crate) fn next(&mut self) -> Option<(P, u32)> {
        let peer = self.turns.next(self.waiting.keys().copied())?;
        let streams = self.waiting.get_mut(&peer)?;
        let number = streams.pop_front()?;
        if streams.is_empty() {
            self.waiting.remove(&peer);
        }
        self.numbers.remove(&number);
        Some((peer, number))
    }

    /// So much time was taken for a stream of this peer.
    pub(crate) fn charge(&mut self, peer: P, time: Span) {
        self.turns.charge(peer, time);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How much time each peer gets that has so many streams, all of which always have something, where a turn of its takes so many
    /// microseconds.
    fn shares(peers: &[(u32, i64)], turns: usize) -> Vec<i64> {
        let mut streams = StreamTurns::new();
        for (peer, (count, _)) in peers.iter().enumerate() {
            (0..*count).for_each(|stream| streams.schedule(peer, 10_000 * peer as u32 + stream));
        }
        let mut had = vec![0; peers.len()];
        for _ in 0..turns {
            let (peer, number) = streams.next().unwrap();
            let micros = peers[peer].1;
            streams.charge(peer, Span::from_micros(micros));
            had[peer] += micros;
            streams.schedule(peer, number);
        }
        had
    }

    #[test]
    fn a_peer_with_a_thousand_streams_has_the_time_of_a_peer_with_one() {
        let had = shares(&[(1024, 500), (1, 500), (2, 20)], 20_000);
        assert!(had.iter().all(|time| (had[0] - time).abs() <= 1000), "{had:?}");
    }

    #[test]
    fn a_peer_with_one_stream_waits_for_one_turn_of_others_at_most() {
        let mut streams = StreamTurns::new();
        (0..1024).for_each(|number| streams.schedule(0, number));
        for round in 0..100 {
            let (peer, number) = streams.next().unwrap();
            assert_eq!(peer, 0, "round {round}");
            streams.charge(peer, Span::from_micros(300));
            streams.schedule(peer, number);
            streams.schedule(1, 5000);
            assert_eq!(streams.next(), Some((1, 5000)), "round {round}");
            streams.charge(1, Span::from_micros(100));
        }
    }

    #[test]
    fn streams_of_one_peer_take_turns_and_are_waiting_once() {
        let mut streams = StreamTurns::new();
        [3, 1, 2, 3, 1].into_iter().for_each(|number| streams.schedule((), number));
        let mut order = Vec::new();
        for _ in 0..6 {
            let ((), number) = streams.next().unwrap();
            order.push(number);
            streams.schedule((), number);
        }
        assert_eq!(order, [3, 1, 2, 3, 1, 2]);
        (0..3).for_each(|_| assert!(!streams.is_empty() && streams.next().is_some()));
        assert!(streams.is_empty() && streams.next().is_none());
    }
}
