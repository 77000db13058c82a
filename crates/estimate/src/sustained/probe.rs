//! The loop: a look at the rate, and where it does not last, a second train at several rates.

use super::fit;
use super::plan::{self, Section};
use super::reading::{self, Fall, Rates};
use super::result::{Limiter, Policing, Sustained};
use super::trend::Trend;
use crate::method::Step;
use crate::passage::{Passage, passages};
use std::mem;
use train::{Estimate, Train, TrainRecord};
use units::{Rate, Span, Time};

/// A rate lasts if what arrives falls by less than this part, …
const MAX_FALL: f64 = 0.1;
/// … or so many times what cross traffic's packets make it vary by.
const STANDARD_DEVIATIONS: f64 = 4.0;
/// The bound of what lasts allows for this many.
const DOUBTED_DEVIATIONS: f64 = 2.0;
/// The first train's fall is there again if the ratio exceeds 1 by this part of what it did then.
const REPRODUCED_PART: f64 = 0.5;
/// At this ratio of sending to arrival rate, a fall has no other cause than a token bucket.
const CLEAR_RATIO: f64 = 1.4;
/// A queue in which every packet of a train waits for longer than this is no chance, nor a clock's drift.
const MIN_QUEUE: Span = Span::from_millis(3);
/// The usual packet of cross traffic, in bits.
const CROSS_PACKET_BITS: f64 = 12_000.0;
/// No value is given where half the interval's width is more than this part of the committed rate.
const MAX_HALF_WIDTH: f64 = 0.5;
/// Less than this part of the committed rate is not told from nothing.
const MIN_VALUE: f64 = 0.05;
/// Before the second train, where the first one has left a queue.
const PAUSE: Span = Span::from_millis(50);
/// No later train lasts longer.
const MAX_DURATION: Span = Span::from_secs(5);

/// What is to be tried, and what it may cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SustainedConfig {
    /// The rate that short trains showed.
    pub rate: Rate,
    /// Of cross traffic, as far as known.
    pub cross: Rate,
    /// The largest packet that the transport carries whole, in bytes.
    pub max_packet: u32,
    /// The longest train that it carries, in packets.
    pub max_packets: u32,
    /// IP bytes to send at most.
    pub budget_bytes: u64,
    /// The least difference between receive and send stamps before, the clocks' unknown offset included; none if there were none.
    pub least_delay: Option<Span>,
    /// For the bootstrap.
    pub seed: u64,
}

/// Finds whether a rate lasts. The loop is that of a [`Method`](crate::Method): see the crate's contract.
#[derive(Debug)]
pub struct SustainedProbe {
    config: SustainedConfig,
    state: State,
    bytes: u64,
    random: u64,
}

#[derive(Debug)]
enum State {
    Begin,
    Looking(Section),
    /// It fell.
    Fell(Fallen),
    Climbing(Climb),
    Done(Sustained),
}

/// A first train of which the rate fell.
#[derive(Debug)]
struct Fallen {
    look: Section,
    train: Vec<Passage>,
    fall: Fall,
    /// Packets that use up the burst, as far as known.
    used_up: u32,
}

/// The train of several rates that follows.
#[derive(Debug)]
struct Climb {
    fallen: Fallen,
    sections: Vec<Section>,
}

impl SustainedProbe {
    /// Starts knowing nothing but the rate.
    pub fn new(config: SustainedConfig) -> Self {
        SustainedProbe { config, state: State::Begin, bytes: 0, random: config.seed }
    }

    /// What to do now. `now` may come from any clock that runs steadily.
    pub fn next(&mut self, _now: Time) -> Step<Sustained> {
        let (state, step) = match mem::replace(&mut self.state, State::Begin) {
            State::Begin => self.look(),
            // No record came.
            State::Looking(_) => self.end(Sustained::Untried("no packet of the longer train arrived")),
            State::Fell(fallen) => self.climb(fallen),
            State::Climbing(climb) => self.end(limited(&climb.fallen, &[], &self.config)),
            State::Done(found) => self.end(found),
        };
        self.state = state;
        step
    }

