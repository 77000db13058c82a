//! One-way delay and loss from the trains of a measurement: short trains in both directions on the unloaded path, then
//! those of the methods.

use crate::clocks::Clocks;
use crate::report::{ClockReport, DelayFigures, DelayReport, PacketReport, Warning};
use kumade_estimate::delay::{ClockModel, Deliveries, OneWaySample};
use kumade_probe_train::{PacketRecord, Segment, Train, TrainRecord, Transport};
use kumade_units::{Direction, Span, Time};

/// Packets of one idle train: a short train that measures the delay of the path without load.
const IDLE_TRAIN_PACKETS: u32 = 8;
/// The same where many packets are asked for: three seconds at the longest interval, so that it takes a second more at most to wait for what is lost.
const MAX_IDLE_TRAIN_PACKETS: u32 = 400;
/// How long a receiver waits for packets of a short idle train, beyond a round trip.
pub(crate) const IDLE_TIMEOUT: Span = Span::from_millis(200);
/// The same where packets are counted for their loss: longer than it takes to request a train again whose request was lost, by TCP. What is sent
/// later than that would count as lost.
const COUNTED_TIMEOUT: Span = Span::from_secs(1);
/// For more lost packets in a row at the end of a long idle train, nobody may have waited. Of one in ten that are lost at random, four in a row are
/// one in ten thousand.
const MAX_LOST_AT_END: usize = 3;
/// Minimum interval between two of them.
const MIN_IDLE_INTERVAL: Span = Span::from_millis(3);
/// Maximum interval: at 100 kbit/s the transmission of a packet takes 5 ms, and they must not queue behind each other.
pub(crate) const MAX_IDLE_INTERVAL: Span = Span::from_millis(8);
/// Approximate time for all idle trains; at least one is sent in each direction.
const IDLE_DURATION: Span = Span::from_millis(400);
/// Maximum number of idle trains in each direction.
const MAX_IDLE_ROUNDS: i64 = 4;
/// Time after which no further idle train is sent.
const MAX_IDLE_TIME: Span = Span::from_millis(400);
/// Maximum number of packets whose delays are kept.
const MAX_SAMPLES: usize = 200_000;

/// Delay samples and packet counts from the trains of a measurement.
#[derive(Debug, Default)]
pub(crate) struct DelaySamples {
    /// In the order in which they were sent.
    one_way_samples: Vec<OneWaySample>,
    /// How many of them are from idle trains; these come first.
    idle_sample_count: usize,
    /// Packet counts of idle trains, and of the methods' trains.
    idle_packets: DirectionDeliveries,
    loaded_packets: DirectionDeliveries,
}

/// Packet counts of each direction.
#[derive(Debug, Clone, Copy, Default)]
struct DirectionDeliveries {
    up: Deliveries,
    down: Deliveries,
}

/// The idle trains that are still to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IdleTrains {
    /// In each direction.
    pub(crate) rounds: u32,
    /// In a direction that is measured; in the other one, trains are short.
    packets: u32,
    /// No round begins later.
    pub(crate) end: Time,
    /// Whether a train whose end is missing is sent again.
    can_repeat: bool,
}

impl IdleTrains {
    /// From now on: at least so many packets in a direction. Fewer trains on paths with a long round-trip time, unless packets are asked for.
    pub(crate) fn new(round_trip: Span, min_packets: u32, now: Time) -> Self {
        let one = (plan_train(round_trip, IDLE_TRAIN_PACKETS).duration() + round_trip) * 2;
        let usual = (IDLE_DURATION.as_nanos() / one.as_nanos().max(1)).clamp(1, MAX_IDLE_ROUNDS) as u32;
        let rounds = usual.max(min_packets.div_ceil(MAX_IDLE_TRAIN_PACKETS));
        let packets = min_packets.div_ceil(rounds).max(IDLE_TRAIN_PACKETS);
        // It is on a lossy path that trains take long, and that all their packets count.
        let end = if packets > IDLE_TRAIN_PACKETS { Time::MAX } else { now + MAX_IDLE_TIME };
        IdleTrains { rounds, packets, end, can_repeat: packets > IDLE_TRAIN_PACKETS }
    }

    /// How long the receiver waits for packets, beyond a round trip.
    pub(crate) fn timeout(&self) -> Span {
        if self.packets > IDLE_TRAIN_PACKETS { COUNTED_TIMEOUT } else { IDLE_TIMEOUT }
    }

