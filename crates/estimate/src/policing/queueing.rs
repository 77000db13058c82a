//! A shaper's queue: trains of one rate each, behind what uses up the bucket, and so short that the queue does not overflow. Their packets wait
//! behind cross traffic as on any link, which tells more than what a full queue drops.

use super::config::PolicingConfig;
use super::plan::{PacketSpacing, TrainSection};
use super::train_rates::{self, PartRates, delays};
use crate::packet_timing::PacketTiming;
use crate::stats::mean;
use kumade_probe_train::TrainRecord;
use kumade_probe_train::fit::fit_robust_line;
use kumade_units::{Rate, Span};

/// By how many seconds a second the delay is to grow, in the trains of one round.
const FIRST_GROWTH_RATIOS: [f64; 4] = [1.2, 0.45, 0.9, 0.65];
const LATER_GROWTH_RATIOS: [f64; 4] = [0.8, 0.3, 0.55, 0.4];
/// At less growth, cross traffic lets the queue run empty by turns.
pub(super) const MIN_GROWTH_RATIO: f64 = 0.12;
/// No section is faster than this part of the train that showed the queue.
const FASTEST_PART: f64 = 0.95;
/// A section fills this part of what the queue is known to hold at most, …
const MAX_FILLED_PART: f64 = 0.4;
/// … lasts so long at most, …
const SECTION_SECONDS: f64 = 0.15;
/// … and has so many packets.
const MIN_PACKETS: u32 = 30;
const MAX_PACKETS: u32 = 150;
/// The bucket may hold this part more than is expected.
const ADDITIONAL_TOKENS_PART: f64 = 0.25;
/// Ahead of a section, so many packets are to wait.
const STANDING_PACKETS: f64 = 8.0;
/// One waits in the queue if it does for so many times as long as a packet takes to leave it, and found it empty below half of that.
const MIN_WAIT_PACKETS: f64 = 2.0;
/// Of fewer packets, it is not told how a queue grows.
const MIN_PART_PACKETS: usize = 20;
/// Where more are lost than this part, the queue overflowed.
const MAX_LOST_PART: f64 = 0.03;
/// See [`ShaperQueue::spent_part`] and [`ShaperQueue::drain_factor`].
const MAX_SPENT_PART: f64 = 8.0;
const MIN_DRAIN_FACTOR: f64 = 1.5;
const MAX_DRAIN_FACTOR: f64 = 8.0;

/// The queue, as far as known.
#[derive(Debug, Clone, Copy)]
pub(super) struct ShaperQueue {
    /// Bits that it holds at least.
    min_queue_bits: f64,
    /// What the bucket passes, and what it leaves, in bit/s.
    committed_rate: f64,
    available: f64,
    /// From sending to arrival where it is empty, the clocks' unknown offset included.
    min_delay: Span,
    /// Whether a line has told the rates.
    are_rates_known: bool,
    /// The bucket was found to be empty after this part of what was expected to use it up.
    spent_part: f64,
    /// It drains in so many times the time that the last packet of a train waited in it: cross traffic has come behind that packet.
    drain_factor: f64,
}

/// What a train shows of it.
#[derive(Debug, Clone, Copy)]
pub(super) enum QueueSample {
    /// The rates of packets that waited in it.
    Rates(PartRates),
    /// It overflowed before enough packets had waited.
    Overflow,
    /// No packet waited: the bucket was not empty.
    NoQueue,
    /// It ran empty too often.
    Emptied,
}

impl ShaperQueue {
    /// As a train shows it that has used up the bucket, and of which the rest arrived at this rate in bit/s.
    pub(super) fn from_train(record: &TrainRecord, arrived: f64, least_delay: Option<Span>) -> Option<Self> {
        let least_delay = delays(record).chain(least_delay).min()?;
        let waited = (delays(record).max()? - least_delay).as_secs_f64();
        Some(ShaperQueue {
            min_queue_bits: waited * arrived,
            committed_rate: arrived,
            available: arrived,
            min_delay: least_delay,
            are_rates_known: false,
            spent_part: 1.0,
            drain_factor: MIN_DRAIN_FACTOR,
        })
    }

    /// In the light of what the bucket passes, and leaves, as trains have told.
    pub(super) fn with_rates(self, committed: Rate, available: Rate) -> Self {
        let [committed, available] = [committed, available].map(Rate::as_f64);
        let available = available.min(committed);
        let drain_factor = (committed / available.max(1.0)).clamp(MIN_DRAIN_FACTOR, MAX_DRAIN_FACTOR);
        ShaperQueue {
            committed_rate: committed,
            available,
            drain_factor: drain_factor.max(self.drain_factor),
            are_rates_known: true,
            ..self
        }
    }

    /// After a train has overflowed it.
    pub(super) fn after_overflow(self) -> Self {
        ShaperQueue {
            min_queue_bits: self.min_queue_bits / 2.0,
            spent_part: self.spent_part / 2.0,
            drain_factor: (2.0 * self.drain_factor).min(MAX_DRAIN_FACTOR),
            ..self
        }
    }

    /// After a train that did not use up the bucket.
    pub(super) fn after_unfilled(self) -> Self {
        ShaperQueue { spent_part: (self.spent_part * 2.0).min(MAX_SPENT_PART), ..self }
    }

    /// What is to use up a bucket that holds so many bits and has filled for so many seconds if it was empty before.
    pub(super) fn tokens_at(&self, full: f64, filled: Option<f64>) -> f64 {
        self.spent_part * filled.map_or(full, |seconds| full.min(self.available * seconds))
    }