    /// What became of the train that [`next`](Self::next) last asked for.
    pub fn record(&mut self, record: &TrainRecord) {
        self.state = match mem::replace(&mut self.state, State::Begin) {
            State::Looking(look) => {
                let finds_queue = self.finds_queue(record);
                match reading::undisturbed(passages(record), look.rate) {
                    Some(train) => self.looked(look, train, finds_queue),
                    None => State::Done(Sustained::Untried("a host held up the longer train")),
                }
            }
            State::Climbing(climb) => self.climbed(climb, &passages(record)),
            other => other,
        };
    }

    /// The train that [`next`](Self::next) last asked for was carried, but its record is of no use: too few stamps are known.
    pub fn spoiled(&mut self) {
        if matches!(self.state, State::Looking(_)) {
            self.state = State::Done(Sustained::Untried("the receiver did not stamp the packets of the longer train"));
        }
    }

    fn look(&mut self) -> (State, Step<Sustained>) {
        let SustainedConfig { rate, max_packet, max_packets, budget_bytes, .. } = self.config;
        match plan::look(rate.as_f64(), max_packet, max_packets, budget_bytes as f64) {
            Some(look) => {
                let train = plan::train(&[look], max_packet, &mut self.random);
                let step = self.send(Span::ZERO, train);
                (State::Looking(look), step)
            }
            None => self.end(Sustained::Untried("the path is too slow, or the budget too small, for a longer train")),
        }
    }

    /// Whether every packet of the train waited, as where a queue was full before, or where others' packets are dropped to make
    /// room for these.
    fn finds_queue(&self, record: &TrainRecord) -> bool {
        // Those that showed the least delay may have been small.
        let passing = Span::from_secs_f64(self.passing_seconds());
        let least = record.packets.iter().filter_map(|packet| Some(packet.received? - packet.sent?)).min();
        least.zip(self.config.least_delay).is_some_and(|(least, idle)| least - idle > MIN_QUEUE + passing)
    }

    fn looked(&self, look: Section, train: Vec<Passage>, finds_queue: bool) -> State {
        let fallen = reading::fall(&train).filter(|fall| self.is_fall(&train[fall.index..], fall));
        let whole = || {
            let fall = Fall { index: 0, rates: reading::rates(&train)?, after: 0.0 };
            self.is_fall(&train, &fall).then_some(fall)
        };
        match fallen.or_else(whole) {
            _ if finds_queue => State::Done(Sustained::Overloads { rate: Rate::from_f64(look.rate) }),
            Some(fall) => State::Fell(Fallen { look, train, used_up: fall.index as u32, fall }),
            None if is_cut_short(&train, look.packets) => {
                State::Done(Sustained::Overloads { rate: Rate::from_f64(look.rate) })
            }
            None if train.len() < 4 => State::Done(Sustained::Untried("no packet of the longer train arrived")),
            None => State::Done(match Trend::of(&train) {
                Some(trend) if trend.grows() => Sustained::Overloads { rate: Rate::from_f64(look.rate) },
                trend => {
                    let waiting = reading::waiting(&train, self.passing_seconds());
                    // A host that is too slow for the rate shows that less lasts.
                    let sent = reading::rates(&train).map_or(look.rate, |rates| rates.sent.min(look.rate));
                    self.lasts(sent, trend.map_or(0.0, |trend| trend.most()), waiting)
                }
            }),
        }
    }

