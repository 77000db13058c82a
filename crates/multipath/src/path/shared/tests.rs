use super::*;
use proptest::prelude::*;

const BYTES: u32 = 1000;

/// A shard that comes each so often and has packets of so many flows whenever it is asked, or at a rate of its own.
#[derive(Debug, Clone, Copy)]
struct Sender {
    every: Span,
    flows: u32,
    /// Bytes per second that it gets to send; without limit, if none.
    demand: Option<f64>,
}

impl Sender {
    fn backlogged(flows: u32) -> Self {
        Sender { every: Span::from_micros(150), flows, demand: None }
    }
}

struct World {
    parts: Vec<ShardPath>,
    senders: Vec<Sender>,
    wakes: Vec<Time>,
    waiting: Vec<f64>,
    sent: Vec<u64>,
    now: Time,
}

impl World {
    fn new(mbit: u64, senders: &[Sender]) -> Self {
        let path = Arc::new(SharedPath::new(Some(Rate::from_mbit(mbit)), None, senders.len(), Time::ZERO));
        let count = senders.len();
        World {
            parts: (0..count).map(|shard| ShardPath::new(Arc::clone(&path), shard)).collect(),
            senders: senders.to_vec(),
            wakes: senders.iter().map(|sender| Time::ZERO + sender.every).collect(),
            waiting: vec![0.0; count],
            sent: vec![0; count],
            now: Time::ZERO,
        }
    }

    /// Bytes of each shard in this time.
    fn run(&mut self, span: Span) -> Vec<f64> {
        let (end, before) = (self.now + span, self.sent.clone());
        while let Some((wake, shard)) = self.wakes.iter().copied().zip(0..).min().filter(|(wake, _)| *wake <= end) {
            self.now = wake;
            self.run_turn(shard);
            self.wakes[shard] = wake + self.senders[shard].every;
        }
        self.now = end;
        self.sent.iter().zip(before).map(|(sent, before)| (sent - before) as f64).collect()
    }

    fn run_turn(&mut self, shard: usize) {
        let (part, sender, now) = (&self.parts[shard], self.senders[shard], self.now);
        let waiting = &mut self.waiting[shard];
        let new = sender.demand.map(|demand| demand * sender.every.as_secs_f64());
        *waiting = new.map_or(f64::MAX, |new| *waiting + new);
        while part.shard_ready_at() <= now {
            if *waiting < f64::from(BYTES) {
                part.record_idle(now);
                break;
            }
            *waiting -= f64::from(BYTES);
            part.send_packet(BYTES, sender.every, now);
            self.sent[shard] += u64::from(BYTES);
        }
        part.set_waiting_flows(if *waiting < f64::from(BYTES) { 0 } else { sender.flows });
    }
}

fn bytes(mbit: u64, span: Span) -> f64 {
    Rate::from_mbit(mbit).bytes_in(span) as f64
}

#[test]
fn shards_have_parts_for_their_flows_whoever_comes_first() {
    for mbit in [5, 50, 500] {
        let mut world = World::new(mbit, &[Sender::backlogged(1), Sender::backlogged(3), Sender::backlogged(6)]);
        let second = Span::from_secs(1);
        let sent = world.run(second);
        let sum: f64 = sent.iter().sum();
        assert!((sum / bytes(mbit, second) - 1.0).abs() < 0.01, "{mbit} Mbit/s: {sent:?}");
        for (sent, part) in sent.iter().zip([0.1, 0.3, 0.6]) {
            assert!((sent / sum - part).abs() < 0.03, "{mbit} Mbit/s: {sent} of {sum}, not {part}");
        }
    }
}

#[test]
fn what_a_shard_leaves_is_another_s_within_10_ms_and_its_again_when_it_needs_it() {
    let mut world = World::new(100, &[Sender::backlogged(1), Sender::backlogged(1)]);
    let window = Span::from_millis(10);
    world.run(Span::from_secs(1));
    world.senders[1] = Sender { demand: Some(0.0), ..world.senders[1] };
    world.waiting[1] = 0.0;
    let alone = world.run(window)[0];
    assert!(alone > 0.97 * bytes(100, window), "{alone}");
    world.run(Span::from_secs(5));
    world.senders[1] = Sender::backlogged(1);
    // Nobody makes up for what it had no use for.
    for _ in 0..3 {
        let both = world.run(window);
        assert!(both.iter().all(|sent| (sent / bytes(100, window) - 0.5).abs() < 0.05), "{both:?}");
    }
}

