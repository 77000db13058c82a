//! What is checked, and what a report says of it.

use super::super::cells::idle_packets;
use super::range::{AlertRange, Alerting};
use kumade_estimate::delay::loss_ratio;
use kumade_measurement::Report;
use kumade_measurement::report::{DelayFigures, DelayReport, DirectionReport, PacketReport};
use kumade_probe_train::Estimate;
use kumade_units::{Direction, Rate, Span, parse};
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

/// A figure, and which of its values alert.
#[derive(Debug, Clone, PartialEq)]
pub struct Threshold {
    pub(super) metric: Metric,
    /// None for each that was measured.
    direction: Option<Direction>,
    pub(super) warning: Option<AlertRange>,
    pub(super) critical: Option<AlertRange>,
}

/// What can be checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Metric {
    /// Available bandwidth in bit/s.
    Available,
    /// Ratio of lost packets in percent.
    Loss,
    /// Median of the one-way delay in seconds.
    Delay,
    /// Median of the round-trip delay in seconds.
    RoundTrip,
}

/// What a report says.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Finding {
    metric: Metric,
    /// In performance data.
    pub(super) label: String,
    /// None where only bounds are known.
    pub(super) value: Option<f64>,
    /// None where nothing is known; an end may be infinite.
    pub(super) interval: Option<(f64, f64)>,
    /// Why nothing is known.
    reason: Option<String>,
}

const METRICS: [(&str, Metric); 4] = [
    ("available", Metric::Available),
    ("loss", Metric::Loss),
    ("delay", Metric::Delay),
    ("round-trip", Metric::RoundTrip),
];

impl Metric {
    fn name(self) -> &'static str {
        METRICS.into_iter().find(|(_, metric)| *metric == self).map_or("", |(name, _)| name)
    }

    /// Of performance data; bits per second have none there.
    pub(super) fn unit(self) -> &'static str {
        match self {
            Metric::Available => "",
            Metric::Loss => "%",
            Metric::Delay | Metric::RoundTrip => "s",
        }
    }

    /// Least and greatest possible value, as in performance data.
    pub(super) fn limits(self) -> &'static str {
        if self == Metric::Loss { "0;100" } else { "0;" }
    }

    fn parse_number(self, text: &str) -> Result<f64, String> {
        let number = match self {
            Metric::Available => parse::rate(text).map(|rate| rate.as_f64()),
            // A number alone would be a ratio: others mean percent by it.
            Metric::Loss if !text.ends_with('%') && text != "0" => {
                return Err(format!("`{text}` is no loss: write it like 1%"));
            }
            Metric::Loss => parse::ratio(text).map(|ratio| ratio * 100.0),
            Metric::Delay | Metric::RoundTrip => parse::span(text).map(Span::as_secs_f64),
        };
        number.map_err(|error| error.to_string())
    }

    fn show(self, value: f64) -> String {
        match self {
            Metric::Available => Rate::from_f64(value).to_string(),
            Metric::Loss => format!("{value:.2} %"),
            Metric::Delay | Metric::RoundTrip => Span::from_secs_f64(value).to_string(),
        }
    }
}

impl Threshold {
    /// Whether it is about something that only trains show, or only in a direction that is not measured.
    ///
    /// # Errors
    /// Says why nothing would be known.
    pub fn check_measured(&self, directions: &[Direction], is_stamp: bool) -> Result<(), String> {
        match self.direction {
            _ if is_stamp && self.metric == Metric::Available => {
                Err("--stamp does not measure the available bandwidth: leave --check available out".to_owned())
            }
            Some(direction) if !directions.contains(&direction) => {
                Err(format!("--direction leaves out direction {direction}, which --check is about"))
            }
            _ if self.metric == Metric::RoundTrip && directions.len() < 2 => {
                Err("one --direction has no round trip, which --check is about".to_owned())
            }
            _ if self
                .critical
                .is_some_and(|critical| self.metric == Metric::Loss && !is_told(&critical, MAX_PACKETS)) =>
            {
                let least = loss_ratio(0, MAX_PACKETS.into()).high * 100.0;
                Err(format!(
                    "a check sends {MAX_PACKETS} packets at most, which tell no loss below {least:.2} %: a critical threshold \
                     of loss has to be higher"
                ))
            }
            _ => Ok(()),
        }
    }
}

