use super::sample::TrainPart;
use super::*;
use crate::stats::random;
use kumade_probe_train::{PacketRecord, Train};

const PACKET: u32 = 1500;
const BITS: f64 = PACKET as f64 * 8.0;

/// A FIFO link that serves up to so many packets at a turn, and whose rate changes every 50 ms, with cross traffic of packets at random
/// times (Poisson).
struct Link {
    /// In bit/s, one after the other.
    rates: Vec<f64>,
    packets: usize,
    cross: f64,
    random: u64,
    now: f64,
    free: f64,
    next_cross: f64,
    cross_waiting: usize,
}

const STEP: f64 = 0.05;
const DELAY: f64 = 0.004;

impl Link {
    fn new(mean: f64, variation: f64, packets: usize, cross: f64, seed: u64) -> Self {
        let mut random_state = seed;
        let mut place: f64 = 0.0;
        let mut step = || {
            place = (place + random(&mut random_state) - 0.5).clamp(-1.0, 1.0);
            mean * (1.0 + variation * place)
        };
        let rates = (0..400).map(|_| step()).collect();
        Link { rates, packets, cross, random: seed + 1, now: 0.0, free: 0.0, next_cross: 0.0, cross_waiting: 0 }
    }

    fn rate(&self, at: f64) -> f64 {
        self.rates[((at / STEP) as usize).min(self.rates.len() - 1)]
    }

    /// Between two times in seconds, of what it carries less the cross traffic.
    fn available(&self, from: f64, to: f64) -> f64 {
        let points = 10_000;
        let at = |point: u32| from + (to - from) * f64::from(point) / f64::from(points);
        (0..points).map(|point| self.rate(at(point))).sum::<f64>() / f64::from(points) - self.cross
    }

    /// Arrival times of packets that are sent then; of the queue, no packet is lost.
    fn carry(&mut self, sent: &[f64]) -> Vec<f64> {
        let mut arrivals = Vec::new();
        // What waits, in order: own packets by their place, or cross traffic.
        let mut queue: Vec<bool> = vec![false; std::mem::take(&mut self.cross_waiting)];
        let mut place = 0;
        while arrivals.len() < sent.len() {
            loop {
                let next_own = sent.get(place).copied().filter(|at| *at <= self.free);
                let is_cross_first = self.cross > 0.0 && self.next_cross <= next_own.unwrap_or(self.free);
                match (is_cross_first, next_own) {
                    (true, _) => {
                        self.next_cross -= (1.0 - random(&mut self.random)).ln() * BITS / self.cross;
                        queue.push(false);
                    }
                    (false, Some(_)) => {
                        queue.push(true);
                        place += 1;
                    }
                    (false, None) => break,
                }
            }
            if queue.is_empty() {
                let own = sent.get(place).copied().unwrap_or(f64::INFINITY);
                self.free = if self.cross > 0.0 { own.min(self.next_cross) } else { own };
                continue;
            }
            let turn: Vec<bool> = queue.drain(..queue.len().min(self.packets)).collect();
            self.free += turn.len() as f64 * BITS / self.rate(self.free);
            arrivals.extend(turn.iter().filter(|own| **own).map(|_| self.free + DELAY));
        }
        self.cross_waiting = queue.len();
        self.now = self.free + DELAY;
        arrivals
    }

    fn send(&mut self, wait: Span, train: &Train) -> TrainRecord {
        let start = self.now + wait.as_secs_f64();
        let sent: Vec<f64> = train.packets().map(|packet| start + packet.offset.as_secs_f64()).collect();
        let time = |seconds: f64| Some(Time::ZERO + Span::from_secs_f64(seconds));
        let arrivals = self.carry(&sent);
        let packet = |(sent, came): (&f64, f64)| PacketRecord {
            size: PACKET,
            sent: time(*sent),
            submitted: None,
            received: time(came),
        };
        TrainRecord { packets: sent.iter().zip(arrivals).map(packet).collect() }
    }
}

/// The result, and what was true meanwhile.
fn measure(link: &mut Link, rate: f64, seed: u64) -> (Option<VaryingLink>, f64) {
    let mut trains = VaryingLinkProbe::new(VaryingLinkConfig {
        rate: Rate::from_f64(rate),
        period: Span::from_millis(1),
        max_packet_bytes: PACKET,
        max_packets: 5000,
        budget_bytes: 20_000_000,
        budget_time: Span::from_secs(8),
        seed,
    });
    loop {
        match trains.next(Time::ZERO + Span::from_secs_f64(link.now)) {
            Step::Send { wait, train } => {
                let record = link.send(wait, &train);
                trains.record(&record);
            }
            Step::Done(found) => return (found, link.available(0.0, link.now)),
        }
    }
}

