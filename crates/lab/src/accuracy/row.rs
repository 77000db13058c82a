use crate::accuracy::keywords::{CrossKind, Transport};
use crate::accuracy::plan;
use crate::accuracy::scenario::{AccuracyPoint, AccuracyScenario};
use kumade_measurement::Report;
use kumade_measurement::report::{CapacityReport, DelayFigures, DirectionReport, ShaperReport};
use kumade_probe_train::Estimate;
use kumade_units::{Direction, Rate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The result of one run of one measurement, beside the truth. Rates count IP-layer bits (RFC 5136).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// The bottleneck's capacity in the direction that was measured; of a token bucket, the sustained rate.
    pub bottleneck_bits_per_second: u64,
    /// The token bucket's size; null where the bottleneck is none.
    pub burst_bytes: Option<u64>,
    /// The rate at which a burst passes it.
    pub peak_bits_per_second: Option<u64>,
    /// The rate of a link behind the bottleneck; null where there is none.
    pub downstream_bits_per_second: Option<u64>,
    /// Mean rate of the cross traffic on it.
    pub downstream_cross_bits_per_second: Option<u64>,
    /// How its packets follow each other.
    pub downstream_cross_kind: Option<CrossKind>,
    /// Mean rate that the cross traffic was set to; of TCP, the maximum that it was allowed to send.
    pub cross_bits_per_second: u64,
    /// How its packets follow each other.
    pub cross_kind: CrossKind,
    /// What carried the trains; `auto` only where nothing did.
    pub transport: Transport,
    /// The estimator with the parameters that differ from their defaults, as the command line writes it.
    pub method: String,
    /// The direction of the trains, seen from the host that measured.
    pub direction: Direction,
    /// Counted from 1 for each combination of the fields above.
    #[schemars(range(min = 1))]
    pub run: u32,
    /// The bottleneck's capacity less the cross traffic that reached it while trains were being sent.
    pub truth_bits_per_second: u64,
    /// The estimate; null where the path could not be measured.
    pub available_bits_per_second: Option<Estimate<u64>>,
    /// Why there is no estimate; null where there is one.
    pub reason: Option<String>,
    /// Estimate − truth; null where there is no estimate.
    pub error_bits_per_second: Option<i64>,
    /// Standard deviation of the available bandwidth between trains; null where the method does not state it.
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
    /// Duration of a full measurement, with both directions, capacity and delay; null where it was not one.
    #[schemars(range(min = 0))]
    pub full_seconds: Option<f64>,
    /// The bottleneck's capacity, where it was measured and found; else null.
    pub capacity_bits_per_second: Option<Estimate<u64>>,
    /// Why there is no capacity although it was measured; else null.
    pub capacity_reason: Option<String>,
    /// The token bucket that was detected, where capacity was measured; else null.
    pub shaper: Option<ShaperReport>,
    /// The minimum one-way delay of the idle path up, where it was measured; else null.
    pub up_delay_seconds: Option<DelayRow>,
    /// The same, down.
    pub down_delay_seconds: Option<DelayRow>,
    /// Trains that were sent.
    pub trains: u32,
    /// Trains that were not used.
    pub trains_rejected: u32,
    /// How often the run was discarded and repeated, because host scheduling delay disturbed it.
    pub repeats: u32,
    /// Whether this last repetition was disturbed as well.
    pub disturbed: bool,
    /// By how much the emulated link was late at most while trains were being sent; null where the kernel shapes.
    pub max_lateness_seconds: Option<f64>,
    /// The measurement's warnings.
    pub warnings: Vec<String>,
    /// When each packet of the first train was sent and received, where the experiment shows it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timeline: Vec<TimelinePacket>,
}

/// A one-way delay beside the truth.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DelayRow {
    /// Propagation, and the transmission of a probe packet on each link.
    pub truth: f64,
    /// The estimate.
    pub value: f64,
    /// Lower bound, whatever the offset of the clocks.
    pub low: f64,
    /// Upper bound.
    pub high: f64,
}

/// One packet of a train. Times count from the sending of the train's first packet; both hosts share one clock.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TimelinePacket {
    /// Bytes of the IP packet.
    pub size_bytes: u32,
    /// When it was to be sent.
    pub planned_seconds: f64,
    /// When it was sent; null without a time stamp.
    pub sent_seconds: Option<f64>,
    /// When it was received; null without a time stamp.
    pub received_seconds: Option<f64>,
}

impl Row {
    /// A row for `point` without anything measured yet.
    pub fn new(scenario: &AccuracyScenario, point: &AccuracyPoint) -> Self {
        let bottleneck = scenario.bottleneck.rate_in(point.direction);
        let shaper = scenario.bottleneck.shaper();
        let hop = scenario.downstream_hop.as_ref();
        Row {
            bottleneck_bits_per_second: bottleneck.bits_per_second(),
            burst_bytes: shaper.map(|shaper| shaper.burst_bytes),
            peak_bits_per_second: shaper.map(|shaper| shaper.peak_rate.bits_per_second()),
            downstream_bits_per_second: hop.map(|hop| hop.rate(bottleneck).bits_per_second()),
            downstream_cross_bits_per_second: hop.map(|hop| hop.cross_traffic_rate(bottleneck).bits_per_second()),
            downstream_cross_kind: hop.map(|hop| hop.kind),
            cross_bits_per_second: point.cross.bits_per_second(),
            cross_kind: scenario.cross.kind,
            transport: point.transport,
            method: point.method.to_string(),
            direction: point.direction,
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
            full_seconds: None,
            capacity_bits_per_second: None,
            capacity_reason: None,
            shaper: None,
            up_delay_seconds: None,
            down_delay_seconds: None,
            trains: 0,
            trains_rejected: 0,
            repeats: 0,
            disturbed: false,
            max_lateness_seconds: None,
            warnings: Vec::new(),
            timeline: Vec::new(),
        }
    }

