use super::row::ContentionRow;
use crate::statistics::{distinct, mean, min_and_max};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// All runs summed up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ContentionSummary {
    /// By case and discipline, in the order of running.
    pub points: Vec<PointSummary>,
}

/// The runs of one case with one discipline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PointSummary {
    /// Who competed.
    pub case: String,
    /// The discipline before the bottleneck, with its settings.
    pub discipline: String,
    /// How many runs there were.
    pub runs: usize,
    /// What they came to, by the names of the figures, each of which ends in its unit. A figure that no run has is missing.
    pub figures: BTreeMap<String, Spread>,
}

/// A figure over several runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Spread {
    /// The mean over the runs.
    pub mean: f64,
    /// That of the worst run: the maximum, or the minimum where more is better.
    pub worst: f64,
}

/// A figure of a run that is summed up.
pub(super) struct SummaryFigure {
    /// As documents call it.
    pub(super) name: &'static str,
    /// As tables call it, with its unit.
    pub(super) heading: &'static str,
    /// By what tables multiply it, and with how many decimals they show it.
    pub(super) scale_and_decimals: (f64, usize),
    higher_is_better: bool,
    /// Of a run, in SI units.
    pub(super) value_of: fn(&ContentionRow) -> Option<f64>,
}

/// What becomes of shares.
pub(super) const SHARE_FIGURES: &[SummaryFigure] = &[
    SummaryFigure::most("attack_share_ratio", "attacker, × share", (1.0, 2), |row| {
        row.attack.as_ref().map(|attack| attack.share_ratio)
    }),
    SummaryFigure::least("bulk_share_ratio", "bulk, % of fair", (100.0, 1), |row| Some(row.bulk_share_ratio)),
    SummaryFigure::least("jain_index", "Jain's index", (1.0, 3), |row| row.jain_index),
    SummaryFigure::least("utilisation_ratio", "utilisation, %", (100.0, 1), |row| Some(row.utilisation_ratio)),
    SummaryFigure::most("longest_stall_seconds", "stall, s", (1.0, 2), |row| Some(row.longest_stall_seconds)),
    SummaryFigure::most("drop_ratio", "drops, %", (100.0, 2), |row| {
        let dropped = row.drops.queue_full_packets + row.drops.managed_packets;
        (row.drops.offered_packets > 0).then(|| dropped as f64 / row.drops.offered_packets as f64)
    }),
    SummaryFigure::most("bulk_retransmission_ratio", "bulk sent again, %", (100.0, 2), |row| {
        (row.bulk_packets > 0).then(|| row.bulk_retransmissions as f64 / row.bulk_packets as f64)
    }),
];

/// What becomes of delays.
pub(super) const DELAY_FIGURES: &[SummaryFigure] = &[
    SummaryFigure::most("probe_added_median_seconds", "probes p50, ms", (1e3, 2), |row| {
        row.probes?.added.map(|added| added.median_seconds)
    }),
    SummaryFigure::most("probe_added_p95_seconds", "p95, ms", (1e3, 2), |row| {
        row.probes?.added.map(|added| added.p95_seconds)
    }),
    SummaryFigure::most("probe_added_p99_seconds", "p99, ms", (1e3, 2), |row| {
        row.probes?.added.map(|added| added.p99_seconds)
    }),
    SummaryFigure::most("probe_lost_ratio", "lost, %", (100.0, 2), |row| row.probes.map(|probes| probes.lost_ratio)),
    SummaryFigure::most("short_flow_mean_seconds", "short flows, ms", (1e3, 1), |row| row.short_flows?.mean_seconds),
    SummaryFigure::most("short_flow_p99_seconds", "p99, ms", (1e3, 0), |row| {
        row.short_flows?.times.map(|times| times.p99_seconds)
    }),
    SummaryFigure::most("queueing_median_seconds", "queue p50, ms", (1e3, 1), |row| {
        row.queueing.map(|delays| delays.median_seconds)
    }),
    SummaryFigure::most("queueing_p99_seconds", "p99, ms", (1e3, 1), |row| {
        row.queueing.map(|delays| delays.p99_seconds)
    }),
];

impl ContentionSummary {
    /// Of these rows, those of a case and discipline together.
    pub(super) fn from_rows(rows: &[ContentionRow]) -> Self {
        let groups = rows.chunk_by(|a, b| (&a.case, &a.discipline) == (&b.case, &b.discipline));
        ContentionSummary { points: groups.filter_map(PointSummary::from_rows).collect() }
    }

    /// The disciplines in the order of running.
    pub(super) fn discipline_names(&self) -> Vec<&str> {
        distinct(self.points.iter().map(|point| &*point.discipline))
    }
}

impl PointSummary {
    fn from_rows(rows: &[ContentionRow]) -> Option<Self> {
        let first = rows.first()?;
        let figures = SHARE_FIGURES.iter().chain(DELAY_FIGURES);
        let figures = figures.filter_map(|figure| Some((figure.name.to_owned(), figure.spread_over(rows)?)));
        Some(PointSummary {
            case: first.case.clone(),
            discipline: first.discipline.clone(),
            runs: rows.len(),
            figures: figures.collect(),
        })
    }
}

impl SummaryFigure {
    /// One whose maximum is the worst.
    const fn most(
        name: &'static str,
        heading: &'static str,
        scale_and_decimals: (f64, usize),
        value_of: fn(&ContentionRow) -> Option<f64>,
    ) -> Self {
        SummaryFigure { name, heading, scale_and_decimals, higher_is_better: false, value_of }
    }

    /// One whose minimum is.
    const fn least(
        name: &'static str,
        heading: &'static str,
        scale_and_decimals: (f64, usize),
        value_of: fn(&ContentionRow) -> Option<f64>,
    ) -> Self {
        SummaryFigure { name, heading, scale_and_decimals, higher_is_better: true, value_of }
    }

    fn spread_over(&self, rows: &[ContentionRow]) -> Option<Spread> {
        let values: Vec<_> = rows.iter().filter_map(self.value_of).collect();
        let (min, max) = min_and_max(&values)?;
        Some(Spread { mean: mean(&values)?, worst: if self.higher_is_better { min } else { max } })
    }

    /// As a cell of a table.
    pub(super) fn format_cell(&self, point: &PointSummary) -> String {
        let (factor, decimals) = self.scale_and_decimals;
        point.figures.get(self.name).map_or("–".to_owned(), |Spread { mean, worst }| {
            format!("{:.decimals$} ({:.decimals$})", mean * factor, worst * factor)
        })
    }
}
