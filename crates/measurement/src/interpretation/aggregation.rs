//! Whether packets arrive many at once, in batches, or only at whole milliseconds: as from radio links, whose stations send several
//! packets at each turn, or have turns at fixed times, or from a receiver that collects packets. The time from one turn to the next is
//! the cycle in which the path serves packets; trains that do not span many of them show the cycle and not the rate.

use kumade_estimate::{ArrivalPattern, Outcome, Reason, Rejection};
use kumade_probe_train::statistics::median;
use kumade_probe_train::{Estimate, TrainRecord};
use kumade_units::{Rate, Span, Time};

/// Shorter trains tell nothing of batches.
const MIN_PACKETS: usize = 20;
/// Packets of a batch arrive within this part of the mean time between two arrivals.
const MAX_GAP_PART: f64 = 0.2;
/// Packets arrive in batches if there are so many in each on average, …
const MIN_BATCH_PACKETS: f64 = 3.0;
/// … in this part of the trains.
const MIN_TRAINS_PART: f64 = 0.5;
/// Packets catch up with those before if so many arrive at once on average, in the median train.
const MIN_PACKETS_AT_ONCE: f64 = 1.4;
/// A receiver that collects packets for less than this long does not mislead trains …
const MIN_CYCLE: Span = Span::from_micros(600);
/// … of so many batches.
const MIN_BATCHES_PER_TRAIN: f64 = 10.0;

/// Values are not believed if this part of the trains arrived in clumps, or this where the interval is wide.
const MIN_CLUMPED_PART: f64 = 0.5;
const MIN_CLUMPED_PART_IF_VAGUE: f64 = 0.25;

/// The turns of cellular networks: subframes of LTE, and of 5G (3GPP TS 36.211, TS 38.211).
const SUBFRAME_DURATION: Span = Span::from_millis(1);
/// Packets arrive at whole subframes if their phases agree so well, from 0 to 1, …
const MIN_CONCENTRATION: f64 = 0.9;
/// … and were not sent like that.
const MAX_CONCENTRATION_SENT: f64 = 0.6;

/// Intervals between arrivals are equal if they differ by less than this part, …
const MAX_INTERVAL_DEVIATION: f64 = 0.05;
/// … and this part of them.
const MIN_EQUAL_PART: f64 = 0.8;

/// How packets arrived, train by train.
#[derive(Debug, Clone, Default)]
pub(crate) struct AggregationDetector {
    train_count: usize,
    /// Trains of which the packets arrived at whole subframes.
    subframe_trains: usize,
    batched_trains: Vec<BatchCounts>,
    /// How many packets of each train arrived at once, on average.
    packets_at_once: Vec<f64>,
    /// At which rate each train arrived, in bit/s.
    rates: Vec<f64>,
}

/// What keeps short trains from telling the rate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AggregationCycle {
    /// How packets arrive.
    pub(crate) arrival: ArrivalPattern,
    /// From one turn of the link to the next.
    pub(crate) period: Span,
    /// Whether the link serves packets like that, as radio links do; else it may be queues of other flows, or delays that vary, that keep
    /// packets from arriving one by one.
    pub(crate) is_due_to_link: bool,
}

/// Of a train that arrived in batches.
#[derive(Debug, Clone, Copy)]
struct BatchCounts {
    batch_count: f64,
    packets_per_batch: f64,
    /// From one to the next, in seconds.
    period_seconds: f64,
}

