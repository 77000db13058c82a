//! The probe on fluid paths, of which everything is known.

use super::*;
use crate::method::Step;
use kumade_probe_train::{PacketRecord, Train, TrainRecord};
use kumade_units::{Rate, Span, Time};

/// A bucket that fills at `rate`, less what cross traffic takes of it, before an unlimited line.
struct Bucket {
    rate: f64,
    bits: f64,
    level: f64,
    /// Whether what exceeds it is dropped.
    drops: bool,
    queue: f64,
    /// Bits that may wait.
    room: f64,
    now: f64,
}

impl Bucket {
    fn send(&mut self, wait: Span, train: &Train) -> TrainRecord {
        let start = self.now + wait.as_secs_f64() + 0.01;
        let packets = train.packets().map(|planned| {
            let (at, bits) = (start + planned.offset.as_secs_f64(), f64::from(planned.size) * 8.0);
            let tokens = self.rate * (at - self.now);
            self.now = at;
            let served = tokens.min(self.queue);
            self.queue -= served;
            self.level = (self.level + tokens - served).min(self.bits);
            let sent = Time::ZERO + Span::from_secs_f64(at);
            let packet = |delay: Option<f64>| PacketRecord {
                size: planned.size,
                sent: Some(sent),
                submitted: None,
                received: delay.map(|delay| sent + Span::from_secs_f64(0.005 + delay)),
            };
            if self.level >= bits {
                self.level -= bits;
                return packet(Some(0.0));
            }
            if self.drops || self.queue + bits > self.room {
                return packet(None);
            }
            self.queue += bits - self.level;
            self.level = 0.0;
            packet(Some(self.queue / self.rate))
        });
        TrainRecord { packets: packets.collect() }
    }

    fn with_bucket(rate: f64, bytes: f64, drops: bool) -> Self {
        Bucket { rate, bits: bytes * 8.0, level: bytes * 8.0, drops, queue: 0.0, room: f64::INFINITY, now: 0.0 }
    }
}

fn config(mbit: u64) -> PolicingConfig {
    PolicingConfig {
        rate: Rate::from_mbit(mbit),
        faster_rate: None,
        max_cross_rate: Rate::ZERO,
        expected_cross_rate: Rate::ZERO,
        max_packet: 1500,
        max_packets: 10_000,
        connections: None,
        is_bucket_hinted: false,
        is_lossy: false,
        arrives_one_by_one: true,
        min_trial_bytes: 0,
        budget_bytes: 16_000_000,
        budget_time: Span::from_secs(60),
        spent_bytes: 0,
        min_delay: Some(Span::from_millis(5)),
        idle_delay_variation: Span::ZERO,
        seed: 2,
    }
}

fn probe_path(mbit: u64, path: impl FnMut(Span, &Train) -> TrainRecord) -> PolicingResult {
    found_of(config(mbit), path)
}

fn found_of(config: PolicingConfig, mut path: impl FnMut(Span, &Train) -> TrainRecord) -> PolicingResult {
    let mut probe = PolicingProbe::new(config);
    let mut now = Time::ZERO;
    loop {
        match probe.next(now) {
            Step::Send { wait, train } => {
                train.check(1500).expect("a train that may be sent");
                now = now + wait + train.duration() + Span::from_millis(10);
                probe.record(&path(wait, &train));
            }
            Step::Done(found) => return found,
        }
    }
}

#[test]
fn a_policer_and_a_shaper_are_told_with_their_rates_and_bursts() {
    for (drops, policing) in [(true, ExcessAction::Drops), (false, ExcessAction::Delays)] {
        for bytes in [30e3, 300e3] {
            let mut path = Bucket::with_bucket(20e6, bytes, drops);
            let PolicingResult::Limited(limiter) = probe_path(200, |wait, train| path.send(wait, train)) else {
                panic!("a bucket of {bytes} bytes was overlooked");
            };
            assert_eq!(limiter.excess_action, Some(policing), "{limiter:?}");
            let available = limiter.available.unwrap_or_else(|| panic!("no value: {limiter:?}"));
            assert_eq!(available.covers(Rate::from_mbit(20)), Some(true), "{limiter:?}");
            let burst = limiter.burst_bytes.unwrap();
            assert!((burst.value as f64 / bytes - 1.0).abs() < 0.25, "{burst:?}");
        }
    }
}

