use crate::path_report::Report;
use kumade_units::{Span, Time};
use std::collections::VecDeque;

/// Packets of one path that the far end has not reported yet; those of one shard, where several send on it.
#[derive(Debug)]
pub(crate) struct SentLog {
    packets: VecDeque<Sent>,
    /// The counter of the first of them.
    first: u64,
    /// All bytes that ever left.
    bytes: u64,
    reported_bytes: u64,
}

/// A packet that has left.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sent {
    pub time: Time,
    pub size: u32,
    /// Its number among all packets that left the path, from 0.
    pub number: u64,
    /// Bytes that have left the path up to and including it.
    pub total: u64,
    /// Of those, bytes in this log.
    pub logged: u64,
    /// For how long the path had had nothing to send although it might, up to then.
    pub idle: Span,
    /// Nothing of ours was queued on the path when it left, as far as is known.
    pub quiet: bool,
}

/// A packet that leaves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Departure {
    pub time: Time,
    pub size: u32,
    pub number: u64,
    pub total: u64,
    pub idle: Span,
    pub quiet: bool,
}

/// Above this the oldest are forgotten: about a second at a gigabit per second.
const MAX_PACKETS: usize = 1 << 17;

impl SentLog {
    pub fn new() -> Self {
        SentLog { packets: VecDeque::new(), first: 0, bytes: 0, reported_bytes: 0 }
    }

    /// Enters a packet and returns its counter.
    pub fn push(&mut self, packet: Departure) -> u64 {
        let Departure { time, size, number, total, idle, quiet } = packet;
        if self.packets.len() == MAX_PACKETS {
            self.packets.pop_front();
            self.first += 1;
        }
        self.bytes += u64::from(size);
        self.packets.push_back(Sent { time, size, number, total, logged: self.bytes, idle, quiet });
        self.first + self.packets.len() as u64 - 1
    }

    /// The packet that a report is about, when it tells anything new. What was sent up to then is no longer open.
    pub fn take(&mut self, report: &Report) -> Option<Sent> {
        let index = usize::try_from(report.highest.checked_sub(self.first)?).ok()?;
        let sent = *self.packets.get(index)?;
        self.packets.drain(..=index);
        self.first += index as u64 + 1;
        self.reported_bytes = sent.logged;
        Some(sent)
    }

    /// The counter of the next packet.
    pub fn next_counter(&self) -> u64 {
        self.first + self.packets.len() as u64
    }

    /// Bytes sent that no report covers.
    pub fn open_bytes(&self) -> u64 {
        self.bytes - self.reported_bytes
    }

    /// The send time of the n-th oldest packet that no report covers, from 0.
    pub fn open(&self, n: usize) -> Option<Time> {
        self.packets.get(n).map(|sent| sent.time)
    }

    /// Takes all that is open for lost.
    pub fn forget(&mut self) {
        self.first += self.packets.len() as u64;
        self.packets.clear();
        self.reported_bytes = self.bytes;
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
            let counter = log.push(Departure { time, size: 100, number, total, idle: Span::ZERO, quiet: false });
            assert_eq!(counter, number);
        }
        let report = |highest| Report { highest, packets: 1, bytes: 100, arrival: at(9), held: Span::ZERO };
        let sent = log.take(&report(2)).unwrap();
        assert_eq!((sent.time, sent.total), (at(2), 300));
        assert_eq!((log.open_bytes(), log.open(0), log.open(2)), (200, Some(at(3)), None));
        assert!(log.take(&report(2)).is_none() && log.take(&report(9)).is_none());
        log.forget();
        assert_eq!((log.open_bytes(), log.next_counter()), (0, 5));
    }
}
