//! The trains that follow one of which the rate fell: at what rates, when, and what they tell.

use super::bracket::Bracket;
use super::config::SustainedConfig;
use super::fallen::{Course, Fallen, MAX_FALL, Part, doubt};
use super::plan::{self, Section};
use super::queueing::{Queue, Seen};
use super::reading::{self, delays, is_cut_short};
use super::result::{Limiter, Policing};
use crate::passage::{Passage, passages};
use kumade_probe_train::{Estimate, TrainRecord};
use kumade_units::{Rate, Span, Time};

/// A train that uses up a bucket is sent by this part of its rate faster than the bucket fills at least, for all that is known.
const MIN_EXCESS: f64 = 0.2;
/// Over connections, so many trains in all that use up less than was in the bucket are sent again.
const MAX_REFILLS: u32 = 6;
/// Where several trains do not tell a value, they are sent so many times more; where they wait in a queue, …
const MORE_ROUNDS: u32 = 3;
/// … until half the interval is no wider than this part of the value.
const WANTED_HALF_WIDTH: f64 = 0.05;
/// Where a line tells, no more packets are sent just to use up the bucket again for a closer look.
const MAX_CLOSER_BURST: u32 = 250;
/// So many of them are on a line.
const MIN_TOLD_PARTS: usize = 4;
/// A queue grows from the first packets of a train on, but for this part of them.
const MAX_PASSED_PART: f64 = 0.05;
/// A train leaves so long after the queue of the one before has drained, …
const DRAIN_PAUSE: Span = Span::from_millis(5);
/// … but no queue is waited for that takes longer to drain than this.
const MAX_PAUSE: Span = Span::from_secs(2);

/// Later trains, until they tell what limits the rate.
#[derive(Debug)]
pub(super) struct LaterTrains {
    fallen: Fallen,
    /// Of the train on its way.
    sections: Vec<Section>,
    way: Way,
    /// Sections of the trains that are left.
    left: Vec<Section>,
    /// What earlier ones tell.
    parts: Vec<Part>,
    /// So often they are sent again.
    rounds_left: u32,
    /// So often one may be sent again because it did not use up the bucket.
    refills_left: u32,
}

/// How they are sent.
#[derive(Debug, Clone, Copy)]
enum Way {
    /// All rates in one train.
    Together,
    /// One train for each rate, right behind the other: packets are dropped.
    Apart,
    /// The same, of rates that are looked for one by one: the policer is nearly as fast as what was tried.
    Bracketed(Bracket),
    /// One train for each rate, after this queue has drained.
    Queued(Queue),
}

/// What they have told so far.
#[derive(Debug)]
pub(super) enum Verdict {
    /// Nothing yet: another one is to be sent.
    Open,
    /// A token bucket limits the rate.
    Limited,
    /// There is no token bucket.
    Lasts,
}

impl LaterTrains {
    /// Those that follow this one.
    pub(super) fn new(fallen: Fallen, config: &SustainedConfig) -> Self {
        let (sections, left, parts) = (Vec::new(), Vec::new(), Vec::new());
        let (rounds_left, refills_left) = (MORE_ROUNDS, MAX_REFILLS);
        let mut later = LaterTrains { fallen, sections, way: Way::Together, left, parts, rounds_left, refills_left };
        later.begin(config);
        later
    }

    fn begin(&mut self, config: &SustainedConfig) {
        let fallen = &self.fallen;
        // A train over connections has few more packets than use up a large bucket.
        let has_room = config.connections.is_none() || fallen.used_up <= config.max_packets / 2;
        self.way = match fallen.queue {
            Some(queue) => Way::Queued(queue),
            None if fallen.policing() == Some(Policing::Drops) && has_room => {
                if plan::has_line(fallen.look, fallen.arrived()) {
                    Way::Apart
                } else {
                    Way::Bracketed(fallen.bracket(config))
                }
            }
            None => Way::Together,
        };
        self.parts.clear();
        self.rounds_left = MORE_ROUNDS;
        self.left = self.round(config);
    }

