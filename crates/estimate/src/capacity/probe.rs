//! The loop: which train comes next, and the result.

use super::config::CapacityConfig;
use super::filter::CapacityEstimate;
use super::long_train::LongTrain;
use super::observations::{Observations, TrainPurpose};
use super::plan;
use super::reason::CapacityReason;
use super::result::Capacity;
use super::shaping;
use crate::method::Step;
use crate::rejection::Rejection;
use kumade_probe_train::{Train, TrainRecord};
use kumade_units::{Rate, Span, Time};
use std::collections::BTreeMap;

/// After so many unusable trains in a row nothing more is tried.
const MAX_FAILURES_IN_ROW: u32 = 3;
/// The link behind a token bucket is known well enough at this half width of the interval, as a part of the value.
const PEAK_RATE_RELATIVE_PRECISION: f64 = 0.04;
/// Long trains sent to see whether a change of rate is reproduced.
const MAX_LONG_TRAINS: usize = 6;

/// In the time that so many packets take on a slow path there is a value, …
const MAX_PACKETS_OF_LINK: f64 = 120.0;
/// … and in this where bursts are longer, and the bucket fills again before each.
const MAX_PACKETS_BEHIND_BUCKET: f64 = 450.0;

/// Finds the capacity. The loop is that of a [`Method`](crate::Method): see the crate's contract.
#[derive(Debug)]
pub struct CapacityProbe {
    config: CapacityConfig,
    started: Option<Time>,
    sent_purpose: Option<TrainPurpose>,
    observations: Observations,
    rejected: BTreeMap<Rejection, u32>,
    failures_in_row: u32,
    bytes: u64,
    random: u64,
}

impl CapacityProbe {
    /// The largest number of packets in one train.
    pub const MAX_PACKETS: u32 = plan::MAX_PACKETS;

    /// Starts knowing nothing of the path.
    pub fn new(config: CapacityConfig) -> Self {
        CapacityProbe {
            config,
            started: None,
            sent_purpose: None,
            observations: Observations::new(config.max_packet),
            rejected: BTreeMap::new(),
            failures_in_row: 0,
            bytes: 0,
            random: config.seed,
        }
    }

    /// What to do now. `now` may come from any clock that runs steadily.
    pub fn next(&mut self, now: Time) -> Step<Capacity> {
        let started = *self.started.get_or_insert(now);
        if self.sent_purpose.take().is_some() {
            self.count_rejection(Rejection::PacketsMissing);
        }
        let Some((purpose, wait, train)) = self.plan_train() else {
            return Step::Done(self.outcome());
        };
        let spent = self.bytes.saturating_add(train.bytes());
        let too_long = now - started + wait + train.duration() > self.time_limit();
        if spent > self.config.budget_bytes || too_long {
            return Step::Done(self.outcome());
        }
        self.bytes = spent;
        self.sent_purpose = Some(purpose);
        Step::Send { wait, train }
    }

    /// What became of the train that [`next`](Self::next) last asked for.
    pub fn record(&mut self, record: &TrainRecord) {
        let Some(purpose) = self.sent_purpose.take() else { return };
        match self.observations.add_train(record, purpose) {
            Ok(()) => self.failures_in_row = 0,
            Err(why) => self.count_rejection(why),
        }
    }

    /// A rough figure for a progress display, and for how long a train may take.
    pub fn current_estimate(&self) -> Option<Rate> {
        self.observations.rough_rate()
    }

