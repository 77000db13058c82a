use crate::path::mtu::PathMtuDiscovery;
use kumade_units::{Rate, Span, Time};

/// Packets that not every path passes ([`PathMtuDiscovery::BASE_BYTES`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LongPackets {
    pub packets: u32,
    pub bytes: u64,
}

impl LongPackets {
    /// A packet of so many bytes is one of them, if it is.
    pub fn add(&mut self, bytes: u32) {
        if bytes > PathMtuDiscovery::BASE_BYTES {
            *self = LongPackets { packets: self.packets + 1, bytes: self.bytes + u64::from(bytes) };
        }
    }
}

/// What reports say of the long packets on a path: whether it may have ceased to pass them (black hole detection, RFC 8899 §4.3).
///
/// Reports tell sums. Those that were lost of several are taken for the last: then the path may pass none from there on, which
/// probes find out. It may have been congested instead; a probe is all that it costs.
#[derive(Debug, Default)]
pub(crate) struct LongPacketLosses {
    lost_in_a_row: u32,
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
    pub fn record_report(&mut self, long: LongPackets, lost_bytes: u64, rate: Rate, now: Time) {
        if long.packets == 0 {
            return;
        }
        let lost_packets = (lost_bytes * u64::from(long.packets) / long.bytes).min(long.packets.into()) as u32;
        let before = if lost_packets == long.packets { self.lost_in_a_row } else { 0 };
        self.lost_in_a_row = before.saturating_add(lost_packets);
        if self.lost_in_a_row == 0 {
            self.rate_before = Some((now, rate));
        }
    }

    /// Whether the path may have ceased to pass long packets, since this was last asked.
    pub fn take_suspicion(&mut self) -> bool {
        let is_suspect = self.lost_in_a_row >= MIN_LOST_IN_A_ROW;
        if is_suspect {
            self.lost_in_a_row = 0;
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

    fn suspects(reports: &[(u32, u64)]) -> bool {
        let mut losses = LongPacketLosses::default();
        for (packets, lost_bytes) in reports {
            let long = LongPackets { packets: *packets, bytes: u64::from(*packets) * 1500 };
            losses.record_report(long, *lost_bytes, RATE, Time::ZERO);
        }
        losses.take_suspicion()
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
        let long = LongPackets { packets: 2, bytes: 3000 };
        losses.record_report(long, 0, RATE, Time::ZERO);
        losses.record_report(long, 3000, Rate::from_mbit(1), Time::ZERO);
        assert_eq!(losses.rate_before(Time::ZERO), Some(RATE));
        assert_eq!(losses.rate_before(Time::ZERO + RATE_VALIDITY), None);
    }
}