    /// Whether so much less arrived, for so long, that cross traffic is not the cause.
    fn is_fall(&self, part: &[Passage], fall: &Fall) -> bool {
        let (Some(first), Some(last)) = (part.first(), part.last()) else { return false };
        let seconds = last.sent - first.sent;
        let bits = fall.rates.sent * seconds;
        let allowed = MAX_FALL.max(STANDARD_DEVIATIONS * cross_deviation(&self.config, seconds) / bits.max(1.0));
        let by_loss = fall.rates.lost > allowed / 2.0;
        1.0 - 1.0 / fall.rates.ratio() > allowed && (by_loss || reading::grows(part))
    }

    fn climb(&mut self, fallen: Fallen) -> (State, Step<Sustained>) {
        let drops = reading::policing(&fallen.train, &fallen.fall) != Some(Policing::Delays);
        // So does a full queue.
        let random = drops || fallen.fall.rates.lost > 0.0;
        let kind = (self.config.max_packets, self.config.max_packet, random);
        let sections = plan::ladder(fallen.look, fallen.used_up, fallen.fall.rates.arrived, kind);
        let train = plan::train(&sections, self.config.max_packet, &mut self.random);
        let SustainedConfig { max_packet, max_packets, budget_bytes, .. } = self.config;
        let too_dear = self.bytes + train.bytes() > budget_bytes || train.duration() > MAX_DURATION;
        let uses_up = sections.first().is_some_and(|section| section.packets > fallen.used_up);
        if too_dear || !uses_up || train.count() > max_packets || train.check(max_packet).is_err() {
            return self.end(limited(&fallen, &[], &self.config));
        }
        // A shaper's queue is to drain.
        let wait = if drops { Span::ZERO } else { PAUSE };
        let step = self.send(wait, train);
        (State::Climbing(Climb { fallen, sections }), step)
    }

    fn climbed(&self, climb: Climb, train: &[Passage]) -> State {
        let Climb { fallen, sections } = climb;
        if is_cut_short(train, sections.iter().map(|section| section.packets).sum()) {
            return State::Done(limited(&fallen, &[], &self.config));
        }
        let parts = parts(&sections, train, &fallen.fall);
        match course(&parts, fallen.fall.rates.ratio()) {
            Course::Limited => State::Done(limited(&fallen, &parts, &self.config)),
            // The bucket was not full before, and now more so.
            Course::Passed if fallen.fall.rates.ratio() > CLEAR_RATIO => {
                let used_up = (fallen.used_up * 2).max(sections.first().map_or(0, |section| section.packets));
                State::Fell(Fallen { used_up, ..fallen })
            }
            Course::Passed | Course::Alike => State::Done(self.lasts(fallen.look.rate, 0.0, None)),
        }
    }

    fn lasts(&self, rate: f64, max_growth: f64, waiting: Option<f64>) -> Sustained {
        Sustained::Lasts { bytes: self.bytes, rate: Rate::from_f64(rate), max_growth, waiting }
    }

    /// How long the narrow link takes for a packet.
    fn passing_seconds(&self) -> f64 {
        f64::from(self.config.max_packet) * 8.0 / (self.config.rate.as_f64() + self.config.cross.as_f64())
    }

    fn send(&mut self, wait: Span, train: Train) -> Step<Sustained> {
        self.bytes += train.bytes();
        Step::Send { wait, train }
    }

    fn end(&self, found: Sustained) -> (State, Step<Sustained>) {
        (State::Done(found.clone()), Step::Done(found))
    }
}

/// Whether losses kept the sender from sending all of a train, as they do over TCP: what was sent does not show what all of it would have met.
fn is_cut_short(train: &[Passage], planned: u32) -> bool {
    const MIN_SENT_PART: f64 = 0.8;
    const MIN_LOST_PART: f64 = 0.03;
    let lost = train.iter().filter(|passage| passage.arrived.is_none()).count();
    (train.len() as f64) < MIN_SENT_PART * f64::from(planned) && lost as f64 > MIN_LOST_PART * train.len() as f64
}

/// What became of a train of several rates.
enum Course {
    /// The more was sent, the smaller a part arrived.
    Limited,
    /// All arrived.
    Passed,
    /// The same part was lost at all rates, as where losses are random.
    Alike,
}

