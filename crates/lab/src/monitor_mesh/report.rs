//! The report of a monitored mesh.

use super::row::MeshRow;
use super::scenario::{MeshSite, MonitorMeshExperiment};
use crate::report::{Column, ReportParts, Table, format_number, format_part, report_document};
use crate::statistics::median;
use kumade_units::Rate;
use std::collections::BTreeMap;

report_document! {
    /// What a monitor has measured in a mesh, beside the truth.
    MonitorMeshReport, "kumade.lab.monitor-mesh/1": |experiment: &MonitorMeshExperiment, given: Vec<MeshRow>|, MeshRow;
    /// What was built, in words.
    setting: String = describe_setting(experiment),
    /// One for each measurement in each direction, by time.
    rows: Vec<MeshRow> = given,
}

impl ReportParts for MonitorMeshReport {
    const RATE_DEFINITION: &'static str = "Rates count IP packets.";
    const COLUMNS: &'static str = "\
        from to started_seconds duration_seconds truth_bits_per_second available_bits_per_second \
        available_low_bits_per_second available_high_bits_per_second reason error_ratio covers_truth \
        base_round_trip_seconds round_trip_seconds loss_ratio disturbed";

    fn setting(&self) -> String {
        self.setting.clone()
    }

    fn tables(&self) -> Vec<Table> {
        vec![direction_table(&self.rows)]
    }

    fn conclusions(&self) -> Vec<String> {
        conclusions(&self.rows)
    }

    fn notes(&self) -> Vec<String> {
        notes(&self.rows)
    }
}

fn describe_setting(experiment: &MonitorMeshExperiment) -> String {
    let site = |site: &MeshSite| {
        let loss = if site.loss > 0.0 { format!(", {:.1} % lost", 100.0 * site.loss) } else { String::new() };
        let cross = if site.cross > Rate::ZERO { format!(", cross {}", site.cross) } else { String::new() };
        format!("{} ({}, {}{cross}{loss})", site.name, site.rate, site.delay)
    };
    let sites: Vec<_> = experiment.sites.iter().map(site).collect();
    format!("a coordinator, and agents at {}", sites.join(", "))
}

/// The last measurement of each direction.
fn direction_table(rows: &[MeshRow]) -> Table {
    let mbit = |rate: Option<Rate>| format_number(rate.map(Rate::as_f64), 1e6, 1);
    let milliseconds = |seconds: Option<f64>| format_number(seconds.map(|seconds| 1e3 * seconds), 1.0, 1);
    let columns: [Column<'_, MeshRow>; 9] = [
        ("from", &|row| row.from.clone()),
        ("to", &|row| row.to.clone()),
        ("truth", &|row| mbit(Some(row.truth_bits_per_second))),
        ("estimate", &|row| mbit(row.available_bits_per_second)),
        ("low", &|row| mbit(row.available_low_bits_per_second)),
        ("high", &|row| mbit(row.available_high_bits_per_second)),
        ("base RTT", &|row| milliseconds(Some(row.base_round_trip_seconds))),
        ("RTT", &|row| milliseconds(row.round_trip_seconds)),
        ("lost", &|row| format_part(row.loss_ratio, 1)),
    ];
    let caption = "The last measurement of each direction: available bandwidth in Mbit/s, truth beside estimate with its interval; the \
                   links' delay there and back beside the median of light probes, in ms; light probes lost in either direction, in percent";
    let last: BTreeMap<_, _> = rows.iter().map(|row| ((&row.from, &row.to), row)).collect();
    Table::from_items(caption, last.into_values(), &columns)
}

fn conclusions(rows: &[MeshRow]) -> Vec<String> {
    let judged = || rows.iter().filter(|row| !row.disturbed);
    let errors: Vec<_> = judged().filter_map(|row| row.error_ratio).collect();
    let covered = judged().filter(|row| row.covers_truth == Some(true)).count();
    let error = median(&errors).map(|error| format!(", median error {:.1} %", 100.0 * error)).unwrap_or_default();
    let (values, judged, all) = (errors.len(), judged().count(), rows.len());
    vec![format!(
        "{judged} of {all} measurements of a direction were not disturbed, and {values} of these have a value{error}: the intervals of {covered} contain \
         the truth"
    )]
}

