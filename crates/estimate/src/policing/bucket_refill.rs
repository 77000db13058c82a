//! The trains that follow one of which the rate fell: at what rates, when, and what they tell.

use super::bisection::RateBisection;
use super::config::PolicingConfig;
use super::loss_evidence::LossCause;
use super::plan::{self, TrainSection};
use super::queueing::{QueueSample, ShaperQueue};
use super::rate_drop::{DropCourse, RateDropState, TrainPart, rate_uncertainty};
use super::result::{ExcessAction, PolicerOrShaper};
use super::train_rates::{self, MAX_DROP_PART, delays, is_cut_short};
use crate::packet_timing::{PacketTiming, packet_timings};
use kumade_probe_train::{Estimate, TrainRecord};
use kumade_units::{Rate, Span, Time};

/// A train that uses up a bucket is sent by this part of its rate faster than the bucket fills at least, for all that is known.
const MIN_EXCESS_PART: f64 = 0.2;
/// Over connections, so many trains in all that use up less than was in the bucket are sent again.
const MAX_REFILLS: u32 = 6;
/// Where several trains do not tell a value, they are sent so many times more; where they wait in a queue, …
const EXTRA_ROUNDS: u32 = 3;
/// … until half the interval is no wider than this part of the value.
const TARGET_RELATIVE_HALF_WIDTH: f64 = 0.05;
/// Where a line tells, no more packets are sent just to use up the bucket again for a closer look.
const MAX_CLOSER_BURST_PACKETS: u32 = 250;
/// So many of them are on a line.
const MIN_INFORMATIVE_PARTS: usize = 4;
/// A queue grows from the first packets of a train on, but for this part of them.
const MAX_PASSED_PART: f64 = 0.05;
/// A train leaves so long after the queue of the one before has drained, …
const DRAIN_PAUSE: Span = Span::from_millis(5);
/// … but no queue is waited for that takes longer to drain than this.
const MAX_PAUSE: Span = Span::from_secs(2);

/// Later trains, until they tell what limits the rate.
#[derive(Debug)]
pub(super) struct BucketRefill {
    rate_drop: RateDropState,
    /// Of the train on its way.
    sections: Vec<TrainSection>,
    strategy: TrainStrategy,
    /// Sections of the trains that are left.
    sections_left: Vec<TrainSection>,
    /// What earlier ones tell.
    parts: Vec<TrainPart>,
    /// So often they are sent again.
    rounds_left: u32,
    /// So often one may be sent again because it did not use up the bucket.
    refills_left: u32,
}

/// How they are sent.
#[derive(Debug, Clone, Copy)]
enum TrainStrategy {
    /// All rates in one train.
    OneTrain,
    /// One train for each rate, right behind the other: packets are dropped.
    SeparateTrains,
    /// The same, of rates that are looked for one by one: the policer is nearly as fast as what was tried.
    Bisection(RateBisection),
    /// One train for each rate, after this queue has drained.
    AfterDrain(ShaperQueue),
}

/// What they have told so far.
#[derive(Debug)]
pub(super) enum RefillResult {
    /// Nothing yet: another one is to be sent.
    Undecided,
    /// A token bucket limits the rate.
    Limited,
    /// There is no token bucket.
    NoBucket,
}

impl BucketRefill {
    /// Those that follow this one.
    pub(super) fn new(fallen: RateDropState, config: &PolicingConfig) -> Self {
        let (sections, left, parts) = (Vec::new(), Vec::new(), Vec::new());
        let (rounds_left, refills_left) = (EXTRA_ROUNDS, MAX_REFILLS);
        let mut later = BucketRefill {
            rate_drop: fallen,
            sections,
            strategy: TrainStrategy::OneTrain,
            sections_left: left,
            parts,
            rounds_left,
            refills_left,
        };
        later.begin_rounds(config);
        later
    }

    fn begin_rounds(&mut self, config: &PolicingConfig) {
        let fallen = &self.rate_drop;
        // A train over connections has few more packets than use up a large bucket.
        let has_room = config.connections.is_none() || fallen.used_up_packets <= config.max_packets / 2;
        self.strategy = match fallen.queue {
            Some(queue) => TrainStrategy::AfterDrain(queue),
            None if fallen.policing() == Some(ExcessAction::Drops) && has_room => {
                if plan::has_rate_range(fallen.first_train, fallen.arrived_rate()) {
                    TrainStrategy::SeparateTrains
                } else {
                    TrainStrategy::Bisection(fallen.new_bisection(config))
                }
            }
            None => TrainStrategy::OneTrain,
        };
        self.parts.clear();
        self.rounds_left = EXTRA_ROUNDS;
        self.sections_left = self.plan_round(config);
    }

