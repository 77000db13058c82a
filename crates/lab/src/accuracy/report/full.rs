//! Tables and verdicts of experiments that measure everything: capacity, token buckets, delay.

use super::Report;
use super::cases::Case;
use super::tables::{Table, Unit, percent};
use crate::accuracy::full::{CapacitySummary, DelaySummary, Limits, ShaperSummary};
use crate::accuracy::row::{DelayRow, Row};
use crate::statistics::median;
use std::collections::BTreeMap;
use units::Span;

/// Those that there is something for.
pub(super) fn tables(report: &Report) -> Vec<Table> {
    if report.summary.whole.is_empty() {
        return Vec::new();
    }
    let capacity = table(
        report,
        "Capacity against the truth, in the unit of the bottleneck",
        &["truth", "capacity", "median error", "worst error", "refused", "interval holds"],
        Row::sought_capacity,
        capacity,
    );
    let shaper = table(
        report,
        "Token bucket: medians and worst errors, in the unit of the bottleneck",
        &["shaped rate", "worst error", "burst, bytes", "worst error", "line", "not seen"],
        |row| row.sought_capacity() && row.burst_bytes.is_some(),
        shaper,
    );
    [capacity, shaper, delays(report)].into_iter().filter(|table| !table.rows.is_empty()).collect()
}

/// What each transport came to, in a sentence for each quantity.
pub(super) fn verdicts(report: &Report) -> Vec<String> {
    let limits = &report.limits;
    let mut verdicts = Vec::new();
    for (transport, whole) in &report.summary.whole {
        let said = [
            capacity_verdict(limits, &whole.capacity),
            shaper_verdict(limits, &whole.shaper),
            delay_verdict(limits, &whole.delay),
        ];
        verdicts.extend(said.into_iter().flatten().map(|verdict| format!("{transport}: {verdict}")));
    }
    verdicts
}

fn capacity_verdict(limits: &Limits, found: &CapacitySummary) -> Option<String> {
    let runs = found.runs;
    let (Some(median), Some(worst)) = (found.median_error_ratio, found.worst_error_ratio) else {
        return (runs > 0).then(|| format!("no capacity in any of {runs} runs"));
    };
    let held = found.interval_coverage_ratio;
    let held = held.map_or(String::new(), |held| format!("; the interval held the truth in {}", percent(held)));
    Some(format!(
        "capacity in {} of {runs} runs, off the truth by {} and {}{held}",
        runs - found.refusals,
        judged(median, "in the median", limits.capacity_median_error_ratio, hundredths),
        judged(worst, "at worst", limits.capacity_worst_error_ratio, hundredths),
    ))
}

