//! What a link leaves that serves packets in turns, or whose rate varies: a radio link, or one before a receiver that collects packets.
//!
//! Each train spans many turns. Its fast part fills a queue, and its slow one, sent at about the rate that is available, keeps the queue
//! from being empty for long enough. While a FIFO link is never idle, what it carries is what arrives: let a part of a train, of b bits,
//! take T seconds to be sent and S to arrive, beside cross traffic of the rate x. Then the link carried
//!
//! ```text
//! C = (b + x · T) / S,   which leaves   C − x = b / S − x · (1 − T / S)
//! ```
//!
//! Where the queue is as long at the end as at the beginning, T = S, and x does not matter. How much it is else shows in how the two parts
//! of each train differ: C changes from train to train, but little within one. (TOPP compares rates in the same way on links that do not
//! vary: Melander, Björkman, Gunningberg, GLOBECOM 2000. A queue that is filled first is that of this crate's own method.) How much C
//! varies shows in the interval.

mod losses;
mod plan;
mod result;
mod sample;
#[cfg(test)]
mod tests;

pub use plan::VaryingLinkConfig;
pub use result::VaryingLink;

use crate::method::Step;
use crate::packet_timing::packet_timings;
use crate::stats::{mean, median, random};
use kumade_probe_train::TrainRecord;
use kumade_units::{Rate, Span, Time};
use losses::LossWaits;
use plan::{TrainPlan, VaryingLinkFacts};
use result::{VaryingLinkFit, WeightedSample};
use sample::{UnusableTrain, VaryingTrainSample};

/// So many trains with a reading are enough, …
const MAX_SAMPLES: usize = 24;
/// … and fewer than this, or than this with a reading of either part, tell nothing.
const MIN_SAMPLES: usize = 8;
const MIN_SPLIT_SAMPLES: usize = 4;
/// This part of the readings has to be of both parts.
const MIN_SPLIT_SAMPLES_PART: f64 = 1.0 / 3.0;
/// With more trains without a reading than this part of all, the others would not be a fair sample.
const MAX_UNUSABLE_PART: f64 = 0.2;
/// Until the first reading, so many trains may find no queue.
const MAX_TRAINS_BEFORE_SAMPLE: u32 = 8;
/// Of so many readings of both parts, the cross traffic is known well enough to plan the next train.
const MIN_SPLIT_SAMPLES_TO_PLAN: usize = 3;
/// From one train's start to the next one's, in seconds: stations adapt their rates every 50 ms or so.
const MIN_SPACING_SECONDS: f64 = 0.08;
/// Trains are this part of their length apart at least.
const MIN_PAUSE_TRAIN_RATIO: f64 = 0.5;
/// Pauses are longer by up to this part, at random: trains must not follow what the link does periodically.
const RANDOM_PAUSE_PART: f64 = 0.2;
/// No pause is longer, in seconds.
const MAX_PAUSE_SECONDS: f64 = 2.0;
/// A queue drains in so many times the time that its last packet waited: where that is not known, and at most.
const USUAL_DRAIN_RATIO: f64 = 3.0;
const MAX_DRAIN_RATIO: f64 = 10.0;

/// Measures what such a link leaves. The loop is that of a [`Method`](crate::Method): see the crate's contract.
#[derive(Debug)]
pub struct VaryingLinkProbe {
    config: VaryingLinkConfig,
    plan: TrainPlan,
    /// What trains said, and when they were sent.
    samples: Vec<(Time, VaryingTrainSample)>,
    losses: LossWaits,
    /// Trains before the first reading, and later ones without one.
    trains_before_sample: u32,
    unusable_trains: u32,
    /// Packets of the fast part of the train on its way.
    fast_packets: u32,
    bytes: u64,
    started: Option<Time>,
    /// How long the last train was, and how long its last packets waited, in seconds.
    last_train_seconds: Option<(f64, f64)>,
    random: u64,
}

impl VaryingLinkProbe {
    /// Starts with no train sent.
    pub fn new(config: VaryingLinkConfig) -> Self {
        VaryingLinkProbe {
            plan: TrainPlan::new(config.rate.as_f64()),
            samples: Vec::new(),
            losses: LossWaits::default(),
            trains_before_sample: 0,
            unusable_trains: 0,
            fast_packets: 0,
            bytes: 0,
            started: None,
            last_train_seconds: None,
            random: config.seed,
            config,
        }
    }

    /// What to do now. The result is what was available on average; none where too few trains tell.
    pub fn next(&mut self, now: Time) -> Step<Option<VaryingLink>> {
        let started = *self.started.get_or_insert(now);
        let known = self.facts();
        let (train, fast_packets) = self.plan.plan_train(&known, &self.config);
        let wait = self.pause();
        let is_within = self.bytes + train.bytes() <= plan::byte_budget(&known, &self.config)
            && now - started + wait + train.duration() <= self.config.budget_time
            && train.check(self.config.max_packet_bytes).is_ok();
        if !is_within || self.is_done() {
            return Step::Done(self.varying_link());
        }
        self.fast_packets = fast_packets;
        self.last_train_seconds = Some((train.duration().as_secs_f64(), 0.0));
        self.bytes += train.bytes();
        Step::Send { wait, train }
    }

