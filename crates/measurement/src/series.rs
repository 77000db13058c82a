use crate::interpretation::aggregation::AggregationDetector;
use kumade_probe_train::{PacketRecord, TrainRecord};
use kumade_units::{Direction, Rate, Span, Time};

/// Cost of a series of trains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cost {
    /// IP packets sent.
    pub packets: u64,
    /// IP bytes sent.
    pub bytes: u64,
    /// Time from the beginning of the series to its result.
    pub duration: Span,
}

/// The record of a train, and the state of its transport afterwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveredTrain {
    /// Send and receive times in the order of the plan.
    pub record: TrainRecord,
    /// Packets that were sent.
    pub packets: u64,
    /// Their IP bytes.
    pub bytes: u64,
    /// When the last packet was sent (up) or received (down), on the clock of `now`: the gap to the next train counts from
    /// then.
    pub ended: Time,
    /// The places of packets that arrived, though it is not known when: in the record they look as if they were lost.
    pub unstamped_packets: Vec<u32>,
    /// Whether all time stamps come from the kernel.
    pub has_kernel_stamps: bool,
    /// Whether the queue discipline of the sender's own interface held packets back: their send times are then before it. False
    /// in direction down where the peer can't say.
    pub is_held_back: bool,
    /// Whether a socket failed at either end, so that the transport must be reopened.
    pub is_broken: bool,
    /// TCP connections that are still open; zero for UDP.
    pub connections: u32,
}

/// Where a larger part of a train is missing, connections are behind.
const MANY_LOST_FRACTION: f64 = 0.1;

impl DeliveredTrain {
    /// How long it takes from the train's end on until connections have retransmitted what the receiver still misses, and sent what is held
    /// back by that: a retransmission timeout, and a second one, which is twice as long, where so much is behind that retransmissions may be
    /// lost.
    pub(crate) fn recovery_time(&self) -> Span {
        const RETRANSMISSION_TIMEOUT: Span = Span::from_millis(300);
        const TWO_RETRANSMISSION_TIMEOUTS: Span = Span::from_millis(700);
        match (self.missing_packets() + self.unsent_packets()) as f64 / self.record.packets.len().max(1) as f64 {
            0.0 => Span::ZERO,
            ..MANY_LOST_FRACTION => RETRANSMISSION_TIMEOUT,
            _ => TWO_RETRANSMISSION_TIMEOUTS,
        }
    }

    /// Whether many packets did not leave with the others, as where connections wait for what they have lost.
    pub(crate) fn is_held_back_by_losses(&self) -> bool {
        self.unsent_packets() as f64 > MANY_LOST_FRACTION * self.record.packets.len() as f64
    }

    fn unsent_packets(&self) -> usize {
        self.record.packets.iter().filter(|packet| packet.sent.is_none() && packet.received.is_none()).count()
    }

    /// Packets that were sent and have not arrived.
    pub(crate) fn missing_packets(&self) -> usize {
        let is_missing = |packet: &&PacketRecord| packet.sent.is_some() && packet.received.is_none();
        // Some have arrived, though it is not known when.
        self.record.packets.iter().filter(is_missing).count().saturating_sub(self.unstamped_packets.len())
    }

    /// When it was sent, from `start` on. (When it `ended` tells nothing of that where a receiver waited for what was lost.)
    pub(crate) fn window(&self, start: Time) -> TimeWindow {
        TimeWindow { began: start, ended: start + self.sending_time() }
    }

    /// From the first packet's sending to the last one's.
    fn sending_time(&self) -> Span {
        let sent = || self.record.packets.iter().filter_map(|packet| packet.sent);
        sent().max().zip(sent().min()).map_or(Span::ZERO, |(last, first)| last - first)
    }

    /// From one packet that arrived to the next, on average; none if there are not two.
    pub(crate) fn arrival_gap(&self) -> Option<Span> {
        let arrivals = || self.record.packets.iter().filter_map(|packet| packet.received);
        let (first, last, count) = (arrivals().min()?, arrivals().max()?, arrivals().count() as i64);
        (count > 1).then(|| (last - first) / (count - 1))
    }
}

/// The time of some trains, by the clock of `now`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TimeWindow {
    /// When the first packet was sent.
    pub(crate) began: Time,
    /// When the last packet was sent.
    pub(crate) ended: Time,
}

