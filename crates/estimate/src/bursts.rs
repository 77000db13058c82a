//! Trains whose packets are sent in bursts, beside cross traffic that may be sent in bursts as well.

/// From one burst to the next, the queue does not grow by more than so many bursts take to pass, …
const BURSTS: f64 = 2.0;
/// … or a little more than others send at once, …
const OTHERS: f64 = 1.25;
/// … on links that are so fast that this takes less time than a radio link or a host that holds packets up.
const MAX_OTHERS_SECONDS: f64 = 600e-6;

/// What senders of cross traffic hand to a link at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AtOnce {
    /// A packet of 1500 bytes.
    Packet,
    /// Packets of 64 KiB in all, as segmentation offload does.
    Burst,
}

impl AtOnce {
    fn bits(self) -> f64 {
        match self {
            AtOnce::Packet => 12_000.0,
            AtOnce::Burst => 65_536.0 * 8.0,
        }
    }

    /// The longest that a burst of so many bits waits for longer than the one before, in seconds, on a link of this rate in bit/s. What
    /// waits for longer was held up by a host.
    pub(crate) fn max_wait(self, burst_bits: f64, rate: f64) -> f64 {
        (BURSTS * burst_bits / rate).max((OTHERS * self.bits() / rate).min(MAX_OTHERS_SECONDS))
    }
}