impl FromStr for Threshold {
    type Err = String;

    /// `METRIC[-up|-down][=WARNING[,CRITICAL]]`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, ranges) = text.split_once('=').unwrap_or((text, ""));
        let directions = [("-up", Direction::Up), ("-down", Direction::Down)];
        let found =
            directions.into_iter().find_map(|(end, direction)| Some((name.strip_suffix(end)?, Some(direction))));
        let (base, direction) = found.unwrap_or((name, None));
        let metric = METRICS.into_iter().find(|(known, _)| *known == base).map(|(_, metric)| metric);
        let metric = metric.filter(|metric| direction.is_none() || *metric != Metric::RoundTrip).ok_or_else(|| {
            format!(
                "`{name}` cannot be checked: give available, loss or delay, each also with -up or -down, or round-trip"
            )
        })?;
        let (warning, critical) = ranges.split_once(',').unwrap_or((ranges, ""));
        let range = |text: &str| match text {
            "" => Ok(None),
            text => AlertRange::parse(text, |number| metric.parse_number(number)).map(Some),
        };
        Ok(Threshold { metric, direction, warning: range(warning)?, critical: range(critical)? })
    }
}

/// 13 s at 8 ms in both directions, and a second of waiting for what is lost of each train. Thresholds of 0.5 % and more are told by so many.
const MAX_PACKETS: u32 = 800;

/// How many packets tell no loss from one beyond these thresholds, so that where none is lost, the whole interval is within them; none where
/// nothing depends on it.
pub fn packets_to_tell_loss(thresholds: &[Threshold]) -> u32 {
    let of_loss = thresholds.iter().filter(|threshold| threshold.metric == Metric::Loss);
    let ranges = of_loss.flat_map(|threshold| [threshold.warning, threshold.critical]).flatten();
    let packets = ranges.filter(|range| !range.alerts(0.0));
    let packets = packets.map(|range| (1..MAX_PACKETS).find(|sent| is_told(&range, *sent)).unwrap_or(MAX_PACKETS));
    packets.max().unwrap_or(0)
}

/// Whether it is sure that nothing alerts where none of so many packets is lost, or that something does.
fn is_told(range: &AlertRange, packets: u32) -> bool {
    range.alerts(0.0) || range.alerting(0.0, loss_ratio(0, packets.into()).high * 100.0) == Alerting::Nothing
}

/// What the report says of it, in each of `directions`, which were measured, or in its own.
pub(super) fn findings(threshold: &Threshold, report: &Report, directions: &[Direction]) -> Vec<Finding> {
    let metric = threshold.metric;
    let delay = report.delay.as_ref();
    let directions = threshold.direction.as_ref().map_or(directions, std::slice::from_ref);
    let round_trip_loss = || {
        let in_direction = |delay| directions.iter().any(|direction| idle_packets(delay, *direction).is_some());
        let packets = delay.and_then(|delay| delay.round_trip_packets.as_ref());
        packets.filter(|_| threshold.direction.is_none() && !delay.is_some_and(in_direction))
    };
    match metric {
        Metric::RoundTrip => {
            vec![Finding::from_delays(metric, "round_trip", delay.and_then(|delay| delay.round_trip.as_ref()), report)]
        }
        // Of a reflector that does not number its replies.
        Metric::Loss if let Some(packets) = round_trip_loss() => {
            vec![Finding::from_packets("loss_round_trip", Some(packets))]
        }
        _ => directions.iter().map(|direction| direction_finding(metric, report, *direction)).collect(),
    }
}

