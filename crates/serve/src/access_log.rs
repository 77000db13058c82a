//! What is told of measurements and of refused keys: lines of the log, and of JSON in a file.

use kumade_daemon::{Network, NetworkBudgets};
use kumade_net::clock;
use kumade_noise_session::ToldRefusals;
use kumade_probe_train::Transport;
use kumade_units::{Direction, Span, Time};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Each measurement that is told of costs its network so much of its budget, which is one a second,
const LINE_COST: Span = Span::from_secs(1);
/// and this at once: more than are measured in earnest, and less than fills a log.
const LINE_BURST: Span = Span::from_secs(120);

/// A line of the file.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AccessRecord {
    /// Names this format.
    #[schemars(extend("const" = AccessRecord::SCHEMA))]
    pub schema: String,
    /// When it was written: RFC 3339, UTC.
    #[schemars(extend("format" = "date-time"))]
    pub time: String,
    /// What has happened.
    #[serde(flatten)]
    pub event: AccessEvent,
}

/// What has happened.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum AccessEvent {
    /// A measurement has ended, or was refused.
    Measurement(MeasurementRecord),
    /// Somebody without a valid key was refused.
    KeyRefused(KeyRefusal),
}

/// A measurement.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MeasurementRecord {
    /// The client's name; none where it has no key of its own.
    pub client: Option<String>,
    /// The client's address and port.
    pub address: String,
    /// What has carried trains.
    pub transports: BTreeSet<Transport>,
    /// The directions of trains, and of what filled the path; `up` is to this server.
    pub directions: BTreeSet<Direction>,
    /// Whether TCP transfers have filled the path.
    pub load: bool,
    /// IP bytes of trains that arrived, and payload bytes of TCP transfers.
    pub received_bytes: u64,
    /// The same for those that were sent.
    pub sent_bytes: u64,
    /// From the beginning of the turn to its end; zero where there was no turn.
    pub duration_seconds: f64,
    /// How it ended.
    pub result: MeasurementResult,
    /// Why it was refused, or has failed.
    pub reason: Option<String>,
    /// How many measurements of the client's network ended before without a line, since there were too many.
    pub unlogged_before: u64,
}

/// How a measurement has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MeasurementResult {
    /// The client has ended it.
    Complete,
    /// The client has left in the middle of it.
    Abandoned,
    /// The server has refused it, or what was asked for in it.
    Refused,
    /// The connection to the client has failed.
    Failed,
}

/// A client without a valid key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct KeyRefusal {
    /// The client's address.
    pub address: String,
    /// Which key it had.
    pub key: RefusedKey,
    /// How many were refused before without a line, since there were too many, or they came from an address of which a line has
    /// told within ten minutes.
    pub unlogged_before: u64,
}

/// Which key a client had that was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RefusedKey {
    /// None.
    Missing,
    /// One that this server does not have.
    Unknown,
}

/// Tells of measurements and of refused keys, a bounded number of each.
#[derive(Debug)]
pub(super) struct AccessLog {
    file: Option<Arc<File>>,
    has_failed: AtomicBool,
    told: Mutex<ToldEvents>,
}

#[derive(Debug)]
struct ToldEvents {
    lines: NetworkBudgets,
    unlogged_measurements: u64,
    refused_keys: ToldRefusals<IpAddr>,
}

impl AccessRecord {
    /// Names the format of these lines.
    pub const SCHEMA: &str = "kumade.access/1";

    /// The JSON Schema of such lines.
    pub fn json_schema() -> serde_json::Value {
        schemars::schema_for!(AccessRecord).to_value()
    }
}

impl MeasurementRecord {
    /// Of a client of which nothing has been carried yet.
    pub(super) fn new(client: Option<&str>, address: SocketAddr) -> Self {
        MeasurementRecord {
            client: client.map(str::to_owned),
            address: address.to_string(),
            transports: BTreeSet::new(),
            directions: BTreeSet::new(),
            load: false,
            received_bytes: 0,
            sent_bytes: 0,
            duration_seconds: 0.0,
            result: MeasurementResult::Complete,
            reason: None,
            unlogged_before: 0,
        }
    }
}

impl AccessLog {
    pub(super) fn new(file: Option<Arc<File>>) -> Self {
        let told = ToldEvents {
            lines: NetworkBudgets::new(LINE_BURST),
            unlogged_measurements: 0,
            refused_keys: ToldRefusals::new(),
        };
        AccessLog { file, has_failed: AtomicBool::new(false), told: Mutex::new(told) }
    }

    /// Tells of a measurement of a client in this network.
    pub(super) fn record_measurement(&self, network: Network, mut record: MeasurementRecord) {
        let Some(unlogged) = self.lock(|told| told.admit_measurement(network, clock::monotonic())) else { return };
        record.unlogged_before = unlogged;
        tracing::info!("{record}");
        self.write(AccessEvent::Measurement(record));
    }

    /// Tells of a client without a valid key.
    pub(super) fn record_refused_key(&self, address: IpAddr, key: RefusedKey) {
        let Some(unlogged_before) = self.lock(|told| told.refused_keys.record(address, clock::monotonic())) else {
            return;
        };
        let refusal = KeyRefusal { address: address.to_string(), key, unlogged_before };
        tracing::warn!("{refusal}");
        self.write(AccessEvent::KeyRefused(refusal));
    }