impl TimeWindow {
    /// From the beginning of either to the end of both.
    pub(crate) fn united(self, other: TimeWindow) -> Self {
        TimeWindow { began: self.began.min(other.began), ended: self.ended.max(other.ended) }
    }
}

/// The trains of one purpose in one direction, one after the other.
#[derive(Debug, Clone)]
pub struct TrainSeries {
    direction: Direction,
    began: Time,
    /// When the last train ended.
    ended: Time,
    trains: u32,
    packets: u64,
    missing_packets: u64,
    /// Packets longer than every path passes: those that were sent, and whether one has arrived.
    long_packets: u64,
    has_long_arrivals: bool,
    bytes: u64,
    has_kernel_stamps: bool,
    is_held_back: bool,
    disordered_trains: u32,
    aggregation: AggregationDetector,
    /// The fastest rate of bursts sent one behind the other.
    burst_rate: Option<Rate>,
    /// The fastest rate at which packets in a row, or a whole train, arrived.
    fastest_arrival: Option<Rate>,
    /// Of each train of the method: within which time it arrived.
    arrival_times: Vec<Span>,
    /// The fastest rate at which a train of the method arrived.
    fastest_train: Option<Rate>,
}

/// Of IPv6 (RFC 8200 §5).
const MIN_MTU_BYTES: u32 = 1280;
/// Shorter trains tell nothing of the order of packets.
const MIN_PACKETS: usize = 20;

impl TrainSeries {
    /// An empty series that begins now.
    pub fn new(direction: Direction, now: Time) -> Self {
        TrainSeries {
            direction,
            began: now,
            ended: now,
            trains: 0,
            packets: 0,
            missing_packets: 0,
            long_packets: 0,
            has_long_arrivals: false,
            bytes: 0,
            has_kernel_stamps: true,
            is_held_back: false,
            disordered_trains: 0,
            aggregation: AggregationDetector::default(),
            burst_rate: None,
            fastest_arrival: None,
            arrival_times: Vec::new(),
            fastest_train: None,
        }
    }

    /// The direction of its trains.
    pub fn direction(&self) -> Direction {
        self.direction
    }

    /// How long to wait from now until the next train, which is to leave `gap` after the end of the last one. (Its record
    /// arrives some time after its end.)
    pub fn time_until_gap(&self, gap: Span, now: Time) -> Span {
        (self.ended + gap - now).max(Span::ZERO)
    }

    /// Whether long packets were sent, and none has arrived.
    pub(crate) fn loses_all_long_packets(&self) -> bool {
        self.long_packets > 0 && !self.has_long_arrivals
    }

    /// Adds a train.
    pub fn add_train(&mut self, carried: &DeliveredTrain) {
        self.add_sparse_train(carried);
        let record = &carried.record;
        let is_disordered = record.packets.len() >= MIN_PACKETS && record.is_disordered();
        self.disordered_trains += u32::from(is_disordered);
        self.aggregation.add_train(record);
        self.burst_rate = self.burst_rate.max(burst_rate(record));
    }

    /// Adds a train whose packets are too far apart to tell of the order of packets, or of batches.
    pub fn add_sparse_train(&mut self, carried: &DeliveredTrain) {
        self.ended = carried.ended;
        self.trains += 1;
        self.packets += carried.packets;
        let packets = &carried.record.packets;
        let is_long = |packet: &&PacketRecord| packet.size > MIN_MTU_BYTES;
        self.long_packets += packets.iter().filter(is_long).filter(|packet| packet.sent.is_some()).count() as u64;
        let unstamped = carried.unstamped_packets.iter().filter_map(|place| packets.get(*place as usize));
        let arrived = packets.iter().filter(|packet| packet.received.is_some()).chain(unstamped);
        self.has_long_arrivals |= arrived.filter(is_long).count() > 0;
        self.missing_packets += carried.missing_packets() as u64;
        self.bytes += carried.bytes;
        self.has_kernel_stamps &= carried.has_kernel_stamps;
        self.is_held_back |= carried.is_held_back;
        self.fastest_arrival = self.fastest_arrival.max(fastest_arrival(&carried.record));
    }

    /// Number of trains so far.
    pub fn trains(&self) -> u32 {
        self.trains
    }

    /// Whether more packets were lost so far than a path without a policer or a short queue loses by chance.
    pub(crate) fn has_lost_packets(&self) -> bool {
        const MIN_LOST_FRACTION: f64 = 0.01;
        self.missing_packets as f64 > MIN_LOST_FRACTION * self.packets as f64
    }

