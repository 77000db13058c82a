//! What a link leaves that serves packets in turns, and whose rate varies: a radio link, or one before a receiver that collects packets.
//!
//! Each train spans many turns. Its fast part fills a queue, and its slow one, sent at about the rate that is available, keeps it from
//! being empty for long enough. What a FIFO link carries while it is never idle is what arrives: let a part of a train, of b bits, take
//! T seconds to be sent and S to arrive, beside cross traffic of the rate x. Then the link carried
//!
//! ```text
//! C = (b + x · T) / S,   which leaves   C − x = b / S − x · (1 − T / S)
//! ```
//!
//! Where the queue is as long at the end of the train as at its beginning, T = S, and x does not matter. Else it shows in how the two
//! parts of each train differ: C changes from train to train, but little within one (TOPP compares rates in the same way on links that do
//! not vary: Melander, Björkman, Gunningberg, GLOBECOM 2000). How much C varies shows in the interval.

mod reading;
mod result;

pub use result::Varying;

use crate::method::Step;
use crate::stats::{mean, random};
use crate::sustained::reading as passages;
use reading::{Reading, Unread};
use result::Fit;
use train::{Segment, Train, TrainRecord};
use units::{Rate, Span, Time};

/// What is known before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LongTrainsConfig {
    /// About what the link carries; where that is not known, something less.
    pub rate: Rate,
    /// From one turn to the next.
    pub turn: Span,
    /// The largest packet that the transport carries whole, in bytes.
    pub max_packet: u32,
    /// The longest train that it carries, in packets.
    pub max_packets: u32,
    /// IP bytes to send at most.
    pub budget_bytes: u64,
    /// How long that may take.
    pub budget_time: Span,
    /// Of random numbers.
    pub seed: u64,
}

/// Measures what such a link leaves. The loop is that of a [`Method`](crate::Method): see the crate's contract.
#[derive(Debug)]
pub struct LongTrains {
    config: LongTrainsConfig,
    readings: Vec<(Time, Reading)>,
    unread: u32,
    /// Packets of the fast part of the train on its way.
    fast_packets: usize,
    /// Of the fast part of the next train, in bit/s.
    fast_rate: f64,
    slow_part: f64,
    preload: f64,
    /// How long the next train is to be, as a part of what is planned.
    shrink: f64,
    sent: u32,
    bytes: u64,
    started: Option<Time>,
    /// How long the last train was, and how long its last packets waited, in seconds.
    last: (f64, f64),
    random: u64,
    pub trace: bool,
}

impl LongTrains {
    /// Starts with no train sent.
    pub fn new(config: LongTrainsConfig) -> Self {
        LongTrains {
            config,
            readings: Vec::new(),
            unread: 0,
            fast_packets: 0,
            fast_rate: config.rate.as_f64() * tune("FAST", 4.0),
            slow_part: 1.0,
            preload: 1.0,
            shrink: 1.0,
            sent: 0,
            bytes: 0,
            started: None,
            last: (0.0, 0.0),
            random: config.seed,
            trace: false,
        }
    }

    /// What to do now. The result is what was available on average; none where trains do not tell.
    pub fn next(&mut self, now: Time) -> Step<Option<Varying>> {
        let started = *self.started.get_or_insert(now);
        let (train, seconds) = self.train();
        let drained = self.last.1 * self.fit().map_or(3.0, |fit| (fit.carried / fit.available.max(0.1 * fit.carried)).clamp(1.0, 10.0));
        let pause = (tune("SPACING", 0.08) - self.last.0).max(tune("PAUSE", 0.5) * self.last.0);
        let wait = drained.max(pause) * (1.0 + 0.2 * random(&mut self.random));
        let wait = Span::from_secs_f64(if self.sent == 0 { 0.0 } else { wait.min(2.0) });
        let is_within = self.bytes + train.bytes() <= self.budget()
            && now - started + wait + train.duration() <= self.config.budget_time
            && train.check(self.config.max_packet).is_ok();
        if !is_within || self.readings.len() >= tune("TRAINS", 24.0) as usize || self.sent >= 2 * tune("TRAINS", 24.0) as u32 {
            return Step::Done(self.found());
        }
        self.last = (seconds, 0.0);
        self.bytes += train.bytes();
        self.sent += 1;
        Step::Send { wait, train }
    }

    /// What became of the train that [`next`](Self::next) last asked for.
    pub fn record(&mut self, record: &TrainRecord) {
        let passages = passages::passages(record);
        self.last.1 = reading::left_waiting(&passages);
        let lost = passages.iter().filter(|p| p.came.is_none()).count();
        let read = Reading::of(&passages, self.fast_packets);
        if self.trace { println!("   fast {:.1}M x{} shrink {:.2} len {} lost {lost} left {:.2}ms {:?} {:?}", self.fast_rate/1e6, self.fast_packets, self.shrink, passages.len(), self.last.1*1e3, read.map(|r| (r.whole.rate()/1e6, r.whole.ratio(), r.whole.arrived*1e3, r.parts.map(|(f,s)| (f.rate()/1e6, f.ratio(), s.rate()/1e6, s.ratio())))), self.fit().map(|f| (f.carried/1e6, f.cross/1e6, f.available/1e6))); }
        match read {
            Ok(reading) => {
                let sent = record.packets.iter().find_map(|packet| packet.sent);
                self.readings.push((sent.unwrap_or(Time::ZERO), reading));
                if lost as f64 > 2.0 + 0.01 * passages.len() as f64 { self.shrink *= 0.8; }
                self.slow_part = 1.0;
                if reading.parts.is_none() { self.preload = (self.preload * 1.4).min(3.0); }
                let fast: Vec<f64> = self.readings.iter().filter_map(|(_, r)| r.parts.map(|p| p.0.rate())).collect();
                if fast.is_empty() { self.fast_rate = self.fast_rate.max(tune("FAST", 4.0) * reading.whole.rate()); } else {
                self.fast_rate = tune("FAST", 4.0) * crate::stats::median(&fast).unwrap_or(0.0); }
            }
            Err(Unread::Lost) => { self.shrink *= 0.6; self.unread += 1; }
            Err(Unread::Empty) => {
                self.unread += u32::from(!self.readings.is_empty());
                self.fast_rate *= 1.5;
                self.slow_part *= 1.3;
            }
        }
    }

