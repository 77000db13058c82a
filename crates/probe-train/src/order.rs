//! The order in which a train's packets arrived.

use crate::record::{PacketRecord, TrainRecord};
use crate::statistics::median;
use kumade_units::{Span, Time};
use std::collections::BTreeSet;

/// No larger part of a train's packets is reordered in one queue for all, whatever stamps are worth.
const MAX_REORDERED_PART: f64 = 0.05;

/// No common TCP retransmits the only packet of a connection earlier than this after it was sent (the least retransmission timeout).
const MIN_RETRANSMISSION_TIMEOUT: Span = Span::from_millis(195);

/// Nor the last of several earlier than this (the least probe timeout, beyond two round trips).
const MIN_PROBE_TIMEOUT: Span = Span::from_millis(2);

/// The delay hardly grows by more than this from one packet to the next, …
const MIN_RECOVERY_PAUSE: Span = Span::from_millis(20);
/// … nor by so many times the usual time between two arrivals.
const LONG_GAP_RATIO: i64 = 10;
/// The kernel sends a packet that it does not hold back no later than this, or so many times the usual time between two packets.
const MIN_HELD_BACK_TIME: Span = Span::from_millis(2);

/// Where no larger part is lost, few connections are held up by timeouts, and what they retransmit does not matter.
const MAX_LOST_PART: f64 = 0.1;

impl TrainRecord {
    /// A packet that so many sent after it arrived before is reordered, not only swapped with a neighbour: the `n` of n-reordering (RFC 4737),
    /// as many as TCP's fast retransmission takes for a loss (RFC 5681).
    pub const MIN_OVERTAKERS: usize = 3;

    /// Which packets arrived later than three of those sent after them, by more than `margin`. One for each packet of the plan.
    pub fn reordered_packets(&self, margin: Span) -> Vec<bool> {
        // Packets without a stamp of sending were sent in the order of the plan, as far as is known.
        let mut sent = None;
        let mut order: Vec<(Option<Time>, usize)> = Vec::with_capacity(self.packets.len());
        for (index, packet) in self.packets.iter().enumerate() {
            sent = packet.sent.or(sent);
            order.push((sent, index));
        }
        order.sort_unstable();
        let mut reordered = vec![false; self.packets.len()];
        let arrivals = order.iter().rev().filter_map(|&(_, index)| Some((index, self.packets[index].received?)));
        mark_overtaken(arrivals, margin, &mut reordered);
        reordered
    }

    /// Whether many packets are reordered. Those of one flow hardly are; those of several are where each has a queue of its own, or a path.
    /// A few that come very late, as what TCP retransmits does, do not make it so, however many others arrive before them; and where many
    /// were lost, it cannot be told.
    pub fn is_disordered(&self) -> bool {
        let lost = self.packets.iter().filter(|packet| packet.sent.is_some() && packet.received.is_none()).count();
        lost as f64 <= MAX_LOST_PART * self.packets.len() as f64 && self.reordered_part() > MAX_REORDERED_PART
    }

    /// Which part of the packets that arrived is reordered by more than half the mean time between arrivals.
    fn reordered_part(&self) -> f64 {
        let arrivals = || self.packets.iter().filter_map(|packet| packet.received);
        let (Some(first), Some(last)) = (arrivals().min(), arrivals().max()) else { return 0.0 };
        let count = arrivals().count();
        let margin = (last - first) / (2 * count as i64);
        let reordered = self.reordered_packets(margin).into_iter().filter(|is_reordered| *is_reordered).count();
        reordered as f64 / count as f64
    }

