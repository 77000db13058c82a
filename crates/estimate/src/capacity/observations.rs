//! What the trains have shown so far.

use super::burst::{self, BurstSample, StampEpoch};
use super::filter::{self, CapacityEstimate};
use super::long_train::{LongTrain, LongTrainRate};
use super::reason::CapacityReason;
use super::sample::samples;
use super::shape::{BurstShape, MIN_BITS_PER_SECOND};
use super::shaping::{self, RateChange};
use super::small_bucket::SmallBucket;
use crate::method::Rejection;
use crate::stats::quantile;
use kumade_probe_train::{PacketRecord, TrainRecord};
use kumade_units::{Rate, Span};

/// A first packet waited for another one if it was late by a part of a packet's time between these, …
const MIN_WAIT_PACKETS: f64 = 0.2;
const MAX_WAIT_PACKETS: f64 = 1.2;
/// … which fewer do by chance, …
const MIN_WAIT_COUNT: usize = 3;
/// … and on no faster links, since hosts delay packets as well.
const MIN_SERVICE_SECONDS: f64 = 50e-6;

/// Most bursts find the link idle if so many …
const MANY_WAITS_PART: f64 = 0.85;
/// … of at least these …
const MIN_FIRST_PACKETS: usize = 8;
/// … wait for a smaller part of a packet's time than this, or no longer than hosts delay packets, in seconds.
const MAX_IDLE_WAIT_PACKETS: f64 = 0.1;
/// Where others' packets are there all the time, first packets wait for any part of one: that this few wait equally long is a chance of one in
/// a few hundred, though so many others may have come behind an earlier burst, before the rate was known.
const MIN_IDLE_FIRST_PACKETS: usize = 5;
const MAX_EARLY_BURSTS: usize = 3;
const HOST_DELAY_SECONDS: f64 = 5e-6;
/// A long train that cross traffic shares the queue with arrives at less than this part of the capacity.
const MAX_SHARED_PART: f64 = 0.9;

/// What a train was sent for.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum TrainPurpose {
    /// The order of magnitude, from a few packets.
    Scout,
    /// Whether the rate falls for good: a token bucket.
    LongTrain,
    /// Dispersion, by bursts of these shapes, in this order.
    Bursts(Vec<BurstShape>),
}

#[derive(Debug, Default)]
pub(super) struct Observations {
    /// The size of the largest packets sent.
    max_packet: u32,
    /// The rate at which the first packets arrived, in bit/s.
    pub(super) scouted_rate: Option<f64>,
    /// The time between packets sent back to back, in seconds.
    pub(super) sending_gap_seconds: f64,
    epoch: Option<StampEpoch>,
    /// The change of rate in each long train, where there was one.
    rate_changes: Vec<Option<RateChange>>,
    /// Long trains as they arrived, …
    long_packets: Vec<Vec<PacketRecord>>,
    /// … and what they tell, behind what passed at once.
    pub(super) long_trains: Vec<LongTrain>,
    /// How many packets passed a small bucket at once, by every train of full-sized packets that tells, …
    small_bucket_samples: Vec<SmallBucket>,
    /// … and by enough of these.
    pub(super) small_bucket: SmallBucket,
    /// Whether many packets of a long train overtook others.
    pub(super) is_disordered: bool,
    /// Bits of the last long train.
    pub(super) last_long_train_bits: f64,
    /// Bursts as they arrived, …
    burst_packets: Vec<(BurstShape, Vec<PacketRecord>)>,
    /// … and what they tell, behind what passed at once.
    pub(super) bursts: Vec<BurstSample>,
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
    pub(super) fn add_train(&mut self, record: &TrainRecord, purpose: TrainPurpose) -> Result<(), Rejection> {
        let epoch = match self.epoch {
            Some(epoch) => epoch,
            None => *self.epoch.insert(StampEpoch::from_record(record).ok_or(Rejection::PacketsMissing)?),
        };
        match purpose {
            TrainPurpose::Scout => {
                self.scouted_rate = Some(burst::scouted_rate(&record.packets).ok_or(Rejection::PacketsMissing)?);
                self.sending_gap_seconds = burst::sending_seconds_per_bit(&record.packets);
            }
            TrainPurpose::LongTrain => self.add_long_train(record),
            TrainPurpose::Bursts(order) => self.add_burst_train(record, order),
        }
        let known = self.long_trains.len() + self.bursts.len();
        self.reinterpret_bursts(epoch);
        let is_scout = self.long_packets.is_empty() && self.burst_packets.is_empty();
        if is_scout || self.long_trains.len() + self.bursts.len() > known {
            Ok(())
        } else {
            Err(Rejection::PacketsMissing)
        }
    }

