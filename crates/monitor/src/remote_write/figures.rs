//! What is sent: figures of minutes and of measurements that have come into the archive since.

use super::encoding::{Sample, SeriesLabels};
use super::position::Position;
use crate::pair_recorder::idle_delays;
use crate::run_document::run_status;
use crate::status::{LaneDelay, RunFigure};
use kumade_archive::{ArchiveError, Family, Host, HostId, Pair, PairId, Point, ReadStore, Reader, Run, SeriesQuery};
use kumade_sketch::Lane;
use kumade_units::{Span, Time};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Which times are read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadTimes {
    /// Nothing older is sent.
    pub(crate) oldest: Time,
    /// Minutes that have ended by then are complete.
    pub(crate) settled: Time,
    /// Nothing later is sent.
    pub(crate) horizon: Time,
}

/// What was read, and where that ends.
#[derive(Debug, Default)]
pub(crate) struct FigureBatch {
    /// Sorted by time.
    pub(crate) samples: Vec<Sample>,
    /// Once they are delivered.
    pub(crate) position: Position,
    /// There is more: after this pair.
    pub(crate) more_after: Option<PairId>,
}

const MINUTE: Span = Span::from_secs(60);
/// Of one pair at once.
const MAX_MINUTES: i64 = 60;
const MAX_RUNS: u32 = 1000;
/// Of all together; some megabytes.
const MAX_SAMPLES: usize = 20_000;
/// What an agent delivers so much later is sent, too, if nothing later of its pair was.
const MAX_LATENESS: Span = Span::from_secs(3600);
/// A measurement takes less.
const MAX_RUN_DURATION: Span = Span::from_secs(3600);

/// Reads what comes after a position, pair by pair, from the one after `after`.
pub(crate) fn read_figures<S: ReadStore>(
    reader: &mut Reader<S>,
    position: &Position,
    times: ReadTimes,
    after: Option<PairId>,
) -> Result<FigureBatch, ArchiveError> {
    let hosts: BTreeMap<_, _> = reader.hosts()?.into_iter().map(|host| (host.id, host)).collect();
    let pairs = reader.pairs()?;
    let mut batch = FigureBatch { position: position.clone(), ..FigureBatch::default() };
    for pair in pairs.iter().filter(|pair| after.is_none_or(|after| pair.id > after)) {
        if batch.samples.len() >= MAX_SAMPLES {
            break;
        }
        let series = PairSeries { pair, hosts: &hosts };
        let mut reached = position.pair(pair.id, times.oldest);
        reached.minutes = series.read_minutes(reader, reached.minutes, times, &mut batch.samples)?;
        reached.runs = series.read_runs(reader, reached.runs, times, &mut batch.samples)?;
        batch.position.set_pair(pair.id, reached);
        batch.more_after = Some(pair.id);
    }
    if batch.more_after == pairs.last().map(|pair| pair.id) {
        batch.more_after = None;
    }
    batch.samples.sort_by_key(|sample| sample.time_millis);
    Ok(batch)
}

/// The series of a pair.
struct PairSeries<'a> {
    pair: &'a Pair,
    hosts: &'a BTreeMap<HostId, Host>,
}