    /// With the train that this is the record of once more: its sender was late, or asked late, so that the receiver gave up before the end. None where
    /// that is not so, or was tried: packets are lost then.
    pub(crate) fn to_repeat(self, direction: Direction, record: &TrainRecord) -> Option<Self> {
        let last = record.packets.iter().rposition(|packet| packet.received.is_some())?;
        let is_short = record.packets.len() <= IDLE_TRAIN_PACKETS as usize;
        let lost_at_end = record.packets[last + 1..].iter().filter(|packet| packet.sent.is_some()).count();
        let rounds = self.rounds + u32::from(direction == Direction::Down);
        (self.can_repeat && !is_short && lost_at_end > MAX_LOST_AT_END).then_some(IdleTrains {
            rounds,
            can_repeat: false,
            ..self
        })
    }

    /// When one of each direction has been sent.
    pub(crate) fn after_round(self) -> Self {
        IdleTrains { rounds: self.rounds - 1, ..self }
    }

    /// A train. Its interval follows the round-trip time, since a short one excludes slow links.
    pub(crate) fn plan_train(&self, round_trip: Span, is_measured: bool) -> Train {
        plan_train(round_trip, if is_measured { self.packets } else { IDLE_TRAIN_PACKETS })
    }
}

fn plan_train(round_trip: Span, count: u32) -> Train {
    let interval = (round_trip / 2).clamp(MIN_IDLE_INTERVAL, MAX_IDLE_INTERVAL);
    // The smallest packets that every transport can send.
    Train { segments: vec![Segment { count, interval, first_size: 64, size_step: 0 }] }
}

/// By how much delays vary, in ascending order: from the least to that which three of four do not exceed.
pub(crate) fn delay_variation(sorted: &[Span]) -> Option<Span> {
    Some(*sorted.get(sorted.len() * 3 / 4)? - *sorted.first()?)
}

impl DelaySamples {
    /// Adds the record of an idle train. Returns whether any of its packets arrived.
    pub(crate) fn add_idle_train(&mut self, direction: Direction, record: &TrainRecord) -> bool {
        self.idle_packets.count_deliveries(direction, &record.packets);
        self.add_samples(direction, record);
        let has_arrivals = self.one_way_samples.len() > self.idle_sample_count;
        self.idle_sample_count = self.one_way_samples.len();
        has_arrivals
    }

    /// Adds the record of a method's train.
    pub(crate) fn add_loaded_train(&mut self, direction: Direction, record: &TrainRecord) {
        self.loaded_packets.count_deliveries(direction, &record.packets);
        self.add_samples(direction, record);
    }

    fn add_samples(&mut self, direction: Direction, record: &TrainRecord) {
        let room = MAX_SAMPLES.saturating_sub(self.one_way_samples.len());
        let sample = |packet: &PacketRecord| {
            let (sent, received) = (packet.sent?, packet.received?);
            Some(OneWaySample { direction, sent, submitted: packet.submitted.unwrap_or(sent), received })
        };
        self.one_way_samples.extend(record.packets.iter().filter_map(sample).take(room));
    }

    /// The least difference between receive and send stamps in this direction, the clocks' unknown offset included.
    pub(crate) fn min_delay(&self, direction: Direction) -> Option<Span> {
        let samples = self.one_way_samples.iter().filter(|sample| sample.direction == direction);
        samples.map(|sample| sample.received - sample.sent).min()
    }

    /// Packets that hardly anything is sent beside, in this direction, in the order in which they were sent: when, and their delays.
    pub(crate) fn idle_delays(&self, direction: Direction) -> Vec<(Time, Span)> {
        let idle = self.one_way_samples[..self.idle_sample_count].iter().filter(|sample| sample.direction == direction);
        idle.map(|sample| (sample.sent, sample.received - sample.sent)).collect()
    }

    /// The [`delay_variation`] of their delays, with what the stamps of this host add: that differs from moment to moment, and less what was measured
    /// before, delays that vary would seem not to. None if there were too few.
    pub(crate) fn idle_variation(&self, direction: Direction) -> Option<Span> {
        let mut delays: Vec<Span> = self.idle_delays(direction).into_iter().map(|(_, delay)| delay).collect();
        delays.sort_unstable();
        delay_variation(&delays).filter(|_| delays.len() >= IDLE_TRAIN_PACKETS as usize / 2)
    }

