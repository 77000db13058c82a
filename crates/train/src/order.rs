//! The order in which a train's packets arrived.

use crate::record::{PacketRecord, TrainRecord};
use units::{Span, Time};

/// A packet that so many sent after it arrived before is reordered, not only swapped with a neighbour: the `n` of n-reordering (RFC 4737),
/// as many as TCP's fast retransmission takes for a loss (RFC 5681).
const OVERTAKERS: usize = 3;

/// No larger part of a train's packets is reordered in one queue for all, whatever stamps are worth.
const MAX_REORDERED: f64 = 0.05;

/// No common TCP retransmits the only packet of a connection earlier than this after it was sent (the least retransmission timeout).
const LEAST_RETRANSMISSION_TIMEOUT: Span = Span::from_millis(195);

/// The delay hardly grows by more than this from one packet to the next, nor by ten times the usual time between two arrivals.
const MIN_PAUSE: Span = Span::from_millis(20);

impl TrainRecord {
    /// Which packets arrived later than three of those sent after them, by more than `margin`. One for each packet of the plan.
    pub fn reordered(&self, margin: Span) -> Vec<bool> {
        let mut reordered = vec![false; self.packets.len()];
        // The earliest arrivals among all packets behind.
        let mut earliest: Vec<Time> = Vec::with_capacity(OVERTAKERS + 1);
        for (packet, is_reordered) in self.packets.iter().zip(&mut reordered).rev() {
            let Some(at) = packet.received else { continue };
            *is_reordered = earliest.get(OVERTAKERS - 1).is_some_and(|&third| third + margin < at);
            let place = earliest.partition_point(|&other| other <= at);
            earliest.insert(place, at);
            earliest.truncate(OVERTAKERS);
        }
        reordered
    }

    /// Whether many packets are reordered. Those of one flow hardly are; those of several are where each has a queue of its own, or a path.
    /// A few that come very late, as what TCP retransmits does, do not make it so, however many others arrive before them.
    pub fn is_disordered(&self) -> bool {
        self.reordered_part() > MAX_REORDERED
    }

    /// Which part of the packets that arrived is reordered by more than half the mean time between arrivals.
    fn reordered_part(&self) -> f64 {
        let arrivals = || self.packets.iter().filter_map(|packet| packet.received);
        let (Some(first), Some(last)) = (arrivals().min(), arrivals().max()) else { return 0.0 };
        let count = arrivals().count();
        let margin = (last - first) / (2 * count as i64);
        let reordered = self.reordered(margin).into_iter().filter(|is_reordered| *is_reordered).count();
        reordered as f64 / count as f64
    }

    /// The record of a train over TCP, in which packet *i* is on connection *i* modulo `connections`, with what TCP retransmitted counted as
    /// lost. `least_delay` is the least difference between receive and send stamps that is known, the clocks' unknown offset included.
    ///
    /// A packet was retransmitted if a later one of its own connection arrived before it. The only one of its connection was if it took as
    /// long as a retransmission timeout more than the least, and is reordered or, at the train's end, came after a pause.
    pub fn without_retransmissions(&self, connections: usize, least_delay: Option<Span>) -> TrainRecord {
        let delay = |packet: &PacketRecord| Some(packet.received? - packet.sent?);
        let Some(least) = self.packets.iter().filter_map(delay).chain(least_delay).min() else { return self.clone() };
        let reordered = self.reordered(Span::ZERO);
        let behind_own = self.behind_own_connection(connections);
        let pause = (self.usual_gap() * 10).max(MIN_PAUSE);
        let mut record = self.clone();
        let mut before: Option<Span> = None;
        for (index, packet) in record.packets.iter_mut().enumerate() {
            let Some(delay) = delay(packet) else { continue };
            let timed_out = || delay - least > LEAST_RETRANSMISSION_TIMEOUT;
            let paused = || before.is_some_and(|before| delay - before > pause);
            if behind_own[index] || timed_out() && (reordered[index] || paused()) {
                packet.received = None;
            } else {
                before = Some(delay);
            }
        }
        record
    }

    /// Which packets arrived later than one that was sent after them on the same connection.
    fn behind_own_connection(&self, connections: usize) -> Vec<bool> {
        let mut behind = vec![false; self.packets.len()];
        let mut earliest = vec![Time::MAX; connections.max(1)];
        for (index, packet) in self.packets.iter().enumerate().rev().filter(|_| connections > 0) {
            let earliest = &mut earliest[index % connections];
            behind[index] = packet.received.is_some_and(|at| *earliest < at);
            *earliest = packet.received.map_or(*earliest, |at| at.min(*earliest));
        }
        behind
    }

    /// The median time from one arrival to the next.
    fn usual_gap(&self) -> Span {
        let mut arrivals: Vec<Time> = self.packets.iter().filter_map(|packet| packet.received).collect();
        arrivals.sort_unstable();
        let mut gaps: Vec<Span> = arrivals.windows(2).map(|pair| pair[1] - pair[0]).collect();
        gaps.sort_unstable();
        gaps.get(gaps.len() / 2).copied().unwrap_or(Span::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    }

    #[test]
    fn what_tcp_retransmitted_is_lost() {
        // Four connections. The third packet comes when its timeout has passed; the sixth behind the tenth, which is on its connection.
        let millis = [5, 6, 210, 8, 9, 30, 11, 12, 13, 14, 15].map(Some);
        let mut expected = millis;
        expected[2] = None;
        expected[5] = None;
        assert_eq!(record(&millis).without_retransmissions(4, None), record(&expected));
        // Where all are as late, the path is slow; but a delay is known that is so much less.
        let late = millis.map(|at| at.map(|at| at + 190));
        let lost: Vec<usize> = (0..millis.len())
            .filter(|&index| {
                record(&late).without_retransmissions(4, Some(Span::from_millis(4))).packets[index].received.is_none()
            })
            .collect();
        assert_eq!(lost, [2, 5]);
        // The last two of a train that TCP sent again; and a train on a slow link, on which each packet waits for those before it.
        let tail = [5, 6, 7, 8, 9, 10, 214, 215].map(Some);
        let arrived = [5, 6, 7, 8, 9, 10].map(Some).into_iter().chain([None; 2]).collect::<Vec<_>>();
        assert_eq!(record(&tail).without_retransmissions(10, None), record(&arrived));
        let slow = [100, 200, 300, 400, 500, 600].map(Some);
        assert_eq!(record(&slow).without_retransmissions(10, None), record(&slow));
        assert_eq!(record(&[]).without_retransmissions(0, None), record(&[]));
    }
}