    /// IP bytes sent so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether all time stamps so far come from the kernel.
    pub fn has_kernel_stamps(&self) -> bool {
        self.has_kernel_stamps
    }

    /// Whether the sender's own interface held back packets of any train.
    pub fn is_held_back(&self) -> bool {
        self.is_held_back
    }

    /// Trains of which many packets arrived before others that were sent earlier.
    pub fn disordered_trains(&self) -> u32 {
        self.disordered_trains
    }

    /// Adds a train of the method.
    pub(crate) fn add_method_train(&mut self, carried: &DeliveredTrain) {
        self.add_train(carried);
        if let Some(time) = arrival_time(&carried.record) {
            self.arrival_times.push(time);
            self.fastest_train = self.fastest_train.max(Some(arrival_rate(&carried.record, time)));
        }
    }

    /// The time within which trains of the method arrived: the median; none where none did.
    pub(crate) fn median_arrival_time(&self) -> Option<Span> {
        let mut times = self.arrival_times.clone();
        times.sort_unstable();
        times.get(times.len() / 2).copied()
    }

    /// The fastest rate at which one of them arrived: of a whole train, as its time is, neither jitter nor stamps that scatter make much.
    pub(crate) fn fastest_train(&self) -> Option<Rate> {
        self.fastest_train
    }

    /// How fast the sender sent bursts one behind the other, if it sent packets in bursts.
    pub(crate) fn burst_rate(&self) -> Option<Rate> {
        self.burst_rate
    }

    /// The fastest rate at which anything arrived: packets in a row, or a whole train.
    pub(crate) fn fastest_arrival(&self) -> Option<Rate> {
        self.fastest_arrival
    }

    /// How packets arrived: one by one, or in batches.
    pub(crate) fn aggregation(&self) -> &AggregationDetector {
        &self.aggregation
    }

    /// The cost so far.
    pub fn cost(&self, now: Time) -> Cost {
        Cost { packets: self.packets, bytes: self.bytes, duration: now - self.began }
    }
}

/// Packets at either end of a train that may be late by far: one that is sent again, or a host that was busy.
const LATE_DIVISOR: usize = 20;

/// The time in which a train arrived, by all of its packets but those at its ends.
fn arrival_time(record: &TrainRecord) -> Option<Span> {
    let mut arrivals: Vec<Time> = record.packets.iter().filter_map(|packet| packet.received).collect();
    arrivals.sort_unstable();
    let (first, last) = (arrivals.len() / LATE_DIVISOR, arrivals.len().checked_sub(1 + arrivals.len() / LATE_DIVISOR)?);
    (last > first).then(|| (arrivals[last] - arrivals[first]) * (arrivals.len() as i64 - 1) / (last - first) as i64)
}

/// The rate of what arrived within this time behind the first packet.
fn arrival_rate(record: &TrainRecord, arrival_time: Span) -> Rate {
    let arrived = record.packets.iter().filter(|packet| packet.received.is_some());
    Rate::from_bytes_over(arrived.skip(1).map(|packet| u64::from(packet.size)).sum(), arrival_time)
}

/// So few packets in a row tell how fast they arrived: of more, cross traffic slows most rows down.
const ARRIVALS_IN_ROW: usize = 5;

/// The fastest rate at which so many packets in a row arrived, in the order of their arrival, those that have one stamp together; none where
/// there are fewer.
fn fastest_arrival(record: &TrainRecord) -> Option<Rate> {
    let mut arrivals: Vec<(Time, u32)> =
        record.packets.iter().filter_map(|packet| Some((packet.received?, packet.size))).collect();
    arrivals.sort_unstable();
    // When each batch arrived, and how many packets and bytes had come by then.
    let mut batches: Vec<(Time, usize, u64)> = Vec::new();
    let mut total = (0, 0);
    for batch in arrivals.chunk_by(|one, next| one.0 == next.0) {
        total.0 += batch.len();
        total.1 += batch.iter().map(|(_, size)| u64::from(*size)).sum::<u64>();
        batches.push((batch[0].0, total.0, total.1));
    }
    // Those of the first batch were on their way before.
    let rate = |(place, (began, packets, bytes)): (usize, &(Time, usize, u64))| {
        let enough = packets + ARRIVALS_IN_ROW - 1;
        let end = place + batches[place..].partition_point(|(_, packets, _)| *packets < enough);
        batches.get(end).map(|(ended, _, all)| Rate::from_bytes_over(all - bytes, *ended - *began))
    };
    batches.iter().enumerate().filter_map(rate).max()
}