impl PairSeries<'_> {
    /// Adds the figures of minutes from this one on; returns from which on nothing was sent yet.
    fn read_minutes<S: ReadStore>(
        &self,
        reader: &mut Reader<S>,
        from: i64,
        times: ReadTimes,
        samples: &mut Vec<Sample>,
    ) -> Result<i64, ArchiveError> {
        let minute = MINUTE.as_nanos();
        let first = -(-from).div_euclid(minute) * minute;
        let settled = times.settled.as_nanos().div_euclid(minute) * minute;
        let end = settled.min(first + MAX_MINUTES * minute);
        if first >= end {
            return Ok(from);
        }
        let (begin, finish) = (Time::from_nanos(first), Time::from_nanos(end));
        let points = ((end - first) / minute) as usize;
        let series = reader.series(&SeriesQuery { pair: self.pair.id, from: begin, to: finish, points })?;
        let whole =
            series.points.iter().filter(|point| point.length == MINUTE && (begin..finish).contains(&point.start));
        let mut last = None;
        for point in whole {
            last = Some((point.start + MINUTE).as_nanos());
            self.add_minute(point, samples);
        }
        Ok(last.unwrap_or_else(|| from.max(end.min(settled - MAX_LATENESS.as_nanos()))))
    }

    /// Adds the figures of measurements that ended after this; returns until when all have been sent.
    fn read_runs<S: ReadStore>(
        &self,
        reader: &mut Reader<S>,
        after: i64,
        times: ReadTimes,
        samples: &mut Vec<Sample>,
    ) -> Result<i64, ArchiveError> {
        let began = Time::from_nanos(after) - MAX_RUN_DURATION..times.horizon;
        let mut runs = reader.runs(self.pair.id, began, MAX_RUNS)?;
        runs.retain(|run| run.ended.as_nanos() > after && run.ended <= times.horizon);
        runs.sort_by_key(|run| run.ended);
        runs.iter().for_each(|run| self.add_run(run, samples));
        let last = runs.last().map(|run| run.ended.as_nanos());
        Ok(last.unwrap_or_else(|| after.max((times.horizon - MAX_LATENESS).as_nanos())))
    }

    /// The time of a minute's figures is its end.
    fn add_minute(&self, point: &Point, samples: &mut Vec<Sample>) {
        let delays = idle_delays(&point.summary);
        for (lane, name) in [(Lane::RoundTrip, "round_trip"), (Lane::Up, "up"), (Lane::Down, "down")] {
            let tally = &point.summary[lane].idle;
            if tally.is_empty() {
                continue;
            }
            let delay = |value: fn(&LaneDelay) -> f64| delays.iter().find(|delay| delay.lane == name).map(value);
            let count = |count: u64| Some(count as f64);
            for (metric, value) in [
                ("kumade_monitor_minute_sent", count(tally.sent())),
                ("kumade_monitor_minute_lost", count(tally.lost + tally.unknown)),
                ("kumade_monitor_minute_late", count(tally.late)),
                ("kumade_monitor_minute_duplicated", count(tally.duplicated)),
                ("kumade_monitor_minute_delay_minimum_seconds", delay(|delay| delay.minimum_seconds)),
                ("kumade_monitor_minute_delay_median_seconds", delay(|delay| delay.median_seconds)),
                ("kumade_monitor_minute_delay_95_seconds", delay(|delay| delay.quantile_95_seconds)),
                ("kumade_monitor_minute_delay_maximum_seconds", delay(|delay| delay.maximum_seconds)),
            ] {
                self.add(metric, ("lane", name), point.start + MINUTE, value, samples);
            }
        }
    }

    /// The time of a measurement's figures is when it ended. Names as on `/metrics`.
    fn add_run(&self, run: &Run, samples: &mut Vec<Sample>) {
        let shown = run_status(run);
        for (direction, figure) in [("up", shown.up), ("down", shown.down)] {
            let Some(RunFigure::Known { value, low, high }) = figure else { continue };
            for (metric, value) in [
                ("kumade_monitor_available_bits_per_second", value),
                ("kumade_monitor_available_low_bits_per_second", low),
                ("kumade_monitor_available_high_bits_per_second", high),
            ] {
                self.add(metric, ("direction", direction), run.ended, Some(value), samples);
            }
        }
    }

    fn add(
        &self,
        metric: &str,
        label: (&'static str, &str),
        time: Time,
        value: Option<f64>,
        samples: &mut Vec<Sample>,
    ) {
        let Some(value) = value.filter(|value| value.is_finite()) else { return };
        let labels = self.labels(metric, label);
        samples.push(Sample { labels, time_millis: time.as_nanos().div_euclid(1_000_000), value });
    }

    fn labels(&self, metric: &str, label: (&'static str, &str)) -> SeriesLabels {
        let name = |id: HostId| self.hosts.get(&id).map(host_label).unwrap_or_default();
        let (source, target) = (name(self.pair.source), name(self.pair.target));
        let ip_version = if self.pair.family == Family::V4 { "4" } else { "6" };
        let mut labels = vec![
            ("__name__", metric.to_owned()),
            ("ip_version", ip_version.to_owned()),
            ("pair", target.clone()),
            ("source", source),
            ("target", target),
            (label.0, label.1.to_owned()),
        ];
        labels.sort_unstable_by_key(|(name, _)| *name);
        Arc::new(labels)
    }
}

/// Its id; what is no id of the configuration is not shown.
fn host_label(host: &Host) -> String {
    if host.stable_id.starts_with('@') { host.name.clone() } else { host.stable_id.clone() }
}

impl ReadTimes {
    /// Nothing is sent of a time that has not come by either clock. Minutes are complete `settle` after their end.
    pub(crate) fn new(utc: Time, receiver_behind: Span, settle: Span, max_age: Span) -> Self {
        let horizon = utc - receiver_behind.max(Span::ZERO);
        ReadTimes { oldest: horizon - max_age, settled: horizon - settle, horizon }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote_write::position::PairPosition;

    #[test]
    fn nothing_is_sent_whose_time_has_not_come_by_either_clock() {
        let (now, settle) = (Time::from_nanos(1_800_000_000_000_000_000), Span::from_secs(10));
        let hour = Span::from_secs(3600);
        let times = ReadTimes::new(now, Span::ZERO, settle, hour);
        assert_eq!((times.horizon, times.settled, times.oldest), (now, now - settle, now - hour));
        let behind = ReadTimes::new(now, hour, settle, hour);
        assert_eq!((behind.horizon, behind.oldest), (now - hour, now - hour * 2), "the receiver's clock is behind");
        assert_eq!(ReadTimes::new(now, -hour, settle, hour).horizon, now, "it is ahead");
    }

    #[test]
    fn a_pair_without_a_position_begins_with_what_may_be_sent() {
        let oldest = Time::from_nanos(7);
        let start = PairPosition { minutes: 7, runs: 7 };
        assert_eq!(Position::default().pair(PairId(1), oldest), start);
        assert_eq!(Position::decode(Some(b"{")).pair(PairId(1), oldest), start, "a damaged one");
        let mut position = Position::default();
        position.set_pair(PairId(1), PairPosition { minutes: 60, runs: 3 });
        let read = Position::decode(Some(&position.encode()));
        assert_eq!(read.pair(PairId(1), oldest), PairPosition { minutes: 60, runs: 7 });
    }
}
