use super::report::FairnessReport;
use super::summary::PointSummary;
use crate::report::{tables::Table, terminal};

/// How far two reports of the same experiment agree, such as a virtual and a real one: a line for each case and
/// discipline that both have, as text for a terminal. A group's goodput and Jain's index are those of the means.
pub fn compare(one: &FairnessReport, other: &FairnessReport) -> String {
    let columns = ["case", "discipline", "group", "goodput", "other", "difference", "index", "other", "difference"];
    let mut table = Table {
        caption: format!("{} ({}) against {} ({})", one.experiment, kind(one), other.experiment, kind(other)),
        columns: columns.map(str::to_owned).to_vec(),
        rows: Vec::new(),
    };
    let mut worst = (0.0f64, 0.0f64);
    for point in &one.summary.points {
        let same = |twin: &&PointSummary| twin.case == point.case && twin.discipline == point.discipline;
        let Some(twin) = other.summary.points.iter().find(same) else { continue };
        table.rows.extend(lines(point, twin, &mut worst));
    }
    if table.rows.is_empty() {
        return "the two reports have no case and discipline in common\n".to_owned();
    }
    let (goodput, index) = (worst.0 * 100.0, worst.1);
    format!(
        "{}\nGoodput per connection in Mbit/s. The worst differences: {goodput:.1} % of a group's goodput, {index:.3} of \
         the index.\n",
        terminal::aligned(&table)
    )
}

fn kind(report: &FairnessReport) -> &'static str {
    if report.virtual_time { "virtual" } else { "real" }
}

/// One for each group; the index stands on the first. Keeps track of the worst differences.
fn lines(point: &PointSummary, twin: &PointSummary, worst: &mut (f64, f64)) -> Vec<Vec<String>> {
    let mut lines = Vec::new();
    for (own, theirs) in point.groups.iter().zip(&twin.groups) {
        let (Some(a), Some(b)) = (own.goodput_bits_per_second, theirs.goodput_bits_per_second) else { continue };
        let difference = b.mean / a.mean - 1.0;
        worst.0 = worst.0.max(difference.abs());
        let goodputs = [format!("{:.2}", a.mean / 1e6), format!("{:.2}", b.mean / 1e6)];
        let indices = point.jain_index.zip(twin.jain_index).filter(|_| lines.is_empty());
        let index = indices.map_or([const { String::new() }; 3], |(a, b)| {
            worst.1 = worst.1.max((b.mean - a.mean).abs());
            [format!("{:.3}", a.mean), format!("{:.3}", b.mean), format!("{:+.3}", b.mean - a.mean)]
        });
        let names = [point.case.clone(), point.discipline.clone(), own.group.clone()];
        let percent = [format!("{:+.1} %", difference * 100.0)];
        lines.push(names.into_iter().chain(goodputs).chain(percent).chain(index).collect());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fairness::row::{DropCounts, Observed};
    use crate::fairness::{FairnessPoint, FairnessRow, FlowShare};
    use units::Span;

    /// A report of one case and discipline, in which CUBIC got so many bytes on each connection and Compound 600 000.
    fn report(cubic: u64) -> FairnessReport {
        let scenario = crate::load("fair-wired").unwrap().fairness().unwrap();
        let cases = scenario.cases();
        let point: &FairnessPoint<'_> = &scenario.points(&cases)[0];
        let delivered = (0..20).map(|flow| if flow < 10 { cubic } else { 600_000 }).collect();
        let observed = Observed {
            delivered,
            duration: Span::from_secs(1),
            carried: 12_000_000,
            queueing: None,
            drops: DropCounts::default(),
            lateness_p99: None,
        };
        let row = FairnessRow::new(point, &observed);
        assert_eq!(row.flows[19], FlowShare { group: 1, goodput_bits_per_second: 4_800_000.0 });
        FairnessReport::new(&scenario, "2026-11-20T12:00:00Z".into(), vec![row])
    }

    #[test]
    fn differences_stand_beside_each_other_and_the_worst_are_named() {
        let text = compare(&report(600_000), &report(540_000));
        assert!(text.contains("10.0 % of a group's goodput, 0.003 of the index"), "{text}");
        assert!(text.lines().any(|line| line.contains("cubic") && line.contains("-10.0 %")), "{text}");
    }

    #[test]
    fn nothing_in_common_is_said() {
        let mut other = report(600_000);
        other.summary.points.clear();
        assert!(compare(&report(600_000), &other).contains("no case and discipline in common"));
    }
}
