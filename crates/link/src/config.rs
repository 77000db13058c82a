use crate::framing::Framing;
use crate::jitter::Jitter;
use crate::loss::Loss;
use crate::medium::{Medium, TokenBucket};
use crate::valid::Valid;
use kumade_units::{ConfigError, Rate, Span, Time};

/// The settings of one direction of a link.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkConfig {
    /// IP-layer rate; `None` transmits each packet at once.
    pub rate: Option<Rate>,
    /// Used instead of a constant rate. A token bucket takes `rate` as its peak rate; all other media ignore it.
    pub medium: Option<Medium>,
    /// What a packet takes on the line besides its IP bytes. It counts against a rate, a schedule or a token bucket; other
    /// media know their own.
    pub framing: Framing,
    /// A policer before the queue: it drops what exceeds its rate and burst, whatever the queue holds.
    pub policer: Option<TokenBucket>,
    /// Capacity of the tail-drop queue in bytes, without the packet in transmission. A queue given to
    /// [`crate::Link::with_queue`] has its own limit instead.
    pub queue_bytes: u64,
    /// Propagation delay, added to the end of transmission. When it is reduced on a running link, packets still do not
    /// overtake those sent before.
    pub delay: Span,
    /// Delay that varies from packet to packet. No packet is due before its transmission ends.
    pub jitter: Jitter,
    /// Which packets are lost after their transmission, as on a lossy medium.
    pub loss: Loss,
    /// Which packets are delayed further so that following ones overtake them.
    pub reordering: Reordering,
    /// Probability from 0 to 1 that a packet which is not lost is delivered twice, the duplicate right after it.
    pub duplication: f64,
    /// Correlation from 0 to 1 of the duplication of a packet and that of the next; see [`Loss::correlated`].
    pub duplication_correlation: f64,
    /// Probability from 0 to 1 that a packet which is not lost arrives with a bit inverted, which is anywhere in it. Its duplicate is
    /// as it was sent.
    pub corruption: f64,
    /// Correlation from 0 to 1 of the corruption of a packet and that of the next; see [`Loss::correlated`].
    pub corruption_correlation: f64,
    /// Limit of bytes in flight: from the beginning of their transmission until [`crate::Link::pop_due`] returns them. Each
    /// packet counts 64 bytes more than its size, for bookkeeping; see also [`crate::Link::bound_memory`]. What exceeds the limit is dropped, which bounds memory
    /// whatever is offered.
    pub in_flight_bytes: u64,
    /// The seed of all random decisions; the same seed and arrivals give the same deliveries. Loss, jitter, reordering,
    /// duplication, corruption, the wireless medium and the queue draw independent numbers: switching one on does not change what
    /// another does to which packet.
    pub seed: u64,
}

/// Some packets are delayed for longer than the link's delay, and following ones that are due earlier overtake them. No
/// packet is early, and all other packets are due when they would have been without.
///
/// In the terms of RFC 4737, this ratio of packets is reordered if the following ones are close enough, each with a late
/// time offset of up to `extra` less its distance to the next packet, and an extent of as many packets as are sent within
/// `extra`. (The `reorder` option of `tc netem` does the reverse: it sends packets early, and each makes all packets that
/// it overtakes count as reordered.)
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Reordering {
    /// Probability from 0 to 1 that a packet is delayed.
    pub probability: f64,
    /// The extra delay.
    pub extra: Span,
}

impl Default for LinkConfig {
    /// A link without effect; where a rate is set, a thousand packets of 1500 bytes can be queued.
    fn default() -> Self {
        LinkConfig {
            rate: None,
            medium: None,
            framing: Framing::default(),
            policer: None,
            queue_bytes: 1_500_000,
            delay: Span::ZERO,
            jitter: Jitter::default(),
            loss: Loss::None,
            reordering: Reordering::default(),
            duplication: 0.0,
            duplication_correlation: 0.0,
            corruption: 0.0,
            corruption_correlation: 0.0,
            in_flight_bytes: 1 << 30,
            seed: 0,
        }
    }
}

impl LinkConfig {
    /// Checks the settings, for [`crate::Link`] to take.
    ///
    /// # Errors
    /// A value is out of range, or the values don't fit together; the error names one and says what to give instead.
    pub fn validate(self) -> Result<Valid<Self>, ConfigError> {
        let error = ConfigError::for_part("link");
        if self.rate == Some(Rate::ZERO) {
            let remedy = "give a rate of at least 1 bit/s, or none for an unlimited link";
            return Err(error("rate", Rate::ZERO.to_string(), "which lets nothing pass", remedy));
        }
        let held = self.reordering.extra;
        for (name, span) in [("delay", self.delay), ("extra delay of reordering", held)] {
            if span < Span::ZERO {
                return Err(error(name, span.to_string(), "which is before the packet was sent", "give 0 or more"));
            }
        }
        let probabilities = [
            ("reordering", self.reordering.probability),
            ("duplication", self.duplication),
            ("correlation of duplication", self.duplication_correlation),
            ("corruption", self.corruption),
            ("correlation of corruption", self.corruption_correlation),
        ];
        for (name, probability) in probabilities {
            ConfigError::check_probability("link", name, probability)?;
        }
        if self.reordering.probability > 0.0 && held == Span::ZERO {
            let remedy = "give a time in which other packets follow";
            return Err(error("extra delay of reordering", held.to_string(), "in which nothing overtakes", remedy));
        }
        self.jitter.check()?;
        self.framing.check()?;
        if self.framing != Framing::default() && matches!(self.medium, Some(Medium::Trace(_) | Medium::Wireless(_))) {
            let remedy = "leave it out, or give a rate";
            return Err(error("framing", "other than none".to_owned(), "and the medium has its own", remedy));
        }
        self.loss.check()?;
        self.medium.as_ref().map_or(Ok(()), Medium::check)?;
        self.policer.as_ref().map_or(Ok(()), TokenBucket::check)?;
        self.check_memory()?;
        Ok(Valid(self))
    }

