//! The loop: a look at the rate, and where it does not last, a second train at several rates.

use super::config::SustainedConfig;
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
/// Of the packets that arrive behind a fall, so many more or less may be counted, whatever the rate.
const PACKETS_OFF: f64 = 2.0;
/// The usual packet of cross traffic, in bits.
const CROSS_PACKET_BITS: f64 = 12_000.0;
/// No value is given where half the interval's width is more than this part of the committed rate.
const MAX_HALF_WIDTH: f64 = 0.5;
/// Less than this part of the committed rate is not told from nothing.
const MIN_VALUE: f64 = 0.05;
/// Before the second train, where the first one has left a queue: longer than it takes to drain, …
const PAUSE: Span = Span::from_millis(50);
/// … but no longer than this.
const MAX_PAUSE: Span = Span::from_secs(2);
/// A train that uses up a bucket is sent by this part of its rate faster than the bucket fills at least, for all that is known.
const MIN_EXCESS: f64 = 0.2;
/// No later train lasts longer.
const MAX_DURATION: Span = Span::from_secs(5);

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
    /// A train of the look is next.
    Look(Look),
    Looking(Look),
    /// It fell.
    Fell(Fallen),
    Climbing(Climb),
    Done(Sustained),
}

/// The trains that show whether the rate lasts, one as soon as the other has arrived.
#[derive(Debug)]
struct Look {
    /// Each of them.
    section: Section,
    /// So many are left, the one on its way included.
    left: u32,
    /// Of those that have passed.
    passed: Passed,
    /// When the one on its way was to begin.
    began: Time,
    /// What is known if the others tell nothing.
    so_far: Option<Sustained>,
}

/// What trains before the one in question have used of a burst.
#[derive(Debug, Clone, Copy, Default)]
struct Passed {
    packets: u32,
    /// How long they lasted.
    sending: Span,
    /// From the beginning of the first one to that of the train in question.
    elapsed: Span,
}

/// A train of the look of which the rate fell.
#[derive(Debug)]
struct Fallen {
    look: Section,
    passed: Passed,
    train: Vec<Passage>,
    fall: Fall,
    /// Packets that use up the burst, as far as known.
    used_up: u32,
    /// When the train had been sent, …
    ended: Time,
    /// … how long its last packets waited, …
    queued: Span,
    /// … and whether the bucket has hardly filled since, as far as known.
    is_emptied: bool,
}

impl Fallen {
    /// The rate of arrivals behind the fall in bit/s. Where a queue grew first and then overflowed, losses and growth do not add up.
    fn arrived(&self) -> f64 {
        let Rates { arrived, lost, growth, .. } = self.fall.rates;
        match lost > 0.0 && growth > MAX_FALL {
            true => arrived.max(self.arrival_rate()),
            false => arrived,
        }
    }

    fn arrival_rate(&self) -> f64 {
        reading::arrival_rate(&self.train[self.fall.index..])
    }
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
    pub fn next(&mut self, now: Time) -> Step<Sustained> {
        let (state, step) = match mem::replace(&mut self.state, State::Begin) {
            State::Begin => self.begin(now),
            State::Look(look) => self.look(look, now),
            // No record came.
            State::Looking(look) => {
                self.end(look.so_far.unwrap_or(Sustained::Untried("no packet of the longer train arrived")))
            }
            State::Fell(fallen) => self.climb(fallen, now),
            State::Climbing(climb) => self.end(limited(&climb.fallen, &[], &self.config)),
            State::Done(found) => self.end(found),
        };
        self.state = state;
        step
    }

    /// What became of the train that [`next`](Self::next) last asked for.
    pub fn record(&mut self, record: &TrainRecord) {
        self.state = match mem::replace(&mut self.state, State::Begin) {
            State::Looking(look) => match reading::undisturbed(passages(record), look.section.rate) {
                Some(train) => self.looked(look, train, record),
                None => State::Done(look.so_far.unwrap_or(Sustained::Untried("a host held up the longer train"))),
            },
            State::Climbing(climb) => self.climbed(climb, &passages(record)),
            other => other,
        };
    }

    /// The train that [`next`](Self::next) last asked for was carried, but its record is of no use: too few stamps are known.
    pub fn spoiled(&mut self) {
        if let State::Looking(look) = &mut self.state {
            let untried = Sustained::Untried("the receiver did not stamp the packets of the longer train");
            self.state = State::Done(look.so_far.take().unwrap_or(untried));
        }
    }

    fn begin(&mut self, now: Time) -> (State, Step<Sustained>) {
        match plan::look(&self.config) {
            Some((left, section)) => {
                let look = Look { section, left, passed: Passed::default(), began: now, so_far: None };
                self.look(look, now)
            }
            None => self.end(Sustained::Untried("the path is too slow, or the budget too small, for a longer train")),
        }
    }

