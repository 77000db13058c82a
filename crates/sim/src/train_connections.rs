//! TCP connections that carry trains, one packet after the other on each in turn, with what TCP does about losses: it finds them late, sends
//! again over the same links, and waits twice as long each time that this is lost, too. What waits for that on a connection does not reach the
//! next train in time.

use crate::event_queue::EventQueue;
use crate::packet_at_hop::PacketAtHop;
use crate::packet_transport::PacketTransport;
use crate::tcp::congestion::CongestionControl;
use crate::tcp::{Receiver, RecoveryConfig, Sender, SenderConfig, TcpAcknowledgement, TcpData};
use kumade_packet::DsField;
use kumade_units::{Span, Time};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// As servers have it.
const CONGESTION_CONTROL: CongestionControl = CongestionControl::Cubic;
/// For pacing, which there is none of.
const PACKET_BYTES: u32 = 1500;
/// Far more than a connection carries of a train.
const RECEIVE_WINDOW_SEGMENTS: u32 = 1 << 20;
/// Every second segment is acknowledged at once.
const SEGMENTS_PER_ACK: u32 = 2;
/// No train takes longer.
const MAX_TRAIN_DURATION: Span = Span::from_secs(60);

/// What became of a packet of a train.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TrainPacketFate {
    /// When it was sent first, if it was.
    pub(crate) sent: Option<Time>,
    /// When it arrived first, if it did.
    pub(crate) received: Option<Time>,
}

/// Connections in one direction. They stay as they are from one train to the next.
#[derive(Debug)]
pub(crate) struct TrainConnections {
    connections: Vec<TrainConnection>,
    /// What each connection's ends are to do next: the sender's at twice its place, then the receiver's.
    events: EventQueue,
    /// What is or was on its way. Packets on the links have their place here as their index.
    transmissions: Vec<PacketTransmission>,
    /// The first of those of the connections that are open: earlier ones may still be on the links.
    first_open: usize,
    /// On their way back: when each arrives, and its place among all of them.
    acknowledgements: BinaryHeap<Reverse<(Time, usize)>>,
    sent_acknowledgements: Vec<(usize, TcpAcknowledgement)>,
    /// From the receiver back to the sender.
    delay_back: Span,
    /// Of the train on its way; those of earlier ones do not count any more.
    train: u32,
    fates: Vec<TrainPacketFate>,
    missing_packets: usize,
}

#[derive(Debug)]
struct TrainConnection {
    sender: Sender,
    receiver: Receiver,
    /// The packets with the numbers of its segments.
    packets: Vec<TrainPacket>,
}

#[derive(Debug, Clone, Copy)]
struct TrainPacket {
    train: u32,
    train_index: usize,
    size: u32,
}

#[derive(Debug, Clone, Copy)]
struct PacketTransmission {
    connection: usize,
    data: TcpData,
}

impl TrainConnections {
    /// So many, just opened, where a packet takes `delay` without queues, and its acknowledgement as long.
    pub(crate) fn new(count: u32, delay: Span) -> Self {
        let mut agenda = EventQueue::new();
        let connections = (0..count.max(1)).map(|_| {
            agenda.add_entry();
            agenda.add_entry();
            TrainConnection::new(delay * 2)
        });
        TrainConnections {
            connections: connections.collect(),
            events: agenda,
            transmissions: Vec::new(),
            first_open: 0,
            acknowledgements: BinaryHeap::new(),
            sent_acknowledgements: Vec::new(),
            delay_back: delay,
            train: 0,
            fates: Vec::new(),
            missing_packets: 0,
        }
    }

    /// So many new ones in place of these, whose packets may still be on their way.
    pub(crate) fn reopened(self, count: u32) -> Self {
        let first_open = self.transmissions.len();
        TrainConnections {
            transmissions: self.transmissions,
            first_open,
            ..TrainConnections::new(count, self.delay_back)
        }
    }

    pub(crate) fn count(&self) -> u32 {
        self.connections.len() as u32
    }

    /// Lets time pass without a train.
    pub(crate) fn run_until(&mut self, now: Time, over: &mut dyn PacketTransport) {
        self.run(&[], now, over);
    }

    /// Gives packets to connections at their times, each to that of its flow. Ends when all have arrived, but no later than at `deadline`. What
    /// became of each, in their order.
    pub(crate) fn deliver(
        &mut self,
        packets: &[PacketAtHop],
        deadline: Time,
        over: &mut dyn PacketTransport,
    ) -> Vec<TrainPacketFate> {
        self.train += 1;
        self.fates = vec![TrainPacketFate::default(); packets.len()];
        self.missing_packets = packets.len();
        let first = packets.first().map_or(deadline, |packet| packet.time);
        self.run(packets, deadline.min(first + MAX_TRAIN_DURATION), over);
        std::mem::take(&mut self.fates)
    }

