//! The report of an experiment on contention.

use super::attack::{Attack, PulseTraffic};
use super::row::ContentionRow;
use super::scenario::{ContentionCase, ContentionExperiment};
use super::summary::{ContentionSummary, DELAY_FIGURES, PointSummary, SHARE_FIGURES, SummaryFigure};
use crate::report::{CsvResult, ReportParts, Table, Values, describe_disturbances, report_document};
use kumade_link::queue::Ecn;
use kumade_units::Rate;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;

report_document! {
    /// The results of an experiment on contention.
    ContentionReport, "kumade.lab.contention/1": |experiment: &ContentionExperiment, given: Vec<ContentionRow>|, ContentionRow;
    /// The network and what competes for it, in words.
    setting: String = describe_setting(experiment),
    /// One for each run.
    rows: Vec<ContentionRow> = given,
    /// The rows summed up.
    summary: ContentionSummary = ContentionSummary::from_rows(&rows),
    /// The attackers that a search has found, as cases of a scenario file; null without a search.
    found_cases: Option<String> = experiment.search.map(|_| experiment.cases.iter().filter_map(to_scenario_toml).collect()),
}

fn describe_setting(experiment: &ContentionExperiment) -> String {
    let link = &experiment.bottleneck;
    let mut text = format!("bottleneck {}, one-way delay {}", link.rate, link.delay);
    if let Some(probes) = experiment.probes {
        let _ = write!(text, "; probes of {} bytes every {} on average", probes.packet, probes.interval);
    }
    if let Some(short) = experiment.short_flows {
        let _ = write!(text, "; short flows of {} bytes every {}", short.bytes, short.interval);
    }
    if let Some(search) = experiment.search {
        let _ = write!(text, "; {} patterns tried for each discipline and goal", search.evaluations);
    }
    let (duration, warm_up, seeds) = (experiment.duration, experiment.warm_up, experiment.seeds.keyword());
    let clock = if experiment.virtual_time { "virtual time" } else { "real time, the kernel's TCP" };
    format!("{text}; {clock}; runs of {duration} after {warm_up} of warm-up each, from {seeds} seeds")
}

/// As it would stand in a scenario file.
fn to_scenario_toml(case: &ContentionCase) -> Option<String> {
    let Some(Attack::Pulses(PulseTraffic { rate, on, off, packet_bytes, has_random_periods: random, ecn })) =
        case.attack
    else {
        return None;
    };
    let discipline = case.disciplines.first()?;
    let groups = case
        .bulk
        .iter()
        .map(|group| format!("{{ connections = {}, control = \"{}\" }}", group.connections, group.control));
    Some(format!(
        "[[contention]]\nlabel = \"{discipline}, {}\"\nbulk = [{}]\nattack = {{ rate = \"{}bit\", on = \"{}ns\", off = \
         \"{}ns\", packet = \"{packet_bytes}b\", random = {random}{} }}\n\n",
        case.label,
        groups.collect::<Vec<_>>().join(", "),
        Rate::bits_per_second(rate),
        on.as_nanos(),
        off.as_nanos(),
        match ecn {
            Ecn::NotEct => "",
            Ecn::Ect1 => ", l4s = true",
            Ecn::Ect0 | Ecn::Ce => ", ect = true",
        }
    ))
}

/// A line of the CSV file.
#[derive(Serialize)]
struct RowWithFigures<'a> {
    #[serde(flatten)]
    row: &'a ContentionRow,
    figures: BTreeMap<&'static str, Option<f64>>,
}

impl ReportParts for ContentionReport {
    const RATE_DEFINITION: &'static str = "Rates count IP packets.";
    const COLUMNS: &'static str = "\
        case discipline run seed attack_pattern=attack.pattern \
        attack_offered_bits_per_second=attack.offered_bits_per_second";

    fn setting(&self) -> String {
        self.setting.clone()
    }

    fn tables(&self) -> Vec<Table> {
        let points = &self.summary.points;
        let shares = "Shares, each figure as the mean over the runs and that of the worst run";
        let delays = "Delays, likewise: added to probes, of short flows, of all packets in the queue";
        vec![summary_table(points, SHARE_FIGURES, shares), summary_table(points, DELAY_FIGURES, delays)]
    }

