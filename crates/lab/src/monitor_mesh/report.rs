//! The report of a monitored mesh.

use super::row::MeshRow;
use super::scenario::MonitorMeshExperiment;
use crate::error::ReportError;
use crate::report::plot::Plot;
use crate::report::{DocumentParts, ReportContent, Table, read_report};
use crate::statistics::median;
use kumade_units::Rate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::error::Error;

/// What a monitor has measured in a mesh, beside the truth.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MonitorMeshReport {
    /// The document's kind and version.
    #[schemars(extend("const" = MonitorMeshReport::SCHEMA))]
    pub schema: String,
    /// The scenario's name.
    pub experiment: String,
    /// The scenario's question.
    pub title: String,
    /// When it began: UTC, RFC 3339.
    #[schemars(extend("format" = "date-time"))]
    pub started: String,
    /// The version of kumade that ran it.
    pub version: String,
    /// What was built, in words.
    pub setting: String,
    /// One for each measurement in each direction, by time.
    pub rows: Vec<MeshRow>,
}

impl MonitorMeshReport {
    /// Names the document's kind and version.
    pub const SCHEMA: &str = "kumade.lab.monitor-mesh/1";

    /// Of what came of `experiment`. `started` is UTC in RFC 3339.
    pub fn new(experiment: &MonitorMeshExperiment, started: String, rows: Vec<MeshRow>) -> Self {
        let site = |site: &super::scenario::MeshSite| {
            let loss = if site.loss > 0.0 { format!(", {:.1} % lost", 100.0 * site.loss) } else { String::new() };
            let cross = if site.cross > Rate::ZERO { format!(", cross {}", site.cross) } else { String::new() };
            format!("{} ({}, {}{cross}{loss})", site.name, site.rate, site.delay)
        };
        let sites: Vec<_> = experiment.sites.iter().map(site).collect();
        MonitorMeshReport {
            schema: MonitorMeshReport::SCHEMA.to_owned(),
            experiment: experiment.name.clone(),
            title: experiment.title.clone(),
            started,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            setting: format!("a coordinator, and agents at {}", sites.join(", ")),
            rows,
        }
    }

    /// Reads a document that [`to_json`](crate::ReportDocument::to_json) made.
    ///
    /// # Errors
    /// Where it is not one of this kind and version.
    pub fn from_json(text: &str) -> Result<Self, ReportError> {
        read_report(text, MonitorMeshReport::SCHEMA, |report: &MonitorMeshReport| &report.schema)
    }

    fn judged_rows(&self) -> impl Iterator<Item = &MeshRow> {
        self.rows.iter().filter(|row| !row.disturbed)
    }
}

impl DocumentParts for MonitorMeshReport {
    fn content(&self) -> ReportContent<'_> {
        ReportContent {
            experiment: &self.experiment,
            title: &self.title,
            started: &self.started,
            version: &self.version,
            setting: self.setting.clone(),
            rate_definition: "Rates count IP packets.",
            paper: None,
            tables: vec![direction_table(&self.rows)],
            conclusions: conclusions(self),
            notes: notes(&self.rows),
        }
    }

    fn csv(&self) -> Result<String, Box<dyn Error>> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        for row in &self.rows {
            writer.serialize(row)?;
        }
        let bytes = writer.into_inner().map_err(|error| error.into_error())?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn plots(&self) -> Result<Vec<Plot>, Box<dyn Error>> {
        Ok(Vec::new())
    }
}

/// The last measurement of each direction.
fn direction_table(rows: &[MeshRow]) -> Table {
    let last: BTreeMap<_, _> = rows.iter().map(|row| ((&row.from, &row.to), row)).collect();
    let dash = || "–".to_owned();
    let mbit = |rate: Option<Rate>| rate.map_or_else(dash, |rate| format!("{:.1}", rate.as_f64() / 1e6));
    let milliseconds = |seconds: Option<f64>| seconds.map_or_else(dash, |seconds| format!("{:.1}", 1e3 * seconds));
    let cells = |row: &&MeshRow| {
        vec![
            row.from.clone(),
            row.to.clone(),
            mbit(Some(row.truth_bits_per_second)),
            mbit(row.available_bits_per_second),
            mbit(row.available_low_bits_per_second),
            mbit(row.available_high_bits_per_second),
            milliseconds(Some(row.base_round_trip_seconds)),
            milliseconds(row.round_trip_seconds),
            row.loss_ratio.map_or_else(dash, |ratio| format!("{:.1}", 100.0 * ratio)),
        ]
    };
    let columns = ["from", "to", "truth", "estimate", "low", "high", "base RTT", "RTT", "lost"];
    Table {
        caption: "The last measurement of each direction: available bandwidth in Mbit/s, truth beside estimate with its interval; the \
                  links' delay there and back beside the median of light probes, in ms; light probes lost in either direction, in percent"
            .to_owned(),
        columns: columns.map(str::to_owned).to_vec(),
        rows: last.values().map(cells).collect(),
    }
}

fn conclusions(report: &MonitorMeshReport) -> Vec<String> {
    let errors: Vec<_> = report.judged_rows().filter_map(|row| row.error_ratio).collect();
    let covered = report.judged_rows().filter(|row| row.covers_truth == Some(true)).count();
    let error = median(&errors).map(|error| format!(", median error {:.1} %", 100.0 * error)).unwrap_or_default();
    let (values, judged, all) = (errors.len(), report.judged_rows().count(), report.rows.len());
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
    use crate::scenario::{Overrides, load};

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
        let Ok(crate::Experiment::MonitorMesh(experiment)) = load("monitor-mesh", &Overrides::default()) else {
            panic!()
        };
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
