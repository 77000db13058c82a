//! Rows and reports as tests make them.

use super::AccuracyExperiment;
use super::keywords::Transport;
use super::report::Report;
use super::row::{DelayRow, Row, TimelinePacket};
use super::scenario::AccuracyPoint;
use crate::scenario::load;
use crate::study::Overrides;
use kumade_estimate::MethodSettings;
use kumade_measurement::report::ShaperReport;
use kumade_probe_train::Estimate;
use kumade_units::{Direction, Rate};

const STARTED: &str = "2026-11-20T12:00:00Z";

/// The built-in experiment of that name.
pub(crate) fn load_accuracy_experiment(name: &str) -> AccuracyExperiment {
    load(name, &Overrides::default()).unwrap().into_scenario::<AccuracyExperiment>().unwrap()
}

/// Two levels of cross traffic, three runs each, by two methods over two transports.
pub(crate) fn accuracy_report() -> Report {
    let experiment = load_accuracy_experiment("rake-accuracy");
    let mut rows = Vec::new();
    for (run, error) in [(1, 0.1), (2, -0.2), (3, 0.3)] {
        for cross in [0, 60] {
            for transport in [Transport::Rake, Transport::Udp] {
                rows.push(measured_row(transport, "primed", cross, run, error));
                rows.push(measured_row(transport, "linear-scan", cross, run, 10.0 + error));
            }
        }
    }
    rows[0].repeats = 2;
    Report::new(&experiment, STARTED.into(), rows)
}

/// UDP fails, many TCP connections measure.
pub(crate) fn firewall_report() -> Report {
    let experiment = load_accuracy_experiment("rake-firewall");
    let rows = vec![
        failed_row(Transport::Udp, "primed", 30, 1, "UDP is rejected on the way to 10.0.1.2"),
        measured_row(Transport::Rake, "primed", 30, 1, -0.15),
    ];
    Report::new(&experiment, STARTED.into(), rows)
}

/// Full measurements: capacity with errors of one and three percent, without a result; and a token bucket, which was
/// detected.
pub(crate) fn full_report() -> Report {
    let experiment = load_accuracy_experiment("tester-capacity");
    let mut rows = vec![full_row(1, Some(1.01)), full_row(2, Some(0.97)), full_row(3, None)];
    let mut shaped = full_row(1, Some(1.0));
    let interval = |value: u64| Estimate { value, low: value * 9 / 10, high: value * 11 / 10, confidence: 0.95 };
    (shaped.burst_bytes, shaped.peak_bits_per_second) = (Some(10_000), Some(1_000_000_000));
    shaped.shaper = Some(ShaperReport {
        at_sender: false,
        peak_rate: Some(interval(990_000_000).map(Rate::from_bits_per_second)),
        committed_rate: interval(101_000_000).map(Rate::from_bits_per_second),
        burst_bytes: interval(13_000),
    });
    rows.push(shaped);
    Report::new(&experiment, STARTED.into(), rows)
}

/// A train that was delayed by a congestion window of ten segments, and one that was not.
pub(crate) fn cwnd_report() -> Report {
    let experiment = load_accuracy_experiment("rake-cwnd");
    let mut delayed = failed_row(Transport::Single, "linear-scan", 50, 1, "every train was disturbed");
    let mut on_time = measured_row(Transport::Rake, "linear-scan", 50, 1, 9.0);
    for i in 0..120 {
        let planned_seconds = f64::from(i) * 1e-4;
        let late = if i < 10 { 0.0 } else { 0.08 };
        let packet = |late: f64, received| TimelinePacket {
            size_bytes: 32 + 12 * i,
            planned_seconds,
            sent_seconds: Some(planned_seconds + late),
            received_seconds: received,
        };
        delayed.timeline.push(packet(late, (i < 10).then_some(planned_seconds + 0.01)));
        on_time.timeline.push(packet(0.0, Some(planned_seconds + 0.01)));
    }
    Report::new(&experiment, STARTED.into(), vec![delayed, on_time])
}

/// A measured run: cross traffic and error in Mbit/s on a bottleneck of 100 Mbit/s.
pub(crate) fn measured_row(transport: Transport, method: &str, cross: u64, run: u32, error: f64) -> Row {
    let (cross_rate, method) = (Rate::from_mbit(cross), method.parse().unwrap());
    let point = AccuracyPoint { cross: cross_rate, transport, method, direction: Direction::Up, run };
    let experiment = load_accuracy_experiment("rake-accuracy");
    let mut row = Row::new(&experiment.base_scenario, &point);
    row.truth_bits_per_second = (100 - cross) * 1_000_000;
    let value = (row.truth_bits_per_second as f64 + error * 1e6) as u64;
    row.set_estimate(Estimate {
        value,
        low: value.saturating_sub(500_000),
        high: value + 500_000,
        confidence: if point.method == MethodSettings::default() { 0.95 } else { 0.0 },
    });
    row.spread_bits_per_second = Some(120_000);
    (row.connections, row.packets_sent, row.bytes_sent, row.duration_seconds) = (120, 960, 640_000, 0.9);
    (row.trains, row.trains_rejected, row.max_lateness_seconds) = (8, 1, Some(0.000_04));
    row
}

/// A run without an estimate.
pub(crate) fn failed_row(transport: Transport, method: &str, cross: u64, run: u32, reason: &str) -> Row {
    let mut row = measured_row(transport, method, cross, run, 0.0);
    (row.available_bits_per_second, row.error_bits_per_second) = (None, None);
    row.reason = Some(reason.to_owned());
    (row.packets_sent, row.bytes_sent, row.trains, row.trains_rejected) = (0, 0, 0, 0);
    row
}

/// A full measurement, with a capacity of this part of the bottleneck's rate, within two percent.
/// A delay of 5 ms was measured as 5.05 ms up and 5.2 ms down.
pub(crate) fn full_row(run: u32, capacity: Option<f64>) -> Row {
    let mut row = measured_row(Transport::Udp, "primed", 50, run, 0.1);
    let interval = |part: f64| {
        let value = (part * 100e6) as u64;
        Estimate { value, low: value * 98 / 100, high: value * 102 / 100, confidence: 0.95 }
    };
    row.capacity_bits_per_second = capacity.map(interval);
    row.capacity_reason = capacity.is_none().then(|| "the path is too busy".to_owned());
    let delay = |value: f64| Some(DelayRow { truth: 0.005, value, low: value - 0.005, high: value + 0.005 });
    (row.up_delay_seconds, row.down_delay_seconds) = (delay(0.005_05), delay(0.005_2));
    row.full_seconds = Some(2.5);
    row
}
