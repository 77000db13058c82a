use crate::accuracy::experiment::AccuracyExperiment;
use crate::accuracy::full_measurement::FullSummary;
use crate::accuracy::published::PublishedResult;
use crate::accuracy::row::Row;
use crate::statistics::{mean, median};
use kumade_units::{Direction, Rate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// One value for each transport and method that was measured: transport → method with its parameters → value.
pub type ByMethod<T> = BTreeMap<String, BTreeMap<String, T>>;

/// The rows summed up by transport and method. A figure is null where no run contributes to it. Runs that were discarded
/// and repeated are in no figure but `repeats`; disturbed runs that were kept are in all.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// Runs in the rows.
    pub runs: ByMethod<u32>,
    /// Those among them without an estimate; they are in no figure of error.
    pub runs_without_estimate: ByMethod<u32>,
    /// Mean of |estimate − truth|.
    pub mean_absolute_error_bits_per_second: ByMethod<Option<f64>>,
    /// Mean of |estimate − truth| / capacity of the bottleneck.
    pub mean_absolute_error_to_capacity_ratio: ByMethod<Option<f64>>,
    /// Median of |estimate − truth| / truth.
    pub median_relative_error_ratio: ByMethod<Option<f64>>,
    /// Mean of estimate − truth.
    pub bias_bits_per_second: ByMethod<Option<f64>>,
    /// Coverage: share of the estimates whose interval covers the run's truth.
    pub interval_coverage_ratio: ByMethod<Option<f64>>,
    /// Mean number of IP bytes sent in trains in one direction.
    pub mean_sent_bytes: ByMethod<Option<f64>>,
    /// Mean duration of one direction.
    pub mean_duration_seconds: ByMethod<Option<f64>>,
    /// Mean duration of full measurements, with both directions, capacity and delay; only where there were any.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub mean_full_seconds: ByMethod<Option<f64>>,
    /// Capacity, token buckets and delay of full measurements, by transport; only where there were any.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub full: BTreeMap<String, FullSummary>,
    /// Runs discarded and repeated, because host scheduling delay disturbed them.
    pub repeats: ByMethod<u32>,
    /// Runs kept although they were disturbed, as no repetition was left.
    pub runs_disturbed: ByMethod<u32>,
    /// Maximum delay of a packet of the first train behind its planned sending time, the mean over the runs; only where
    /// the experiment shows the train.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub mean_max_sending_delay_seconds: ByMethod<Option<f64>>,
    /// What was published; null where the experiment repeats none.
    pub published: Option<PublishedSummary>,
}

/// The figures of the published experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PublishedSummary {
    /// The system measured there.
    pub system: String,
    /// The paper's figures or tables.
    pub figure: String,
    /// Its set-up or result in a few words.
    pub setting: String,
    /// Its mean of |estimate − truth|, by transport.
    pub mean_absolute_error_bits_per_second: BTreeMap<String, f64>,
    /// Of which method that is, by transport: the one here that follows the paper's rule.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub mean_absolute_error_methods: BTreeMap<String, String>,
    /// Its other figures, in its order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<PublishedFigure>,
}

/// One published result, and what it is about; null where that was the same for all, or was not said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PublishedFigure {
    /// What the paper calls it.
    pub series: String,
    /// The estimator.
    pub method: Option<String>,
    /// Mean rate of the cross traffic.
    pub cross_bits_per_second: Option<u64>,
    /// The estimate; null where there was none.
    pub available_bits_per_second: Option<u64>,
    /// What was available; null where the paper does not know.
    #[serde(default)]
    pub truth_bits_per_second: Option<u64>,
    /// How long it took.
    pub seconds: Option<f64>,
    /// Whether the time is that of a full measurement, and not of the available bandwidth alone.
    pub full: bool,
}

