//! A far end that is reached by datagrams and by connections: by which of them packets leave.

use kumade_link::Label;
use kumade_multipath::{
    Bond, BondConfig, OuterTransport, PathConfig, PathId, PathPolicy, PathReceiver, PathState, StreamDelivery,
    TrafficClass,
};
use kumade_packet::Ecn;
use kumade_units::{Rate, Span, Time};
use std::collections::BTreeMap;

const CONNECTIONS: usize = 5;
const PATHS: usize = 1 + CONNECTIONS;
/// The path by datagrams.
const DATAGRAMS: PathId = PathId::new(0).unwrap();
/// The longest packet that datagrams pass.
const LIMIT: u32 = 1400;
const STEP: Span = Span::from_millis(5);

struct World {
    bond: Bond<u32>,
    far: Vec<PathReceiver>,
    datagrams_pass: bool,
    /// A connection that is not answered.
    silent: Option<PathId>,
    /// How long datagrams take.
    delay: Span,
    /// Datagrams under way: when they arrive, their counters, and whether they are to be answered.
    under_way: Vec<(Time, u64, bool)>,
    now: Time,
    next: u32,
}

impl World {
    /// All paths have answered.
    fn new() -> Self {
        let datagrams = PathConfig { rate: Some(Rate::from_mbit(100)), overhead_bytes: 70, ..PathConfig::default() };
        let connection = PathConfig { overhead_bytes: 50, transport: OuterTransport::Tcp, ..PathConfig::default() };
        let config = BondConfig {
            policy: PathPolicy::LeastSent,
            queue: BondConfig::managed_queue(),
            paths: [vec![datagrams], vec![connection; CONNECTIONS]].concat(),
            seed: 1,
        };
        let bond = Bond::new(&config, Time::ZERO).unwrap();
        let far = vec![PathReceiver::new(); PATHS];
        let (delay, now) = (Span::ZERO, Time::ZERO);
        let mut world =
            World { bond, far, datagrams_pass: true, silent: None, delay, under_way: Vec::new(), now, next: 0 };
        world.bond.set_max_bytes(DATAGRAMS, LIMIT, Time::ZERO);
        world.run(Span::from_millis(100), 0);
        world
    }

    fn offer(&mut self, size: u32) -> u32 {
        self.next += 1;
        self.bond.enqueue(
            self.next,
            Label { size, flow: 7, host: 7, ecn: Ecn::NotEct, ..Label::default() },
            TrafficClass::Ordered,
            self.now,
        );
        self.next
    }

    /// Time passes, with so many packets offered in each step. Returns what each carrier took, but for probes.
    fn run(&mut self, span: Span, packets: usize) -> BTreeMap<u8, usize> {
        let (end, mut taken) = (self.now + span, BTreeMap::new());
        while self.now < end {
            self.now += STEP;
            for path in PathId::all().take(PATHS).skip(1) {
                let state = StreamDelivery { writable_bytes: 100_000, ..StreamDelivery::default() };
                self.bond.update_transport(path, state, self.now);
            }
            for _ in 0..packets {
                self.offer(LIMIT);
            }
            for (_, path) in self.left() {
                *taken.entry(path).or_default() += 1;
            }
        }
        taken
    }

    /// The path of each packet that leaves now.
    fn left(&mut self) -> BTreeMap<u32, u8> {
        let is_due = |datagram: &mut (Time, u64, bool)| datagram.0 <= self.now;
        for (arrival, counter, answer) in self.under_way.extract_if(.., is_due) {
            self.far[DATAGRAMS.index()].receive(counter, 1470, answer, arrival);
        }
        for (path, receiver) in PathId::all().zip(&mut self.far) {
            while let Some(report) = receiver.poll(self.now) {
                if (self.datagrams_pass || path != DATAGRAMS) && self.silent != Some(path) {
                    self.bond.receive_report(path, &report, self.now);
                }
            }
        }
        let mut left = BTreeMap::new();
        while let Some(sent) = self.bond.next_transmission(self.now) {
            if sent.path != DATAGRAMS {
                self.far[sent.path.index()].receive(sent.counter, 1470, sent.requests_report, self.now);
            } else if self.datagrams_pass {
                self.under_way.push((self.now + self.delay, sent.counter, sent.requests_report));
            }
            left.extend(sent.packet.map(|packet| (packet.content, sent.path.number())));
        }
        left
    }
}