/// Of 40 Mbit/s before a link of 50: all rates at which trains were sent to tell the policer's were below its own, and passed.
#[test]
fn a_policer_nearly_as_fast_as_what_was_tried_is_told() {
    for connections in [None, Some(120)] {
        for (policed, tried) in [(40e6, 48), (40e6, 60), (20e6, 23)] {
            let mut path = Bucket::with_bucket(policed, 20e3, true);
            let config = PolicingConfig { connections, max_packets: 2400, ..config(tried) };
            let limiter = limiter(found_of(config, |wait, train| path.send(wait, train)));
            assert_eq!(limiter.excess_action, Some(ExcessAction::Drops), "{limiter:?}");
            let available = limiter.available.unwrap_or_else(|| panic!("no value: {limiter:?}"));
            assert_eq!(available.covers(Rate::from_f64(policed)), Some(true), "{limiter:?}");
        }
    }
}

fn limiter(found: PolicingResult) -> PolicerOrShaper {
    match found {
        PolicingResult::Limited(limiter) => limiter,
        other => panic!("the bucket was overlooked: {other:?}"),
    }
}

/// A train of 1.5 MB passed, and the line's rate was taken for what is available.
#[test]
fn a_bucket_of_a_second_is_used_up_in_one_train_or_in_two() {
    for max_packets in [10_000, 1200] {
        let mut path = Bucket::with_bucket(20e6, 2.6e6, true);
        let config = PolicingConfig { max_packets, ..config(190) };
        let limiter = limiter(found_of(config, |wait, train| path.send(wait, train)));
        let available = limiter.available.unwrap_or_else(|| panic!("no value: {limiter:?}"));
        assert_eq!(available.covers(Rate::from_mbit(20)), Some(true), "{limiter:?}");
        let burst = limiter.burst_bytes.unwrap();
        assert!((burst.value as f64 / 2.6e6 - 1.0).abs() < 0.1, "{burst:?}");
    }
}

/// Megabytes, as access lines let pass at once; how much of it was left before is not known.
#[test]
fn a_large_bucket_that_other_trains_hint_at_is_used_up() {
    let mut path = Bucket::with_bucket(100e6, 7e6, false);
    let config = PolicingConfig { is_bucket_hinted: true, ..config(500) };
    let limiter = limiter(found_of(config, |wait, train| path.send(wait, train)));
    assert_eq!(limiter.available.and_then(|found| found.covers(Rate::from_mbit(100))), Some(true), "{limiter:?}");
    assert_eq!(limiter.burst_bytes, None);
}

/// As TCP shows it: what follows a loss on the same connection is not seen to arrive.
fn hide_behind_losses(connections: usize, mut record: TrainRecord) -> TrainRecord {
    let mut has_lost = vec![false; connections];
    for (index, packet) in record.packets.iter_mut().enumerate() {
        packet.received = packet.received.filter(|_| !has_lost[index % connections]);
        has_lost[index % connections] |= packet.received.is_none();
    }
    record
}

