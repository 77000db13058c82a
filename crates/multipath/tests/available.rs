//! Paths whose carriers control the flow themselves: which takes what.

use kumade_link::Label;
use kumade_multipath::{
    Bond, BondConfig, OuterTransport, PathConfig, PathId, PathPolicy, PathReceiver, StreamDelivery, TrafficClass,
};
use kumade_packet::{Ecn, PayloadKind, StreamSegment};
use kumade_units::{Span, Time};
use std::collections::BTreeMap;

const PATHS: usize = 6;
/// Kept for sparse flows.
const KEPT: [u8; 2] = [0, 1];
const FULL: u32 = 1500;

struct World {
    bond: Bond<u32>,
    far: Vec<PathReceiver>,
    now: Time,
    /// Names the next packet.
    next: u32,
}

impl World {
    /// All paths have answered.
    fn new() -> Self {
        let path = PathConfig { overhead_bytes: 50, transport: OuterTransport::Tcp, ..PathConfig::default() };
        let config = BondConfig {
            policy: PathPolicy::LeastSent,
            queue: BondConfig::managed_queue(),
            paths: vec![path; PATHS],
            seed: 1,
        };
        let far = vec![PathReceiver::new(); PATHS];
        let mut world = World { bond: Bond::new(&config, Time::ZERO).unwrap(), far, now: Time::ZERO, next: 0 };
        for _ in 0..20 {
            world.pass();
            world.left();
        }
        world
    }

    /// Time passes, and what has arrived is reported.
    fn pass(&mut self) {
        self.now += Span::from_millis(10);
        for (path, receiver) in PathId::all().zip(&mut self.far) {
            while let Some(report) = receiver.poll(self.now) {
                self.bond.receive_report(path, &report, self.now);
            }
        }
    }

    fn carrier(&mut self, path: u8, free: u64, is_recovering: bool) {
        let state = StreamDelivery { writable_bytes: free, is_recovering, ..StreamDelivery::default() };
        self.bond.update_transport(PathId::new(path).unwrap(), state, self.now);
    }

    fn offer(&mut self, flow: u64, size: u32) -> u32 {
        self.next += 1;
        self.bond.enqueue(
            self.next,
            Label { size, flow, host: flow, ecn: Ecn::NotEct, ..Label::default() },
            TrafficClass::Ordered,
            self.now,
        );
        self.next
    }

    /// The paths that each packet has left by; probes are left out.
    fn left(&mut self) -> BTreeMap<u32, Vec<u8>> {
        let mut left = BTreeMap::<_, Vec<u8>>::new();
        while let Some(sent) = self.bond.next_transmission(self.now) {
            self.far[sent.path.index()].receive(sent.counter, 80, sent.requests_report, self.now);
            if let Some(packet) = sent.packet {
                left.entry(packet.content).or_default().push(sent.path.number());
            }
        }
        left
    }
}

#[test]
fn a_packet_waits_until_a_path_has_room_and_takes_one_that_repeats_nothing() {
    let mut world = World::new();
    let packets: Vec<_> = (0..10).map(|_| world.offer(7, FULL)).collect();
    assert!(world.left().len() <= 1, "its first packet may be a sparse flow's");
    world.carrier(3, 1550, true);
    world.carrier(4, 1550, false);
    let left = world.left();
    assert_eq!(left.values().flatten().copied().collect::<Vec<_>>(), [4, 3]);
    assert!(left.keys().all(|packet| packets.contains(packet)));
    assert!(world.left().is_empty());
    (2..PATHS as u8).for_each(|path| world.carrier(path, 100_000, false));
    let left = world.left();
    assert!(left.len() >= 7 && left.values().all(|paths| paths.len() == 1), "{left:?}");
}

#[test]
fn a_sparse_flow_leaves_twice_by_paths_that_are_kept_for_such() {
    let mut world = World::new();
    for round in 0..50 {
        world.pass();
        (0..PATHS as u8).for_each(|path| world.carrier(path, 14_000, false));
        let bulk: Vec<_> = (0..8).map(|_| world.offer(7, FULL)).collect();
        let sparse = world.offer(8, 100);
        let left = world.left();
        assert_eq!(left[&sparse], KEPT, "round {round}");
        let by_kept = bulk.iter().flat_map(|packet| &left[packet]).filter(|path| KEPT.contains(path)).count();
        assert!(by_kept == 0, "round {round}");
    }
}

#[test]
fn a_kept_path_that_repeats_what_was_lost_gets_its_copy_second() {
    let mut world = World::new();
    world.carrier(0, 14_000, true);
    world.carrier(1, 14_000, false);
    let sparse = world.offer(8, 100);
    assert_eq!(world.left()[&sparse], [1, 0]);
    // One without room gets none, so that no old copies wait there.
    world.carrier(0, 0, false);
    let sparse = world.offer(8, 100);
    assert_eq!(world.left()[&sparse], [1]);
    world.carrier(0, 14_000, false);
    assert!(world.left().is_empty());
}

