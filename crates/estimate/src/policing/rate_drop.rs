//! A train of which the rate fell, and what it and those that follow tell.

use super::bisection::RateBisection;
use super::config::PolicingConfig;
use super::fit;
use super::loss_evidence::{self, LossCause, LossCount};
use super::plan::{self, PacketSpacing, TrainSection};
use super::queueing::ShaperQueue;
use super::result::{ExcessAction, PolicerOrShaper};
use super::train_rates::{self, MAX_DROP_PART, PartRates, RateDrop};
use crate::cross_traffic::CROSS_PACKET_BITS;
use crate::packet_timing::PacketTiming;
use kumade_probe_train::Estimate;
use kumade_units::{Rate, Span, Time};

/// The bound of what lasts allows for this many.
const DOUBTED_STANDARD_DEVIATIONS: f64 = 2.0;
/// The first train's fall is there again if the ratio exceeds 1 by this part of what it did then.
const REPRODUCED_PART: f64 = 0.5;
/// At this ratio of sending to arrival rate, a fall has no other cause than a token bucket.
const CLEAR_RATIO: f64 = 1.4;
/// Losses are random where at all rates as much is lost as this part of the most at any.
const SIMILAR_PART: f64 = 0.7;
/// Of the packets that arrive behind a fall, so many more or less may be counted, whatever the rate.
const MAX_PACKETS_OFF: f64 = 2.0;
/// No value is given where half the interval's width is more than this part of the committed rate.
const MAX_RELATIVE_HALF_WIDTH: f64 = 0.5;
/// Less than this part of the committed rate is not told from nothing.
const MIN_VALUE_PART: f64 = 0.05;

/// What trains before the one in question have used of a burst.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PassedTrain {
    pub(super) packets: u32,
    /// How long they lasted.
    pub(super) sending_time: Span,
    /// From the beginning of the first one to that of the train in question.
    pub(super) elapsed: Span,
}

/// A train of the look of which the rate fell.
#[derive(Debug)]
pub(super) struct RateDropState {
    pub(super) first_train: TrainSection,
    pub(super) passed: PassedTrain,
    pub(super) train: Vec<PacketTiming>,
    pub(super) rate_drop: RateDrop,
    /// Packets that use up the burst, as far as known.
    pub(super) used_up_packets: u32,
    /// When the train had been sent, …
    pub(super) ended: Time,
    /// … how long its last packets waited, …
    pub(super) last_wait: Span,
    /// … in which queue, where what exceeds is delayed, …
    pub(super) queue: Option<ShaperQueue>,
    /// … and whether the bucket has hardly filled since, as far as known.
    pub(super) is_emptied: bool,
}

/// What a section of a later train tells.
#[derive(Debug, Clone, Copy)]
pub(super) struct TrainPart {
    pub(super) rates: PartRates,
    /// Whether its packets came at [random](PacketSpacing::Random).
    pub(super) is_random: bool,
}

/// What became of a train of several rates.
pub(super) enum DropCourse {
    /// The more was sent, the smaller a part arrived.
    Limited,
    /// All arrived.
    Passed,
    /// The same part was lost at all rates, as where losses are random.
    EqualLoss,
}

impl RateDropState {
    /// The rate of arrivals behind the fall in bit/s.
    pub(super) fn arrived_rate(&self) -> f64 {
        train_rates::queue_adjusted_arrival_rate(&self.train[self.rate_drop.index..], &self.rate_drop.rates)
    }

    /// Of a train that was to use up the bucket with this many packets, so many passed before others were lost.
    pub(super) fn record_used_up(&mut self, passed: u32, burst: u32) {
        let was_full = burst >= self.used_up_packets;
        self.used_up_packets = if was_full { passed } else { passed.max(self.used_up_packets) };
    }

    fn arrival_rate(&self) -> f64 {
        train_rates::arrival_rate(&self.train[self.rate_drop.index..])
    }

    /// What becomes of packets behind the fall.
    pub(super) fn policing(&self) -> Option<ExcessAction> {
        train_rates::classify_excess_action(&self.train, &self.rate_drop)
    }

    /// The rates of each section of a later train behind the burst.
    pub(super) fn train_parts(&self, sections: &[TrainSection], train: &[PacketTiming]) -> Vec<TrainPart> {
        let place = |index: usize| train.partition_point(|passage| passage.index < index);
        let mut parts = Vec::new();
        let mut from = 0;
        for (number, section) in sections.iter().enumerate() {
            let packets = section.packets as usize;
            // The first one begins with the burst; the others, with what the one before left in queues.
            let behind = plan::packets_behind_burst(self.first_train.rate / self.arrived_rate()) as usize;
            let skipped = if number == 0 { packets.saturating_sub(behind) } else { 4 };
            let (first, end) = (place(from + skipped), place(from + packets));
            let rates = train.get(first..end).and_then(train_rates::part_rates);
            parts.extend(rates.map(|rates| TrainPart { rates, is_random: section.spacing == PacketSpacing::Random }));
            from += packets;
        }
        parts
    }

