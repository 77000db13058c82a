//! Loss, jitter, reordering and duplication do what they say, and keep out of each other's way.

use kumade_link::{Delivery, DropCause, Jitter, Link, LinkConfig, Loss, Reordering};
use kumade_units::{Span, Time};

const PACKETS: usize = 50_000;

fn at(micros: i64) -> Time {
    Time::ZERO + Span::from_micros(micros)
}

/// A packet each millisecond, numbered.
fn run(config: LinkConfig) -> (Vec<Delivery<usize>>, Link<usize>) {
    let mut link = Link::new(LinkConfig { delay: Span::from_millis(20), seed: 5, ..config }.validate().unwrap());
    for packet in 0..PACKETS {
        let _ = link.offer(packet, 1000, at(packet as i64 * 1000));
    }
    (std::iter::from_fn(|| link.pop_due(Time::MAX)).collect(), link)
}

fn reordering_config(probability: f64) -> LinkConfig {
    LinkConfig { reordering: Reordering { probability, extra: Span::from_micros(3500) }, ..LinkConfig::default() }
}

/// For each packet, whether it is missing.
fn lost_of(came: &[Delivery<usize>]) -> Vec<bool> {
    let mut lost = vec![true; PACKETS];
    came.iter().for_each(|delivery| lost[delivery.packet] = false);
    lost
}

/// RFC 4737: a packet is reordered if one of a higher number came before it, and its extent is how many places before
/// it the first of those came.
fn extents(numbers: &[usize]) -> Vec<usize> {
    let mut extents = Vec::new();
    let mut next_expected = 0;
    for (place, number) in numbers.iter().enumerate() {
        if *number >= next_expected {
            next_expected = number + 1;
            continue;
        }
        // Extents stay far below this here.
        let from = place.saturating_sub(100);
        let first = (from..place).find(|earlier| numbers[*earlier] > *number).unwrap();
        extents.push(place - first);
    }
    extents
}

#[test]
fn the_part_held_back_is_reordered_by_as_many_packets_as_follow_in_the_time() {
    let (came, link) = run(reordering_config(0.1));
    assert!(came.is_sorted_by_key(|delivery| delivery.due));
    let extents = extents(&came.iter().map(|delivery| delivery.packet).collect::<Vec<_>>());
    let ratio = extents.len() as f64 / PACKETS as f64;
    // All three that follow are held back too once in a thousand times.
    assert!((ratio - 0.1 * 0.999).abs() < 0.004, "{ratio}");
    // Three overtake it, and two held back before it may come in between.
    assert!(extents.iter().all(|extent| (1..=5).contains(extent)));
    let mean = extents.iter().sum::<usize>() as f64 / extents.len() as f64;
    // From the first that is not held back on, one packet a millisecond comes, whichever it is.
    let expected = (0.9 * 3.0 + 0.09 * 2.0 + 0.009 * 1.0) / 0.999;
    assert!((mean - expected).abs() < 0.05, "{mean} {expected}");
    let held = link.ledger().packet_counters().reordered.packets;
    assert!(held as usize >= extents.len() && (held as usize) < extents.len() + 30, "{held} {}", extents.len());
}

#[test]
fn only_those_held_back_are_due_at_another_time() {
    let jitter = Jitter::from(Span::from_millis(5));
    let due = |config: LinkConfig| {
        let mut came = run(LinkConfig { jitter: jitter.clone(), ..config }).0;
        came.sort_by_key(|delivery| delivery.packet);
        came.into_iter().map(|delivery| delivery.due).collect::<Vec<_>>()
    };
    let (straight, held) = (due(reordering_config(0.0)), due(reordering_config(0.2)));
    assert_eq!(straight.len(), held.len());
    let late = straight.iter().zip(&held).map(|(straight, held)| *held - *straight);
    assert!(late.clone().all(|late| late == Span::ZERO || late == Span::from_micros(3500)));
    let part = late.filter(|late| *late > Span::ZERO).count() as f64 / PACKETS as f64;
    assert!((part - 0.2).abs() < 0.01, "{part}");
}

