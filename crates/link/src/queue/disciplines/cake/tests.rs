use super::*;
use crate::framing::Cells;
use kumade_packet::{Dscp, Ecn};

const SEED: u64 = 3;
const RATE: Rate = Rate::from_mbit(10);

fn queue(config: CakeConfig) -> Cake<u64> {
    CakeConfig { rate: Some(RATE), ..config }.new_queue(QueueLimit::Bytes(4 << 20), SEED)
}

/// A sender that always has two packets waiting.
#[derive(Debug, Clone, Copy)]
struct Sender {
    source: u64,
    destination: u32,
    dscp: u8,
    size: u32,
}

const USUAL: Sender = Sender { source: 0, destination: 0, dscp: 0, size: 1500 };

/// The parts of the line's time that each sender gets, when all always have packets.
fn shares(config: CakeConfig, senders: &[Sender]) -> Vec<f64> {
    let mut queue = queue(config);
    let mut now = Time::ZERO;
    let mut bytes = vec![0u64; senders.len()];
    let offer = |queue: &mut Cake<u64>, flow: u64, now: Time| {
        let Sender { source, destination, dscp, size } = senders[flow as usize];
        let packet = QueuedPacket {
            host: source,
            destination_host: destination,
            dscp: Dscp::new(dscp).unwrap(),
            ..QueuedPacket::new(flow, size, flow, now)
        };
        queue.enqueue(packet, &mut Vec::new()).unwrap();
    };
    (0..senders.len() as u64).for_each(|flow| (0..2).for_each(|_| offer(&mut queue, flow, now)));
    for _ in 0..40_000 {
        let mut drops = Vec::new();
        let packet = queue.dequeue(now, &mut drops).unwrap();
        let line_bytes = config.framing.line_bytes(packet.size);
        bytes[packet.flow as usize] += u64::from(line_bytes);
        now += RATE.time_for(line_bytes.into());
        drops.iter().map(|drop| drop.packet.flow).chain([packet.flow]).for_each(|flow| offer(&mut queue, flow, now));
    }
    let sum = bytes.iter().sum::<u64>() as f64;
    bytes.into_iter().map(|bytes| bytes as f64 / sum).collect()
}

fn assert_shares(config: CakeConfig, senders: &[Sender], expected: &[f64]) {
    let shares = shares(config, senders);
    let close = shares.iter().zip(expected).all(|(share, expected)| (share - expected).abs() < 0.01);
    assert!(close, "seed {SEED}, {config:?}: {shares:.3?}, not {expected:?}");
}

/// Best effort, CS1, AF41 and EF.
const CLASSES: [Sender; 4] = [
    USUAL,
    Sender { source: 1, destination: 1, dscp: 8, ..USUAL },
    Sender { source: 2, destination: 2, dscp: 34, ..USUAL },
    Sender { source: 3, destination: 3, dscp: 46, ..USUAL },
];

#[test]
fn tins_have_their_shares_when_all_want_more() {
    let config = |tins| CakeConfig { tins, ..CakeConfig::default() };
    let [best_effort, bulk, video, voice] = CLASSES;
    let four = config(TinLayout::Diffserv4);
    assert_shares(four, &CLASSES, &[3.0 / 16.0, 1.0 / 16.0, 0.5, 0.25]);
    assert_shares(four, &[best_effort, voice], &[0.75, 0.25]);
    assert_shares(four, &[best_effort, video], &[0.5, 0.5]);
    assert_shares(four, &[best_effort, bulk], &[15.0 / 16.0, 1.0 / 16.0]);
    // Who is alone has all.
    assert_shares(four, &[voice], &[1.0]);
    // Between voice and video alone, the rest is divided by shares.
    let [video_part, voice_part] = shares(four, &[video, voice])[..] else { panic!("two") };
    assert!((video_part / voice_part - 2.0).abs() < 0.1, "{video_part} {voice_part}");
    // Video is best effort in three tins, and all is in one.
    let three = config(TinLayout::Diffserv3);
    assert_shares(three, &CLASSES, &[11.0 / 32.0, 1.0 / 16.0, 11.0 / 32.0, 0.25]);
    assert_shares(config(TinLayout::BestEffort), &CLASSES, &[0.25; 4]);
}

#[test]
fn every_dscp_has_its_tin() {
    for (dscp, three, four) in [
        ("cs0", 0, 0),
        ("cs1", 1, 1),
        ("le", 1, 1),
        ("af11", 0, 0),
        ("af41", 0, 2),
        ("cs4", 0, 3),
        ("cs3", 0, 2),
        ("cs5", 0, 3),
        ("ef", 2, 3),
        ("cs6", 2, 3),
        ("cs7", 2, 3),
        ("44", 2, 3),
        ("4", 2, 2),
    ] {
        let number = dscp.parse::<Dscp>().unwrap().number();
        assert_eq!((TinLayout::Diffserv3.tin(number), TinLayout::Diffserv4.tin(number)), (three, four), "{dscp}");
        assert_eq!(TinLayout::BestEffort.tin(number), 0);
    }
}

/// A host with eight flows, and one with one.
fn eight_and_one(many: Sender, one: Sender) -> Vec<Sender> {
    [vec![many; 8], vec![one]].concat()
}