    /// By how much it changes from one of them to the next: more than half of the times.
    pub(crate) fn median_idle_delay_change(&self, direction: Direction) -> Option<Span> {
        let idle = self.idle_delays(direction);
        let change = |pair: &[(Time, Span)]| (pair[1].1 - pair[0].1).max(pair[0].1 - pair[1].1);
        let mut changes: Vec<Span> = idle.windows(2).map(change).collect();
        changes.sort_unstable();
        changes.get(changes.len() / 2).copied()
    }

    /// The delay part of the report.
    pub(crate) fn report(&self, transport: Transport, clocks: &Clocks) -> DelayReport {
        let mut report = DelayReport::new("trains");
        let scatter = clocks.stamp_scatter;
        if transport == Transport::Udp {
            self.report_packets(&mut report);
        }
        let idle = self.idle_sample_count;
        let Some(model) = report_one_way(&mut report, &self.one_way_samples, clocks, |place| place < idle) else {
            return report;
        };
        let (is_idle, is_loaded) = (|place: usize| place < idle, |place: usize| place >= idle);
        report.round_trip = model.round_trips(is_idle, is_idle).map(DelayFigures::from);
        report.up_loaded_round_trip = model.round_trips(is_loaded, is_idle).map(DelayFigures::from);
        report.down_loaded_round_trip = model.round_trips(is_idle, is_loaded).map(DelayFigures::from);
        report.up_loaded = DelayFigures::from_model(&model, Direction::Up, is_loaded);
        report.down_loaded = DelayFigures::from_model(&model, Direction::Down, is_loaded);
        if transport != Transport::Udp {
            report.warnings.push(Warning::DelaysOverTcp);
        }
        report.widened_by_scatter(scatter)
    }

    /// For UDP only: over TCP, retransmission hides loss.
    fn report_packets(&self, report: &mut DelayReport) {
        let if_any = |counts: Deliveries| (counts.sent > 0).then(|| PacketReport::from_trains(counts));
        report.up_packets = if_any(self.idle_packets.up);
        report.down_packets = if_any(self.idle_packets.down);
        report.up_loaded_packets = if_any(self.loaded_packets.up);
        report.down_loaded_packets = if_any(self.loaded_packets.down);
    }
}

/// Fills in `report` the one-way delays of both directions on the unloaded path (from the samples whose index `is_idle`
/// accepts) and the clocks' offset. Returns none if the samples fit no clock model; `report` then has the reason.
pub fn report_one_way(
    report: &mut DelayReport,
    samples: &[OneWaySample],
    clocks: &Clocks,
    is_idle: impl Fn(usize) -> bool,
) -> Option<ClockModel> {
    let (started, ended) = near_clock_span(samples);
    let references = clocks.clock_references([started, ended]);
    let model = match ClockModel::fit(samples, &references) {
        Ok(model) => model,
        Err(error) => {
            report.reason = Some(error);
            return None;
        }
    };
    report.up = DelayFigures::from_model(&model, Direction::Up, &is_idle);
    report.down = DelayFigures::from_model(&model, Direction::Down, &is_idle);
    report.clock = Some(ClockReport::new(&model, started, clocks.near_error(), clocks.far_error()));
    report.warnings.extend(clocks.warnings.iter().cloned());
    if model.is_contradicted() {
        report.warnings.push(Warning::ClocksContradicted);
    } else if references.is_empty() {
        report.warnings.push(Warning::ClocksUnsynchronised);
    }
    for step in model.steps() {
        report.warnings.push(Warning::ClockStep(step.time - started, step.size));
    }
    Some(model)
}

/// Times of the first and the last sample by this host's clock; zero if there is none.
fn near_clock_span(samples: &[OneWaySample]) -> (Time, Time) {
    let near = |sample: &OneWaySample| if sample.direction == Direction::Up { sample.sent } else { sample.received };
    let first_sent = samples.iter().find(|sample| sample.direction == Direction::Up).map(|sample| sample.sent);
    let ended = samples.iter().map(near).max().unwrap_or_default();
    (first_sent.unwrap_or(ended), ended)
}