#[test]
fn intervals_contain_what_links_leave_whose_rate_varies() {
    let mut covered = 0;
    let mut values = 0;
    for seed in 0..60u64 {
        let mut link = Link::new(100e6, 0.5, 5 + 3 * (seed as usize % 10), 60e6 * (seed % 3) as f64 / 2.0, seed * 77);
        let (found, truth) = measure(&mut link, 40e6, seed);
        let Some(VaryingLink { available, .. }) = found else { continue };
        values += 1;
        covered += u32::from((available.low.as_f64()..=available.high.as_f64()).contains(&truth));
        assert!((available.value.as_f64() - truth).abs() < 0.3 * 100e6, "{seed}: {available:?}, not {truth}");
    }
    assert!(values >= 55, "{values}");
    assert!(covered as f64 >= 0.9 * f64::from(values), "{covered} of {values}");
}

#[test]
fn a_link_that_does_not_vary_is_measured_closely() {
    for (cross, packets) in [(0.0, 1), (30e6, 12), (60e6, 20)] {
        let mut link = Link::new(100e6, 0.0, packets, cross, 5);
        let (found, truth) = measure(&mut link, 30e6, 1);
        let VaryingLink { available, spread, trains, .. } = found.unwrap();
        assert!((available.value.as_f64() - truth).abs() < 3e6, "{available:?}, not {truth}");
        assert!(available.low.as_f64() <= truth && truth <= available.high.as_f64(), "{available:?}, not {truth}");
        assert!(spread.as_f64() < 20e6 && trains >= 8, "{spread}, {trains}");
    }
}

#[test]
fn nothing_is_found_where_all_is_lost_or_no_queue_grows() {
    let config = VaryingLinkConfig {
        rate: Rate::from_mbit(40),
        period: Span::from_millis(1),
        max_packet_bytes: PACKET,
        max_packets: 5000,
        budget_bytes: 20_000_000,
        budget_time: Span::from_secs(8),
        seed: 3,
    };
    for delay in [None, Some(Span::from_millis(5))] {
        let mut trains = VaryingLinkProbe::new(config);
        let mut now = Time::ZERO;
        let mut sent = 0;
        while let Step::Send { wait, train } = trains.next(now) {
            let start = now + wait;
            let packet = |planned: kumade_probe_train::PlannedPacket| PacketRecord {
                size: planned.size,
                sent: Some(start + planned.offset),
                submitted: None,
                received: delay.map(|delay| start + planned.offset + delay),
            };
            trains.record(&TrainRecord { packets: train.packets().map(packet).collect() });
            now = start + train.duration();
            sent += 1;
        }
        assert_eq!(trains.next(now), Step::Done(None));
        assert!((2..=MAX_TRAINS_BEFORE_SAMPLE + 1).contains(&sent), "{sent}");
    }
}

/// Of a link of 70 Mbit/s and so much cross traffic in the halves of the slow part, in Mbit/s.
fn reading(cross: [f64; 2], chance: f64) -> VaryingTrainSample {
    let part = |cross: f64, ratio: f64| TrainPart {
        bits: (70.0 + chance - cross * ratio) * 1e6,
        sending_seconds: ratio,
        arrival_seconds: 1.0,
    };
    let [first, second] = cross.map(|cross| part(cross, 1.1));
    let slow = TrainPart { bits: first.bits + second.bits, sending_seconds: 2.2, arrival_seconds: 2.0 };
    let fast = part(cross[0], 0.25);
    let whole = TrainPart { bits: fast.bits + slow.bits, sending_seconds: 2.45, arrival_seconds: 3.0 };
    VaryingTrainSample {
        whole_train: whole,
        parts: Some((fast, slow)),
        halves: Some((first, second)),
        period_seconds: 1e-3,
    }
}

/// A TCP connection that took 37 Mbit/s took the less the longer the queue was: 42 Mbit/s were said to be available of 70, instead of 33.
#[test]
fn cross_traffic_that_gives_way_shows_at_the_end_of_trains() {
    let link = |cross: [f64; 2]| {
        let readings: Vec<WeightedSample> =
            (0..24).map(|number| (0.1, reading(cross, f64::from(number % 5) - 2.0))).collect();
        VaryingLink::from_samples(&readings, false, 1).unwrap()
    };
    assert!(link([37.0, 22.0]).cross_traffic_yields);
    let steady = link([37.0, 37.0]);
    assert!(!steady.cross_traffic_yields && (steady.available.value.as_f64() / 33e6 - 1.0).abs() < 0.01, "{steady:?}");
    assert!(!link([35.0, 39.0]).cross_traffic_yields);
}