/// Why there was no value, and what was disturbed.
fn notes(rows: &[MeshRow]) -> Vec<String> {
    let mut reasons = BTreeMap::<_, usize>::new();
    for reason in rows.iter().filter_map(|row| row.reason.as_deref()) {
        *reasons.entry(reason).or_default() += 1;
    }
    let disturbed = rows.iter().filter(|row| row.disturbed).count();
    let late = (disturbed > 0).then(|| {
        format!("{disturbed} are not judged: the emulated links were late, as other programs loaded this machine")
    });
    reasons.iter().map(|(reason, count)| format!("{count} without a value: {reason}")).chain(late).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{ReportDocument, schema};
    use crate::scenario::load;
    use crate::study::Overrides;

    fn row(to: &str, found: Option<f64>, disturbed: bool) -> MeshRow {
        let truth = Rate::from_mbit(30);
        let rate = |factor: f64| found.map(|mbit| Rate::from_f64(mbit * factor * 1e6));
        MeshRow {
            from: "Paris".into(),
            to: to.into(),
            started_seconds: 1_800_000_000.0,
            duration_seconds: 4.0,
            truth_bits_per_second: truth,
            available_bits_per_second: rate(1.0),
            available_low_bits_per_second: rate(0.95),
            available_high_bits_per_second: rate(1.05),
            reason: found.is_none().then(|| "too few packets arrived".into()),
            error_ratio: found.map(|mbit| (mbit / 30.0 - 1.0).abs()),
            covers_truth: found.map(|mbit| (mbit / 30.0 - 1.0).abs() < 0.05),
            base_round_trip_seconds: 0.018,
            round_trip_seconds: Some(0.0185),
            loss_ratio: Some(0.0),
            disturbed,
        }
    }

    fn report() -> MonitorMeshReport {
        let experiment = load("monitor-mesh", &Overrides::default()).unwrap();
        let experiment = experiment.into_scenario::<MonitorMeshExperiment>().unwrap();
        let rows = vec![row("Berlin", Some(20.0), false), row("Berlin", Some(30.3), false)];
        let rows = rows.into_iter().chain([row("Oslo", None, false), row("Rome", Some(3.0), true)]);
        MonitorMeshReport::new(&experiment, "2026-11-28T12:00:00Z".into(), rows.collect())
    }

    #[test]
    fn the_last_measurement_of_each_direction_stands_beside_the_truth() {
        let text = report().to_text();
        assert!(text.contains("Paris (50 Mbit/s, 6 ms, cross 20 Mbit/s)"), "{text}");
        let line = text.lines().find(|line| line.starts_with("Paris") && line.contains("Berlin")).unwrap();
        assert!(line.contains("30.0") && line.contains("30.3") && !line.contains("20.0"), "{line}");
        assert!(text.contains("3 of 4 measurements of a direction were not disturbed, and 2 of these"), "{text}");
        assert!(text.contains("the intervals of 1 contain the truth"), "{text}");
        assert!(text.contains("1 without a value: too few packets arrived"), "{text}");
        assert!(text.contains("1 are not judged"), "{text}");
    }

    #[test]
    fn the_document_has_the_published_schema_and_reads_back() {
        let report = report();
        let validator = schema::published_schema::<MonitorMeshReport>("kumade.lab.monitor-mesh.1");
        let json = report.to_json().unwrap();
        let document: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert!(validator.is_valid(&document), "{:?}", validator.iter_errors(&document).collect::<Vec<_>>());
        assert_eq!(MonitorMeshReport::from_json(&json).unwrap(), report);
        assert_eq!(report.to_csv().unwrap().lines().count(), 5);
        assert!(report.to_html().unwrap().contains("monitor-mesh"));
    }
}
