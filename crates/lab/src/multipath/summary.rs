use super::comparison::{Comparison, ComparisonResult, ContenderFigure};
use super::published::PublishedGoodput;
use super::row::MultipathRow;
use super::scenario::{MultipathCase, MultipathExperiment};
use crate::paper::Paper;
use crate::statistics::{distinct, mean, median, min_and_max};
use kumade_probe_train::Estimate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The rows summed up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MultipathSummary {
    /// One for each case and contender, in the order of running.
    pub points: Vec<PointSummary>,
    /// What the scenario asks about contenders, in each case.
    #[serde(default)]
    pub comparisons: Vec<ComparisonResult>,
    /// The published experiment that this one repeats; null where it repeats none.
    pub published: Option<Paper>,
}

/// The runs of one case with one contender.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PointSummary {
    /// The set of paths.
    pub case: String,
    /// The plane, with its ratio.
    pub contender: String,
    /// How many runs.
    pub runs: u32,
    /// Goodput: the mean over the runs, with its 95 % interval.
    pub goodput_bits_per_second: Option<Estimate<f64>>,
    /// The minimum of the runs.
    pub min_goodput_bits_per_second: Option<f64>,
    /// Goodput relative to the sum of the paths' rates.
    pub share_of_sum_ratio: Option<Estimate<f64>>,
    /// The minimum of the runs.
    pub min_share_of_sum_ratio: Option<f64>,
    /// What the framing leaves.
    pub framing_ratio: Option<f64>,
    /// Goodput relative to what the framing leaves of the sum of the paths' rates.
    pub share_of_framing_ratio: Option<Estimate<f64>>,
    /// The minimum of the runs.
    pub min_share_of_framing_ratio: Option<f64>,
    /// TCP segments that were sent more than once, the mean over the runs.
    pub retransmitted_segments: Option<f64>,
    /// Packets that arrived out of order, the mean over the runs.
    pub reordered_packets: Option<f64>,
    /// Packets that arrived, the mean over the runs.
    pub received_packets: Option<f64>,
    /// The 95th percentile of the extent of reordering, the mean over the runs.
    pub p95_extent_packets: Option<f64>,
    /// The largest extent of reordering.
    pub max_extent_packets: Option<u64>,
    /// Packets that did not arrive, the mean over the runs.
    pub lost_packets: Option<f64>,
    /// The longest time without an arrival at the application, the greatest of the runs.
    pub longest_gap_seconds: Option<f64>,
    /// 99th percentile of the sparse flow's delay above that of the shortest path, the greatest of the runs.
    pub sparse_added_p99_seconds: Option<f64>,
    /// Round trips of the echo, of the packets that came back: the median of the runs' medians.
    #[serde(default)]
    pub echo_median_seconds: Option<f64>,
    /// The median of the runs' 99th percentiles.
    #[serde(default)]
    pub echo_p99_seconds: Option<f64>,
    /// Part of the echo's packets that did not come back, the mean over the runs.
    #[serde(default)]
    pub echo_unanswered_ratio: Option<f64>,
    /// From the end of an outage until data arrived again: the median of the runs.
    #[serde(default)]
    pub recovery_seconds: Option<f64>,
    /// The congestion control of the flow; null for UDP.
    #[serde(default)]
    pub congestion_control: Option<String>,
    /// That of the connections that carry it; null where none do.
    #[serde(default)]
    pub lower_congestion_control: Option<String>,
    /// What was published of this contender on such paths.
    pub published: Vec<PublishedGoodput>,
    /// The minimum share of what the framing leaves that is to be reached; null where none is stated.
    pub required_share_ratio: Option<f64>,
}

impl MultipathSummary {
    /// Sums up the rows of `experiment`.
    pub fn from_rows(rows: &[MultipathRow], experiment: &MultipathExperiment) -> Self {
        let mut points = Vec::new();
        for case in &experiment.cases {
            for contender in &case.contenders {
                let name = contender.to_string();
                let own: Vec<_> = rows.iter().filter(|row| row.case == case.label && row.contender == name).collect();
                points.extend(PointSummary::from_rows(&own).map(|point| PointSummary {
                    published: published_goodputs(case, &name),
                    required_share_ratio:
                        case.required.iter().find(|(plane, _)| *plane == contender.plane).map(|(_, share)| *share),
                    ..point
                }));
            }
        }
        let summary = MultipathSummary { points, comparisons: Vec::new(), published: experiment.paper.clone() };
        let comparisons = experiment.comparisons.iter().flat_map(|comparison| summary.compare(comparison)).collect();
        MultipathSummary { comparisons, ..summary }
    }

