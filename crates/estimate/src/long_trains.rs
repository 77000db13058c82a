//! What a link leaves that serves packets in turns, and whose rate varies from turn to turn: a radio link, or one before a receiver
//! that collects packets.
//!
//! Each train spans many turns, so that its rate of arrival is the link's mean rate meanwhile, and is faster than what the link leaves.
//! On a link that carries C, beside cross traffic of the rate x in the same queue, what is sent at the rate r arrives at
//!
//! ```text
//! R = C · r / (r + x),   thus   C = R · (1 + x / r)
//! ```
//!
//! C differs from train to train, but not with the trains' rate: that tells x, from fast trains and slow ones by turns (TOPP: Melander,
//! Björkman, Gunningberg, GLOBECOM 2000, for a link that does not vary), and the mean of C less x is available. How much C varies shows
//! in the interval.

use crate::method::Step;
use crate::sustained::reading::{self, Passage};
use crate::stats::{mean, quantile, random, student_t_95};
use train::{Estimate, Segment, Train, TrainRecord};
use units::{Rate, Span, Time};

/// A train spans so many turns, …
const TURNS: f64 = 12.0;
/// … as many full packets as that, …
const PACKETS: f64 = 100.0;
/// … and this time in seconds at least, …
const MIN_SECONDS: f64 = 0.02;
/// … and no longer than that.
const MAX_SECONDS: f64 = 1.0;
/// From one train's start to the next one's, in seconds: stations adapt their rates every 50 ms or so.
const SPACING_SECONDS: f64 = 0.08;
/// The rate of fast trains, by what arrives of them, and that of slow ones, by what is available.
const FAST: f64 = 1.8;
const SLOW: f64 = 1.4;
/// Trains faster than the link arrive at a rate so many times lower.
const MIN_RATIO: f64 = 1.15;
/// Trains of either kind.
const MIN_TRAINS: usize = 4;
const MAX_TRAINS: usize = 10;
/// Until trains are faster than the link, their rate is doubled so often.
const MAX_DOUBLINGS: u32 = 8;
/// The part of a train at its start that is passed over: until then, the queue may have been empty.

const REPLICATES: usize = 300;
const ROUNDS: usize = 4;
/// More uncertain than by this part of itself, a value is none.
const MAX_HALF_WIDTH: f64 = 1.0;

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
    /// Of random numbers.
    pub seed: u64,
}

/// Measures what such a link leaves. The loop is that of a [`Method`](crate::Method): see the crate's contract.
#[derive(Debug)]
pub struct LongTrains {
    config: LongTrainsConfig,
    fast: Vec<Pass>,
    slow: Vec<Pass>,
    /// The rate of the train on its way, in bit/s, and whether it is a slow one.
    sent: Option<(f64, bool)>,
    rate: f64,
    doublings: u32,
    bytes: u64,
    /// What the last train has left in the queue, in bits, and how long it was, in seconds.
    left: (f64, f64),
    random: u64,
    shrink: f64,
}

/// What one train showed, in bit/s.
#[derive(Debug, Clone, Copy)]
struct Pass {
    sent: f64,
    arrived: f64,
}

impl LongTrains {
    /// Starts with no train sent.
    pub fn new(config: LongTrainsConfig) -> Self {
        let rate = config.rate.as_f64() * fast();
        LongTrains {
            config,
            fast: Vec::new(),
            slow: Vec::new(),
            sent: None,
            rate,
            doublings: 0,
            bytes: 0,
            left: (0.0, 0.0),
            random: config.seed,
            shrink: 1.0,
        }
    }

