use super::*;
use crate::random::mix_bits;
use kumade_packet::Ecn;
use kumade_units::Rate;

/// Offers packets of 1000 bytes, one each millisecond of ten flows in turn, to a link that serves one in
/// `service` for 20 s. Flow 0 sends in addition `extra` packets in each turn. Returns the packets that each flow
/// got through in the second half, and the delays there of all flows but 0 in milliseconds.
fn run(service: i64, extra: usize, ecn: Ecn) -> ([usize; 10], Vec<f64>) {
    let config = FairShareConfig { ecn: true, ..FairShareConfig::default() };
    let mut queue = config.new_queue(QueueLimit::Packets(2000), 1);
    let (mut passed, mut delays, mut drops) = ([0; 10], Vec::new(), Vec::new());
    for step in 0..200_000i64 {
        let now = Time::from_nanos(step * 100_000);
        let flow = step / 10 % 10;
        let count = if step % 10 != 0 {
            0
        } else if flow == 0 {
            1 + extra
        } else {
            1
        };
        for _ in 0..count {
            let packet = QueuedPacket { ecn, ..QueuedPacket::new((), 1000, flow as u64, now) };
            let _ = queue.enqueue(packet, &mut drops);
        }
        if step % service == 0
            && let Some(packet) = queue.dequeue(now, &mut drops)
            && step > 100_000
        {
            passed[packet.flow as usize] += 1;
            if packet.flow > 0 {
                delays.push((now - packet.arrival).as_secs_f64() * 1e3);
            }
        }
    }
    (passed, delays)
}

#[test]
fn only_the_greedy_flow_pays_and_nobody_else_waits() {
    // 1900 packets/s are offered and 1250 served: nine flows of 100/s, and what is left for the tenth.
    let (passed, delays) = run(8, 9, Ecn::NotEct);
    assert!(passed[1..].iter().all(|packets| (995..=1005).contains(packets)), "{passed:?}");
    assert!((3450..3550).contains(&passed[0]), "{passed:?}");
    let longest = delays.iter().copied().fold(0.0, f64::max);
    assert!(longest < 2.0, "{longest}");
}

#[test]
fn nobody_pays_on_a_link_with_room() {
    let (passed, _) = run(5, 4, Ecn::NotEct);
    assert!((4980..=5010).contains(&passed[0]), "{passed:?}");
}

#[test]
fn who_ignores_marks_gets_no_more_than_what_others_leave() {
    let (passed, _) = run(8, 20, Ecn::Ect0);
    assert!(passed[1..].iter().all(|packets| (995..=1005).contains(packets)), "{passed:?}");
    assert!((3450..3550).contains(&passed[0]), "{passed:?}");
}

/// A packet of 1500 bytes of each of these flows arrives each 12 us, of which the link serves every second. Returns the
/// packets that each flow got through.
fn flood(queue: &mut FairShare<()>, packets: u64, mut flow: impl FnMut(u64) -> u64) -> Vec<u32> {
    let (mut passed, mut drops) = (vec![0; 20_000], Vec::new());
    for packet in 0..packets {
        let now = Time::from_nanos(packet as i64 * 12_000);
        let _ = queue.enqueue(QueuedPacket::new((), 1500, flow(packet), now), &mut drops);
        if packet % 2 == 0
            && let Some(packet) = queue.dequeue(now, &mut drops)
            && let Some(count) = passed.get_mut(packet.flow as usize)
        {
            *count += 1;
        }
        drops.clear();
    }
    passed
}

/// Where the sets of its table were full, flows once went uncharged.
#[test]
fn thousands_of_flows_that_offer_unequal_rates_get_equal_ones() {
    for flows in [2500, 10_000] {
        let mut queue = FairShareConfig::default().new_queue(QueueLimit::Packets(10_240), 3);
        // Two packets of three are of the first half.
        let draw = |packet: u64| match mix_bits(packet) {
            number if number % 3 < 2 => (number >> 8) % (flows / 2),
            number => flows / 2 + (number >> 8) % (flows / 2),
        };
        let passed = flood(&mut queue, flows * 100, draw);
        let (sum, squares) = passed
            .iter()
            .map(|count| f64::from(*count))
            .fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
        let jain = sum * sum / squares / flows as f64;
        assert!(jain >= 0.95, "{flows} flows: {jain:.3}");
    }
}