#[test]
fn a_thread_that_is_stopped_while_its_packets_wait_keeps_nothing_from_others() {
    let mut world = World::new(100, &[Sender::backlogged(1), Sender::backlogged(1)]);
    world.run(Span::from_secs(1));
    world.wakes[1] = world.now + Span::from_secs(3600);
    let second = Span::from_secs(1);
    let alone = world.run(second)[0];
    assert!(alone > 0.99 * bytes(100, second), "{alone}");
}

#[test]
fn reports_that_overtake_each_other_are_left_out() {
    let world = World::new(100, &[Sender::backlogged(1), Sender::backlogged(1)]);
    let report = |shard: usize, number: u64, total: u64, millis: i64| {
        let time = Time::ZERO + Span::from_millis(millis);
        let sent = AcknowledgedPackets {
            is_shortened: false,
            time,
            size: BYTES,
            number,
            total_bytes: total,
            logged_bytes: total,
            idle_time: Span::ZERO,
            found_empty_path: false,
        };
        let (now, arrival) = (time + Span::from_millis(20), time + Span::from_millis(10));
        let round_trip = now - time;
        let (reported, received, lost) = (u64::from(BYTES), u64::from(BYTES), 0);
        world.parts[shard].record_observation(&PathObservation {
            now,
            sent,
            arrival,
            round_trip,
            sent_bytes: reported,
            received_bytes: received,
            lost_packets: lost,
            is_probing_only: false,
        });
    };
    for _ in 0..100 {
        world.parts[0].record_departure(BYTES, Time::ZERO);
    }
    // Each shard's are in their order.
    report(0, 50, 51_000, 50);
    report(1, 49, 50_000, 49);
    report(1, 51, 50_500, 51);
    report(0, 60, 61_000, 60);
    report(1, 60, 61_000, 60);
    let mut locked = world.parts[0].path.try_lock().unwrap();
    let learned = locked.get_mut();
    assert_eq!(
        (learned.newest_reported, learned.reported_sent_bytes, learned.received_bytes),
        (Some(60), 61_000, 61_000)
    );
}

proptest! {
    #[test]
    fn together_they_send_what_the_path_carries_and_no_more(
        mbit in 2u64..2000,
        shards in prop::collection::vec((20i64..400, 1u32..50, prop::option::of(0.0f64..1.5)), 1..6),
    ) {
        let path = bytes(mbit, Span::from_secs(1));
        let senders: Vec<_> = shards
            .iter()
            .map(|&(micros, flows, demand)| Sender {
                every: Span::from_micros(micros),
                flows,
                demand: demand.map(|demand| demand * path),
            })
            .collect();
        let mut world = World::new(mbit, &senders);
        let mut demand: f64 = senders.iter().map(|sender| sender.demand.unwrap_or(f64::INFINITY)).sum();
        // At the beginning and at the end, some is on its way.
        let slack = bytes(mbit, Span::from_millis(2)) + f64::from(BYTES) * senders.len() as f64;
        let mut sent = vec![0.0; senders.len()];
        for _ in 0..20 {
            let window = Span::from_millis(50);
            let now = world.run(window);
            prop_assert!(now.iter().sum::<f64>() <= bytes(mbit, window) + slack, "{now:?} of {path}");
            sent.iter_mut().zip(now).for_each(|(sum, now)| *sum += now);
        }
        demand = demand.min(path);
        let sum: f64 = sent.iter().sum();
        prop_assert!(sum >= 0.97 * demand - slack, "{sum} of {demand}: {senders:?}");
    }

    #[test]
    fn a_shard_that_asks_for_less_than_its_part_has_it(
        mbit in 10u64..1000,
        part in 0.01f64..0.8,
        others in 1usize..5,
    ) {
        let path = bytes(mbit, Span::from_secs(1));
        let mut senders = vec![Sender::backlogged(1); others + 1];
        let demand = part * path / (others + 1) as f64;
        senders[0].demand = Some(demand);
        let sent = World::new(mbit, &senders).run(Span::from_secs(1));
        prop_assert!(sent[0] >= 0.97 * demand - 4.0 * f64::from(BYTES), "{} of {demand}", sent[0]);
    }
}