    /// The record of a train over TCP, in which packet *i* is on connection *i* modulo `connections`, without what TCP's loss recovery
    /// did: what it retransmitted counts as lost, and what it held back until then as never sent. `least_delay` is the least difference
    /// between receive and send stamps that is known, the clocks' unknown offset included.
    ///
    /// A packet was retransmitted if a later one of its own connection arrived before it. The only one of its connection was if it took as
    /// long as a retransmission timeout more than the least, and is reordered or, at the train's end, came after a pause; the last one of a
    /// connection that lost an earlier one, too, if it took as long as a tail loss probe (RFC 8985). One was held back if it left behind three
    /// that were to leave after it, or long after it was given to the kernel.
    pub fn without_loss_recovery(&self, connections: usize, least_delay: Option<Span>) -> TrainRecord {
        let delay = |packet: &PacketRecord| Some(packet.received? - packet.sent?);
        let Some(least) = self.packets.iter().filter_map(delay).chain(least_delay).min() else { return self.clone() };
        let reordered = self.reordered_packets(Span::ZERO);
        let behind_own = self.overtaken_on_own_connection(connections);
        let held_back = self.held_back_packets();
        let has_lost = self.connections_that_lost(&behind_own, connections);
        let arrivals = self.packets.iter().filter_map(|packet| packet.received).collect();
        let pause = (usual_gap(arrivals) * LONG_GAP_RATIO).max(MIN_RECOVERY_PAUSE);
        let mut record = self.clone();
        let mut before: Option<Span> = None;
        for (index, packet) in record.packets.iter_mut().enumerate() {
            if held_back[index] {
                *packet = PacketRecord { sent: None, submitted: None, received: None, ..*packet };
            }
            let Some(delay) = delay(packet) else { continue };
            let is_probe = connections > 0 && has_lost.contains(&(index % connections));
            let timeout = if is_probe { MIN_PROBE_TIMEOUT } else { MIN_RETRANSMISSION_TIMEOUT };
            let timed_out = || delay - least > timeout;
            let paused = || before.is_some_and(|before| delay - before > pause);
            if behind_own[index] || timed_out() && (reordered[index] || paused()) {
                packet.received = None;
            } else {
                before = Some(delay);
            }
        }
        record
    }

    /// The part of a train over TCP in which connections sent as planned. Where much is lost, timeouts follow the first loss, and connections
    /// then send less: later packets count as never sent.
    pub fn until_timeouts(&self) -> TrainRecord {
        let is_lost = |packet: &PacketRecord| packet.sent.is_some() && packet.received.is_none();
        let Some(first) = self.packets.iter().position(is_lost) else { return self.clone() };
        let rest = &self.packets[first..];
        let missing = rest.iter().filter(|packet| packet.received.is_none()).count();
        let mut record = self.clone();
        if let Some(timeout) = rest[0].sent.filter(|_| missing as f64 > MAX_LOST_PART * rest.len() as f64) {
            let is_late =
                |packet: &&mut PacketRecord| packet.sent.is_some_and(|at| at > timeout + MIN_RETRANSMISSION_TIMEOUT);
            for packet in record.packets[first..].iter_mut().filter(is_late) {
                (packet.sent, packet.submitted, packet.received) = (None, None, None);
            }
        }
        record
    }

    /// Which packets left behind three that were to leave after them, or long after they were given to the kernel.
    fn held_back_packets(&self) -> Vec<bool> {
        let submitted = self.packets.iter().filter_map(|packet| packet.submitted).collect();
        let longest = (usual_gap(submitted) * LONG_GAP_RATIO).clamp(MIN_HELD_BACK_TIME, MIN_RECOVERY_PAUSE);
        let waited = |packet: &PacketRecord| Some(packet.sent? - packet.submitted? > longest);
        let mut held_back: Vec<bool> = self.packets.iter().map(|packet| waited(packet).unwrap_or(false)).collect();
        let departures =
            self.packets.iter().enumerate().rev().filter_map(|(index, packet)| Some((index, packet.sent?)));
        mark_overtaken(departures, Span::ZERO, &mut held_back);
        held_back
    }