/// At the limit, who sends most loses packets; it does not lose its share with them, whatever the length of its packets.
#[test]
fn a_flood_of_short_packets_beyond_the_limit_gets_its_share() {
    let mut queue = FairShareConfig::default().new_queue(QueueLimit::Packets(1000), 1);
    let (mut drops, mut served) = (Vec::new(), [0; 5]);
    for step in 0..300_000i64 {
        // Four long packets of others come with 16 short ones; the link serves 187 bytes in the time of a short one.
        let now = Time::from_nanos(step * 8_000);
        let _ = queue.enqueue(QueuedPacket::new((), 100, 0, now), &mut drops);
        if step % 4 == 0 {
            let _ = queue.enqueue(QueuedPacket::new((), 1500, 1 + step as u64 / 4 % 4, now), &mut drops);
        }
        while served.iter().sum::<i64>() < 187 * step
            && let Some(packet) = queue.dequeue(now, &mut drops)
        {
            served[packet.flow as usize] += i64::from(packet.size);
        }
        drops.clear();
    }
    let share = served.iter().sum::<i64>() / 5;
    assert!(served.iter().all(|bytes| (bytes - share).abs() < share / 10), "{served:?}");
}

/// Each packet of a new flow comes first, as in every discipline that favours sparse flows.
#[test]
fn a_flood_of_ever_new_flows_leaves_half_of_the_link_to_the_others() {
    let mut queue = FairShareConfig::default().new_queue(QueueLimit::Packets(1000), 1);
    let passed = flood(&mut queue, 100_000, |packet| if packet % 3 == 0 { 1 } else { 1 << 32 | packet });
    assert!(passed[1] > 23_000, "{} of 50000", passed[1]);
}

/// On a link that becomes ten times slower, what waits is for a tenth of the rate.
#[test]
fn a_link_that_has_become_slow_drops_what_is_late() {
    let mut queue = FairShareConfig::default().new_queue(QueueLimit::Packets(10_000), 1);
    let (mut drops, mut longest) = (Vec::new(), Span::ZERO);
    for step in 0..40_000i64 {
        // Four flows offer exactly what the link carries, with a burst just before it becomes slow.
        let now = Time::from_nanos(step * 120_000);
        let count = if step == 10_000 { 200 } else { i64::from(step < 10_000 || step % 10 == 0) };
        for packet in 0..count {
            let _ = queue.enqueue(QueuedPacket::new((), 1500, (step / 10 + packet) as u64 % 4, now), &mut drops);
        }
        if step < 10_000 || step % 10 == 0 {
            longest = queue.dequeue(now, &mut drops).map_or(longest, |packet| longest.max(now - packet.arrival));
        }
    }
    assert!(longest < Span::from_millis(60), "{longest}: {} dropped", drops.len());
}

/// What the AQM remembers lies apart from the table, and would have given it five times as long before it pays.
#[test]
fn a_flow_that_takes_the_place_of_another_is_not_taken_for_it() {
    let config = FairShareConfig { flows: 8, ecn: true, ..FairShareConfig::default() };
    let (mut queue, mut drops) = (config.new_queue(QueueLimit::Packets(1000), 1), Vec::new());
    // One flow after the other sends twice as much as is served.
    let first_marks: Vec<i64> = (0..12u64)
        .map(|flow| {
            let begin = Time::ZERO + Span::from_secs(10) * (flow as i64 + 1);
            let mut first = None;
            for millis in 0..600 {
                let now = begin + Span::from_millis(millis);
                let packet = || QueuedPacket { ecn: Ecn::Ect0, ..QueuedPacket::new((), 1000, flow, now) };
                let _ = queue.enqueue(packet(), &mut drops);
                let _ = queue.enqueue(packet(), &mut drops);
                let is_marked = queue.dequeue(now, &mut drops).is_some_and(|packet| packet.marked);
                first = first.or(is_marked.then_some(millis));
            }
            while queue.dequeue(begin + Span::from_millis(600), &mut drops).is_some() {}
            first.expect("it pays")
        })
        .collect();
    assert!(first_marks.iter().all(|millis| (200..250).contains(millis)), "{first_marks:?}");
}

