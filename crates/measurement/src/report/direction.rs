use super::capacity::CapacityReport;
use super::figures::{Bytes, Confidence};
use super::load::LoadReport;
use super::load_balancing::LoadBalancingReport;
use super::warning::Warning;
use crate::series::Cost;
use kumade_estimate::{Outcome, Reason, Rejection};
use kumade_probe_train::{Estimate, Transport};
use kumade_units::{Rate, Span, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The result of one direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DirectionReport {
    /// What carried the probe packets.
    pub transport: Transport,
    /// The name of the estimation method.
    pub method: String,
    /// TCP connections in use at the end; zero for UDP.
    pub connections: u32,
    /// The available bandwidth (RFC 5136), averaged over the measurement; null if it could not be determined. Where load
    /// balancing was detected, what one flow can have, whichever link it takes.
    pub available_bits_per_second: Option<Estimate<Rate>>,
    /// A lower bound of the available bandwidth: what could be sent did not fill the path. Null if there is a value, or no
    /// bound. Published methods state the end of their range as a value, too.
    pub at_least_bits_per_second: Option<Rate>,
    /// An upper bound of the available bandwidth: the lowest rate that was tried exceeded it. Null as above.
    pub at_most_bits_per_second: Option<Rate>,
    /// Why there is no more than a bound: `sender` (it cannot send faster), `host` (which may take as long for each
    /// packet), `budget` (which was spent) `range` (the method
    /// tries no other rates) `token-bucket` (more passes for a burst only) `growing-queue` (a longer train at no more kept a queue
    /// growing or full) `loss` (a longer train at no more lost packets, and it was not told why) `nearly-full` (what is free may be what other connections give up to the trains) or `flow-queueing` (flows
    /// have queues of their own); null if there is no bound.
    pub limited_by: Option<String>,
    /// Why there is no value; null if there is one.
    #[schemars(with = "Option<String>")]
    pub reason: Option<Reason>,
    /// What one more flow that always sends can have, where flows have queues of their own: its fair share. It may push others
    /// aside: the available bandwidth, which nobody uses, may be less. Null where flow queueing was not detected.
    pub fair_share_bits_per_second: Option<Estimate<Rate>>,
    /// The fastest rate at which several packets in a row, or a whole train, arrived: the path carries no more. Null if that is not known.
    #[serde(default)]
    pub fastest_arrival_bits_per_second: Option<Rate>,
    /// The links side by side that connections take; null where none were detected, which takes many connections.
    pub load_balancing: Option<LoadBalancingReport>,
    /// What filling the path with TCP connections came to, the bufferbloat grade among it; null if not requested.
    #[serde(default)]
    pub load: Option<LoadReport>,
    /// Bytes of the longer trains, one right behind the other, that passed at about this rate: only a policer or a token bucket whose
    /// burst is larger may have been overlooked. Null if none was sent, or the rate did not last.
    pub sustained_bytes: Option<u64>,
    /// Standard deviation of the available bandwidth from train to train, which shows how much it varied. Null if there
    /// were too few trains.
    pub spread_bits_per_second: Option<Rate>,
    /// The capacity; null if not requested.
    pub capacity: Option<CapacityReport>,
    /// Probe packets sent to measure the available bandwidth.
    pub packets_sent: u64,
    /// Bytes of those packets, including IP headers.
    pub bytes_sent: u64,
    /// Time from the first train to the result.
    pub duration_seconds: f64,
    /// The time that the value is an average over: from the start of the first to the end of the last of the trains that it follows from.
    /// Those that only tried it, or whether it lasts, don't count. Null if there is no value, or connections take several links.
    #[serde(default)]
    pub window_seconds: Option<f64>,
    /// How long after the first packet of the method's first train that time began. Null where that is null.
    #[serde(default)]
    pub window_start_seconds: Option<f64>,
    /// Trains used for the value.
    pub trains: u32,
    /// Trains rejected.
    pub trains_rejected: u32,
    /// Trains rejected, by cause.
    #[schemars(with = "BTreeMap<String, u32>")]
    pub trains_rejected_reasons: BTreeMap<Rejection, u32>,
    /// Circumstances that limit the validity of the value.
    #[schemars(with = "Vec<String>")]
    pub warnings: Vec<Warning>,
}

impl DirectionReport {
    /// When the time that the value is an average over began and ended, if the first packet of the method's first train was sent then; none
    /// without a value.
    pub fn value_window(&self, method_began: Time) -> Option<(Time, Time)> {
        let [start, duration] = [self.window_start_seconds?, self.window_seconds?].map(Span::from_secs_f64);
        Some((method_began + start, method_began + start + duration))
    }

    /// From a method's outcome over this transport; its warnings include those of the transport.
    pub fn new(
        transport: Transport,
        connections: u32,
        method: &str,
        outcome: Outcome,
        capacity: Option<CapacityReport>,
        cost: &Cost,
    ) -> Self {
        let rejected = &outcome.trains_rejected;
        // What was found of a value that was withdrawn is no limit of another one.
        let has_value = outcome.available.is_some();
        let warnings = outcome.warnings.into_iter().filter(|warning| has_value || !warning.is_of_value());
        let warnings = warnings.map(Warning::from).collect();
        DirectionReport {
            transport,
            method: method.to_owned(),
            connections,
            available_bits_per_second: outcome.available,
            at_least_bits_per_second: outcome.bound.and_then(|bound| bound.lower_bound()),
            at_most_bits_per_second: outcome.bound.and_then(|bound| bound.upper_bound()),
            limited_by: outcome.bound.map(|bound| bound.kind().name().to_owned()),
            reason: outcome.reason,
            fair_share_bits_per_second: None,
            fastest_arrival_bits_per_second: None,
            load_balancing: None,
            load: None,
            sustained_bytes: None,
            spread_bits_per_second: outcome.spread,
            capacity,
            packets_sent: cost.packets,
            bytes_sent: cost.bytes,
            duration_seconds: cost.duration.as_secs_f64(),
            window_seconds: None,
            window_start_seconds: None,
            trains: outcome.trains_used,
            trains_rejected: rejected.values().sum(),
            trains_rejected_reasons: rejected.clone(),
            warnings,
        }
    }

    /// Bytes of IP packets that trains for the capacity, for the available bandwidth, and the filling of the path have sent.
    pub fn total_bytes_sent(&self) -> u64 {
        let capacity = self.capacity.as_ref().map_or(0, |capacity| capacity.bytes_sent);
        self.bytes_sent + capacity + self.load.as_ref().map_or(0, LoadReport::ip_bytes)
    }

    /// How long all of these took.
    pub fn total_duration_seconds(&self) -> f64 {
        let capacity = self.capacity.as_ref().map_or(0.0, |capacity| capacity.duration_seconds);
        self.duration_seconds + capacity + self.load.as_ref().map_or(0.0, |load| load.duration_seconds)
    }

    /// Whether there is a value, or a bound.
    pub fn has_result(&self) -> bool {
        let bounds = [self.at_least_bits_per_second, self.at_most_bits_per_second];
        self.available_bits_per_second.is_some() || bounds.iter().any(Option::is_some)
    }
}

impl fmt::Display for DirectionReport {
    /// One line: `94.3 Mbit/s available (95 %: 94.1 Mbit/s … 94.5 Mbit/s) — …`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bounds = (self.at_least_bits_per_second, self.at_most_bits_per_second);
        match (&self.available_bits_per_second, &self.reason) {
            _ if bounds != (None, None) => {
                bounds.0.map_or(Ok(()), |rate| write!(f, "≥ {rate} available"))?;
                bounds.1.map_or(Ok(()), |rate| write!(f, "≤ {rate} available"))?;
                self.reason.as_ref().map_or(Ok(()), |reason| write!(f, " ({reason})"))?;
            }
            (Some(v), _) => {
                let Estimate { value, low, high, .. } = v;
                write!(f, "{value} available")?;
                match v.confidence {
                    confidence if confidence > 0.0 => write!(f, " ({}: {low} … {high})", Confidence(confidence))?,
                    // A range without a confidence level is still the method's result.
                    _ if v.low < v.high => write!(f, " ({low} … {high})")?,
                    _ => {}
                }
                self.window_seconds.map_or(Ok(()), |seconds| write!(f, ", on average over {seconds:.2} s"))?;
                self.sustained_bytes.map_or(Ok(()), |bytes| write!(f, ", for {} at least", Bytes(bytes)))?;
            }
            (None, Some(reason)) => write!(f, "no value: {reason}")?,
            (None, None) => f.write_str("no value")?,
        }
        self.load_balancing.as_ref().map_or(Ok(()), |links| write!(f, "; {links}"))?;
        write!(f, " — {} train{}", self.trains, if self.trains == 1 { "" } else { "s" })?;
        if self.trains_rejected > 0 {
            write!(f, " ({} rejected)", self.trains_rejected)?;
        }
        write!(f, ", {}, {:.1} s over ", Bytes(self.bytes_sent), self.duration_seconds)?;
        match self.transport {
            Transport::Udp => f.write_str("udp"),
            Transport::Rake => write!(f, "rake ({} TCP connections)", self.connections),
            Transport::Single => f.write_str("single (one TCP connection)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome() -> Outcome {
        let [value, low, high] = [94_300_000, 94_100_000, 94_520_000].map(Rate::from_bits_per_second);
        Outcome {
            available: Some(Estimate { value, low, high, confidence: 0.95 }),
            bound: None,
            reason: None,
            spread: Some(Rate::from_mbit(1)),
            capacity: None,
            tight_link: None,
            hidden_bucket: None,
            refused: None,
            trains_used: 7,
            trains_rejected: [(Rejection::ReceiverStalled, 2)].into(),
            warnings: vec![kumade_estimate::Warning::ShortQueue],
        }
    }

    #[test]
    fn a_direction_is_summarised_on_one_line() {
        let cost = Cost { packets: 600, bytes: 812_345, duration: Span::from_millis(912) };
        let report = DirectionReport::new(Transport::Udp, 0, "primed", outcome(), None, &cost);
        let verdict =
            "94.3 Mbit/s available (95 %: 94.1 Mbit/s … 94.5 Mbit/s) — 7 trains (2 rejected), 812 kB, 0.9 s over udp";
        assert_eq!(report.to_string(), verdict);
        let lasting = DirectionReport { sustained_bytes: Some(1_500_000), ..report.clone() };
        assert!(lasting.to_string().contains("… 94.5 Mbit/s), for 1.5 MB at least — 7 trains"), "{lasting}");
        let averaged = DirectionReport { window_seconds: Some(0.384), ..report.clone() };
        assert!(averaged.to_string().contains("… 94.5 Mbit/s), on average over 0.38 s — 7 trains"), "{averaged}");
        let refused = DirectionReport { available_bits_per_second: None, ..lasting };
        assert!(!refused.to_string().contains("at least"), "{refused}");
        assert_eq!(report.warnings, [Warning::Estimate(kumade_estimate::Warning::ShortQueue)]);
        assert_eq!((report.trains, report.trains_rejected), (7, 2));
        assert_eq!(report.trains_rejected_reasons, [(Rejection::ReceiverStalled, 2)].into());
    }

    #[test]
    fn a_range_without_confidence_is_shown_as_well() {
        let verdict = |confidence| {
            let available = outcome().available.map(|estimate| Estimate { confidence, ..estimate });
            let outcome = Outcome { available, ..outcome() };
            DirectionReport::new(Transport::Udp, 0, "pathload", outcome, None, &Cost::default()).to_string()
        };
        assert!(verdict(0.0).starts_with("94.3 Mbit/s available (94.1 Mbit/s … 94.5 Mbit/s) — "), "{}", verdict(0.0));
        assert!(verdict(0.9973).starts_with("94.3 Mbit/s available (99.7 %: 94.1 Mbit/s … "), "{}", verdict(0.9973));
    }

    #[test]
    fn without_a_value_the_reason_is_shown() {
        let outcome = Outcome { available: None, reason: Some(Reason::NoPacketArrived), ..outcome() };
        let report = DirectionReport::new(Transport::Rake, 60, "primed", outcome, None, &Cost::default());
        let verdict = "no value: no packet of any train arrived — 7 trains (2 rejected), 0 B, 0.0 s over rake (60 TCP connections)";
        assert_eq!(report.to_string(), verdict);
    }
}
