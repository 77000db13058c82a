//! Whether packets of different connections are served in turn, as where flows have queues of their own (RFC 8290), or in the order
//! in which they were sent.
//!
//! A train of several rounds over all connections tells it, whatever the cross traffic is and whatever else makes packets wait. Some of the
//! connections carry a full packet in each round, the others the smallest one, and all are sent back to back. In one queue for all, the
//! packets keep that order. Where flows have queues of their own, the next full packet of a connection passes either with the one before,
//! ahead of the small packets that were sent between them, or after the small packets that were sent behind it.

use kumade_probe_train::{Segment, Train, TrainRecord};
use kumade_units::{Rate, Span, Time};
use std::ops::Range;

/// Where links before the narrow one are hardly faster, its queue holds a round only after some.
const FLOW_QUEUEING_ROUNDS: usize = 3;
/// The smallest packets that every transport can send, in bytes.
const SMALL_PACKET_BYTES: u32 = 64;
/// Sending takes so long for each packet, about: meanwhile the link is to stay busy.
const SENDING_TIME_PER_PACKET: Span = Span::from_micros(10);
/// Full packets of a round beyond as many as keep the link busy: other disciplines than rounds of single packets have room for a few.
const SPARE_PACKETS: u32 = 8;
/// There was a queue if the train arrived in so many times the time in which it was sent.
const MIN_STRETCH_RATIO: i64 = 2;
/// Stamps of packets that arrive together are in any order within this time.
const OVERTAKING_MARGIN: Span = Span::from_micros(50);
/// Packets are served in turn if this part of those that would be overtaken were: networks that reorder packets do it to far fewer.
const MIN_OVERTAKEN_SHARE: f64 = 0.3;
/// Of so many of them it must be known when they arrived.
const MIN_KNOWN_SHARE: f64 = 0.5;

/// In which order a path serves packets of different connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServiceOrder {
    /// As they were sent: in one queue.
    Fifo,
    /// Each connection in its turn.
    RoundRobin,
    /// A train did not tell.
    Unknown,
}

/// A train that tells the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FlowQueueingTrain {
    connections: u32,
    /// Those of them, the first ones, that carry full packets.
    full_size_connections: u32,
    /// Bytes of a full packet.
    max_packet: u32,
}

impl FlowQueueingTrain {
    /// No link is kept busy for longer.
    pub(crate) const MAX_DURATION: Span = Span::from_secs(1);
    /// Before it, for queues to drain.
    pub(crate) const DRAIN_PAUSE: Span = Span::from_millis(50);

    /// On so many connections of `all` in turn, for a narrow link of this rate; none where it is too slow, or there are too few.
    pub(crate) fn new(connections: u32, all: u32, rate: Rate, max_packet: u32) -> Option<Self> {
        let passing = rate.bytes_in(SENDING_TIME_PER_PACKET * i64::from(all)) / u64::from(max_packet.max(1));
        let full = (2 * passing as u32 + SPARE_PACKETS).min(connections / 2);
        let train = FlowQueueingTrain { connections, full_size_connections: full, max_packet };
        (full >= SPARE_PACKETS && rate.time_for(train.plan_train().bytes()) < Self::MAX_DURATION).then_some(train)
    }

    /// What is to be sent.
    pub(crate) fn plan_train(&self) -> Train {
        let segment = |count, first_size| Segment { count, interval: Span::ZERO, first_size, size_step: 0 };
        let round = [
            segment(self.full_size_connections, self.max_packet),
            segment(self.connections - self.full_size_connections, SMALL_PACKET_BYTES),
        ];
        Train { segments: [round; FLOW_QUEUEING_ROUNDS].concat() }
    }

