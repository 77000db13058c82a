//! All paths over the same time, in few numbers each: what the heat map is drawn from.

use super::history::{GapEntry, History, HistoryError};
use crate::run_document::run_status;
use crate::status::RunFigure;
use kumade_archive::{PairId, Run, Series, SeriesQuery};
use kumade_sketch::Lane;
use kumade_units::{Span, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;

/// What is shown of each path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Shown {
    /// Light probes, and how many of them were lost.
    #[default]
    Loss,
    /// Available bandwidth to the target.
    Up,
    /// Available bandwidth from the target.
    Down,
}

/// Some of the paths over one time.
#[derive(Debug, Serialize)]
pub(super) struct HeatmapDocument {
    /// Begin of the first cell.
    from_seconds: f64,
    /// Length of a cell.
    resolution_seconds: f64,
    /// Those that were asked for, in their order.
    rows: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    pair: String,
    /// By time; none where nothing is known.
    cells: Vec<Cell>,
    /// Times without probes, and why.
    gaps: Vec<GapEntry>,
}

/// One stretch of time: the resolution, or longer where only coarser sums are still kept.
#[derive(Debug, Serialize)]
struct Cell {
    from_seconds: f64,
    length_seconds: f64,
    #[serde(flatten)]
    content: Content,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Content {
    Probes {
        /// While no measurement ran.
        sent: u64,
        lost: u64,
        /// Probes that were sent while a measurement ran.
        disturbed: u64,
    },
    Runs {
        /// The median of those with a value; none where none has one.
        value: Option<f64>,
        /// The least lower end of their intervals, and the greatest upper one.
        low: Option<f64>,
        high: Option<f64>,
        /// Measurements with a value, and without.
        known: usize,
        unknown: usize,
    },
}

/// Of one path; a smaller range has them all.
const MAX_RUNS: u32 = 5000;

impl History {
    /// Of these paths, which may be unknown to the archive so far.
    pub(super) fn heatmap(
        &self,
        pairs: Vec<String>,
        shown: Shown,
        range: Range<Time>,
        points: u32,
    ) -> Result<HeatmapDocument, HistoryError> {
        let query = |pair| SeriesQuery { pair, from: range.start, to: range.end, points: points as usize };
        let (start, step) = query(PairId(0)).steps();
        let mut rows = Vec::new();
        for pair in pairs {
            let Ok(number) = self.number(&pair) else {
                rows.push(Row { pair, cells: Vec::new(), gaps: Vec::new() });
                continue;
            };
            let (cells, gaps) = self.read(|reader| {
                let cells = match shown {
                    Shown::Loss => probe_cells(&reader.series(&query(number))?),
                    Shown::Up | Shown::Down => {
                        run_cells(&reader.runs(number, range.clone(), MAX_RUNS)?, shown, start, step)
                    }
                };
                Ok((cells, reader.gaps(number, range.clone())?))
            })?;
            rows.push(Row { pair, cells, gaps: gaps.into_iter().map(GapEntry::from).collect() });
        }
        Ok(HeatmapDocument { from_seconds: start.as_secs_f64(), resolution_seconds: step.as_secs_f64(), rows })
    }
}

fn probe_cells(series: &Series) -> Vec<Cell> {
    let cell = |point: &kumade_archive::Point| {
        // Each probe counts in the one or in the other.
        let lanes = [Lane::RoundTrip, Lane::Up].map(|lane| &point.summary[lane]);
        Cell {
            from_seconds: point.start.as_secs_f64(),
            length_seconds: point.length.as_secs_f64(),
            content: Content::Probes {
                sent: lanes.iter().map(|lane| lane.idle.sent()).sum(),
                lost: lanes.iter().map(|lane| lane.idle.lost + lane.idle.unknown).sum(),
                disturbed: lanes.iter().map(|lane| lane.disturbed.sent()).sum(),
            },
        }
    };
    series.points.iter().map(cell).collect()
}

fn run_cells(runs: &[Run], shown: Shown, start: Time, step: Span) -> Vec<Cell> {
    let mut cells: BTreeMap<i64, Vec<Option<[f64; 3]>>> = BTreeMap::new();
    for run in runs {
        let status = run_status(run);
        let figure = if shown == Shown::Up { status.up } else { status.down };
        let found = match figure {
            Some(RunFigure::Known { value, low, high }) => Some([value, low, high]),
            Some(RunFigure::Unknown { .. }) => None,
            // It failed, or had no such direction.
            None if status.error.is_some() => None,
            None => continue,
        };
        cells.entry((run.started - start).as_nanos().div_euclid(step.as_nanos())).or_default().push(found);
    }
    let cell = |(place, found): (i64, Vec<Option<[f64; 3]>>)| {
        let mut known: Vec<[f64; 3]> = found.iter().copied().flatten().collect();
        known.sort_by(|one, other| one[0].total_cmp(&other[0]));
        Cell {
            from_seconds: (start + step * place).as_secs_f64(),
            length_seconds: step.as_secs_f64(),
            content: Content::Runs {
                value: known.get(known.len() / 2).map(|[value, ..]| *value),
                low: known.iter().map(|[_, low, _]| *low).reduce(f64::min),
                high: known.iter().map(|[.., high]| *high).reduce(f64::max),
                known: known.len(),
                unknown: found.len() - known.len(),
            },
        }
    };
    cells.into_iter().map(cell).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_archive::Figures;

    fn run(seconds: i64, up: &str) -> Run {
        let started = Time::ZERO + Span::from_secs(seconds);
        let document = format!(r#"{{"up":{{"available_bits_per_second":{up},"reason":"none"}}}}"#);
        let figures = Figures::from_document(&serde_json::from_str(&document).unwrap());
        Run { id: 1, pair: PairId(1), started, ended: started, schema: String::new(), figures }
    }

    #[test]
    fn measurements_of_a_cell_come_to_their_median_and_the_widest_interval() {
        let estimate =
            |value: u32| format!(r#"{{"value":{value},"low":{},"high":{},"confidence":0.95}}"#, value - 1, value + 1);
        let runs =
            [run(125, "null"), run(70, &estimate(30)), run(65, &estimate(10)), run(60, &estimate(20)), run(61, "null")];
        let cells = run_cells(&runs, Shown::Up, Time::ZERO, Span::from_secs(60));
        let document = serde_json::to_value(&cells).unwrap();
        let cell = |place: usize| {
            ["from_seconds", "value", "low", "high", "known", "unknown"]
                .map(|name| document[place][name].as_f64().map(f64::round))
        };
        assert_eq!(cells.len(), 2);
        assert_eq!(cell(0), [60.0, 20.0, 9.0, 31.0, 3.0, 1.0].map(Some));
        assert_eq!(cell(1), [Some(120.0), None, None, None, Some(0.0), Some(1.0)]);
        assert!(run_cells(&runs, Shown::Down, Time::ZERO, Span::from_secs(60)).is_empty());
    }
}
