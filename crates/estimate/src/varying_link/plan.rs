//! Which packets to send.

use super::sample::{UnusableTrain, VaryingTrainSample};
use kumade_probe_train::{Segment, Train};
use kumade_units::{Rate, Span};

/// The rate of the fast part, by what arrives of it: most of its time, the queue grows.
const FAST_RATE_RATIO: f64 = 4.0;
/// The rate of the slow part, by what is available: the queue is to be short again at the end.
const SLOW_RATE_RATIO: f64 = 0.85;
/// By what the link carries, it is no slower: packets must not be further apart than turns.
const MIN_SLOW_RATE_RATIO: f64 = 0.1;
/// What is available by what arrived of trains, before the first reading.
const INITIAL_AVAILABLE_RATIO: f64 = 0.7;
/// The slow part spans so many turns, …
const SLOW_PART_PERIODS: f64 = 20.0;
/// … as many packets as that, …
const SLOW_PART_PACKETS: f64 = 60.0;
/// … and this time in seconds at least, …
const MIN_SLOW_PART_SECONDS: f64 = 0.02;
/// … and no longer than that.
const MAX_SLOW_PART_SECONDS: f64 = 0.5;
/// Shorter ones, where the budget is small, still span so many turns.
const MIN_SLOW_PART_PERIODS: f64 = 6.0;
/// The fast part makes packets wait for this part of the slow one's time, …
const FAST_PART_QUEUEING_RATIO: f64 = 0.4;
/// … without more bits in the queue than that: queues of access links hold more.
const MAX_QUEUED_BITS: f64 = 8.0 * 300e3;
/// Either part has so many packets at least.
const MIN_PART_PACKETS: f64 = 20.0;
/// The budget is enough for so many trains.
const MIN_TRAIN_COUNT: f64 = 10.0;
/// As much is sent as the link carries in this time, in seconds, …
const BUDGET_SECONDS: f64 = 0.4;
/// … or these bytes.
const BUDGET_BYTES: u64 = 4_000_000;

/// After a train that found no queue, the rates of the next one are so many times as high.
const NO_QUEUE_FAST_RATE_RATIO: f64 = 1.5;
const NO_QUEUE_SLOW_RATE_RATIO: f64 = 1.3;
/// After one whose fast part was too short to be read, that is so many times as long, and no more than this many times as usual.
const LENGTHENING_RATIO: f64 = 1.4;
const MAX_LENGTHENING_RATIO: f64 = 3.0;
/// After one that overflowed the queue, trains are so much shorter: where it could be read, and where not. They are never shorter
/// than this part of the usual.
const SHORTENING_RATIO: f64 = 0.8;
const UNREADABLE_TRAIN_SHORTENING_RATIO: f64 = 0.6;
const MIN_LENGTH_RATIO: f64 = 0.2;
/// After one that did not, they are longer again.
const RELENGTHENING_RATIO: f64 = 1.1;

/// What is known before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VaryingLinkConfig {
    /// About what arrived of trains, or less.
    pub rate: Rate,
    /// From one turn of the link to the next.
    pub period: Span,
    /// The largest packet that the transport carries whole, in bytes.
    pub max_packet_bytes: u32,
    /// The longest train that it carries, in packets.
    pub max_packets: u32,
    /// IP bytes to send at most. No more is sent than the link carries in 0.4 s, or 4 MB.
    pub budget_bytes: u64,
    /// How long that may take.
    pub budget_time: Span,
    /// Of random numbers.
    pub seed: u64,
}

/// What is known of the link, in bit/s, and in seconds from one turn to the next.
#[derive(Debug, Clone, Copy)]
pub(super) struct VaryingLinkFacts {
    pub(super) available: Option<f64>,
    pub(super) link_rate: Option<f64>,
    pub(super) period: f64,
}

/// How trains follow what became of those before.
#[derive(Debug, Clone, Copy)]
pub(super) struct TrainPlan {
    /// Of the fast part, in bit/s.
    fast_rate: f64,
    /// By how much faster than usual the slow part is.
    slow_rate_factor: f64,
    /// By how much longer than usual the fast part is.
    fast_length_factor: f64,
    /// By how much shorter than usual trains are.
    shortening_factor: f64,
}