    /// The rate that fell, in bit/s.
    pub(super) fn tried_rate(&self) -> f64 {
        self.rate_drop.first_train.rate
    }

    /// The train that fell, and when the newest one ended.
    pub(super) fn first_train(&self) -> (TrainSection, &[PacketTiming], Time) {
        (self.rate_drop.first_train, &self.rate_drop.train, self.rate_drop.ended)
    }

    /// Whether a notable part of the train that fell had passed before, as behind a token bucket.
    pub(super) fn has_burst(&self) -> bool {
        f64::from(self.rate_drop.used_up_packets) > MAX_PASSED_PART * f64::from(self.rate_drop.first_train.packets)
    }

    /// See [`RateDropState::loses_for_unknown_cause`].
    pub(super) fn loses_for_unknown_cause(&self, config: &PolicingConfig) -> bool {
        self.rate_drop.loses_for_unknown_cause(&self.parts, config)
    }

    /// What limits the rate.
    pub(super) fn to_limiter(&self, config: &PolicingConfig) -> PolicerOrShaper {
        let bracket = if let TrainStrategy::Bisection(bracket) = &self.strategy { Some(bracket) } else { None };
        self.rate_drop.to_limiter(&self.parts, bracket, config)
    }

    /// The sections of a round of trains, each of which will be behind what uses up the burst.
    fn plan_round(&self, config: &PolicingConfig) -> Vec<TrainSection> {
        let RateDropState { first_train: look, used_up_packets: used_up, .. } = self.rate_drop;
        match self.strategy {
            TrainStrategy::OneTrain => Vec::new(),
            TrainStrategy::SeparateTrains => {
                plan::sections_in_own_trains(look, used_up, self.rate_drop.arrived_rate(), config)
            }
            TrainStrategy::Bisection(bracket) => {
                bracket.next_rate().map(|rate| plan::single_section(rate, config)).into_iter().collect()
            }
            TrainStrategy::AfterDrain(queue) => queue.sections(look, config),
        }
    }

    /// How long to wait for the next train, and its sections; none where there is no other.
    pub(super) fn next_train(&mut self, now: Time, config: &PolicingConfig) -> (Span, Vec<TrainSection>) {
        let fallen = &self.rate_drop;
        if let TrainStrategy::OneTrain = self.strategy {
            // Over connections, what follows a loss is not seen to arrive, so that a train of several rates does not tell them.
            if config.connections.is_some() && fallen.policing() != Some(ExcessAction::Delays) {
                return (Span::ZERO, Vec::new());
            }
            let used_up = used_up_packets(fallen, now, config);
            let sections = plan::sections_in_one_train(fallen.first_train, used_up, fallen.arrived_rate(), config);
            let uses_up = sections.first().is_some_and(|section| section.packets > used_up);
            return (Span::ZERO, if uses_up { sections } else { Vec::new() });
        }
        let Some(section) = self.sections_left.first().copied() else { return (Span::ZERO, Vec::new()) };
        self.sections_left.remove(0);
        match self.strategy {
            TrainStrategy::AfterDrain(queue) => {
                let drained = fallen.ended + queue.drain_time(fallen.last_wait) + DRAIN_PAUSE;
                let wait = (drained - now).clamp(Span::ZERO, MAX_PAUSE);
                let since = (now + wait - fallen.ended - fallen.last_wait).max(Span::ZERO);
                let full = f64::from(fallen.used_up_packets) * f64::from(config.max_packet) * 8.0;
                let tokens = queue.tokens_at(full, fallen.is_emptied.then(|| since.as_secs_f64()));
                (wait, queue.behind_burst(fallen.first_train, section, tokens, config).to_vec())
            }
            TrainStrategy::OneTrain | TrainStrategy::SeparateTrains | TrainStrategy::Bisection(_) => {
                let used_up = used_up_packets(fallen, now, config);
                let burst = plan::burst_section(fallen.first_train, used_up, config.connections);
                (Span::ZERO, vec![burst, section])
            }
        }
    }

    /// A train of these sections will have been sent then.
    pub(super) fn train_sent(&mut self, sections: Vec<TrainSection>, ended: Time) {
        self.sections = sections;
        (self.rate_drop.ended, self.rate_drop.last_wait) = (ended, Span::ZERO);
    }

