//! The document `kumade.measure/1`, on which other programs may rely. Its JSON Schema is `schemas/kumade.measure.1.json`.

mod capacity;
mod delay;
mod stream;

pub use capacity::{CapacityReport, ShaperReport};
pub use delay::{ClockReport, DelayFigures, DelayReport, PacketReport, StepReport};
pub use stream::StreamLine;

use estimate::{Outcome, Rejection};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use train::Estimate;
use units::{Rate, Span};
use wire::TransportKind;

/// The name of the document's schema.
pub const SCHEMA: &str = "kumade.measure/1";

/// What a measurement came to. Rates count IP-layer bits (RFC 5136).
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Report {
    /// `kumade.measure/1`.
    pub schema: String,
    /// The far end: address and port.
    pub peer: String,
    /// When the measurement began, UTC, RFC 3339.
    pub started: String,
    /// From here to the peer; null if not asked for.
    pub up: Option<DirectionReport>,
    /// From the peer to here; null if not asked for.
    pub down: Option<DirectionReport>,
    /// How far it is; null if not asked for.
    pub delay: Option<DelayReport>,
}

/// What the measurement of one direction came to.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
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

/// What carries a train's packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// UDP datagrams.
    Udp,
    /// Many TCP connections.
    Rake,
    /// One TCP connection.
    Single,
}

/// What one direction cost, as counted by whoever carried its trains.
#[derive(Debug, Clone, Default)]
pub struct Cost {
    /// IP packets of trains.
    pub packets: u64,
    /// IP bytes of trains.
    pub bytes: u64,
    /// From the first request to the result.
    pub duration: Span,
}

impl DirectionReport {
    /// Of a method's outcome over this transport, without a capacity; `warnings` are the transport's, before the method's
    /// own.
    pub fn new(
        transport: TransportKind,
        connections: u32,
        method: &str,
        outcome: Outcome,
        cost: &Cost,
        mut warnings: Vec<String>,
    ) -> Self {
        warnings.extend(outcome.warnings);
        let rejected = &outcome.trains_rejected;
        DirectionReport {
            transport: transport.into(),
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

impl Report {
    /// Whether at least one direction has a value; of a report of delays alone, whether it has any.
    pub fn has_value(&self) -> bool {
        let has_rate = |direction: &DirectionReport| direction.available_bits_per_second.is_some();
        match (&self.up, &self.down, &self.delay) {
            (None, None, Some(delay)) => delay.has_value(),
            (up, down, _) => [up, down].into_iter().flatten().any(has_rate),
        }
    }

    /// The JSON Schema of this document, as published.
    pub fn json_schema() -> serde_json::Value {
        published::<Report>(SCHEMA)
    }
}

/// The JSON Schema of documents of this type, under this name.
fn published<T: JsonSchema>(name: &str) -> serde_json::Value {
    let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let mut schema = generator.into_root_schema_for::<T>();
    schema.insert("$id".to_owned(), name.into());
    schema.to_value()
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

impl From<TransportKind> for Transport {
    fn from(kind: TransportKind) -> Self {
        match kind {
            TransportKind::Udp => Transport::Udp,
            TransportKind::Rake => Transport::Rake,
            TransportKind::Single => Transport::Single,
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

/// `95 %`; `99.7 %` rather than a hundred.
struct Confidence(f64);

impl fmt::Display for Confidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = self.0 * 100.0;
        if (99.5..100.0).contains(&percent) { write!(f, "{percent:.1} %") } else { write!(f, "{percent:.0} %") }
    }
}

/// A number of bytes with the unit that leaves one to three digits before the point.
struct Bytes(u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes @ 0..1_000 => write!(f, "{bytes} B"),
            bytes @ 1_000..1_000_000 => write!(f, "{:.0} kB", bytes as f64 / 1e3),
            bytes => write!(f, "{:.1} MB", bytes as f64 / 1e6),
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
        let report = DirectionReport::new(TransportKind::Udp, 0, "primed", outcome(), &cost, vec!["first".into()]);
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
            DirectionReport::new(TransportKind::Udp, 0, "pathload", outcome, &Cost::default(), vec![]).to_string()
        };
        assert!(verdict(0.0).starts_with("94.3 Mbit/s available (94.1 Mbit/s … 94.5 Mbit/s) — "), "{}", verdict(0.0));
        assert!(verdict(0.9973).starts_with("94.3 Mbit/s available (99.7 %: 94.1 Mbit/s … "), "{}", verdict(0.9973));
    }

    #[test]
    fn where_there_is_no_value_the_reason_stands_in_its_place() {
        let outcome = Outcome { available: None, reason: Some("all trains were disturbed".into()), ..outcome() };
        let report = DirectionReport::new(TransportKind::Rake, 60, "primed", outcome, &Cost::default(), vec![]);
        let verdict =
            "no value: all trains were disturbed — 7 trains (2 rejected), 0 B, 0.0 s over rake (60 TCP connections)";
        assert_eq!(report.to_string(), verdict);
    }
}