impl Summary {
    /// Sums up the rows of `experiment`.
    pub fn from_rows(rows: &[Row], experiment: &AccuracyExperiment) -> Self {
        let each = RowGroups::group_rows(rows);
        let errors = |row: &Row| row.error_bits_per_second.map(|error| error as f64);
        let relative = |row: &Row| match row.truth_bits_per_second {
            0 => None,
            truth => errors(row).map(|error| error.abs() / truth as f64),
        };
        let traced = rows.iter().any(|row| !row.timeline.is_empty());
        Summary {
            runs: each.count(|_| true),
            runs_without_estimate: each.count(|row| row.available_bits_per_second.is_none()),
            mean_absolute_error_bits_per_second: each.reduce(|row| errors(row).map(f64::abs), mean),
            mean_absolute_error_to_capacity_ratio: each.reduce(Row::rate_error, mean),
            median_relative_error_ratio: each.reduce(relative, median),
            bias_bits_per_second: each.reduce(errors, mean),
            interval_coverage_ratio: each.reduce(|row| row.covers_truth().map(|held| f64::from(u8::from(held))), mean),
            mean_sent_bytes: each.reduce(|row| Some(row.bytes_sent as f64), mean),
            mean_duration_seconds: each.reduce(|row| Some(row.duration_seconds), mean),
            mean_full_seconds: match rows.iter().any(|row| row.full_seconds.is_some()) {
                true => each.reduce(|row| row.full_seconds, mean),
                false => BTreeMap::new(),
            },
            full: full_summaries(rows),
            repeats: each.map_groups(|rows| rows.iter().map(|row| row.repeats).sum()),
            runs_disturbed: each.count(|row| row.disturbed),
            mean_max_sending_delay_seconds: match traced {
                true => each.reduce(max_sending_delay, mean),
                false => BTreeMap::new(),
            },
            published: PublishedSummary::from_experiment(experiment),
        }
    }

    /// The paper's mean absolute error over `transport`, if it is about this method.
    pub fn published_error(&self, transport: &str, method: &str) -> Option<f64> {
        let published = self.published.as_ref()?;
        let is_by = published.mean_absolute_error_methods.get(transport).is_none_or(|by| by == method);
        published.mean_absolute_error_bits_per_second.get(transport).copied().filter(|_| is_by)
    }
}

impl PublishedSummary {
    fn from_experiment(experiment: &AccuracyExperiment) -> Option<Self> {
        let (paper, published) = (experiment.paper.as_ref()?, &experiment.published);
        let error = |published: &PublishedResult| {
            let transport = published.transport?.word().to_owned();
            Some((transport, published.mean_absolute_error?.as_f64()))
        };
        let error_method = |published: &PublishedResult| {
            published.mean_absolute_error?;
            Some((published.transport?.word().to_owned(), published.method.as_ref()?.to_string()))
        };
        Some(PublishedSummary {
            system: paper.system.clone(),
            figure: paper.figure.clone(),
            setting: paper.setting.clone(),
            mean_absolute_error_bits_per_second: published.iter().filter_map(error).collect(),
            mean_absolute_error_methods: published.iter().filter_map(error_method).collect(),
            figures: published
                .iter()
                .filter(|p| p.mean_absolute_error.is_none())
                .map(PublishedFigure::from_published)
                .collect(),
        })
    }
}

impl PublishedFigure {
    fn from_published(published: &PublishedResult) -> Self {
        PublishedFigure {
            series: published.series.clone(),
            method: published.method.as_ref().map(ToString::to_string),
            cross_bits_per_second: published.cross.map(Rate::bits_per_second),
            available_bits_per_second: published.available.map(Rate::bits_per_second),
            truth_bits_per_second: published.truth.map(Rate::bits_per_second),
            seconds: published.seconds,
            full: published.full,
        }
    }

    /// Whether a run is about the same path: all that is published is about the up direction.
    pub(crate) fn is_same_path(&self, row: &Row) -> bool {
        let same_cross = self.cross_bits_per_second.is_none_or(|cross| cross == row.cross_bits_per_second);
        row.direction == Direction::Up && same_cross
    }

    /// Whether a run was made by the same estimator.
    pub(crate) fn is_same_method(&self, row: &Row) -> bool {
        self.method.as_ref() == Some(&row.method)
    }
}

/// By transport: it does not depend on the method.
fn full_summaries(rows: &[Row]) -> BTreeMap<String, FullSummary> {
    let mut by_transport: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        by_transport.entry(row.transport.word()).or_default().push(row);
    }
    let of = |(transport, rows): (&str, Vec<_>)| Some((transport.to_owned(), FullSummary::from_rows(&rows)?));
    by_transport.into_iter().filter_map(of).collect()
}

/// The maximum delay of a packet behind its planned sending time.
fn max_sending_delay(row: &Row) -> Option<f64> {
    row.timeline.iter().filter_map(|p| p.sent_seconds.map(|sent| sent - p.planned_seconds)).max_by(f64::total_cmp)
}

/// The rows by transport and method.
struct RowGroups<'a> {
    rows: &'a [Row],
    transport_methods: BTreeSet<(&'a str, String)>,
}

impl<'a> RowGroups<'a> {
    fn group_rows(rows: &'a [Row]) -> Self {
        RowGroups {
            rows,
            transport_methods: rows.iter().map(|row| (row.transport.word(), row.method.clone())).collect(),
        }
    }