    fn fit(&self) -> Option<Fit> {
        Fit::of(&self.weighted()).filter(|_| self.readings.iter().filter(|(_, r)| r.parts.is_some()).count() >= 3)
    }

    /// The readings, with the time that each stands for.
    fn weighted(&self) -> Vec<(f64, Reading)> {
        let times: Vec<Time> = self.readings.iter().map(|(time, _)| *time).collect();
        let weight = |place: usize| {
            let (before, after) = (place.saturating_sub(1), (place + 1).min(times.len() - 1));
            (times[after] - times[before]).as_secs_f64() / (after - before).max(1) as f64
        };
        let weights: Vec<f64> = (0..times.len()).map(weight).collect();
        weights.into_iter().map(|w| if w > 0.0 && tune("WEIGHT", 1.0) > 0.0 { w } else { 1.0 }).zip(self.readings.iter().map(|r| r.1)).collect()
    }

    fn budget(&self) -> u64 {
        let carried = self.fit().map_or(self.fast_rate / tune("FAST", 4.0), |fit| fit.carried);
        ((tune("BUDGET_S", 0.4) * carried / 8.0) as u64).max(tune("BUDGET_B", 4e6) as u64).min(self.config.budget_bytes)
    }

    /// The next train, and how long it is.
    fn train(&mut self) -> (Train, f64) {
        let LongTrainsConfig { turn, max_packet, max_packets, .. } = self.config;
        let bits = f64::from(max_packet) * 8.0;
        let fit = self.fit();
        let arriving = self.fast_rate / tune("FAST", 4.0);
        let rates: Vec<f64> = self.readings.iter().map(|(_, r)| r.whole.rate()).collect();
        let found = if rates.is_empty() { 0.7 * arriving } else { mean(&rates) };
        let available = fit.map_or(found, |fit| fit.available).max(0.0);
        let turns: Vec<f64> = self.readings.iter().map(|(_, r)| r.turn).collect();
        let turn = crate::stats::median(&turns).filter(|_| tune("OWNTURN", 1.0) > 0.0).unwrap_or(turn.as_secs_f64());
        let carried = fit.map_or(arriving, |fit| fit.carried);
        let slow_rate = (tune("SLOW", 0.85) * available * self.slow_part).max(tune("MINSLOW", 0.1) * carried);
        let seconds = (tune("TURNS", 20.0) * turn).max(tune("PACKETS", 60.0) * bits / slow_rate).max(tune("MINSEC", 0.02)).min(tune("MAXSEC", 0.5));
        let most = self.budget() as f64 * 8.0 / tune("MINTRAINS", 10.0) / (slow_rate + 0.4 * arriving);
        let seconds = seconds.min(most.max(6.0 * turn)) * self.shrink;
        let delay = (tune("PRE", 0.4) * seconds * self.preload).min(tune("QUEUE", 200e3) * self.shrink * 8.0 / carried);
        let fast_seconds = delay / (tune("FAST", 4.0) - 1.0);
        let segment = |seconds: f64, rate: f64, least: f64| Segment {
            count: (seconds * rate / bits).max(least) as u32,
            interval: Span::from_secs_f64(bits / rate),
            first_size: max_packet,
            size_step: 0,
        };
        let mut fast = segment(fast_seconds, self.fast_rate, 20.0);
        let mut slow = segment(seconds, slow_rate, 20.0);
        let max = max_packets.min(Train::MAX_PACKETS);
        fast.count = fast.count.min(max / 2);
        slow.count = slow.count.min(max - fast.count);
        self.fast_packets = fast.count as usize;
        let train = Train { segments: vec![fast, slow] };
        let seconds = train.duration().as_secs_f64();
        (train, seconds)
    }

    fn found(&self) -> Option<Varying> {
        if self.trace { println!("   unread {} of {}", self.unread, self.sent); }
        if self.readings.len() < 6 || self.readings.iter().filter(|(_, r)| r.parts.is_some()).count() < (self.readings.len() / 2).max(4) || f64::from(self.unread) > tune("UNREAD", 0.2) * (f64::from(self.unread) + self.readings.len() as f64) { return None; }
        Varying::of(&self.weighted(), self.config.seed)
    }
}

fn tune(name: &str, default: f64) -> f64 { std::env::var(name).ok().and_then(|t| t.parse().ok()).unwrap_or(default) }