impl AggregationDetector {
    /// Takes in a train.
    pub(crate) fn add_train(&mut self, record: &TrainRecord) {
        // What was sent at once arrives at once.
        let record = record.with_bursts_joined().record;
        let mut arrivals: Vec<Time> = record.packets.iter().filter_map(|packet| packet.received).collect();
        arrivals.sort_unstable();
        let (Some(first), Some(last)) = (arrivals.first(), arrivals.last()) else { return };
        if arrivals.len() < MIN_PACKETS {
            return;
        }
        self.train_count += 1;
        let seconds = (*last - *first).as_secs_f64();
        let within = MAX_GAP_PART * seconds / (arrivals.len() - 1) as f64;
        let count = arrivals.chunk_by(|one, next| (*next - *one).as_secs_f64() <= within).count() as f64;
        let packets = arrivals.len() as f64 / count;
        self.packets_at_once.push(packets);
        let arrived = record.packets.iter().filter(|packet| packet.received.is_some());
        let bits: f64 = arrived.map(|packet| f64::from(packet.size) * 8.0).sum();
        if seconds > 0.0 {
            // The first batch arrived before.
            self.rates.push(bits * (1.0 - 1.0 / count) / seconds);
        }
        if packets >= MIN_BATCH_PACKETS {
            self.batched_trains.push(BatchCounts {
                batch_count: count,
                packets_per_batch: packets,
                period_seconds: seconds / (count - 1.0).max(1.0),
            });
        }
        let sent = record.packets.iter().filter_map(|packet| packet.sent);
        let is_at_subframes = concentration(arrivals.iter().copied()) > MIN_CONCENTRATION
            && concentration(sent) < MAX_CONCENTRATION_SENT
            && !has_even_intervals(&arrivals);
        self.subframe_trains += usize::from(is_at_subframes);
    }

    /// The outcome, and the fair share of one flow, with the right cause where packets arrive in so few batches, or at whole
    /// subframes, that trains do not show the rate: what seems to bound it then has this cause, too. With that cause. `varies` tells
    /// whether delays vary on the idle path, which makes packets arrive in clumps as well.
    pub(crate) fn interpret_outcome(
        &self,
        outcome: Outcome,
        fair_share: Option<Estimate<Rate>>,
        varies: bool,
    ) -> (Outcome, Option<Estimate<Rate>>, Option<AggregationCycle>) {
        match self.detect_cycle(&outcome, varies) {
            Some(cycle) => {
                let reason = Some(Reason::TrainsTooShort(cycle.arrival));
                (Outcome { available: None, bound: None, reason, spread: None, ..outcome }, None, Some(cycle))
            }
            None => (outcome, fair_share, None),
        }
    }

    /// Where delays vary on the idle path by this.
    pub(crate) fn idle_variation_cycle(&self, variation: Span) -> AggregationCycle {
        let arrival = ArrivalPattern::IdleVariation(variation);
        AggregationCycle { arrival, period: variation, is_due_to_link: self.is_at_subframes() }
    }

    /// The median of the rates at which trains arrived.
    pub(crate) fn arrival_rate(&self) -> Option<Rate> {
        median(&self.rates).map(Rate::from_f64)
    }

    fn detect_cycle(&self, outcome: &Outcome, varies: bool) -> Option<AggregationCycle> {
        let is_vague =
            outcome.available.is_none_or(|found| found.high.as_f64() - found.low.as_f64() > found.value.as_f64());
        let turn = self.batch_median(|train| train.period_seconds).map_or(SUBFRAME_DURATION, Span::from_secs_f64);
        if let Some(arrival) = self.too_few_batches(turn) {
            let is_due_to_link = !varies || self.is_at_subframes();
            Some(AggregationCycle { arrival, period: turn, is_due_to_link })
        } else if self.is_at_subframes() {
            let arrival = ArrivalPattern::Subframes(SUBFRAME_DURATION);
            Some(AggregationCycle { arrival, period: turn, is_due_to_link: true })
        } else if arrives_in_clumps(outcome, is_vague && !varies) {
            Some(AggregationCycle { arrival: ArrivalPattern::Clumps, period: turn, is_due_to_link: false })
        } else {
            None
        }
    }

    /// The median of trains that arrived in batches.
    fn batch_median(&self, of: fn(&BatchCounts) -> f64) -> Option<f64> {
        median(&self.batched_trains.iter().map(of).collect::<Vec<_>>())
    }

