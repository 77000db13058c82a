//! The settings of one direction, as they are read, put together to a configuration, and shown.

use super::error::SettingError;
use super::framing;
use super::jitter::NamedDistribution;
use super::keys::{SettingGroup, SettingKey};
use super::loss::LossSettings;
use super::queue::QueueSettings;
use super::service_rate::ServiceRate;
use super::{rules, value};
use crate::DirectionConfig;
use kumade_link::queue::{QueueConfig, QueueLimit};
use kumade_link::{Framing, Jitter, LinkConfig, Medium, Reordering, TokenBucket};
use kumade_middlebox::FilterRule;
use kumade_units::{Rate, Span, exact_text};
use std::fmt;

/// The maximum of a queue's limit, in bytes.
const MAX_QUEUE_BYTES: u64 = 256 << 20;

/// All settings of one direction, each valid by itself. The default does nothing to packets.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct DirectionSettings {
    service_rate: ServiceRate,
    /// Of a token bucket; 0 for none.
    burst_bytes: u64,
    peak_rate: Option<Rate>,
    framing: Framing,
    policer: Option<TokenBucket>,
    delay: Span,
    /// Its distribution stands by itself.
    jitter: Jitter,
    distribution: NamedDistribution,
    loss: LossSettings,
    reordering: Reordering,
    duplication: f64,
    duplication_correlation: f64,
    corruption: f64,
    corruption_correlation: f64,
    in_flight_bytes: u64,
    /// Unless set, as the discipline has it.
    limit: Option<QueueLimit>,
    pub(super) queue: QueueSettings,
    rules: Vec<FilterRule>,
    seed: u64,
}

impl Default for DirectionSettings {
    fn default() -> Self {
        DirectionSettings {
            service_rate: ServiceRate::Rate(None),
            burst_bytes: 0,
            peak_rate: None,
            framing: Framing::default(),
            policer: None,
            delay: Span::ZERO,
            jitter: Jitter::default(),
            distribution: NamedDistribution::default(),
            loss: LossSettings::default(),
            reordering: Reordering { probability: 0.0, extra: Span::from_millis(10) },
            duplication: 0.0,
            duplication_correlation: 0.0,
            corruption: 0.0,
            corruption_correlation: 0.0,
            in_flight_bytes: 256 << 20,
            limit: None,
            queue: QueueSettings::default(),
            rules: Vec::new(),
            seed: 0,
        }
    }
}

/// Reads the value of a setting, and stores it in each of these directions.
pub(super) fn apply_setting(
    targets: &mut [DirectionSettings],
    key: &SettingKey,
    text: &str,
) -> Result<(), SettingError> {
    let set = match key.group {
        // What a parameter means is for the discipline of each direction to say.
        SettingGroup::Queue => targets.iter_mut().try_for_each(|target| target.queue.set(key.name, text)),
        SettingGroup::Rules => rules::set_rules(targets.iter_mut().map(|target| &mut target.rules), key.name, text),
        SettingGroup::Link => apply_link_setting(targets, key.name, text),
    };
    set.map_err(|reason| SettingError::InvalidValue { key: key.name, reason })
}

