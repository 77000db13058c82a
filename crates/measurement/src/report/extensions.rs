//! What a STAMP reflector says in the optional extensions of RFC 8972.

use kumade_packet::Ecn;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What a STAMP reflector says in the optional extensions of RFC 8972. Each value is null if it was not asked for, or no answer has it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ExtensionsReport {
    /// What was asked for and no answer has, by the names of IANA's registry: the reflector does not know these extensions.
    pub unanswered: Vec<String>,
    /// Answers whose extensions were not used, since they, or those of the test packet as the reflector got them, were not authentic
    /// (HMAC TLV, RFC 8972, 4.8).
    pub not_authentic: u32,
    /// What became of DSCP and ECN in each direction (Class of Service, 4.4).
    pub class_of_service: Option<ClassOfServiceReport>,
    /// How the reflector's clock is set and read (Timestamp Information, 4.3).
    pub timestamps: Option<TimestampsReport>,
    /// Between which addresses the last answered test packet came, as the reflector saw it (Location, 4.2).
    pub location: Option<LocationReport>,
    /// What both ends counted between the first and the last answered test packet (Direct Measurement, 4.5).
    pub counters: Option<CountersReport>,
    /// By how much answers left later than their own time stamps say, the median (Follow-Up Telemetry, 4.7).
    pub reply_lateness_seconds: Option<f64>,
}

/// What became of DSCP (RFC 2474) and ECN (RFC 3168) in each direction.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ClassOfServiceReport {
    /// Test packets that arrived at the reflector and whose answers came back, most frequent first.
    pub up: Vec<ClassOfServiceCount>,
    /// Their answers, most frequent first.
    pub down: Vec<ClassOfServiceCount>,
    /// Answers that did not leave with the DSCP that was asked for, since the reflector's policy does not permit it.
    pub refused: u32,
}

/// Packets that were sent alike and arrived alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct ClassOfServiceCount {
    /// How many.
    pub packets: u32,
    /// DSCP with which they were sent; null if the reflector does not say.
    pub sent_dscp: Option<u8>,
    /// ECN codepoint with which they were sent; null if the reflector does not say.
    pub sent_ecn: Option<EcnCodepoint>,
    /// DSCP with which they arrived.
    pub arrived_dscp: u8,
    /// ECN codepoint with which they arrived.
    pub arrived_ecn: EcnCodepoint,
}

/// A codepoint of the ECN field (RFC 3168).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EcnCodepoint {
    /// Not ECN-capable transport.
    NotEct,
    /// ECN-capable transport, ECT(0).
    Ect0,
    /// ECN-capable transport, ECT(1): L4S (RFC 9331).
    Ect1,
    /// Congestion experienced.
    Ce,
}

/// How a reflector's clock is set and read. Each is null if the reflector does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TimestampsReport {
    /// What the clock is set by of which arrivals have their time stamps.
    pub source_in: Option<SynchronisationSource>,
    /// How it is read when a test packet arrives.
    pub method_in: Option<TimestampMethod>,
    /// What the clock is set by of which departures have their time stamps.
    pub source_out: Option<SynchronisationSource>,
    /// How it is read when an answer leaves.
    pub method_out: Option<TimestampMethod>,
}

/// What a clock is set by (RFC 8972, 5.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SynchronisationSource {
    /// NTP.
    Ntp,
    /// PTP.
    Ptp,
    /// A synchronisation supply unit (SSU/BITS).
    Ssu,
    /// A navigation system: GPS, GLONASS, LORAN-C, BDS, Galileo.
    Navigation,
    /// Nothing: the clock runs freely.
    Local,
}

/// How a time stamp is taken (RFC 8972, 5.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TimestampMethod {
    /// By hardware, or with its help.
    Hardware,
    /// By software on the same unit.
    Software,
    /// By a control plane.
    ControlPlane,
}

/// Between which addresses test packets came, as a reflector saw it. Each is null if the reflector does not say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LocationReport {
    /// The sender's address: another than this host's own if an address translator is between.
    pub source_address: Option<String>,
    /// The sender's port.
    pub source_port: Option<u16>,
    /// The reflector's address.
    pub destination_address: Option<String>,
    /// The reflector's port.
    pub destination_port: Option<u16>,
}

