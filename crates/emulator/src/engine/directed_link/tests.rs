use super::*;
use crate::frame::LinkHeader;
use kumade_link::queue::{CoDelConfig, Discipline, QueueConfig, QueueLimit};
use kumade_link::{LinkConfig, Medium, Trace};
use kumade_middlebox::{FilterRule, PacketMatch, RefusalKind};
use kumade_packet::{Ecn, Encapsulation, Ethernet, checksum};
use kumade_packet_loop::BufferPool;
use kumade_units::{Rate, Span};

fn queue(discipline: Discipline) -> QueueConfig {
    QueueConfig { limit: QueueLimit::Packets(1000), discipline }
}

fn config(discipline: Discipline) -> DirectionConfig {
    let link = LinkConfig { rate: Some(Rate::from_mbit(1)), ..LinkConfig::default() };
    DirectionConfig::new(link, queue(discipline), Vec::new()).unwrap()
}

/// UDP over IPv4 with this much in it, from a sender that understands marks.
fn udp(payload: usize) -> Vec<u8> {
    let total = (28 + payload) as u16;
    let mut packet = vec![0x45, Ecn::Ect0 as u8, 0, 0, 0, 1, 0, 0, 64, 17, 0, 0, 10, 79, 0, 1, 10, 79, 0, 2];
    packet[2..4].copy_from_slice(&total.to_be_bytes());
    packet.extend([0x9c, 0x40, 0x14, 0x51, 0, 0, 0, 0]);
    packet.resize(total.into(), 7);
    packet[24..26].copy_from_slice(&(total - 20).to_be_bytes());
    checksum::set(&mut packet).unwrap();
    packet
}

/// As it arrives; one without a header, at a TUN device.
fn frame(pool: &BufferPool, header: &[u8], packet: &[u8]) -> ClassifiedFrame {
    let is_ip = Ethernet::parse(header).is_none_or(|header| header.is_ip());
    let classification = if is_ip { Classification::from_packet(packet) } else { Classification::not_ip(packet.len()) };
    let link = LinkHeader::from_frame(header, None, Encapsulation::None).unwrap_or(LinkHeader::NONE);
    ClassifiedFrame::new(pool, link, packet, classification)
}

#[test]
fn a_queue_that_marks_leaves_valid_packets() {
    let pool = BufferPool::default();
    let mut recorder = Recorder::new();
    let codel = CoDelConfig { ecn: true, ..CoDelConfig::default() };
    let mut link = DirectedLink::new(config(Discipline::CoDel(codel)), Time::ZERO).unwrap();
    // Four times what the link carries, for a second.
    let mut marked = 0;
    for number in 0..400i64 {
        let now = Time::from_nanos(number * 2_500_000);
        assert!(link.offer(frame(&pool, &[], &udp(1222)), now, &mut recorder).is_none());
        link.advance(now, &mut recorder);
        while let Some(delivery) = link.pop_due(now, &mut recorder) {
            assert!(checksum::is_valid(&delivery.packet.packet).unwrap());
            marked += u64::from(ecn::read(&delivery.packet.packet) == Ecn::Ce);
        }
    }
    assert!(marked > 3, "{marked}");
    let seen = recorder.snapshot();
    assert_eq!(seen.counts.marked.packets, marked);
    assert_eq!((seen.counts.offered.packets, seen.flows.len()), (400, 1));
}

#[test]
fn what_fills_a_short_frame_does_not_count() {
    let pool = BufferPool::default();
    let mut recorder = Recorder::new();
    let mut link = DirectedLink::new(config(Discipline::default()), Time::ZERO).unwrap();
    let mut filled = udp(4);
    filled.resize(46, 0);
    link.offer(frame(&pool, &[], &filled), Time::ZERO, &mut recorder);
    assert_eq!(recorder.snapshot().counts.offered.bytes, 32);
    // 32 bytes at 1 Mbit/s.
    let delivery = link.pop_due(Time::from_nanos(256_000), &mut recorder).unwrap();
    assert_eq!((delivery.due, &delivery.packet.packet[..]), (Time::from_nanos(256_000), &udp(4)[..]));
}

#[test]
fn rules_refuse_ip_only_and_each_pair_of_stations_is_a_flow() {
    let pool = BufferPool::default();
    let mut recorder = Recorder::new();
    let rule = FilterRule::Refuse { matching: PacketMatch::default(), refusal: RefusalKind::Drop };
    let config = DirectionConfig { rules: vec![rule], ..config(Discipline::default()) };
    let mut link = DirectedLink::new(config, Time::ZERO).unwrap();
    let arp = |station: u8| [2, 0, 0, 0, 0, station, 2, 0, 0, 0, 0, 9, 8, 6];
    for station in [1, 2, 1] {
        link.offer(frame(&pool, &arp(station), &[1; 28]), Time::ZERO, &mut recorder);
    }
    link.offer(frame(&pool, &[], &udp(100)), Time::ZERO, &mut recorder);
    let seen = recorder.snapshot();
    assert_eq!(
        (seen.counts.offered.packets, seen.counts.dropped_for(DropCause::FilteredByRule).packets, seen.flows.len()),
        (4, 1, 3)
    );
}

/// An empty frame takes its place on the link, too: else it would wait for ever.
#[test]
fn nothing_at_all_is_carried() {
    let pool = BufferPool::default();
    let mut recorder = Recorder::new();
    let mut link = DirectedLink::new(config(Discipline::default()), Time::ZERO).unwrap();
    for _ in 0..3 {
        link.offer(frame(&pool, &[0; 14], &[]), Time::ZERO, &mut recorder);
    }
    let late = Time::from_nanos(1_000_000);
    link.advance(late, &mut recorder);
    assert_eq!(std::iter::from_fn(|| link.pop_due(late, &mut recorder)).count(), 3);
    assert_eq!(link.next_event(), None);
}