fn apply_link_setting(targets: &mut [DirectionSettings], name: &str, text: &str) -> Result<(), String> {
    match name {
        "rate" | "trace" | "wireless" => {
            assign_to_all(targets, ServiceRate::parse(name, text)?, |to, read| to.service_rate = read)
        }
        "burst" => assign_to_all(targets, value::parse_bytes(text)?, |to, bytes| to.burst_bytes = bytes),
        "peak-rate" => assign_to_all(targets, value::parse_rate(text)?, |to, rate| to.peak_rate = rate),
        "police" => assign_to_all(targets, value::parse_policer(text)?, |to, policer| to.policer = policer),
        "delay" => assign_to_all(targets, value::parse_span(text)?, |to, span| to.delay = span),
        "jitter" => assign_to_all(targets, value::parse_span(text)?, |to, span| to.jitter.amount = span),
        "jitter-distribution" => {
            assign_to_all(targets, NamedDistribution::parse(text)?, |to, named| to.distribution = named)
        }
        "jitter-correlation" => {
            assign_to_all(targets, value::parse_ratio(text)?, |to, ratio| to.jitter.correlation = ratio)
        }
        "jitter-reorder" => assign_to_all(targets, value::parse_switch(text)?, |to, on| to.jitter.reorders = on),
        "loss" | "loss-burst" | "loss-correlation" | "gilbert-elliott" | "loss-state" => {
            targets.iter_mut().try_for_each(|target| target.loss.set(name, text))?
        }
        "overhead" | "mpu" | "linklayer" => {
            targets.iter_mut().try_for_each(|target| framing::set(&mut target.framing, name, text))?
        }
        "reorder" => assign_to_all(targets, value::parse_ratio(text)?, |to, ratio| to.reordering.probability = ratio),
        "reorder-delay" => assign_to_all(targets, value::parse_span(text)?, |to, span| to.reordering.extra = span),
        "duplicate" => assign_to_all(targets, value::parse_ratio(text)?, |to, ratio| to.duplication = ratio),
        "duplicate-correlation" => {
            assign_to_all(targets, value::parse_ratio(text)?, |to, ratio| to.duplication_correlation = ratio)
        }
        "corrupt" => assign_to_all(targets, value::parse_ratio(text)?, |to, ratio| to.corruption = ratio),
        "corrupt-correlation" => {
            assign_to_all(targets, value::parse_ratio(text)?, |to, ratio| to.corruption_correlation = ratio)
        }
        "in-flight" => assign_to_all(targets, value::parse_bytes(text)?, |to, bytes| to.in_flight_bytes = bytes),
        "limit" => assign_to_all(targets, value::parse_limit(text)?, |to, limit| to.limit = Some(limit)),
        "seed" => assign_to_all(targets, value::parse_number(text)?, |to, seed| to.seed = seed),
        _ => return Err("no link setting has this name".to_owned()),
    }
    Ok(())
}

fn assign_to_all<T: Clone>(targets: &mut [DirectionSettings], value: T, assign: fn(&mut DirectionSettings, T)) {
    targets.iter_mut().for_each(|target| assign(target, value.clone()));
}

impl DirectionSettings {
    /// The configuration of a direction; `direction`, 0 or 1, gives the two different random numbers.
    pub(super) fn config(&self, direction: u64) -> Result<DirectionConfig, SettingError> {
        self.check_limit()?;
        let (rate, medium) = self.rate_and_medium()?;
        let discipline = self.queue.discipline(self.service_rate.mean_rate(), self.framing);
        let queue = QueueConfig { limit: self.limit(), discipline };
        let link = LinkConfig {
            rate,
            medium,
            framing: self.framing,
            policer: self.policer,
            delay: self.delay,
            jitter: Jitter { distribution: self.distribution.distribution.clone(), ..self.jitter.clone() },
            loss: self.loss.config()?,
            reordering: if self.reordering.probability > 0.0 { self.reordering } else { Reordering::default() },
            duplication: self.duplication,
            duplication_correlation: self.duplication_correlation,
            corruption: self.corruption,
            corruption_correlation: self.corruption_correlation,
            in_flight_bytes: self.in_flight_bytes,
            seed: self.seed.wrapping_mul(2).wrapping_add(direction),
            ..LinkConfig::default()
        };
        Ok(DirectionConfig::new(link, queue, self.rules.clone())?)
    }