/// Serves a link of this rate from `now` for `length`: flow `bulk` keeps so much queue, and flow `sparse` sends packets of 200
/// bytes each 10 ms in the mean. Returns when the bulk flow was first marked.
fn keep_queue(
    queue: &mut FairShare<()>,
    (now, length): (&mut Time, Span),
    rate: Rate,
    (bulk, kept, sparse): (u64, Span, u64),
    seed: u64,
) -> Option<Span> {
    let (begin, mut drops, mut first_mark) = (*now, Vec::new(), None);
    let packet = |flow, size, now| QueuedPacket { ecn: Ecn::Ect0, ..QueuedPacket::new((), size, flow, now) };
    let (mut waiting, mut draws) = (0, seed << 32);
    let mut next_sparse = *now;
    while *now - begin < length {
        while waiting < rate.bytes_in(kept) {
            let _ = queue.enqueue(packet(bulk, 1500, *now), &mut drops);
            waiting += 1500;
        }
        if next_sparse <= *now {
            draws += 1;
            next_sparse = *now + Span::from_micros((mix_bits(draws) % 20_000) as i64);
            let offered = packet(sparse, 200, *now);
            let _ = match queue.packets() {
                0 => queue.pass_through(offered, &mut drops).map(drop),
                _ => queue.enqueue(offered, &mut drops),
            };
        }
        let Some(left) = queue.dequeue(*now, &mut drops) else {
            *now = next_sparse;
            continue;
        };
        if left.flow == bulk {
            waiting -= 1500;
            first_mark = first_mark.or(left.marked.then_some(*now - begin));
        }
        *now += rate.time_for(left.size.into());
    }
    // What waits leaves.
    while let Some(left) = queue.dequeue(*now, &mut drops) {
        *now += rate.time_for(left.size.into());
    }
    first_mark
}

/// A link that is idle since nobody has anything to send once gave all flows five times the target, for half a minute.
#[test]
fn idle_time_after_a_bulk_transfer_does_not_raise_the_target() {
    for seed in 1..=3 {
        for mbit in [10, 100, 1000] {
            // What is sparse is another flow, or the connection that has sent bulk.
            for sparse in [2, 1] {
                for idle in [0.2, 2.0, 20.0].map(Span::from_secs_f64) {
                    let config = FairShareConfig { ecn: true, ..FairShareConfig::default() };
                    let (mut queue, mut now) = (config.new_queue(QueueLimit::Packets(10_000), seed), Time::ZERO);
                    let (rate, kept) = (Rate::from_mbit(mbit), Span::from_millis(30));
                    let second = Span::from_secs(1);
                    let marked = keep_queue(&mut queue, (&mut now, second * 2), rate, (1, kept, 2), seed);
                    assert!(marked.is_some(), "seed {seed}: the first transfer pays");
                    keep_queue(&mut queue, (&mut now, idle), rate, (1, Span::ZERO, sparse), seed);
                    let scale = queue.queue_state.target_scale;
                    let marked = keep_queue(&mut queue, (&mut now, second * 20), rate, (3, kept, 2), seed);
                    let first = marked.unwrap_or(Span::MAX);
                    let text = format!("seed {seed}, {mbit} Mbit/s, sparse flow {sparse}, {idle} idle");
                    println!("{text}: scale {scale:.2}, first signal after {first}");
                    assert!(first <= Span::from_millis(400), "{text}: {first}");
                }
            }
        }
    }
}

/// What is remembered of the peak once halved in 7 ms with a target of 50 us, and in 13 s at 1 Mbit/s.
#[test]
fn the_peak_rate_is_remembered_for_as_long_at_any_target_and_rate() {
    for (target_micros, mbit) in [(10_000, 100.0), (50, 100.0), (10_000, 1.0), (10_000, 10_000.0)] {
        let config = FairShareConfig { target: Span::from_micros(target_micros), ..FairShareConfig::default() };
        let (mut state, mut now) = (QueueState::new(), Time::ZERO);
        let mut serve_packet = |state: &mut QueueState, mbit: f64| {
            now += Span::from_secs_f64(1500.0 * 8.0 / (mbit * 1e6));
            state.record_departure(1500, false);
            state.update_target_scale(now, config.target, config.window);
            now
        };
        while serve_packet(&mut state, mbit) < Time::ZERO + Span::from_secs(3) {}
        let (peak, slow_from) = (state.peak_rate, state.last_update);
        let mut slow_until = slow_from;
        while state.peak_rate > peak / 2.0 {
            slow_until = serve_packet(&mut state, mbit / 4.0);
        }
        let slow_for = slow_until - slow_from;
        println!("target {target_micros} us, {mbit} Mbit/s: half of the peak after {slow_for}");
        let wanted = Span::from_millis(1000)..=Span::from_millis(2500);
        assert!(wanted.contains(&slow_for), "target {target_micros} us, {mbit} Mbit/s: {slow_for}");
    }
}

#[test]
fn nonsense_is_refused_with_the_reason() {
    let good = FairShareConfig::default();
    for (config, part) in [
        (FairShareConfig { target: Span::ZERO, ..good }, "target is 0"),
        (FairShareConfig { window: Span::from_nanos(-1), ..good }, "window is -1 ns"),
        (FairShareConfig { flows: 0, ..good }, "number of flows is 0"),
    ] {
        let text = config.check().unwrap_err().to_string();
        assert!(text.contains(part), "{text}");
    }
}