/// What arrived behind losses was missing, and 10 Mbit/s were said to last at most where 20 do; then, the rate of the line.
#[test]
fn over_connections_a_policer_is_told_by_what_is_not_behind_losses() {
    let found_over = |rate: f64, bytes: f64, budget_bytes| {
        let mut path = Bucket::with_bucket(rate, bytes, true);
        let config = PolicingConfig { connections: Some(120), max_packets: 1200, budget_bytes, ..config(200) };
        limiter(found_of(config, |wait, train| hide_behind_losses(120, path.send(wait, train))))
    };
    for (rate, bytes) in [(20e6, 30e3), (20e6, 300e3), (80e6, 100e3), (5e6, 60e3)] {
        let limiter = found_over(rate, bytes, 6_000_000);
        assert_eq!(limiter.excess_action, Some(ExcessAction::Drops), "{limiter:?}");
        let available = limiter.available.unwrap_or_else(|| panic!("no value for {rate}: {limiter:?}"));
        assert_eq!(available.covers(Rate::from_f64(rate)), Some(true), "{limiter:?}");
        // A budget that leaves nothing for later trains.
        let limiter = found_over(rate, bytes, 1_600_000);
        let delivered = limiter.delivered_rate.as_f64();
        assert!(limiter.available.is_none() && (rate..2.0 * rate + 10e6).contains(&delivered), "{rate}: {limiter:?}");
    }
}

/// The longer trains overflowed the queue, and what followed a loss was not seen: of every fourth shaper, nothing was told, and over UDP the
/// interval spanned half the value.
#[test]
fn a_shaper_with_a_short_queue_is_told_by_trains_that_do_not_overflow_it() {
    for connections in [None, Some(120)] {
        for (rate, bytes, room) in [(20e6, 300e3, 120e3), (6e6, 100e3, 60e3), (100e6, 1e6, 500e3)] {
            let mut path = Bucket { room: room * 8.0, ..Bucket::with_bucket(rate, bytes, false) };
            let config = PolicingConfig { connections, max_packets: 1200, ..config(200) };
            let limiter = limiter(found_of(config, |wait, train| {
                let record = path.send(wait, train);
                connections.map_or(record.clone(), |connections| hide_behind_losses(connections as usize, record))
            }));
            let available = limiter.available.unwrap_or_else(|| panic!("no value for {rate}: {limiter:?}"));
            assert_eq!(available.covers(Rate::from_f64(rate)), Some(true), "{limiter:?}");
            assert!((available.high.as_f64() - available.low.as_f64()) < 0.1 * rate, "{rate}: {limiter:?}");
        }
    }
}

#[test]
fn what_passes_lasts() {
    let mut path = Bucket::with_bucket(220e6, 3000.0, true);
    let rate = Rate::from_mbit(200);
    let lasts = PolicingResult::Sustainable { bytes: 3_750_000, rate, max_growth: 0.0, waiting_part: None };
    assert_eq!(probe_path(200, |wait, train| path.send(wait, train)), lasts);
}

/// A link of which so much is left, in bit/s, at whose queue packets wait the shorter the faster it is; cross traffic varies by `noise`
/// seconds from packet to packet, at random.
struct Tight {
    path: Bucket,
    part: f64,
    noise: f64,
    random: u64,
}

impl Tight {
    fn with_bucket(available: f64, link: f64, noise: f64, seed: u64) -> Self {
        Tight { path: Bucket::with_bucket(available, 0.0, false), part: available / link, noise, random: seed }
    }

    fn send(&mut self, wait: Span, train: &Train) -> TrainRecord {
        let mut record = self.path.send(wait, train);
        let least = Span::from_millis(5);
        for packet in &mut record.packets {
            let noise = Span::from_secs_f64(self.noise * crate::stats::random(&mut self.random));
            let waited = |sent: Time, at: Time| Span::from_secs_f64((at - sent - least).as_secs_f64() * self.part);
            packet.received =
                packet.sent.zip(packet.received).map(|(sent, at)| sent + least + waited(sent, at) + noise);
        }
        record
    }
}

/// A tight link that is ten times as fast as the narrow one: hardly less arrives than is sent, but the delay grows.
#[test]
fn where_a_queue_grows_slowly_slower_trains_tell_what_is_available() {
    for seed in 1..=20 {
        let mut path = Tight::with_bucket(20e6, 200e6, 100e-6, seed);
        let found = probe_path(30, |wait, train| path.send(wait, train));
        let PolicingResult::Overloads { rate, available: Some(available) } = found else { panic!("{seed}: {found:?}") };
        assert_eq!(
            (rate, available.covers(Rate::from_mbit(20))),
            (Rate::from_mbit(30), Some(true)),
            "{seed}: {available:?}"
        );
        assert!(available.high.as_f64() - available.low.as_f64() < 4e6, "{seed}: {available:?}");
    }
}

