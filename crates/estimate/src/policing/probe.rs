//! The loop: a look at the rate, and where it does not last, later trains at several rates.

use super::config::SustainedConfig;
use super::fallen::{Fallen, MAX_FALL, Passed, cross_deviation, deviation};
use super::later_trains::{LaterTrains, Verdict};
use super::plan::{self, Section};
use super::queueing::Queue;
use super::reading::{self, Fall, delays, is_cut_short};
use super::result::{Policing, Sustained};
use super::slower_trains::SlowerTrains;
use super::trend::Trend;
use crate::method::Step;
use crate::passage::{Passage, passages};
use crate::stats::random;
use kumade_probe_train::{Train, TrainRecord};
use kumade_units::{Rate, Span, Time};
use std::mem;

/// A rate lasts if what arrives falls by less than [`MAX_FALL`], or so many times what cross traffic's packets make it vary by.
const STANDARD_DEVIATIONS: f64 = 4.0;
/// No part of a train leaves so many times as fast as planned unless the sender was held up before.
const MAX_CATCH_UP: f64 = 1.2;
/// A queue in which every packet of a train waits for longer than this is no chance, nor a clock's drift.
const MIN_QUEUE: Span = Span::from_millis(3);
/// A train that hosts held up is sent again so often: …
const MAX_REPEATS: u32 = 2;
/// … one of which the growth varies by more than this and what cross traffic explains, …
const MIN_DISTURBANCE: f64 = 1e-3;
/// … so many of its standard deviations.
const MAX_EXPLAINED: f64 = 2.0;
/// From fewer packets it is not told which part of them passes.
const MIN_PART_PACKETS: usize = 50;
/// No later train lasts longer.
const MAX_DURATION: Span = Span::from_secs(5);

/// Finds whether a rate lasts. The loop is that of a [`Method`](crate::Method): see the crate's contract.
#[derive(Debug)]
pub struct SustainedProbe {
    config: SustainedConfig,
    state: State,
    bytes: u64,
    started: Option<Time>,
    random: u64,
}

#[derive(Debug)]
enum State {
    Begin,
    /// A train of the look is next.
    Look(Look),
    Looking(Look),
    /// It fell, and another train is next.
    Follow(LaterTrains),
    Following(LaterTrains),
    /// The trains that followed tell what they can.
    Told(LaterTrains),
    /// A queue grew, and a slower train is next.
    Slow(SlowerTrains),
    Slowing(SlowerTrains),
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
    /// By how much the delay grew in the last ones, as far as it was no host's work.
    trend: Option<Trend>,
    /// So often one is sent again, if hosts held it up.
    repeats_left: u32,
    /// Whether it is at [`SustainedConfig::faster`].
    is_faster: bool,
    /// What is known if the others tell nothing.
    so_far: Option<Sustained>,
}

impl SustainedProbe {
    /// Starts knowing nothing but the rate.
    pub fn new(config: SustainedConfig) -> Self {
        SustainedProbe { config, state: State::Begin, bytes: 0, started: None, random: config.seed }
    }

    /// Whether it may have another train sent.
    pub fn sends_more(&self) -> bool {
        !matches!(self.state, State::Told(_) | State::Done(_))
    }

    /// On how many connections packets are in turn, see [`SustainedConfig::connections`]: they may be opened anew, and be more or fewer then.
    pub fn connections_mut(&mut self) -> Option<&mut u32> {
        self.config.connections.as_mut()
    }