    /// What to do now. The result is the mean of what was available, and how many trains tell; none where they do not.
    pub fn next(&mut self, _now: Time) -> Step<Option<(Estimate<Rate>, u32)>> {
        let is_slow = self.slow.len() < self.fast.len();
        let is_enough = self.slow.len().min(self.fast.len()) >= MAX_TRAINS || self.doublings > MAX_DOUBLINGS;
        let rate = match is_slow.then(|| self.available()).flatten() {
            Some(available) => tune("SLOW",1.4) * available,
            None if is_slow => 1.3 * self.slow.iter().map(|p| p.sent).fold(0.0, f64::max),
            None => self.rate,
        };
        let Some((train, seconds)) = (!is_enough).then(|| self.train(rate)).flatten() else {
            return Step::Done(self.found());
        };
        let drained = self.left.0 / self.available().unwrap_or(0.5 * self.rate).max(0.05 * self.rate);
        let wait = drained.max(SPACING_SECONDS - self.left.1) * (1.0 + 0.2 * random(&mut self.random));
        self.left = (0.0, seconds);
        self.bytes += train.bytes();
        self.sent = Some((rate, is_slow));
        Step::Send { wait: Span::from_secs_f64(wait.clamp(0.0, 2.0)), train }
    }

    /// What became of the train that [`next`](Self::next) last asked for.
    pub fn record(&mut self, record: &TrainRecord) {
        let Some((rate, is_slow)) = self.sent.take() else { return };
        let passages = reading::passages(record);
        let Some(pass) = Pass::of(&passages) else {
            self.doublings += 1;
            return;
        };
        let lost = 1.0 - passages.iter().filter(|p| p.came.is_some()).count() as f64 / passages.len() as f64;
        if lost > tune("LOST", 2.0) { self.shrink *= 0.7; }
        self.left.0 = queued(&passages) * pass.arrived;
        if is_slow {
            self.slow.push(pass);
        } else if pass.sent < MIN_RATIO * pass.arrived && self.fast.is_empty() {
            self.rate = 2.0 * rate;
            self.doublings += 1;
        } else {
            self.fast.push(pass);
            self.rate = fast() * mean(&self.fast.iter().map(|pass| pass.arrived).collect::<Vec<_>>());
        }
    }

    /// A train of this rate, and how long it lasts; none beyond the budget.
    fn train(&self, rate: f64) -> Option<(Train, f64)> {
        let LongTrainsConfig { turn, max_packet, max_packets, budget_bytes, .. } = self.config;
        let interval = f64::from(max_packet) * 8.0 / rate;
        let seconds = (TURNS * turn.as_secs_f64()).max(tune("PACKETS",100.0) * interval).max(tune("MINSEC",0.02)).min(MAX_SECONDS) * self.shrink;
        let count = ((seconds / interval) as u32).min(max_packets).min(Train::MAX_PACKETS);
        let segment = Segment { count, interval: Span::from_secs_f64(interval), first_size: max_packet, size_step: 0 };
        let train = Train { segments: vec![segment] };
        let is_within = self.bytes + train.bytes() <= budget_bytes && train.check(max_packet).is_ok();
        is_within.then(|| (train, f64::from(count) * interval))
    }

    fn available(&self) -> Option<f64> {
        if self.slow.is_empty() {
            // Whatever the cross traffic, less is available than arrives.
            return Some(mean(&self.fast.iter().map(|pass| pass.arrived).collect::<Vec<_>>())).filter(|rate| *rate > 0.0);
        }
        available(&self.fast, &self.slow)
    }

    fn found(&self) -> Option<(Estimate<Rate>, u32)> {
        let (fast, slow) = (&self.fast, &self.slow);
        if fast.len().min(slow.len()) < MIN_TRAINS {
            return None;
        }
        let value = available(fast, slow)?;
        let mut state = self.config.seed;
        let mut again = |passes: &[Pass]| -> Vec<Pass> {
            passes.iter().map(|_| passes[(random(&mut state) * passes.len() as f64) as usize]).collect()
        };
        let replicates: Vec<f64> =
            (0..REPLICATES).filter_map(|_| available(&again(fast), &again(slow))).collect();
        // Few trains know their own scatter badly.
        let few = slow.len().min(fast.len()) as f64;
        let wider = (few / (few - 1.0)).sqrt() * student_t_95(slow.len().min(fast.len())) / 1.96 * tune("WIDER",1.0);
        let end = |part: f64| quantile(&replicates, part).map(|end| value + (end - value) * wider);
        let (low, high) = (end(0.025)?.min(value).max(0.0), end(0.975)?.max(value));
        let is_known = (high - low) / 2.0 <= MAX_HALF_WIDTH * value;
        let [value, low, high] = [value, low, high].map(Rate::from_f64);
        is_known.then(|| (Estimate { value, low, high, confidence: 0.95 }, (fast.len() + slow.len()) as u32))
    }
}