fn course(parts: &[Rates], before: f64) -> Course {
    let ratios = || parts.iter().map(Rates::ratio);
    let (most, least) = (ratios().fold(1.0, f64::max), ratios().fold(f64::INFINITY, f64::min));
    if most < 1.0 + REPRODUCED_PART * (before - 1.0).min(2.0 * MAX_FALL / REPRODUCED_PART) {
        Course::Passed
    } else if least > 1.0 + 0.7 * (most - 1.0) {
        Course::Alike
    } else {
        Course::Limited
    }
}

/// The rates of each section behind the burst.
fn parts(sections: &[Section], train: &[Passage], fall: &Fall) -> Vec<Rates> {
    let place = |index: usize| train.partition_point(|passage| passage.index < index);
    let mut parts = Vec::new();
    let mut from = 0;
    for (number, section) in sections.iter().enumerate() {
        let packets = section.packets as usize;
        // The first one begins with the burst; the others, with what the one before left in queues.
        let behind = plan::behind_burst(fall.rates.ratio()) as usize;
        let skipped = if number == 0 { packets.saturating_sub(behind) } else { 4 };
        let (first, end) = (place(from + skipped), place(from + packets));
        parts.extend(train.get(first..end).and_then(reading::rates));
        from += packets;
    }
    parts
}

/// Of own bits, beside cross traffic of this rate.
fn burst_bits(fall: &Fall, cross: f64) -> f64 {
    let Rates { sent, .. } = fall.rates;
    let committed = (sent + cross) / fall.rates.ratio();
    (sent + cross - committed).max(0.0) * fall.after
}

/// The standard deviation of the bits of cross traffic in so many seconds, if its packets come at random times.
fn cross_deviation(config: &SustainedConfig, seconds: f64) -> f64 {
    let packet = CROSS_PACKET_BITS.max(f64::from(config.max_packet) * 8.0);
    (config.cross.as_f64() * seconds.max(0.0) * packet).sqrt() + 2.0 * packet
}

fn limited(fallen: &Fallen, parts: &[Rates], config: &SustainedConfig) -> Sustained {
    let Fallen { train, fall, .. } = fallen;
    let policing: Option<Policing> = reading::policing(train, fall);
    // The first section's packets are evenly spaced, which matters where packets are dropped.
    let queued = policing == Some(Policing::Delays) && fall.rates.lost == 0.0;
    let counted = if queued { parts } else { parts.get(1..).unwrap_or_default() };
    let line = fit::line(counted, config.seed).filter(|line| {
        let [low, high, committed] = [line.available.low, line.available.high, line.committed.value].map(Rate::as_f64);
        (high - low) / 2.0 <= MAX_HALF_WIDTH * committed && line.available.value.as_f64() > MIN_VALUE * committed
    });
    let burst = |cross: f64| {
        let bytes = (burst_bits(fall, cross) / 8.0).round();
        let doubt = 0.1 * bytes + 3.0 * 1500.0;
        let [value, low, high] = [bytes, bytes - doubt, bytes + doubt].map(|bytes| bytes.max(0.0) as u64);
        Estimate { value, low, high, confidence: 0.95 }
    };
    let rest = &train[fall.index..];
    let seconds = rest.first().zip(rest.last()).map_or(0.0, |(first, last)| last.sent - first.sent);
    let doubt = DOUBTED_DEVIATIONS * cross_deviation(config, seconds) / seconds.max(1e-6);
    Sustained::Limited(Limiter {
        policing,
        delivered: Rate::from_f64(fall.rates.arrived.max(reading::arrival_rate(rest))),
        doubt: Rate::from_f64(doubt.min(config.cross.as_f64())),
        available: line.map(|line| line.available),
        committed_rate: line.map(|line| line.committed),
        burst_bytes: line.map(|line| burst(line.cross)),
    })
}