    fn write(&self, event: AccessEvent) {
        let Some(file) = &self.file else { return };
        let time = jiff::Timestamp::from_nanosecond(clock::realtime().as_nanos().into()).unwrap_or_default();
        let record = AccessRecord { schema: AccessRecord::SCHEMA.to_owned(), time: format!("{time:.3}"), event };
        let written = serde_json::to_vec(&record).map_err(io::Error::other).and_then(|mut line| {
            line.push(b'\n');
            // With one call, so that lines of several threads stay whole.
            (&**file).write_all(&line)
        });
        let has_failed = written.is_err();
        if let Err(error) = written
            && !self.has_failed.load(Ordering::Relaxed)
        {
            tracing::warn!("cannot write to the access log: {error}");
        }
        self.has_failed.store(has_failed, Ordering::Relaxed);
    }

    fn lock<T>(&self, use_told: impl FnOnce(&mut ToldEvents) -> T) -> T {
        // Every change under this lock is consistent even if its thread panics.
        use_told(&mut self.told.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ToldEvents {
    /// If a measurement is to be told of: how many were not before.
    fn admit_measurement(&mut self, network: Network, now: Time) -> Option<u64> {
        if self.lines.is_spent(network, now) {
            self.unlogged_measurements = self.unlogged_measurements.saturating_add(1);
            return None;
        }
        self.lines.charge(network, LINE_COST, now);
        Some(std::mem::take(&mut self.unlogged_measurements))
    }
}

impl fmt::Display for MeasurementRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.address)?;
        if let Some(client) = &self.client {
            write!(f, " ({client})")?;
        }
        let result = match self.result {
            MeasurementResult::Complete => "complete",
            MeasurementResult::Abandoned => "abandoned by the client",
            MeasurementResult::Refused => "refused",
            MeasurementResult::Failed => "failed",
        };
        write!(f, ": measurement {result}")?;
        if let Some(reason) = &self.reason {
            write!(f, ": {reason}")?;
        }
        let load = self.load.then(|| "load".to_owned());
        let carriers: Vec<_> = self.transports.iter().map(ToString::to_string).chain(load).collect();
        if !carriers.is_empty() {
            let directions: Vec<_> = self.directions.iter().map(ToString::to_string).collect();
            write!(
                f,
                " ({} by {}; {} bytes received, {} sent; {:.1} s)",
                directions.join(" and "),
                carriers.join(" and "),
                self.received_bytes,
                self.sent_bytes,
                self.duration_seconds
            )?;
        }
        write_unlogged(f, self.unlogged_before, "measurements before have no line")
    }
}

impl fmt::Display for KeyRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = match self.key {
            RefusedKey::Missing => "it has no key, which this server requires",
            RefusedKey::Unknown => "its key is not one of this server's",
        };
        write!(f, "refused a client from {}: {key}", self.address)?;
        write_unlogged(f, self.unlogged_before, "more were refused before")
    }
}

fn write_unlogged(f: &mut fmt::Formatter<'_>, count: u64, words: &str) -> fmt::Result {
    if count == 0 { Ok(()) } else { write!(f, " ({count} {words})") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn a_line_says_who_what_how_much_and_how_it_ended() {
        let mut record = MeasurementRecord::new(Some("campus"), "192.0.2.1:40000".parse().unwrap());
        record.transports = [Transport::Udp, Transport::Rake].into();
        record.directions = Direction::BOTH.into();
        (record.received_bytes, record.sent_bytes, record.duration_seconds) = (12, 34, 5.67);
        assert_eq!(
            record.to_string(),
            "192.0.2.1:40000 (campus): measurement complete (up and down by udp and rake; 12 bytes received, 34 sent; 5.7 s)"
        );
        let mut refused = MeasurementRecord::new(None, "192.0.2.1:40000".parse().unwrap());
        (refused.result, refused.reason) = (MeasurementResult::Refused, Some("too much".to_owned()));
        refused.unlogged_before = 3;
        assert_eq!(
            refused.to_string(),
            "192.0.2.1:40000: measurement refused: too much (3 measurements before have no line)"
        );
        let refusal = KeyRefusal { address: "192.0.2.7".to_owned(), key: RefusedKey::Unknown, unlogged_before: 2 };
        assert_eq!(
            refusal.to_string(),
            "refused a client from 192.0.2.7: its key is not one of this server's (2 more were refused before)"
        );
    }

    #[test]
    fn a_network_cannot_fill_the_log() {
        let mut told = ToldEvents {
            lines: NetworkBudgets::new(LINE_BURST),
            unlogged_measurements: 0,
            refused_keys: ToldRefusals::new(),
        };
        let [busy, quiet] = [1, 2].map(|third| Network::containing(Ipv4Addr::new(192, 0, third, 1).into()));
        let lines = (0..100_000).filter(|_| told.admit_measurement(busy, Time::ZERO).is_some()).count();
        assert!((120..=122).contains(&lines), "{lines}");
        assert_eq!(told.admit_measurement(quiet, Time::ZERO), Some(100_000 - lines as u64));
        assert_eq!(told.admit_measurement(busy, Time::ZERO + Span::from_secs(2)), Some(0));
    }
}
