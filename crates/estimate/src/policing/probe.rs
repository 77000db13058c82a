//! The loop: a look at the rate, and where it does not last, later trains at several rates.

use super::bucket_refill::{BucketRefill, RefillResult};
use super::config::PolicingConfig;
use super::growth_search::GrowthSearch;
use super::plan::{self, TrainSection};
use super::queueing::ShaperQueue;
use super::rate_drop::{PassedTrain, RateDropState, cross_deviation, rate_deviation};
use super::result::{ExcessAction, PolicingResult};
use super::train_rates::{self, MAX_DROP_PART, RateDrop, delays, is_cut_short};
use super::trend::QueueTrend;
use crate::method::Step;
use crate::packet_timing::{PacketTiming, packet_timings};
use crate::stats::random;
use kumade_probe_train::{Train, TrainRecord};
use kumade_units::{Rate, Span, Time};
use std::mem;

/// A rate lasts if what arrives falls by less than [`MAX_DROP_PART`], or so many times what cross traffic's packets make it vary by.
const MAX_STANDARD_DEVIATIONS: f64 = 4.0;
/// No part of a train leaves so many times as fast as planned unless the sender was held up before.
const MAX_CATCH_UP_RATIO: f64 = 1.2;
/// A queue in which every packet of a train waits for longer than this is no chance, nor a clock's drift.
const MIN_QUEUE: Span = Span::from_millis(3);
/// A train that hosts held up is sent again so often: …
const MAX_REPEATS: u32 = 2;
/// … one of which the growth varies by more than this and what cross traffic explains, …
const MIN_DISTURBANCE_SECONDS: f64 = 1e-3;
/// … so many of its standard deviations.
const MAX_EXPLAINED_RATIO: f64 = 2.0;
/// From fewer packets it is not told which part of them passes.
const MIN_PART_PACKETS: usize = 50;
/// No later train lasts longer.
const MAX_DURATION: Span = Span::from_secs(5);

/// Finds whether a rate lasts. The loop is that of a [`Method`](crate::Method): see the crate's contract.
#[derive(Debug)]
pub struct PolicingProbe {
    config: PolicingConfig,
    state: ProbeState,
    bytes: u64,
    started: Option<Time>,
    random: u64,
}

#[derive(Debug)]
enum ProbeState {
    Begin,
    /// A train of the look is next.
    FirstTrain(FirstTrain),
    AwaitingFirstTrain(FirstTrain),
    /// It fell, and another train is next.
    BucketRefill(BucketRefill),
    AwaitingBucketRefill(BucketRefill),
    /// The trains that followed tell what they can.
    BucketRefillDone(BucketRefill),
    /// A queue grew, and a slower train is next.
    GrowthSearch(GrowthSearch),
    AwaitingGrowthSearch(GrowthSearch),
    Done(PolicingResult),
}

/// The trains that show whether the rate lasts, one as soon as the other has arrived.
#[derive(Debug)]
struct FirstTrain {
    /// Each of them.
    section: TrainSection,
    /// So many are left, the one on its way included.
    trains_left: u32,
    /// Of those that have passed.
    passed_train: PassedTrain,
    /// When the one on its way was to begin.
    began: Time,
    /// By how much the delay grew in the last ones, as far as it was no host's work.
    trend: Option<QueueTrend>,
    /// So often one is sent again, if hosts held it up.
    repeats_left: u32,
    /// Whether it is at [`PolicingConfig::faster_rate`].
    is_at_faster_rate: bool,
    /// What is known if the others tell nothing.
    current_result: Option<PolicingResult>,
}

impl PolicingProbe {
    /// Starts knowing nothing but the rate.
    pub fn new(config: PolicingConfig) -> Self {
        PolicingProbe { config, state: ProbeState::Begin, bytes: 0, started: None, random: config.seed }
    }

    /// Whether it may have another train sent.
    pub fn sends_more(&self) -> bool {
        !matches!(self.state, ProbeState::BucketRefillDone(_) | ProbeState::Done(_))
    }

    /// On how many connections packets are in turn, see [`PolicingConfig::connections`]: they may be opened anew, and be more or fewer then.
    pub fn connections_mut(&mut self) -> Option<&mut u32> {
        self.config.connections.as_mut()
    }

