//! The settings of an emulated link as a user writes them: names, each with a value, as `tc` writes them.
//!
//! ```text
//! rate 100mbit delay 20ms loss 0.1% queue fair-share target 5ms
//! ```
//!
//! The same words stand on the command line, in `kumade link set` and in schedule files; [`KEYS`] lists them. A
//! [`Change`] is some of them for one direction or both. What it does not name stays as it was.

mod change;
mod keys;
mod queue;
mod rules;
mod service_rate;
mod value;

pub use change::{Change, Scope};
pub use keys::{Group, KEYS, Key};

use crate::DirectionConfig;
use link::queue::{Limit, QueueConfig};
use link::{LinkConfig, Loss, Medium, Reordering, TokenBucket};
use middlebox::{MiddleboxConfig, Rule};
use queue::QueueSettings;
use service_rate::ServiceRate;
use std::fmt;
use thiserror::Error;
use units::{Rate, Span, show};

/// The maximum of a queue's limit, in bytes.
const MAX_QUEUE_BYTES: u64 = 256 << 20;

/// An impossible setting.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum SettingError {
    /// No setting has this name.
    #[error("there is no setting `{0}`; the settings are {names}", names = keys::names())]
    Unknown(String),
    /// Its value is missing.
    #[error("`{0}` needs a value: {example}", example = keys::example(.0))]
    Incomplete(String),
    /// It cannot have this value.
    #[error("cannot set {key}: {reason}")]
    Value {
        /// Which setting.
        key: String,
        /// What is wrong with its value, and what to give.
        reason: String,
    },
    /// Possible each by itself, but not together.
    #[error("{0}")]
    Together(String),
    /// The link refuses it.
    #[error(transparent)]
    Link(#[from] units::ConfigError),
}

/// All settings of one direction. The default does nothing to packets.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    service_rate: ServiceRate,
    /// Of a token bucket; 0 for none.
    burst_bytes: u64,
    peak_rate: Option<Rate>,
    delay: Span,
    jitter: Span,
    loss: LossSettings,
    reordering: Reordering,
    duplication: f64,
    in_flight_bytes: u64,
    limit: Limit,
    queue: QueueSettings,
    rules: Vec<Rule>,
    seed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum LossSettings {
    /// A part of all packets, in bursts of this many on the average.
    Mean { part: f64, burst: f64 },
    /// The four probabilities as `netem` has them: of turning bad, of turning good, of a loss in bad and in good times.
    GilbertElliott([f64; 4]),
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            service_rate: ServiceRate::Rate(None),
            burst_bytes: 0,
            peak_rate: None,
            delay: Span::ZERO,
            jitter: Span::ZERO,
            loss: LossSettings::Mean { part: 0.0, burst: 1.0 },
            reordering: Reordering { probability: 0.0, extra: Span::from_millis(10) },
            duplication: 0.0,
            in_flight_bytes: 256 << 20,
            limit: Limit::Packets(1000),
            queue: QueueSettings::default(),
            rules: Vec::new(),
            seed: 0,
        }
    }
}