    fn too_few_batches(&self, turn: Span) -> Option<ArrivalPattern> {
        let (count, packets) =
            (self.batch_median(|train| train.batch_count)?, self.batch_median(|train| train.packets_per_batch)?);
        let misleads =
            self.is_in_most_trains(self.batched_trains.len()) && (turn >= MIN_CYCLE || count < MIN_BATCHES_PER_TRAIN);
        misleads.then(|| ArrivalPattern::Batches(packets.round() as u32, turn))
    }

    /// From one batch to the next, about, if most trains arrived in batches.
    pub(crate) fn batch_period(&self) -> Option<Span> {
        self.batch_median(|train| train.period_seconds)
            .map(Span::from_secs_f64)
            .filter(|_| self.is_in_most_trains(self.batched_trains.len()))
    }

    /// Whether packets catch up with those before them, which no queue lets them do: their delays vary by other causes, for each packet or in
    /// batches.
    pub(crate) fn is_catching_up(&self) -> bool {
        self.is_batched() || median(&self.packets_at_once).is_some_and(|packets| packets >= MIN_PACKETS_AT_ONCE)
    }

    /// Whether most trains arrived in batches, or at whole subframes.
    pub(crate) fn is_batched(&self) -> bool {
        self.is_in_most_trains(self.batched_trains.len()) || self.is_at_subframes()
    }

    fn is_at_subframes(&self) -> bool {
        self.is_in_most_trains(self.subframe_trains)
    }

    fn is_in_most_trains(&self, trains: usize) -> bool {
        trains > 0 && trains as f64 >= MIN_TRAINS_PART * self.train_count as f64
    }
}

/// Whether there is a value or a bound although many trains were rejected since their packets arrived in clumps.
pub(crate) fn arrives_in_clumps(outcome: &Outcome, is_vague: bool) -> bool {
    let rejected: u32 = outcome.trains_rejected.values().sum();
    let clumped = outcome.trains_rejected.get(&Rejection::ReceiverStalled).copied().unwrap_or(0);
    let part = f64::from(clumped) / f64::from(outcome.trains_used + rejected).max(1.0);
    let is_known = outcome.available.is_some() || outcome.bound.is_some();
    is_known && part >= if is_vague { MIN_CLUMPED_PART_IF_VAGUE } else { MIN_CLUMPED_PART }
}

/// Whether nearly all packets arrive at equal intervals, as from a link that happens to take whole milliseconds for each.
fn has_even_intervals(arrivals: &[Time]) -> bool {
    let gaps: Vec<f64> = arrivals.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64()).collect();
    let usual = median(&gaps).unwrap_or(0.0);
    let equal = gaps.iter().filter(|gap| (**gap - usual).abs() <= MAX_INTERVAL_DEVIATION * usual).count();
    equal as f64 >= MIN_EQUAL_PART * gaps.len() as f64
}

