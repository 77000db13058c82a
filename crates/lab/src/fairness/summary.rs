use super::published::PublishedMix;
use super::row::{FairnessRow, GroupShare};
use super::scenario::FairnessExperiment;
use crate::paper::Paper;
use crate::statistics::{distinct, mean, min_and_max};
use kumade_probe_train::Estimate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The rows summed up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FairnessSummary {
    /// One for each case and discipline, in the order of running.
    pub points: Vec<PointSummary>,
    /// For each discipline, over all cases.
    pub disciplines: BTreeMap<String, DisciplineSummary>,
    /// The published experiment that this one repeats; null where it repeats none.
    pub published: Option<Paper>,
}

/// The runs of one case with one discipline.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PointSummary {
    /// The network.
    pub case: String,
    /// Round-trip delay added to all connections.
    pub added_delay_seconds: f64,
    /// The discipline.
    pub discipline: String,
    /// How many runs.
    pub runs: u32,
    /// Jain's index of the goodputs of all connections, as all figures with an interval the mean over the runs; null where
    /// nothing arrived.
    pub jain_index: Option<Estimate<f64>>,
    /// The minimum of the runs' indices.
    pub min_jain_index: Option<f64>,
    /// Utilisation of the bottleneck.
    pub utilisation_ratio: Option<Estimate<f64>>,
    /// Sum of the goodputs.
    pub goodput_bits_per_second: Option<Estimate<f64>>,
    /// Of each group: the mean goodput of its connections.
    pub groups: Vec<GroupSummary>,
    /// Median queueing delay, the mean over the runs.
    pub queueing_median_seconds: Option<f64>,
    /// 95th percentile of the queueing delay, the mean over the runs.
    pub queueing_p95_seconds: Option<f64>,
    /// Share of the packets that was dropped at the bottleneck.
    pub drop_ratio: Option<f64>,
    /// What was published of this very case.
    pub published: Option<PublishedMix>,
}

/// The share of one group of connections.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupSummary {
    /// Congestion control, and the delay that is the group's own.
    pub group: String,
    /// The mean goodput of its connections.
    pub goodput_bits_per_second: Option<Estimate<f64>>,
    /// Mean queueing delay of their packets, the mean over the runs; null where none passed.
    #[serde(default)]
    pub queueing_mean_seconds: Option<f64>,
    /// 99th percentile of it, the mean over the runs.
    #[serde(default)]
    pub queueing_p99_seconds: Option<f64>,
}

/// A discipline over all cases.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DisciplineSummary {
    /// Mean of the cases' indices.
    pub mean_jain_index: Option<f64>,
    /// The minimum of the indices of all cases and runs.
    pub min_jain_index: Option<f64>,
    /// The minimum of the cases' utilisations.
    pub min_utilisation_ratio: Option<f64>,
    /// By how much the goodput of all cases together falls short of tail drop's; null where that was not run.
    pub goodput_loss_ratio: Option<f64>,
}

/// What goodput is compared with.
const REFERENCE_DISCIPLINE: &str = "tail-drop";

impl FairnessSummary {
    /// Sums up the rows of `experiment`.
    pub fn from_rows(rows: &[FairnessRow], experiment: &FairnessExperiment) -> Self {
        let points: Vec<_> = distinct(rows.iter().map(|row| (&*row.case, &*row.discipline)))
            .into_iter()
            .filter_map(|(case, discipline)| {
                let rows: Vec<_> = rows.iter().filter(|r| r.case == case && r.discipline == discipline).collect();
                let published =
                    experiment.cases.iter().find(|known| known.label == case).and_then(|case| case.published);
                Some(PointSummary { published, ..PointSummary::from_rows(&rows)? })
            })
            .collect();
        FairnessSummary { disciplines: discipline_summaries(&points), points, published: experiment.paper.clone() }
    }

    /// The disciplines in the order of running.
    pub fn discipline_names(&self) -> Vec<&str> {
        distinct(self.points.iter().map(|point| &*point.discipline))
    }
}