impl DirectionDeliveries {
    /// Counts the packets that were sent.
    fn count_deliveries(&mut self, direction: Direction, packets: &[PacketRecord]) {
        let left = packets.iter().filter(|packet| packet.sent.is_some());
        let mut arrivals: Vec<_> =
            left.clone().zip(0u32..).filter_map(|(packet, number)| Some((packet.received?, number))).collect();
        arrivals.sort_unstable();
        let train =
            Deliveries::from_arrivals(left.count() as u32, arrivals.into_iter().map(|(_, number)| (number, false)));
        match direction {
            Direction::Up => self.up.add_counts(train),
            Direction::Down => self.down.add_counts(train),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_units::{Rate, Time};

    #[test]
    fn idle_packets_do_not_queue_behind_each_other_and_take_little_time() {
        // A ping is a packet of 64 bytes or so each way.
        let packet = Rate::from_bits_per_second(100_000).time_for(64);
        for round_trip in [packet * 2, Span::from_millis(30), Span::from_millis(600)] {
            assert!(idle_trains(round_trip, 0).1.segments[0].interval >= packet, "{round_trip}");
        }
        for millis in [0, 1, 20, 100] {
            let round_trip = Span::from_millis(millis);
            let (rounds, train) = idle_trains(round_trip, 0);
            let all = (train.duration() + round_trip) * 2 * rounds.into();
            assert!(all <= IDLE_DURATION, "{round_trip}: {all}");
        }
        assert_eq!(idle_trains(Span::from_millis(600), 0).0, 1);
    }

    fn idle_trains(round_trip: Span, min_packets: u32) -> (u32, Train) {
        let trains = IdleTrains::new(round_trip, min_packets, Time::ZERO);
        (trains.rounds, trains.plan_train(round_trip, true))
    }

    /// Where the request for a train was lost, and TCP repeated it a moment later, 53 of 381 packets counted as lost for which nobody waited: 17 % of
    /// a path that loses 3 %.
    #[test]
    fn a_long_train_whose_end_is_missing_is_sent_again_once() {
        let record = |packets: usize, arrives: &dyn Fn(usize) -> bool| {
            let packet = |number: usize| {
                let time = Time::from_nanos(number as i64);
                let received = Some(time).filter(|_| arrives(number));
                PacketRecord { size: 64, sent: Some(time), submitted: None, received }
            };
            TrainRecord { packets: (0..packets).map(packet).collect() }
        };
        let trains = IdleTrains::new(Span::from_millis(50), 381, Time::ZERO);
        let sent = trains.after_round();
        let again = sent.to_repeat(Direction::Down, &record(381, &|number| number < 190)).unwrap();
        assert_eq!(again.rounds, trains.rounds);
        assert_eq!(again.to_repeat(Direction::Down, &record(381, &|number| number < 190)), None, "the path has failed");
        for (packets, arrived) in [(381, 378), (8, 2), (381, 0)] {
            let record = record(packets, &|number| number < arrived);
            assert_eq!(sent.to_repeat(Direction::Down, &record), None, "{arrived} of {packets}");
        }
    }

    #[test]
    fn as_many_idle_packets_are_sent_as_are_asked_for_in_trains_of_three_seconds_at_most() {
        for millis in [0, 20, 50, 600] {
            let round_trip = Span::from_millis(millis);
            for asked in [1, 8, 33, 73, 381, 800] {
                let (rounds, train) = idle_trains(round_trip, asked);
                let sent = rounds * train.packet_count();
                assert!((asked..asked + 40).contains(&sent), "{round_trip}, {asked}: {sent}");
                assert!(train.duration() <= Span::from_millis(3200), "{round_trip}, {asked}: {}", train.duration());
            }
        }
    }

    #[test]
    fn sent_packets_are_counted_as_arrived_lost_or_reordered() {
        let at = |nanos: Option<i64>| nanos.map(Time::from_nanos);
        let packet =
            |(sent, received)| PacketRecord { size: 64, sent: at(sent), submitted: None, received: at(received) };
        let packets = [
            (Some(1), Some(11)),
            (None, None),
            (Some(3), Some(15)),
            (Some(4), Some(14)),
            (Some(5), None),
            (None, Some(17)),
        ];
        let record = TrainRecord { packets: packets.map(packet).to_vec() };
        let mut counts = DirectionDeliveries::default();
        counts.count_deliveries(Direction::Down, &record.packets);
        counts.count_deliveries(Direction::Down, &record.packets);
        let down = counts.down;
        assert_eq!((down.sent, down.arrived, down.lost, down.reordered), (8, 6, 2, 2));
        assert_eq!(counts.up, Deliveries::default());
    }
}
