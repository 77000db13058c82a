use std::collections::{BTreeMap, VecDeque};
use std::sync::Weak;

/// Names that wait to be looked up, by the peer that asked: peers have their turns one after the other, and so many look-ups
/// running at most, so that names which nobody answers for delay those of their own peer alone.
#[derive(Debug)]
pub(crate) struct LookupQueue<P> {
    peers: BTreeMap<P, PeerLookups>,
    /// Who had the last turn.
    last: Option<P>,
    running: usize,
}

/// A name to be looked up.
#[derive(Debug, Clone)]
pub(crate) struct Lookup {
    /// Of the stream that waits for it.
    pub(crate) number: u32,
    pub(crate) name: String,
    pub(crate) port: u16,
    /// Dead once the stream is.
    pub(crate) is_wanted: Weak<()>,
}

#[derive(Debug, Default)]
struct PeerLookups {
    waiting: VecDeque<Lookup>,
    running: usize,
}

/// Each is a thread that waits, some 50 kB. A host's resolver gives up a name after 5 s to 30 s.
const MAX_RUNNING_LOOKUPS: usize = 128;
/// More than a browser asks for at once while names are answered.
const MAX_RUNNING_LOOKUPS_PER_PEER: usize = 8;

impl<P> Default for LookupQueue<P> {
    fn default() -> Self {
        LookupQueue { peers: BTreeMap::new(), last: None, running: 0 }
    }
}

impl<P: Ord + Copy> LookupQueue<P> {
    pub(crate) fn push(&mut self, peer: P, lookup: Lookup) {
        let lookups = self.peers.entry(peer).or_default();
        // So that it holds no more than the peer has streams.
        lookups.waiting.retain(|waiting| waiting.is_wanted.strong_count() > 0);
        lookups.waiting.push_back(lookup);
    }

    /// The next one that is to be looked up now; [`finish`](Self::finish) says when that is done.
    pub(crate) fn start_next(&mut self) -> Option<(P, Lookup)> {
        if self.running >= MAX_RUNNING_LOOKUPS {
            return None;
        }
        let last = self.last;
        let in_turn: Vec<P> = self.peers.keys().copied().collect();
        let (behind, first): (Vec<P>, Vec<P>) = in_turn.into_iter().partition(|peer| Some(*peer) <= last);
        first.into_iter().chain(behind).find_map(|peer| {
            let lookups = self.peers.get_mut(&peer)?;
            if lookups.running >= MAX_RUNNING_LOOKUPS_PER_PEER {
                return None;
            }
            let lookup = loop {
                let lookup = lookups.waiting.pop_front()?;
                if lookup.is_wanted.strong_count() > 0 {
                    break lookup;
                }
            };
            lookups.running += 1;
            self.running += 1;
            self.last = Some(peer);
            Some((peer, lookup))
        })
    }

    /// A look-up of this peer has ended.
    pub(crate) fn finish(&mut self, peer: P) {
        self.running = self.running.saturating_sub(1);
        if let Some(lookups) = self.peers.get_mut(&peer) {
            lookups.running = lookups.running.saturating_sub(1);
            if lookups.running == 0 && lookups.waiting.is_empty() {
                self.peers.remove(&peer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn lookup(number: u32, stream: &Arc<()>) -> Lookup {
        Lookup { number, name: "db.example".into(), port: 80, is_wanted: Arc::downgrade(stream) }
    }

    fn start_all(queue: &mut LookupQueue<u8>) -> Vec<(u8, u32)> {
        std::iter::from_fn(|| queue.start_next()).map(|(peer, lookup)| (peer, lookup.number)).collect()
    }

    #[test]
    fn names_that_nobody_answers_for_delay_those_of_their_own_peer_alone() {
        let (mut queue, stream) = (LookupQueue::default(), Arc::new(()));
        (0..1000).for_each(|number| queue.push(1, lookup(number, &stream)));
        assert_eq!(start_all(&mut queue).len(), MAX_RUNNING_LOOKUPS_PER_PEER);
        queue.push(2, lookup(7, &stream));
        assert_eq!(start_all(&mut queue), [(2, 7)]);
        queue.finish(1);
        assert_eq!(start_all(&mut queue), [(1, MAX_RUNNING_LOOKUPS_PER_PEER as u32)]);
    }

    #[test]
    fn peers_take_turns_where_all_look_ups_run() {
        let (mut queue, stream) = (LookupQueue::default(), Arc::new(()));
        for peer in 0..100 {
            (0..100).for_each(|number| queue.push(peer, lookup(number, &stream)));
        }
        let started = start_all(&mut queue);
        assert_eq!(started.len(), MAX_RUNNING_LOOKUPS);
        assert!((0..100).all(|peer| started.iter().filter(|(of, _)| *of == peer).count() <= 2));
        // Each that ends makes room for the one whose turn is next, whoever it was.
        for turn in 0..100 {
            queue.finish(started[0].0);
            assert_eq!(start_all(&mut queue)[0].0, (28 + turn) % 100);
        }
    }

    #[test]
    fn names_of_streams_that_are_gone_are_not_looked_up_and_not_kept() {
        let (mut queue, stream) = (LookupQueue::default(), Arc::new(()));
        for number in 0..10_000 {
            let gone = Arc::new(());
            queue.push(1, lookup(number, &gone));
        }
        assert!(queue.peers[&1].waiting.len() <= 1);
        queue.push(1, lookup(10_000, &stream));
        assert_eq!(start_all(&mut queue), [(1, 10_000)]);
        queue.finish(1);
        assert!(queue.peers.is_empty() && queue.running == 0);
    }
}