#[test]
fn packets_that_follow_each_other_leave_as_one_and_stay_in_their_flow() {
    const JOINED: u32 = 1 << 16;
    let mut world = World::new();
    world.bond.set_merge(|first, next, max_bytes| {
        let of_one_flow = next.abs_diff(*first % JOINED) == 1 + *first / JOINED;
        let bytes = FULL * (2 + *first / JOINED);
        let can_be = of_one_flow && bytes as usize <= max_bytes;
        *first += if can_be { JOINED } else { 0 };
        can_be.then_some(bytes)
    });
    // What the paths carry is not known yet: two at a time.
    assert_eq!(world.bond.max_large_packet_bytes(), Some(3000));
    let packets: Vec<_> = (0..8).map(|_| world.offer(7, FULL)).collect();
    let unordered = world.next + 1;
    let label = Label { size: FULL, flow: 7, host: 7, ecn: Ecn::NotEct, ..Label::default() };
    world.bond.enqueue(unordered, label, TrafficClass::Unordered, world.now);
    let joined: Vec<_> = packets.chunks(2).map(|pair| pair[0] + JOINED).collect();
    (2..PATHS as u8).for_each(|path| world.carrier(path, 100_000, false));
    let left = world.left();
    assert_eq!(left.keys().copied().collect::<Vec<_>>(), [&[unordered][..], &joined].concat());
    assert_eq!(world.bond.queued_packets(), 0);
}

#[test]
fn what_a_carrier_still_has_is_not_given_to_it_again() {
    let mut world = World::new();
    // Packets with the number modulo 100 of full segments of one stream.
    world.bond.set_payload_reader(|packet| {
        let start = packet % 100 * FULL;
        PayloadKind::Stream(StreamSegment { start, end: start + FULL, acknowledgment: 1 })
    });
    let offer = |world: &mut World, segment: u32| {
        world.next = 100 * (world.next / 100 + 1) + segment - 1;
        world.offer(7, FULL)
    };
    let state = |held, acknowledged, is_recovering| StreamDelivery {
        writable_bytes: 1_000_000,
        unacknowledged_bytes: held,
        acknowledged_bytes: acknowledged,
        is_recovering,
        ..StreamDelivery::default()
    };
    let carriers = |world: &mut World, state: StreamDelivery| {
        (0..PATHS as u8).for_each(|path| world.bond.update_transport(PathId::new(path).unwrap(), state, world.now));
    };
    carriers(&mut world, state(0, 0, false));
    (1..4).for_each(|segment| _ = offer(&mut world, segment));
    assert_eq!(world.left().len(), 3);
    // Again, and new: only that leaves.
    let new = [2, 3, 4].map(|segment| offer(&mut world, segment))[2];
    assert_eq!(world.left().into_keys().collect::<Vec<_>>(), [new]);
    assert_eq!(world.bond.suppressed_retransmissions(), 2);
    // The carriers are held up by losses, all but one, which has nothing: there it leaves again.
    carriers(&mut world, state(50_000, 0, true));
    world.bond.update_transport(PathId::new(5).unwrap(), state(0, 1_000_000, false), world.now);
    let again = offer(&mut world, 2);
    assert_eq!(world.left()[&again], [5]);
    // What has been delivered is lost behind the tunnel.
    carriers(&mut world, state(0, 2_000_000, false));
    let again = offer(&mut world, 2);
    assert_eq!(world.left().into_keys().collect::<Vec<_>>(), [again]);
}

/// Datagrams each 10 ms, while no carrier has room.
#[test]
fn of_a_steady_flow_of_datagrams_the_newest_are_sent_and_of_one_that_waits_for_answers_all() {
    let pass = |world: &mut World, millis: i64| world.now += Span::from_millis(millis);
    let sent_after_an_outage = |interval: i64| {
        let mut world = World::new();
        world.bond.set_payload_reader(|_| PayloadKind::Datagram);
        let offered: Vec<_> = (0..1000 / interval)
            .map(|_| {
                pass(&mut world, interval);
                world.offer(7, 1200)
            })
            .collect();
        (2..PATHS as u8).for_each(|path| world.carrier(path, 1_000_000, false));
        (offered, world.left().into_keys().collect::<Vec<_>>(), world.bond.dropped_packets())
    };
    let (steady, sent, dropped) = sent_after_an_outage(10);
    assert!(sent.len() < 30 && steady.ends_with(&sent), "{sent:?}");
    assert_eq!(dropped as usize, steady.len() - sent.len());
    let (seldom, sent, dropped) = sent_after_an_outage(100);
    assert_eq!((sent, dropped), (seldom, 0));
}