    fn add_long_train(&mut self, record: &TrainRecord) {
        self.last_long_train_bits = record.packets.iter().map(|packet| f64::from(packet.size) * 8.0).sum();
        let is_disordered = record.is_disordered();
        self.is_disordered |= is_disordered;
        // A scheduler that has flows wait for each other is no token bucket.
        let change = shaping::find_rate_change(&record.packets).filter(|_| !is_disordered);
        self.small_bucket_samples.push(match &change {
            Some(change) if change.is_small_bucket() => SmallBucket::from_packets(change.packets_before),
            Some(_) => SmallBucket::NO_BUCKET,
            None => SmallBucket::from_train(&record.packets),
        });
        self.rate_changes.push(change);
        let mut packets = record.packets.clone();
        if is_disordered {
            packets.sort_by_key(|packet| packet.received);
        }
        self.long_packets.push(packets);
    }

    fn add_burst_train(&mut self, record: &TrainRecord, order: Vec<BurstShape>) {
        self.burst_trains += 1;
        self.bursts_sent += order.len();
        let mut rest: &[PacketRecord] = &record.packets;
        for shape in order {
            let (packets, others) = rest.split_at((shape.packets as usize).min(rest.len()));
            if shape.shows_small_bucket(self.max_packet) {
                self.small_bucket_samples.push(SmallBucket::from_train(packets));
            }
            self.burst_packets.push((shape, packets.to_vec()));
            rest = others;
        }
    }

    /// Reads all trains in the light of how many packets pass at once, which the last one may have shown.
    fn reinterpret_bursts(&mut self, epoch: StampEpoch) {
        let (at_once, full) = (SmallBucket::from_most_trains(&self.small_bucket_samples), self.max_packet);
        self.small_bucket = at_once;
        self.long_trains =
            self.long_packets.iter().filter_map(|packets| LongTrain::from_packets(packets, at_once)).collect();
        let read = |(shape, packets): &(BurstShape, Vec<PacketRecord>)| {
            BurstSample::from_packets(*shape, packets, epoch, at_once.first_paced(shape.size, full))
        };
        self.bursts = self.burst_packets.iter().filter_map(read).collect();
    }

    /// A rough figure of the rate that the path sustains.
    pub(super) fn rough_rate(&self) -> Option<Rate> {
        let shaped = self.rate_changes.iter().flatten().map(|change| change.rate_after).reduce(f64::min);
        shaped.or_else(|| self.bits_per_second()).map(Rate::from_f64)
    }

    /// The rate to plan for, in bit/s: that of the first packets, unless long trains were slow without a bucket. Then these
    /// packets arrived too close together, because the receiver had been idle.
    pub(super) fn bits_per_second(&self) -> Option<f64> {
        let paced = self.long_trains.last().map(LongTrain::rate).filter(|_| self.small_bucket.is_present());
        let slow = paced.or(self.slowest_rate().filter(|_| self.fullest_change().is_none()));
        Some(slow.unwrap_or(self.scouted_rate?).max(MIN_BITS_PER_SECOND))
    }

    /// The rate of the last long train, if that is far below the one at which the first packets arrived.
    pub(super) fn slowest_rate(&self) -> Option<f64> {
        let last = self.long_trains.last().filter(|_| !self.small_bucket.is_present());
        last.map(LongTrain::rate).filter(|&rate| self.scouted_rate.is_some_and(|few| rate < few / 2.0))
    }

    /// The fastest rate of all shapes of bursts that nothing delayed, in bit/s.
    pub(super) fn fastest_burst(&self) -> Option<f64> {
        let mut samples = samples(&self.bursts);
        samples.retain(|sample| sample.shape.interval == Span::ZERO);
        filter::check_batches(&samples).ok()?;
        samples.iter().map(|sample| sample.undelayed.rate).reduce(f64::max)
    }

    /// Which part of the bursts found a packet of cross traffic on the link, by how long their first packets waited.
    pub(super) fn waiting_fraction(&self) -> Option<f64> {
        let service = f64::from(self.max_packet) * 8.0 / self.fastest_burst()?;
        let samples = samples(&self.bursts);
        let heads =
            samples.iter().filter(|sample| sample.shape.size == self.max_packet).flat_map(|sample| &sample.bursts);
        let heads: Vec<f64> = heads.map(|burst| burst.first_packet_delay).collect();
        let least = quantile(&heads, 0.02)?;
        let waited = |head: &&f64| (MIN_WAIT_PACKETS * service..MAX_WAIT_PACKETS * service).contains(&(**head - least));
        let count = heads.iter().filter(waited).count();
        let part = if count < MIN_WAIT_COUNT { 0.0 } else { count as f64 / heads.len() as f64 };
        (service > MIN_SERVICE_SECONDS).then_some(part)
    }

