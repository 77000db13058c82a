//! The report of an experiment on paths of many kinds.

use super::row::AtlasRow;
use super::scenario::PathAtlas;
use super::summary::{AtlasSummary, KindSummary};
use crate::accuracy::BottleneckKind;
use crate::report::{Column, ReportParts, Table, describe_disturbances, format_part, report_document};
use crate::study::{Exclusion, Outcome};
use kumade_sim::atlas::{PathKind, PathResult};

report_document! {
    /// The results of an experiment on paths of many kinds.
    PathAtlasReport, "kumade.lab.path-atlas/1": |experiment: &PathAtlas, given: Outcome<(AtlasRow, PathResult)>|, AtlasRow;
    /// Which paths were drawn, in words.
    setting: String = describe_setting(experiment),
    /// One for each measurement.
    rows: Vec<AtlasRow> = given.rows.iter().map(|(row, _)| row.clone()).collect(),
    /// Kinds of paths that could not be built in real time, or not on this machine, and transports that a kind does not pass.
    #[serde(default)]
    left_out: Vec<Exclusion> = given.excluded,
    /// The rows summed up.
    summary: AtlasSummary = AtlasSummary::from_rows(&given.rows),
}

impl ReportParts for PathAtlasReport {
    const RATE_DEFINITION: &'static str = "Rates count IP packets.";
    const COLUMNS: &'static str = "\
        kind transport seed sustained_bits_per_second link_bits_per_second burst_bytes cross_bits_per_second \
        cross_flows truth_bits_per_second truth_fair_share_bits_per_second \
        available_bits_per_second=available_bits_per_second.value \
        available_low_bits_per_second=available_bits_per_second.low \
        available_high_bits_per_second=available_bits_per_second.high \
        fair_share_bits_per_second=fair_share_bits_per_second.value \
        fair_share_low_bits_per_second=fair_share_bits_per_second.low \
        fair_share_high_bits_per_second=fair_share_bits_per_second.high at_least_bits_per_second \
        at_most_bits_per_second policed committed_bits_per_second=committed_bits_per_second.value \
        committed_low_bits_per_second=committed_bits_per_second.low \
        committed_high_bits_per_second=committed_bits_per_second.high sustained_bytes bytes_sent duration_seconds \
        reason repeats disturbed";

    fn setting(&self) -> String {
        self.setting.clone()
    }

    fn tables(&self) -> Vec<Table> {
        let kinds = &self.summary.kinds;
        let tables = [kind_table(kinds), missing_value_table(kinds)];
        tables.into_iter().chain([cross_traffic_impact_table(kinds)]).collect()
    }

    fn conclusions(&self) -> Vec<String> {
        let kinds = &self.summary.kinds;
        std::iter::once(conclusion(kinds)).chain(proxy_conclusions(kinds)).collect()
    }

    fn notes(&self) -> Vec<String> {
        run_notes(self)
    }
}

fn describe_setting(experiment: &PathAtlas) -> String {
    let (runs, seeds) = (experiment.runs, experiment.seeds.keyword());
    let links = match experiment.bottleneck {
        BottleneckKind::Virtual => "virtual time",
        BottleneckKind::Emulated => "real time, emulated links between real hosts",
        BottleneckKind::Htb => "real time, the kernel's shapers between real hosts",
    };
    format!("{runs} paths of each kind, drawn from {seeds} seeds; {links}; full measurements, upwards")
}

fn run_notes(report: &PathAtlasReport) -> Vec<String> {
    let left_out = report.left_out.iter().map(|Exclusion { kind, reason }| format!("{kind} was left out: {reason}"));
    left_out.chain(describe_disturbances(report.rows.iter().map(|row| (row.repeats, row.disturbed)))).collect()
}