    /// What to do now. `now` may come from any clock that runs steadily.
    pub fn next(&mut self, now: Time) -> Step<PolicingResult> {
        self.started.get_or_insert(now);
        let (state, step) = match mem::replace(&mut self.state, ProbeState::Begin) {
            ProbeState::Begin => self.begin_probe(now),
            ProbeState::FirstTrain(look) => self.send_first_train(look, now),
            // No record came.
            ProbeState::AwaitingFirstTrain(look) => self.end_probe(
                look.current_result.unwrap_or(PolicingResult::NotTried("no packet of the longer train arrived")),
            ),
            ProbeState::BucketRefill(later) => self.continue_refill(later, now),
            ProbeState::AwaitingBucketRefill(later) => self.finish_limited(later, now),
            ProbeState::BucketRefillDone(later) => self.finish_limited(later, now),
            ProbeState::GrowthSearch(slower) => self.continue_growth_search(slower, now),
            ProbeState::AwaitingGrowthSearch(slower) => self.continue_growth_search(slower, now),
            ProbeState::Done(found) => self.end_probe(found),
        };
        self.state = state;
        step
    }

    /// What became of the train that [`next`](Self::next) last asked for.
    pub fn record(&mut self, record: &TrainRecord) {
        self.state = match mem::replace(&mut self.state, ProbeState::Begin) {
            ProbeState::AwaitingFirstTrain(look) => {
                match train_rates::undisturbed_part(packet_timings(record), look.section.rate) {
                    Some(train) => self.record_first_train(look, train, record),
                    None => ProbeState::Done(
                        look.current_result.unwrap_or(PolicingResult::NotTried("a host held up the longer train")),
                    ),
                }
            }
            ProbeState::AwaitingBucketRefill(later) => self.record_refill(later, record),
            ProbeState::AwaitingGrowthSearch(mut slower) => {
                if let Some(train) = train_rates::undisturbed_part(packet_timings(record), slower.newest_section().rate)
                {
                    slower.add_train(&train);
                }
                ProbeState::GrowthSearch(slower)
            }
            other => other,
        };
    }

    /// The train that [`next`](Self::next) last asked for was carried, but its record is of no use: too few stamps are known.
    pub fn train_spoiled(&mut self) {
        if let ProbeState::AwaitingFirstTrain(look) = &mut self.state {
            let untried = PolicingResult::NotTried("the receiver did not stamp the packets of the longer train");
            self.state = ProbeState::Done(look.current_result.take().unwrap_or(untried));
        }
    }

    fn begin_probe(&mut self, now: Time) -> (ProbeState, Step<PolicingResult>) {
        match plan::plan_first_train(&self.config) {
            Some((left, section)) => {
                let look = FirstTrain {
                    section,
                    trains_left: left,
                    passed_train: PassedTrain::default(),
                    began: now,
                    trend: None,
                    repeats_left: MAX_REPEATS,
                    is_at_faster_rate: false,
                    current_result: None,
                };
                self.send_first_train(look, now)
            }
            None => self.end_probe(PolicingResult::NotTried(
                "the path is too slow, or the budget too small, for a longer train",
            )),
        }
    }

    fn send_first_train(&mut self, look: FirstTrain, now: Time) -> (ProbeState, Step<PolicingResult>) {
        let train = plan::to_train(&[look.section], self.config.max_packet, &mut self.random);
        let elapsed = look.passed_train.elapsed + (now - look.began);
        let step = self.send_train(Span::ZERO, train);
        (
            ProbeState::AwaitingFirstTrain(FirstTrain {
                passed_train: PassedTrain { elapsed, ..look.passed_train },
                began: now,
                ..look
            }),
            step,
        )
    }

    /// Whether every packet of the train waited, as where a queue was full before, or where others' packets are dropped to make
    /// room for these. Where other trains have filled a bucket's queue, it is theirs.
    fn has_queue(&self, record: &TrainRecord) -> bool {
        // Those that showed the least delay may have been small.
        let passing = Span::from_secs_f64(self.passing_seconds());
        let most = MIN_QUEUE + passing + self.config.idle_delay_variation;
        let is_long = |(least, idle): (Span, Span)| least - idle > most;
        !self.config.is_bucket_hinted && delays(record).min().zip(self.config.min_delay).is_some_and(is_long)
    }

