use kumade_units::{Span, Time};

/// What the far end has received on one path so far. It goes back over the same path, so that the two directions of a
/// path are judged together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathReport {
    /// The highest counter received.
    pub highest_counter: u64,
    /// Packets received, probes included.
    pub received_packets: u64,
    /// Their bytes, as IP packets on the path.
    pub received_bytes: u64,
    /// When the packet with the highest counter arrived, by the far end's clock. Its offset to the sender's clock does not
    /// matter; a step of it does until the path has been idle or drained once.
    pub arrival: Time,
    /// How long after that the report left.
    pub hold_time: Span,
}

impl PathReport {
    /// The greatest counter, and the most packets and bytes, that a report may tell: a path takes over eleven years for as many
    /// bytes at 100 Gbit/s.
    pub const MAX_COUNT: u64 = 1 << 62;
}

/// The far end of one path: counts what arrives and says when to report it.
///
/// Call [`PathReceiver::receive`] for each authentic packet, and [`PathReceiver::poll`] when it returns or the
/// [`PathReceiver::deadline`] comes. Reports cost the way back about 1 % of what arrives.
#[derive(Debug, Clone, Default)]
pub struct PathReceiver {
    highest_counter: Option<u64>,
    received_packets: u64,
    received_bytes: u64,
    /// Of the packet with the highest counter.
    arrival: Time,
    unreported_packets: u32,
    /// The first packet that no report covers arrived then.
    waiting_since: Time,
    last_report: Option<Time>,
    is_report_requested: bool,
}

/// A report covers at least so many packets …
const PACKETS_PER_REPORT: u32 = 8;
/// … and so much time, …
const MIN_REPORT_INTERVAL: Span = Span::from_millis(5);
/// … unless the first of them has waited this long.
pub(crate) const MAX_REPORT_WAIT: Span = Span::from_millis(20);

impl PathReceiver {
    /// Nothing received yet.
    pub fn new() -> Self {
        PathReceiver::default()
    }

    /// A packet with this counter of the path and so many bytes has arrived. One that asks for it
    /// ([`Transmission::requests_report`](crate::Transmission::requests_report)) is answered at once. No packet is to be counted twice:
    /// duplicates and replays are told apart before.
    pub fn receive(&mut self, counter: u64, bytes: u32, answer: bool, now: Time) {
        if self.highest_counter.is_none_or(|highest| counter > highest) {
            self.highest_counter = Some(counter);
            self.arrival = now;
        }
        self.received_packets += 1;
        self.received_bytes += u64::from(bytes);
        if self.unreported_packets == 0 {
            self.waiting_since = now;
        }
        self.unreported_packets += 1;
        self.is_report_requested |= answer;
    }

    /// Packets that have arrived, and their bytes as IP packets on the path.
    pub fn received_totals(&self) -> (u64, u64) {
        (self.received_packets, self.received_bytes)
    }

    /// The counter after the highest one received; 0 before any is.
    pub fn next_counter(&self) -> u64 {
        self.highest_counter.map_or(0, |highest| highest.saturating_add(1).min(PathReport::MAX_COUNT))
    }

    /// When to call [`PathReceiver::poll`].
    pub fn deadline(&self) -> Option<Time> {
        if self.unreported_packets == 0 {
            return None;
        }
        let latest = self.waiting_since + MAX_REPORT_WAIT;
        if self.is_report_requested {
            return Some(self.waiting_since);
        }
        if self.unreported_packets < PACKETS_PER_REPORT {
            return Some(latest);
        }
        Some(self.last_report.map_or(self.waiting_since, |last| (last + MIN_REPORT_INTERVAL).min(latest)))
    }

    /// The report to send now, if one is due.
    pub fn poll(&mut self, now: Time) -> Option<PathReport> {
        self.deadline().filter(|deadline| *deadline <= now)?;
        self.unreported_packets = 0;
        self.is_report_requested = false;
        self.last_report = Some(now);
        let (packets, bytes, arrival) = (self.received_packets, self.received_bytes, self.arrival);
        Some(PathReport {
            highest_counter: self.highest_counter?,
            received_packets: packets,
            received_bytes: bytes,
            arrival,
            hold_time: now - arrival,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time_at_millis(millis: i64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    #[test]
    fn a_probe_is_answered_at_once_and_data_in_groups() {
        let mut receiver = PathReceiver::new();
        assert_eq!(receiver.deadline(), None);
        receiver.receive(0, 64, true, time_at_millis(1));
        assert_eq!(receiver.poll(time_at_millis(1)).unwrap().received_packets, 1);
        for counter in 1..8 {
            receiver.receive(counter, 1000, false, time_at_millis(10));
            assert_eq!(receiver.poll(time_at_millis(10)), None);
        }
        assert_eq!(receiver.deadline(), Some(time_at_millis(30)));
        receiver.receive(8, 1000, false, time_at_millis(12));
        let report = receiver.poll(time_at_millis(12)).unwrap();
        assert_eq!((report.highest_counter, report.received_packets, report.received_bytes), (8, 9, 8064));
        assert_eq!((report.arrival, report.hold_time), (time_at_millis(12), Span::ZERO));
        assert_eq!(receiver.deadline(), None);
    }

    #[test]
    fn reports_keep_their_distance_and_a_late_packet_counts_without_moving_the_arrival() {
        let mut receiver = PathReceiver::new();
        (0..8).for_each(|counter| receiver.receive(counter, 100, false, time_at_millis(0)));
        assert!(receiver.poll(time_at_millis(0)).is_some());
        (9..20).for_each(|counter| receiver.receive(counter, 100, false, time_at_millis(1)));
        receiver.receive(8, 100, false, time_at_millis(2));
        assert_eq!(receiver.poll(time_at_millis(2)), None);
        let report = receiver.poll(time_at_millis(5)).unwrap();
        assert_eq!((report.highest_counter, report.received_packets, report.arrival), (19, 20, time_at_millis(1)));
        assert_eq!(report.hold_time, Span::from_millis(4));
    }
}