#[test]
fn a_host_with_eight_flows_gets_no_more_than_one_with_one_where_hosts_are_isolated() {
    let config = |isolation| CakeConfig { isolation, tins: TinLayout::BestEffort, ..CakeConfig::default() };
    let (by_flow, by_host) = ([1.0 / 9.0; 9], [vec![1.0 / 16.0; 8], vec![0.5]].concat());
    let sources = eight_and_one(USUAL, Sender { source: 1, ..USUAL });
    let destinations = eight_and_one(USUAL, Sender { destination: 1, ..USUAL });
    let both = eight_and_one(USUAL, Sender { source: 1, destination: 1, ..USUAL });
    for (isolation, senders, expected) in [
        (Isolation::Flows, &sources, &by_flow[..]),
        (Isolation::DualSourceHosts, &sources, &by_host),
        (Isolation::DualSourceHosts, &destinations, &by_flow),
        (Isolation::DualDestinationHosts, &destinations, &by_host),
        (Isolation::DualDestinationHosts, &sources, &by_flow),
        (Isolation::TripleIsolate, &both, &by_host),
    ] {
        assert_shares(config(isolation), senders, expected);
    }
    // One queue for each: of hosts, or of pairs of them.
    for (isolation, senders) in [
        (Isolation::SourceHosts, &sources),
        (Isolation::DestinationHosts, &destinations),
        (Isolation::HostPairs, &both),
    ] {
        let one = shares(config(isolation), senders)[8];
        assert!((one - 0.5).abs() < 0.01, "seed {SEED}, {isolation:?}: {one}");
    }
}

/// A flow of packets that fill two cells with few bytes has the line for as long as one of large ones.
#[test]
fn turns_count_what_the_line_carries() {
    let framing = Framing { overhead_bytes: 32, cells: Cells::ATM, ..Framing::default() };
    let config = CakeConfig { framing, tins: TinLayout::BestEffort, ..CakeConfig::default() };
    let small = Sender { source: 1, destination: 1, size: 17, ..USUAL };
    assert_shares(config, &[USUAL, small], &[0.5, 0.5]);
}

#[test]
fn a_sparse_flow_comes_first_and_an_idle_one_is_sparse_again() {
    let mut queue = queue(CakeConfig::default());
    let mut now = Time::ZERO;
    let offer = |queue: &mut Cake<u64>, flow, now| {
        queue.enqueue(QueuedPacket::new(0, 1000, flow, now), &mut Vec::new()).unwrap()
    };
    (0..20).for_each(|_| offer(&mut queue, 1, now));
    for _ in 0..5 {
        // Of the first that come, flow 2 is one.
        for _ in 0..3 {
            now += RATE.time_for(1000);
            assert_eq!(queue.dequeue(now, &mut Vec::new()).unwrap().flow, 1);
        }
        offer(&mut queue, 2, now);
        assert_eq!(queue.dequeue(now, &mut Vec::new()).unwrap().flow, 2);
    }
}

#[test]
fn an_overflow_takes_from_the_longest_queue() {
    let mut queue: Cake<u64> = CakeConfig::default().new_queue(QueueLimit::Packets(100), SEED);
    let mut drops = Vec::new();
    let packet = |content, flow| QueuedPacket::new(content, 1000, flow, Time::ZERO);
    (0..150).for_each(|content| queue.enqueue(packet(content, 1), &mut drops).unwrap());
    (0..30).for_each(|content| queue.enqueue(packet(content, 2), &mut drops).unwrap());
    assert_eq!(queue.packets(), 100);
    assert!(drops.len() == 80 && drops.iter().all(|drop| drop.packet.flow == 1 && drop.cause == DropCause::QueueFull));
    let contents: Vec<u64> = drops.iter().map(|drop| drop.packet.content).collect();
    assert_eq!(contents, (0..80).collect::<Vec<_>>());
}

/// Twice the rate, by packets that cannot be marked, or can: both are bounded, and the delay of those that react is for CoDel.
#[test]
fn who_does_not_react_is_dropped_by_blue() {
    let overflow_part = |limit| {
        let mut queue: Cake<u64> = CakeConfig { rate: Some(RATE), ..CakeConfig::default() }.new_queue(limit, SEED);
        let (mut drops, mut full, mut marked) = (Vec::new(), 0, 0);
        for number in 0..100_000u64 {
            let now = Time::ZERO + RATE.time_for(500 * number);
            let packet = QueuedPacket { ecn: Ecn::Ect0, ..QueuedPacket::new(number, 1000, 1, now) };
            let _ = queue.enqueue(packet, &mut drops);
            if number % 2 == 1 {
                marked += u64::from(queue.dequeue(now, &mut drops).is_some_and(|packet| packet.marked));
            }
            full += drops.iter().filter(|drop| drop.cause == DropCause::QueueFull).count();
            drops.clear();
        }
        (full as f64 / 100_000.0, marked)
    };
    let (full, marked) = overflow_part(QueueLimit::Packets(200));
    // Half of all has to go: BLUE takes most of it, also of those that could be marked.
    assert!(full < 0.15 && marked > 10_000, "seed {SEED}: {full} {marked}");
}