    fn record_first_train(&self, look: FirstTrain, train: Vec<PacketTiming>, record: &TrainRecord) -> ProbeState {
        let finds_queue = self.has_queue(record);
        let section = look.section;
        let fall = match self.config.connections {
            Some(connections) => train_rates::find_rate_drop_over_connections(connections, &train),
            None => train_rates::find_rate_drop(&train),
        };
        let fallen = fall.filter(|fall| {
            self.is_rate_drop(&train[fall.index..], fall, section.rate) || train_rates::drops_suddenly(&train, fall)
        });
        let whole = || {
            let fall = RateDrop { index: 0, rates: train_rates::part_rates(&train)?, sent_after_seconds: 0.0 };
            self.is_rate_drop(&train, &fall, section.rate).then_some(fall)
        };
        match fallen.or_else(whole) {
            fall if look.is_at_faster_rate => {
                match fall.map(|fall| self.record_rate_drop(&look, train, fall, record)) {
                    Some(fallen) if fallen.policing() == Some(ExcessAction::Drops) => {
                        ProbeState::BucketRefill(BucketRefill::new(fallen, &self.config))
                    }
                    _ => ProbeState::Done(look.current_result.unwrap_or_else(|| overload_result(section.rate))),
                }
            }
            _ if finds_queue => ProbeState::Done(overload_result(section.rate)),
            certain if self.config.is_lossy => self.record_partly_passed(look, &train, certain.or(fall)),
            Some(fall) => ProbeState::BucketRefill(BucketRefill::new(
                self.record_rate_drop(&look, train, fall, record),
                &self.config,
            )),
            None if is_cut_short(&train, section.packets) => {
                self.send_faster_train(look, overload_result(section.rate))
            }
            None if train.len() < 4 => ProbeState::Done(
                look.current_result.unwrap_or(PolicingResult::NotTried("no packet of the longer train arrived")),
            ),
            None => self.record_passed(look, &train),
        }
    }

    fn record_rate_drop(
        &self,
        look: &FirstTrain,
        train: Vec<PacketTiming>,
        fall: RateDrop,
        record: &TrainRecord,
    ) -> RateDropState {
        let FirstTrain { section, passed_train: passed, began, .. } = *look;
        let least = delays(record).chain(self.config.min_delay).min();
        let queued = delays(record).last().zip(least).map_or(Span::ZERO, |(last, least)| last - least);
        let seen = self
            .config
            .connections
            .filter(|_| train_rates::classify_excess_action(&train, &fall) == Some(ExcessAction::Drops));
        let used_up = passed.packets + fall.index as u32;
        let seen =
            seen.and_then(|connections| train_rates::part_rates_over_connections(connections, &train, fall.index));
        let fall = RateDrop { rates: seen.unwrap_or(fall.rates), ..fall };
        let ended = began + section.duration(self.config.max_packet);
        let fallen = RateDropState {
            first_train: section,
            passed,
            train,
            rate_drop: fall,
            used_up_packets: used_up,
            ended,
            last_wait: queued,
            queue: None,
            is_emptied: true,
        };
        let is_queued = fallen.policing() == Some(ExcessAction::Delays);
        let queue = if is_queued {
            ShaperQueue::from_train(record, fallen.arrived_rate(), self.config.min_delay)
        } else {
            None
        };
        RateDropState { queue, ..fallen }
    }

    /// One train of the look has passed.
    fn record_passed(&self, mut look: FirstTrain, train: &[PacketTiming]) -> ProbeState {
        let section = look.section;
        let duration = section.duration(self.config.max_packet);
        let trend = QueueTrend::from_train(train);
        if trend.is_some_and(|trend| trend.grows(self.config.arrives_one_by_one)) {
            return self.record_growth(section, train, look.began + duration);
        }
        let is_disturbed = self.config.arrives_one_by_one
            && trend.is_some_and(|trend| trend.error() > self.explained_deviation(duration.as_secs_f64()));
        let trend = [trend, look.trend].into_iter().flatten().reduce(QueueTrend::combined_with);
        look.trend = trend.filter(|_| is_disturbed);
        let waiting = train_rates::waiting_fraction(train, self.passing_seconds());
        // A host that is too slow for the rate shows that less lasts.
        let sent = train_rates::part_rates(train).map_or(section.rate, |rates| rates.sending_rate.min(section.rate));
        let lasts = self.sustained_result(sent, trend.map_or(0.0, |trend| trend.max_growth()), waiting);
        let bytes = u64::from(section.packets * self.config.max_packet);
        match (look.trains_left, look.repeats_left) {
            (2.., _) => look.trains_left -= 1,
            (_, 1..) if is_disturbed && self.bytes + bytes <= self.config.budget_bytes => look.repeats_left -= 1,
            _ => return self.send_faster_train(look, lasts),
        }
        let PassedTrain { packets, sending_time: sending, .. } = look.passed_train;
        let passed =
            PassedTrain { packets: packets + section.packets, sending_time: sending + duration, ..look.passed_train };
        ProbeState::FirstTrain(FirstTrain { passed_train: passed, current_result: Some(lasts), ..look })
    }