/// Where packets catch up with others, their delays do not tell how a queue grows: on Wi-Fi, values were wrong.
#[test]
fn no_slower_trains_are_sent_where_packets_catch_up() {
    let mut path = Tight::with_bucket(20e6, 200e6, 0.0, 1);
    let config = PolicingConfig { arrives_one_by_one: false, ..config(30) };
    let overloads = PolicingResult::Overloads { rate: Rate::from_mbit(30), available: None };
    assert_eq!(found_of(config, |wait, train| path.send(wait, train)), overloads);
}

/// What little is left of a link may be what TCP connections give up to the trains.
#[test]
fn little_is_not_told_from_what_others_give_up() {
    let mut path = Tight::with_bucket(20e6, 200e6, 0.0, 1);
    let config = PolicingConfig { max_cross_rate: Rate::from_mbit(70), ..config(30) };
    let overloads = PolicingResult::Overloads { rate: Rate::from_mbit(30), available: None };
    assert_eq!(found_of(config, |wait, train| path.send(wait, train)), overloads);
}

fn in_series(mut near: Tight, mut far: Tight) -> impl FnMut(Span, &Train) -> TrainRecord {
    move |wait, train| {
        let mut record = near.send(wait, train);
        let others = far.send(wait, train).packets;
        for (packet, other) in record.packets.iter_mut().zip(others) {
            let waited = other.received.zip(other.sent).map(|(at, sent)| at - sent - Span::from_millis(5));
            packet.received = packet.received.zip(waited).map(|(at, waited)| at + waited);
        }
        record
    }
}

/// From 44 Mbit/s on, both queues grow, and no train was between that and 14: the value was 43.5 with an interval of a percent where 35 were
/// available.
#[test]
fn the_last_one_is_a_little_slower_than_what_the_others_show() {
    for seed in 1..=20 {
        let both = in_series(Tight::with_bucket(35e6, 482e6, 2e-5, seed), Tight::with_bucket(44e6, 180e6, 0.0, 1));
        let PolicingResult::Overloads { available, .. } = found_of(PolicingConfig { seed, ..config(52) }, both) else {
            panic!("{seed}: no queue grew");
        };
        let is_wrong = available.is_some_and(|found| found.low.as_f64() > 1.05 * 35e6);
        assert!(!is_wrong, "{seed}: {available:?}");
    }
}

/// From 25 Mbit/s on, another queue grows as well: a line through all trains had 23 with an interval of a third of a percent.
#[test]
fn trains_that_no_line_fits_tell_nothing() {
    let both = in_series(Tight::with_bucket(20e6, 200e6, 0.0, 1), Tight::with_bucket(25e6, 50e6, 0.0, 1));
    assert_eq!(limiter(probe_path(30, both)).available, None);
}

#[test]
fn a_queue_that_never_empties_tells_that_others_make_room() {
    let mut path = Bucket::with_bucket(220e6, 3000.0, true);
    let waiting = |wait, train: &Train| {
        let mut record = path.send(wait, train);
        record.packets.iter_mut().for_each(|p| p.received = p.received.map(|at| at + Span::from_millis(8)));
        record
    };
    assert_eq!(probe_path(200, waiting), PolicingResult::Overloads { rate: Rate::from_mbit(200), available: None });
}

