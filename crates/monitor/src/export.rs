//! The archive's content in lines, for other programs; read beside a running monitor.

use crate::config::MonitorConfig;
use crate::pair_recorder::idle_delays;
use crate::run_document::{run_status, utc_text};
use crate::status::RunFigure;
use kumade_archive::{AnyStore, ArchiveError, Family, PairId, Reader, SeriesQuery};
use kumade_sketch::Lane;
use kumade_units::{Span, Time};
use serde::Serialize;
use std::collections::BTreeMap;
use std::ops::Range;

/// An archive that is read.
#[derive(Debug)]
pub struct ArchiveExport {
    reader: Reader<AnyStore>,
    /// The id of its target, for each pair.
    pairs: BTreeMap<PairId, (String, Family)>,
}

/// The probes of one minute or, where nothing finer is kept, of a longer time, that were sent while no measurement ran. What is not known
/// is empty.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProbeLine {
    /// The id of its target.
    pub pair: String,
    /// `4` or `6`.
    pub ip_version: u8,
    /// When it begins (UTC, RFC 3339).
    pub from: String,
    /// How long it is.
    pub length_seconds: f64,
    /// `round_trip`, `up` or `down`.
    pub lane: &'static str,
    /// Probes.
    pub sent: u64,
    /// Those that were lost.
    pub lost: u64,
    /// Those that were lost in one of two directions, nobody knows which.
    pub unknown: u64,
    /// Those that were answered late.
    pub late: u64,
    /// Answers besides the first of each.
    pub duplicated: u64,
    /// The least delay.
    pub minimum_seconds: Option<f64>,
    /// The median.
    pub median_seconds: Option<f64>,
    /// The 95th percentile.
    pub quantile_95_seconds: Option<f64>,
    /// The greatest.
    pub maximum_seconds: Option<f64>,
}

/// A measurement. What is not known is empty.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunLine {
    /// The id of its target.
    pub pair: String,
    /// `4` or `6`.
    pub ip_version: u8,
    /// When it began (UTC, RFC 3339).
    pub started: String,
    /// How long it took.
    pub duration_seconds: f64,
    /// Available bandwidth to the target.
    pub up_bits_per_second: Option<f64>,
    /// Lower end of its interval.
    pub up_low_bits_per_second: Option<f64>,
    /// Upper end.
    pub up_high_bits_per_second: Option<f64>,
    /// Why it is not known.
    pub up_reason: Option<String>,
    /// From the target.
    pub down_bits_per_second: Option<f64>,
    /// Lower end of its interval.
    pub down_low_bits_per_second: Option<f64>,
    /// Upper end.
    pub down_high_bits_per_second: Option<f64>,
    /// Why it is not known.
    pub down_reason: Option<String>,
    /// Why the measurement failed.
    pub error: Option<String>,
}

/// Measurements of a pair that are read at once.
const MAX_RUNS: u32 = 1_000_000;
const MINUTE: Span = Span::from_secs(60);
/// Minutes that are read at once: what a year of them takes need not be in memory.
const MINUTES_AT_ONCE: i64 = 1440;

impl ArchiveExport {
    /// Opens the archive of a configuration for reading.
    ///
    /// # Errors
    /// There is none, or it is of another version.
    pub fn open(config: &MonitorConfig) -> Result<Self, ArchiveError> {
        let mut reader = Reader::new(config.open_archive_read_only()?);
        let hosts: BTreeMap<_, _> = reader.hosts()?.into_iter().map(|host| (host.id, host.stable_id)).collect();
        let pairs = reader.pairs()?.into_iter();
        let pairs = pairs.filter_map(|pair| Some((pair.id, (hosts.get(&pair.target)?.clone(), pair.family))));
        Ok(ArchiveExport { pairs: pairs.collect(), reader })
    }