/// What both ends counted between two test packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CountersReport {
    /// Test packets that this host sent.
    pub sent: u32,
    /// Test packets that the reflector received.
    pub received: u32,
    /// Answers that the reflector sent.
    pub answered: u32,
}

impl fmt::Display for EcnCodepoint {
    /// As RFC 3168 writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ecn::from(*self).fmt(f)
    }
}

impl From<Ecn> for EcnCodepoint {
    fn from(ecn: Ecn) -> Self {
        match ecn {
            Ecn::NotEct => EcnCodepoint::NotEct,
            Ecn::Ect0 => EcnCodepoint::Ect0,
            Ecn::Ect1 => EcnCodepoint::Ect1,
            Ecn::Ce => EcnCodepoint::Ce,
        }
    }
}

impl From<EcnCodepoint> for Ecn {
    fn from(codepoint: EcnCodepoint) -> Self {
        match codepoint {
            EcnCodepoint::NotEct => Ecn::NotEct,
            EcnCodepoint::Ect0 => Ecn::Ect0,
            EcnCodepoint::Ect1 => Ecn::Ect1,
            EcnCodepoint::Ce => Ecn::Ce,
        }
    }
}

impl fmt::Display for SynchronisationSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SynchronisationSource::Ntp => "set by NTP",
            SynchronisationSource::Ptp => "set by PTP",
            SynchronisationSource::Ssu => "set by a synchronisation supply unit",
            SynchronisationSource::Navigation => "set by a navigation system",
            SynchronisationSource::Local => "free-running",
        })
    }
}

impl fmt::Display for TimestampMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TimestampMethod::Hardware => "hardware",
            TimestampMethod::Software => "software",
            TimestampMethod::ControlPlane => "a control plane",
        })
    }
}

impl ClassOfServiceCount {
    fn sent(&self) -> String {
        let dscp = self.sent_dscp.map_or_else(|| "?".to_owned(), |dscp| dscp.to_string());
        let ecn = self.sent_ecn.map_or_else(|| "ECN unknown".to_owned(), |ecn| ecn.to_string());
        format!("DSCP {dscp}, {ecn}")
    }

    fn arrived(&self) -> String {
        format!("DSCP {}, {}", self.arrived_dscp, self.arrived_ecn)
    }
}

/// Kinds of packets of one direction that are listed; of a path that changes each packet, more say nothing.
const MAX_LISTED_COUNTS: usize = 3;

/// `DSCP 46, ECT(0) → DSCP 0, ECT(0) (180 of 200)`, most frequent first.
fn describe_counts(counts: &[ClassOfServiceCount]) -> String {
    let all: u32 = counts.iter().map(|count| count.packets).sum();
    let describe =
        |count: &ClassOfServiceCount| format!("{} → {} ({} of {all})", count.sent(), count.arrived(), count.packets);
    let mut parts: Vec<_> = counts.iter().take(MAX_LISTED_COUNTS).map(describe).collect();
    if counts.len() > MAX_LISTED_COUNTS {
        parts.push("others".to_owned());
    }
    parts.join("; ")
}

impl fmt::Display for TimestampsReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = |source: Option<SynchronisationSource>, method: Option<TimestampMethod>| {
            let source = source.map_or_else(|| "unknown".to_owned(), |source| source.to_string());
            let method = method.map_or_else(|| "in an unknown way".to_owned(), |method| format!("by {method}"));
            format!("clock {source}, read {method}")
        };
        let (arrivals, departures) = (way(self.source_in, self.method_in), way(self.source_out, self.method_out));
        match arrivals == departures {
            true => f.write_str(&arrivals),
            false => write!(f, "of arrivals {arrivals}; of departures {departures}"),
        }
    }
}