#[test]
fn datagrams_take_all_until_they_fail_and_connections_at_once_then() {
    let mut world = World::new();
    assert_eq!(world.bond.current_transport(), Some(OuterTransport::Udp));
    let taken = world.run(Span::from_secs(1), 2);
    assert_eq!(taken.keys().copied().collect::<Vec<_>>(), [0], "{taken:?}");
    world.datagrams_pass = false;
    // Four packets unanswered for 1.25 round trips and 40 ms, and nothing answered for 60 ms.
    world.run(Span::from_millis(120), 2);
    assert_eq!(world.bond.current_transport(), Some(OuterTransport::Tcp));
    let taken = world.run(Span::from_secs(1), 2);
    assert!(!taken.contains_key(&0) && taken.values().sum::<usize>() == 400, "{taken:?}");
    assert_eq!(world.bond.queued_packets(), 0);
    world.datagrams_pass = true;
    world.run(Span::from_secs(8), 2);
    assert_eq!(world.bond.current_transport(), Some(OuterTransport::Udp));
}

#[test]
fn idle_connections_are_probed_seldom_until_the_first_one_fails() {
    let mut world = World::new();
    world.run(Span::from_secs(8), 0);
    let sent = |world: &World| -> Vec<_> {
        PathId::all().take(PATHS).map(|path| world.bond.status(path).unwrap().sent_packets).collect()
    };
    let sent_within = |world: &mut World, span: Span| -> Vec<_> {
        let before = sent(world);
        world.run(span, 0);
        sent(world).iter().zip(before).map(|(after, before)| after - before).collect()
    };
    let probes = sent_within(&mut world, Span::from_secs(48));
    assert!(probes[..2].iter().all(|probes| (28..=70).contains(probes)), "{probes:?}");
    assert!(probes[2..].iter().all(|probes| (3..=9).contains(probes)), "{probes:?}");
    world.silent = PathId::new(1);
    let probes = sent_within(&mut world, Span::from_millis(2500));
    let first = world.bond.status(PathId::new(1).unwrap()).unwrap();
    assert!(matches!(first.state, PathState::Down { .. }), "{first:?}");
    assert!(probes[2..].iter().all(|probes| *probes >= 1), "{probes:?}");
}

#[test]
fn probes_behind_another_carriers_queue_tell_nothing_of_the_rate() {
    let mut world = World::new();
    world.run(Span::from_secs(1), 20);
    let rate = |world: &World| world.bond.status(DATAGRAMS).unwrap().rate.as_f64();
    let before = rate(&world);
    world.datagrams_pass = false;
    world.run(Span::from_secs(1), 20);
    assert_eq!(world.bond.current_transport(), Some(OuterTransport::Tcp));
    world.datagrams_pass = true;
    world.run(Span::from_secs(3), 20);
    // It stays so, since datagrams have failed before.
    for second in 0..60 {
        world.delay = Span::from_millis(10 + second * 2);
        world.bond.set_max_bytes(DATAGRAMS, 0, world.now);
        world.bond.set_max_bytes(DATAGRAMS, LIMIT, world.now);
        world.run(Span::from_secs(1), 20);
    }
    assert_eq!(world.bond.current_transport(), Some(OuterTransport::Tcp));
    assert!(rate(&world) > before / 2.0, "{} of {before}", rate(&world));
}

#[test]
fn what_datagrams_do_not_pass_leaves_by_a_connection() {
    let mut world = World::new();
    let (short, long) = (world.offer(LIMIT), world.offer(LIMIT + 1));
    world.now += STEP;
    let left = world.left();
    assert_eq!(left[&short], DATAGRAMS.number());
    assert_ne!(left[&long], DATAGRAMS.number());
    // The same flow again, which does not stay there.
    let short = world.offer(LIMIT);
    world.now += STEP;
    assert_eq!(world.left()[&short], DATAGRAMS.number());
    assert_eq!(world.bond.take_oversized(), None);
}

#[test]
fn a_path_is_what_it_was_last_carried_by() {
    let mut world = World::new();
    // The far end is one that has connections on all paths.
    world.bond.set_transport(DATAGRAMS, OuterTransport::Tcp, 50, world.now);
    assert_eq!(world.bond.current_transport(), Some(OuterTransport::Tcp));
    world.bond.set_max_bytes(DATAGRAMS, u32::MAX, world.now);
    let taken = world.run(Span::from_millis(500), 2);
    assert!(taken.values().sum::<usize>() == 200, "{taken:?}");
    world.bond.set_transport(DATAGRAMS, OuterTransport::Udp, 70, world.now);
    world.run(Span::from_millis(500), 2);
    assert_eq!(world.bond.current_transport(), Some(OuterTransport::Udp));
}
