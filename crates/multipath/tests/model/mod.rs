//! What a resequencer does, said in the plainest way: it knows which paths every packet was sent over, looks at
//! every missing number, and counts without wrapping.

use kumade_multipath::{DelayRange, PathId, ResequencerConfig};
use kumade_units::{Span, Time};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default, Clone)]
struct Path {
    highest: Option<u64>,
    given_up: BTreeSet<u64>,
    down: bool,
    delay: Option<DelayRange>,
    last_arrival: Option<Time>,
}

/// A packet as the model sees it.
#[derive(Debug, Clone)]
pub struct Packet {
    pub bucket: u16,
    pub number: u64,
    /// The path that it came over.
    pub path: PathId,
    /// For each path, the counters below which nothing was to be waited for when it was sent.
    pub settled: [u64; PathId::MAX_PATHS],
}

#[derive(Debug, Default)]
struct Bucket {
    next: u64,
    delivered: BTreeSet<u64>,
    waiting: BTreeMap<u64, (Packet, Time)>,
}

#[derive(Debug)]
pub struct Model {
    config: ResequencerConfig,
    paths: Vec<Path>,
    buckets: BTreeMap<u16, Bucket>,
    /// The datagrams of each packet that was sent.
    sent: BTreeMap<(u16, u64), Vec<(PathId, u64)>>,
    /// What is delivered: bucket and number.
    pub out: Vec<(u16, u64)>,
}

impl Model {
    pub fn new(config: ResequencerConfig) -> Self {
        let paths = vec![Path::default(); PathId::MAX_PATHS];
        Model { config, paths, buckets: BTreeMap::new(), sent: BTreeMap::new(), out: Vec::new() }
    }

    pub fn sent(&mut self, bucket: u16, number: u64, copies: &[(PathId, u64)]) {
        self.sent.insert((bucket, number), copies.to_vec());
    }

    pub fn set_delay(&mut self, path: PathId, delay: Option<DelayRange>) {
        self.paths[path.index()].delay = delay;
    }

    pub fn receive(&mut self, packet: &Packet, counter: u64, now: Time) {
        let bucket = self.buckets.entry(packet.bucket).or_default();
        if packet.number >= bucket.next {
            bucket.waiting.entry(packet.number).or_insert((packet.clone(), now));
        } else if bucket.delivered.insert(packet.number) {
            self.out.push((packet.bucket, packet.number));
        }
        self.passed(packet.path, counter, now);
    }

    pub fn passed(&mut self, path: PathId, counter: u64, now: Time) {
        let path = &mut self.paths[path.index()];
        path.highest = path.highest.max(Some(counter));
        path.down = false;
        path.last_arrival = Some(now);
        self.settle();
    }

    pub fn path_down(&mut self, path: PathId) {
        self.paths[path.index()].down = true;
        self.settle();
    }

    pub fn deadline(&self) -> Option<Time> {
        self.buckets.values().filter_map(|bucket| self.deadline_of(bucket)).min()
    }

    pub fn expire(&mut self, now: Time) {
        while let Some(bucket) =
            self.buckets.values().find(|bucket| self.deadline_of(bucket) <= Some(now) && !bucket.waiting.is_empty())
        {
            for (path, counter) in self.open(bucket) {
                self.give_up(path, counter);
            }
            self.settle();
        }
    }

    /// All up to it: what was sent before it on its path should have come before it.
    fn give_up(&mut self, path: PathId, counter: u64) {
        self.paths[path.index()].given_up.insert(counter);
    }

    /// The datagrams with what is missing before a bucket's first packet that may still come.
    fn open(&self, bucket: &Bucket) -> Vec<(PathId, u64)> {
        let copies = self.missing(bucket);
        copies
            .into_iter()
            .filter(|(path, counter)| !self.paths[path.index()].down && self.may_come(*path, *counter))
            .collect()
    }

    fn may_come(&self, path: PathId, counter: u64) -> bool {
        let path = &self.paths[path.index()];
        let given_up = path.given_up.last().is_some_and(|last| *last >= counter);
        !given_up && path.highest.is_none_or(|highest| highest < counter)
    }

    /// The datagrams with what is missing before a bucket's first packet.
    fn missing(&self, bucket: &Bucket) -> Vec<(PathId, u64)> {
        let Some((packet, _)) = bucket.waiting.values().next() else { return Vec::new() };
        (bucket.next..packet.number)
            .flat_map(|number| self.sent[&(packet.bucket, number)].clone())
            .filter(|(path, counter)| *counter >= packet.settled[path.index()])
            .collect()
    }

    /// What is missing was sent before all that waits: each of them says when it should have come.
    fn deadline_of(&self, bucket: &Bucket) -> Option<Time> {
        let first = bucket.waiting.values().map(|(_, arrived)| *arrived).min()?;
        let limit = |(path, _): (PathId, u64)| {
            let last = self.paths[path.index()].last_arrival;
            let expected = bucket.waiting.values().map(|(packet, arrived)| *arrived + self.wait(path, packet.path));
            expected.min().max(last.map(|last| last + self.config.wait_margin))
        };
        let latest = self.open(bucket).into_iter().filter_map(limit).max()?;
        Some(latest.min(first + self.config.max_wait))
    }

    fn wait(&self, path: PathId, over: PathId) -> Span {
        let [path, over] = [path, over].map(|path| self.paths[path.index()].delay);
        let (Some(path), Some(over)) = (path, over) else { return self.config.max_wait };
        (path.max - over.min).max(Span::ZERO) + self.config.wait_margin
    }

    fn settle(&mut self) {
        let ids: Vec<u16> = self.buckets.keys().copied().collect();
        for id in ids {
            while self.open(&self.buckets[&id]).is_empty() && !self.buckets[&id].waiting.is_empty() {
                for (path, counter) in self.missing(&self.buckets[&id]) {
                    if self.may_come(path, counter) {
                        self.give_up(path, counter);
                    }
                }
                let Some(bucket) = self.buckets.get_mut(&id) else { continue };
                let Some((number, _)) = bucket.waiting.pop_first() else { continue };
                bucket.next = number + 1;
                bucket.delivered.insert(number);
                self.out.push((id, number));
            }
        }
    }
}