    /// The rate that fell, in bit/s.
    pub(super) fn rate(&self) -> f64 {
        self.fallen.look.rate
    }

    /// The train that fell, and when the newest one ended.
    pub(super) fn look(&self) -> (Section, &[Passage], Time) {
        (self.fallen.look, &self.fallen.train, self.fallen.ended)
    }

    /// Whether a notable part of the train that fell had passed before, as behind a token bucket.
    pub(super) fn has_burst(&self) -> bool {
        f64::from(self.fallen.used_up) > MAX_PASSED_PART * f64::from(self.fallen.look.packets)
    }

    /// What limits the rate.
    pub(super) fn limited(&self, config: &SustainedConfig) -> Limiter {
        let bracket = if let Way::Bracketed(bracket) = &self.way { Some(bracket) } else { None };
        self.fallen.limited(&self.parts, bracket, config)
    }

    /// The sections of a round of trains, each of which will be behind what uses up the burst.
    fn round(&self, config: &SustainedConfig) -> Vec<Section> {
        let Fallen { look, used_up, .. } = self.fallen;
        match self.way {
            Way::Together => Vec::new(),
            Way::Apart => plan::apart(look, used_up, self.fallen.arrived(), config),
            Way::Bracketed(bracket) => bracket.next().map(|rate| plan::alone(rate, config)).into_iter().collect(),
            Way::Queued(queue) => queue.sections(look, config),
        }
    }

    /// How long to wait for the next train, and its sections; none where there is no other.
    pub(super) fn next(&mut self, now: Time, config: &SustainedConfig) -> (Span, Vec<Section>) {
        let fallen = &self.fallen;
        if let Way::Together = self.way {
            // Over connections, what follows a loss is not seen to arrive, so that a train of several rates does not tell them.
            if config.connections.is_some() && fallen.policing() != Some(Policing::Delays) {
                return (Span::ZERO, Vec::new());
            }
            let used_up = used_up(fallen, now, config);
            let sections = plan::together(fallen.look, used_up, fallen.arrived(), config);
            let uses_up = sections.first().is_some_and(|section| section.packets > used_up);
            return (Span::ZERO, if uses_up { sections } else { Vec::new() });
        }
        let Some(section) = self.left.first().copied() else { return (Span::ZERO, Vec::new()) };
        self.left.remove(0);
        match self.way {
            Way::Queued(queue) => {
                let drained = fallen.ended + queue.drain(fallen.queued) + DRAIN_PAUSE;
                let wait = (drained - now).clamp(Span::ZERO, MAX_PAUSE);
                let since = (now + wait - fallen.ended - fallen.queued).max(Span::ZERO);
                let full = f64::from(fallen.used_up) * f64::from(config.max_packet) * 8.0;
                let tokens = queue.tokens(full, fallen.is_emptied.then(|| since.as_secs_f64()));
                (wait, queue.behind_burst(fallen.look, section, tokens, config).to_vec())
            }
            Way::Together | Way::Apart | Way::Bracketed(_) => {
                let used_up = used_up(fallen, now, config);
                let burst = plan::burst(fallen.look, used_up, config.connections);
                (Span::ZERO, vec![burst, section])
            }
        }
    }

    /// A train of these sections will have been sent then.
    pub(super) fn leaves(&mut self, sections: Vec<Section>, ended: Time) {
        self.sections = sections;
        (self.fallen.ended, self.fallen.queued) = (ended, Span::ZERO);
    }