    /// What became of these.
    pub(super) fn drop_course(&self, parts: &[TrainPart]) -> DropCourse {
        let before = self.rate_drop.rates.ratio();
        let ratios = || parts.iter().map(|part| part.rates.ratio());
        let (most, least) = (ratios().fold(1.0, f64::max), ratios().fold(f64::INFINITY, f64::min));
        if most < 1.0 + REPRODUCED_PART * (before - 1.0).min(2.0 * MAX_DROP_PART / REPRODUCED_PART) {
            DropCourse::Passed
        } else if least > 1.0 + SIMILAR_PART * (most - 1.0) {
            DropCourse::EqualLoss
        } else {
            DropCourse::Limited
        }
    }

    /// Where a policer is nearly as fast as what was tried, a search for what it leaves.
    pub(super) fn new_bisection(&self, config: &PolicingConfig) -> RateBisection {
        let cross = config.max_cross_rate.as_f64();
        RateBisection::new(self.arrived_rate(), rate_uncertainty(&self.rate_drop.rates, cross, config), cross)
    }

    /// Whether so much less arrives that nothing but a token bucket is the cause.
    pub(super) fn is_clear(&self) -> bool {
        self.rate_drop.rates.ratio() > CLEAR_RATIO
    }

    /// Whether packets are dropped, and it is not told what by.
    pub(super) fn loses_for_unknown_cause(&self, later: &[TrainPart], config: &PolicingConfig) -> bool {
        self.policing() == Some(ExcessAction::Drops) && self.loss_cause(later, config) != LossCause::Policer
    }

    /// What the losses of this train and of later ones come from.
    pub(super) fn loss_cause(&self, later: &[TrainPart], config: &PolicingConfig) -> LossCause {
        let RateDropState { train, rate_drop, .. } = self;
        let seen = train_rates::seen_packets(config.connections, train);
        let first = train.get(rate_drop.index).map_or(usize::MAX, |passage| passage.index);
        let (before, behind) = seen.split_at(seen.partition_point(|passage| passage.index < first));
        let rate = rate_drop.rates.sending_rate;
        let later: Vec<LossCount> = later.iter().map(|part| LossCount::from_rates(&part.rates)).collect();
        loss_evidence::find_loss_cause(
            LossCount::of_packets(rate, before),
            LossCount::from_rates(&rate_drop.rates),
            &later,
            train.len(),
            config.max_cross_rate.as_f64(),
            loss_evidence::variance_ratio(behind),
        )
    }

    /// What limits the rate, by the fall and by these.
    pub(super) fn to_limiter(
        &self,
        parts: &[TrainPart],
        bracket: Option<&RateBisection>,
        config: &PolicingConfig,
    ) -> PolicerOrShaper {
        let policing = self.policing();
        let line = self.informative_line(parts, config);
        let told = line.map(|line| bracket.map_or(line.available, |bracket| bracket.narrow_estimate(line.available)));
        let rest = &self.train[self.rate_drop.index..];
        let seconds = rest.first().zip(rest.last()).map_or(0.0, |(first, last)| last.sent - first.sent);
        PolicerOrShaper {
            excess_action: policing,
            delivered_rate: Rate::from_f64(self.delivered_rate(parts, config)),
            sent_rate: Rate::from_f64(self.first_train.rate),
            available_uncertainty: Rate::from_f64(rate_uncertainty_over(
                seconds,
                config.max_cross_rate.as_f64(),
                config,
            )),
            excess_bytes: self.excess_bytes(self.arrived_rate()),
            available: told.or(bracket.and_then(RateBisection::available)),
            committed_rate: line.map(|line| line.committed_rate),
            // One that other trains have used up was not full.
            burst_bytes: line.filter(|_| !config.is_bucket_hinted).map(|line| self.burst_bytes(&line, config)),
        }
    }

    /// The line through these, where it tells what is available.
    pub(super) fn informative_line(&self, parts: &[TrainPart], config: &PolicingConfig) -> Option<fit::ShareLine> {
        self.fit_line(parts, config).filter(|line| {
            let [low, high, committed] =
                [line.available.low, line.available.high, line.committed_rate.value].map(Rate::as_f64);
            (high - low) / 2.0 <= MAX_RELATIVE_HALF_WIDTH * committed
                && line.available.value.as_f64() > MIN_VALUE_PART * committed
        })
    }

