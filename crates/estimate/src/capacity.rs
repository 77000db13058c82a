//! The capacity of the bottleneck: how fast it is when nobody else is there.
//!
//! Packets sent back to back come out of the narrowest link at its pace, so that their dispersion tells its rate, unless
//! other packets get between them or delay some of them later on. Those that nothing delayed have the least delay: of
//! many bursts of one shape whose packets came in even steps, only those with the least *sum* of the first and the last
//! packet's delay are read (the filter of CapProbe: Kapoor, Chen, Lao, Gerla, Sanadidi, SIGCOMM 2004). Several shapes must
//! then agree.
//!
//! Where the sender is hardly faster than the link, or cross traffic's packets are small, they get into all bursts, and
//! nothing tells such a burst from an undelayed one of a slower link. So the packets of some bursts are sent farther apart:
//! the longer sending takes, the more cross traffic a burst holds in the mean. Extrapolated to no time at all, that tells the
//! link's own pace. Where it is faster than the undelayed bursts', the interval reaches from the one to the other.
//!
//! A token bucket lets short bursts pass at the rate of the line behind it. So a longer train goes first: where the rate
//! at which it comes falls for good, after the same number of bytes each time that the bucket has had time to fill, there
//! is a shaper, and both rates and the bucket are known.
//!
//! Rates count IP packets. Headers of lower layers are not seen: the rate is that of packets of the largest size.

mod burst;
mod cross_traffic;
mod filter;
mod long_train;
mod plan;
mod sample;
pub(crate) mod shaping;

use crate::stats::quantile;
use crate::{Outcome, Rejection, Step};
use burst::{Burst, Epoch};
use filter::{Reading, Refusal};
use long_train::{LongRate, LongTrain};
use plan::Shape;
use shaping::Change;
use std::collections::BTreeMap;
use train::{Estimate, PacketRecord, Train, TrainRecord};
use units::{Rate, Span, Time};

/// How much it may cost to find the capacity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CapacityConfig {
    /// The largest packet that the transport carries whole, in bytes.
    pub max_packet: u32,
    /// IP bytes to send at most.
    pub budget_bytes: u64,
    /// How long to go on at most. Where the path or its bucket is so slow that it does not suffice, up to five times as long.
    pub budget_time: Span,
    /// Half the interval's width at which the value is known well enough, as a part of the value.
    pub precision: f64,
    /// For the waits between bursts and for the bootstrap.
    pub seed: u64,
}

impl CapacityConfig {
    /// 900 kB, one second, one percent.
    pub fn new(max_packet: u32) -> Self {
        CapacityConfig {
            max_packet,
            budget_bytes: 900_000,
            budget_time: Span::from_secs(1),
            precision: 0.01,
            seed: 0x6361_7061,
        }
    }
}

/// What was found of one direction's narrowest link.
#[derive(Debug, Clone, PartialEq)]
pub struct Capacity {
    /// The rate that the path can carry for long if nobody else sends; that of the shaper where there is one.
    pub bottleneck: Option<Estimate<Rate>>,
    /// Why there is no value. Some exactly where `bottleneck` is none.
    pub reason: Option<String>,
    /// A token bucket on the path.
    pub shaper: Option<Shaper>,
    /// Bursts and trains that could be read.
    pub bursts_used: u32,
    /// Trains that could not, by cause.
    pub trains_rejected: BTreeMap<Rejection, u32>,
}

/// A token bucket: what passes at the rate of the line behind it, and at which rate it goes on from there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shaper {
    /// The rate at which a burst passes; none where it passes as fast as it is sent.
    pub link: Option<Estimate<Rate>>,
    /// The rate in the long run.
    pub rate: Estimate<Rate>,
    /// Bytes that pass beyond it after a pause.
    pub burst_bytes: Estimate<u64>,
}

/// What is known of token buckets on a path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shaping {
    /// Nobody has looked, or could see.
    Unknown,
    /// None showed where one was looked for: what looks like one in a few trains is something else.
    Unshaped,
    /// There is one.
    Shaped(Shaper),
}

impl Shaping {
    /// The token bucket, where one is known.
    pub fn shaper(&self) -> Option<&Shaper> {
        match self {
            Shaping::Shaped(shaper) => Some(shaper),
            Shaping::Unknown | Shaping::Unshaped => None,
        }
    }
}

/// Two ways to look at one link may differ by this part.
const TOLERANCE: f64 = 0.03;