    fn run(&mut self, packets: &[PacketAtHop], deadline: Time, over: &mut dyn PacketTransport) {
        let mut packets = packets.iter().enumerate().peekable();
        let is_train = packets.peek().is_some();
        let mut arrived = Vec::new();
        while !is_train || self.missing_packets > 0 {
            let submitted = packets.peek().map(|(_, packet)| packet.time);
            let answered = self.acknowledgements.peek().map(|Reverse((at, _))| *at);
            let timer = self.events.first().map(|(at, _)| at);
            let next = [submitted, answered, timer, over.next_event()].into_iter().flatten().min();
            let Some(now) = next.filter(|next| *next <= deadline) else { break };
            over.advance(now, &mut arrived);
            arrived.drain(..).for_each(|packet| self.segment_arrived(packet));
            while let Some(Reverse((_, place))) = self.acknowledgements.peek().copied().filter(|next| next.0.0 <= now) {
                self.acknowledgements.pop();
                let (connection, acknowledgement) = self.sent_acknowledgements[place];
                self.connections[connection].sender.acknowledge(&acknowledgement, now);
                self.send_segments(connection, now, over);
            }
            while let Some((_, place)) = self.events.first().filter(|(at, _)| *at <= now) {
                self.on_time(place as usize, now, over);
            }
            while let Some((place, packet)) = packets.next_if(|(_, packet)| packet.time <= now) {
                let connection = packet.flow as usize;
                self.connections[connection].packets.push(TrainPacket {
                    train: self.train,
                    train_index: place,
                    size: packet.size,
                });
                self.send_segments(connection, now, over);
            }
        }
    }

    fn segment_arrived(&mut self, PacketAtHop { index, time: at, .. }: PacketAtHop) {
        let Some(PacketTransmission { connection, data }) =
            self.transmissions.get(index).filter(|_| index >= self.first_open).copied()
        else {
            return;
        };
        let TrainConnection { receiver, packets, .. } = &mut self.connections[connection];
        if let TrainPacket { train, train_index: place, .. } = packets[data.number as usize]
            && train == self.train
            && let Some(carried) = self.fates.get_mut(place)
            && carried.received.is_none()
        {
            carried.received = Some(at);
            self.missing_packets -= 1;
        }
        let answer = receiver.receive(&data, false, at);
        self.send_answer(connection, answer, at);
    }

    fn on_time(&mut self, place: usize, now: Time, over: &mut dyn PacketTransport) {
        let connection = place / 2;
        if place.is_multiple_of(2) {
            self.connections[connection].sender.on_time(now);
            self.send_segments(connection, now, over);
        } else {
            let answer = self.connections[connection].receiver.on_time(now);
            self.send_answer(connection, answer, now);
        }
    }

    fn send_answer(&mut self, connection: usize, answer: Option<TcpAcknowledgement>, now: Time) {
        if let Some(answer) = answer {
            self.acknowledgements.push(Reverse((now + self.delay_back, self.sent_acknowledgements.len())));
            self.sent_acknowledgements.push((connection, answer));
        }
        self.events.set_time(2 * connection as u32 + 1, self.connections[connection].receiver.next_time());
    }

    /// Sends what a connection may.
    fn send_segments(&mut self, connection: usize, now: Time, over: &mut dyn PacketTransport) {
        let TrainConnection { sender, packets, .. } = &mut self.connections[connection];
        sender.offer(packets.len() as u32 - sender.next_number());
        while let Some(data) = sender.poll_send(now) {
            let TrainPacket { train, train_index: place, size } = packets[data.number as usize];
            let carried = self.fates.get_mut(place).filter(|_| train == self.train);
            carried.map(|carried| carried.sent.get_or_insert(now));
            over.offer(PacketAtHop {
                index: self.transmissions.len(),
                flow: connection as u64,
                size,
                ds_field: DsField::default(),
                time: now,
            });
            // More may follow.
            self.transmissions.push(PacketTransmission { connection, data: TcpData { is_last: false, ..data } });
        }
        self.events.set_time(2 * connection as u32, sender.next_time());
    }
}