    /// What became of it.
    pub(super) fn record_train(&mut self, record: &TrainRecord, config: &PolicingConfig) -> RefillResult {
        let train = &packet_timings(record);
        let burst = self.sections.first().map_or(0, |burst| burst.packets) as usize;
        if let TrainStrategy::AfterDrain(queue) = self.strategy {
            self.rate_drop.last_wait = delays(record).last().map_or(Span::ZERO, |last| queue.waiting_time(last));
            return self.record_queued(queue, queue.sample_train(train, record, burst), config);
        }
        let is_whole = !is_cut_short(train, self.sections.iter().map(|section| section.packets).sum());
        if !is_whole && (config.connections.is_none() || matches!(self.strategy, TrainStrategy::OneTrain)) {
            return RefillResult::Limited;
        }
        if let TrainStrategy::OneTrain = self.strategy {
            self.parts = self.rate_drop.train_parts(&self.sections, train);
            return self.finish(config);
        }
        let begin = train.partition_point(|passage| passage.index < burst);
        let part = match config.connections {
            Some(connections) => {
                let losing = train_rates::find_first_clustered_loss(train);
                if losing.is_none() && self.refills_left > 0 && matches!(self.strategy, TrainStrategy::SeparateTrains) {
                    return self.lengthen_burst();
                }
                if let Some(place) = losing {
                    self.rate_drop.record_used_up(train[place].index as u32, burst as u32);
                }
                train_rates::part_rates_over_connections(
                    connections,
                    train,
                    begin.max(losing.map_or(0, |place| place + 1)),
                )
            }
            None => train_rates::part_rates(&train[begin..]),
        };
        match self.strategy {
            TrainStrategy::Bisection(bracket) => {
                let is_emptied = train[..begin].iter().any(|passage| passage.arrival.is_none());
                let part = part.map(|rates| TrainPart { rates, is_random: false });
                self.record_bisection(bracket, part.filter(|_| is_emptied), config)
            }
            _ => self.record_apart(part.map(|rates| TrainPart { rates, is_random: true }), config),
        }
    }

    /// A train of one rate that waited in a queue shows this.
    fn record_queued(&mut self, mut queue: ShaperQueue, seen: QueueSample, config: &PolicingConfig) -> RefillResult {
        match seen {
            QueueSample::Rates(rates) => {
                self.parts.push(TrainPart { rates, is_random: false });
                self.rate_drop.is_emptied = true;
            }
            QueueSample::Overflow => queue = queue.after_overflow(),
            QueueSample::NoQueue if self.parts.is_empty() => return self.record_passed(config),
            QueueSample::NoQueue => queue = queue.after_unfilled(),
            QueueSample::Emptied => {}
        }
        self.strategy = TrainStrategy::AfterDrain(queue);
        if !self.sections_left.is_empty() {
            return RefillResult::Undecided;
        }
        if let (false, DropCourse::Passed) = (self.parts.is_empty(), self.rate_drop.drop_course(&self.parts)) {
            return self.record_passed(config);
        }
        let line = self.rate_drop.fit_line(&self.parts, config);
        if line.is_some_and(|line| line.available.value.as_f64() > self.tried_rate()) {
            return RefillResult::NoBucket;
        }
        let is_narrow = line.is_some_and(|line| relative_half_width(&line.available) < TARGET_RELATIVE_HALF_WIDTH);
        // Where the trains of a whole round are on no line, it is no shaper's queue.
        let is_open = line.is_some() || self.parts.len() < MIN_INFORMATIVE_PARTS;
        if is_narrow || !is_open {
            return RefillResult::Limited;
        }
        self.strategy = TrainStrategy::AfterDrain(
            line.map_or(queue, |line| queue.with_rates(line.committed_rate.value, line.available.value)),
        );
        self.repeat_train(config)
    }

    /// One that was dropped in part shows this.
    fn record_apart(&mut self, part: Option<TrainPart>, config: &PolicingConfig) -> RefillResult {
        self.parts.extend(part);
        let is_last = self.sections_left.is_empty();
        if !is_last && part.is_some_and(|part| part.rates.ratio() < 1.0 + MAX_DROP_PART) {
            return self.record_passed(config);
        }
        if !is_last
            || self.to_limiter(config).available.is_none()
                && matches!(self.repeat_train(config), RefillResult::Undecided)
        {
            return RefillResult::Undecided;
        }
        match self.finish(config) {
            RefillResult::Limited => self.refine_rate(config),
            verdict => verdict,
        }
    }

    /// Where a line tells what is available, but not closely, rates about that are tried, unless the bucket takes too much to use up.
    fn refine_rate(&mut self, config: &PolicingConfig) -> RefillResult {
        let is_small = self.rate_drop.used_up_packets <= MAX_CLOSER_BURST_PACKETS;
        let line = self.rate_drop.informative_line(&self.parts, config).filter(|_| is_small);
        let Some(bracket) =
            line.as_ref().and_then(|line| RateBisection::around_line(line, config.max_cross_rate.as_f64()))
        else {
            return RefillResult::Limited;
        };
        self.strategy = TrainStrategy::Bisection(bracket);
        self.sections_left = self.plan_round(config);
        RefillResult::Undecided
    }