impl Capacity {
    /// What this tells of token buckets: nothing where there is no value.
    pub fn shaping(&self) -> Shaping {
        match (&self.shaper, &self.bottleneck) {
            (Some(shaper), _) => Shaping::Shaped(*shaper),
            (None, Some(_)) => Shaping::Unshaped,
            (None, None) => Shaping::Unknown,
        }
    }

    /// What a method came to on the same path: without its value, and with the reason, if that lies wholly above this
    /// capacity. More than there is can't be available: one of the two was misled.
    pub fn refute(&self, outcome: Outcome) -> Outcome {
        match (&self.bottleneck, &outcome.available) {
            (Some(capacity), Some(found)) if found.low.as_f64() > capacity.high.as_f64() * (1.0 + TOLERANCE) => {
                let (found, capacity) = (found.value, capacity.value);
                let reason = format!("{found} seemed available, though the narrowest link carries {capacity} at most");
                Outcome { available: None, reason: Some(reason), spread: None, ..outcome }
            }
            _ => outcome,
        }
    }
}

/// After so many useless trains in a row nothing more is tried.
const HOPELESS: u32 = 3;
/// Half the interval's width, as a part, at which the line behind a shaper is known well enough.
const PRECISION_OF_LINE: f64 = 0.04;
/// So many long trains are sent at most to see whether a change of rate comes back.
const LONG_TRAINS: usize = 6;

/// Finds the capacity. The loop is that of a [`Method`](crate::Method): see the crate's contract.
#[derive(Debug)]
pub struct CapacityProbe {
    config: CapacityConfig,
    started: Option<Time>,
    sent: Option<Sent>,
    /// The rate at which the first packets came, in bit/s.
    scouted: Option<f64>,
    /// The time between packets sent back to back, in seconds.
    sending: f64,
    epoch: Option<Epoch>,
    /// What each long train showed.
    changes: Vec<Option<Change>>,
    long_trains: Vec<LongTrain>,
    /// Bits of the last long train.
    last_long: f64,
    bursts: Vec<Burst>,
    /// How many were sent.
    bursts_sent: usize,
    burst_trains: u32,
    rejected: BTreeMap<Rejection, u32>,
    failures_in_row: u32,
    bytes: u64,
    random: u64,
}

/// What is on its way.
#[derive(Debug, Clone, PartialEq)]
enum Sent {
    Scout,
    Long,
    Bursts(Vec<Shape>),
}

impl CapacityProbe {
    /// No train has more packets: what a transport must be able to carry.
    pub const MOST_PACKETS: u32 = plan::MOST_PACKETS;

