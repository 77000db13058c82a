//! What the trains have shown so far.

use super::burst::{self, Burst, Epoch};
use super::filter::{self, Reading, Refusal};
use super::long_train::{LongRate, LongTrain};
use super::sample::samples;
use super::shape::{MIN_RATE, Shape};
use super::shaping::{self, Change};
use crate::method::Rejection;
use crate::stats::quantile;
use std::borrow::Cow;
use train::{PacketRecord, TrainRecord};
use units::{Rate, Span};

/// A first packet waited for another one if it was late by a part of a packet's time between these, …
const MIN_WAIT: f64 = 0.2;
const MAX_WAIT: f64 = 1.2;
/// … which fewer do by chance, …
const MIN_WAITS: usize = 3;
/// … and on no faster links, since hosts delay packets as well.
const MIN_SERVICE_SECONDS: f64 = 50e-6;

/// What a train was sent for.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Purpose {
    /// The order of magnitude, from a few packets.
    Scout,
    /// Whether the rate falls for good: a token bucket.
    Long,
    /// Dispersion, by bursts of these shapes, in this order.
    Bursts(Vec<Shape>),
}

#[derive(Debug, Default)]
pub(super) struct Observations {
    /// The size of the largest packets sent.
    max_packet: u32,
    /// The rate at which the first packets arrived, in bit/s.
    pub(super) scouted: Option<f64>,
    /// The time between packets sent back to back, in seconds.
    pub(super) sending: f64,
    epoch: Option<Epoch>,
    /// The change of rate in each long train, where there was one.
    changes: Vec<Option<Change>>,
    pub(super) long_trains: Vec<LongTrain>,
    /// Whether many packets of a long train overtook others.
    pub(super) is_disordered: bool,
    /// Bits of the last long train.
    pub(super) last_long: f64,
    pub(super) bursts: Vec<Burst>,
    pub(super) bursts_sent: usize,
    pub(super) burst_trains: u32,
}

impl Observations {
    /// Nothing yet, of a path that carries packets up to this size.
    pub(super) fn new(max_packet: u32) -> Self {
        Observations { max_packet, ..Observations::default() }
    }

    /// Takes in what became of a train.
    ///
    /// # Errors
    /// Too many of its packets or stamps are missing.
    pub(super) fn add(&mut self, record: &TrainRecord, purpose: Purpose) -> Result<(), Rejection> {
        let epoch = match self.epoch {
            Some(epoch) => epoch,
            None => *self.epoch.insert(Epoch::of(record).ok_or(Rejection::PacketsMissing)?),
        };
        match purpose {
            Purpose::Scout => {
                self.scouted = Some(burst::scouted_rate(&record.packets).ok_or(Rejection::PacketsMissing)?);
                self.sending = burst::sending_pace(&record.packets);
            }
            Purpose::Long => {
                self.last_long = record.packets.iter().map(|packet| f64::from(packet.size) * 8.0).sum();
                let is_disordered = record.is_disordered();
                self.is_disordered |= is_disordered;
                // A scheduler that has flows wait for each other is no token bucket.
                self.changes.push(shaping::change(&record.packets).filter(|_| !is_disordered));
                let mut packets = Cow::from(&record.packets);
                if is_disordered {
                    packets.to_mut().sort_by_key(|packet| packet.received);
                }
                self.long_trains.push(LongTrain::read(&packets).ok_or(Rejection::PacketsMissing)?);
            }
            Purpose::Bursts(order) => self.add_bursts(record, order, epoch)?,
        }
        Ok(())
    }

    fn add_bursts(&mut self, record: &TrainRecord, order: Vec<Shape>, epoch: Epoch) -> Result<(), Rejection> {
        self.burst_trains += 1;
        self.bursts_sent += order.len();
        let before = self.bursts.len();
        let mut rest: &[PacketRecord] = &record.packets;
        for shape in order {
            let (packets, others) = rest.split_at((shape.packets as usize).min(rest.len()));
            self.bursts.extend(Burst::read(shape, packets, epoch));
            rest = others;
        }
        if self.bursts.len() == before { Err(Rejection::PacketsMissing) } else { Ok(()) }
    }

    /// A rough figure of the rate that the path sustains.
    pub(super) fn rough_rate(&self) -> Option<Rate> {
        let shaped = self.changes.iter().flatten().map(|change| change.rate).reduce(f64::min);
        shaped.or_else(|| self.rate()).map(Rate::from_f64)
    }