    fn conclusions(&self) -> Vec<String> {
        let points = &self.summary.points;
        self.summary.discipline_names().into_iter().filter_map(|name| conclusion(points, name)).collect()
    }

    fn notes(&self) -> Vec<String> {
        describe_disturbances(self.rows.iter().map(|row| (row.repeats, row.disturbed)))
    }

    /// With the figures that are summed up.
    fn values(&self) -> serde_json::Result<Values> {
        let figures = || SHARE_FIGURES.iter().chain(DELAY_FIGURES);
        let row = |row| RowWithFigures {
            row,
            figures: figures().map(|figure| (figure.name, (figure.value_of)(row))).collect(),
        };
        let names: Vec<_> = figures().map(|figure| format!("figures.{}", figure.name)).collect();
        Values::from_rows(
            &self.rows.iter().map(row).collect::<Vec<_>>(),
            &format!("{} {}", Self::COLUMNS, names.join(" ")),
        )
    }

    fn extra_files(&self) -> Vec<(&'static str, CsvResult)> {
        self.found_cases.iter().map(|cases| ("found.toml", Ok(cases.clone()))).collect()
    }
}

/// Those of the figures that some run has.
fn summary_table(points: &[PointSummary], figures: &[SummaryFigure], caption: &str) -> Table {
    let known = |figure: &&SummaryFigure| points.iter().any(|point| point.figures.contains_key(figure.name));
    let figures: Vec<_> = figures.iter().filter(known).collect();
    let row = |point: &PointSummary| {
        let names = [point.case.clone(), point.discipline.clone(), point.runs.to_string()];
        names.into_iter().chain(figures.iter().map(|figure| figure.format_cell(point))).collect()
    };
    let headings = ["case", "discipline", "runs"].into_iter().chain(figures.iter().map(|figure| figure.heading));
    Table {
        caption: caption.to_owned(),
        columns: headings.map(str::to_owned).collect(),
        rows: points.iter().map(row).collect(),
    }
}