    fn look(&mut self, look: Look, now: Time) -> (State, Step<Sustained>) {
        let train = plan::train(&[look.section], self.config.max_packet, &mut self.random);
        let elapsed = look.passed.elapsed + (now - look.began);
        let step = self.send(Span::ZERO, train);
        (State::Looking(Look { passed: Passed { elapsed, ..look.passed }, began: now, ..look }), step)
    }

    /// Whether every packet of the train waited, as where a queue was full before, or where others' packets are dropped to make
    /// room for these. Where other trains have filled a bucket's queue, it is theirs.
    fn finds_queue(&self, record: &TrainRecord) -> bool {
        // Those that showed the least delay may have been small.
        let passing = Span::from_secs_f64(self.passing_seconds());
        let is_long = |(least, idle): (Span, Span)| least - idle > MIN_QUEUE + passing;
        !self.config.is_bucket_hinted && delays(record).min().zip(self.config.least_delay).is_some_and(is_long)
    }

    fn looked(&self, look: Look, train: Vec<Passage>, record: &TrainRecord) -> State {
        let finds_queue = self.finds_queue(record);
        let section = look.section;
        let fallen = reading::fall(&train).filter(|fall| self.is_fall(&train[fall.index..], fall));
        let whole = || {
            let fall = Fall { index: 0, rates: reading::rates(&train)?, after: 0.0 };
            self.is_fall(&train, &fall).then_some(fall)
        };
        match fallen.or_else(whole) {
            _ if finds_queue => State::Done(Sustained::Overloads { rate: Rate::from_f64(section.rate) }),
            Some(fall) => State::Fell(self.fell(&look, train, fall, record)),
            None if is_cut_short(&train, section.packets) => {
                State::Done(Sustained::Overloads { rate: Rate::from_f64(section.rate) })
            }
            None if train.len() < 4 => {
                State::Done(look.so_far.unwrap_or(Sustained::Untried("no packet of the longer train arrived")))
            }
            None => self.passed(look, &train),
        }
    }

    fn fell(&self, look: &Look, train: Vec<Passage>, fall: Fall, record: &TrainRecord) -> Fallen {
        let Look { section, passed, began, .. } = *look;
        let least = delays(record).chain(self.config.least_delay).min();
        let queued = delays(record).last().zip(least).map_or(Span::ZERO, |(last, least)| last - least);
        let used_up = passed.packets + fall.index as u32;
        let ended = began + section.duration(self.config.max_packet);
        Fallen { look: section, passed, train, fall, used_up, ended, queued, is_emptied: true }
    }