    /// The look at a rate has shown this, and no limit: a faster one may be tried.
    fn send_faster_train(&self, look: FirstTrain, so_far: PolicingResult) -> ProbeState {
        let faster =
            self.config.faster_rate.filter(|faster| faster.as_f64() > look.section.rate && !look.is_at_faster_rate);
        let section = faster.map(|faster| TrainSection { rate: faster.as_f64(), ..look.section });
        let is_affordable = |section: &TrainSection| {
            self.bytes + u64::from(section.packets * self.config.max_packet) <= self.config.budget_bytes
        };
        match section.filter(is_affordable) {
            Some(section) => ProbeState::FirstTrain(FirstTrain {
                section,
                trains_left: 1,
                trend: None,
                repeats_left: 0,
                is_at_faster_rate: true,
                current_result: Some(so_far),
                ..look
            }),
            None => ProbeState::Done(so_far),
        }
    }

    /// A train of the look has passed, of which packets may be lost at any rate, but for what is behind the fall.
    fn record_partly_passed(&self, look: FirstTrain, train: &[PacketTiming], fall: Option<RateDrop>) -> ProbeState {
        // A few packets at the end tell nothing.
        let index = fall.map_or(0, |fall| fall.index).min(train.len().saturating_sub(MIN_PART_PACKETS));
        let seen = self
            .config
            .connections
            .and_then(|connections| train_rates::part_rates_over_connections(connections, train, index));
        let Some(rates) = seen.or_else(|| train_rates::part_rates(&train[index..])) else {
            return ProbeState::Done(PolicingResult::NotTried("no packet of the longer train arrived"));
        };
        // A queue may have grown first, and then overflowed.
        let growth = rates.delay_growth.max(train_rates::delay_growth(&train[index..]));
        let arrived = Rate::from_f64(look.section.rate * (1.0 - rates.lost_part) / (1.0 + growth));
        let least = match look.current_result {
            Some(PolicingResult::PassesPartly { arrival_rate: before, .. }) => arrived.min(before),
            _ => arrived,
        };
        let found = PolicingResult::PassesPartly {
            bytes: self.bytes,
            rate: Rate::from_f64(look.section.rate),
            arrival_rate: least,
        };
        match look.trains_left {
            2.. => ProbeState::FirstTrain(FirstTrain {
                trains_left: look.trains_left - 1,
                current_result: Some(found),
                ..look
            }),
            _ => ProbeState::Done(found),
        }
    }

    /// A queue grew in a train of the look, which ended then: slower ones follow, if delays tell how fast queues grow.
    fn record_growth(&self, section: TrainSection, train: &[PacketTiming], ended: Time) -> ProbeState {
        let overloads = overload_result(section.rate);
        match self.config.arrives_one_by_one {
            true => ProbeState::GrowthSearch(GrowthSearch::new(section, train, ended, overloads)),
            false => ProbeState::Done(overloads),
        }
    }

    /// Whether so much less arrived, for so long, that cross traffic is not the cause, nor a sender that makes up for having been held up.
    fn is_rate_drop(&self, part: &[PacketTiming], fall: &RateDrop, planned: f64) -> bool {
        if fall.rates.sending_rate > MAX_CATCH_UP_RATIO * planned {
            return false;
        }
        let (Some(first), Some(last)) = (part.first(), part.last()) else { return false };
        let seconds = last.sent - first.sent;
        let bits = fall.rates.sending_rate * seconds;
        let allowed =
            MAX_DROP_PART.max(MAX_STANDARD_DEVIATIONS * cross_deviation(&self.config, seconds) / bits.max(1.0));
        let by_loss = fall.rates.lost_part > allowed / 2.0;
        1.0 - 1.0 / fall.rates.ratio() > allowed && (by_loss || train_rates::queue_grows(part))
    }