    /// What the train's record tells.
    pub(crate) fn service_order(&self, record: &TrainRecord) -> ServiceOrder {
        let (full, all) = (self.full_size_connections as usize, self.connections as usize);
        let overtaken = record.reordered_packets(OVERTAKING_MARGIN);
        let part = |places: Range<usize>| {
            let known: Vec<usize> = places.clone().filter(|place| has_arrived(record, *place)).collect();
            let is_enough = known.len() as f64 >= MIN_KNOWN_SHARE * places.len() as f64;
            let count = known.iter().filter(|place| overtaken[**place]).count();
            is_enough.then(|| count as f64 / known.len().max(1) as f64)
        };
        // Of each round but the last one the small packets, and the full ones behind them.
        let rounds = (1..FLOW_QUEUEING_ROUNDS).map(|round| round * all);
        let parts: Option<Vec<f64>> =
            rounds.flat_map(|next| [part(next - all + full..next), part(next..next + full)]).collect();
        match parts {
            Some(parts) if parts.iter().any(|part| *part >= MIN_OVERTAKEN_SHARE) => ServiceOrder::RoundRobin,
            Some(_) if was_queued(record) => ServiceOrder::Fifo,
            _ => ServiceOrder::Unknown,
        }
    }
}

/// What such trains have told so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ServiceOrderResult {
    trains_sent: u32,
    /// By the last one.
    last_order: Option<ServiceOrder>,
}

impl ServiceOrderResult {
    /// Hosts that are held up put packets out of order, too, but hardly in so many trains.
    pub(crate) const MAX_TRAINS: u32 = 2;

    /// When another train has been sent. It tells nothing if no record comes.
    pub(crate) fn after_train_sent(self) -> Self {
        ServiceOrderResult { trains_sent: self.trains_sent + 1, last_order: None }
    }

    /// The last train tells this.
    pub(crate) fn record_order(&mut self, order: ServiceOrder) {
        self.last_order = Some(order);
    }

    /// What they have told; none where another one is to be sent.
    pub(crate) fn decided_order(&self) -> Option<ServiceOrder> {
        let is_unconfirmed = self.last_order == Some(ServiceOrder::RoundRobin) && self.trains_sent < Self::MAX_TRAINS;
        let is_open = self.trains_sent == 0 || is_unconfirmed;
        (!is_open).then_some(self.last_order.unwrap_or(ServiceOrder::Unknown))
    }
}

fn has_arrived(record: &TrainRecord, place: usize) -> bool {
    record.packets.get(place).is_some_and(|packet| packet.received.is_some())
}