    /// Takes over what a measurement reports of the direction.
    pub(crate) fn fill_report(&mut self, scenario: &AccuracyScenario, direction: Direction, report: Report) {
        if let Some(delay) = report.delay.filter(|_| scenario.makes_full_measurement) {
            self.fill_delays(scenario, [delay.up, delay.down]);
        }
        match direction {
            Direction::Up => report.up.map(|measured| self.fill_result(measured)),
            Direction::Down => report.down.map(|measured| self.fill_result(measured)),
        };
    }

    fn fill_result(&mut self, measured: DirectionReport) {
        if let Some(value) = measured.available_bits_per_second {
            self.set_estimate(value.map(Rate::bits_per_second));
        }
        if let Some(capacity) = measured.capacity {
            self.fill_capacity(capacity);
        }
        self.transport = measured.transport.into();
        self.reason = measured.reason.map(String::from);
        self.spread_bits_per_second = measured.spread_bits_per_second.map(Rate::bits_per_second);
        self.connections = measured.connections;
        self.packets_sent = measured.packets_sent;
        self.bytes_sent = measured.bytes_sent;
        self.duration_seconds = measured.duration_seconds;
        self.trains = measured.trains + measured.trains_rejected;
        self.trains_rejected = measured.trains_rejected;
        self.warnings = measured.warnings.into_iter().map(String::from).collect();
    }

    fn fill_capacity(&mut self, found: CapacityReport) {
        self.capacity_bits_per_second = found.bottleneck_bits_per_second.map(|rate| rate.map(Rate::bits_per_second));
        self.capacity_reason = found.reason.map(String::from);
        self.shaper = found.shaper;
    }

    /// Takes over the delays up and down, beside the truth.
    fn fill_delays(&mut self, scenario: &AccuracyScenario, delays: [Option<DelayFigures>; 2]) {
        [self.up_delay_seconds, self.down_delay_seconds] = Direction::BOTH.map(|direction| {
            let Estimate { value, low, high, .. } = delays[direction as usize].as_ref()?.minimum_seconds;
            let truth = plan::min_delay(scenario, direction).as_secs_f64();
            Some(DelayRow { truth, value, low, high })
        });
    }

    /// Sets the estimate, and with it the error against the truth that is already set.
    pub fn set_estimate(&mut self, estimate: Estimate<u64>) {
        self.available_bits_per_second = Some(estimate);
        self.error_bits_per_second = Some(estimate.value as i64 - self.truth_bits_per_second as i64);
    }

    /// |estimate − truth| as a part of the bottleneck's rate; none without an estimate.
    pub fn rate_error(&self) -> Option<f64> {
        Some(self.error_bits_per_second?.abs() as f64 / self.bottleneck_bits_per_second as f64)
    }

    /// |capacity − the bottleneck's| as a part of the latter; none without a capacity.
    pub fn capacity_error(&self) -> Option<f64> {
        Some(relative_error(self.capacity_bits_per_second?.value as f64, self.bottleneck_bits_per_second as f64))
    }

    /// The relative errors of a token bucket's rate and burst; none where there is none or none was detected.
    pub fn shaper_errors(&self) -> Option<(f64, f64)> {
        let (found, burst) = (self.shaper?, self.burst_bytes?);
        let rate = relative_error(found.committed_rate.value.as_f64(), self.bottleneck_bits_per_second as f64);
        Some((rate, relative_error(found.burst_bytes.value as f64, burst as f64)))
    }

    /// The one-way delays that were measured.
    pub(crate) fn delay_rows(&self) -> impl Iterator<Item = DelayRow> {
        [self.up_delay_seconds, self.down_delay_seconds].into_iter().flatten()
    }

    /// Whether capacity was measured, whether or not with a result.
    pub fn has_capacity_measurement(&self) -> bool {
        self.capacity_bits_per_second.is_some() || self.capacity_reason.is_some()
    }

    /// Whether the interval covers this run's truth; none without an interval of stated confidence.
    pub fn covers_truth(&self) -> Option<bool> {
        self.available_bits_per_second?.covers(self.truth_bits_per_second)
    }
}

impl DelayRow {
    /// |value − truth| as a part of the truth.
    pub fn relative_error(&self) -> f64 {
        relative_error(self.value, self.truth)
    }

    /// Whether the bounds cover the truth.
    pub fn covers_truth(&self) -> bool {
        (self.low..=self.high).contains(&self.truth)
    }
}

/// |value − truth| as a part of the truth.
fn relative_error(value: f64, truth: f64) -> f64 {
    (value / truth - 1.0).abs()
}
