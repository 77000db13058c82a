use crate::loss::Loss;
use crate::medium::Medium;
use units::{ConfigError, Rate, Span};

/// What one direction of a link does to packets.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkConfig {
    /// IP-layer rate; `None` passes every packet on at the moment it arrives.
    pub rate: Option<Rate>,
    /// What carries the packets instead, where it is not a constant rate; of the others only a token bucket heeds `rate`.
    pub medium: Option<Medium>,
    /// How many bytes may wait. The packet in service does not count; what finds no room is dropped at the tail.
    /// A queue given to [`crate::Link::with_queue`] has its own limit instead.
    pub queue_bytes: u64,
    /// Propagation delay, added to the end of service. When it is made shorter on a running link, packets still do not
    /// overtake those sent before.
    pub delay: Span,
    /// Extra delay, uniform from zero to this. It never reorders: a packet is not due before the one ahead of it, so
    /// packets that follow each other closer than this keep some of the delay of those ahead.
    pub jitter: Span,
    /// Which packets are lost after their service, as on a lossy medium.
    pub loss: Loss,
    /// Which packets are held back so that others overtake them.
    pub reordering: Reordering,
    /// Probability from 0 to 1 that a packet which is not lost is delivered twice, the copy right behind it.
    pub duplication: f64,
    /// How many bytes may be on their way, from the beginning of their service until [`crate::Link::pop_due`] gives them
    /// out; each packet counts 64 bytes besides its own for its keeping. What exceeds it is dropped: memory stays bounded
    /// whatever is offered.
    pub in_flight_bytes: u64,
    /// The seed of all that is random here; the same seed and arrivals give the same deliveries. Loss, jitter,
    /// reordering, duplication, the wireless medium and the queue draw independently of each other: switching one on
    /// does not change what another does to which packet.
    pub seed: u64,
}

/// Some packets are held back for longer than the link's delay, and those behind that are due earlier overtake them. No
/// packet is early, and the others are due when they would have been.
///
/// In the terms of RFC 4737, this part of all packets is reordered if the following are close enough, each with a late
/// time of up to `extra` less its distance to the next packet, and an extent of as many packets as are sent within
/// `extra`. (The `reorder` option of `tc netem` does the reverse: it sends packets ahead of their time, and each makes all
/// that it overtakes count as reordered.)
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Reordering {
    /// Probability from 0 to 1 that a packet is held back.
    pub probability: f64,
    /// For how long.
    pub extra: Span,
}

impl Default for LinkConfig {
    /// A link that does nothing to packets; where a rate is set, a thousand packets of 1500 bytes may wait.
    fn default() -> Self {
        LinkConfig {
            rate: None,
            medium: None,
            queue_bytes: 1_500_000,
            delay: Span::ZERO,
            jitter: Span::ZERO,
            loss: Loss::None,
            reordering: Reordering::default(),
            duplication: 0.0,
            in_flight_bytes: 1 << 30,
            seed: 0,
        }
    }
}

impl LinkConfig {
    /// Whether a link can have these settings.
    ///
    /// # Errors
    /// A value is out of range, or the values don't fit together; the error names one and says what to give instead.
    pub fn check(&self) -> Result<(), ConfigError> {
        let error = ConfigError::of("link");
        if self.rate == Some(Rate::ZERO) {
            let remedy = "give a rate of at least 1 bit/s, or none for an unlimited link";
            return Err(error("rate", Rate::ZERO.to_string(), "which lets nothing pass", remedy));
        }
        let held = self.reordering.extra;
        for (name, span) in [("delay", self.delay), ("jitter", self.jitter), ("extra delay of reordering", held)] {
            if span < Span::ZERO {
                return Err(error(name, span.to_string(), "which is before the packet was sent", "give 0 or more"));
            }
        }
        let probabilities = [("reordering", self.reordering.probability), ("duplication", self.duplication)];
        for (name, probability) in probabilities {
            ConfigError::check_probability("link", name, probability)?;
        }
        if self.reordering.probability > 0.0 && held == Span::ZERO {
            let remedy = "give a time in which other packets follow";
            return Err(error("extra delay of reordering", held.to_string(), "in which nothing overtakes", remedy));
        }
        self.loss.check()?;
        self.medium.as_ref().map_or(Ok(()), Medium::check)?;
        self.check_memory()
    }

    /// A delay that fills the memory at the full rate is refused; one without a rate is bounded as it fills.
    fn check_memory(&self) -> Result<(), ConfigError> {
        let Some(rate) = self.medium.as_ref().map(Medium::highest_rate).or(self.rate) else { return Ok(()) };
        let longest = self.delay + self.jitter + self.reordering.extra;
        let bytes = rate.bytes_in(longest);
        if bytes > self.in_flight_bytes {
            let value = format!("{longest}, and {rate} puts {bytes} bytes on their way in that time");
            let limit = "more than the limit of bytes in flight";
            let remedy = "give less delay, a lower rate or a higher limit";
            return Err(ConfigError::of("link")("delay", value, limit, remedy));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_refused_with_the_reason_and_the_remedy() {
        let good = LinkConfig { rate: Some(Rate::from_mbit(1)), loss: Loss::Independent(1.0), ..LinkConfig::default() };
        assert_eq!(good.check(), Ok(()));
        let reordering = |probability, millis| Reordering { probability, extra: Span::from_millis(millis) };
        for (config, part) in [
            (LinkConfig { rate: Some(Rate::ZERO), ..good.clone() }, "none for an unlimited link"),
            (LinkConfig { delay: Span::from_nanos(-1), ..good.clone() }, "delay is -1 ns"),
            (LinkConfig { jitter: Span::from_millis(-2), ..good.clone() }, "jitter is -2 ms"),
            (LinkConfig { delay: Span::from_secs(9000), ..good.clone() }, "1125000000 bytes on their way"),
            (LinkConfig { duplication: 2.0, ..good.clone() }, "duplication is 2, which is no probability"),
            (LinkConfig { reordering: reordering(0.1, 0), ..good.clone() }, "nothing overtakes"),
            (LinkConfig { reordering: reordering(f64::NAN, 1), ..good.clone() }, "reordering is NaN"),
            (LinkConfig { loss: Loss::Independent(1.01), ..good.clone() }, "loss is 1.01"),
            (LinkConfig { loss: Loss::Independent(-0.1), ..good.clone() }, "no probability"),
            (LinkConfig { loss: Loss::Independent(f64::NAN), ..good.clone() }, "loss is NaN"),
        ] {
            let text = config.check().unwrap_err().to_string();
            assert!(text.contains(part), "{text}");
        }
    }
}