    /// The probes of a time, pair by pair; of the pairs of one target, or all.
    ///
    /// # Errors
    /// The archive cannot be read, or a line not be written.
    pub fn probes<E: From<ArchiveError>>(
        &mut self,
        target: Option<&str>,
        range: Range<Time>,
        mut line: impl FnMut(ProbeLine) -> Result<(), E>,
    ) -> Result<(), E> {
        for (pair, (name, family)) in
            self.pairs.clone().iter().filter(|(_, (name, _))| target.is_none_or(|id| id == name))
        {
            let mut from = range.start;
            while from < range.end {
                let to = (from + MINUTE * MINUTES_AT_ONCE).min(range.end);
                let query = SeriesQuery { pair: *pair, from, to, points: MINUTES_AT_ONCE as usize };
                for point in self.reader.series(&query)?.points {
                    // A point that is longer than what is asked for belongs to where it begins.
                    if !(from..to).contains(&point.start) {
                        continue;
                    }
                    let delays = idle_delays(&point.summary);
                    for (lane, lane_name) in [(Lane::RoundTrip, "round_trip"), (Lane::Up, "up"), (Lane::Down, "down")] {
                        let tally = &point.summary[lane].idle;
                        if tally.is_empty() {
                            continue;
                        }
                        let delay = delays.iter().find(|delay| delay.lane == lane_name);
                        line(ProbeLine {
                            pair: name.clone(),
                            ip_version: ip_version(*family),
                            from: utc_text(point.start),
                            length_seconds: point.length.as_secs_f64(),
                            lane: lane_name,
                            sent: tally.sent(),
                            lost: tally.lost,
                            unknown: tally.unknown,
                            late: tally.late,
                            duplicated: tally.duplicated,
                            minimum_seconds: delay.map(|delay| delay.minimum_seconds),
                            median_seconds: delay.map(|delay| delay.median_seconds),
                            quantile_95_seconds: delay.map(|delay| delay.quantile_95_seconds),
                            maximum_seconds: delay.map(|delay| delay.maximum_seconds),
                        })?;
                    }
                }
                from = to;
            }
        }
        Ok(())
    }

    /// The measurements that began in a time, pair by pair, the earliest first; of the pairs of one target, or all.
    ///
    /// # Errors
    /// As [`probes`](Self::probes).
    pub fn runs<E: From<ArchiveError>>(
        &mut self,
        target: Option<&str>,
        range: Range<Time>,
        mut line: impl FnMut(RunLine) -> Result<(), E>,
    ) -> Result<(), E> {
        for (pair, (name, family)) in
            self.pairs.clone().iter().filter(|(_, (name, _))| target.is_none_or(|id| id == name))
        {
            for run in self.reader.runs(*pair, range.clone(), MAX_RUNS)?.iter().rev() {
                let shown = run_status(run);
                let [up, down] = [shown.up, shown.down].map(split);
                line(RunLine {
                    pair: name.clone(),
                    ip_version: ip_version(*family),
                    started: utc_text(run.started),
                    duration_seconds: shown.duration_seconds,
                    up_bits_per_second: up.0.map(|known| known[0]),
                    up_low_bits_per_second: up.0.map(|known| known[1]),
                    up_high_bits_per_second: up.0.map(|known| known[2]),
                    up_reason: up.1,
                    down_bits_per_second: down.0.map(|known| known[0]),
                    down_low_bits_per_second: down.0.map(|known| known[1]),
                    down_high_bits_per_second: down.0.map(|known| known[2]),
                    down_reason: down.1,
                    error: shown.error,
                })?;
            }
        }
        Ok(())
    }
}

/// Value, lower and upper end; or why it is not known.
fn split(figure: Option<RunFigure>) -> (Option<[f64; 3]>, Option<String>) {
    match figure {
        Some(RunFigure::Known { value, low, high }) => (Some([value, low, high]), None),
        Some(RunFigure::Unknown { reason }) => (None, Some(reason)),
        None => (None, None),
    }
}

fn ip_version(family: Family) -> u8 {
    match family {
        Family::V4 => 4,
        Family::V6 => 6,
    }
}
