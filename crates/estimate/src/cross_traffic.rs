//! Cross traffic: what its senders hand to a link at once, and how long a train waits for that.

/// The usual packet, in bits.
pub(crate) const CROSS_PACKET_BITS: f64 = 12_000.0;
/// What segmentation offload sends, in bits: packets of 64 KiB in all.
const BURST_BITS: f64 = 65_536.0 * 8.0;

/// From one burst of a train to the next, the queue does not grow by more than so many of them take to pass, …
const MAX_COMPETING_BURSTS: f64 = 2.0;
/// … or a little more than others send at once, …
const CROSS_TRAFFIC_ALLOWANCE_RATIO: f64 = 1.25;
/// … on links that are so fast that this takes less time than a radio link or a host that holds packets up.
const MAX_CROSS_TRAFFIC_SECONDS: f64 = 600e-6;

/// What senders of cross traffic hand to a link at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CrossTrafficUnit {
    /// A packet.
    Packet,
    /// Packets of 64 KiB in all, as segmentation offload does.
    Burst,
}

impl CrossTrafficUnit {
    /// By how many seconds a burst of so many bits may wait for longer than the one before it, on a link of this rate in bit/s. What waits for
    /// longer was held up by a host.
    pub(crate) fn max_wait(self, burst_bits: f64, rate: f64) -> f64 {
        let others = match self {
            CrossTrafficUnit::Packet => CROSS_PACKET_BITS,
            CrossTrafficUnit::Burst => BURST_BITS,
        };
        (MAX_COMPETING_BURSTS * burst_bits / rate)
            .max((CROSS_TRAFFIC_ALLOWANCE_RATIO * others / rate).min(MAX_CROSS_TRAFFIC_SECONDS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_of_others_is_no_pause_of_a_host_but_what_takes_longer_is() {
        // 64 KiB take 105 µs at 5 Gbit/s; six packets are no longer than two bursts of a train.
        assert!((100e-6..150e-6).contains(&CrossTrafficUnit::Burst.max_wait(96_000.0, 5e9)));
        assert_eq!(CrossTrafficUnit::Packet.max_wait(96_000.0, 5e9), 2.0 * 96_000.0 / 5e9);
        // On a link as slow as a radio link, pauses of that are others'.
        assert_eq!(CrossTrafficUnit::Burst.max_wait(96_000.0, 4e8), 600e-6);
    }
}
