//! Ten minutes (KUMADE_SOAK_MINUTES) over paths that flap, shrink, lose, duplicate, reorder and corrupt, in virtual time: hosts that repeat what
//! is not acknowledged get everything across, nothing comes twice or altered, and no memory grows.

use super::faulty::{Faults, FaultyNetwork, Path, path};
use kumade_units::{Span, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

const PATHS: usize = 3;
const TICK: Span = Span::from_millis(2);
/// What a host has under way, and when it repeats it.
const WINDOW: usize = 24;
const REPEAT_AFTER: Span = Span::from_millis(400);
const HEADER_BYTES: usize = 20;
const MAX_PACKET: u32 = 1150;
/// Numbers that an acknowledgement lists besides the lowest that is missing.
const LISTED: usize = 8;
/// What may wait at once: the window, its repetitions while paths are down, and as many acknowledgements.
const MAX_WAITING: usize = 50 * WINDOW;
/// Net growth of all memory from the third minute on. What there is at one moment differs: an end has one to four sessions, of 12 kB each
/// (replay windows of three paths), and keeps what has left within a fifth of a second.
const MAX_GROWTH_BYTES: i64 = 192 << 10;

fn minutes() -> usize {
    std::env::var("KUMADE_SOAK_MINUTES").map_or(10, |count| count.parse().unwrap())
}

/// A host's packet: its serial number, which no other packet of this direction has, and what it says.
struct Content {
    serial: u32,
    words: Vec<u32>,
    bytes: usize,
}

impl Content {
    fn write(&self, from: usize) -> Vec<u8> {
        let mut packet: Vec<u8> = (0..self.bytes).map(|index| (index as u32 ^ self.serial) as u8).collect();
        packet[..HEADER_BYTES].fill(0);
        (packet[0], packet[8], packet[9]) = (0x45, 64, 253);
        packet[2..4].copy_from_slice(&(self.bytes as u16).to_be_bytes());
        packet[12..20].copy_from_slice(&[10, 0, from as u8, 9, 10, 0, 1 - from as u8, 9]);
        let words = [self.serial, self.words.len() as u32].into_iter().chain(self.words.iter().copied());
        for (place, word) in packet[HEADER_BYTES..].chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        packet
    }

    fn read(packet: &[u8]) -> Self {
        let mut words = packet[HEADER_BYTES..].chunks_exact(4).map(|word| u32::from_be_bytes(word.try_into().unwrap()));
        let (serial, count) = (words.next().unwrap(), words.next().unwrap());
        Content { serial, words: words.take(count as usize).collect(), bytes: packet.len() }
    }
}

/// Which serial numbers have come: room for 65 536 a minute, of which 20 000 are used.
struct Seen(Vec<u64>);

impl Seen {
    fn note(&mut self, serial: u32) {
        let (word, bit) = (serial as usize / 64, 1 << (serial % 64));
        assert_eq!(self.0[word] & bit, 0, "packet {serial} came twice");
        self.0[word] |= bit;
    }
}

/// A host behind node 0 that sends, and one behind node 1 that acknowledges.
struct Hosts {
    random: Pcg64Mcg,
    serials: [u32; 2],
    seen: [Seen; 2],
    /// By number: when it was sent last.
    unacknowledged: BTreeMap<u32, Time>,
    next: u32,
    repeated: u64,
    /// The lowest number that is missing, and those above it that have come.
    missing: u32,
    above: BTreeSet<u32>,
    latest: VecDeque<u32>,
}

impl Hosts {
    fn new(seed: u64) -> Self {
        Hosts {
            random: Pcg64Mcg::seed_from_u64(seed),
            serials: [0; 2],
            seen: [0, 1].map(|_| Seen(vec![0; minutes() << 10])),
            unacknowledged: BTreeMap::new(),
            next: 0,
            repeated: 0,
            missing: 0,
            above: BTreeSet::new(),
            latest: VecDeque::with_capacity(LISTED + 1),
        }
    }

    fn offer(&mut self, world: &mut FaultyNetwork, from: usize, words: Vec<u32>, bytes: usize) {
        let content = Content { serial: self.serials[from], words, bytes };
        self.serials[from] += 1;
        world.offer(from, &content.write(from));
    }

    /// Sends what is new, if `more`, and what has to be repeated.
    fn send(&mut self, world: &mut FaultyNetwork, more: bool) {
        let now = world.now;
        let due = |(number, sent): (&u32, &Time)| (now - *sent > REPEAT_AFTER).then_some(*number);
        let mut numbers: Vec<u32> = self.unacknowledged.iter().filter_map(due).collect();
        self.repeated += numbers.len() as u64;
        while more && self.unacknowledged.len() < WINDOW {
            self.unacknowledged.insert(self.next, now);
            numbers.push(self.next);
            self.next += 1;
        }
        for number in numbers {
            self.unacknowledged.insert(number, now);
            let bytes = self.random.random_range(60..=MAX_PACKET as usize);
            self.offer(world, 0, vec![number], bytes);
        }
    }

    /// Takes what has been delivered on both sides, and acknowledges it.
    fn receive(&mut self, world: &mut FaultyNetwork) {
        for to in 0..2 {
            let packets = std::mem::take(&mut world.received[to]);
            for packet in &packets {
                let content = Content::read(packet);
                assert_eq!(*packet, content.write(1 - to), "it was altered");
                self.seen[to].note(content.serial);
                if to == 0 { self.acknowledged(&content.words) } else { self.arrived(content.words[0]) }
            }
            if to == 1 && !packets.is_empty() {
                let words: Vec<u32> = [self.missing].into_iter().chain(self.latest.iter().copied()).collect();
                self.offer(world, 1, words, 80);
            }
        }
    }

    fn acknowledged(&mut self, words: &[u32]) {
        self.unacknowledged = self.unacknowledged.split_off(&words[0]);
        for number in &words[1..] {
            self.unacknowledged.remove(number);
        }
    }

    fn arrived(&mut self, number: u32) {
        self.latest.push_back(number);
        if self.latest.len() > LISTED {
            self.latest.pop_front();
        }
        if number >= self.missing {
            self.above.insert(number);
        }
        while self.above.remove(&self.missing) {
            self.missing += 1;
        }
    }
}

/// When each path is cut, restored and given another MTU.
struct PathDisturbances {
    random: Pcg64Mcg,
    flips: [Time; PATHS],
    shrinks: [Time; PATHS],
}

impl PathDisturbances {
    fn new(seed: u64, now: Time) -> Self {
        let mut weather =
            PathDisturbances { random: Pcg64Mcg::seed_from_u64(seed), flips: [now; PATHS], shrinks: [now; PATHS] };
        for path in 0..PATHS {
            weather.flips[path] = weather.after(now, 3.0, 20.0);
            weather.shrinks[path] = weather.after(now, 10.0, 60.0);
        }
        weather
    }

    fn after(&mut self, now: Time, least: f64, most: f64) -> Time {
        now + Span::from_secs_f64(self.random.random_range(least..most))
    }

    fn apply(&mut self, world: &mut FaultyNetwork) {
        for place in 0..PATHS {
            if world.now >= self.flips[place] {
                let is_cut = !world.paths[place].is_cut;
                world.paths[place].is_cut = is_cut;
                let (least, most) = if is_cut { (0.2, 2.0) } else { (3.0, 20.0) };
                self.flips[place] = self.after(world.now, least, most);
            }
            if world.now >= self.shrinks[place] {
                world.paths[place].mtu = self.random.random_range(1280..=1500);
                self.shrinks[place] = self.after(world.now, 10.0, 60.0);
            }
        }
    }
}

/// What waits anywhere.
fn waiting(world: &FaultyNetwork) -> usize {
    let of = |node: usize| {
        world.nodes[node]
            .remote_statuses()
            .iter()
            .map(|remote| remote.queued_packets + remote.waiting_packets)
            .sum::<usize>()
    };
    of(0) + of(1)
}

/// One minute; returns the most packets that waited at once.
fn minute(world: &mut FaultyNetwork, hosts: &mut Hosts, weather: &mut PathDisturbances) -> usize {
    let end = world.now + Span::from_secs(60);
    let (mut most, mut ticks) = (0, 0);
    while world.now < end {
        weather.apply(world);
        hosts.send(world, true);
        world.run(TICK);
        hosts.receive(world);
        ticks += 1;
        if ticks % 16 == 0 {
            most = most.max(waiting(world));
        }
    }
    most
}

fn soak(seed: u64) {
    let faults = Faults {
        loss: 0.002,
        duplication: 0.002,
        corruption: 0.002,
        reordering: 0.002,
        max_reordering_delay: Span::from_millis(30),
    };
    let paths = [10, 20, 35].map(|delay| Path { faults, ..path(delay, 1500) });
    let mut world = FaultyNetwork::with_seed(seed, paths.to_vec(), MAX_PACKET);
    world.run(Span::from_secs(8));
    let mut hosts = Hosts::new(seed);
    let mut weather = PathDisturbances::new(seed + 1, world.now);
    let (mut held, mut growth) = (Vec::new(), Vec::new());
    let minutes = minutes();
    for _ in 0..minutes {
        let mut most = 0;
        let counted = allocation_counter::measure(|| most = minute(&mut world, &mut hosts, &mut weather));
        held.push(most);
        growth.push(counted.bytes_current);
    }
    println!("seed {seed}: {} numbers, {} repeated, held {held:?}, growth {growth:?}", hosts.next, hosts.repeated);
    world.paths.iter_mut().for_each(|path| path.is_cut = false);
    let end = world.now + Span::from_secs(20);
    while world.now < end && !hosts.unacknowledged.is_empty() {
        hosts.send(&mut world, false);
        world.run(TICK);
        hosts.receive(&mut world);
    }
    assert_eq!((hosts.missing, hosts.unacknowledged.len()), (hosts.next, 0), "seed {seed}: everything arrives");
    assert!(hosts.next > 50_000, "seed {seed}: {} numbers in {minutes} minutes", hosts.next);
    assert!(hosts.repeated * 20 < u64::from(hosts.next), "seed {seed}: {} of {} repeated", hosts.repeated, hosts.next);
    assert!(held.iter().all(|held| *held < MAX_WAITING), "seed {seed}: {held:?}");
    let refused = world.nodes.iter().map(|node| node.statistics().refused_datagrams).min();
    assert!(refused > Some(100), "seed {seed}: corrupted datagrams and copies are refused: {refused:?}");
    let total: i64 = growth[2..].iter().sum();
    assert!(total < MAX_GROWTH_BYTES, "seed {seed}: memory has grown by {growth:?}");
}

#[test]
fn ten_minutes_of_all_faults_lose_nothing_and_leave_nothing_behind() {
    for seed in [7, 1117, 90210] {
        soak(seed);
    }
}