    fn map_groups<T>(&self, value: impl Fn(&[&Row]) -> T) -> ByMethod<T> {
        let mut by_method = ByMethod::new();
        for (transport, method) in &self.transport_methods {
            let own = |row: &&Row| row.transport.word() == *transport && row.method == *method;
            let rows: Vec<_> = self.rows.iter().filter(own).collect();
            by_method.entry((*transport).to_owned()).or_default().insert(method.clone(), value(&rows));
        }
        by_method
    }

    fn count(&self, counted: impl Fn(&Row) -> bool) -> ByMethod<u32> {
        self.map_groups(|rows| rows.iter().filter(|row| counted(row)).count() as u32)
    }

    fn reduce(
        &self,
        part: impl Fn(&Row) -> Option<f64>,
        statistic: impl Fn(&[f64]) -> Option<f64>,
    ) -> ByMethod<Option<f64>> {
        self.map_groups(|rows| statistic(&rows.iter().filter_map(|row| part(row)).collect::<Vec<_>>()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accuracy::keywords::Transport;
    use crate::accuracy::row::TimelinePacket;
    use crate::accuracy::sample_reports::{failed_row, load_accuracy_experiment, measured_row};

    fn rows() -> Vec<Row> {
        vec![
            measured_row(Transport::Rake, "primed", 0, 1, 0.2),
            measured_row(Transport::Rake, "primed", 50, 1, -0.6),
            measured_row(Transport::Rake, "linear-scan", 50, 1, 9.0),
            measured_row(Transport::Udp, "primed", 50, 1, 0.1),
            failed_row(Transport::Udp, "primed", 50, 2, "UDP is rejected"),
        ]
    }

    fn summed(rows: &[Row]) -> Summary {
        Summary::from_rows(rows, &load_accuracy_experiment("rake-accuracy"))
    }

    fn close(value: Option<f64>, expected: f64) -> bool {
        (value.unwrap() - expected).abs() < 1e-6 * expected.abs().max(1.0)
    }

    #[test]
    fn errors_are_summed_up_by_transport_and_method() {
        let summary = summed(&rows());
        let mae = &summary.mean_absolute_error_bits_per_second;
        assert!(close(mae["rake"]["primed"], 400_000.0));
        assert!(close(mae["rake"]["linear-scan"], 9_000_000.0));
        assert!(close(summary.bias_bits_per_second["rake"]["primed"], -200_000.0));
        assert!(close(summary.median_relative_error_ratio["rake"]["primed"], (0.002 + 0.012) / 2.0));
        assert!(summary.mean_max_sending_delay_seconds.is_empty());
    }

    #[test]
    fn a_run_without_an_estimate_is_counted_and_affects_no_figure() {
        let summary = summed(&rows());
        assert_eq!((summary.runs["udp"]["primed"], summary.runs_without_estimate["udp"]["primed"]), (2, 1));
        assert!(close(summary.mean_absolute_error_bits_per_second["udp"]["primed"], 100_000.0));
        let none = summed(&rows()[4..]);
        assert_eq!(none.mean_absolute_error_bits_per_second["udp"]["primed"], None);
        assert_eq!(none.interval_coverage_ratio["udp"]["primed"], None);
    }

    #[test]
    fn coverage_is_the_share_of_intervals_that_cover_their_runs_truth() {
        // The samples' intervals reach 0.5 Mbit/s to each side.
        assert!(close(summed(&rows()).interval_coverage_ratio["rake"]["primed"], 0.5));
    }

    #[test]
    fn disturbed_runs_are_counted() {
        let mut rows = rows();
        (rows[0].repeats, rows[1].repeats, rows[1].disturbed) = (1, 3, true);
        let summary = summed(&rows);
        assert_eq!((summary.repeats["rake"]["primed"], summary.runs_disturbed["rake"]["primed"]), (4, 1));
    }

    #[test]
    fn the_maximum_sending_delay_shows_how_far_a_window_delayed_packets() {
        let packet = |planned_seconds, sent_seconds| TimelinePacket {
            size_bytes: 100,
            planned_seconds,
            sent_seconds,
            received_seconds: None,
        };
        let mut row = measured_row(Transport::Single, "linear-scan", 50, 1, 0.0);
        row.timeline = vec![packet(0.0, Some(0.0)), packet(0.001, Some(0.081)), packet(0.002, None)];
        let summary = summed(&[row]);
        assert!(close(summary.mean_max_sending_delay_seconds["single"]["linear-scan"], 0.08));
    }

    #[test]
    fn the_papers_figures_are_in_the_summary() {
        let summary = Summary::from_rows(&rows(), &load_accuracy_experiment("rake-accuracy"));
        assert_eq!(summary.published_error("rake", "linear-scan"), Some(15_600_000.0));
        assert_eq!(summary.published_error("rake", "primed"), None, "another method than the paper's");
        assert_eq!(summary.published_error("single", "linear-scan"), None);
    }
}