/// How well times agree in their phase within a subframe: 1 if it is the same for all, about 0 if it is random (the length of the mean
/// of unit vectors).
fn concentration(times: impl Iterator<Item = Time>) -> f64 {
    let (mut sine, mut cosine, mut count) = (0.0, 0.0, 0.0f64);
    for time in times {
        let phase =
            time.as_nanos().rem_euclid(SUBFRAME_DURATION.as_nanos()) as f64 / SUBFRAME_DURATION.as_nanos() as f64;
        let angle = phase * std::f64::consts::TAU;
        (sine, cosine, count) = (sine + angle.sin(), cosine + angle.cos(), count + 1.0);
    }
    sine.hypot(cosine) / count.max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_probe_train::PacketRecord;
    use kumade_units::Time;

    fn outcome() -> Outcome {
        Outcome::without_value(Reason::TrainsRejected(9, Rejection::ReceiverStalled))
    }

    /// Of 60 packets, each so long after the first.
    fn train(after: impl Fn(i64) -> Span) -> TrainRecord {
        let sent = |number| Some(Time::ZERO + Span::from_micros(130) * number);
        let packet = |number| PacketRecord {
            size: 1500,
            sent: sent(number),
            submitted: None,
            received: Some(Time::ZERO + after(number)),
        };
        TrainRecord { packets: (0..60).map(packet).collect() }
    }

    #[test]
    fn batches_are_the_cause_where_there_is_no_value() {
        let mut cycle = AggregationDetector::default();
        // Ten packets each 2 ms, with stamps of some microseconds between them.
        cycle.add_train(&train(|number| Span::from_millis(2) * (number / 10) + Span::from_micros(3) * (number % 10)));
        let share = Rate::from_mbit(5);
        let share = Estimate { value: share, low: share, high: share, confidence: 0.95 };
        let (found, none, cause) = cycle.interpret_outcome(outcome(), Some(share), false);
        let Some(Reason::TrainsTooShort(ArrivalPattern::Batches(10, _))) = found.reason else {
            panic!("{:?}", found.reason)
        };
        assert_eq!(none, None);
        let turn = cause.unwrap().period;
        assert!((Span::from_micros(1900)..Span::from_micros(2100)).contains(&turn), "{turn}");
        let value = Outcome { available: Some(share), reason: None, ..outcome() };
        assert_eq!(cycle.interpret_outcome(value, None, false).0.available, None);
    }

    /// On 14 of 1000 virtual cellular links, intervals missed the truth that short trains had told from seconds in which the rate was another.
    #[test]
    fn whole_milliseconds_are_the_cause_even_if_the_value_seems_clear() {
        let mut cycle = AggregationDetector::default();
        cycle.add_train(&train(|number| Span::from_millis(number * 3 / 2)));
        let rate = Rate::from_mbit(5);
        let share = Estimate { value: rate, low: rate, high: rate, confidence: 0.95 };
        for available in [None, Some(share)] {
            let (found, ..) = cycle.interpret_outcome(Outcome { available, reason: None, ..outcome() }, None, false);
            assert!(
                found.available.is_none()
                    && found.reason == Some(Reason::TrainsTooShort(ArrivalPattern::Subframes(SUBFRAME_DURATION)))
            );
        }
    }

    /// HTB of 3 Mbit/s takes 4 ms for an Ethernet frame of 1514 bytes, and was refused as a cellular link.
    #[test]
    fn a_link_that_takes_whole_milliseconds_for_each_packet_is_no_cause() {
        let mut cycle = AggregationDetector::default();
        cycle.add_train(&train(|number| Span::from_millis(4) * number));
        assert_eq!(cycle.interpret_outcome(outcome(), None, false), (outcome(), None, None));
    }

    #[test]
    fn packets_one_by_one_and_short_batches_of_a_receiver_are_no_cause() {
        for (interval, batch) in [(240, 1), (402, 5)] {
            let mut cycle = AggregationDetector::default();
            cycle.add_train(&train(|number| Span::from_micros(interval) * (number / batch)));
            assert_eq!(cycle.interpret_outcome(outcome(), None, false), (outcome(), None, None));
            assert_eq!(cycle.batch_period().map(|cycle| cycle.as_nanos() / 1000), (batch > 1).then_some(402));
        }
    }

    /// Over connections that take seven links, ten of fourteen trains arrived in clumps: "at most 18 Mbit/s" was said where 900 were available.
    #[test]
    fn a_bound_of_trains_that_arrived_in_clumps_is_known_as_such() {
        let bound = Some(kumade_estimate::Bound::AtMost(Rate::from_mbit(18), kumade_estimate::BoundKind::FlowQueueing));
        let of = |clumped| {
            let trains_rejected = [(Rejection::ReceiverStalled, clumped)].into();
            arrives_in_clumps(&Outcome { bound, trains_used: 4, trains_rejected, ..outcome() }, false)
        };
        assert!(of(10) && !of(3));
    }
}