    fn plan_train(&mut self) -> Option<(TrainPurpose, Span, Train)> {
        let max_packet = self.config.max_packet;
        if self.failures_in_row >= MAX_FAILURES_IN_ROW {
            return None;
        }
        let Some(rate) = self.observations.bits_per_second() else {
            return Some((TrainPurpose::Scout, Span::ZERO, plan::plan_initial_train(max_packet)));
        };
        if let Some((wait, train)) = self.plan_long_train(rate) {
            return Some((TrainPurpose::LongTrain, wait, train));
        }
        let bucket = self.observations.reproduced_change().filter(|change| !change.is_small_bucket());
        let (max_packets, pace) = match &bucket {
            Some(change) => (change.burst_bits / (8.0 * f64::from(max_packet)) * 0.8, change.rate_after),
            None => (f64::INFINITY, rate),
        };
        let shapes = plan::burst_shapes(
            rate,
            self.observations.sending_gap_seconds,
            max_packets,
            self.config.stamp_scatter,
            (max_packet, self.observations.small_bucket),
        );
        let tried = self.observations.burst_trains;
        if shapes.len() < 2 || tried >= plan::MAX_BURST_TRAINS || (tried > 0 && self.is_precise()) {
            return None;
        }
        let random = self.random();
        let (order, train) = plan::plan_burst_train(
            &shapes,
            pace,
            self.observations.sending_gap_seconds,
            random,
            self.config.max_packets,
        );
        let wait = plan::pause_time(bucket.map(|change| change.burst_bits / change.rate_after), self.random());
        Some((TrainPurpose::Bursts(order), wait, train))
    }

    /// The next long train, as long as it is open whether the path is shaped.
    fn plan_long_train(&self, rate: f64) -> Option<(Span, Train)> {
        let packets = (self.config.max_packet, self.config.max_packets);
        let (seen, trains, slow) = (
            self.observations.fullest_change(),
            self.observations.rate_changes_looked_for(),
            self.observations.slowest_rate(),
        );
        let train = match seen {
            Some(change) if change.is_slight() && trains >= MAX_LONG_TRAINS - 2 => None,
            _ if trains >= MAX_LONG_TRAINS || self.observations.reproduced_change().is_some() => None,
            Some(change) => Some(plan::plan_repeated_train(change.packets_before, packets)),
            // One that arrived much slower than a few packets may have been shaped, and disturbed besides.
            None if trains < 2 || (trains < MAX_LONG_TRAINS / 2 && slow.is_some()) => {
                plan::plan_long_train(rate, trains > 0 && slow.is_none(), packets)
            }
            None => None,
        };
        Some((self.refill_time(), train?))
    }

    /// How long to wait before a long train, so that the bucket is full.
    fn refill_time(&self) -> Span {
        let Some(change) = self.observations.fullest_change() else {
            // What arrived much slower than a few packets has left a queue behind.
            return plan::drain_time(self.observations.slowest_rate(), self.observations.last_long_train_bits);
        };
        let failed = self.observations.failures_since(change);
        plan::refill_time(
            change.burst_bits / change.rate_after,
            self.observations.last_long_train_bits / change.rate_after,
            failed,
        )
    }

    /// Whether the capacity is known well enough.
    fn is_precise(&self) -> bool {
        match self.observations.estimate_capacity(self.config.seed) {
            // What is committed is known; and whether flows are served in turn, as far as it can be.
            _ if self.observations.reproduced_change().is_some_and(|change| change.is_small_bucket()) => {
                self.observations.shows_round_robin()
            }
            Ok(reading) if self.observations.reproduced_change().is_some() => {
                reading.half_width() <= PEAK_RATE_RELATIVE_PRECISION
            }
            Ok(reading) => reading.half_width() <= self.config.precision,
            Err(CapacityReason::SendingSlower(_) | CapacityReason::SmallBucket) => true,
            Err(_) => false,
        }
    }

