use super::*;

const MS: fn(i64) -> Span = Span::from_millis;

fn packet(ecn: Ecn, arrival: Time) -> QueuedPacket<()> {
    QueuedPacket { ecn, ..QueuedPacket::new((), 1500, 0, arrival) }
}

fn queue(config: DualPi2Config) -> DualPi2<()> {
    config.new_queue(QueueLimit::Packets(100_000), 1)
}

#[test]
fn ect1_and_ce_go_to_the_l4s_queue() {
    let mut queue = queue(DualPi2Config::default());
    for ecn in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce] {
        queue.enqueue(packet(ecn, Time::ZERO), &mut Vec::new()).unwrap();
    }
    assert_eq!((queue.classic.len(), queue.low_latency.len()), (2, 2));
    let order: Vec<_> =
        std::iter::from_fn(|| queue.dequeue(Time::ZERO, &mut Vec::new())).map(|packet| packet.ecn).collect();
    assert_eq!(order, [Ecn::Ect1, Ecn::Ce, Ecn::NotEct, Ecn::Ect0]);
}

#[test]
fn l4s_packets_are_marked_by_a_step_or_ramp_on_their_sojourn() {
    let marked = |config: DualPi2Config, waited: i64| {
        let mut queue = queue(config);
        for _ in 0..101 {
            queue.enqueue(packet(Ecn::Ect1, Time::ZERO), &mut Vec::new()).unwrap();
        }
        let left = std::iter::from_fn(|| queue.dequeue(Time::ZERO + Span::from_micros(waited), &mut Vec::new()));
        left.filter(|packet| packet.marked).count()
    };
    let step = DualPi2Config::default();
    // The first found nobody before it; a recurring event of certainty needs one to begin with.
    assert_eq!((marked(step, 1000), marked(step, 1001)), (0, 99));
    let ramp = DualPi2Config { ramp: Span::from_micros(400), ..step };
    assert_eq!((marked(ramp, 800), marked(ramp, 1000), marked(ramp, 1200)), (0, 49, 99));
}

#[test]
fn classic_packets_are_dropped_or_marked_with_the_square_of_half_what_marks_others() {
    let signals = |ecn: Ecn| {
        let mut queue = queue(DualPi2Config::default());
        queue.controller.force_base_probability(0.2);
        let mut drops = Vec::new();
        for _ in 0..10_010 {
            queue.enqueue(packet(ecn, Time::ZERO), &mut drops).unwrap();
        }
        let left: Vec<_> = (0..10_000).filter_map(|_| queue.dequeue(Time::ZERO, &mut drops)).collect();
        (drops.len(), left.iter().filter(|packet| packet.marked).count())
    };
    let (dropped, marked) = signals(Ecn::NotEct);
    assert!((395..=420).contains(&dropped) && marked == 0, "{dropped}");
    assert!((395..=401).contains(&signals(Ecn::Ect0).1));
    assert_eq!(signals(Ecn::Ect0).0, 0);
    assert!((3990..=4000).contains(&signals(Ecn::Ect1).1));
}

#[test]
fn overload_drops_what_could_be_marked_unless_the_queue_may_overflow() {
    let signals = |config: DualPi2Config, ecn: Ecn| {
        let mut queue = queue(config);
        queue.controller.force_base_probability(if config.drops_on_overload { 0.6 } else { 0.5 });
        let mut drops = Vec::new();
        for _ in 0..1_000 {
            queue.enqueue(packet(ecn, Time::ZERO), &mut drops).unwrap();
        }
        let left: Vec<_> = std::iter::from_fn(|| queue.dequeue(Time::ZERO, &mut drops)).collect();
        (drops.len(), left.iter().filter(|packet| packet.marked).count())
    };
    let config = DualPi2Config::default();
    let (classic, l4s) = (signals(config, Ecn::Ect0), signals(config, Ecn::Ect1));
    assert!((355..=360).contains(&classic.0) && classic.1 == 0, "{classic:?}");
    assert!((355..=360).contains(&l4s.0) && (635..=645).contains(&l4s.1), "{l4s:?}");
    let overflows = DualPi2Config { drops_on_overload: false, ..config };
    assert_eq!(signals(overflows, Ecn::Ect1).0, 0);
}

#[test]
fn senders_that_do_not_react_wait_for_about_the_target_in_either_queue() {
    for ecn in [Ecn::NotEct, Ecn::Ect1] {
        let mut queue = queue(DualPi2Config::default());
        let (mut drops, mut delays, mut due) = (Vec::new(), Vec::new(), 0.0);
        for milli in 1..=120_000 {
            let now = Time::ZERO + MS(milli);
            due += 1.5;
            while due >= 1.0 {
                due -= 1.0;
                let _ = queue.enqueue(packet(ecn, now), &mut drops);
            }
            delays.extend(queue.dequeue(now, &mut drops).map(|packet| now - packet.arrival));
        }
        let last = &delays[60_000..];
        let mean = last.iter().fold(Span::ZERO, |sum, delay| sum + *delay) / last.len() as i64;
        assert!((MS(10)..MS(20)).contains(&mean), "{ecn:?}: {mean}");
    }
}

#[test]
fn both_queues_share_one_limit() {
    let mut queue: DualPi2<()> = DualPi2Config::default().new_queue(QueueLimit::Packets(3), 1);
    let mut drops = Vec::new();
    for ecn in [Ecn::Ect1, Ecn::NotEct, Ecn::Ect1] {
        queue.enqueue(packet(ecn, Time::ZERO), &mut drops).unwrap();
    }
    assert_eq!(queue.enqueue(packet(Ecn::NotEct, Time::ZERO), &mut drops), Err(DropCause::QueueFull));
    assert_eq!(queue.enqueue(packet(Ecn::Ect1, Time::ZERO), &mut drops), Err(DropCause::QueueFull));
    assert_eq!(drops.len(), 2);
}

#[test]
fn nonsense_is_refused_with_the_reason() {
    let good = DualPi2Config::default();
    for (config, part) in [
        (DualPi2Config { target: Span::from_nanos(-1), ..good }, "target is -1 ns"),
        (DualPi2Config { update: Span::ZERO, ..good }, "interval of calculations is 0"),
        (DualPi2Config { alpha: f64::INFINITY, ..good }, "0.16 and 3.2 are usual"),
        (DualPi2Config { coupling_factor: 0, ..good }, "coupling factor is 0"),
        (DualPi2Config { time_shift: Span::from_nanos(-1), ..good }, "twice the target is usual"),
    ] {
        let text = config.check().unwrap_err().to_string();
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(good.check(), Ok(()));
}