    /// Starts knowing nothing of the path.
    pub fn new(config: CapacityConfig) -> Self {
        CapacityProbe {
            config,
            started: None,
            sent: None,
            scouted: None,
            sending: 0.0,
            epoch: None,
            changes: Vec::new(),
            long_trains: Vec::new(),
            last_long: 0.0,
            bursts: Vec::new(),
            bursts_sent: 0,
            burst_trains: 0,
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
        let Some((sent, wait, train)) = self.plan() else {
            return Step::Done(self.outcome());
        };
        let spent = self.bytes.saturating_add(train.bytes());
        let too_long = now - started + wait + train.duration() > self.time_limit();
        if spent > self.config.budget_bytes || too_long {
            return Step::Done(self.outcome());
        }
        self.bytes = spent;
        self.sent = Some(sent);
        Step::Send { wait, train }
    }

    /// What became of the train that [`next`](Self::next) last asked for.
    pub fn record(&mut self, record: &TrainRecord) {
        let Some(sent) = self.sent.take() else { return };
        match self.take(record, sent) {
            Ok(()) => self.failures_in_row = 0,
            Err(why) => self.reject(why),
        }
    }

    /// A rough figure for a progress display, and for how long a train may take.
    pub fn so_far(&self) -> Option<Rate> {
        let shaped = self.changes.iter().flatten().map(|change| change.rate).reduce(f64::min);
        shaped.or_else(|| self.rate()).map(Rate::from_f64)
    }

    /// The rate to plan for, in bit/s: that of the first packets, unless long trains were slow without a bucket. Then these
    /// packets came too fast, after the receiver had slept.
    fn rate(&self) -> Option<f64> {
        let slow = self.slow().filter(|_| self.fullest().is_none());
        Some(slow.unwrap_or(self.scouted?).max(plan::SLOWEST))
    }

    fn plan(&mut self) -> Option<(Sent, Span, Train)> {
        let max_packet = self.config.max_packet;
        if self.failures_in_row >= HOPELESS {
            return None;
        }
        let Some(rate) = self.rate() else { return Some((Sent::Scout, Span::ZERO, plan::scout(max_packet))) };
        if let Some((wait, train)) = self.plan_long(rate) {
            return Some((Sent::Long, wait, train));
        }
        let shaper = self.shaper();
        let (most_packets, pace) = match &shaper {
            Some(change) => (change.burst / (8.0 * f64::from(max_packet)) * 0.8, change.rate),
            None => (f64::INFINITY, rate),
        };
        let shapes = plan::shapes(rate, self.sending, most_packets, max_packet);
        let tried = self.burst_trains;
        if shapes.len() < 2 || tried >= plan::MOST_BURST_TRAINS || (tried > 0 && self.known()) {
            return None;
        }
        let (order, train) = plan::bursts(&shapes, pace, self.sending, self.random());
        let wait = plan::pause(shaper.map(|change| change.burst / change.rate), self.random());
        Some((Sent::Bursts(order), wait, train))
    }

    /// The next long train, as long as it is open whether the path is shaped.
    fn plan_long(&self, rate: f64) -> Option<(Span, Train)> {
        let max_packet = self.config.max_packet;
        let (seen, trains) = (self.fullest(), self.changes.len());
        let train = match seen {
            Some(change) if change.is_slight() && trains >= LONG_TRAINS - 2 => None,
            _ if trains >= LONG_TRAINS || self.shaper().is_some() => None,
            Some(change) => Some(plan::again(change.packets, max_packet)),
            // One that came much slower than a few packets may have been shaped, and disturbed besides.
            None if trains < 2 || (trains < LONG_TRAINS / 2 && self.slow().is_some()) => {
                plan::long(rate, trains > 0 && self.slow().is_none(), max_packet)
            }
            None => None,
        };
        Some((self.refill(), train?))
    }

    /// The change that showed the bucket at its fullest.
    fn fullest(&self) -> Option<Change> {
        shaping::fullest(&self.believed())
    }

    /// The rate of the last long train, if that is far below the one at which the first packets came.
    fn slow(&self) -> Option<f64> {
        self.long_trains.last().map(LongTrain::rate).filter(|&rate| self.scouted.is_some_and(|few| rate < few / 2.0))
    }

    /// How long to wait before a long train, so that the bucket is full.
    fn refill(&self) -> Span {
        let Some(change) = self.fullest() else {
            // What came much slower than a few packets has left a queue behind.
            return plan::drain(self.slow(), self.last_long);
        };
        let failed = self.changes.iter().rev().take_while(|&&other| other != Some(change)).count();
        plan::refill(change.burst / change.rate, self.last_long / change.rate, failed)
    }

    /// The change that came back.
    fn shaper(&self) -> Option<Change> {
        shaping::reproduced(&self.believed())
    }

    /// The changes, but for those that were the receiver's.
    fn believed(&self) -> Vec<Option<Change>> {
        let least = self.least_delay();
        let late = |change: &Change| least.is_some_and(|least| change.is_lateness(least));
        self.changes.iter().map(|change| change.filter(|change| !late(change))).collect()
    }

    /// That of full-sized bursts' first packets, in seconds, up to what the clocks differ by; a few may have been stamped late.
    fn least_delay(&self) -> Option<f64> {
        let full = self.bursts.iter().filter(|burst| burst.shape.size == self.config.max_packet);
        let heads: Vec<f64> = full.map(|burst| burst.head).collect();
        Some(self.epoch?.delay().as_secs_f64() + quantile(&heads, 0.05)?)
    }

    /// Whether another train of bursts would tell nothing new.
    fn known(&self) -> bool {
        match self.read() {
            Ok(reading) if self.shaper().is_some() => reading.half_width() <= PRECISION_OF_LINE,
            Ok(reading) => reading.half_width() <= self.config.precision,
            Err(Refusal::SendingSlower(_)) => true,
            Err(_) => false,
        }
    }

    fn read(&self) -> Result<Reading, Refusal> {
        let trains: &[LongTrain] = if self.shaper().is_some() { &[] } else { &self.long_trains };
        let least = self.least_delay().unwrap_or(f64::INFINITY);
        let long: Vec<LongRate> = trains.iter().map(|train| train.rates(least)).collect();
        filter::read(&self.bursts, &long, self.config.seed)
    }

    fn take(&mut self, record: &TrainRecord, sent: Sent) -> Result<(), Rejection> {
        let epoch = match self.epoch {
            Some(epoch) => epoch,
            None => *self.epoch.insert(Epoch::of(record).ok_or(Rejection::PacketsMissing)?),
        };
        match sent {
            Sent::Scout => {
                self.scouted = Some(burst::scouted_rate(&record.packets).ok_or(Rejection::PacketsMissing)?);
                self.sending = burst::sending_pace(&record.packets);
            }
            Sent::Long => {
                self.last_long = record.packets.iter().map(|packet| f64::from(packet.size) * 8.0).sum();
                self.changes.push(shaping::change(&record.packets));
                self.long_trains.push(LongTrain::read(&record.packets).ok_or(Rejection::PacketsMissing)?);
            }
            Sent::Bursts(order) => {
                self.burst_trains += 1;
                self.bursts_sent += order.len();
                let before = self.bursts.len();
                let mut rest: &[PacketRecord] = &record.packets;
                for shape in order {
                    let (packets, others) = rest.split_at((shape.packets as usize).min(rest.len()));
                    self.bursts.extend(Burst::read(shape, packets, epoch));
                    rest = others;
                }
                if self.bursts.len() == before {
                    return Err(Rejection::PacketsMissing);
                }
            }
        }
        Ok(())
    }

    fn outcome(&self) -> Capacity {
        let changes = self.believed();
        let shaped = self.shaper().or_else(|| shaping::confirmed(&changes, &self.long_trains));
        let read = self.read();
        let shaper = shaped.map(|change| {
            let link = read.as_ref().ok().map(Reading::estimate).filter(|link| link.low.as_f64() > change.rate);
            shaping::shaper(&change, &changes, link)
        });
        let found = match (&shaper, read) {
            (Some(shaper), _) => Ok(shaper.rate),
            (None, _) if self.bytes == 0 => Err("no packet may be sent for it".to_owned()),
            (None, _) if self.scouted.is_none() => Err("no packets came through".to_owned()),
            // All went on long trains.
            (None, Err(Refusal::Lost)) if self.burst_trains == 0 && self.slow().is_some() => {
                let [few, many] = [self.scouted, self.slow()].map(|rate| Rate::from_f64(rate.unwrap_or(0.0)));
                Err(format!("trains disagree: few packets came at {few}, many at {many}"))
            }
            (None, Err(Refusal::Lost)) if self.rejected.is_empty() && self.bursts.len() * 2 >= self.bursts_sent => {
                Err("the bytes and the time allowed do not suffice".to_owned())
            }
            (None, Ok(reading)) => Ok(reading.estimate()),
            (None, Err(refusal)) => Err(refusal.to_string()),
        };
        let (bottleneck, reason) = match found {
            Ok(estimate) => (Some(estimate), None),
            Err(reason) => (None, Some(reason)),
        };
        let bursts_used = (self.bursts.len() + self.long_trains.len()) as u32;
        Capacity { bottleneck, reason, shaper, bursts_used, trains_rejected: self.rejected.clone() }
    }

    fn time_limit(&self) -> Span {
        // As many packets on a slow path take longer than any budget for fast ones, and so does a bucket to fill.
        let packets = self.so_far().map_or(0.0, |rate| 120.0 * 12_000.0 / rate.as_f64());
        let fillings = if self.shaper().is_some() { 10.0 } else { 40.0 };
        let buckets = self.believed();
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

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(low: u64, high: u64) -> Estimate<Rate> {
        let value = Rate::from_mbit((low + high) / 2);
        Estimate { value, low: Rate::from_mbit(low), high: Rate::from_mbit(high), confidence: 0.95 }
    }

    fn outcome(available: Estimate<Rate>) -> Outcome {
        Outcome {
            available: Some(available),
            reason: None,
            spread: Some(Rate::from_mbit(1)),
            capacity: None,
            trains_used: 11,
            trains_rejected: BTreeMap::new(),
            warnings: Vec::new(),
        }
    }

    #[test]
    fn more_than_the_narrowest_link_carries_is_not_available() {
        let bottleneck = Some(rates(48, 52));
        let capacity =
            Capacity { bottleneck, reason: None, shaper: None, bursts_used: 20, trains_rejected: BTreeMap::new() };
        for possible in [outcome(rates(20, 30)), outcome(rates(50, 80)), outcome(rates(53, 55))] {
            assert_eq!(capacity.refute(possible.clone()), possible);
        }
        let refuted = capacity.refute(outcome(rates(56, 64)));
        assert_eq!((refuted.available, refuted.spread), (None, None));
        let reason = "60 Mbit/s seemed available, though the narrowest link carries 50 Mbit/s at most";
        assert_eq!(refuted.reason.as_deref(), Some(reason));
        let unknown = Capacity { bottleneck: None, reason: Some("lost".into()), ..capacity };
        assert!(unknown.refute(outcome(rates(56, 64))).available.is_some());
    }
}