    /// How it comes out in each of its cases.
    fn compare(&self, comparison: &Comparison) -> Vec<ComparisonResult> {
        let Comparison { contender, baseline: with, figure, min, max, published, cases } = comparison;
        let in_case = |case: &str| {
            if !cases.is_empty() && !cases.iter().any(|label| label == case) {
                return None;
            }
            let own = self.point(case, contender)?.figure_value(*figure);
            let other = match with {
                None => Some(1.0),
                Some(with) => self.point(case, with)?.figure_value(*figure),
            };
            Some(ComparisonResult {
                case: case.to_owned(),
                contender: contender.clone(),
                baseline: with.clone(),
                figure: *figure,
                value: own.zip(other).map(|(own, other)| own / other),
                min: *min,
                max: *max,
                published: *published,
            })
        };
        self.cases().into_iter().filter_map(in_case).collect()
    }

    /// The cases in the order of running.
    pub fn cases(&self) -> Vec<&str> {
        distinct(self.points.iter().map(|point| &*point.case))
    }

    /// The contenders in the order of running.
    pub fn contenders(&self) -> Vec<&str> {
        distinct(self.points.iter().map(|point| &*point.contender))
    }

    /// The runs of that contender in that case, if there are any.
    pub fn point(&self, case: &str, contender: &str) -> Option<&PointSummary> {
        self.points.iter().find(|point| point.case == case && point.contender == contender)
    }
}

fn published_goodputs(case: &MultipathCase, contender: &str) -> Vec<PublishedGoodput> {
    case.published.iter().filter(|published| published.contender == contender).cloned().collect()
}

impl PointSummary {
    fn figure_value(&self, figure: ContenderFigure) -> Option<f64> {
        match figure {
            ContenderFigure::Goodput => self.goodput_bits_per_second.map(|goodput| goodput.value),
            ContenderFigure::EchoMedian => self.echo_median_seconds,
            ContenderFigure::EchoP99 => self.echo_p99_seconds,
            ContenderFigure::Recovery => self.recovery_seconds,
        }
    }

    /// None of no rows.
    fn from_rows(rows: &[&MultipathRow]) -> Option<Self> {
        let first = rows.first()?;
        let all = |figure: &dyn Fn(&MultipathRow) -> Option<f64>| {
            rows.iter().filter_map(|row| figure(row)).collect::<Vec<_>>()
        };
        let min = |values: &[f64]| min_and_max(values).map(|(min, _)| min);
        let max = |values: &[f64]| min_and_max(values).map(|(_, max)| max);
        let goodputs = all(&|row| Some(row.goodput_bits_per_second));
        let (of_sum, of_framing) = (all(&|row| row.share_of_sum_ratio), all(&|row| row.share_of_framing_ratio));
        let order = |figure: &dyn Fn(&super::Reordering) -> Option<u64>| {
            all(&|row| row.order.as_ref().and_then(figure).map(|value| value as f64))
        };
        Some(PointSummary {
            case: first.case.clone(),
            contender: first.contender.clone(),
            runs: rows.len() as u32,
            goodput_bits_per_second: Estimate::from_mean(&goodputs),
            min_goodput_bits_per_second: min(&goodputs),
            share_of_sum_ratio: Estimate::from_mean(&of_sum),
            min_share_of_sum_ratio: min(&of_sum),
            framing_ratio: mean(&all(&|row| row.framing_ratio)),
            share_of_framing_ratio: Estimate::from_mean(&of_framing),
            min_share_of_framing_ratio: min(&of_framing),
            retransmitted_segments: mean(&all(&|row| row.retransmitted_segments.map(|count| count as f64))),
            reordered_packets: mean(&order(&|order| Some(order.reordered_packets))),
            received_packets: mean(&order(&|order| Some(order.packets))),
            p95_extent_packets: mean(&order(&|order| order.p95_extent_packets)),
            max_extent_packets: rows.iter().filter_map(|row| row.order?.max_extent_packets).max(),
            lost_packets: mean(&all(&|row| row.lost_packets.map(|count| count as f64))),
            longest_gap_seconds: max(&all(&|row| row.longest_gap_seconds)),
            sparse_added_p99_seconds: max(&all(&|row| row.sparse_added_p99_seconds)),
            echo_median_seconds: median(&all(&|row| row.echo.map(|echo| echo.round_trips.median_seconds))),
            echo_p99_seconds: median(&all(&|row| row.echo.map(|echo| echo.round_trips.p99_seconds))),
            echo_unanswered_ratio: mean(&all(&|row| row.echo.map(|echo| echo.unanswered_ratio))),
            recovery_seconds: median(&all(&|row| row.recovery_seconds)),
            congestion_control: first.congestion_control.clone(),
            lower_congestion_control: first.lower_congestion_control.clone(),
            published: Vec::new(),
            required_share_ratio: None,
        })
    }
}
