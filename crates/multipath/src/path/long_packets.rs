use crate::path::mtu::PathMtuDiscovery;
use kumade_units::{Rate, Span, Time};

/// Packets that not every path passes ([`PathMtuDiscovery::BASE_BYTES`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LongPackets {
    pub packets: u32,
    pub bytes: u64,
}

/// Those that have left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SentLongPackets {
    pub all: LongPackets,
    /// Of these, those with whole headers: a path whose MTU has become a little shorter may pass all others.
    pub whole: LongPackets,
}

impl SentLongPackets {
    /// A packet of so many bytes is one of them, if it is.
    pub fn add(&mut self, bytes: u32, is_shortened: bool) {
        if bytes > PathMtuDiscovery::BASE_BYTES {
            self.all.add(bytes);
            if !is_shortened {
                self.whole.add(bytes);
            }
        }
    }
}

impl LongPackets {
    fn add(&mut self, bytes: u32) {
        *self = LongPackets { packets: self.packets + 1, bytes: self.bytes + u64::from(bytes) };
    }

    /// As many of these as so many lost bytes are.
    fn lost_packets(&self, lost_bytes: u64) -> u32 {
        (lost_bytes * u64::from(self.packets) / self.bytes).min(self.packets.into()) as u32
    }
}

/// What reports say of the long packets on a path: whether it may have ceased to pass them (black hole detection, RFC 8899 §4.3).
///
/// Reports tell sums. Those that were lost of several are taken for the last: then the path may pass none from there on, which
/// probes find out. It may have been congested instead; a probe is all that it costs. What was lost beside those with whole headers
/// is taken for theirs, for the same reason.
#[derive(Debug, Default)]
pub(crate) struct LongPacketLosses {
    /// Of all, and of those with whole headers.
    lost_in_a_row: [u32; 2],
    /// What the path carried when all of them arrived, and when that was last.
    rate_before: Option<(Time, Rate)>,
}

/// As many as probes that have to fail (MAX_PROBES of RFC 8899 §5.1.2).
const MIN_LOST_IN_A_ROW: u32 = 3;
/// What a path carried longer ago tells nothing of now.
const RATE_VALIDITY: Span = Span::from_secs(5);

impl LongPacketLosses {
    /// A report covers these, and of all packets that it covers, so many bytes were lost. `rate` is what the path carries, as was
    /// known before.
    pub fn record_report(&mut self, long: SentLongPackets, lost_bytes: u64, rate: Rate, now: Time) {
        for (lost_in_a_row, sent) in self.lost_in_a_row.iter_mut().zip([long.all, long.whole]) {
            if sent.packets > 0 {
                let lost_packets = sent.lost_packets(lost_bytes);
                let before = if lost_packets == sent.packets { *lost_in_a_row } else { 0 };
                *lost_in_a_row = before.saturating_add(lost_packets);
            }
        }
        if long.all.packets > 0 && self.lost_in_a_row[0] == 0 {
            self.rate_before = Some((now, rate));
        }
    }

    /// Whether the path may have ceased to pass long packets, since this was last asked.
    pub fn take_suspicion(&mut self) -> bool {
        let is_suspect = self.lost_in_a_row.iter().any(|lost| *lost >= MIN_LOST_IN_A_ROW);
        if is_suspect {
            self.lost_in_a_row = [0; 2];
        }
        is_suspect
    }

    /// What the path carried before long packets were lost, if that is known.
    pub fn rate_before(&self, now: Time) -> Option<Rate> {
        self.rate_before.filter(|(at, _)| now - *at < RATE_VALIDITY).map(|(_, rate)| rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate::from_mbit(50);

    /// So many with compressed headers, and with whole ones.
    fn sent(shortened: u32, whole: u32) -> SentLongPackets {
        let mut long = SentLongPackets::default();
        (0..shortened).for_each(|_| long.add(1455, true));
        (0..whole).for_each(|_| long.add(1500, false));
        long
    }

    fn suspects(reports: &[(u32, u64)]) -> bool {
        let reports: Vec<_> = reports.iter().map(|(packets, lost_bytes)| (sent(0, *packets), *lost_bytes)).collect();
        suspects_of(&reports)
    }

    fn suspects_of(reports: &[(SentLongPackets, u64)]) -> bool {
        let mut losses = LongPacketLosses::default();
        reports.iter().for_each(|(long, lost_bytes)| losses.record_report(*long, *lost_bytes, RATE, Time::ZERO));
        losses.take_suspicion()
    }

    /// A path that passes 1492 bytes passes full segments with compressed headers, and no others.
    #[test]
    fn those_with_whole_headers_are_missed_among_others_that_pass() {
        assert!(suspects_of(&[(sent(20, 3), 4500)]));
        assert!(suspects_of(&[(sent(20, 1), 1500), (sent(9, 0), 0), (sent(20, 1), 1500), (sent(20, 1), 1500)]));
        assert!(!suspects_of(&[(sent(20, 2), 3000)]) && suspects_of(&[(sent(20, 0), 20 * 1455)]));
        assert!(!suspects_of(&[(sent(20, 1), 1500), (sent(20, 1), 0), (sent(20, 2), 3000)]));
    }

    #[test]
    fn three_long_packets_in_a_row_are_needed() {
        assert!(suspects(&[(3, 4500)]) && suspects(&[(20, 4500)]) && suspects(&[(1, 1500), (1, 1500), (1, 1500)]));
        assert!(suspects(&[(8, 3000), (0, 0), (1, 1500)]), "the last two of eight, and the next");
        assert!(!suspects(&[(2, 3000)]) && !suspects(&[(0, 4500)]) && !suspects(&[(100, 1500)]));
        assert!(!suspects(&[(1, 1500), (1, 1500), (1, 0), (1, 1500)]));
    }

    #[test]
    fn the_rate_is_that_of_the_last_report_without_losses() {
        let mut losses = LongPacketLosses::default();
        let long = sent(0, 2);
        losses.record_report(long, 0, RATE, Time::ZERO);
        losses.record_report(long, 3000, Rate::from_mbit(1), Time::ZERO);
        assert_eq!(losses.rate_before(Time::ZERO), Some(RATE));
        assert_eq!(losses.rate_before(Time::ZERO + RATE_VALIDITY), None);
    }
}
