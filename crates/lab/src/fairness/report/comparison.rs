use super::document::FairnessReport;
use crate::fairness::summary::PointSummary;
use crate::report::{Table, align_columns};
use kumade_probe_train::Estimate;

/// Compares two reports of the same experiment, such as a virtual and a real one: a line for each case, discipline and
/// group that both have, as text for a terminal. Goodputs and indices are means over the runs; each difference has its
/// 95 % interval.
pub fn compare(one: &FairnessReport, other: &FairnessReport) -> String {
    let columns = ["case", "discipline", "group", "goodput", "other", "difference", "index", "other", "difference"];
    let mut table = Table {
        caption: format!("{} ({}) against {} ({})", one.experiment, time_kind(one), other.experiment, time_kind(other)),
        columns: columns.map(str::to_owned).to_vec(),
        rows: Vec::new(),
    };
    let mut worst = LargestDifferences::default();
    for point in &one.summary.points {
        let same = |twin: &&PointSummary| twin.case == point.case && twin.discipline == point.discipline;
        let Some(twin) = other.summary.points.iter().find(same) else { continue };
        table.rows.extend(difference_lines(point, twin, &mut worst));
    }
    if table.rows.is_empty() {
        return "the two reports have no case and discipline in common\n".to_owned();
    }
    format!("{}\n{}\n", align_columns(&table), worst.in_words())
}

fn time_kind(report: &FairnessReport) -> &'static str {
    if report.virtual_time { "virtual time" } else { "real time" }
}

/// A difference of two means over runs.
#[derive(Debug, Clone, Copy)]
struct MeanDifference {
    value: f64,
    /// Half the width of its 95 % interval; none where one side is a single run.
    margin: Option<f64>,
}

impl MeanDifference {
    fn between(one: Estimate<f64>, other: Estimate<f64>) -> Self {
        let margin = one.margin().zip(other.margin()).map(|(one, other)| one.hypot(other));
        MeanDifference { value: other.value - one.value, margin }
    }

    fn relative_to(self, unit: f64) -> Self {
        MeanDifference { value: self.value / unit, margin: self.margin.map(|margin| margin / unit) }
    }

    fn format_with_margin(self, digits: usize) -> String {
        let margin = self.margin.map(|margin| format!(" ± {margin:.digits$}")).unwrap_or_default();
        format!("{:+.digits$}{margin}", self.value)
    }

    /// The lower end of its interval: the part that is significant.
    fn significant_part(self) -> f64 {
        (self.value.abs() - self.margin.unwrap_or(0.0)).max(0.0)
    }
}

/// The largest differences: as measured, and their significant part.
#[derive(Debug, Default)]
struct LargestDifferences {
    goodput: (f64, f64),
    index: (f64, f64),
}

impl LargestDifferences {
    fn update_largest(worst: &mut (f64, f64), difference: MeanDifference) {
        *worst = (worst.0.max(difference.value.abs()), worst.1.max(difference.significant_part()));
    }

    fn in_words(&self) -> String {
        let ((goodput, significant_goodput), (index, significant_index)) = (self.goodput, self.index);
        format!(
            "Goodput per connection in Mbit/s, differences in percent of it, with 95 % intervals.\n\
             Largest differences: {:.1} % of a group's goodput, {index:.3} of the index; significant (at the lower end of \
             the interval): {:.1} % and {significant_index:.3}.",
            goodput * 100.0,
            significant_goodput * 100.0
        )
    }
}

/// One for each group, the index in the first one. Keeps track of the largest differences.
fn difference_lines(point: &PointSummary, twin: &PointSummary, worst: &mut LargestDifferences) -> Vec<Vec<String>> {
    let mut lines = Vec::new();
    for (own, theirs) in point.groups.iter().zip(&twin.groups) {
        let (Some(a), Some(b)) = (own.goodput_bits_per_second, theirs.goodput_bits_per_second) else { continue };
        let difference = MeanDifference::between(a, b).relative_to(a.value);
        LargestDifferences::update_largest(&mut worst.goodput, difference);
        let goodputs = [format!("{:.2}", a.value / 1e6), format!("{:.2}", b.value / 1e6)];
        let indices = point.jain_index.zip(twin.jain_index).filter(|_| lines.is_empty());
        let index = indices.map_or([const { String::new() }; 3], |(a, b)| {
            let difference = MeanDifference::between(a, b);
            LargestDifferences::update_largest(&mut worst.index, difference);
            [format!("{:.3}", a.value), format!("{:.3}", b.value), difference.format_with_margin(3)]
        });
        let names = [point.case.clone(), point.discipline.clone(), own.group.clone()];
        let percent = difference.relative_to(0.01).format_with_margin(1);
        lines.push(names.into_iter().chain(goodputs).chain([percent]).chain(index).collect());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fairness::FairnessExperiment;
    use crate::fairness::row::{DropCounts, FairnessObservation};
    use crate::fairness::{FairnessRow, FlowShare};
    use crate::scenario::load;
    use crate::study::{Overrides, Study};
    use kumade_units::Span;

    /// A report of one case and discipline, a run for each number of bytes that CUBIC got on each connection; Compound
    /// got 600 000.
    fn report(runs: &[u64]) -> FairnessReport {
        let experiment =
            load("fair-wired", &Overrides::default()).unwrap().into_scenario::<FairnessExperiment>().unwrap();
        let point = experiment.points()[0];
        let row = |cubic: &u64| {
            let observed = FairnessObservation {
                delivered_bytes: (0..20).map(|flow| if flow < 10 { *cubic } else { 600_000 }).collect(),
                duration: Span::from_secs(1),
                forwarded_bytes: 12_000_000,
                queueing: None,
                group_queueing: Vec::new(),
                drops: DropCounts::default(),
                lateness_p99: None,
            };
            FairnessRow::new(&point, &observed)
        };
        let rows: Vec<FairnessRow> = runs.iter().map(row).collect();
        assert_eq!(rows[0].flows[19], FlowShare { group: 1, goodput_bits_per_second: 4_800_000.0 });
        FairnessReport::new(&experiment, "2026-11-20T12:00:00Z".into(), rows)
    }

    #[test]
    fn differences_are_listed_and_the_largest_are_named() {
        let text = compare(&report(&[600_000]), &report(&[540_000]));
        assert!(text.contains("10.0 % of a group's goodput, 0.003 of the index"), "{text}");
        assert!(text.lines().any(|line| line.contains("cubic") && line.contains("  -10.0  ")), "{text}");
    }

    #[test]
    fn only_what_exceeds_the_interval_is_significant() {
        // Two runs each, 2 and 4 % apart: by Student's t, 12.7 and 25.4 % to each side; 28.4 % together.
        let text = compare(&report(&[594_000, 606_000]), &report(&[498_000, 522_000]));
        assert!(text.lines().any(|line| line.contains("cubic") && line.contains("-15.0 ± 28.4")), "{text}");
        assert!(text.contains("the interval): 0.0 %"), "{text}");
    }

    #[test]
    fn nothing_in_common_is_said() {
        let mut other = report(&[600_000]);
        other.summary.points.clear();
        assert!(compare(&report(&[600_000]), &other).contains("no case and discipline in common"));
    }
}