impl PointSummary {
    /// None of no rows.
    fn from_rows(rows: &[&FairnessRow]) -> Option<Self> {
        let first = rows.first()?;
        let all = |figure: &dyn Fn(&FairnessRow) -> Option<f64>| {
            rows.iter().filter_map(|row| figure(row)).collect::<Vec<_>>()
        };
        let groups = first.groups.iter().enumerate().map(|(index, GroupShare { group, .. })| GroupSummary {
            group: group.clone(),
            goodput_bits_per_second: Estimate::from_mean(&all(&|row| {
                row.groups.get(index).map(|group| group.mean_goodput_bits_per_second)
            })),
            queueing_mean_seconds: mean(&all(&|row| row.groups.get(index)?.queueing_mean_seconds)),
            queueing_p99_seconds: mean(&all(&|row| row.groups.get(index)?.queueing_p99_seconds)),
        });
        let dropped = |row: &FairnessRow| {
            let drops = row.drops.queue_full_packets + row.drops.managed_packets;
            (row.drops.offered_packets > 0).then(|| drops as f64 / row.drops.offered_packets as f64)
        };
        Some(PointSummary {
            case: first.case.clone(),
            added_delay_seconds: first.added_delay_seconds,
            discipline: first.discipline.clone(),
            runs: rows.len() as u32,
            jain_index: Estimate::from_mean(&all(&|row| row.jain_index)),
            min_jain_index: min_and_max(&all(&|row| row.jain_index)).map(|(min, _)| min),
            utilisation_ratio: Estimate::from_mean(&all(&|row| Some(row.utilisation_ratio))),
            goodput_bits_per_second: Estimate::from_mean(&all(&|row| Some(row.goodput_bits_per_second))),
            groups: groups.collect(),
            queueing_median_seconds: mean(&all(&|row| row.queueing.map(|delays| delays.median_seconds))),
            queueing_p95_seconds: mean(&all(&|row| row.queueing.map(|delays| delays.p95_seconds))),
            drop_ratio: mean(&all(&dropped)),
            published: None,
        })
    }
}

fn discipline_summaries(points: &[PointSummary]) -> BTreeMap<String, DisciplineSummary> {
    let mut own: BTreeMap<&str, Vec<&PointSummary>> = BTreeMap::new();
    for point in points {
        own.entry(&point.discipline).or_default().push(point);
    }
    let reference = own.get(REFERENCE_DISCIPLINE).cloned().unwrap_or_default();
    let summary = |points: &Vec<&PointSummary>| {
        let indices: Vec<_> = points.iter().filter_map(|point| Some(point.jain_index?.value)).collect();
        let least: Vec<_> = points.iter().filter_map(|point| point.min_jain_index).collect();
        let used: Vec<_> = points.iter().filter_map(|point| Some(point.utilisation_ratio?.value)).collect();
        DisciplineSummary {
            mean_jain_index: mean(&indices),
            min_jain_index: min_and_max(&least).map(|(min, _)| min),
            min_utilisation_ratio: min_and_max(&used).map(|(min, _)| min),
            goodput_loss_ratio: goodput_loss(points, &reference),
        }
    };
    own.iter().map(|(name, points)| ((*name).to_owned(), summary(points))).collect()
}

/// Over the cases that both have.
fn goodput_loss(points: &[&PointSummary], reference: &[&PointSummary]) -> Option<f64> {
    let of_case = |case: &str| reference.iter().find(|point| point.case == case)?.goodput_bits_per_second;
    let pairs =
        points.iter().filter_map(|point| Some((point.goodput_bits_per_second?.value, of_case(&point.case)?.value)));
    let (own, theirs) = pairs.fold((0.0, 0.0), |(own, theirs), (a, b)| (own + a, theirs + b));
    (theirs > 0.0).then(|| 1.0 - own / theirs)
}