    /// The rate to plan for, in bit/s: that of the first packets, unless long trains were slow without a bucket. Then these
    /// packets arrived too close together, because the receiver had been idle.
    pub(super) fn rate(&self) -> Option<f64> {
        let slow = self.slow().filter(|_| self.fullest().is_none());
        Some(slow.unwrap_or(self.scouted?).max(MIN_RATE))
    }

    /// The rate of the last long train, if that is far below the one at which the first packets arrived.
    pub(super) fn slow(&self) -> Option<f64> {
        self.long_trains.last().map(LongTrain::rate).filter(|&rate| self.scouted.is_some_and(|few| rate < few / 2.0))
    }

    /// The fastest rate of all shapes of bursts that nothing delayed, in bit/s.
    pub(super) fn fastest_burst(&self) -> Option<f64> {
        let mut samples = samples(&self.bursts);
        samples.retain(|sample| sample.shape.interval == Span::ZERO);
        filter::check_batches(&samples).ok()?;
        samples.iter().map(|sample| sample.undelayed.rate).reduce(f64::max)
    }

    /// Which part of the bursts found a packet of cross traffic on the link, by how long their first packets waited.
    pub(super) fn waiting(&self) -> Option<f64> {
        let service = f64::from(self.max_packet) * 8.0 / self.fastest_burst()?;
        let samples = samples(&self.bursts);
        let heads =
            samples.iter().filter(|sample| sample.shape.size == self.max_packet).flat_map(|sample| &sample.bursts);
        let heads: Vec<f64> = heads.map(|burst| burst.head).collect();
        let least = quantile(&heads, 0.02)?;
        let waited = |head: &&f64| (MIN_WAIT * service..MAX_WAIT * service).contains(&(**head - least));
        let count = heads.iter().filter(waited).count();
        let part = if count < MIN_WAITS { 0.0 } else { count as f64 / heads.len() as f64 };
        (service > MIN_SERVICE_SECONDS).then_some(part)
    }

    /// How many long trains were sent to look for a change.
    pub(super) fn changes_sought(&self) -> usize {
        self.changes.len()
    }

    /// How many long trains did not show this change again.
    pub(super) fn failures_since(&self, change: Change) -> usize {
        self.changes.iter().rev().take_while(|&&other| other != Some(change)).count()
    }

    /// The change that showed the bucket at its fullest.
    pub(super) fn fullest(&self) -> Option<Change> {
        shaping::fullest(&self.believed())
    }

    /// The change that was seen again.
    pub(super) fn reproduced(&self) -> Option<Change> {
        shaping::reproduced(&self.believed())
    }

    /// The change that the outcome is to state, though it may have been seen only once.
    pub(super) fn stated(&self) -> Option<Change> {
        self.reproduced().or_else(|| shaping::confirmed(&self.believed(), &self.long_trains))
    }

    /// The changes, without those that the receiver caused.
    pub(super) fn believed(&self) -> Vec<Option<Change>> {
        let least = self.least_delay();
        let late = |change: &Change| least.is_some_and(|least| change.is_lateness(least));
        self.changes.iter().map(|change| change.filter(|change| !late(change))).collect()
    }

    /// The least delay of the first packets of bursts of the largest packets, in seconds, plus the clocks' unknown offset; a
    /// few may have been stamped late.
    fn least_delay(&self) -> Option<f64> {
        let full = self.bursts.iter().filter(|burst| burst.shape.size == self.max_packet);
        let heads: Vec<f64> = full.map(|burst| burst.head).collect();
        Some(self.epoch?.delay().as_secs_f64() + quantile(&heads, 0.05)?)
    }

    /// Reads all bursts; `seed` is the bootstrap's.
    ///
    /// # Errors
    /// Why there is no result.
    pub(super) fn read(&self, seed: u64) -> Result<Reading, Refusal> {
        let trains: &[LongTrain] = if self.reproduced().is_some() { &[] } else { &self.long_trains };
        let least = self.least_delay().unwrap_or(f64::INFINITY);
        let long: Vec<LongRate> = trains.iter().map(|train| train.rates(least)).collect();
        filter::read(&self.bursts, &long, seed)
    }
}