    /// One train of the look has passed.
    fn passed(&self, look: Look, train: &[Passage]) -> State {
        let Look { section, left, passed, .. } = look;
        let lasts = match Trend::of(train) {
            Some(trend) if trend.grows() => {
                return State::Done(Sustained::Overloads { rate: Rate::from_f64(section.rate) });
            }
            trend => {
                let waiting = reading::waiting(train, self.passing_seconds());
                // A host that is too slow for the rate shows that less lasts.
                let sent = reading::rates(train).map_or(section.rate, |rates| rates.sent.min(section.rate));
                self.lasts(sent, trend.map_or(0.0, |trend| trend.most()), waiting)
            }
        };
        if left <= 1 {
            return State::Done(lasts);
        }
        let sending = passed.sending + section.duration(self.config.max_packet);
        let passed = Passed { packets: passed.packets + section.packets, sending, ..passed };
        State::Look(Look { left: left - 1, passed, so_far: Some(lasts), ..look })
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

    fn climb(&mut self, fallen: Fallen, now: Time) -> (State, Step<Sustained>) {
        let drops = reading::policing(&fallen.train, &fallen.fall) != Some(Policing::Delays);
        let limits = (self.config.max_packets, self.config.max_packet);
        // A shaper's queue is to drain.
        let wait =
            if drops { Span::ZERO } else { (fallen.queued + PAUSE - (now - fallen.ended)).clamp(PAUSE, MAX_PAUSE) };
        let used_up = if fallen.is_emptied { self.refilled(&fallen, now + wait) } else { fallen.used_up };
        let sections = plan::ladder(fallen.look, used_up, fallen.arrived(), limits);
        let train = plan::train(&sections, self.config.max_packet, &mut self.random);
        let SustainedConfig { max_packet, max_packets, budget_bytes, .. } = self.config;
        let too_dear = self.bytes + train.bytes() > budget_bytes || train.duration() > MAX_DURATION;
        let uses_up = sections.first().is_some_and(|section| section.packets > used_up);
        if too_dear || !uses_up || train.count() > max_packets || train.check(max_packet).is_err() {
            return self.end(limited(&fallen, &[], &self.config));
        }
        let step = self.send(wait, train);
        (State::Climbing(Climb { fallen, sections }), step)
    }

    /// Packets that use up what has come into the bucket from the end of the train that used it up until then: tokens that its queue does
    /// not need, of which cross traffic takes its part.
    fn refilled(&self, fallen: &Fallen, then: Time) -> u32 {
        let seconds = (then - fallen.ended - fallen.queued).max(Span::ZERO).as_secs_f64();
        let packets = fallen.arrived() * seconds / (f64::from(self.config.max_packet) * 8.0);
        let meanwhile = (1.0 - fallen.arrived() / fallen.look.rate).max(MIN_EXCESS);
        // Of a bucket that was not full before, it is not known how much more it holds.
        let most = if self.config.is_bucket_hinted { u32::MAX } else { fallen.used_up };
        ((packets / meanwhile) as u32).min(most)
    }

    fn climbed(&self, climb: Climb, train: &[Passage]) -> State {
        let Climb { fallen, sections } = climb;
        if is_cut_short(train, sections.iter().map(|section| section.packets).sum()) {
            return State::Done(limited(&fallen, &[], &self.config));
        }
        let parts = parts(&sections, train, &fallen);
        match course(&parts, fallen.fall.rates.ratio()) {
            Course::Limited => State::Done(limited(&fallen, &parts, &self.config)),
            // It has filled by more than was expected.
            Course::Passed if fallen.is_emptied && !self.config.is_bucket_hinted => {
                State::Fell(Fallen { is_emptied: false, ..fallen })
            }
            // The bucket was not full before, and now more so.
            Course::Passed if fallen.fall.rates.ratio() > CLEAR_RATIO => {
                let used_up = (fallen.used_up * 2).max(sections.first().map_or(0, |section| section.packets));
                State::Fell(Fallen { used_up, is_emptied: false, ..fallen })
            }
            // Not at random, then: the second train does not tell.
            Course::Alike if fallen.fall.rates.ratio() > CLEAR_RATIO => {
                State::Done(limited(&fallen, &[], &self.config))
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

/// From sending to arrival, the clocks' unknown offset included.
fn delays(record: &TrainRecord) -> impl Iterator<Item = Span> + '_ {
    record.packets.iter().filter_map(|packet| Some(packet.received? - packet.sent?))
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
fn parts(sections: &[Section], train: &[Passage], fallen: &Fallen) -> Vec<Rates> {
    let place = |index: usize| train.partition_point(|passage| passage.index < index);
    let mut parts = Vec::new();
    let mut from = 0;
    for (number, section) in sections.iter().enumerate() {
        let packets = section.packets as usize;
        // The first one begins with the burst; the others, with what the one before left in queues.
        let behind = plan::behind_burst(fallen.look.rate / fallen.arrived()) as usize;
        let skipped = if number == 0 { packets.saturating_sub(behind) } else { 4 };
        let (first, end) = (place(from + skipped), place(from + packets));
        parts.extend(train.get(first..end).and_then(reading::rates));
        from += packets;
    }
    parts
}

/// Of own bits, beside cross traffic of this rate.
fn burst_bits(fallen: &Fallen, cross: f64) -> f64 {
    let Fallen { fall, passed, .. } = fallen;
    let Rates { sent, .. } = fall.rates;
    let committed = (sent + cross) / fall.rates.ratio();
    let (sending, elapsed) = (passed.sending.as_secs_f64(), passed.elapsed.as_secs_f64());
    (sent * (fall.after + sending) - (committed - cross) * (fall.after + elapsed)).max(0.0)
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
        let bytes = (burst_bits(fallen, cross) / 8.0).round();
        let doubt = 0.1 * bytes + 3.0 * 1500.0;
        let [value, low, high] = [bytes, bytes - doubt, bytes + doubt].map(|bytes| bytes.max(0.0) as u64);
        Estimate { value, low, high, confidence: 0.95 }
    };
    let rest = &train[fall.index..];
    let seconds = rest.first().zip(rest.last()).map_or(0.0, |(first, last)| last.sent - first.sent);
    let doubt = DOUBTED_DEVIATIONS * cross_deviation(config, seconds) / seconds.max(1e-6);
    // No part of any train arrives at more than lasts, but for chance.
    let parts_arrived = || parts.iter().map(|part| part.arrived).fold(fall.rates.arrived, f64::max);
    let delivered = match config.is_retransmitting && fall.rates.lost > 0.0 {
        true => fallen.look.rate,
        false => parts_arrived().max(fallen.arrival_rate()),
    };
    let packets = PACKETS_OFF * f64::from(config.max_packet) * 8.0 / seconds.max(1e-6);
    Sustained::Limited(Limiter {
        policing,
        delivered: Rate::from_f64(delivered),
        sent: Rate::from_f64(fallen.look.rate),
        doubt: Rate::from_f64(doubt.min(config.cross.as_f64()).max(packets)),
        available: line.map(|line| line.available),
        committed_rate: line.map(|line| line.committed),
        // One that other trains have used up was not full.
        burst_bytes: line.filter(|_| !config.is_bucket_hinted).map(|line| burst(line.cross)),
    })
}