/// How many bytes to send in all.
pub(super) fn byte_budget(known: &VaryingLinkFacts, config: &VaryingLinkConfig) -> u64 {
    let carried = known.link_rate.unwrap_or(config.rate.as_f64());
    ((BUDGET_SECONDS * carried / 8.0) as u64).max(BUDGET_BYTES).min(config.budget_bytes)
}

impl TrainPlan {
    /// For a link of which so much, in bit/s, arrived of earlier trains.
    pub(super) fn new(arrived: f64) -> Self {
        TrainPlan {
            fast_rate: FAST_RATE_RATIO * arrived,
            slow_rate_factor: 1.0,
            fast_length_factor: 1.0,
            shortening_factor: 1.0,
        }
    }

    /// From what became of the last train, whether it overflowed the queue, and from the median of what arrived of fast parts, in bit/s.
    pub(super) fn adapt(
        &mut self,
        read: &Result<VaryingTrainSample, UnusableTrain>,
        has_overflowed: bool,
        fast: Option<f64>,
    ) {
        match read {
            Ok(reading) => {
                let least = if fast.is_some() { 0.0 } else { self.fast_rate };
                self.fast_rate = (FAST_RATE_RATIO * fast.unwrap_or(reading.whole_train.rate())).max(least);
                self.slow_rate_factor = 1.0;
                if reading.parts.is_none() {
                    self.fast_length_factor = (LENGTHENING_RATIO * self.fast_length_factor).min(MAX_LENGTHENING_RATIO);
                }
                self.shortening_factor *= if has_overflowed { SHORTENING_RATIO } else { RELENGTHENING_RATIO };
            }
            Err(UnusableTrain::TooManyLost) => self.shortening_factor *= UNREADABLE_TRAIN_SHORTENING_RATIO,
            Err(UnusableTrain::NoQueue) => {
                self.fast_rate *= NO_QUEUE_FAST_RATE_RATIO;
                self.slow_rate_factor *= NO_QUEUE_SLOW_RATE_RATIO;
            }
        }
        self.shortening_factor = self.shortening_factor.clamp(MIN_LENGTH_RATIO, 1.0);
    }

    /// The next train, and how many packets its fast part has.
    pub(super) fn plan_train(&self, known: &VaryingLinkFacts, config: &VaryingLinkConfig) -> (Train, u32) {
        let bits = f64::from(config.max_packet_bytes) * 8.0;
        let arriving = self.fast_rate / FAST_RATE_RATIO;
        let carried = known.link_rate.unwrap_or(arriving);
        let available = known.available.unwrap_or(INITIAL_AVAILABLE_RATIO * arriving);
        let slow_rate = (SLOW_RATE_RATIO * available * self.slow_rate_factor).max(MIN_SLOW_RATE_RATIO * carried);
        let usual = (SLOW_PART_PERIODS * known.period)
            .max(SLOW_PART_PACKETS * bits / slow_rate)
            .clamp(MIN_SLOW_PART_SECONDS, MAX_SLOW_PART_SECONDS);
        let bits_per_second = slow_rate + FAST_PART_QUEUEING_RATIO * arriving;
        let affordable = byte_budget(known, config) as f64 * 8.0 / MIN_TRAIN_COUNT / bits_per_second;
        let seconds = usual.min(affordable.max(MIN_SLOW_PART_PERIODS * known.period)) * self.shortening_factor;
        let waiting = (FAST_PART_QUEUEING_RATIO * seconds * self.fast_length_factor)
            .min(MAX_QUEUED_BITS * self.shortening_factor / carried);
        let segment = |seconds: f64, rate: f64| Segment {
            count: (seconds * rate / bits).max(MIN_PART_PACKETS) as u32,
            interval: Span::from_secs_f64(bits / rate).clamp(Span::ZERO, Span::from_secs(1)),
            first_size: config.max_packet_bytes,
            size_step: 0,
        };
        let (mut fast, mut slow) =
            (segment(waiting / (FAST_RATE_RATIO - 1.0), self.fast_rate), segment(seconds, slow_rate));
        let most = config.max_packets.min(Train::MAX_PACKETS);
        fast.count = fast.count.min(most / 2);
        slow.count = slow.count.min(most - fast.count);
        (Train { segments: vec![fast, slow] }, fast.count)
    }
}