    fn outcome(&self) -> Capacity {
        let read = self.observations.estimate_capacity(self.config.seed);
        let reading = read.as_ref().ok().map(CapacityEstimate::estimate);
        let large = self.observations.confirmed_change().map(|change| {
            let peak = reading.filter(|peak| peak.low.as_f64() > change.rate_after);
            shaping::shaper_estimate(&change, &self.observations.credible_changes(), peak)
        });
        let small = reading.and_then(|rate| self.observations.small_bucket.shaper(rate, self.config.max_packet));
        let shaper = large.or(small);
        let is_sender_limited = matches!((&shaper, &read), (None, Err(CapacityReason::SendingSlower(_))));
        let found = match (&shaper, read) {
            (Some(shaper), _) => Ok(shaper.committed_rate),
            (None, Ok(reading)) if self.observations.scouted_rate.is_some() => Ok(reading.estimate()),
            (None, read) => Err(read.err()),
        };
        let is_indefinite = matches!(&found, Err(Some(refusal)) if refusal.is_indefinite());
        let (bottleneck, at_least, reason) = match found {
            Ok(estimate) => (Some(estimate), None, None),
            Err(refusal) => {
                let seen = self.observations.scouted_rate.and(refusal.as_ref());
                (None, seen.and_then(CapacityReason::lower_bound), Some(self.unknown_reason(refusal)))
            }
        };
        let slowest = self.observations.long_trains.iter().map(LongTrain::rate).reduce(f64::min);
        let pace = bottleneck.map(|rate| rate.value.as_f64()).or(slowest);
        let bursts_used = (self.observations.bursts.len() + self.observations.long_trains.len()) as u32;
        let long = |of: fn(f64, f64) -> f64| {
            self.observations.long_trains.iter().map(LongTrain::rate).reduce(of).map(Rate::from_f64)
        };
        Capacity {
            bottleneck_rate: bottleneck,
            lower_bound: at_least,
            is_indefinite,
            reason,
            is_sender_limited,
            shaper,
            fastest_burst_rate: self.observations.fastest_burst().map(Rate::from_f64),
            waiting_fraction: self.observations.waiting_fraction(),
            is_disordered: self.observations.is_disordered,
            has_small_bucket: self.observations.small_bucket.is_present(),
            may_be_round_robin: pace.is_none_or(|rate| self.observations.may_be_round_robin(rate)),
            slowest_long_train_rate: long(f64::min),
            fastest_long_train_rate: long(f64::max),
            median_burst_bits: median_or_zero(self.observations.bursts.iter().map(|burst| burst.bits)),
            median_train_bits: median_or_zero(self.observations.long_trains.iter().map(LongTrain::bits)),
            burst_rate_error: 0.0,
            bursts_used,
            trains_rejected: self.rejected.clone(),
        }
    }

    fn unknown_reason(&self, refusal: Option<CapacityReason>) -> CapacityReason {
        let seen = &self.observations;
        match refusal {
            _ if self.bytes == 0 => CapacityReason::NoBudget,
            _ if seen.scouted_rate.is_none() => CapacityReason::NoPacketArrived,
            // All went on long trains.
            Some(CapacityReason::PacketsLost) if seen.burst_trains == 0 && seen.slowest_rate().is_some() => {
                let [few, many] =
                    [seen.scouted_rate, seen.slowest_rate()].map(|rate| Rate::from_f64(rate.unwrap_or(0.0)));
                CapacityReason::TrainsDisagree(few, many)
            }
            Some(CapacityReason::PacketsLost)
                if self.rejected.is_empty() && seen.bursts.len() * 2 >= seen.bursts_sent =>
            {
                CapacityReason::BudgetSpent
            }
            refusal => refusal.unwrap_or(CapacityReason::NoPacketArrived),
        }
    }

    fn time_limit(&self) -> Span {
        // As many packets take longer on a slow path than any budget for fast ones, and so does a bucket to fill.
        let packets =
            if self.observations.small_bucket.is_present() { MAX_PACKETS_BEHIND_BUCKET } else { MAX_PACKETS_OF_LINK };
        let packets = self.current_estimate().map_or(0.0, |rate| packets * 12_000.0 / rate.as_f64());
        let fillings = if self.observations.reproduced_change().is_some() { 10.0 } else { 40.0 };
        let buckets = self.observations.credible_changes();
        let bucket = buckets.iter().flatten().map(|change| change.burst_bits / change.rate_after).fold(0.0, f64::max);
        let slow = packets.max(fillings * bucket) / self.config.budget_time.as_secs_f64();
        Span::from_secs_f64(self.config.budget_time.as_secs_f64() * slow.clamp(1.0, 5.0))
    }

    fn count_rejection(&mut self, why: Rejection) {
        *self.rejected.entry(why).or_default() += 1;
        self.failures_in_row += 1;
    }

    fn random(&mut self) -> f64 {
        crate::stats::random(&mut self.random)
    }
}

fn median_or_zero(numbers: impl Iterator<Item = f64>) -> f64 {
    crate::stats::median(&numbers.collect::<Vec<_>>()).unwrap_or(0.0)
}
