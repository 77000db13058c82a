//! The loop: a look at the rate, and where it does not last, a second train at several rates.

use super::config::SustainedConfig;
use super::fallen::{Course, Fallen, MAX_FALL, Part, Passed, cross_deviation};
use super::plan::{self, Section};
use super::queueing::{Queue, Seen};
use super::reading::{self, Fall};
use super::result::{Policing, Sustained};
use super::trend::Trend;
use crate::method::Step;
use crate::passage::{Passage, passages};
use std::mem;
use train::{Estimate, Train, TrainRecord};
use units::{Rate, Span, Time};

/// A rate lasts if what arrives falls by less than [`MAX_FALL`], or so many times what cross traffic's packets make it vary by.
const STANDARD_DEVIATIONS: f64 = 4.0;
/// At this ratio of sending to arrival rate, a fall has no other cause than a token bucket.
const CLEAR_RATIO: f64 = 1.4;
/// A queue in which every packet of a train waits for longer than this is no chance, nor a clock's drift.
const MIN_QUEUE: Span = Span::from_millis(3);
/// No queue is waited for that takes longer to drain.
const MAX_PAUSE: Span = Span::from_secs(2);
/// A train that uses up a bucket is sent by this part of its rate faster than the bucket fills at least, for all that is known.
const MIN_EXCESS: f64 = 0.2;
/// Where several trains do not tell a value, they are sent so many times more, …
const MORE_ROUNDS: u32 = 3;
/// … and where they wait in a queue, until the interval is as narrow as this part of the value, but no more often than so.
const MORE_QUEUED_ROUNDS: u32 = 3;
const WANTED_HALF_WIDTH: f64 = 0.05;
/// So many of them are on a line.
const MIN_TOLD_PARTS: usize = 4;
/// The queue of a train drains for this much longer than its last packet waited.
const DRAIN_PAUSE: Span = Span::from_millis(5);
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
    /// Another train of it is next.
    Climb(Climb),
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

/// The train of several rates that follows, or several trains of one rate each.
#[derive(Debug)]
struct Climb {
    fallen: Fallen,
    /// Of the train on its way.
    sections: Vec<Section>,
    way: Way,
    /// Sections of the trains that are left.
    left: Vec<Section>,
    /// What earlier ones tell.
    parts: Vec<Part>,
    /// So often they are sent again if they do not tell a value.
    rounds_left: u32,
}