    /// The connections of which a packet is missing, or came behind a later one.
    fn connections_that_lost(&self, behind_own: &[bool], connections: usize) -> BTreeSet<usize> {
        let packets = self.packets.iter().zip(behind_own).enumerate();
        let lost = packets.filter(|(_, (packet, is_behind))| **is_behind || packet.received.is_none());
        lost.map(|(index, _)| index % connections.max(1)).collect()
    }

    /// Which packets arrived later than one that was sent after them on the same connection.
    fn overtaken_on_own_connection(&self, connections: usize) -> Vec<bool> {
        let mut behind = vec![false; self.packets.len()];
        let mut earliest = vec![Time::MAX; connections.max(1)];
        for (index, packet) in self.packets.iter().enumerate().rev().filter(|_| connections > 0) {
            let earliest = &mut earliest[index % connections];
            behind[index] = packet.received.is_some_and(|at| *earliest < at);
            *earliest = packet.received.map_or(*earliest, |at| at.min(*earliest));
        }
        behind
    }
}

/// The median time from one of these to the next.
fn usual_gap(mut times: Vec<Time>) -> Span {
    times.sort_unstable();
    let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64()).collect();
    Span::from_secs_f64(median(&gaps).unwrap_or(0.0))
}

/// Marks the places whose time is later than three of those behind, by more than `margin`. `backwards` are places with their times, the last
/// one first.
fn mark_overtaken(backwards: impl Iterator<Item = (usize, Time)>, margin: Span, marks: &mut [bool]) {
    let mut earliest: Vec<Time> = Vec::with_capacity(TrainRecord::MIN_OVERTAKERS + 1);
    for (index, at) in backwards {
        marks[index] |= earliest.get(TrainRecord::MIN_OVERTAKERS - 1).is_some_and(|&third| third + margin < at);
        let place = earliest.partition_point(|&other| other <= at);
        earliest.insert(place, at);
        earliest.truncate(TrainRecord::MIN_OVERTAKERS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Stamps come from peers, who may say anything.
        #[test]
        fn any_stamps_are_read_and_none_is_invented(
            stamps in prop::collection::vec(prop::array::uniform3(prop::option::of(any::<i64>())), 0..60),
            connections in 0usize..20,
            least in prop::option::of(any::<i64>()),
        ) {
            let packet = |stamps: &[Option<i64>; 3]| {
                let [sent, submitted, received] = stamps.map(|nanos| nanos.map(Time::from_nanos));
                PacketRecord { size: 1500, sent, submitted, received }
            };
            let record = TrainRecord { packets: stamps.iter().map(packet).collect() };
            record.is_disordered();
            let recovered = record.without_loss_recovery(connections, least.map(Span::from_nanos)).until_timeouts();
            prop_assert_eq!(recovered.packets.len(), record.packets.len());
            for (after, before) in recovered.packets.iter().zip(&record.packets) {
                prop_assert!(after.received.is_none() || after == before);
            }
        }
    }

    /// Packets sent every millisecond, which arrived at these times, in milliseconds.
    fn record(millis: &[Option<i64>]) -> TrainRecord {
        let at = |millis: i64| Time::ZERO + Span::from_millis(millis);
        let packet = |(index, received): (i64, &Option<i64>)| PacketRecord {
            size: 1500,
            sent: Some(at(index)),
            submitted: None,
            received: received.map(at),
        };
        TrainRecord { packets: (0..).zip(millis).map(packet).collect() }
    }

    #[test]
    fn packets_that_arrive_behind_three_later_ones_are_reordered() {
        let part = |millis: &[Option<i64>]| record(millis).reordered_part();
        assert_eq!(part(&[Some(1), Some(2), None, Some(4), Some(5)]), 0.0);
        // Two that arrive before it are not enough, and a little later than three is nothing.
        assert_eq!(part(&[Some(10), Some(40), Some(20), Some(30), Some(50)]), 0.0);
        assert_eq!(part(&[Some(10), Some(50), Some(20), Some(30), Some(40)]), 0.2);
        assert_eq!(part(&[Some(100), Some(200), Some(197), Some(198), Some(199), Some(300)]), 0.0);
        assert_eq!((part(&[]), part(&[None, Some(1)])), (0.0, 0.0));
    }

    /// One packet of a train that was retransmitted made all that arrived before it look as if flows had queues of their own.
    #[test]
    fn one_late_packet_does_not_make_a_train_disordered() {
        let mut millis: Vec<Option<i64>> = (0..60).map(Some).collect();
        millis[3] = Some(400);
        assert!(!record(&millis).is_disordered());
        (0..60).step_by(6).for_each(|index| millis[index] = Some(400));
        assert!(record(&millis).is_disordered());
        (1..60).step_by(6).for_each(|index| millis[index] = None);
        assert!(!record(&millis).is_disordered());
    }

    #[test]
    fn where_much_is_lost_what_was_sent_after_the_first_timeout_does_not_count() {
        let millis =
            |loses: fn(i64) -> bool| (0..400).map(|index| (!loses(index)).then_some(index + 5)).collect::<Vec<_>>();
        let sent = |record: &TrainRecord| record.packets.iter().filter(|packet| packet.sent.is_some()).count();
        let policed = record(&millis(|index| index >= 50 && index % 2 == 0));
        assert_eq!(sent(&policed.until_timeouts()), 50 + 196);
        for record in [record(&millis(|index| index % 50 == 0)), record(&millis(|_| false)), record(&[])] {
            assert_eq!(record.until_timeouts(), record);
        }
    }

    #[test]
    fn what_tcp_retransmitted_is_lost_and_what_it_held_back_was_not_sent() {
        // Four connections. The third packet comes when its timeout has passed; the sixth behind the tenth, which is on its connection.
        let millis = [5, 6, 210, 8, 9, 30, 11, 12, 13, 14, 15].map(Some);
        let mut expected = millis;
        expected[2] = None;
        expected[5] = None;
        assert_eq!(record(&millis).without_loss_recovery(4, None), record(&expected));
        // Where all are as late, the path is slow; but a delay is known that is so much less.
        let late = millis.map(|at| at.map(|at| at + 190));
        let lost: Vec<usize> = (0..millis.len())
            .filter(|&index| {
                record(&late).without_loss_recovery(4, Some(Span::from_millis(4))).packets[index].received.is_none()
            })
            .collect();
        assert_eq!(lost, [2, 5]);
        // Two packets of one connection, both of which were lost: a tail loss probe repeats the second, then comes the first.
        let probed = [5, 6, 70, 8, 9, 10, 45, 12, 13].map(Some);
        let read = record(&probed).without_loss_recovery(4, None);
        let missing: Vec<usize> = (0..probed.len()).filter(|index| read.packets[*index].received.is_none()).collect();
        assert_eq!(missing, [2, 6]);
        // The last two of a train that TCP sent again; and a train on a slow link, on which each packet waits for those before it.
        let tail = [5, 6, 7, 8, 9, 10, 214, 215].map(Some);
        let arrived = [5, 6, 7, 8, 9, 10].map(Some).into_iter().chain([None; 2]).collect::<Vec<_>>();
        assert_eq!(record(&tail).without_loss_recovery(10, None), record(&arrived));
        let slow = [100, 200, 300, 400, 500, 600].map(Some);
        assert_eq!(record(&slow).without_loss_recovery(10, None), record(&slow));
        // The second packet left behind the last one.
        let mut late = record(&[5, 20, 7, 8, 9].map(Some));
        late.packets[1].sent = Some(Time::ZERO + Span::from_millis(15));
        assert_eq!(late.reordered_packets(Span::ZERO), [false; 5]);
        let recovered = late.without_loss_recovery(4, None);
        assert_eq!((recovered.packets[1].sent, recovered.packets[1].received), (None, None));
        assert_eq!(recovered.packets[2], late.packets[2]);
        assert_eq!(record(&[]).without_loss_recovery(0, None), record(&[]));
    }
}