    /// The name of a queue discipline that is set though nothing limits the rate: there is never a queue.
    pub(super) fn discipline_without_rate(&self) -> Option<&'static str> {
        (!self.queue.is_tail_drop() && self.service_rate == ServiceRate::Rate(None)).then(|| self.queue.name())
    }

    /// Whether packets take more on the line though nothing limits the rate.
    pub(super) fn has_framing_without_rate(&self) -> bool {
        self.framing != Framing::default() && self.service_rate == ServiceRate::Rate(None)
    }

    /// Whether it is said how jitter is spread though there is none.
    pub(super) fn spreads_no_jitter(&self) -> bool {
        let plain = DirectionSettings::default();
        self.jitter.amount == Span::ZERO && (self.distribution != plain.distribution || self.jitter != plain.jitter)
    }

    /// The settings that differ from the default, as they are read.
    fn to_words(&self) -> Vec<(&'static str, String)> {
        let plain = DirectionSettings::default();
        let mut words = Vec::new();
        let mut say = |differs: bool, key, value: String| words.extend(differs.then_some((key, value)));
        let (key, is) = self.service_rate.to_words();
        say(self.service_rate != plain.service_rate, key, is);
        say(self.burst_bytes != 0, "burst", exact_text::bytes(self.burst_bytes));
        say(self.peak_rate.is_some(), "peak-rate", value::show_rate(self.peak_rate));
        let framing = framing::to_words(self.framing);
        framing.into_iter().for_each(|(key, value)| say(true, key, value));
        say(self.policer.is_some(), "police", value::show_policer(self.policer));
        say(self.delay != plain.delay, "delay", exact_text::span(self.delay));
        say(self.jitter.amount != plain.jitter.amount, "jitter", exact_text::span(self.jitter.amount));
        say(self.distribution != plain.distribution, "jitter-distribution", self.distribution.name.clone());
        say(self.jitter.correlation != 0.0, "jitter-correlation", exact_text::ratio(self.jitter.correlation));
        say(self.jitter.reorders, "jitter-reorder", "on".to_owned());
        let loss = self.loss.to_words();
        loss.into_iter().for_each(|(key, value)| say(true, key, value));
        say(self.reordering.probability != 0.0, "reorder", exact_text::ratio(self.reordering.probability));
        let extra = self.reordering.extra;
        say(extra != plain.reordering.extra, "reorder-delay", exact_text::span(extra));
        for (key, ratio) in [
            ("duplicate", self.duplication),
            ("duplicate-correlation", self.duplication_correlation),
            ("corrupt", self.corruption),
            ("corrupt-correlation", self.corruption_correlation),
        ] {
            say(ratio != 0.0, key, exact_text::ratio(ratio));
        }
        let in_flight = self.in_flight_bytes;
        say(in_flight != plain.in_flight_bytes, "in-flight", exact_text::bytes(in_flight));
        say(self.limit() != self.queue.default_limit(), "limit", value::show_limit(self.limit()));
        say(self.seed != plain.seed, "seed", self.seed.to_string());
        words.extend(self.queue.to_words());
        words.extend(self.rules.iter().map(rules::to_words));
        words
    }

    fn limit(&self) -> QueueLimit {
        self.limit.unwrap_or(self.queue.default_limit())
    }

    /// The rate and the medium, which is a token bucket if there is one.
    fn rate_and_medium(&self) -> Result<(Option<Rate>, Option<Medium>), SettingError> {
        let refused = |reason: &str| Err(SettingError::ConflictingSettings(reason.to_owned()));
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

    /// Queued packets are held in memory, and at least one must fit. The link limits the memory of all.
    fn check_limit(&self) -> Result<(), SettingError> {
        let refused = |text| Err(SettingError::ConflictingSettings(text));
        let limit = value::show_limit(self.limit());
        let waiting = match self.limit() {
            QueueLimit::Bytes(bytes) => bytes,
            QueueLimit::Packets(packets) => packets.saturating_mul(value::ASSUMED_PACKET_BYTES),
        };
        if waiting > MAX_QUEUE_BYTES {
            let most = exact_text::bytes(MAX_QUEUE_BYTES);
            return refused(format!("a queue limit of {limit} is more than the maximum of {most}"));
        }
        if matches!(self.limit(), QueueLimit::Bytes(_)) && waiting > self.in_flight_bytes {
            let most = exact_text::bytes(self.in_flight_bytes);
            return refused(format!(
                "a queue limit of {limit} is more than the memory of all packets, which is {most}: set `in-flight` higher"
            ));
        }
        // With tail drop alone, a packet reaches an idle rate without waiting.
        let all_wait = !self.queue.is_tail_drop() || !matches!(self.service_rate, ServiceRate::Rate(_));
        if all_wait && waiting < value::ASSUMED_PACKET_BYTES {
            return refused(format!(
                "a queue limit of {limit} holds no packet, and with this queue or medium every packet is queued: give a limit of at least one packet, such as 100packets"
            ));
        }
        Ok(())
    }
}

impl fmt::Display for DirectionSettings {
    /// The words, or `no impairments`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<_> = self.to_words().into_iter().map(|(key, value)| format!("{key} {value}")).collect();
        if words.is_empty() { write!(f, "no impairments") } else { write!(f, "{}", words.join(" ")) }
    }
}