    /// How many long trains were sent to look for a change.
    pub(super) fn rate_changes_looked_for(&self) -> usize {
        self.rate_changes.len()
    }

    /// How many long trains did not show this change again.
    pub(super) fn failures_since(&self, change: RateChange) -> usize {
        self.rate_changes.iter().rev().take_while(|&&other| other != Some(change)).count()
    }

    /// The change that showed the bucket at its fullest.
    pub(super) fn fullest_change(&self) -> Option<RateChange> {
        shaping::fullest_change(&self.credible_changes())
    }

    /// The change that was seen again.
    pub(super) fn reproduced_change(&self) -> Option<RateChange> {
        shaping::reproduced_change(&self.credible_changes())
    }

    /// The change that the outcome is to state, though it may have been seen only once.
    pub(super) fn confirmed_change(&self) -> Option<RateChange> {
        self.reproduced_change().or_else(|| shaping::confirmed_change(&self.credible_changes(), &self.long_trains))
    }

    /// The changes, without those that the receiver caused.
    pub(super) fn credible_changes(&self) -> Vec<Option<RateChange>> {
        let least = self.min_delay();
        let late = |change: &RateChange| least.is_some_and(|least| change.is_lateness(least));
        self.rate_changes.iter().map(|change| change.filter(|change| !late(change))).collect()
    }

    /// The least delay of the first packets of bursts of the largest packets, in seconds, plus the clocks' unknown offset; a
    /// few may have been stamped late.
    fn min_delay(&self) -> Option<f64> {
        let heads = self.first_packet_waits();
        Some(self.epoch?.delay().as_secs_f64() + quantile(&heads, 0.05)?)
    }

    /// Reads all bursts; `seed` is the bootstrap's.
    ///
    /// # Errors
    /// Why there is no result.
    pub(super) fn estimate_capacity(&self, seed: u64) -> Result<CapacityEstimate, CapacityReason> {
        let trains: &[LongTrain] = if self.reproduced_change().is_some() { &[] } else { &self.long_trains };
        let least = self.min_delay().unwrap_or(f64::INFINITY);
        let long: Vec<LongTrainRate> = trains.iter().map(|train| train.rate_range(least)).collect();
        let reading = filter::estimate_capacity(&self.bursts, &long, seed)?;
        match self.small_bucket.is_present() && self.may_be_round_robin(reading.value()) {
            true if self.shows_round_robin() => Err(CapacityReason::SmallBucket),
            true => Err(CapacityReason::TooFewPackets),
            false => Ok(reading),
        }
    }

    /// Whether there are enough bursts to see if others' packets are there all the time.
    pub(super) fn shows_round_robin(&self) -> bool {
        self.all_first_packet_waits().len() >= MIN_FIRST_PACKETS
    }

    /// How long the first packets of bursts of full packets took, in seconds up to a constant.
    fn first_packet_waits(&self) -> Vec<f64> {
        let full = self.bursts.iter().filter(|burst| burst.shape.size == self.max_packet);
        full.map(|burst| burst.first_packet_delay).collect()
    }

    /// The same of the long trains, too.
    fn all_first_packet_waits(&self) -> Vec<f64> {
        let epoch = self.epoch.map_or(0.0, |epoch| epoch.delay().as_secs_f64());
        let long = self.long_trains.iter().map(|train| train.delay() - epoch);
        self.first_packet_waits().into_iter().chain(long).collect()
    }

    /// Whether packets behind the first few may come at this rate because they are served in turn with those of other flows that are
    /// there all the time, and not because of a small bucket. These would have the bursts' first packets wait, and leave a long train
    /// no less than a burst.
    pub(super) fn may_be_round_robin(&self, rate: f64) -> bool {
        let heads = self.all_first_packet_waits();
        let service = f64::from(self.max_packet) * 8.0 / rate;
        let longest = (MAX_IDLE_WAIT_PACKETS * service).max(HOST_DELAY_SECONDS);
        let least = quantile(&heads, 0.02).unwrap_or(0.0);
        let idle = heads.iter().filter(|wait| **wait - least < longest).count();
        let are_most = idle as f64 >= MANY_WAITS_PART * heads.len() as f64 || heads.len() - idle <= MAX_EARLY_BURSTS;
        let is_idle = idle >= MIN_IDLE_FIRST_PACKETS && are_most;
        !is_idle && self.long_trains.iter().all(|train| train.rate() > MAX_SHARED_PART * rate)
    }
}
