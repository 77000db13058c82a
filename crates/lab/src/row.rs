use crate::scenario::{Method, Point, Scenario, Transport};
use measure::report::DirectionReport;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What one run of one measurement came to, beside the truth. Rates count IP-layer bits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// The bottleneck's capacity in the direction that was measured.
    pub bottleneck_bits_per_second: u64,
    /// Mean rate that the cross traffic was set to; the most that it was allowed to send if it was TCP.
    pub cross_bits_per_second: u64,
    /// How its packets follow each other.
    #[schemars(extend("enum" = ["constant", "poisson", "on-off", "tcp"]))]
    pub cross_kind: String,
    /// What carried the trains.
    #[schemars(extend("enum" = ["auto", "udp", "rake", "single"]))]
    pub transport: String,
    /// The estimator.
    #[schemars(extend("enum" = ["primed", "linear-scan", "pathtester", "pathtester-classic", "pathload", "pathchirp"]))]
    pub method: String,
    /// The last exponent that `pathtester-classic` was to scan; null for all other methods.
    pub last_iunit: Option<u32>,
    /// Which way the trains went, seen from the host that measured.
    #[schemars(extend("enum" = ["up", "down"]))]
    pub direction: String,
    /// Counted from 1 for each combination of the fields above.
    #[schemars(range(min = 1))]
    pub run: u32,
    /// The bottleneck's capacity less the cross traffic that reached it while the trains were under way.
    pub truth_bits_per_second: u64,
    /// The estimate; null where the path could not be measured.
    pub available_bits_per_second: Option<Interval>,
    /// Why there is no estimate; null where there is one.
    pub reason: Option<String>,
    /// Estimate less truth; null where there is no estimate.
    pub error_bits_per_second: Option<i64>,
    /// Standard deviation of the available bandwidth between trains; null where the method does not tell.
    pub spread_bits_per_second: Option<u64>,
    /// TCP connections that carried trains.
    pub connections: u32,
    /// IP packets of trains.
    pub packets_sent: u64,
    /// IP bytes of trains.
    pub bytes_sent: u64,
    /// From the first request to the result.
    #[schemars(range(min = 0))]
    pub duration_seconds: f64,
    /// The whole measurement with both directions, capacity and delay, where it measured all that; else null.
    #[schemars(range(min = 0))]
    pub whole_seconds: Option<f64>,
    /// The bottleneck's capacity, where it was measured and found; else null.
    pub capacity_bits_per_second: Option<u64>,
    /// Trains that were sent.
    pub trains: u32,
    /// Trains that were not used.
    pub trains_rejected: u32,
    /// Runs that were thrown away and repeated before this one, because the machine stalled in them.
    pub stalled_repeats: u32,
    /// Whether the machine stalled in this run too, and no repetition was left.
    pub stalled: bool,
    /// The longest that the emulated link was late while the trains were under way; null where the kernel shapes.
    pub worst_lateness_seconds: Option<f64>,
    /// What the measurement warned of.
    pub warnings: Vec<String>,
    /// When each packet of the first train left and came, where the experiment shows it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timeline: Vec<TimelinePacket>,
}

/// A value with the interval that is said to hold the truth.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Interval {
    /// The best single figure.
    pub value: u64,
    /// Lower end.
    pub low: u64,
    /// Upper end.
    pub high: u64,
    /// In how many of many measurements the interval is said to hold the truth, from 0 to 1; 0 where the method
    /// promises nothing.
    #[schemars(range(min = 0, max = 1))]
    pub confidence: f64,
}

/// One packet of a train. Times count from the sending of the train's first packet; both hosts share one clock.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TimelinePacket {
    /// Bytes of the IP packet.
    pub size_bytes: u32,
    /// When it should have left.
    pub planned_seconds: f64,
    /// When it left; null where no stamp tells.
    pub sent_seconds: Option<f64>,
    /// When it came; null where no stamp tells.
    pub received_seconds: Option<f64>,
}

impl Row {
    /// A row for `point` without anything measured yet.
    pub fn new(scenario: &Scenario, point: &Point) -> Self {
        Row {
            bottleneck_bits_per_second: scenario.bottleneck.rate_of(point.direction).bits_per_second(),
            cross_bits_per_second: point.cross.bits_per_second(),
            cross_kind: scenario.cross.kind.word().to_owned(),
            transport: point.transport.word().to_owned(),
            method: point.method.word().to_owned(),
            last_iunit: (point.method == Method::PathTesterClassic).then_some(scenario.last_iunit),
            direction: point.direction.word().to_owned(),
            run: point.run,
            truth_bits_per_second: 0,
            available_bits_per_second: None,
            reason: None,
            error_bits_per_second: None,
            spread_bits_per_second: None,
            connections: 0,
            packets_sent: 0,
            bytes_sent: 0,
            duration_seconds: 0.0,
            whole_seconds: None,
            capacity_bits_per_second: None,
            trains: 0,
            trains_rejected: 0,
            stalled_repeats: 0,
            stalled: false,
            worst_lateness_seconds: None,
            warnings: Vec::new(),
            timeline: Vec::new(),
        }
    }