    /// What became of the train that [`next`](Self::next) last asked for.
    pub fn record(&mut self, record: &TrainRecord) {
        let passages = packet_timings(record);
        self.losses.add_train(&passages);
        if let Some((_, waited)) = &mut self.last_train_seconds {
            *waited = sample::last_packet_wait(&passages);
        }
        let read = VaryingTrainSample::from_arrivals(&passages, self.fast_packets as usize);
        let sent = record.packets.iter().find_map(|packet| packet.sent);
        match read.ok().zip(sent) {
            Some((reading, sent)) => self.samples.push((sent, reading)),
            None => self.count_unusable(),
        }
        let fast: Vec<f64> = self.split_samples().map(|(fast, _)| fast.rate()).collect();
        self.plan.adapt(&read, sample::has_overflowed(&passages), median(&fast));
    }

    /// The last train cannot be read.
    pub fn train_spoiled(&mut self) {
        self.count_unusable();
        self.plan.adapt(&Err(UnusableTrain::TooManyLost), true, None);
    }

    /// What is available as far as it is known, for timeouts.
    pub fn so_far(&self) -> Option<Rate> {
        Some(Rate::from_f64(self.fit()?.available.max(0.0)))
    }

    fn count_unusable(&mut self) {
        if self.samples.is_empty() {
            self.trains_before_sample += 1;
        } else {
            self.unusable_trains += 1;
        }
    }

    fn is_done(&self) -> bool {
        let is_lost =
            self.trains_before_sample > MAX_TRAINS_BEFORE_SAMPLE || self.unusable_trains as usize > MAX_SAMPLES;
        self.samples.len() >= MAX_SAMPLES || is_lost
    }

    /// Until the queue has drained, and what the link does is not as before.
    fn pause(&mut self) -> Span {
        let Some((seconds, waited)) = self.last_train_seconds else { return Span::ZERO };
        let drain = |fit: VaryingLinkFit| {
            (fit.carried / fit.available.max(fit.carried / MAX_DRAIN_RATIO)).clamp(1.0, MAX_DRAIN_RATIO)
        };
        let drained = waited * self.fit().map_or(USUAL_DRAIN_RATIO, drain);
        let least = (MIN_SPACING_SECONDS - seconds).max(MIN_PAUSE_TRAIN_RATIO * seconds);
        let pause = drained.max(least) * (1.0 + RANDOM_PAUSE_PART * random(&mut self.random));
        Span::from_secs_f64(pause.min(MAX_PAUSE_SECONDS))
    }

    fn facts(&self) -> VaryingLinkFacts {
        let rates: Vec<f64> = self.samples.iter().map(|(_, reading)| reading.whole_train.rate()).collect();
        let turns: Vec<f64> = self.samples.iter().map(|(_, reading)| reading.period_seconds).collect();
        let fit = self.fit();
        VaryingLinkFacts {
            available: fit.map(|fit| fit.available).or((!rates.is_empty()).then(|| mean(&rates))),
            link_rate: fit.map(|fit| fit.carried),
            period: median(&turns).unwrap_or(self.config.period.as_secs_f64()),
        }
    }

    fn split_samples(&self) -> impl Iterator<Item = (sample::TrainPart, sample::TrainPart)> + '_ {
        self.samples.iter().filter_map(|(_, reading)| reading.parts)
    }

    fn fit(&self) -> Option<VaryingLinkFit> {
        (self.split_samples().count() >= MIN_SPLIT_SAMPLES_TO_PLAN)
            .then(|| VaryingLinkFit::fit_samples(&self.weighted_samples()))?
    }

    /// The readings, each with the time that it stands for.
    fn weighted_samples(&self) -> Vec<WeightedSample> {
        let last = self.samples.len().saturating_sub(1);
        let seconds = |place: usize| {
            let (before, after) = (place.saturating_sub(1), (place + 1).min(last));
            let between = (self.samples[after].0 - self.samples[before].0).as_secs_f64();
            if between > 0.0 { between / (after - before) as f64 } else { 1.0 }
        };
        self.samples.iter().enumerate().map(|(place, (_, reading))| (seconds(place), *reading)).collect()
    }

    fn varying_link(&self) -> Option<VaryingLink> {
        let (count, parts) = (self.samples.len(), self.split_samples().count());
        let is_enough =
            count >= MIN_SAMPLES && parts >= MIN_SPLIT_SAMPLES && parts as f64 >= MIN_SPLIT_SAMPLES_PART * count as f64;
        let is_fair =
            f64::from(self.unusable_trains) <= MAX_UNUSABLE_PART * (f64::from(self.unusable_trains) + count as f64);
        let is_policed = self.losses.are_losses_without_queue();
        (is_enough && is_fair)
            .then(|| VaryingLink::from_samples(&self.weighted_samples(), is_policed, self.config.seed))?
    }
}