impl Settings {
    /// Changes one setting.
    ///
    /// # Errors
    /// There is no such setting, or it cannot have this value. Nothing is changed then.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), SettingError> {
        let refused = |reason: String| SettingError::Value { key: key.to_owned(), reason };
        let group = keys::find(key).ok_or_else(|| SettingError::Unknown(key.to_owned()))?.group;
        match group {
            Group::Queue => self.queue.set(key, value).map_err(refused),
            Group::Rules => rules::set(&mut self.rules, key, value).map_err(refused),
            Group::Link => self.set_link(key, value).map_err(refused),
        }
    }

    fn set_link(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "rate" | "trace" | "wireless" => self.service_rate = ServiceRate::read(key, value)?,
            "burst" => self.burst_bytes = value::bytes(value)?,
            "peak-rate" => self.peak_rate = value::rate(value)?,
            "delay" => self.delay = value::span(value)?,
            "jitter" => self.jitter = value::span(value)?,
            "loss" => self.loss = LossSettings::Mean { part: value::ratio(value)?, burst: self.burst() },
            "loss-burst" => self.loss = LossSettings::Mean { part: self.mean_loss(), burst: value::burst(value)? },
            "gilbert-elliott" => self.loss = LossSettings::GilbertElliott(value::four_ratios(value)?),
            "reorder" => self.reordering.probability = value::ratio(value)?,
            "reorder-delay" => self.reordering.extra = value::span(value)?,
            "duplicate" => self.duplication = value::ratio(value)?,
            "in-flight" => self.in_flight_bytes = value::bytes(value)?,
            "limit" => self.limit = value::limit(value)?,
            "seed" => self.seed = value::number(value)?,
            _ => return Err("it cannot be set".to_owned()),
        }
        Ok(())
    }

    /// The configuration of a direction; `direction`, 0 or 1, gives the two different random numbers.
    ///
    /// # Errors
    /// The settings are not possible together, with the reason.
    pub fn direction(&self, direction: usize) -> Result<DirectionConfig, SettingError> {
        self.check_limit()?;
        let (rate, medium) = self.rate_and_medium()?;
        let queue = QueueConfig { limit: self.limit, discipline: self.queue.discipline(self.service_rate.mean_rate()) };
        let link = LinkConfig {
            rate,
            medium,
            delay: self.delay,
            jitter: self.jitter,
            loss: self.loss()?,
            reordering: if self.reordering.probability > 0.0 { self.reordering } else { Reordering::default() },
            duplication: self.duplication,
            in_flight_bytes: self.in_flight_bytes,
            seed: self.seed.wrapping_mul(2).wrapping_add(direction as u64),
            ..LinkConfig::default()
        };
        link.check()?;
        queue.check()?;
        self.rules.iter().try_for_each(Rule::check)?;
        let rules = MiddleboxConfig { rules: self.rules.clone(), ..Default::default() };
        Ok(DirectionConfig { link, queue, rules: (!self.rules.is_empty()).then_some(rules) })
    }

    /// The settings that differ from the default, as [`Settings::set`] reads them.
    pub fn words(&self) -> Vec<(&'static str, String)> {
        let plain = Settings::default();
        let mut words = Vec::new();
        let mut say = |differs: bool, key, value: String| words.extend(differs.then_some((key, value)));
        let (key, is) = self.service_rate.words();
        say(self.service_rate != plain.service_rate, key, is);
        say(self.burst_bytes != 0, "burst", show::bytes(self.burst_bytes));
        say(self.peak_rate.is_some(), "peak-rate", value::show_rate(self.peak_rate));
        say(self.delay != plain.delay, "delay", show::span(self.delay));
        say(self.jitter != plain.jitter, "jitter", show::span(self.jitter));
        match self.loss {
            LossSettings::Mean { part, burst } => {
                say(part != 0.0, "loss", show::ratio(part));
                say(burst != 1.0, "loss-burst", burst.to_string());
            }
            LossSettings::GilbertElliott(four) => {
                say(true, "gilbert-elliott", four.map(show::ratio).join(","));
            }
        }
        say(self.reordering.probability != 0.0, "reorder", show::ratio(self.reordering.probability));
        let extra = self.reordering.extra;
        say(extra != plain.reordering.extra, "reorder-delay", show::span(extra));
        say(self.duplication != 0.0, "duplicate", show::ratio(self.duplication));
        let in_flight = self.in_flight_bytes;
        say(in_flight != plain.in_flight_bytes, "in-flight", show::bytes(in_flight));
        say(self.limit != plain.limit, "limit", value::show_limit(self.limit));
        say(self.seed != plain.seed, "seed", self.seed.to_string());
        words.extend(self.queue.words());
        words.extend(self.rules.iter().map(rules::words));
        words
    }

    fn burst(&self) -> f64 {
        if let LossSettings::Mean { burst, .. } = self.loss { burst } else { 1.0 }
    }

    fn mean_loss(&self) -> f64 {
        if let LossSettings::Mean { part, .. } = self.loss { part } else { 0.0 }
    }

    /// The rate and the medium, which is a token bucket if there is one.
    fn rate_and_medium(&self) -> Result<(Option<Rate>, Option<Medium>), SettingError> {
        let refused = |reason: &str| Err(SettingError::Together(reason.to_owned()));
        match (self.burst_bytes, self.peak_rate, &self.service_rate) {
            (0, None, service_rate) => Ok(service_rate.rate_and_medium()),
            (0, Some(_), _) => refused("a peak-rate needs a burst: give one, or `peak-rate unlimited`"),
            (_, Some(peak), ServiceRate::Rate(Some(rate))) if peak <= *rate => {
                refused("the peak-rate must be higher than the rate")
            }
            (burst_bytes, peak, ServiceRate::Rate(Some(rate))) => {
                Ok((peak, Some(Medium::TokenBucket(TokenBucket { rate: *rate, burst_bytes }))))
            }
            _ => refused("a burst needs a rate: give one, or `burst 0b`"),
        }
    }

    fn loss(&self) -> Result<Loss, SettingError> {
        Ok(match self.loss {
            LossSettings::Mean { part: 0.0, .. } => Loss::None,
            LossSettings::Mean { part, burst: 1.0 } => Loss::Independent(part),
            LossSettings::Mean { part, burst } => Loss::bursts(part, burst)?,
            LossSettings::GilbertElliott([good_to_bad, bad_to_good, loss_in_bad, loss_in_good]) => {
                Loss::GilbertElliott { good_to_bad, bad_to_good, loss_in_good, loss_in_bad }
            }
        })
    }

    /// Queued packets are held in memory, and at least one must fit. The link limits packets in flight.
    fn check_limit(&self) -> Result<(), SettingError> {
        let refused = |text| Err(SettingError::Together(text));
        let limit = value::show_limit(self.limit);
        let waiting = match self.limit {
            Limit::Bytes(bytes) => bytes,
            Limit::Packets(packets) => packets.saturating_mul(value::USUAL_PACKET),
        };
        if waiting > MAX_QUEUE_BYTES {
            let most = show::bytes(MAX_QUEUE_BYTES);
            return refused(format!("a queue limit of {limit} is more than the maximum of {most}"));
        }
        // With tail drop alone, a packet reaches an idle rate without waiting.
        let all_wait = !self.queue.is_tail_drop() || !matches!(self.service_rate, ServiceRate::Rate(_));
        if all_wait && waiting < value::USUAL_PACKET {
            return refused(format!(
                "a queue limit of {limit} holds no packet, and with this queue or medium every packet is queued: give at least 1packets"
            ));
        }
        Ok(())
    }
}

impl fmt::Display for Settings {
    /// The words, or `no impairments`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<_> = self.words().into_iter().map(|(key, value)| format!("{key} {value}")).collect();
        if words.is_empty() { write!(f, "no impairments") } else { write!(f, "{}", words.join(" ")) }
    }
}

#[cfg(test)]
mod tests;
