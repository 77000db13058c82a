//! What the page's questions ask for.

use super::heatmap::Shown;
use super::history::HistoryError;
use kumade_units::Time;
use serde::Deserialize;
use std::ops::Range;

/// What a page has seen of the status.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct KnownQuery {
    pub(super) after: Option<String>,
}

/// A range of time: seconds since 1970 (UTC). Without it, the last day.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(super) struct RangeQuery {
    from: Option<f64>,
    to: Option<f64>,
}

/// As [`RangeQuery`]; and of which path.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct EventsQuery {
    from: Option<f64>,
    to: Option<f64>,
    pub(super) pair: Option<String>,
}

/// As [`RangeQuery`]; and in how many points, about.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(super) struct SeriesQuery {
    from: Option<f64>,
    to: Option<f64>,
    points: Option<u32>,
}

/// As [`SeriesQuery`], of many paths: what is shown of each, and which of them, counted from zero in the order of the status.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(super) struct HeatmapQuery {
    from: Option<f64>,
    to: Option<f64>,
    points: Option<u32>,
    #[serde(default)]
    pub(super) show: Shown,
    #[serde(default)]
    first: usize,
    rows: Option<usize>,
}

const DEFAULT_RANGE_SECONDS: f64 = 86_400.0;
const DEFAULT_POINTS: u32 = 500;
/// More than a screen has.
const MAX_POINTS: u32 = 5000;
/// Each is some pixels wide.
const MAX_CELLS: u32 = 200;
/// A day of minutes of so many paths is read within about a second; whoever wants more asks again.
const MAX_ROWS: usize = 20;
/// In the year 2200: later ones do not fit into nanoseconds.
const MAX_SECONDS: f64 = 7_258_118_400.0;

impl RangeQuery {
    pub(super) fn range(self) -> Result<Range<Time>, HistoryError> {
        let to = self.to.unwrap_or_else(|| kumade_net::clock::realtime().as_secs_f64());
        let from = self.from.unwrap_or(to - DEFAULT_RANGE_SECONDS);
        let is_valid = (0.0..MAX_SECONDS).contains(&from) && (0.0..MAX_SECONDS).contains(&to) && from < to;
        let time = |seconds: f64| Time::from_nanos((seconds * 1e9) as i64);
        is_valid.then(|| time(from)..time(to)).ok_or(HistoryError::InvalidRange)
    }
}

impl RangeQuery {
    /// Without a range, from the beginning.
    pub(super) fn range_or_all(self) -> Result<Range<Time>, HistoryError> {
        RangeQuery { from: Some(self.from.unwrap_or(0.0)), to: self.to }.range()
    }
}

impl EventsQuery {
    pub(super) fn range(&self) -> Result<Range<Time>, HistoryError> {
        RangeQuery { from: self.from, to: self.to }.range()
    }
}

impl SeriesQuery {
    pub(super) fn range(self) -> Result<Range<Time>, HistoryError> {
        RangeQuery { from: self.from, to: self.to }.range()
    }

    pub(super) fn points(self) -> u32 {
        self.points.unwrap_or(DEFAULT_POINTS).clamp(1, MAX_POINTS)
    }
}

impl HeatmapQuery {
    pub(super) fn range(self) -> Result<Range<Time>, HistoryError> {
        RangeQuery { from: self.from, to: self.to }.range()
    }

    pub(super) fn points(self) -> u32 {
        self.points.unwrap_or(MAX_CELLS).clamp(1, MAX_CELLS)
    }

    /// Those of all paths that are asked for.
    pub(super) fn choose<T>(self, all: impl Iterator<Item = T>) -> Vec<T> {
        all.skip(self.first).take(self.rows.unwrap_or(MAX_ROWS).min(MAX_ROWS)).collect()
    }
}