/// The worst of each kind in one sentence.
fn conclusion(points: &[PointSummary], discipline: &str) -> Option<String> {
    let own = || points.iter().filter(|point| point.discipline == discipline);
    let worst = |name: &str, sign: f64| {
        let values = own().filter_map(|point| Some((point.figures.get(name)?.worst, point)));
        values.max_by(|a, b| (a.0 * sign).total_cmp(&(b.0 * sign))).map(|(value, point)| (value, &point.case))
    };
    let mut parts = Vec::new();
    if let Some((share, case)) = worst("attack_share_ratio", 1.0) {
        parts.push(format!("an attacker gets up to {share:.2} × an equal share ({case})"));
    }
    if let Some((share, case)) = worst("bulk_share_ratio", -1.0) {
        parts.push(format!("bulk transfers get at least {:.0} % of theirs ({case})", share * 100.0));
    }
    if let Some((added, case)) = worst("probe_added_p99_seconds", 1.0) {
        parts.push(format!("sparse packets wait up to {:.1} ms at p99 ({case})", added * 1e3));
    }
    (!parts.is_empty()).then(|| format!("{discipline}: in the worst run, {}", parts.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accuracy::BottleneckKind;
    use crate::report::{ReportDocument, schema};
    use crate::scenario::load;
    use crate::study::{Overrides, Study, run};
    use kumade_units::Span;

    fn report(name: &str, rows: Vec<u32>, disciplines: &[&str]) -> ContentionReport {
        let overrides = Overrides {
            runs: Some(1),
            rows,
            disciplines: disciplines.iter().map(|name| name.parse().unwrap()).collect(),
            warm_up: Some(Span::from_secs(2)),
            duration: Some(Span::from_secs(4)),
            bottleneck: Some(BottleneckKind::Virtual),
            ..Overrides::default()
        };
        let experiment = load(name, &overrides).unwrap().into_scenario::<ContentionExperiment>().unwrap();
        let outcome = run(&experiment, &mut |_| (), &|| false).unwrap();
        assert_eq!(outcome.rows.len(), experiment.points().len());
        experiment.report("2026-11-22T12:00:00Z".into(), outcome)
    }

    #[test]
    fn pulses_take_the_link_from_a_fifo_and_not_from_flow_queues() {
        let report = report("fair-attack", vec![1], &["tail-drop", "fq-codel"]);
        let share = |index: usize| report.rows[index].attack.as_ref().unwrap().share_ratio;
        assert!(share(0) > 2.5 && share(1) < 1.2, "{} {}", share(0), share(1));
        let validator = schema::published_schema::<ContentionReport>("kumade.lab.contention.1");
        let json = report.to_json().unwrap();
        let document: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert!(validator.is_valid(&document), "{:?}", validator.iter_errors(&document).collect::<Vec<_>>());
        assert_eq!(ContentionReport::from_json(&json).unwrap(), report);
        assert_eq!(report.to_csv().unwrap().lines().count(), 1 + report.rows.len());
        assert!(report.to_html().unwrap().contains("fair-attack"));
    }

    /// The cases of an experiment in virtual time whose labels begin like this, by their numbers.
    fn cases_named(name: &str, beginning: &str) -> Vec<u32> {
        let overrides = Overrides { bottleneck: Some(BottleneckKind::Virtual), ..Overrides::default() };
        let cases = load(name, &overrides).unwrap().into_scenario::<ContentionExperiment>().unwrap().cases;
        cases.iter().zip(1..).filter_map(|(case, number)| case.label.starts_with(beginning).then_some(number)).collect()
    }

    #[test]
    fn the_worst_patterns_that_a_search_has_found_gain_nothing_and_cost_others_little() {
        let found = cases_named("fair-attack", "found,");
        assert!(found.len() >= 8, "{found:?}");
        let report = report("fair-attack", found.clone(), &["fq-codel", "fair-share"]);
        assert_eq!(report.rows.len(), 2 * found.len());
        for row in &report.rows {
            let share = row.attack.as_ref().unwrap().share_ratio;
            assert!(share <= 1.2, "{} {}: {share}", row.case, row.discipline);
            // A search has found one pattern that leaves a link with FQ-CoDel idle for a tenth of the time.
            let idles = row.discipline == "fq-codel" && row.case.starts_with("found, 5.36/649 ms");
            let least = if row.discipline == "fair-share" {
                0.95
            } else if idles {
                0.85
            } else {
                0.9
            };
            assert!(row.bulk_share_ratio > least, "{} {}: {}", row.case, row.discipline, row.bulk_share_ratio);
        }
    }

    #[test]
    fn sparse_packets_wait_in_a_fifo_and_not_before_flow_queues() {
        let report = report("fair-latency", vec![1], &["tail-drop", "fq-codel"]);
        let row = |index: usize| &report.rows[index];
        let added = |index: usize| row(index).probes.unwrap().added.unwrap();
        assert!(added(0).median_seconds > 0.005 && added(1).p99_seconds < 0.004, "{:?} {:?}", added(0), added(1));
        let times = |index: usize| row(index).short_flows.unwrap();
        assert!(times(1).started >= 5 && times(1).mean_seconds < times(0).mean_seconds, "{:?}", times(1));
    }

    #[test]
    fn what_a_search_finds_can_stand_in_a_scenario_file() {
        let mut experiment = load("fair-search", &Overrides { runs: Some(1), ..Overrides::default() })
            .unwrap()
            .into_scenario::<ContentionExperiment>()
            .unwrap();
        experiment.search = Some(crate::contention::SearchSettings { evaluations: 3 });
        (experiment.warm_up, experiment.duration) = (Span::ZERO, Span::from_secs(1));
        experiment.cases[0].disciplines.truncate(1);
        let (found, is_whole) = experiment.find_points(&mut |_| (), &|| false).unwrap().unwrap();
        assert!(is_whole && !experiment.find_points(&mut |_| (), &|| true).unwrap().unwrap().1);
        let report = found.report("2026-11-22T12:00:00Z".into(), run(&found, &mut |_| (), &|| false).unwrap());
        let head = include_str!("../../scenarios/fair-search.toml").split("[[contention]]").next().unwrap();
        let text = head.replace("[search]\nevaluations = 200\n", "") + &report.found_cases.unwrap();
        let no_table = |_: &str| unreachable!("it names none");
        let read = crate::Experiment::from_toml(&text, "found.toml", &no_table, &Overrides::default()).unwrap();
        let read = read.into_scenario::<ContentionExperiment>().unwrap();
        assert_eq!(
            read.cases.iter().map(|case| case.attack).collect::<Vec<_>>(),
            found.cases.iter().map(|c| c.attack).collect::<Vec<_>>()
        );
    }
}