    /// Nothing was lost: the same train is sent again behind a longer burst.
    fn lengthen_burst(&mut self) -> RefillResult {
        self.refills_left -= 1;
        if let [burst, section] = self.sections[..] {
            self.rate_drop.used_up_packets = burst.packets * 3 / 2;
            self.sections_left.insert(0, section);
        }
        RefillResult::Undecided
    }

    /// What became of a rate that was looked for; none where the burst was not used up before.
    fn record_bisection(
        &mut self,
        bracket: RateBisection,
        part: Option<TrainPart>,
        config: &PolicingConfig,
    ) -> RefillResult {
        if part.is_none() && self.parts.is_empty() {
            return self.record_passed(config);
        }
        self.parts.extend(part);
        if part.is_none() {
            // There is more in the bucket than was known.
            self.rate_drop.used_up_packets *= 2;
        }
        let found = part.map_or(bracket.train_missed(), |TrainPart { rates, .. }| {
            bracket.add_train(&rates, rate_uncertainty(&rates, bracket.cross_traffic_rate(), config))
        });
        self.strategy = TrainStrategy::Bisection(found);
        self.sections_left = self.plan_round(config);
        match self.rate_drop.loss_cause(&self.parts, config) {
            LossCause::Random => RefillResult::NoBucket,
            _ if self.sections_left.is_empty() => RefillResult::Limited,
            _ => RefillResult::Undecided,
        }
    }

    /// Another round, if one is left.
    fn repeat_train(&mut self, config: &PolicingConfig) -> RefillResult {
        if self.rounds_left > 0 {
            self.rounds_left -= 1;
            self.sections_left = self.plan_round(config);
        }
        if self.sections_left.is_empty() { RefillResult::Limited } else { RefillResult::Undecided }
    }

    /// What the rates of all sections tell.
    fn finish(&mut self, config: &PolicingConfig) -> RefillResult {
        let is_random = || self.rate_drop.loss_cause(&self.parts, config) == LossCause::Random;
        match self.rate_drop.drop_course(&self.parts) {
            DropCourse::Limited if self.rate_drop.policing() == Some(ExcessAction::Drops) && is_random() => {
                RefillResult::NoBucket
            }
            DropCourse::Limited => RefillResult::Limited,
            DropCourse::Passed => self.record_passed(config),
            // Not at random, then: later trains do not tell.
            DropCourse::EqualLoss if self.rate_drop.is_clear() => {
                self.parts.clear();
                RefillResult::Limited
            }
            DropCourse::EqualLoss => RefillResult::NoBucket,
        }
    }

    /// What fell before has passed: the bucket is to be used up again if it may have held more than was known.
    fn record_passed(&mut self, config: &PolicingConfig) -> RefillResult {
        let fallen = &mut self.rate_drop;
        let had_filled = fallen.is_emptied && !config.is_bucket_hinted;
        if !had_filled && !fallen.is_clear() {
            return RefillResult::NoBucket;
        }
        if !had_filled {
            // It was not full before, and now more so.
            let sent = self.sections.first().map_or(0, |section| section.packets);
            fallen.used_up_packets = (fallen.used_up_packets * 2).max(sent);
        }
        fallen.is_emptied = false;
        self.begin_rounds(config);
        RefillResult::Undecided
    }
}

/// Packets that use up what is in the bucket.
fn used_up_packets(fallen: &RateDropState, now: Time, config: &PolicingConfig) -> u32 {
    if fallen.is_emptied { refilled_packets(fallen, now, config) } else { fallen.used_up_packets }
}

/// Packets that use up what has come into the bucket from the end of the train that used it up until now: tokens that its queue does
/// not need, of which cross traffic takes its part.
fn refilled_packets(fallen: &RateDropState, now: Time, config: &PolicingConfig) -> u32 {
    let seconds = (now - fallen.ended - fallen.last_wait).max(Span::ZERO).as_secs_f64();
    let packets = fallen.arrived_rate() * seconds / (f64::from(config.max_packet) * 8.0);
    let meanwhile = (1.0 - fallen.arrived_rate() / fallen.first_train.rate).max(MIN_EXCESS_PART);
    // Of a bucket that was not full before, it is not known how much more it holds.
    let most = if config.is_bucket_hinted { u32::MAX } else { fallen.used_up_packets };
    ((packets / meanwhile) as u32).min(most)
}

/// Of an interval, as a part of the value.
fn relative_half_width(found: &Estimate<Rate>) -> f64 {
    let [low, value, high] = [found.low, found.value, found.high].map(Rate::as_f64);
    (high - low) / 2.0 / value.max(1.0)
}