impl TrainConnection {
    fn new(round_trip: Span) -> Self {
        let recovery = RecoveryConfig::default();
        let config =
            SenderConfig { packet_bytes: PACKET_BYTES, segments: 0, receive_window: RECEIVE_WINDOW_SEGMENTS, recovery };
        let mut sender = Sender::new(config, CONGESTION_CONTROL.build(PACKET_BYTES));
        sender.record_handshake(round_trip);
        TrainConnection {
            sender,
            receiver: Receiver::new(SEGMENTS_PER_ACK).with_recovery(&recovery),
            packets: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet_transport::LinksInSeries;
    use kumade_link::{Link, LinkConfig, TokenBucket};
    use kumade_units::Rate;

    const DELAY: Span = Span::from_millis(5);

    fn time_at_micros(micros: i64) -> Time {
        Time::ZERO + Span::from_micros(micros)
    }

    /// A link of 100 Mbit/s with room for this many packets, and a policer before it that passes so many and 10 Mbit/s, if any.
    fn link(queue: u64, policed: Option<u64>) -> [Link<usize>; 1] {
        let config = LinkConfig {
            rate: Some(Rate::from_mbit(100)),
            delay: DELAY,
            queue_bytes: queue * 1500,
            policer: policed.map(|packets| TokenBucket { rate: Rate::from_mbit(10), burst_bytes: packets * 1500 }),
            ..LinkConfig::default()
        };
        [Link::new(config.validate().unwrap())]
    }

    /// A packet every so many microseconds on each connection in turn.
    fn packets(count: usize, connections: u64, begin: Time, gap: i64) -> Vec<PacketAtHop> {
        let packet = |index| PacketAtHop {
            index,
            flow: index as u64 % connections,
            size: 1500,
            ds_field: DsField::default(),
            time: begin + Span::from_micros(gap) * index as i64,
        };
        (0..count).map(packet).collect()
    }

    fn delays(packets: &[PacketAtHop], carried: &[TrainPacketFate]) -> Vec<Option<Span>> {
        packets.iter().zip(carried).map(|(packet, carried)| Some(carried.received? - packet.time)).collect()
    }

    #[test]
    fn what_is_not_lost_passes_as_over_udp() {
        let mut links = link(100, None);
        let train = packets(60, 20, time_at_micros(0), 200);
        let carried = TrainConnections::new(20, DELAY).deliver(&train, Time::MAX, &mut LinksInSeries(&mut links));
        let expected = DELAY + Rate::from_mbit(100).time_for(1500);
        assert!(delays(&train, &carried).into_iter().all(|delay| delay == Some(expected)), "{carried:?}");
        assert!(train.iter().zip(&carried).all(|(packet, carried)| carried.sent == Some(packet.time)));
    }

    /// The packets that find no room in the queue come a retransmission timeout later, and those of them that find none again two more.
    #[test]
    fn a_lost_packet_comes_when_its_timeout_has_passed_or_a_later_one() {
        let mut links = link(8, None);
        let train = packets(40, 40, time_at_micros(0), 0);
        let carried = TrainConnections::new(40, DELAY).deliver(&train, Time::MAX, &mut LinksInSeries(&mut links));
        let delays: Vec<i64> =
            delays(&train, &carried).into_iter().map(|delay| delay.unwrap().as_nanos() / 1_000_000).collect();
        let about = |millis: i64| delays.iter().filter(|delay| (millis..millis + 10).contains(*delay)).count();
        // The round trip and the least timeout: 10 and 200 ms, the first time for a tail loss probe, then doubled each time. All timers end
        // together, and nine packets find room.
        assert_eq!([0, 210, 420, 840, 1680].map(about), [9, 9, 9, 9, 4], "{delays:?}");
    }

    /// Old packets that were still queued were taken for those of the new connections.
    #[test]
    fn packets_of_closed_connections_are_none_of_the_new_ones() {
        let mut links = link(1000, None);
        let mut connections = TrainConnections::new(40, DELAY);
        // A queue of 48 ms.
        connections.deliver(
            &packets(400, 40, time_at_micros(0), 0),
            time_at_micros(1_000),
            &mut LinksInSeries(&mut links),
        );
        let mut connections = connections.reopened(40);
        let train = packets(40, 40, time_at_micros(2_000), 0);
        let carried = connections.deliver(&train, Time::MAX, &mut LinksInSeries(&mut links));
        assert!(delays(&train, &carried).into_iter().all(|delay| delay > Some(Span::from_millis(50))), "{carried:?}");
    }

    #[test]
    fn what_is_sent_again_takes_tokens_and_a_connection_that_waits_sends_late() {
        let mut links = link(1000, Some(20));
        let mut connections = TrainConnections::new(30, DELAY);
        let train = packets(120, 30, time_at_micros(0), 120);
        let carried = connections.deliver(&train, time_at_micros(60_000), &mut LinksInSeries(&mut links));
        let arrived = carried.iter().filter(|carried| carried.received.is_some()).count();
        // The bucket, and what 10 Mbit/s bring in 60 ms.
        assert!((40..=70).contains(&arrived), "{arrived} of 120");
        // Connections of which a timer has ended have a window of one packet: others wait.
        let next = packets(60, 30, time_at_micros(225_000), 120);
        connections.run_until(time_at_micros(225_000), &mut LinksInSeries(&mut links));
        let carried = connections.deliver(&next, time_at_micros(340_000), &mut LinksInSeries(&mut links));
        let late = next.iter().zip(&carried).filter(|(packet, carried)| carried.sent != Some(packet.time)).count();
        assert!(late > 10, "{late} of 60");
    }
}
