//! A report as lines of CSV, one for each direction.

use super::cells::{idle_packets, loaded_packets, loaded_round_trip_figures, measured_directions};
use kumade_measurement::Report;
use kumade_measurement::report::{Burst, DelayReport, DirectionReport, PacketReport};
use kumade_units::{Direction, Rate};
use std::io::Write;

pub use ::csv::Error;

/// What a line is about.
struct CsvLine<'r> {
    target: &'r str,
    report: &'r Report,
    direction: Option<(Direction, &'r DirectionReport)>,
}

type CsvColumn = (&'static str, fn(&CsvLine<'_>) -> Option<String>);

/// The columns, whose names are those of the document. What was sent, and for how long, is that of all parts of a direction together.
const COLUMNS: &[CsvColumn] = &[
    ("started", |line| Some(line.report.started.clone())),
    ("target", |line| Some(line.target.to_owned())),
    ("direction", |line| line.direction.map(|(direction, _)| direction.to_string())),
    ("transport", |line| line.direction_report().map(|found| found.transport.to_string())),
    ("method", |line| line.direction_report().map(|found| found.method.clone())),
    ("available_bits_per_second", |line| {
        format_rate(line.direction_report()?.available_bits_per_second.map(|rate| rate.value))
    }),
    ("available_low_bits_per_second", |line| {
        format_rate(line.direction_report()?.available_bits_per_second.map(|rate| rate.low))
    }),
    ("available_high_bits_per_second", |line| {
        format_rate(line.direction_report()?.available_bits_per_second.map(|rate| rate.high))
    }),
    ("at_least_bits_per_second", |line| format_rate(line.direction_report()?.at_least_bits_per_second)),
    ("at_most_bits_per_second", |line| format_rate(line.direction_report()?.at_most_bits_per_second)),
    ("limited_by", |line| line.direction_report()?.limited_by.clone()),
    ("capacity_bits_per_second", |line| {
        format_rate(line.direction_report()?.capacity.as_ref()?.bottleneck_bits_per_second.map(|rate| rate.value))
    }),
    ("shaper_rate_bits_per_second", |line| {
        format_rate(line.direction_report()?.capacity.as_ref()?.shaper.map(|shaper| shaper.committed_rate.value))
    }),
    ("shaper_burst_bytes", |line| {
        Some(Burst(line.direction_report()?.capacity.as_ref()?.shaper?.burst_bytes).known_bytes()?.to_string())
    }),
    ("round_trip_seconds", |line| format_number(line.delay()?.round_trip.as_ref()?.median_seconds.value)),
    ("loaded_round_trip_seconds", |line| {
        format_number(loaded_round_trip_figures(line.delay()?, line.direction?.0)?.median_seconds.value)
    }),
    ("loss_ratio", |line| format_number(loss_ratio(line.idle_packets()?)?)),
    ("bytes_sent", |line| Some(line.direction_report()?.total_bytes_sent().to_string())),
    ("duration_seconds", |line| format_number(line.direction_report()?.total_duration_seconds())),
    ("reason", |line| line.direction_report()?.reason.as_ref().map(ToString::to_string)),
    ("fair_share_bits_per_second", |line| {
        format_rate(line.direction_report()?.fair_share_bits_per_second.map(|rate| rate.value))
    }),
    ("goodput_bits_per_second", |line| format_rate(line.direction_report()?.load.as_ref()?.goodput_bits_per_second)),
    ("added_delay_seconds", |line| format_number(line.direction_report()?.load.as_ref()?.added_delay_seconds?.value)),
    ("bufferbloat_grade", |line| line.direction_report()?.load.as_ref()?.describe_grade()),
    ("error", |line| line.report.error.as_ref().map(|error| error.kind.clone())),
    ("loaded_loss_ratio", |line| format_number(loss_ratio(loaded_packets(line.delay()?, line.direction?.0)?)?)),
];

/// Writes a line for each direction, or one for a report without directions; the names first if `heads`.
///
/// # Errors
/// The output can't be written.
pub fn write_csv(out: &mut impl Write, target: &str, report: &Report, heads: bool) -> Result<(), Error> {
    let mut writer = ::csv::Writer::from_writer(out);
    if heads {
        writer.write_record(COLUMNS.iter().map(|(name, _)| name))?;
    }
    let measured = measured_directions(report).into_iter().map(Some);
    let lines: Vec<_> = if measured_directions(report).is_empty() { vec![None] } else { measured.collect() };
    for direction in lines {
        let line = CsvLine { target, report, direction };
        writer.write_record(COLUMNS.iter().map(|(_, of)| of(&line).unwrap_or_default()))?;
    }
    writer.flush().map_err(Error::from)
}

/// None without packets.
pub fn loss_ratio(packets: &PacketReport) -> Option<f64> {
    (packets.sent > 0).then_some(packets.loss_ratio.value)
}

impl<'r> CsvLine<'r> {
    fn direction_report(&self) -> Option<&'r DirectionReport> {
        self.direction.map(|(_, found)| found)
    }

    fn delay(&self) -> Option<&'r DelayReport> {
        self.report.delay.as_ref()
    }

    /// In the direction, or of the round trip.
    fn idle_packets(&self) -> Option<&'r PacketReport> {
        let delay = self.delay()?;
        self.direction.map_or(delay.round_trip_packets.as_ref(), |(direction, _)| idle_packets(delay, direction))
    }
}

fn format_rate(rate: Option<Rate>) -> Option<String> {
    rate.map(|rate| rate.bits_per_second().to_string())
}

fn format_number(value: f64) -> Option<String> {
    Some(value.to_string())
}
