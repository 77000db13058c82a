//! The loop: which train comes next, and the result.

use super::config::CapacityConfig;
use super::filter::{Reading, Refusal};
use super::long_train::LongTrain;
use super::observations::{Observations, Purpose};
use super::plan;
use super::result::Capacity;
use super::shaping;
use crate::method::{Rejection, Step};
use kumade_probe_train::{Train, TrainRecord};
use kumade_units::{Rate, Span, Time};
use std::collections::BTreeMap;

/// After so many unusable trains in a row nothing more is tried.
const MAX_FAILURES_IN_ROW: u32 = 3;
/// The link behind a token bucket is known well enough at this half width of the interval, as a part of the value.
const PEAK_RATE_PRECISION: f64 = 0.04;
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
    sent: Option<Purpose>,
    seen: Observations,
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
            sent: None,
            seen: Observations::new(config.max_packet),
            rejected: BTreeMap::new(),
            failures_in_row: 0,
            bytes: 0,
            random: config.seed,
        }
    }

    /// What to do now. `now` may come from any clock that runs steadily.
    pub fn next(&mut self, now: Time) -> Step<Capacity> {
        let started = *self.started.get_or_insert(now);
        if self.sent.take().is_some() {
            self.reject(Rejection::PacketsMissing);
        }
        let Some((purpose, wait, train)) = self.plan() else {
            return Step::Done(self.outcome());
        };
        let spent = self.bytes.saturating_add(train.bytes());
        let too_long = now - started + wait + train.duration() > self.time_limit();
        if spent > self.config.budget_bytes || too_long {
            return Step::Done(self.outcome());
        }
        self.bytes = spent;
        self.sent = Some(purpose);
        Step::Send { wait, train }
    }

    /// What became of the train that [`next`](Self::next) last asked for.
    pub fn record(&mut self, record: &TrainRecord) {
        let Some(purpose) = self.sent.take() else { return };
        match self.seen.add(record, purpose) {
            Ok(()) => self.failures_in_row = 0,
            Err(why) => self.reject(why),
        }
    }

    /// A rough figure for a progress display, and for how long a train may take.
    pub fn so_far(&self) -> Option<Rate> {
        self.seen.rough_rate()
    }

    fn plan(&mut self) -> Option<(Purpose, Span, Train)> {
        let max_packet = self.config.max_packet;
        if self.failures_in_row >= MAX_FAILURES_IN_ROW {
            return None;
        }
        let Some(rate) = self.seen.rate() else { return Some((Purpose::Scout, Span::ZERO, plan::scout(max_packet))) };
        if let Some((wait, train)) = self.plan_long(rate) {
            return Some((Purpose::Long, wait, train));
        }
        let bucket = self.seen.reproduced().filter(|change| !change.is_of_few_packets());
        let (max_packets, pace) = match &bucket {
            Some(change) => (change.burst / (8.0 * f64::from(max_packet)) * 0.8, change.rate),
            None => (f64::INFINITY, rate),
        };
        let shapes = plan::shapes(rate, self.seen.sending, max_packets, (max_packet, self.seen.at_once));
        let tried = self.seen.burst_trains;
        if shapes.len() < 2 || tried >= plan::MAX_BURST_TRAINS || (tried > 0 && self.known()) {
            return None;
        }
        let random = self.random();
        let (order, train) = plan::bursts(&shapes, pace, self.seen.sending, random, self.config.max_packets);
        let wait = plan::pause(bucket.map(|change| change.burst / change.rate), self.random());
        Some((Purpose::Bursts(order), wait, train))
    }

    /// The next long train, as long as it is open whether the path is shaped.
    fn plan_long(&self, rate: f64) -> Option<(Span, Train)> {
        let packets = (self.config.max_packet, self.config.max_packets);
        let (seen, trains, slow) = (self.seen.fullest(), self.seen.changes_sought(), self.seen.slow());
        let train = match seen {
            Some(change) if change.is_slight() && trains >= MAX_LONG_TRAINS - 2 => None,
            _ if trains >= MAX_LONG_TRAINS || self.seen.reproduced().is_some() => None,
            Some(change) => Some(plan::again(change.packets, packets)),
            // One that arrived much slower than a few packets may have been shaped, and disturbed besides.
            None if trains < 2 || (trains < MAX_LONG_TRAINS / 2 && slow.is_some()) => {
                plan::long(rate, trains > 0 && slow.is_none(), packets)
            }
            None => None,
        };
        Some((self.refill(), train?))
    }

    /// How long to wait before a long train, so that the bucket is full.
    fn refill(&self) -> Span {
        let Some(change) = self.seen.fullest() else {
            // What arrived much slower than a few packets has left a queue behind.
            return plan::drain(self.seen.slow(), self.seen.last_long);
        };
        let failed = self.seen.failures_since(change);
        plan::refill(change.burst / change.rate, self.seen.last_long / change.rate, failed)
    }

    /// Whether the capacity is known well enough.
    fn known(&self) -> bool {
        match self.seen.read(self.config.seed) {
            // What is committed is known; and whether flows are served in turn, as far as it can be.
            _ if self.seen.reproduced().is_some_and(|change| change.is_of_few_packets()) => self.seen.tells_turns(),
            Ok(reading) if self.seen.reproduced().is_some() => reading.half_width() <= PEAK_RATE_PRECISION,
            Ok(reading) => reading.half_width() <= self.config.precision,
            Err(Refusal::SendingSlower(_) | Refusal::FewAtOnce) => true,
            Err(_) => false,
        }
    }

    fn outcome(&self) -> Capacity {
        let read = self.seen.read(self.config.seed);
        let reading = read.as_ref().ok().map(Reading::estimate);
        let large = self.seen.stated().map(|change| {
            let peak = reading.filter(|peak| peak.low.as_f64() > change.rate);
            shaping::shaper(&change, &self.seen.believed(), peak)
        });
        let small = reading.and_then(|rate| self.seen.at_once.shaper(rate, self.config.max_packet));
        let shaper = large.or(small);
        let is_sender_limited = matches!((&shaper, &read), (None, Err(Refusal::SendingSlower(_))));
        let found = match (&shaper, read) {
            (Some(shaper), _) => Ok(shaper.committed_rate),
            (None, Ok(reading)) if self.seen.scouted.is_some() => Ok(reading.estimate()),
            (None, read) => Err(read.err()),
        };
        let is_indefinite = matches!(&found, Err(Some(refusal)) if refusal.is_indefinite());
        let (bottleneck, at_least, reason) = match found {
            Ok(estimate) => (Some(estimate), None, None),
            Err(refusal) => {
                let seen = self.seen.scouted.and(refusal.as_ref());
                (None, seen.and_then(Refusal::at_least), Some(self.why_unknown(refusal)))
            }
        };
        let slowest = self.seen.long_trains.iter().map(LongTrain::rate).reduce(f64::min);
        let pace = bottleneck.map(|rate| rate.value.as_f64()).or(slowest);
        let bursts_used = (self.seen.bursts.len() + self.seen.long_trains.len()) as u32;
        let long =
            |of: fn(f64, f64) -> f64| self.seen.long_trains.iter().map(LongTrain::rate).reduce(of).map(Rate::from_f64);
        Capacity {
            bottleneck,
            at_least,
            is_indefinite,
            reason,
            is_sender_limited,
            shaper,
            fastest_burst: self.seen.fastest_burst().map(Rate::from_f64),
            waiting: self.seen.waiting(),
            is_disordered: self.seen.is_disordered,
            passes_few_at_once: self.seen.at_once.is_some(),
            may_take_turns: pace.is_none_or(|rate| self.seen.may_take_turns(rate)),
            long_train: long(f64::min),
            fastest_long_train: long(f64::max),
            bursts_used,
            trains_rejected: self.rejected.clone(),
        }
    }

    fn why_unknown(&self, refusal: Option<Refusal>) -> String {
        let seen = &self.seen;
        match refusal {
            _ if self.bytes == 0 => "the budget allows no packet for it".to_owned(),
            _ if seen.scouted.is_none() => "no packet arrived".to_owned(),
            // All went on long trains.
            Some(Refusal::Lost) if seen.burst_trains == 0 && seen.slow().is_some() => {
                let [few, many] = [seen.scouted, seen.slow()].map(|rate| Rate::from_f64(rate.unwrap_or(0.0)));
                format!("trains disagree: few packets arrived at {few}, many at {many}")
            }
            Some(Refusal::Lost) if self.rejected.is_empty() && seen.bursts.len() * 2 >= seen.bursts_sent => {
                "the budget of bytes and time does not suffice".to_owned()
            }
            refusal => refusal.map_or_else(String::new, |refusal| refusal.to_string()),
        }
    }

    fn time_limit(&self) -> Span {
        // As many packets take longer on a slow path than any budget for fast ones, and so does a bucket to fill.
        let packets = if self.seen.at_once.is_some() { MAX_PACKETS_BEHIND_BUCKET } else { MAX_PACKETS_OF_LINK };
        let packets = self.so_far().map_or(0.0, |rate| packets * 12_000.0 / rate.as_f64());
        let fillings = if self.seen.reproduced().is_some() { 10.0 } else { 40.0 };
        let buckets = self.seen.believed();
        let bucket = buckets.iter().flatten().map(|change| change.burst / change.rate).fold(0.0, f64::max);
        let slow = packets.max(fillings * bucket) / self.config.budget_time.as_secs_f64();
        Span::from_secs_f64(self.config.budget_time.as_secs_f64() * slow.clamp(1.0, 5.0))
    }

    fn reject(&mut self, why: Rejection) {
        *self.rejected.entry(why).or_default() += 1;
        self.failures_in_row += 1;
    }

    fn random(&mut self) -> f64 {
        crate::stats::random(&mut self.random)
    }
}
