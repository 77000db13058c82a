use crate::path::id::PathId;
use kumade_units::{Span, Time};
use std::collections::VecDeque;

/// What has left on the paths to a peer of late, to be repeated where it was lost.
#[derive(Debug)]
pub(crate) struct RepeatStore<T> {
    /// By path, in the order of their counters.
    paths: Vec<VecDeque<SentPacket<T>>>,
    packets: usize,
    bytes: u64,
    /// What is kept at most: this part of what all shards keep together.
    max_packets: usize,
    max_bytes: u64,
    /// How long packets are kept.
    keep_time: Span,
    /// Packets that may be repeated now.
    allowance: f64,
}

#[derive(Debug)]
struct SentPacket<T> {
    counter: u64,
    sent: Time,
    bytes: u32,
    /// None once it has been repeated.
    packet: Option<T>,
}

/// Packets that are kept for a peer, and their bytes: those of a quarter of a second at 250 Mbit/s.
const MAX_PACKETS: usize = 8192;
const MAX_BYTES: u64 = 8 << 20;
/// As many of all packets are repeated at most: paths that lose more than 3 % do so since too much is sent, and more would add to that.
pub(crate) const MAX_REPEATED_RATIO: f64 = 1.0 / 32.0;
/// As many at once.
const MAX_REPEATS_AT_ONCE: f64 = 64.0;

impl<T> RepeatStore<T> {
    /// Of one of so many shards, each of which sends its part.
    pub(crate) fn new(shards: usize) -> Self {
        let shards = shards.max(1);
        RepeatStore {
            paths: std::iter::repeat_with(VecDeque::new).take(PathId::MAX_PATHS).collect(),
            packets: 0,
            bytes: 0,
            max_packets: MAX_PACKETS / shards,
            max_bytes: MAX_BYTES / shards as u64,
            keep_time: Span::ZERO,
            allowance: MAX_REPEATS_AT_ONCE,
        }
    }

    /// Packets are kept for so long; for no time, none is.
    pub(crate) fn set_keep_time(&mut self, time: Span) {
        self.keep_time = time;
        if time == Span::ZERO && self.packets > 0 {
            self.paths.fill_with(VecDeque::new);
            (self.packets, self.bytes) = (0, 0);
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.keep_time > Span::ZERO
    }

    /// A packet of so many bytes has left as the datagram with this counter of the path, which is above those before.
    pub(crate) fn push(&mut self, path: PathId, counter: u64, bytes: u32, packet: T, now: Time) {
        self.allowance = (self.allowance + MAX_REPEATED_RATIO).min(MAX_REPEATS_AT_ONCE);
        self.expire_path(path, now);
        while self.packets >= self.max_packets || self.bytes + u64::from(bytes) > self.max_bytes {
            let longest = PathId::all().max_by_key(|path| self.paths[path.index()].len());
            let Some(longest) = longest.filter(|path| !self.paths[path.index()].is_empty()) else { return };
            self.drop_oldest(longest);
        }
        self.packets += 1;
        self.bytes += u64::from(bytes);
        self.paths[path.index()].push_back(SentPacket { counter, sent: now, bytes, packet: Some(packet) });
    }

    /// Whether a packet may be repeated now.
    pub(crate) fn may_repeat(&self) -> bool {
        self.allowance >= 1.0
    }

    /// The packet that left as this datagram, if it is there.
    pub(crate) fn get(&self, path: PathId, counter: u64) -> Option<&T> {
        let sent = &self.paths[path.index()];
        let place = sent.binary_search_by_key(&counter, |sent| sent.counter).ok()?;
        sent[place].packet.as_ref()
    }

    /// Takes it, if it is there and may be repeated.
    pub(crate) fn take(&mut self, path: PathId, counter: u64) -> Option<T> {
        if !self.may_repeat() {
            return None;
        }
        let sent = &mut self.paths[path.index()];
        let place = sent.binary_search_by_key(&counter, |sent| sent.counter).ok()?;
        let packet = sent[place].packet.take()?;
        self.allowance -= 1.0;
        Some(packet)
    }

    /// Forgets what is kept no longer, also of paths on which nothing leaves.
    pub(crate) fn expire(&mut self, now: Time) {
        if self.packets == 0 {
            return;
        }
        for path in PathId::all() {
            self.expire_path(path, now);
            if self.paths[path.index()].is_empty() {
                self.paths[path.index()].shrink_to(0);
            }
        }
    }

    fn expire_path(&mut self, path: PathId, now: Time) {
        let oldest = now - self.keep_time;
        while self.paths[path.index()].front().is_some_and(|front| front.sent < oldest) {
            self.drop_oldest(path);
        }
    }

    fn drop_oldest(&mut self, path: PathId) {
        if let Some(oldest) = self.paths[path.index()].pop_front() {
            self.packets -= 1;
            self.bytes -= u64::from(oldest.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(number: u8) -> PathId {
        PathId::new(number).unwrap()
    }

    fn time_at_millis(millis: i64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    fn store() -> RepeatStore<u64> {
        store_of(1)
    }

    fn store_of(shards: usize) -> RepeatStore<u64> {
        let mut store = RepeatStore::new(shards);
        store.set_keep_time(Span::from_millis(100));
        store
    }

    #[test]
    fn what_has_left_is_there_once_and_for_a_while() {
        let mut store = store();
        for (counter, millis) in [(5, 0), (7, 60), (8, 90)] {
            store.push(path(1), counter, 1000, counter * 10, time_at_millis(millis));
        }
        assert_eq!((store.take(path(1), 7), store.take(path(1), 7)), (Some(70), None));
        assert_eq!((store.take(path(1), 6), store.take(path(0), 8)), (None, None));
        store.push(path(1), 9, 1000, 90, time_at_millis(101));
        assert_eq!((store.take(path(1), 5), store.take(path(1), 8)), (None, Some(80)));
        store.expire(time_at_millis(201));
        assert_eq!((store.packets, store.take(path(1), 9)), (1, Some(90)));
        store.set_keep_time(Span::ZERO);
        assert_eq!((store.take(path(1), 9), store.packets, store.bytes), (None, 0, 0));
    }

    #[test]
    fn memory_is_bounded_whatever_paths_carry() {
        for shards in [1, 8] {
            let mut store = store_of(shards);
            for counter in 0..20_000 {
                store.push(path((counter % 3) as u8), counter, 1500, counter, time_at_millis(0));
                assert!(store.packets * shards <= MAX_PACKETS && store.bytes * shards as u64 <= MAX_BYTES);
            }
            assert_eq!(store.take(path(1), 19_999), Some(19_999), "the last ones are there");
            assert_eq!(store.take(path(0), 0), None);
        }
    }

    #[test]
    fn few_packets_are_repeated_of_many() {
        let mut store = store();
        let mut repeated = 0;
        for counter in 0..3200 {
            store.push(path(0), counter, 100, counter, time_at_millis(0));
            repeated += usize::from(store.take(path(0), counter).is_some());
        }
        assert!((100..=164).contains(&repeated), "{repeated}");
    }
}
