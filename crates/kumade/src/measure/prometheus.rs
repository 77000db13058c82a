//! A report as metrics in Prometheus' text format, for the textfile collector of the node exporter.

use super::cells::{idle_packets, loaded_packets, loaded_round_trip_figures, measured_directions};
use super::csv::loss_ratio;
use kumade_measurement::Report;
use kumade_measurement::report::{Burst, DirectionReport, PacketReport};
use kumade_units::{Direction, Rate};
use std::fmt::Write;

/// A metric: its name, its help, and its values by direction.
struct Metric {
    name: &'static str,
    help: &'static str,
    of: fn(&DirectionReport) -> Option<f64>,
}

const METRICS: &[Metric] = &[
    Metric {
        name: "available_bits_per_second",
        help: "Available bandwidth, IP-layer bits",
        of: |found| rate_value(found.available_bits_per_second.map(|rate| rate.value)),
    },
    Metric {
        name: "available_low_bits_per_second",
        help: "Lower end of its interval",
        of: |found| rate_value(found.available_bits_per_second.map(|rate| rate.low)),
    },
    Metric {
        name: "available_high_bits_per_second",
        help: "Upper end of its interval",
        of: |found| rate_value(found.available_bits_per_second.map(|rate| rate.high)),
    },
    Metric {
        name: "at_least_bits_per_second",
        help: "Lower bound of the available bandwidth, where there is no value",
        of: |found| rate_value(found.at_least_bits_per_second),
    },
    Metric {
        name: "at_most_bits_per_second",
        help: "Upper bound of the available bandwidth, where there is no value",
        of: |found| rate_value(found.at_most_bits_per_second),
    },
    Metric {
        name: "fair_share_bits_per_second",
        help: "What one flow can have, where flows have queues of their own",
        of: |found| rate_value(found.fair_share_bits_per_second.map(|rate| rate.value)),
    },
    Metric {
        name: "capacity_bits_per_second",
        help: "Capacity of the narrow link",
        of: |found| rate_value(found.capacity.as_ref()?.bottleneck_bits_per_second.map(|rate| rate.value)),
    },
    Metric {
        name: "goodput_bits_per_second",
        help: "Payload of TCP connections that fill the path",
        of: |found| rate_value(found.load.as_ref()?.goodput_bits_per_second),
    },
    Metric {
        name: "added_delay_seconds",
        help: "Median of what round trips take longer while TCP connections fill the path",
        of: |found| Some(found.load.as_ref()?.added_delay_seconds?.value),
    },
    Metric {
        name: "shaper_burst_bytes",
        help: "Burst of the token bucket on the path",
        of: |found| Some(Burst(found.capacity.as_ref()?.shaper?.burst_bytes).known_bytes()? as f64),
    },
];

/// The metrics. Labels have the target as the user names it, and no address or port that changes.
pub fn encode_metrics(target: &str, report: &Report) -> String {
    let target = escape_label(target);
    let mut out = String::new();
    for Metric { name, help, of } in METRICS {
        let values =
            measured_directions(report).into_iter().filter_map(|(direction, found)| Some((direction, of(found)?)));
        let values = values.map(|(direction, value)| (format!("target=\"{target}\",direction=\"{direction}\""), value));
        encode_family(&mut out, name, help, values.collect());
    }
    if let Some(delay) = &report.delay {
        let idle = Direction::BOTH.map(|direction| (direction.to_string(), idle_packets(delay, direction)));
        let idle = idle.into_iter().chain([("round-trip".to_owned(), delay.round_trip_packets.as_ref())]);
        let loaded = Direction::BOTH.map(|direction| (direction.to_string(), loaded_packets(delay, direction)));
        let value = |(name, packets): (String, Option<&PacketReport>)| {
            Some((format!("target=\"{target}\",direction=\"{name}\""), loss_ratio(packets?)?))
        };
        let help = "Ratio of lost packets, without load by the measurement";
        encode_family(&mut out, "loss_ratio", help, idle.filter_map(value).collect());
        let help = "Ratio of lost packets of trains, which may overflow queues themselves";
        encode_family(&mut out, "loaded_loss_ratio", help, loaded.into_iter().filter_map(value).collect());
        let [up, down] = Direction::BOTH.map(|direction| loaded_round_trip_figures(delay, direction));
        let trips = [("idle", delay.round_trip.as_ref()), ("up", up), ("down", down)];
        let values = trips.into_iter().filter_map(|(loaded, figures)| {
            Some((format!("target=\"{target}\",loaded=\"{loaded}\""), figures?.median_seconds.value))
        });
        encode_family(
            &mut out,
            "round_trip_seconds",
            "Median round-trip time, idle and under probe load",
            values.collect(),
        );
    }
    let success = f64::from(u8::from(report.has_result()));
    let of_target = |value| vec![(format!("target=\"{target}\""), value)];
    encode_family(&mut out, "success", "1 if the measurement has a result", of_target(success));
    let started = report.started.parse::<jiff::Timestamp>().map_or(0.0, |time| time.as_millisecond() as f64 / 1e3);
    encode_family(&mut out, "started_timestamp_seconds", "Start of the measurement, Unix time", of_target(started));
    out
}

fn rate_value(rate: Option<Rate>) -> Option<f64> {
    rate.map(|rate| rate.as_f64())
}

fn encode_family(out: &mut String, name: &str, help: &str, values: Vec<(String, f64)>) {
    if values.is_empty() {
        return;
    }
    // A string takes everything.
    let _ = writeln!(out, "# HELP kumade_measure_{name} {help}\n# TYPE kumade_measure_{name} gauge");
    for (labels, value) in values {
        let _ = writeln!(out, "kumade_measure_{name}{{{labels}}} {value}");
    }
}

fn escape_label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_measurement::report::ErrorReport;

    /// Finding 7 of the review by a new user: labels must not have ports that change, or series grow without limit.
    #[test]
    fn a_failure_is_a_metric_too() {
        let error = ErrorReport { kind: "connect".into(), message: "cannot".into(), hint: None };
        let report = Report::failed("far \"one\"".into(), "2026-11-23T01:00:00.500Z".into(), error);
        let text = encode_metrics("far \"one\"", &report);
        let expected = "kumade_measure_success{target=\"far \\\"one\\\"\"} 0\n";
        assert!(text.contains(expected), "{text}");
        assert!(
            text.contains("kumade_measure_started_timestamp_seconds{target=\"far \\\"one\\\"\"} 1795395600.5"),
            "{text}"
        );
        assert!(!text.contains("available"), "{text}");
    }
}