    /// What to do now. `now` may come from any clock that runs steadily.
    pub fn next(&mut self, now: Time) -> Step<Sustained> {
        self.started.get_or_insert(now);
        let (state, step) = match mem::replace(&mut self.state, State::Begin) {
            State::Begin => self.begin(now),
            State::Look(look) => self.look(look, now),
            // No record came.
            State::Looking(look) => {
                self.end(look.so_far.unwrap_or(Sustained::Untried("no packet of the longer train arrived")))
            }
            State::Follow(later) => self.follow(later, now),
            State::Following(later) => self.limited(later, now),
            State::Told(later) => self.limited(later, now),
            State::Slow(slower) => self.slow_down(slower, now),
            State::Slowing(slower) => self.slow_down(slower, now),
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
            State::Following(later) => self.followed(later, record),
            State::Slowing(mut slower) => {
                if let Some(train) = reading::undisturbed(passages(record), slower.newest().rate) {
                    slower.add(&train);
                }
                State::Slow(slower)
            }
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
                let look = Look {
                    section,
                    left,
                    passed: Passed::default(),
                    began: now,
                    trend: None,
                    repeats_left: MAX_REPEATS,
                    is_faster: false,
                    so_far: None,
                };
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
        let most = MIN_QUEUE + passing + self.config.idle_variation;
        let is_long = |(least, idle): (Span, Span)| least - idle > most;
        !self.config.is_bucket_hinted && delays(record).min().zip(self.config.least_delay).is_some_and(is_long)
    }

    fn looked(&self, look: Look, train: Vec<Passage>, record: &TrainRecord) -> State {
        let finds_queue = self.finds_queue(record);
        let section = look.section;
        let fall = match self.config.connections {
            Some(connections) => reading::fall_over(connections, &train),
            None => reading::fall(&train),
        };
        let fallen = fall.filter(|fall| {
            self.is_fall(&train[fall.index..], fall, section.rate) || reading::drops_suddenly(&train, fall)
        });
        let whole = || {
            let fall = Fall { index: 0, rates: reading::rates(&train)?, after: 0.0 };
            self.is_fall(&train, &fall, section.rate).then_some(fall)
        };
        match fallen.or_else(whole) {
            fall if look.is_faster => match fall.map(|fall| self.fell(&look, train, fall, record)) {
                Some(fallen) if fallen.policing() == Some(Policing::Drops) => {
                    State::Follow(LaterTrains::new(fallen, &self.config))
                }
                _ => State::Done(look.so_far.unwrap_or_else(|| overloads(section.rate))),
            },
            _ if finds_queue => State::Done(overloads(section.rate)),
            certain if self.config.is_lossy => self.passed_in_part(look, &train, certain.or(fall)),
            Some(fall) => State::Follow(LaterTrains::new(self.fell(&look, train, fall, record), &self.config)),
            None if is_cut_short(&train, section.packets) => self.look_faster(look, overloads(section.rate)),
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
        let seen = self.config.connections.filter(|_| reading::policing(&train, &fall) == Some(Policing::Drops));
        let used_up = passed.packets + fall.index as u32;
        let seen = seen.and_then(|connections| reading::rates_over(connections, &train, fall.index));
        let fall = Fall { rates: seen.unwrap_or(fall.rates), ..fall };
        let ended = began + section.duration(self.config.max_packet);
        let fallen =
            Fallen { look: section, passed, train, fall, used_up, ended, queued, queue: None, is_emptied: true };
        let is_queued = fallen.policing() == Some(Policing::Delays);
        let queue = if is_queued { Queue::of(record, fallen.arrived(), self.config.least_delay) } else { None };
        Fallen { queue, ..fallen }
    }

    /// One train of the look has passed.
    fn passed(&self, mut look: Look, train: &[Passage]) -> State {
        let section = look.section;
        let duration = section.duration(self.config.max_packet);
        let trend = Trend::of(train);
        if trend.is_some_and(|trend| trend.grows(self.config.is_one_by_one)) {
            return self.grown(section, train, look.began + duration);
        }
        let is_disturbed = self.config.is_one_by_one
            && trend.is_some_and(|trend| trend.error() > self.explained(duration.as_secs_f64()));
        let trend = [trend, look.trend].into_iter().flatten().reduce(Trend::with);
        look.trend = trend.filter(|_| is_disturbed);
        let waiting = reading::waiting(train, self.passing_seconds());
        // A host that is too slow for the rate shows that less lasts.
        let sent = reading::rates(train).map_or(section.rate, |rates| rates.sent.min(section.rate));
        let lasts = self.lasts(sent, trend.map_or(0.0, |trend| trend.most()), waiting);
        let bytes = u64::from(section.packets * self.config.max_packet);
        match (look.left, look.repeats_left) {
            (2.., _) => look.left -= 1,
            (_, 1..) if is_disturbed && self.bytes + bytes <= self.config.budget_bytes => look.repeats_left -= 1,
            _ => return self.look_faster(look, lasts),
        }
        let Passed { packets, sending, .. } = look.passed;
        let passed = Passed { packets: packets + section.packets, sending: sending + duration, ..look.passed };
        State::Look(Look { passed, so_far: Some(lasts), ..look })
    }

    /// The look at a rate has shown this, and no limit: a faster one may be tried.
    fn look_faster(&self, look: Look, so_far: Sustained) -> State {
        let faster = self.config.faster.filter(|faster| faster.as_f64() > look.section.rate && !look.is_faster);
        let section = faster.map(|faster| Section { rate: faster.as_f64(), ..look.section });
        let is_affordable = |section: &Section| {
            self.bytes + u64::from(section.packets * self.config.max_packet) <= self.config.budget_bytes
        };
        match section.filter(is_affordable) {
            Some(section) => State::Look(Look {
                section,
                left: 1,
                trend: None,
                repeats_left: 0,
                is_faster: true,
                so_far: Some(so_far),
                ..look
            }),
            None => State::Done(so_far),
        }
    }

    /// A train of the look has passed, of which packets may be lost at any rate, but for what is behind the fall.
    fn passed_in_part(&self, look: Look, train: &[Passage], fall: Option<Fall>) -> State {
        // A few packets at the end tell nothing.
        let index = fall.map_or(0, |fall| fall.index).min(train.len().saturating_sub(MIN_PART_PACKETS));
        let seen = self.config.connections.and_then(|connections| reading::rates_over(connections, train, index));
        let Some(rates) = seen.or_else(|| reading::rates(&train[index..])) else {
            return State::Done(Sustained::Untried("no packet of the longer train arrived"));
        };
        // A queue may have grown first, and then overflowed.
        let growth = rates.growth.max(reading::grown(&train[index..]));
        let arrived = Rate::from_f64(look.section.rate * (1.0 - rates.lost) / (1.0 + growth));
        let least = match look.so_far {
            Some(Sustained::Passes { arrived: before, .. }) => arrived.min(before),
            _ => arrived,
        };
        let found = Sustained::Passes { bytes: self.bytes, rate: Rate::from_f64(look.section.rate), arrived: least };
        match look.left {
            2.. => State::Look(Look { left: look.left - 1, so_far: Some(found), ..look }),
            _ => State::Done(found),
        }
    }

    /// A queue grew in a train of the look, which ended then: slower ones follow, if delays tell how fast queues grow.
    fn grown(&self, section: Section, train: &[Passage], ended: Time) -> State {
        let overloads = overloads(section.rate);
        match self.config.is_one_by_one {
            true => State::Slow(SlowerTrains::new(section, train, ended, overloads)),
            false => State::Done(overloads),
        }
    }

    /// Whether so much less arrived, for so long, that cross traffic is not the cause, nor a sender that makes up for having been held up.
    fn is_fall(&self, part: &[Passage], fall: &Fall, planned: f64) -> bool {
        if fall.rates.sent > MAX_CATCH_UP * planned {
            return false;
        }
        let (Some(first), Some(last)) = (part.first(), part.last()) else { return false };
        let seconds = last.sent - first.sent;
        let bits = fall.rates.sent * seconds;
        let allowed = MAX_FALL.max(STANDARD_DEVIATIONS * cross_deviation(&self.config, seconds) / bits.max(1.0));
        let by_loss = fall.rates.lost > allowed / 2.0;
        1.0 - 1.0 / fall.rates.ratio() > allowed && (by_loss || reading::grows(part))
    }

    /// The next train behind one that fell; none where a budget does not allow it.
    fn follow(&mut self, mut later: LaterTrains, now: Time) -> (State, Step<Sustained>) {
        let (wait, sections) = later.next(now, &self.config);
        match self.train_of(&sections, now + wait) {
            Some(train) => {
                later.leaves(sections, now + wait + train.duration());
                let step = self.send(wait, train);
                (State::Following(later), step)
            }
            None => self.limited(later, now),
        }
    }

    /// The train of these sections, if there are any and it may be sent then.
    fn train_of(&mut self, sections: &[Section], at: Time) -> Option<Train> {
        let SustainedConfig { max_packet, max_packets, budget_bytes, budget_time, .. } = self.config;
        let train = plan::train(sections, max_packet, &mut self.random);
        let is_in_time = self.started.is_none_or(|started| at + train.duration() - started <= budget_time);
        let is_affordable =
            self.bytes + train.bytes() <= budget_bytes && train.duration() <= MAX_DURATION && is_in_time;
        (is_affordable && train.count() <= max_packets && train.check(max_packet).is_ok()).then_some(train)
    }

    /// The end of trains that followed one that fell, unless it is a queue that grows, and they do not tell what is available.
    fn limited(&mut self, later: LaterTrains, now: Time) -> (State, Step<Sustained>) {
        let limiter = later.limited(&self.config);
        let is_queue = limiter.policing == Some(Policing::Delays) && !later.has_burst() && limiter.available.is_none();
        if !is_queue || !self.config.is_one_by_one {
            return self.end(Sustained::Limited(limiter));
        }
        let (look, train, ended) = later.look();
        self.slow_down(SlowerTrains::new(look, train, ended, Sustained::Limited(limiter)), now)
    }

    /// The next slower train, if it tells more and a budget allows it.
    fn slow_down(&mut self, mut slower: SlowerTrains, now: Time) -> (State, Step<Sustained>) {
        let random = random(&mut self.random);
        let next = slower.next(now, &self.config, random);
        match next.and_then(|(wait, section)| Some((wait, self.train_of(&[section], now + wait)?))) {
            Some((wait, train)) => {
                let step = self.send(wait, train);
                (State::Slowing(slower), step)
            }
            None => self.end(slower.found(&self.config)),
        }
    }

    fn followed(&self, mut later: LaterTrains, record: &TrainRecord) -> State {
        match later.record(record, &self.config) {
            Verdict::Open => State::Follow(later),
            Verdict::Limited => State::Told(later),
            Verdict::Lasts => State::Done(self.lasts(later.rate(), 0.0, None)),
        }
    }

    fn lasts(&self, rate: f64, max_growth: f64, waiting: Option<f64>) -> Sustained {
        Sustained::Lasts { bytes: self.bytes, rate: Rate::from_f64(rate), max_growth, waiting }
    }

    /// By how much the growth of a train of so many seconds varies where cross traffic is the cause, and hosts are not.
    fn explained(&self, seconds: f64) -> f64 {
        let narrow = self.config.rate.as_f64() + self.config.cross.as_f64();
        MIN_DISTURBANCE
            + MAX_EXPLAINED * deviation(self.config.expected_cross, &self.config, seconds) / (narrow * seconds)
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

/// More than is available, of which nothing else is known.
fn overloads(rate: f64) -> Sustained {
    Sustained::Overloads { rate: Rate::from_f64(rate), available: None }
}