    /// Takes over what a measurement reports of the direction.
    pub(crate) fn fill(&mut self, measured: DirectionReport) {
        if let Some(value) = measured.available_bits_per_second {
            let measure::report::Value { value, low, high, confidence } = value;
            self.set_estimate(Interval { value, low, high, confidence });
        }
        self.transport = carrier(measured.transport).word().to_owned();
        self.method = measured.method;
        self.reason = measured.reason;
        let capacity = measured.capacity.and_then(|capacity| capacity.bottleneck_bits_per_second);
        self.capacity_bits_per_second = capacity.map(|capacity| capacity.value);
        self.spread_bits_per_second = measured.spread_bits_per_second;
        self.connections = measured.connections;
        self.packets_sent = measured.packets_sent;
        self.bytes_sent = measured.bytes_sent;
        self.duration_seconds = measured.duration_seconds;
        self.trains = measured.trains + measured.trains_rejected;
        self.trains_rejected = measured.trains_rejected;
        self.warnings = measured.warnings;
    }

    /// Sets the estimate, and with it the error against the truth that is already set.
    pub fn set_estimate(&mut self, estimate: Interval) {
        self.available_bits_per_second = Some(estimate);
        self.error_bits_per_second = Some(estimate.value as i64 - self.truth_bits_per_second as i64);
    }

    /// The estimator with what tells it from others of its kind: a range of waits that is not the usual one.
    pub fn estimator(&self) -> String {
        match self.last_iunit {
            Some(last) if last != crate::scenario::shortest_range() => format!("{} 0–{last}", self.method),
            _ => self.method.clone(),
        }
    }

    /// |estimate − truth| as a part of the bottleneck's rate; none without an estimate.
    pub fn error_of_rate(&self) -> Option<f64> {
        Some(self.error_bits_per_second?.abs() as f64 / self.bottleneck_bits_per_second as f64)
    }

    /// Whether the interval holds this run's truth; none without an interval that promises to.
    pub fn holds_truth(&self) -> Option<bool> {
        let promised = self.available_bits_per_second.filter(|interval| interval.confidence > 0.0)?;
        Some((promised.low..=promised.high).contains(&self.truth_bits_per_second))
    }
}

/// What carried the trains in the end: where the choice was left open, the row says what was chosen.
fn carrier(transport: measure::report::Transport) -> Transport {
    match transport {
        measure::report::Transport::Udp => Transport::Udp,
        measure::report::Transport::Rake => Transport::Rake,
        measure::report::Transport::Single => Transport::Single,
    }
}

/// Rows as tests make them.
#[cfg(test)]
pub(crate) mod samples {
    use super::*;
    use crate::scenario::{Direction, Method, Transport};
    use units::Rate;

    /// A measured run: cross traffic and error in Mbit/s on a bottleneck of 100 Mbit/s.
    pub(crate) fn measured(transport: Transport, method: Method, cross: u64, run: u32, error: f64) -> Row {
        let point = Point { cross: Rate::from_mbit(cross), transport, method, direction: Direction::Up, run };
        let scenario = crate::load("rake-accuracy").unwrap().measurement().unwrap();
        let mut row = Row::new(&scenario, &point);
        row.truth_bits_per_second = (100 - cross) * 1_000_000;
        let value = (row.truth_bits_per_second as f64 + error * 1e6) as u64;
        row.set_estimate(Interval {
            value,
            low: value.saturating_sub(500_000),
            high: value + 500_000,
            confidence: if method == Method::Primed { 0.95 } else { 0.0 },
        });
        row.spread_bits_per_second = Some(120_000);
        (row.connections, row.packets_sent, row.bytes_sent, row.duration_seconds) = (120, 960, 640_000, 0.9);
        (row.trains, row.trains_rejected, row.worst_lateness_seconds) = (8, 1, Some(0.000_04));
        row
    }

    /// A run without an estimate.
    pub(crate) fn failed(transport: Transport, method: Method, cross: u64, run: u32, reason: &str) -> Row {
        let mut row = measured(transport, method, cross, run, 0.0);
        (row.available_bits_per_second, row.error_bits_per_second) = (None, None);
        row.reason = Some(reason.to_owned());
        (row.packets_sent, row.bytes_sent, row.trains, row.trains_rejected) = (0, 0, 0, 0);
        row
    }
}