impl fmt::Display for LocationReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.source_address.is_none() && self.destination_address.is_none() {
            return f.write_str("it does not tell addresses");
        }
        let end = |address: &Option<String>, port: Option<u16>| {
            let address = address.as_deref().unwrap_or("an unknown address");
            port.map_or_else(|| address.to_owned(), |port| format!("{address} port {port}"))
        };
        let source = end(&self.source_address, self.source_port);
        write!(f, "from {source} to {}", end(&self.destination_address, self.destination_port))
    }
}

impl fmt::Display for ExtensionsReport {
    /// One line for each value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines: Vec<String> = Vec::new();
        if let Some(class) = &self.class_of_service {
            let ways = [("up", &class.up), ("down", &class.down)];
            lines.extend(
                ways.iter().map(|(way, counts)| format!("class of service {way}: {}", describe_counts(counts))),
            );
            if class.refused > 0 {
                lines.push(format!("the reflector's policy refused the DSCP for {} answers", class.refused));
            }
        }
        lines.extend(self.location.iter().map(|location| format!("seen by the reflector: {location}")));
        lines.extend(self.timestamps.iter().map(|timestamps| format!("reflector's time stamps: {timestamps}")));
        lines.extend(self.counters.iter().map(|CountersReport { sent, received, answered }| {
            format!("counted by the ends: {sent} sent, {received} received, {answered} answered")
        }));
        if let Some(lateness) = self.reply_lateness_seconds {
            lines.push(format!("answers left {:.1} µs after their time stamps", lateness * 1e6));
        }
        if !self.unanswered.is_empty() {
            lines.push(format!("the reflector does not answer: {}", self.unanswered.join(", ")));
        }
        if self.not_authentic > 0 {
            lines.push(format!("extensions of {} answers were not authentic", self.not_authentic));
        }
        f.write_str(&lines.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_has_its_line() {
        let count = |packets, arrived_dscp, sent_ecn| ClassOfServiceCount {
            packets,
            sent_dscp: Some(46),
            sent_ecn,
            arrived_dscp,
            arrived_ecn: EcnCodepoint::Ect0,
        };
        let up = vec![count(180, 0, Some(EcnCodepoint::Ect0)), count(20, 46, Some(EcnCodepoint::Ect0))];
        let down = (0..4).map(|dscp| count(50, dscp, None)).collect();
        let report = ExtensionsReport {
            unanswered: vec!["Follow-Up Telemetry".to_owned()],
            not_authentic: 0,
            class_of_service: Some(ClassOfServiceReport { up, down, refused: 3 }),
            timestamps: Some(TimestampsReport {
                source_in: Some(SynchronisationSource::Ptp),
                method_in: Some(TimestampMethod::Hardware),
                source_out: None,
                method_out: None,
            }),
            location: Some(LocationReport {
                source_address: Some("203.0.113.7".to_owned()),
                source_port: Some(40312),
                destination_address: None,
                destination_port: Some(862),
            }),
            counters: Some(CountersReport { sent: 200, received: 199, answered: 198 }),
            reply_lateness_seconds: Some(12.34e-6),
        };
        let expected = "\
class of service up: DSCP 46, ECT(0) → DSCP 0, ECT(0) (180 of 200); DSCP 46, ECT(0) → DSCP 46, ECT(0) (20 of 200)
class of service down: DSCP 46, ECN unknown → DSCP 0, ECT(0) (50 of 200); DSCP 46, ECN unknown → DSCP 1, ECT(0) (50 of 200); \
DSCP 46, ECN unknown → DSCP 2, ECT(0) (50 of 200); others
the reflector's policy refused the DSCP for 3 answers
seen by the reflector: from 203.0.113.7 port 40312 to an unknown address port 862
reflector's time stamps: of arrivals clock set by PTP, read by hardware; of departures clock unknown, read in an unknown way
counted by the ends: 200 sent, 199 received, 198 answered
answers left 12.3 µs after their time stamps
the reflector does not answer: Follow-Up Telemetry";
        assert_eq!(report.to_string(), expected);
        assert_eq!(ExtensionsReport::default().to_string(), "");
        let withheld = LocationReport { source_address: None, destination_port: None, ..report.location.unwrap() };
        assert_eq!(withheld.to_string(), "it does not tell addresses");
    }
}