/// How later trains are sent.
#[derive(Debug, Clone, Copy)]
enum Way {
    /// One of all rates.
    Together,
    /// One for each rate, right behind the other: packets are dropped.
    Dropped,
    /// One for each rate, after this queue has drained.
    Queued(Queue),
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
            State::Climb(climb) => self.climb_on(climb, now),
            State::Climbing(climb) => self.end(Sustained::Limited(climb.fallen.limited(&climb.parts, &self.config))),
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
            State::Climbing(climb) => self.climbed(climb, record),
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
        let seen = self.config.connections.filter(|_| reading::policing(&train, &fall) == Some(Policing::Drops));
        let seen = seen.and_then(|connections| reading::rates_over(connections, &train, fall.index));
        let fall = Fall { rates: seen.unwrap_or(fall.rates), ..fall };
        let ended = began + section.duration(self.config.max_packet);
        let fallen =
            Fallen { look: section, passed, train, fall, used_up, ended, queued, queue: None, is_emptied: true };
        let is_queued = fallen.policing() == Some(Policing::Delays);
        let queue = if is_queued { Queue::of(&fallen, record, self.config.least_delay) } else { None };
        Fallen { queue, ..fallen }
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
        let policing = fallen.policing();
        // A train over connections has few more packets than use up a large bucket.
        let has_room = self.config.connections.is_none() || fallen.used_up <= self.config.max_packets / 2;
        let (way, rounds_left) = match fallen.queue {
            Some(queue) => (Way::Queued(queue), MORE_QUEUED_ROUNDS),
            None if policing == Some(Policing::Drops) && has_room => (Way::Dropped, MORE_ROUNDS),
            None => (Way::Together, 0),
        };
        let mut climb = Climb { fallen, sections: Vec::new(), way, left: Vec::new(), parts: Vec::new(), rounds_left };
        climb.left = self.round(&climb);
        match way {
            Way::Together => self.climb_together(climb, now),
            Way::Dropped | Way::Queued(_) => self.climb_on(climb, now),
        }
    }

    fn climb_together(&mut self, climb: Climb, now: Time) -> (State, Step<Sustained>) {
        let used_up = self.used_up(&climb.fallen, now);
        let sections = plan::ladder(climb.fallen.look, used_up, climb.fallen.arrived(), &self.config);
        let uses_up = sections.first().is_some_and(|section| section.packets > used_up);
        match self.train_of(&sections).filter(|_| uses_up) {
            Some(train) => {
                let step = self.send(Span::ZERO, train);
                (State::Climbing(Climb { sections, ..climb }), step)
            }
            None => self.end(Sustained::Limited(climb.fallen.limited(&[], &self.config))),
        }
    }

    /// The sections of several trains, each of which will be behind what uses up the burst.
    fn round(&self, climb: &Climb) -> Vec<Section> {
        let Climb { fallen, way, .. } = climb;
        match way {
            Way::Together => Vec::new(),
            Way::Dropped => plan::steps(fallen.look, fallen.used_up, fallen.arrived(), &self.config),
            Way::Queued(queue) => queue.sections(fallen.look, &self.config),
        }
    }

    /// The next of several trains; none where a budget does not allow it.
    fn climb_on(&mut self, mut climb: Climb, now: Time) -> (State, Step<Sustained>) {
        let (wait, sections) = match climb.left.is_empty() {
            true => (Span::ZERO, Vec::new()),
            false => self.next_sections(&climb.fallen, climb.left.remove(0), climb.way, now),
        };
        match self.train_of(&sections) {
            Some(train) => {
                (climb.fallen.ended, climb.fallen.queued) = (now + wait + train.duration(), Span::ZERO);
                let step = self.send(wait, train);
                (State::Climbing(Climb { sections, ..climb }), step)
            }
            None => self.end(Sustained::Limited(climb.fallen.limited(&climb.parts, &self.config))),
        }
    }

    /// When the train of this section is to leave, and what is ahead of the section in it.
    fn next_sections(&self, fallen: &Fallen, section: Section, way: Way, now: Time) -> (Span, Vec<Section>) {
        let SustainedConfig { max_packet, connections, .. } = self.config;
        match way {
            Way::Queued(queue) => {
                let drained = fallen.ended + queue.drain(fallen.queued) + DRAIN_PAUSE;
                let wait = (drained - now).clamp(Span::ZERO, MAX_PAUSE);
                let since = (now + wait - fallen.ended - fallen.queued).max(Span::ZERO);
                let full = f64::from(fallen.used_up) * f64::from(max_packet) * 8.0;
                let tokens = queue.tokens(full, fallen.is_emptied.then(|| since.as_secs_f64()));
                (wait, queue.behind_burst(fallen.look, section, tokens, &self.config).to_vec())
            }
            Way::Together | Way::Dropped => {
                let burst = plan::burst(fallen.look, self.used_up(fallen, now), fallen.arrived(), connections);
                (Span::ZERO, vec![burst, section])
            }
        }
    }

    /// Packets that use up what is in the bucket.
    fn used_up(&self, fallen: &Fallen, now: Time) -> u32 {
        if fallen.is_emptied { self.refilled(fallen, now) } else { fallen.used_up }
    }

    /// The train of these sections, if there are any and it may be sent.
    fn train_of(&mut self, sections: &[Section]) -> Option<Train> {
        let SustainedConfig { max_packet, max_packets, budget_bytes, .. } = self.config;
        let train = plan::train(sections, max_packet, &mut self.random);
        let is_affordable = self.bytes + train.bytes() <= budget_bytes && train.duration() <= MAX_DURATION;
        (is_affordable && train.count() <= max_packets && train.check(max_packet).is_ok()).then_some(train)
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

    fn climbed(&self, climb: Climb, record: &TrainRecord) -> State {
        let Climb { fallen, sections, parts, way, .. } = &climb;
        let train = &passages(record);
        let burst = sections.first().map_or(0, |burst| burst.packets) as usize;
        if let Way::Queued(queue) = *way {
            let seen = queue.seen(train, record, burst);
            return self.queued(climb, queue, seen, record);
        }
        if is_cut_short(train, sections.iter().map(|section| section.packets).sum()) {
            return State::Done(Sustained::Limited(fallen.limited(parts, &self.config)));
        }
        if let Way::Together = way {
            let parts = fallen.parts(sections, train);
            return self.told(climb.fallen, &parts, &climb.sections);
        }
        let from = train.partition_point(|passage| passage.index < burst);
        let part = match self.config.connections {
            Some(connections) => reading::rates_over(connections, train, from),
            None => reading::rates(&train[from..]),
        };
        self.stepped(climb, part.map(|rates| Part { rates, is_random: true }))
    }

    /// A train that waited in a queue shows this.
    fn queued(&self, mut climb: Climb, mut queue: Queue, seen: Seen, record: &TrainRecord) -> State {
        climb.fallen.queued = delays(record).last().map_or(Span::ZERO, |last| queue.waited(last));
        match seen {
            Seen::Rates(rates) => climb.parts.push(Part { rates, is_random: false }),
            Seen::Overflow => queue = queue.overflowed(),
            Seen::NoQueue if climb.parts.is_empty() => return self.passed_again(climb.fallen, &climb.sections),
            Seen::NoQueue | Seen::Emptied => {}
        }
        let line = climb.fallen.line(&climb.parts, &self.config);
        let is_narrow = line.is_some_and(|line| half_width(&line.available) < WANTED_HALF_WIDTH);
        climb.way = Way::Queued(queue);
        // Where the trains of a whole round are on no line, it is no shaper's queue.
        let is_open = line.is_some() || climb.parts.len() < MIN_TOLD_PARTS;
        if climb.left.is_empty() && is_open && !is_narrow && climb.rounds_left > 0 {
            climb.way = Way::Queued(line.map_or(queue, |line| queue.told(&line)));
            climb.rounds_left -= 1;
            climb.left = self.round(&climb);
        }
        match climb.left.is_empty() {
            true => State::Done(Sustained::Limited(climb.fallen.limited(&climb.parts, &self.config))),
            false => State::Climb(climb),
        }
    }

    /// One of several trains shows this.
    fn stepped(&self, mut climb: Climb, part: Option<Part>) -> State {
        let is_last = climb.left.is_empty();
        climb.parts.extend(part);
        if !is_last && part.is_some_and(|part| part.rates.ratio() < 1.0 + MAX_FALL) {
            return self.passed_again(climb.fallen, &climb.sections);
        }
        if is_last && climb.rounds_left > 0 && !self.is_value_told(&climb) {
            climb.rounds_left -= 1;
            climb.left = self.round(&climb);
        }
        match climb.left.is_empty() {
            true => self.told(climb.fallen, &climb.parts, &climb.sections),
            false => State::Climb(climb),
        }
    }

    fn is_value_told(&self, climb: &Climb) -> bool {
        climb.fallen.limited(&climb.parts, &self.config).available.is_some()
    }

    /// What the rates of all sections tell.
    fn told(&self, fallen: Fallen, parts: &[Part], sections: &[Section]) -> State {
        match fallen.course(parts) {
            Course::Limited => State::Done(Sustained::Limited(fallen.limited(parts, &self.config))),
            Course::Passed => self.passed_again(fallen, sections),
            // Not at random, then: the second train does not tell.
            Course::Alike if fallen.fall.rates.ratio() > CLEAR_RATIO => {
                State::Done(Sustained::Limited(fallen.limited(&[], &self.config)))
            }
            Course::Alike => State::Done(self.lasts(fallen.look.rate, 0.0, None)),
        }
    }

    /// What fell has passed.
    fn passed_again(&self, fallen: Fallen, sections: &[Section]) -> State {
        // It has filled by more than was expected.
        if fallen.is_emptied && !self.config.is_bucket_hinted {
            return State::Fell(Fallen { is_emptied: false, ..fallen });
        }
        // The bucket was not full before, and now more so.
        if fallen.fall.rates.ratio() > CLEAR_RATIO {
            let used_up = (fallen.used_up * 2).max(sections.first().map_or(0, |section| section.packets));
            return State::Fell(Fallen { used_up, is_emptied: false, ..fallen });
        }
        State::Done(self.lasts(fallen.look.rate, 0.0, None))
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

/// Of an interval, as a part of the value.
fn half_width(found: &Estimate<Rate>) -> f64 {
    let [low, value, high] = [found.low, found.value, found.high].map(Rate::as_f64);
    (high - low) / 2.0 / value.max(1.0)
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