#[test]
fn a_duplicate_comes_right_behind_its_original_and_is_counted() {
    let (came, link) = run(LinkConfig { duplication: 0.05, ..reordering_config(0.1) });
    let copies = came.iter().filter(|delivery| delivery.is_duplicate).count();
    assert_eq!(came.len(), PACKETS + copies);
    assert!((copies as f64 / PACKETS as f64 - 0.05).abs() < 0.004, "{copies}");
    for pair in came.windows(2).filter(|pair| pair[1].is_duplicate) {
        assert_eq!(Delivery { is_duplicate: true, ..pair[0].clone() }, pair[1]);
    }
    let counters = link.ledger().packet_counters();
    assert_eq!(counters.duplicated.packets as usize, copies);
    assert_eq!(counters.duplicated.bytes as usize, copies * 1000);
    assert_eq!(counters.forwarded.packets as usize, PACKETS);
}

#[test]
fn switching_one_on_does_not_change_what_another_does_to_which_packet() {
    let jitter = Jitter::from(Span::from_micros(900));
    let all = LinkConfig { jitter, duplication: 0.05, loss: Loss::bursts(0.2, 3.0).unwrap(), ..reordering_config(0.1) };
    let (everything, _) = run(all.clone());
    let find = |came: &[Delivery<usize>], packet| came.iter().find(|delivery| delivery.packet == packet).cloned();
    let copied = |came: &[Delivery<usize>], lost: &[bool]| {
        let copied = came.iter().filter(|delivery| delivery.is_duplicate && !lost[delivery.packet]);
        let mut copied: Vec<_> = copied.map(|delivery| delivery.packet).collect();
        copied.sort_unstable();
        copied
    };
    let only_loss = run(LinkConfig { loss: all.loss, ..LinkConfig::default() }).0;
    let without_loss = run(LinkConfig { loss: Loss::None, ..all }).0;
    let lost = lost_of(&everything);
    assert_eq!(lost, lost_of(&only_loss));
    assert_eq!(copied(&everything, &lost), copied(&without_loss, &lost));
    for packet in (0..PACKETS).step_by(997).filter(|packet| !lost[*packet]) {
        // Packets are further apart than the jitter, so that none waits for one before it.
        assert_eq!(find(&everything, packet).unwrap().due, find(&without_loss, packet).unwrap().due);
    }
}

#[test]
fn what_is_on_its_way_stays_within_its_limit() {
    let config = LinkConfig { delay: Span::from_secs(10), in_flight_bytes: 100_000, ..LinkConfig::default() };
    let mut link = Link::new(config.validate().unwrap());
    for packet in 0..10_000 {
        link.offer(packet, 1000, at(packet)).unwrap();
    }
    // 93 of 1064 bytes fit; they have arrived at ten seconds, and leave the room to others.
    let counters = *link.ledger().packet_counters();
    assert_eq!((counters.forwarded.packets, counters.in_flight_full.packets), (93, 9907));
    let first: Vec<_> = std::iter::from_fn(|| link.pop_due(at(20_000_000))).map(|delivery| delivery.packet).collect();
    assert_eq!(first, (0..93).collect::<Vec<_>>());
    link.offer(0, 1000, at(20_000_000)).unwrap();
    assert_eq!(link.ledger().packet_counters().forwarded.packets, 94);
}

#[test]
fn a_packet_says_how_long_it_waited() {
    let rate = Some(kumade_units::Rate::from_mbit(8));
    let mut link =
        Link::new(LinkConfig { rate, delay: Span::from_millis(3), ..LinkConfig::default() }.validate().unwrap());
    for packet in 0..3 {
        link.offer(packet, 1000, at(100)).unwrap();
    }
    link.advance(at(10_000));
    let waited =
        std::iter::from_fn(|| link.pop_due(Time::MAX)).map(|delivery| delivery.service_start - delivery.arrival);
    assert_eq!(waited.collect::<Vec<_>>(), [0, 1, 2].map(Span::from_millis));
}

#[test]
fn each_cause_of_a_drop_has_its_counter() {
    let rate = Some(kumade_units::Rate::from_mbit(8));
    let config = LinkConfig { rate, queue_bytes: 2000, loss: Loss::Independent(1.0), ..LinkConfig::default() };
    let mut link = Link::new(config.validate().unwrap());
    let fates: Vec<_> = (0..4).map(|packet| link.offer(packet, 1000, at(0))).collect();
    assert_eq!(fates, [Ok(()), Ok(()), Ok(()), Err(DropCause::QueueFull)]);
    link.advance(at(10_000));
    let counters = link.ledger().packet_counters();
    assert_eq!((counters.lost.packets, counters.queue_full.packets, counters.forwarded.packets), (3, 1, 0));
    assert_eq!(link.next_event(), None);
}