/// Whether packets waited for each other.
fn was_queued(record: &TrainRecord) -> bool {
    let both = record.packets.iter().filter_map(|packet| Some((packet.sent?, packet.received?)));
    let (mut sent, mut received): (Vec<_>, Vec<_>) = both.unzip();
    sent.sort_unstable();
    received.sort_unstable();
    let span = |times: &[Time]| Some(*times.last()? - *times.first()?);
    span(&sent).zip(span(&received)).is_some_and(|(sent, received)| received > sent * MIN_STRETCH_RATIO)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_probe_train::PacketRecord;

    const CONNECTIONS: u32 = 120;

    fn order_train() -> FlowQueueingTrain {
        FlowQueueingTrain::new(CONNECTIONS, CONNECTIONS, Rate::from_mbit(100), 1500).unwrap()
    }

    /// What a link of 100 Mbit/s makes of the train if it serves packets in the order of these keys, given round, whether it is a full
    /// packet, and place in the round; `held` is for how long a host holds each packet back, in order.
    fn record(key: impl Fn(u32, bool, u32) -> (u32, u32), held: impl Fn(Time) -> Span) -> TrainRecord {
        let train = order_train();
        let mut packets: Vec<PacketRecord> = (train.plan_train().packets().zip(0..))
            .map(|(planned, number)| PacketRecord {
                size: planned.size,
                sent: Some(Time::ZERO + Span::from_micros(5 * number)),
                submitted: None,
                received: None,
            })
            .collect();
        let place = |index: usize| (index as u32 / CONNECTIONS, index as u32 % CONNECTIONS);
        let mut order: Vec<usize> = (0..packets.len()).collect();
        order.sort_by_key(|index| key(place(*index).0, place(*index).1 < train.full_size_connections, place(*index).1));
        let mut at = Time::ZERO + Span::from_millis(2);
        for index in order {
            at += Rate::from_mbit(100).time_for(u64::from(packets[index].size));
            packets[index].received = Some(at + held(at));
        }
        TrainRecord { packets }
    }

    #[test]
    fn rounds_and_flow_after_flow_are_served_in_turn_and_one_queue_is_not() {
        let read = |record: &TrainRecord| order_train().service_order(record);
        let as_sent = |round, _, place| (round, place);
        assert_eq!(read(&record(as_sent, |_| Span::ZERO)), ServiceOrder::Fifo);
        // FQ-CoDel serves the second packet of a flow right after the first one, rounds of full packets after all small ones.
        assert_eq!(read(&record(|_, _, place| (0, place), |_| Span::ZERO)), ServiceOrder::RoundRobin);
        let in_rounds = |round, is_full, place| (if is_full { round } else { 0 }, place);
        assert_eq!(read(&record(in_rounds, |_| Span::ZERO)), ServiceOrder::RoundRobin);
        // A receiver that reads every 500 µs.
        let late = |at: Time| Span::from_nanos(500_000 - at.as_nanos().rem_euclid(500_000));
        assert_eq!(read(&record(as_sent, late)), ServiceOrder::Fifo);
        let mut reordered = record(as_sent, |_| Span::ZERO);
        for packet in reordered.packets.iter_mut().step_by(10) {
            packet.received = packet.received.map(|at| at + Span::from_millis(5));
        }
        assert_eq!(read(&reordered), ServiceOrder::Fifo);
    }

    #[test]
    fn a_train_that_found_no_queue_or_was_lost_tells_nothing() {
        let sent = record(|round, _, place| (round, place), |_| Span::ZERO);
        let with = |received: fn(usize, &PacketRecord) -> Option<Time>| {
            let packets = sent.packets.iter().enumerate();
            let packets = packets.map(|(index, packet)| PacketRecord { received: received(index, packet), ..*packet });
            order_train().service_order(&TrainRecord { packets: packets.collect() })
        };
        assert_eq!(with(|_, packet| packet.sent.map(|at| at + Span::from_millis(2))), ServiceOrder::Unknown);
        assert_eq!(with(|index, packet| packet.received.filter(|_| index % 3 == 0)), ServiceOrder::Unknown);
        assert_eq!(with(|_, _| None), ServiceOrder::Unknown);
        assert_eq!(order_train().service_order(&TrainRecord::default()), ServiceOrder::Unknown);
    }

    #[test]
    fn faster_links_take_more_packets_and_slow_ones_are_spared() {
        let full = |mbit| {
            FlowQueueingTrain::new(CONNECTIONS, CONNECTIONS, Rate::from_mbit(mbit), 1500)
                .map(|train| train.full_size_connections)
        };
        assert_eq!([full(2), full(100), full(1000)], [Some(8), Some(28), Some(60)]);
        assert_eq!(FlowQueueingTrain::new(CONNECTIONS, CONNECTIONS, Rate::from_bits_per_second(200_000), 1500), None);
        assert_eq!(FlowQueueingTrain::new(12, CONNECTIONS, Rate::from_mbit(100), 1500), None);
        let train = order_train().plan_train();
        assert_eq!((train.packet_count(), train.check(1500)), (3 * CONNECTIONS, Ok(())));
    }

    /// Beside busy loops, one train out of order made a plain link pass for one with queues of flows, and 45 Mbit/s for available where 30 were.
    #[test]
    fn connections_are_served_in_turn_only_where_two_trains_say_so() {
        let found = |told: &[Option<ServiceOrder>]| {
            told.iter().fold(ServiceOrderResult::default(), |so_far, told| {
                let mut so_far = so_far.after_train_sent();
                told.iter().for_each(|order| so_far.record_order(*order));
                so_far
            })
        };
        let (in_turn, as_sent) = (Some(ServiceOrder::RoundRobin), Some(ServiceOrder::Fifo));
        assert_eq!(found(&[]).decided_order(), None);
        assert_eq!(found(&[as_sent]).decided_order(), as_sent);
        assert_eq!(found(&[None]).decided_order(), Some(ServiceOrder::Unknown));
        assert_eq!(found(&[in_turn]).decided_order(), None);
        assert_eq!(found(&[in_turn, in_turn]).decided_order(), in_turn);
        assert_eq!(found(&[in_turn, as_sent]).decided_order(), as_sent);
    }
}