/// Beside busy loops, the last packets of a train left all at once: what was left of an idle link was said to be a token bucket's.
#[test]
fn a_sender_that_makes_up_for_having_been_held_up_is_no_token_bucket() {
    let mut path = Bucket::with_bucket(220e6, 3000.0, false);
    let held_up = |wait: Span, train: &Train| {
        let mut offsets: Vec<Span> = train.packets().map(|packet| packet.offset).collect();
        let (late, last) = (offsets.len() - 16, *offsets.last().unwrap() + Span::from_millis(3));
        offsets[late..].iter_mut().zip(0..).for_each(|(offset, number)| *offset = last + Span::from_micros(3 * number));
        let start = path.now + wait.as_secs_f64() + 0.01;
        let mut free = 0.0f64;
        let packets = train.packets().zip(offsets).map(|(planned, offset)| {
            let at = start + offset.as_secs_f64();
            free = free.max(at) + f64::from(planned.size) * 8.0 / path.rate;
            path.now = at;
            let [sent, received] = [at, free + 0.005].map(|at| Time::ZERO + Span::from_secs_f64(at));
            PacketRecord { size: planned.size, sent: Some(sent), submitted: None, received: Some(received) }
        });
        TrainRecord { packets: packets.collect() }
    };
    assert!(matches!(probe_path(200, held_up), PolicingResult::Sustainable { .. }));
}

#[test]
fn random_loss_is_no_policer() {
    let mut path = Bucket::with_bucket(1e9, 30e3, true);
    let mut number = 0u32;
    let lossy = |wait, train: &Train| {
        let mut record = path.send(wait, train);
        for packet in &mut record.packets {
            number += 1;
            // Every fifth, at any rate.
            packet.received = packet.received.filter(|_| !number.is_multiple_of(5));
        }
        record
    };
    assert!(matches!(probe_path(200, lossy), PolicingResult::Sustainable { .. }));
}

#[test]
fn what_nothing_comes_back_of_is_not_judged() {
    let lost = |_, train: &Train| TrainRecord {
        packets: train
            .packets()
            .map(|p| PacketRecord { size: p.size, sent: None, submitted: None, received: None })
            .collect(),
    };
    assert!(matches!(probe_path(200, lost), PolicingResult::NotTried(_)));
}

/// Behind a bucket of three packets, whose queue grew first and then overflowed, hardly anything seemed lost.
#[test]
fn where_packets_may_be_lost_at_any_rate_it_is_told_what_passes() {
    let passed = |path: &mut dyn FnMut(Span, &Train) -> TrainRecord| match found_of(
        PolicingConfig { is_lossy: true, ..config(30) },
        path,
    ) {
        PolicingResult::PassesPartly { rate, arrival_rate: arrived, .. } => arrived.as_f64() / rate.as_f64(),
        other => panic!("{other:?}"),
    };
    let mut policer = Bucket::with_bucket(20e6, 30e3, true);
    assert!((passed(&mut |wait, train| policer.send(wait, train)) - 20.0 / 30.0).abs() < 0.02);
    let mut shaper = Bucket { room: 1.6e6, ..Bucket::with_bucket(20e6, 3e3, false) };
    assert!(passed(&mut |wait, train| shaper.send(wait, train)) < 0.75);
    let mut link = Bucket::with_bucket(40e6, 3e3, false);
    let one_of_ten = |mut record: TrainRecord| {
        record.packets.iter_mut().step_by(10).for_each(|packet| packet.received = None);
        record
    };
    assert!((passed(&mut |wait, train| one_of_ten(link.send(wait, train))) - 0.9).abs() < 0.02);
}

/// Delays of idle packets vary by 6 ms on some paths, and those of a train, which do not overtake each other, are as long as the longest.
#[test]
fn where_delays_vary_without_queues_packets_that_wait_as_long_are_no_queue() {
    let found = |idle_variation: i64| {
        let idle_variation = Span::from_millis(idle_variation);
        let mut link = Bucket::with_bucket(40e6, 3e3, false);
        found_of(
            PolicingConfig { idle_delay_variation: idle_variation, arrives_one_by_one: false, ..config(30) },
            |wait, train| {
                let mut record = link.send(wait, train);
                for packet in &mut record.packets {
                    packet.received = packet.received.map(|at| at + Span::from_millis(7));
                }
                record
            },
        )
    };
    assert!(matches!(found(0), PolicingResult::Overloads { .. }));
    assert!(matches!(found(6), PolicingResult::Sustainable { .. }));
}
