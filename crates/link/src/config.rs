use crate::Loss;
use thiserror::Error;
use units::{Rate, Span};

/// What one direction of a link does to packets.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkConfig {
    /// IP-layer rate; `None` passes every packet on at the moment it arrives.
    pub rate: Option<Rate>,
    /// How many bytes may wait. The packet in service does not count; what finds no room is dropped at the tail.
    /// A queue given to [`crate::Link::with_queue`] has its own limit instead.
    pub queue_bytes: u64,
    /// Propagation delay, added to the end of service.
    pub delay: Span,
    /// Extra delay, uniform from zero to this. It never reorders: a packet is not due before the one ahead of it, so
    /// packets that follow each other closer than this keep some of the delay of those ahead.
    pub jitter: Span,
    /// Which packets are lost after their service, as on a lossy medium.
    pub loss: Loss,
    /// The seed of loss and jitter: the same seed and arrivals give the same deliveries.
    pub seed: u64,
}

/// A setting that no link or traffic source can have.
#[derive(Debug, Clone, PartialEq, Error)]
#[error("cannot set up the {part}: {name} is {value}, {problem}; {remedy}")]
pub struct ConfigError {
    part: &'static str,
    name: &'static str,
    value: String,
    problem: &'static str,
    remedy: &'static str,
}

impl Default for LinkConfig {
    /// A link that does nothing to packets; where a rate is set, a thousand packets of 1500 bytes may wait.
    fn default() -> Self {
        LinkConfig {
            rate: None,
            queue_bytes: 1_500_000,
            delay: Span::ZERO,
            jitter: Span::ZERO,
            loss: Loss::None,
            seed: 0,
        }
    }
}

impl LinkConfig {
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let error = ConfigError::of("link");
        if self.rate == Some(Rate::ZERO) {
            let remedy = "give a rate of at least 1 bit/s, or none for an unlimited link";
            return Err(error("rate", Rate::ZERO.to_string(), "which lets nothing pass", remedy));
        }
        for (name, span) in [("delay", self.delay), ("jitter", self.jitter)] {
            if span < Span::ZERO {
                return Err(error(name, span.to_string(), "which is before the packet was sent", "give 0 or more"));
            }
        }
        self.loss.check()
    }
}

impl ConfigError {
    /// Makes errors about one `part`: called with the setting's name, value, problem and remedy.
    pub(crate) fn of(part: &'static str) -> impl Fn(&'static str, String, &'static str, &'static str) -> ConfigError {
        move |name, value, problem, remedy| ConfigError { part, name, value, problem, remedy }
    }

    pub(crate) fn check_probability(part: &'static str, name: &'static str, value: f64) -> Result<(), ConfigError> {
        if (0.0..=1.0).contains(&value) {
            return Ok(());
        }
        Err(Self::of(part)(name, value.to_string(), "which is no probability", "give a part from 0 to 1"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_refused_with_the_reason_and_the_remedy() {
        let good = LinkConfig { rate: Some(Rate::from_mbit(1)), loss: Loss::Independent(1.0), ..LinkConfig::default() };
        assert_eq!(good.check(), Ok(()));
        for (config, part) in [
            (LinkConfig { rate: Some(Rate::ZERO), ..good.clone() }, "none for an unlimited link"),
            (LinkConfig { delay: Span::from_nanos(-1), ..good.clone() }, "delay is -1 ns"),
            (LinkConfig { jitter: Span::from_millis(-2), ..good.clone() }, "jitter is -2 ms"),
            (LinkConfig { loss: Loss::Independent(1.01), ..good.clone() }, "loss is 1.01"),
            (LinkConfig { loss: Loss::Independent(-0.1), ..good.clone() }, "no probability"),
            (LinkConfig { loss: Loss::Independent(f64::NAN), ..good.clone() }, "loss is NaN"),
        ] {
            let text = config.check().unwrap_err().to_string();
            assert!(text.contains(part), "{text}");
        }
    }
}