fn direction_finding(metric: Metric, report: &Report, direction: Direction) -> Finding {
    let label = format!("{}_{direction}", metric.name());
    let delay = report.delay.as_ref();
    match metric {
        Metric::Available => {
            let found = if direction == Direction::Up { &report.up } else { &report.down };
            Finding::from_direction(&label, found.as_ref())
        }
        Metric::Loss => Finding::from_packets(&label, delay.and_then(|delay| idle_packets(delay, direction))),
        Metric::Delay | Metric::RoundTrip => {
            let figures = |delay: &'_ DelayReport| match direction {
                Direction::Up => delay.up.clone(),
                Direction::Down => delay.down.clone(),
            };
            Finding::from_delays(metric, &label, delay.and_then(figures).as_ref(), report)
        }
    }
}

impl Finding {
    fn unknown(metric: Metric, label: &str, reason: &str) -> Self {
        Finding { metric, label: label.to_owned(), value: None, interval: None, reason: Some(reason.to_owned()) }
    }

    fn from_estimate(metric: Metric, label: &str, Estimate { value, low, high, .. }: Estimate<f64>) -> Self {
        Finding { metric, label: label.to_owned(), value: Some(value), interval: Some((low, high)), reason: None }
    }

    fn from_direction(label: &str, found: Option<&DirectionReport>) -> Self {
        let metric = Metric::Available;
        let Some(found) = found else { return Finding::unknown(metric, label, "not measured") };
        let bound = |low, high| Finding {
            metric,
            label: label.to_owned(),
            value: None,
            interval: Some((low, high)),
            reason: None,
        };
        match (found.at_least_bits_per_second, found.at_most_bits_per_second, found.available_bits_per_second) {
            (Some(rate), ..) => bound(rate.as_f64(), f64::INFINITY),
            (_, Some(rate), _) => bound(0.0, rate.as_f64()),
            (.., Some(Estimate { value, low, high, confidence })) => {
                let [value, low, high] = [value, low, high].map(Rate::as_f64);
                Finding::from_estimate(metric, label, Estimate { value, low, high, confidence })
            }
            _ => {
                let reason = found.reason.as_ref().map_or_else(|| "no value".to_owned(), ToString::to_string);
                Finding::unknown(metric, label, &reason)
            }
        }
    }

    fn from_packets(label: &str, packets: Option<&PacketReport>) -> Self {
        let Some(packets) = packets.filter(|packets| packets.sent > 0) else {
            return Finding::unknown(Metric::Loss, label, "no packets that could be counted: TCP repeats what is lost");
        };
        let Estimate { value, low, high, confidence } = packets.loss_ratio;
        // To parts per million, so that no more digits are printed.
        let [value, low, high] = [value, low, high].map(|ratio| (ratio * 1e6).round() / 1e4);
        Finding::from_estimate(Metric::Loss, label, Estimate { value, low, high, confidence })
    }

    fn from_delays(metric: Metric, label: &str, figures: Option<&DelayFigures>, report: &Report) -> Self {
        let reason = report.delay.as_ref().and_then(|delay| delay.reason.as_ref());
        figures.map_or_else(
            || Finding::unknown(metric, label, &reason.map_or("no value".to_owned(), ToString::to_string)),
            |figures| Finding::from_estimate(metric, label, figures.median_seconds),
        )
    }
}

impl Display for Finding {
    /// `available up 94.1 Mbit/s (93.9 Mbit/s … 94.4 Mbit/s)`.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let show = |value| self.metric.show(value);
        write!(f, "{} ", self.label.replace('_', " "))?;
        match (self.value, self.interval, &self.reason) {
            (Some(value), Some((low, high)), _) => write!(f, "{} ({} … {})", show(value), show(low), show(high)),
            (None, Some((low, f64::INFINITY)), _) => write!(f, "≥ {}", show(low)),
            (_, Some((_, high)), _) => write!(f, "≤ {}", show(high)),
            (.., reason) => write!(f, "is not known: {}", reason.as_deref().unwrap_or("no value")),
        }
    }
}
