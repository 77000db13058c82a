use super::capacity::CapacityReport;
use super::figures::{Bytes, Confidence};
use crate::series::Cost;
use estimate::{Outcome, Rejection};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use train::{Estimate, Transport};
use units::Rate;

/// What the measurement of one direction came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DirectionReport {
    /// What carried the packets.
    pub transport: Transport,
    /// The estimator.
    pub method: String,
    /// TCP connections that were in use at the end; zero for UDP.
    pub connections: u32,
    /// The available bandwidth, averaged over the measurement; null where the path could not be measured.
    pub available_bits_per_second: Option<Estimate<Rate>>,
    /// Why there is no value; null where there is one.
    pub reason: Option<String>,
    /// Standard deviation of the available bandwidth between trains: how much the truth itself moved. Null where too
    /// few trains tell.
    pub spread_bits_per_second: Option<u64>,
    /// How fast the narrowest link is when nobody else sends; null if not asked for.
    pub capacity: Option<CapacityReport>,
    /// Probe packets sent for the available bandwidth.
    pub packets_sent: u64,
    /// Bytes of them, IP headers included.
    pub bytes_sent: u64,
    /// From the first train to the value.
    pub duration_seconds: f64,
    /// Trains that went into the value.
    pub trains: u32,
    /// Trains that did not.
    pub trains_rejected: u32,
    /// Trains that did not, by cause.
    pub trains_rejected_reasons: BTreeMap<String, u32>,
    /// What a reader of the value should know.
    pub warnings: Vec<String>,
}

impl DirectionReport {
    /// Of a method's outcome over this transport, without a capacity; `warnings` are the transport's, before the method's
    /// own.
    pub fn new(
        transport: Transport,
        connections: u32,
        method: &str,
        outcome: Outcome,
        cost: &Cost,
        mut warnings: Vec<String>,
    ) -> Self {
        warnings.extend(outcome.warnings);
        let rejected = &outcome.trains_rejected;
        DirectionReport {
            transport,
            method: method.to_owned(),
            connections,
            available_bits_per_second: outcome.available,
            reason: outcome.reason,
            spread_bits_per_second: outcome.spread.map(Rate::bits_per_second),
            capacity: None,
            packets_sent: cost.packets,
            bytes_sent: cost.bytes,
            duration_seconds: cost.duration.as_secs_f64(),
            trains: outcome.trains_used,
            trains_rejected: rejected.values().sum(),
            trains_rejected_reasons: rejected.iter().map(|(&why, &count)| (name(why), count)).collect(),
            warnings,
        }
    }
}

impl fmt::Display for DirectionReport {
    /// A plain-language verdict on one line: `94.3 Mbit/s available (95 %: 94.1 Mbit/s … 94.5 Mbit/s) — …`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.available_bits_per_second, &self.reason) {
            (Some(v), _) => {
                let Estimate { value, low, high, .. } = v;
                write!(f, "{value} available")?;
                match v.confidence {
                    confidence if confidence > 0.0 => write!(f, " ({}: {low} … {high})", Confidence(confidence))?,
                    // A range that promises nothing is still what the method found.
                    _ if v.low < v.high => write!(f, " ({low} … {high})")?,
                    _ => {}
                }
            }
            (None, Some(reason)) => write!(f, "no value: {reason}")?,
            (None, None) => f.write_str("no value")?,
        }
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

/// As `estimate` spells it for programs: `receiver-stalled`.
fn name(rejection: Rejection) -> String {
    match serde_json::to_value(rejection) {
        Ok(serde_json::Value::String(name)) => name,
        _ => rejection.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Span;

    fn outcome() -> Outcome {
        let [value, low, high] = [94_300_000, 94_100_000, 94_520_000].map(Rate::from_bits_per_second);
        Outcome {
            available: Some(Estimate { value, low, high, confidence: 0.95 }),
            reason: None,
            spread: Some(Rate::from_mbit(1)),
            capacity: None,
            trains_used: 7,
            trains_rejected: [(Rejection::ReceiverStalled, 2)].into(),
            warnings: vec!["from the method".into()],
        }
    }

    #[test]
    fn the_verdict_is_one_plain_line() {
        let cost = Cost { packets: 600, bytes: 812_345, duration: Span::from_millis(912) };
        let report = DirectionReport::new(Transport::Udp, 0, "primed", outcome(), &cost, vec!["first".into()]);
        let verdict =
            "94.3 Mbit/s available (95 %: 94.1 Mbit/s … 94.5 Mbit/s) — 7 trains (2 rejected), 812 kB, 0.9 s over udp";
        assert_eq!(report.to_string(), verdict);
        assert_eq!(report.warnings, ["first", "from the method"]);
        assert_eq!((report.trains, report.trains_rejected), (7, 2));
        assert_eq!(report.trains_rejected_reasons, [("receiver-stalled".to_owned(), 2)].into());
    }

    #[test]
    fn a_range_without_confidence_is_told_as_well() {
        let verdict = |confidence| {
            let available = outcome().available.map(|estimate| Estimate { confidence, ..estimate });
            let outcome = Outcome { available, ..outcome() };
            DirectionReport::new(Transport::Udp, 0, "pathload", outcome, &Cost::default(), vec![]).to_string()
        };
        assert!(verdict(0.0).starts_with("94.3 Mbit/s available (94.1 Mbit/s … 94.5 Mbit/s) — "), "{}", verdict(0.0));
        assert!(verdict(0.9973).starts_with("94.3 Mbit/s available (99.7 %: 94.1 Mbit/s … "), "{}", verdict(0.9973));
    }

    #[test]
    fn where_there_is_no_value_the_reason_stands_in_its_place() {
        let outcome = Outcome { available: None, reason: Some("all trains were disturbed".into()), ..outcome() };
        let report = DirectionReport::new(Transport::Rake, 60, "primed", outcome, &Cost::default(), vec![]);
        let verdict =
            "no value: all trains were disturbed — 7 trains (2 rejected), 0 B, 0.0 s over rake (60 TCP connections)";
        assert_eq!(report.to_string(), verdict);
    }
}