/// Bursts in a row that tell how fast they can be sent: those of a preload, which has as many at least.
const MIN_SUCCESSIVE_BURSTS: usize = 4;
/// Bursts of a train that is sent in bursts.
const MIN_BURSTS_PART: f64 = 0.5;

/// The fastest rate of a few bursts one behind the other; none of a train whose packets were sent one by one.
fn burst_rate(record: &TrainRecord) -> Option<Rate> {
    let bursts = record.with_bursts_joined().record.packets;
    if bursts.len() as f64 > MIN_BURSTS_PART * record.packets.len() as f64 {
        return None;
    }
    let rate = |bursts: &[PacketRecord]| {
        let bytes = bursts.iter().skip(1).map(|burst| u64::from(burst.size)).sum();
        Some(Rate::from_bytes_over(bytes, bursts.last()?.sent? - bursts.first()?.sent?))
    };
    bursts.windows(MIN_SUCCESSIVE_BURSTS).filter_map(rate).max()
}

#[cfg(test)]
impl DeliveredTrain {
    /// A train over 120 connections of which that became.
    pub(crate) fn over_connections(record: TrainRecord, unstamped: Vec<u32>) -> Self {
        DeliveredTrain {
            packets: record.packets.len() as u64,
            bytes: record.packets.iter().map(|packet| u64::from(packet.size)).sum(),
            record,
            ended: Time::ZERO,
            unstamped_packets: unstamped,
            has_kernel_stamps: true,
            is_held_back: false,
            is_broken: false,
            connections: 120,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was lost came during the next train, and took its place in the queue.
    #[test]
    fn the_next_train_waits_until_losses_are_retransmitted() {
        let recovery = |lost: usize, unstamped: Vec<u32>| {
            let at = |index: usize| Some(Time::ZERO + Span::from_millis(index as i64));
            let packet = |index: usize| PacketRecord {
                size: 1500,
                sent: at(index),
                submitted: None,
                received: at(index).filter(|_| index >= lost),
            };
            let record = TrainRecord { packets: (0..100).map(packet).collect() };
            DeliveredTrain::over_connections(record, unstamped).recovery_time()
        };
        assert_eq!(recovery(0, vec![]), Span::ZERO);
        assert_eq!(recovery(2, vec![0, 1]), Span::ZERO);
        assert!(recovery(2, vec![]) > Span::from_millis(200) && recovery(50, vec![]) > Span::from_millis(600));
        // Of connections that could not even send, nothing was missing.
        let unsent = PacketRecord { size: 1500, sent: None, submitted: None, received: None };
        let held_back = DeliveredTrain::over_connections(TrainRecord { packets: vec![unsent; 20] }, vec![]);
        assert!(held_back.recovery_time() > Span::from_millis(600));
    }

    /// Of a train whose tail was lost, the receiver gave up after its timeout: the train was said to have begun as much later.
    #[test]
    fn a_train_was_sent_when_its_packets_were_however_long_a_receiver_waited_for_lost_ones() {
        let at = |millis: i64| Time::ZERO + Span::from_millis(millis);
        let packet = |number: i64| PacketRecord {
            size: 1500,
            sent: Some(at(900 + number)),
            submitted: None,
            received: Some(at(905 + number)).filter(|_| number < 5),
        };
        let record = TrainRecord { packets: (0..=20).map(packet).collect() };
        let carried = DeliveredTrain { ended: at(700), ..DeliveredTrain::over_connections(record, vec![]) };
        assert_eq!(carried.window(at(100)), TimeWindow { began: at(100), ended: at(120) });
    }

    #[test]
    fn neither_stragglers_nor_trains_of_another_purpose_lengthen_those_of_the_method() {
        let arriving = |millis: &mut dyn Iterator<Item = i64>| {
            let at = |millis| Some(Time::ZERO + Span::from_millis(millis));
            let packet = |millis| PacketRecord { size: 1500, sent: at(millis), submitted: None, received: at(millis) };
            DeliveredTrain::over_connections(TrainRecord { packets: millis.map(packet).collect() }, vec![])
        };
        let mut series = TrainSeries::new(Direction::Up, Time::ZERO);
        assert_eq!(series.median_arrival_time(), None);
        series.add_method_train(&arriving(&mut (0..60).chain([300])));
        assert_eq!(series.median_arrival_time(), Some(Span::from_millis(60)));
        // 1500 bytes in a millisecond each, and several at once nowhere.
        assert_eq!(series.fastest_train(), Some(Rate::from_mbit(12)));
        series.add_method_train(&arriving(&mut (0..60).map(|number| number / 10 * 10 + number % 10 / 5)));
        assert!(
            series.fastest_train().unwrap() < Rate::from_mbit(14) && series.fastest_arrival() > series.fastest_train()
        );
        series.add_train(&arriving(&mut (0..5000)));
        series.add_sparse_train(&arriving(&mut (0..5000)));
        series.add_method_train(&arriving(&mut (0..61)));
        series.add_method_train(&arriving(&mut (0..4000)));
        series.add_method_train(&arriving(&mut [7].into_iter()));
        assert_eq!(series.median_arrival_time(), Some(Span::from_millis(60)));
    }

    /// Packets of 1250 bytes take 1 ms at 10 Mbit/s.
    #[test]
    fn the_fastest_arrival_is_that_of_several_packets_in_a_row() {
        let record = |arrivals: &[i64]| {
            let at = |micros| Some(Time::ZERO + Span::from_micros(micros));
            let packet =
                |micros: &i64| PacketRecord { size: 1250, sent: at(0), submitted: None, received: at(*micros) };
            TrainRecord { packets: arrivals.iter().map(packet).collect() }
        };
        let even: Vec<i64> = (0..30).map(|number| number * 1000).collect();
        assert_eq!(fastest_arrival(&record(&even)), Some(Rate::from_mbit(10)));
        // Others' packets slow some of them down, and a receiver collects 15 at a time.
        let slower: Vec<i64> = (0..30).map(|number| number * 1000 + (number - 12).max(0) * 500).collect();
        assert_eq!(fastest_arrival(&record(&slower)), Some(Rate::from_mbit(10)));
        let batches: Vec<i64> = (0..60).map(|number| number / 15 * 15_000).collect();
        assert_eq!(fastest_arrival(&record(&batches)), Some(Rate::from_mbit(10)));
        assert_eq!(fastest_arrival(&record(&[0; 30])), None);
        assert_eq!(fastest_arrival(&record(&even[..4])), None);
    }

    #[test]
    fn a_path_that_passes_short_packets_alone_is_told_from_one_that_loses_much() {
        let packet =
            |size, received: Option<Time>| PacketRecord { size, sent: Some(Time::ZERO), submitted: None, received };
        let train = |last: Option<Time>, unstamped| {
            let short = vec![packet(400, Some(Time::ZERO)); 5];
            let packets = [short, vec![packet(1500, None); 19], vec![packet(1500, last)]].concat();
            DeliveredTrain::over_connections(TrainRecord { packets }, unstamped)
        };
        let mut series = TrainSeries::new(Direction::Up, Time::ZERO);
        assert!(!series.loses_all_long_packets());
        series.add_train(&train(None, vec![]));
        assert!(series.loses_all_long_packets());
        for arrived in [train(Some(Time::ZERO), vec![]), train(None, vec![7])] {
            let mut series = series.clone();
            series.add_train(&arrived);
            assert!(!series.loses_all_long_packets());
        }
    }

    #[test]
    fn the_rate_of_bursts_is_that_of_the_preload_and_single_packets_have_none() {
        let train = |packets: i64, micros: i64| {
            let packet = |number: i64| PacketRecord {
                size: 1500,
                sent: Some(Time::ZERO + Span::from_micros(micros) * (number / packets)),
                submitted: None,
                received: None,
            };
            (0..100).map(packet).collect::<Vec<_>>()
        };
        let mut bursts = train(10, 10);
        let body =
            train(10, 40).into_iter().map(|p| PacketRecord { sent: p.sent.map(|at| at + Span::from_millis(1)), ..p });
        bursts.extend(body);
        assert_eq!(burst_rate(&TrainRecord { packets: bursts }), Some(Rate::from_mbit(12_000)));
        assert_eq!(burst_rate(&TrainRecord { packets: train(1, 10) }), None);
        assert_eq!(burst_rate(&TrainRecord::default()), None);
    }
}