#[test]
fn a_trace_begins_when_it_is_set_and_no_other_change_disturbs_it() {
    let pool = BufferPool::default();
    let mut recorder = Recorder::new();
    let at = |millis: i64| Time::ZERO + Span::from_millis(millis);
    let with = |every: &str, delay: i64| {
        let medium = Some(Medium::Trace(Trace::parse(every).unwrap()));
        let link = LinkConfig { medium, delay: Span::from_millis(delay), ..LinkConfig::default() };
        DirectionConfig::new(link, queue(Discipline::default()), Vec::new()).unwrap()
    };
    let mut link = DirectedLink::new(with("5", 0), at(3)).unwrap();
    for (sets, now, due) in [(None, 3, 8), (Some(with("5", 1)), 10, 14), (Some(with("7", 1)), 20, 28)] {
        if let Some(config) = sets {
            link.reconfigure(config, at(now), &mut recorder).unwrap();
        }
        link.offer(frame(&pool, &[], &udp(100)), at(now), &mut recorder);
        link.advance(at(due), &mut recorder);
        assert_eq!(link.pop_due(at(due), &mut recorder).unwrap().due, at(due));
    }
}

#[test]
fn packets_that_pass_allocate_nothing() {
    let pool = BufferPool::default();
    let mut recorder = Recorder::new();
    let mut link = DirectedLink::new(config(Discipline::CoDel(CoDelConfig::default())), Time::ZERO).unwrap();
    let packet = udp(1222);
    // Twice what the link carries, so that the queue is full and drops.
    let mut pass = |packets: std::ops::Range<i64>| {
        for number in packets {
            let now = Time::from_nanos(number * 5_000_000);
            link.offer(frame(&pool, &[], &packet), now, &mut recorder);
            link.advance(now, &mut recorder);
            while link.pop_due(now, &mut recorder).is_some() {}
        }
    };
    pass(0..10_000);
    let counted = allocation_counter::measure(|| pass(10_000..20_000));
    assert!(counted.count_total <= 10, "{counted:?}");
}

/// Bytes that this process has in memory: proc_pid_statm(5).
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// Offers packets until they are dropped; returns how many were held, and what they took.
fn fill(link: LinkConfig, limit: QueueLimit, payload: usize) -> (u64, u64) {
    let queue = QueueConfig { limit, discipline: kumade_link::queue::TailDropConfig.into() };
    let config = DirectionConfig::new(link, queue, Vec::new()).unwrap();
    let mut link = DirectedLink::new(config, Time::ZERO).unwrap();
    let (pool, mut recorder) = (BufferPool::default(), Recorder::new());
    let packet = udp(payload);
    let before = resident();
    let mut held = 0;
    while recorder.snapshot().counts.dropped_for(DropCause::Overload).packets == 0 {
        for _ in 0..1000 {
            link.offer(frame(&pool, &[], &packet), Time::from_nanos(held), &mut recorder);
            held += 1;
        }
    }
    (held as u64, resident().saturating_sub(before))
}

#[test]
fn the_memory_of_packets_is_bounded_whatever_their_sizes() {
    // Alone in its process: other tests take memory, too.
    const ALONE: &str = "KUMADE_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let mut copy = std::process::Command::new(std::env::current_exe().unwrap());
        copy.args(["--exact", "--nocapture", std::thread::current().name().unwrap()]).env(ALONE, "1");
        return assert!(copy.status().unwrap().success());
    }
    const BOUND: u64 = 64 << 20;
    let link = LinkConfig { in_flight_bytes: BOUND, ..LinkConfig::default() };
    let delayed = LinkConfig { delay: Span::from_secs(3600), ..link.clone() };
    let slow = LinkConfig { rate: Some(Rate::from_bits_per_second(8)), ..link };
    // In flight, and waiting in a queue that would hold them all.
    for (link, limit) in [(delayed, QueueLimit::Packets(1)), (slow, QueueLimit::Bytes(BOUND))] {
        for payload in [0, 18, 1400] {
            let (held, taken) = fill(link.clone(), limit, payload);
            println!("{held} packets of {payload} octets take {taken} of {BOUND} bytes");
            assert!(taken <= BOUND + BOUND / 10, "{held} packets of {payload} octets take {taken} bytes");
            assert!(held * (payload as u64 + 28) > BOUND / 25, "{held}");
        }
    }
}

/// A receiver drops a packet whose checksums fail; one of its headers or its content has the inverted bit.
#[test]
fn the_checksum_of_a_corrupted_packet_fails() {
    let pool = BufferPool::default();
    let mut recorder = Recorder::new();
    let link = LinkConfig { corruption: 1.0, ..LinkConfig::default() };
    let config = DirectionConfig::new(link, queue(Discipline::default()), Vec::new()).unwrap();
    let mut link = DirectedLink::new(config, Time::ZERO).unwrap();
    let packet = udp(100);
    for number in 0..2000 {
        let now = Time::from_nanos(number * 1000);
        link.offer(frame(&pool, &[], &packet), now, &mut recorder);
        let delivery = link.pop_due(now, &mut recorder).unwrap();
        let differing = delivery.packet.packet.iter().zip(&packet).map(|(is, was)| (is ^ was).count_ones());
        assert_eq!(differing.sum::<u32>(), 1);
        assert!(!checksum::is_valid(&delivery.packet.packet).unwrap_or(false), "packet {number}");
    }
    let counts = recorder.snapshot().counts;
    assert_eq!((counts.corrupted.packets, counts.corrupted.bytes), (2000, 2000 * 128));
}