fn shaper_verdict(limits: &Limits, found: &ShaperSummary) -> Option<String> {
    let runs = found.runs;
    let seen = match (found.worst_rate_error_ratio, found.worst_burst_error_ratio) {
        (Some(rate), Some(burst)) => Some(format!(
            "the token bucket in {} of {runs} runs, its rate off the truth by {}, its burst by {}",
            runs - found.unseen,
            judged(rate, "at worst", limits.shaped_rate_worst_error_ratio, hundredths),
            judged(burst, "at worst", limits.burst_worst_error_ratio, hundredths)
        )),
        _ => (runs > 0).then(|| format!("the token bucket in none of {runs} runs")),
    };
    let alarms = match found.false_alarms {
        0 => None,
        alarms => Some(format!("a token bucket was seen in {alarms} runs where there is none")),
    };
    let parts: Vec<_> = seen.into_iter().chain(alarms).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn delay_verdict(limits: &Limits, found: &DelaySummary) -> Option<String> {
    Some(format!(
        "idle delay one way off the truth by {} in the median and {}; the bound held the truth in {} and is {} wide in \
         the median",
        hundredths(found.median_error_ratio?),
        judged(found.worst_error_ratio?, "at worst", limits.delay_worst_error_ratio, hundredths),
        percent(found.bound_coverage_ratio?),
        Span::from_secs_f64(found.median_bound_width_seconds?)
    ))
}

/// A figure of this kind, and whether it is within what was asked for.
pub(super) fn judged(figure: f64, kind: &str, limit: Option<f64>, write: impl Fn(f64) -> String) -> String {
    let figure_of_kind = format!("{} {kind}", write(figure));
    match limit {
        None => figure_of_kind,
        Some(limit) if figure <= limit => format!("{figure_of_kind} (limit {})", write(limit)),
        Some(limit) => format!("{figure_of_kind} (beyond the limit of {})", write(limit)),
    }
}

/// A small part, in percent.
fn hundredths(ratio: f64) -> String {
    format!("{:.2} %", ratio * 100.0)
}

/// One line for each path, traffic and transport; `cells` fills in the figures.
fn table(
    report: &Report,
    caption: &str,
    figures: &[&str],
    wanted: impl Fn(&Row) -> bool,
    cells: impl Fn(&[&Row], Unit) -> Vec<String>,
) -> Table {
    let mut cases: BTreeMap<(Case<'_>, &str), Vec<&Row>> = BTreeMap::new();
    for row in report.rows.iter().filter(|row| wanted(row)) {
        cases.entry((Case::of(row), row.transport.as_str())).or_default().push(row);
    }
    let columns = Case::COLUMNS.iter().chain(&["transport"]).chain(figures).map(|&column| column.to_owned());
    let line = |((case, transport), rows): ((Case<'_>, &str), Vec<&Row>)| {
        let mut line = case.cells();
        line.push(transport.to_owned());
        line.extend(cells(&rows, case.unit()));
        line
    };
    Table { caption: caption.to_owned(), columns: columns.collect(), rows: cases.into_iter().map(line).collect() }
}

fn capacity(rows: &[&Row], unit: Unit) -> Vec<String> {
    let found = CapacitySummary::of(rows);
    let values = rows.iter().filter_map(|row| row.capacity_bits_per_second).map(|capacity| capacity.value as f64);
    vec![
        rows.first().map_or_else(String::new, |row| unit.of(row.bottleneck_bits_per_second as f64)),
        written(median(&values.collect::<Vec<_>>()), |bits| unit.of(bits)),
        written(found.median_error_ratio, hundredths),
        written(found.worst_error_ratio, hundredths),
        format!("{} of {}", found.refusals, found.runs),
        written(found.interval_coverage_ratio, percent),
    ]
}

fn shaper(rows: &[&Row], unit: Unit) -> Vec<String> {
    let found = ShaperSummary::of(rows);
    let medians = |of: &dyn Fn(&Row) -> Option<u64>| {
        median(&rows.iter().filter_map(|row| of(row)).map(|value| value as f64).collect::<Vec<_>>())
    };
    let rate = medians(&|row| Some(row.shaper?.rate_bits_per_second.value.bits_per_second()));
    let burst = medians(&|row| Some(row.shaper?.burst_bytes.value));
    let line = medians(&|row| Some(row.shaper?.link_bits_per_second?.value.bits_per_second()));
    vec![
        written(rate, |bits| unit.of(bits)),
        written(found.worst_rate_error_ratio, hundredths),
        written(burst, |bytes| format!("{bytes:.0}")),
        written(found.worst_burst_error_ratio, hundredths),
        written(line, |bits| unit.of(bits)),
        format!("{} of {}", found.unseen, found.runs),
    ]
}

/// One line for each delay that was to be found, to the microsecond.
fn delays(report: &Report) -> Table {
    let mut groups: BTreeMap<(&str, u64), Vec<DelayRow>> = BTreeMap::new();
    for row in &report.rows {
        for (way, delay) in [("up", row.up_delay_seconds), ("down", row.down_delay_seconds)] {
            let Some(delay) = delay else { continue };
            groups.entry((way, (delay.truth * 1e6).round() as u64)).or_default().push(delay);
        }
    }
    let milliseconds = |seconds: f64| format!("{:.3}", seconds * 1e3);
    let line = |((way, truth), delays): ((&str, u64), Vec<DelayRow>)| {
        let found = DelaySummary::of(&delays);
        vec![
            way.to_owned(),
            milliseconds(truth as f64 / 1e6),
            written(median(&delays.iter().map(|delay| delay.value).collect::<Vec<_>>()), milliseconds),
            written(found.median_error_ratio, hundredths),
            written(found.worst_error_ratio, hundredths),
            written(found.median_bound_width_seconds, milliseconds),
            written(found.bound_coverage_ratio, percent),
            found.values.to_string(),
        ]
    };
    let columns = ["way", "truth", "delay", "median error", "worst error", "bound's width", "bound holds", "runs"];
    let caption = "Idle one-way delay, ms: the truth is propagation and the transmission of a small packet; the bound \
                   holds whatever the clocks are";
    let rows = groups.into_iter().map(line).collect();
    Table { caption: caption.to_owned(), columns: columns.map(str::to_owned).to_vec(), rows }
}

fn written(figure: Option<f64>, write: impl Fn(f64) -> String) -> String {
    figure.map_or("–".to_owned(), write)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accuracy::report::terminal::aligned;
    use crate::scenario::Overrides;
    use crate::{BottleneckKind, VirtualTime};

    /// How right capacity and delay are: a change of an estimator or of a link shows here.
    #[test]
    fn the_experiment_on_capacity_comes_to_this() {
        let overrides = Overrides { bottleneck: Some(BottleneckKind::Virtual), ..Overrides::default() };
        let scenario = crate::load("tester-capacity").unwrap().measurement().unwrap().overridden(&overrides).unwrap();
        let rows = crate::run(&scenario, &mut VirtualTime, &mut |_| (), &|| false).unwrap();
        let report = Report::new(&scenario, "2026-11-20T12:00:00Z".into(), rows);
        let tables = tables(&report).iter().map(aligned).collect::<Vec<_>>().join("\n");
        let verdicts = verdicts(&report).join("\n");
        assert!(!verdicts.contains("beyond the limit"), "{verdicts}");
        insta::assert_snapshot!(format!("{tables}\n{verdicts}"));
    }

    #[test]
    fn a_figure_beyond_its_limit_is_said_to_be() {
        let judged = |figure| judged(figure, "at worst", Some(0.1), hundredths);
        assert_eq!(judged(0.1), "10.00 % at worst (limit 10.00 %)");
        assert_eq!(judged(0.11), "11.00 % at worst (beyond the limit of 10.00 %)");
    }
}