    /// Through what these tell.
    pub(super) fn fit_line(&self, parts: &[TrainPart], config: &PolicingConfig) -> Option<fit::ShareLine> {
        let queued = self.queue.is_some();
        // Even spaces between packets matter where these are dropped.
        let counted: Vec<PartRates> =
            parts.iter().filter(|part| queued || part.is_random).map(|part| part.rates).collect();
        fit::fit_share_line(&counted, queued, config.seed)
    }

    /// No part of any train arrives at more than lasts, but for chance: the most at which one did, in bit/s.
    fn delivered_rate(&self, parts: &[TrainPart], config: &PolicingConfig) -> f64 {
        let rates = &self.rate_drop.rates;
        match (config.connections, self.policing()) {
            (Some(_), Some(ExcessAction::Drops)) => {
                let seen = rates.packets as f64 / (1.0 - rates.lost_part);
                let doubt =
                    DOUBTED_STANDARD_DEVIATIONS * ((rates.packets as f64 * rates.lost_part).sqrt() + MAX_PACKETS_OFF);
                (rates.arrival_rate + rates.sending_rate * doubt / seen).min(self.first_train.rate)
            }
            // What is behind losses is not seen to arrive.
            (Some(_), _) if rates.lost_part > 0.0 && parts.is_empty() => self.first_train.rate,
            _ => parts
                .iter()
                .map(|part| part.rates.arrival_rate)
                .fold(rates.arrival_rate.max(self.arrival_rate()), f64::max),
        }
    }

    /// What passed of own bytes before the rate fell, where so much is available: all that the bucket holds if it was full when the train
    /// began.
    fn excess_bytes(&self, available: f64) -> u64 {
        let RateDropState { rate_drop: fall, passed, .. } = self;
        let (sending, elapsed) = (passed.sending_time.as_secs_f64(), passed.elapsed.as_secs_f64());
        let bits = fall.rates.sending_rate * (fall.sent_after_seconds + sending)
            - available * (fall.sent_after_seconds + elapsed);
        (bits.max(0.0) / 8.0).round() as u64
    }

    fn burst_bytes(&self, line: &fit::ShareLine, config: &PolicingConfig) -> Estimate<u64> {
        let bytes = self.excess_bytes(line.committed_rate.value.as_f64() - line.cross_rate) as f64;
        let doubt = 0.15 * bytes + 3.0 * 1500.0;
        let high = bytes + doubt + config.spent_bytes as f64;
        let [value, low, high] = [bytes, bytes - doubt, high].map(|bytes| bytes.max(0.0) as u64);
        Estimate { value, low, high, confidence: 0.95 }
    }
}

/// By how much more or less than the rate of a part of a train may be available beside so much cross traffic in bit/s, of which there may have
/// been more or less than usual, and single packets count.
pub(super) fn rate_uncertainty(rates: &PartRates, cross: f64, config: &PolicingConfig) -> f64 {
    let packets = rates.packets as f64 / (1.0 - rates.lost_part);
    let chance = if config.connections.is_some() {
        DOUBTED_STANDARD_DEVIATIONS * (packets * rates.lost_part).sqrt()
    } else {
        0.0
    };
    let seconds = packets * f64::from(config.max_packet) * 8.0 / rates.sending_rate;
    rate_uncertainty_over(seconds, cross, config).max(rates.sending_rate * chance / packets)
}

/// The same of so many seconds.
fn rate_uncertainty_over(seconds: f64, cross: f64, config: &PolicingConfig) -> f64 {
    let deviation = rate_deviation(Rate::from_f64(cross), config, seconds) + 2.0 * cross_packet_bits(config);
    let packets = MAX_PACKETS_OFF * f64::from(config.max_packet) * 8.0;
    (DOUBTED_STANDARD_DEVIATIONS * deviation / seconds.max(1e-6)).min(cross).max(packets / seconds.max(1e-6))
}

/// The standard deviation of the bits of cross traffic in so many seconds, if its packets come at random times.
pub(super) fn cross_deviation(config: &PolicingConfig, seconds: f64) -> f64 {
    rate_deviation(config.max_cross_rate, config, seconds) + 2.0 * cross_packet_bits(config)
}

/// The same of packets at this rate, without what single ones count.
pub(super) fn rate_deviation(cross: Rate, config: &PolicingConfig, seconds: f64) -> f64 {
    (cross.as_f64() * seconds.max(0.0) * cross_packet_bits(config)).sqrt()
}

fn cross_packet_bits(config: &PolicingConfig) -> f64 {
    CROSS_PACKET_BITS.max(f64::from(config.max_packet) * 8.0)
}