    /// How long a packet waited in it that took so long to arrive.
    pub(super) fn waiting_time(&self, delay: Span) -> Span {
        (delay - self.min_delay).max(Span::ZERO)
    }

    /// How long it takes to drain from when a train has been sent whose last packet waited for so long.
    pub(super) fn drain_time(&self, waited: Span) -> Span {
        Span::from_secs_f64(waited.as_secs_f64() * self.drain_factor)
    }

    /// The sections of a round, each for a train of its own.
    pub(super) fn sections(&self, look: TrainSection, config: &PolicingConfig) -> Vec<TrainSection> {
        let fastest = (FASTEST_PART * look.rate - self.available) / self.committed_rate;
        let growths = if self.are_rates_known { LATER_GROWTH_RATIOS } else { FIRST_GROWTH_RATIOS };
        let shrunk = (fastest / growths[0]).min(1.0);
        let grown = growths.into_iter().map(|growth| growth * shrunk).filter(|growth| *growth > MIN_GROWTH_RATIO);
        grown.map(|growth| self.growth_section(growth, config)).collect()
    }

    fn growth_section(&self, growth: f64, config: &PolicingConfig) -> TrainSection {
        let bits = f64::from(config.max_packet) * 8.0;
        let rate = self.available + growth * self.committed_rate;
        let seconds = SECTION_SECONDS.min(MAX_FILLED_PART * self.min_queue_bits / (growth * self.committed_rate));
        let packets = ((seconds * rate / bits) as u32).clamp(MIN_PACKETS, MAX_PACKETS);
        TrainSection { packets, rate, spacing: PacketSpacing::Even }
    }

    /// The same section behind a burst that uses up so many bits of tokens.
    pub(super) fn behind_burst(
        &self,
        look: TrainSection,
        section: TrainSection,
        tokens: f64,
        config: &PolicingConfig,
    ) -> [TrainSection; 2] {
        let bits = f64::from(config.max_packet) * 8.0;
        let spent = tokens / (1.0 - self.available / look.rate).max(0.2);
        let burst = (spent / bits + STANDING_PACKETS) as u32;
        // What is left of them lasts for a part of the section.
        let excess = 1.0 - self.available / section.rate;
        let more = (ADDITIONAL_TOKENS_PART * tokens / excess.max(0.1) / bits) as u32;
        [TrainSection { packets: burst, ..look }, TrainSection { packets: section.packets + more, ..section }]
    }

    /// What a train shows whose section begins at that place.
    pub(super) fn sample_train(&self, train: &[PacketTiming], record: &TrainRecord, from: usize) -> QueueSample {
        let offset = delays(record).next().map_or(0.0, |delay| (delay - self.min_delay).as_secs_f64());
        let waited = |passage: &PacketTiming| passage.in_order_arrival.map(|arrived| arrived - passage.sent + offset);
        let section = &train[train.partition_point(|passage| passage.index < from)..];
        let service = section.first().map_or(0.0, |passage| passage.bits / self.committed_rate);
        let waits = |passage: &PacketTiming| waited(passage).is_some_and(|waited| waited > MIN_WAIT_PACKETS * service);
        let is_cut_short = (section.len() as u32) < MIN_PACKETS / 2;
        let Some(begin) = section.iter().position(waits) else {
            let lost = section.iter().filter(|passage| passage.arrival.is_none()).count();
            return if is_cut_short || lost as f64 > MAX_LOST_PART * section.len() as f64 {
                QueueSample::Overflow
            } else {
                QueueSample::NoQueue
            };
        };
        let behind = before_overflow(&section[begin..]);
        let idle =
            |passage: &&PacketTiming| waited(passage).is_some_and(|waited| waited < MIN_WAIT_PACKETS / 2.0 * service);
        match train_rates::part_rates(behind) {
            _ if behind.len() < MIN_PART_PACKETS && behind.len() < section.len() - begin => QueueSample::Overflow,
            _ if behind.len() < MIN_PART_PACKETS => QueueSample::NoQueue,
            Some(rates) if behind.iter().filter(idle).count() * 10 < behind.len() => {
                // Those that were lost did not wait.
                let sent = rates.sending_rate * (1.0 - rates.lost_part);
                QueueSample::Rates(PartRates {
                    sending_rate: sent,
                    lost_part: 0.0,
                    passed_count_variance: delay_wander(behind, service),
                    ..rates
                })
            }
            _ => QueueSample::Emptied,
        }
    }
}

/// All of it where few packets were lost, else those ahead of the first that was.
fn before_overflow(part: &[PacketTiming]) -> &[PacketTiming] {
    let is_lost = |passage: &PacketTiming| passage.arrival.is_none();
    let lost = part.iter().filter(|passage| is_lost(passage)).count();
    let end = part.iter().position(is_lost).filter(|_| lost as f64 > MAX_LOST_PART * part.len() as f64);
    &part[..end.unwrap_or(part.len())]
}

/// See [`PartRates::passed_count_variance`]: of the packets that were ahead in the queue. From its line of least squares, a random walk deviates less than from
/// the one through its ends, by the factor 2.5, while the slope's error is larger, by 1.2.
fn delay_wander(part: &[PacketTiming], service: f64) -> f64 {
    let delays: Vec<(f64, f64)> =
        part.iter().filter_map(|passage| Some((passage.sent, passage.in_order_arrival? - passage.sent))).collect();
    let Some(line) = fit_robust_line(&delays) else { return 0.0 };
    const WANDER_FACTOR: f64 = 2.5 * 1.2;
    WANDER_FACTOR
        * mean(
            &delays.iter().map(|&(sent, delay)| ((delay - line.value_at(sent)) / service).powi(2)).collect::<Vec<_>>(),
        )
}