    /// What became of it.
    pub(super) fn record(&mut self, record: &TrainRecord, config: &SustainedConfig) -> Verdict {
        let train = &passages(record);
        let burst = self.sections.first().map_or(0, |burst| burst.packets) as usize;
        if let Way::Queued(queue) = self.way {
            self.fallen.queued = delays(record).last().map_or(Span::ZERO, |last| queue.waited(last));
            return self.queued(queue, queue.seen(train, record, burst), config);
        }
        let is_whole = !is_cut_short(train, self.sections.iter().map(|section| section.packets).sum());
        if !is_whole && (config.connections.is_none() || matches!(self.way, Way::Together)) {
            return Verdict::Limited;
        }
        if let Way::Together = self.way {
            self.parts = self.fallen.parts(&self.sections, train);
            return self.told(config);
        }
        let begin = train.partition_point(|passage| passage.index < burst);
        let part = match config.connections {
            Some(connections) => {
                let losing = reading::begins_to_lose(train);
                if losing.is_none() && self.refills_left > 0 && matches!(self.way, Way::Apart) {
                    return self.use_up_more();
                }
                if let Some(place) = losing {
                    self.fallen.uses_up(train[place].index as u32, burst as u32);
                }
                reading::rates_over(connections, train, begin.max(losing.map_or(0, |place| place + 1)))
            }
            None => reading::rates(&train[begin..]),
        };
        match self.way {
            Way::Bracketed(bracket) => {
                let is_emptied = train[..begin].iter().any(|passage| passage.came.is_none());
                let part = part.map(|rates| Part { rates, is_random: false });
                self.bracketed(bracket, part.filter(|_| is_emptied), config)
            }
            _ => self.apart(part.map(|rates| Part { rates, is_random: true }), config),
        }
    }

    /// A train of one rate that waited in a queue shows this.
    fn queued(&mut self, mut queue: Queue, seen: Seen, config: &SustainedConfig) -> Verdict {
        match seen {
            Seen::Rates(rates) => {
                self.parts.push(Part { rates, is_random: false });
                self.fallen.is_emptied = true;
            }
            Seen::Overflow => queue = queue.overflowed(),
            Seen::NoQueue if self.parts.is_empty() => return self.passed_again(config),
            Seen::NoQueue => queue = queue.unfilled(),
            Seen::Emptied => {}
        }
        self.way = Way::Queued(queue);
        if !self.left.is_empty() {
            return Verdict::Open;
        }
        if let (false, Course::Passed) = (self.parts.is_empty(), self.fallen.course(&self.parts)) {
            return self.passed_again(config);
        }
        let line = self.fallen.line(&self.parts, config);
        if line.is_some_and(|line| line.available.value.as_f64() > self.rate()) {
            return Verdict::Lasts;
        }
        let is_narrow = line.is_some_and(|line| half_width(&line.available) < WANTED_HALF_WIDTH);
        // Where the trains of a whole round are on no line, it is no shaper's queue.
        let is_open = line.is_some() || self.parts.len() < MIN_TOLD_PARTS;
        if is_narrow || !is_open {
            return Verdict::Limited;
        }
        self.way = Way::Queued(line.map_or(queue, |line| queue.told(line.committed.value, line.available.value)));
        self.again(config)
    }

    /// One that was dropped in part shows this.
    fn apart(&mut self, part: Option<Part>, config: &SustainedConfig) -> Verdict {
        self.parts.extend(part);
        let is_last = self.left.is_empty();
        if !is_last && part.is_some_and(|part| part.rates.ratio() < 1.0 + MAX_FALL) {
            return self.passed_again(config);
        }
        if !is_last || self.limited(config).available.is_none() && matches!(self.again(config), Verdict::Open) {
            return Verdict::Open;
        }
        match self.told(config) {
            Verdict::Limited => self.look_closer(config),
            verdict => verdict,
        }
    }

    /// Where a line tells what is available, but not closely, rates about that are tried, unless the bucket takes too much to use up.
    fn look_closer(&mut self, config: &SustainedConfig) -> Verdict {
        let is_small = self.fallen.used_up <= MAX_CLOSER_BURST;
        let line = self.fallen.telling_line(&self.parts, config).filter(|_| is_small);
        let Some(bracket) = line.as_ref().and_then(|line| Bracket::around(line, config.cross.as_f64())) else {
            return Verdict::Limited;
        };
        self.way = Way::Bracketed(bracket);
        self.left = self.round(config);
        Verdict::Open
    }