    /// The next train behind one that fell; none where a budget does not allow it.
    fn continue_refill(&mut self, mut later: BucketRefill, now: Time) -> (ProbeState, Step<PolicingResult>) {
        let (wait, sections) = later.next_train(now, &self.config);
        match self.train_from_sections(&sections, now + wait) {
            Some(train) => {
                later.train_sent(sections, now + wait + train.duration());
                let step = self.send_train(wait, train);
                (ProbeState::AwaitingBucketRefill(later), step)
            }
            None => self.finish_limited(later, now),
        }
    }

    /// The train of these sections, if there are any and it may be sent then.
    fn train_from_sections(&mut self, sections: &[TrainSection], at: Time) -> Option<Train> {
        let PolicingConfig { max_packet, max_packets, budget_bytes, budget_time, .. } = self.config;
        let train = plan::to_train(sections, max_packet, &mut self.random);
        let is_in_time = self.started.is_none_or(|started| at + train.duration() - started <= budget_time);
        let is_affordable =
            self.bytes + train.bytes() <= budget_bytes && train.duration() <= MAX_DURATION && is_in_time;
        (is_affordable && train.packet_count() <= max_packets && train.check(max_packet).is_ok()).then_some(train)
    }

    /// The end of trains that followed one that fell, unless it is a queue that grows, and they do not tell what is available.
    fn finish_limited(&mut self, later: BucketRefill, now: Time) -> (ProbeState, Step<PolicingResult>) {
        if later.loses_for_unknown_cause(&self.config) {
            return self.end_probe(PolicingResult::LosesPackets { rate: Rate::from_f64(later.tried_rate()) });
        }
        let limiter = later.to_limiter(&self.config);
        let is_queue =
            limiter.excess_action == Some(ExcessAction::Delays) && !later.has_burst() && limiter.available.is_none();
        if !is_queue || !self.config.arrives_one_by_one {
            return self.end_probe(PolicingResult::Limited(limiter));
        }
        let (look, train, ended) = later.first_train();
        self.continue_growth_search(GrowthSearch::new(look, train, ended, PolicingResult::Limited(limiter)), now)
    }

    /// The next slower train, if it tells more and a budget allows it.
    fn continue_growth_search(&mut self, mut slower: GrowthSearch, now: Time) -> (ProbeState, Step<PolicingResult>) {
        let random = random(&mut self.random);
        let next = slower.next_train(now, &self.config, random);
        match next.and_then(|(wait, section)| Some((wait, self.train_from_sections(&[section], now + wait)?))) {
            Some((wait, train)) => {
                let step = self.send_train(wait, train);
                (ProbeState::AwaitingGrowthSearch(slower), step)
            }
            None => self.end_probe(slower.into_result(&self.config)),
        }
    }

    fn record_refill(&self, mut later: BucketRefill, record: &TrainRecord) -> ProbeState {
        match later.record_train(record, &self.config) {
            RefillResult::Undecided => ProbeState::BucketRefill(later),
            RefillResult::Limited => ProbeState::BucketRefillDone(later),
            RefillResult::NoBucket => ProbeState::Done(self.sustained_result(later.tried_rate(), 0.0, None)),
        }
    }

    fn sustained_result(&self, rate: f64, max_growth: f64, waiting: Option<f64>) -> PolicingResult {
        PolicingResult::Sustainable { bytes: self.bytes, rate: Rate::from_f64(rate), max_growth, waiting_part: waiting }
    }

    /// By how much the growth of a train of so many seconds varies where cross traffic is the cause, and hosts are not.
    fn explained_deviation(&self, seconds: f64) -> f64 {
        let narrow = self.config.rate.as_f64() + self.config.max_cross_rate.as_f64();
        MIN_DISTURBANCE_SECONDS
            + MAX_EXPLAINED_RATIO * rate_deviation(self.config.expected_cross_rate, &self.config, seconds)
                / (narrow * seconds)
    }

    /// How long the narrow link takes for a packet.
    fn passing_seconds(&self) -> f64 {
        f64::from(self.config.max_packet) * 8.0 / (self.config.rate.as_f64() + self.config.max_cross_rate.as_f64())
    }

    fn send_train(&mut self, wait: Span, train: Train) -> Step<PolicingResult> {
        self.bytes += train.bytes();
        Step::Send { wait, train }
    }

    fn end_probe(&self, found: PolicingResult) -> (ProbeState, Step<PolicingResult>) {
        (ProbeState::Done(found.clone()), Step::Done(found))
    }
}

/// More than is available, of which nothing else is known.
fn overload_result(rate: f64) -> PolicingResult {
    PolicingResult::Overloads { rate: Rate::from_f64(rate), available: None }
}
