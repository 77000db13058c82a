use crate::path::long_packets::SentLongPackets;
use crate::path::report::PathReport;
use kumade_units::{Span, Time};
use std::collections::VecDeque;

/// Packets of one path that the far end has not reported yet; those of one shard, where several send on it.
#[derive(Debug)]
pub(crate) struct SentLog {
    packets: VecDeque<AcknowledgedPackets>,
    /// The counter of the first of them.
    first_counter: u64,
    /// All bytes that ever left.
    sent_bytes: u64,
    reported_bytes: u64,
}

/// A packet that has left.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AcknowledgedPackets {
    pub time: Time,
    pub size: u32,
    /// Its number among all packets that left the path, from 0.
    pub number: u64,
    /// Bytes that have left the path up to and including it.
    pub total_bytes: u64,
    /// Of those, bytes in this log.
    pub logged_bytes: u64,
    /// For how long the path had had nothing to send although it might, up to then.
    pub idle_time: Span,
    /// Nothing of ours was queued on the path when it left, as far as is known.
    pub found_empty_path: bool,
    pub is_shortened: bool,
}

/// A packet that leaves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SentPacket {
    pub time: Time,
    pub size: u32,
    pub number: u64,
    pub total_bytes: u64,
    pub idle_time: Span,
    pub found_empty_path: bool,
    /// Its headers are compressed: another one of as many bytes would be longer.
    pub is_shortened: bool,
}

/// Above this the oldest are forgotten: about a second at a gigabit per second.
const MAX_LOGGED_PACKETS: usize = 1 << 17;

impl SentLog {
    pub fn new() -> Self {
        SentLog { packets: VecDeque::new(), first_counter: 0, sent_bytes: 0, reported_bytes: 0 }
    }

    /// Enters a packet and returns its counter.
    pub fn push(&mut self, packet: SentPacket) -> u64 {
        let SentPacket { time, size, number, total_bytes: total, idle_time: idle, .. } = packet;
        if self.packets.len() == MAX_LOGGED_PACKETS {
            self.packets.pop_front();
            self.first_counter += 1;
        }
        self.sent_bytes += u64::from(size);
        self.packets.push_back(AcknowledgedPackets {
            time,
            size,
            number,
            total_bytes: total,
            logged_bytes: self.sent_bytes,
            idle_time: idle,
            found_empty_path: packet.found_empty_path,
            is_shortened: packet.is_shortened,
        });
        self.first_counter + self.packets.len() as u64 - 1
    }

    /// The packet that a report is about, when it tells anything new, and the long ones up to it that were open. What was sent up
    /// to then is no longer open.
    pub fn take_reported(&mut self, report: &PathReport) -> Option<(AcknowledgedPackets, SentLongPackets)> {
        let index = usize::try_from(report.highest_counter.checked_sub(self.first_counter)?).ok()?;
        let sent = *self.packets.get(index)?;
        let mut long = SentLongPackets::default();
        self.packets.drain(..=index).for_each(|packet| long.add(packet.size, packet.is_shortened));
        self.first_counter += index as u64 + 1;
        self.reported_bytes = sent.logged_bytes;
        Some((sent, long))
    }

    /// The counter of the next packet.
    pub fn next_counter(&self) -> u64 {
        self.first_counter + self.packets.len() as u64
    }

    /// Bytes sent that no report covers.
    pub fn unacknowledged_bytes(&self) -> u64 {
        self.sent_bytes - self.reported_bytes
    }

    /// The send time of the n-th oldest packet that no report covers, from 0.
    pub fn nth_unacknowledged(&self, n: usize) -> Option<Time> {
        self.packets.get(n).map(|sent| sent.time)
    }

    /// Takes all that is open for lost.
    pub fn clear(&mut self) {
        self.first_counter += self.packets.len() as u64;
        self.packets.clear();
        self.reported_bytes = self.sent_bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_closes_all_that_was_sent_up_to_it_and_none_twice() {
        let mut log = SentLog::new();
        let at = |n: i64| Time::ZERO + Span::from_millis(n);
        for number in 0..5 {
            let (time, total) = (at(number as i64), 100 * (number + 1));
            let counter = log.push(SentPacket {
                time,
                size: 100,
                number,
                total_bytes: total,
                idle_time: Span::ZERO,
                found_empty_path: false,
                is_shortened: false,
            });
            assert_eq!(counter, number);
        }
        let report = |highest| PathReport {
            highest_counter: highest,
            received_packets: 1,
            received_bytes: 100,
            arrival: at(9),
            hold_time: Span::ZERO,
        };
        let sent = log.take_reported(&report(2)).unwrap();
        assert_eq!((sent.0.time, sent.0.total_bytes), (at(2), 300));
        assert_eq!(
            (log.unacknowledged_bytes(), log.nth_unacknowledged(0), log.nth_unacknowledged(2)),
            (200, Some(at(3)), None)
        );
        assert!(log.take_reported(&report(2)).is_none() && log.take_reported(&report(9)).is_none());
        log.clear();
        assert_eq!((log.unacknowledged_bytes(), log.next_counter()), (0, 5));
    }
}