impl Pass {
    /// From where the queue has built up to the end, by whole turns; none of a train of which too little arrived.
    fn of(passages: &[Passage]) -> Option<Self> {
        let skipped = (passages.len() as f64 * tune("SKIP",0.2)) as usize;
        let (counted, last) = (passages.get(skipped..)?, passages.last()?);
        let sent: f64 = counted.iter().skip(1).map(|passage| passage.bits).sum();
        let mut arrivals: Vec<(f64, f64)> = counted.iter().filter_map(|passage| Some((passage.came?, passage.bits))).collect();
        arrivals.sort_by(|one, other| one.0.total_cmp(&other.0));
        let (from, to) = (arrivals.first()?.0, arrivals.last()?.0);
        let within = 0.2 * (to - from) / arrivals.len() as f64;
        let turns: Vec<(f64, f64)> = arrivals.chunk_by(|one, next| next.0 - one.0 <= within).map(|turn| (turn[0].0, turn.iter().map(|p| p.1).sum())).collect();
        let [(first, _), .., (end, _)] = turns[..] else { return None };
        let bits: f64 = turns[..turns.len() - 1].iter().map(|turn| turn.1).sum();
        (end > first && last.sent > counted[0].sent).then(|| Pass { sent: sent / (last.sent - counted[0].sent), arrived: bits / (end - first) })
    }
}

/// How much longer the last packets waited than the first, in seconds.
fn queued(passages: &[Passage]) -> f64 {
    let delays: Vec<f64> = passages.iter().filter_map(|passage| Some(passage.arrived? - passage.sent)).collect();
    let part = delays.len().div_ceil(10).max(1);
    (mean(&delays[delays.len().saturating_sub(part)..]) - quantile(&delays, 0.05).unwrap_or(0.0)).max(0.0)
}

/// What is available, from fast trains, and from slow ones that are fast enough for that.
fn available(fast: &[Pass], slow: &[Pass]) -> Option<f64> {
    let mut found = through(fast, slow)?;
    for _ in 0..ROUNDS {
        let counted: Vec<Pass> = slow.iter().filter(|pass| pass.sent > tune("MARGIN", 1.15) * found).copied().collect();
        if counted.len() < slow.len().min(MIN_TRAINS) {
            return None;
        }
        found = through(fast, &counted)?;
    }
    Some(found)
}

fn through(fast: &[Pass], slow: &[Pass]) -> Option<f64> {
    let of = |passes: &[Pass], value: fn(&Pass) -> f64| mean(&passes.iter().map(value).collect::<Vec<_>>());
    // The mean of R · (1 + x / r) is the same for both.
    let [of_fast, of_slow] = [fast, slow].map(|passes| (of(passes, |p| p.arrived), of(passes, |p| p.arrived / p.sent)));
    let slope = of_slow.1 - of_fast.1;
    if fast.is_empty() || slow.is_empty() || slope <= 0.0 {
        return None;
    }
    let cross = ((of_fast.0 - of_slow.0) / slope).max(-tune("NEG",0.0) * of_slow.0);
    let capacity = [fast, slow].concat().iter().map(|p| p.arrived * (1.0 + cross / p.sent)).collect::<Vec<_>>();
    Some((mean(&capacity) - cross).max(0.0))
}

fn fast() -> f64 { tune("FAST", 1.8) }
fn tune(name: &str, default: f64) -> f64 { std::env::var(name).ok().and_then(|t| t.parse().ok()).unwrap_or(default) }