    /// The least time from the end of a packet's transmission until it is due.
    pub fn shortest_delay(&self) -> Span {
        (self.delay + self.jitter.lowest()).max(Span::ZERO)
    }

    /// What it carries in the long run, framing included; of a token bucket or a policer, its rate. `None` for an unlimited link.
    pub fn sustained_rate(&self) -> Option<Rate> {
        let rate = self.medium.as_ref().map(Medium::highest_rate).or(self.rate);
        rate.into_iter().chain(self.policer.map(|policer| policer.rate)).min()
    }

    /// Refuses a delay whose bandwidth-delay product exceeds the limit. Without a rate, the limit holds packet by packet.
    fn check_memory(&self) -> Result<(), ConfigError> {
        let Some(rate) = self.medium.as_ref().map(Medium::highest_rate).or(self.rate) else { return Ok(()) };
        let longest = self.delay + self.jitter.highest().max(Span::ZERO) + self.reordering.extra;
        let bytes = rate.bytes_in(longest);
        if bytes > self.in_flight_bytes {
            let value = format!("{longest}, and {rate} puts {bytes} bytes on their way in that time");
            let limit = "more than the limit of bytes in flight";
            let remedy = "give less delay, a lower rate or a higher limit";
            return Err(ConfigError::for_part("link")("delay", value, limit, remedy));
        }
        Ok(())
    }
}

impl Valid<LinkConfig> {
    /// The same settings with their recorded trace, if there is one, counted from `origin`.
    pub fn starting_at(mut self, origin: Time) -> Self {
        if let Some(Medium::Trace(trace)) = &mut self.0.medium {
            *trace = trace.clone().starting_at(origin);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_refused_with_the_reason_and_the_remedy() {
        let good = LinkConfig { rate: Some(Rate::from_mbit(1)), loss: Loss::Independent(1.0), ..LinkConfig::default() };
        assert!(good.clone().validate().is_ok());
        let reordering = |probability, millis| Reordering { probability, extra: Span::from_millis(millis) };
        for (config, part) in [
            (LinkConfig { rate: Some(Rate::ZERO), ..good.clone() }, "none for an unlimited link"),
            (LinkConfig { delay: Span::from_nanos(-1), ..good.clone() }, "delay is -1 ns"),
            (LinkConfig { jitter: Span::from_millis(-2).into(), ..good.clone() }, "jitter is -2 ms"),
            (
                LinkConfig { jitter: Jitter { correlation: 1.5, ..Jitter::default() }, ..good.clone() },
                "correlation of jitter is 1.5",
            ),
            (LinkConfig { corruption: -0.1, ..good.clone() }, "corruption is -0.1"),
            (LinkConfig { corruption_correlation: 2.0, ..good.clone() }, "correlation of corruption is 2"),
            (LinkConfig { duplication_correlation: 2.0, ..good.clone() }, "correlation of duplication is 2"),
            (
                LinkConfig {
                    framing: Framing { overhead_bytes: 18, ..Framing::default() },
                    medium: Some(Medium::Wireless(crate::Wireless::default())),
                    ..good.clone()
                },
                "the medium has its own",
            ),
            (LinkConfig { delay: Span::from_secs(9000), ..good.clone() }, "1125000000 bytes on their way"),
            (LinkConfig { duplication: 2.0, ..good.clone() }, "duplication is 2, which is no probability"),
            (LinkConfig { reordering: reordering(0.1, 0), ..good.clone() }, "nothing overtakes"),
            (LinkConfig { reordering: reordering(f64::NAN, 1), ..good.clone() }, "reordering is NaN"),
            (LinkConfig { loss: Loss::Independent(1.01), ..good.clone() }, "loss is 1.01"),
            (LinkConfig { loss: Loss::Independent(-0.1), ..good.clone() }, "no probability"),
            (LinkConfig { loss: Loss::Independent(f64::NAN), ..good.clone() }, "loss is NaN"),
        ] {
            let text = config.validate().unwrap_err().to_string();
            assert!(text.contains(part), "{text}");
        }
    }
}