const KIND_COLUMNS: [Column<'_, KindSummary>; 2] =
    [("kind", &|kind| kind.kind.clone()), ("transport", &|kind| kind.transport.clone())];
const FIGURE_COLUMNS: [Column<'_, KindSummary>; 8] = [
    ("paths", &|kind| kind.runs.to_string()),
    ("values", &|kind| kind.values.to_string()),
    ("coverage", &|kind| format_part(kind.coverage_ratio, 1)),
    ("error", &|kind| format_part(kind.mean_absolute_error_ratio, 2)),
    ("width", &|kind| format_part(kind.median_width_ratio, 1)),
    ("wrong", &|kind| kind.wrong.to_string()),
    ("MB", &|kind| format!("{:.2}", kind.mean_bytes / 1e6)),
    ("s", &|kind| format!("{:.2}", kind.mean_seconds)),
];

fn kind_table(kinds: &[KindSummary]) -> Table {
    let caption = "By kind of path: how many gave a value; coverage of the intervals; mean \
                   absolute error in percent of what the path carries; median width of the interval in percent of the truth; \
                   statements that are wrong with confidence, by more than 5 %; mean cost of a measurement";
    Table::from_items(caption, kinds, &[&KIND_COLUMNS[..], &FIGURE_COLUMNS].concat())
}

fn missing_value_table(kinds: &[KindSummary]) -> Table {
    Table::of_counts("Measurements without a value, by cause", kinds, &KIND_COLUMNS, ["paths", "cause"], |kind| {
        &kind.refusals
    })
}

/// Where TCP connections were the cross traffic of some.
fn cross_traffic_impact_table(kinds: &[KindSummary]) -> Table {
    let row = |kind: &KindSummary| {
        let [lost, most] = [kind.mean_goodput_lost_ratio?, kind.max_goodput_lost_ratio?].map(|part| part * 100.0);
        let [added, longest] =
            [kind.mean_added_queueing_seconds?, kind.max_added_queueing_seconds?].map(|seconds| seconds * 1e3);
        let figures = [lost, most, added, longest].map(|figure| format!("{figure:.1}"));
        Some([kind.kind.clone(), kind.transport.clone()].into_iter().chain(figures).collect())
    };
    let rows: Vec<Vec<String>> = kinds.iter().filter_map(row).collect();
    let columns = ["kind", "transport", "goodput lost", "at most", "queueing added, ms", "at most"];
    Table {
        caption:
            "What a measurement did to TCP connections that it met: the part of their goodput that they lost while it \
                  lasted, in percent, and the growth of the 99th percentile of queueing delay"
                .to_owned(),
        columns: columns.map(str::to_owned).to_vec(),
        rows,
    }
}

fn conclusion(kinds: &[KindSummary]) -> String {
    let total = |of: fn(&KindSummary) -> usize| kinds.iter().map(of).sum::<usize>();
    let (runs, wrong) = (total(|kind| kind.runs), total(|kind| kind.wrong));
    let part = 100.0 * wrong as f64 / runs.max(1) as f64;
    format!("{wrong} of {runs} measurements ({part:.1} %) were wrong with confidence")
}

/// Where measurements have gone through a proxy, or said so.
fn proxy_conclusions(kinds: &[KindSummary]) -> Vec<String> {
    let told = kinds.iter().filter(|kind| kind.proxies_named > 0 || kind.kind == PathKind::Proxy.name());
    told.map(|KindSummary { kind, transport, proxies_named, runs, .. }| {
        format!("{kind} {transport}: {proxies_named} of {runs} measurements say that a proxy ends the connections")
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{ReportDocument, schema};
    use crate::scenario::load;
    use crate::study::{Overrides, Study, run};

    fn few() -> PathAtlasReport {
        let bottleneck = Some(BottleneckKind::Virtual);
        let overrides = Overrides { runs: Some(3), bottleneck, ..Overrides::default() };
        let experiment = load("path-atlas", &overrides).unwrap().into_scenario::<PathAtlas>().unwrap();
        let outcome = run(&experiment, &mut |_| (), &|| false).unwrap();
        PathAtlasReport::new(&experiment, "2026-11-22T12:00:00Z".into(), outcome)
    }

    #[test]
    fn what_was_left_out_is_in_the_document_and_in_the_text() {
        let bottleneck = Some(BottleneckKind::Emulated);
        let overrides = Overrides { runs: Some(1), bottleneck, ..Overrides::default() };
        let experiment = load("path-atlas", &overrides).unwrap().into_scenario::<PathAtlas>().unwrap();
        let outcome = Outcome { rows: Vec::new(), excluded: experiment.exclusions() };
        let report = PathAtlasReport::new(&experiment, "2026-11-22T12:00:00Z".into(), outcome);
        let left_out: Vec<_> = report.left_out.iter().map(|left_out| left_out.kind.as_str()).collect();
        assert_eq!(
            left_out,
            ["batching", "load-balanced", "wifi", "cellular", "elastic", "fast-link", "rate-step", "proxy over udp"]
        );
        assert!(report.to_text().contains("wifi was left out: what its link carries"), "{}", report.to_text());
        assert_eq!(PathAtlasReport::from_json(&report.to_json().unwrap()).unwrap(), report);
    }

    #[test]
    fn a_few_paths_of_each_kind_come_to_a_report_of_the_published_schema() {
        let report = few();
        // Over both transports, but for the proxy's.
        assert_eq!(report.rows.len(), (PathKind::ALL.len() * 2 - 1) * 3);
        let named: usize = report.summary.kinds.iter().map(|kind| kind.proxies_named).sum();
        assert!(report.to_text().contains(&format!("proxy rake: {named} of 3 measurements say that a proxy")));
        assert!(report.to_text().contains("proxy over udp was left out: such a path passes TCP only"));
        let validator = schema::published_schema::<PathAtlasReport>("kumade.lab.path-atlas.1");
        let json = report.to_json().unwrap();
        let document: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert!(validator.is_valid(&document), "{:?}", validator.iter_errors(&document).collect::<Vec<_>>());
        assert_eq!(PathAtlasReport::from_json(&json).unwrap(), report);
        assert_eq!(report.to_csv().unwrap().lines().count(), 1 + report.rows.len());
        assert!(report.to_text().contains("wrong with confidence"), "{}", report.to_text());
        assert!(report.to_html().unwrap().contains("path-atlas"));
    }
}