    /// Nothing was lost: the same train is sent again behind a longer burst.
    fn use_up_more(&mut self) -> Verdict {
        self.refills_left -= 1;
        if let [burst, section] = self.sections[..] {
            self.fallen.used_up = burst.packets * 3 / 2;
            self.left.insert(0, section);
        }
        Verdict::Open
    }

    /// What became of a rate that was looked for; none where the burst was not used up before.
    fn bracketed(&mut self, bracket: Bracket, part: Option<Part>, config: &SustainedConfig) -> Verdict {
        if part.is_none() && self.parts.is_empty() {
            return self.passed_again(config);
        }
        self.parts.extend(part);
        if part.is_none() {
            // There is more in the bucket than was known.
            self.fallen.used_up *= 2;
        }
        let found = part
            .map_or(bracket.missed(), |Part { rates, .. }| bracket.add(&rates, doubt(&rates, bracket.cross(), config)));
        self.way = Way::Bracketed(found);
        self.left = self.round(config);
        match (self.left.is_empty(), found.available()) {
            (false, _) => Verdict::Open,
            (true, None) if self.fallen.is_random(&self.parts) => Verdict::Lasts,
            (true, _) => Verdict::Limited,
        }
    }

    /// Another round, if one is left.
    fn again(&mut self, config: &SustainedConfig) -> Verdict {
        if self.rounds_left > 0 {
            self.rounds_left -= 1;
            self.left = self.round(config);
        }
        if self.left.is_empty() { Verdict::Limited } else { Verdict::Open }
    }

    /// What the rates of all sections tell.
    fn told(&mut self, config: &SustainedConfig) -> Verdict {
        match self.fallen.course(&self.parts) {
            Course::Limited => Verdict::Limited,
            Course::Passed => self.passed_again(config),
            // Not at random, then: later trains do not tell.
            Course::Alike if self.fallen.is_clear() => {
                self.parts.clear();
                Verdict::Limited
            }
            Course::Alike => Verdict::Lasts,
        }
    }

    /// What fell before has passed: the bucket is to be used up again if it may have held more than was known.
    fn passed_again(&mut self, config: &SustainedConfig) -> Verdict {
        let fallen = &mut self.fallen;
        let had_filled = fallen.is_emptied && !config.is_bucket_hinted;
        if !had_filled && !fallen.is_clear() {
            return Verdict::Lasts;
        }
        if !had_filled {
            // It was not full before, and now more so.
            let sent = self.sections.first().map_or(0, |section| section.packets);
            fallen.used_up = (fallen.used_up * 2).max(sent);
        }
        fallen.is_emptied = false;
        self.begin(config);
        Verdict::Open
    }
}

/// Packets that use up what is in the bucket.
fn used_up(fallen: &Fallen, now: Time, config: &SustainedConfig) -> u32 {
    if fallen.is_emptied { refilled(fallen, now, config) } else { fallen.used_up }
}

/// Packets that use up what has come into the bucket from the end of the train that used it up until now: tokens that its queue does
/// not need, of which cross traffic takes its part.
fn refilled(fallen: &Fallen, now: Time, config: &SustainedConfig) -> u32 {
    let seconds = (now - fallen.ended - fallen.queued).max(Span::ZERO).as_secs_f64();
    let packets = fallen.arrived() * seconds / (f64::from(config.max_packet) * 8.0);
    let meanwhile = (1.0 - fallen.arrived() / fallen.look.rate).max(MIN_EXCESS);
    // Of a bucket that was not full before, it is not known how much more it holds.
    let most = if config.is_bucket_hinted { u32::MAX } else { fallen.used_up };
    ((packets / meanwhile) as u32).min(most)
}

/// Of an interval, as a part of the value.
fn half_width(found: &Estimate<Rate>) -> f64 {
    let [low, value, high] = [found.low, found.value, found.high].map(Rate::as_f64);
    (high - low) / 2.0 / value.max(1.0)
}
