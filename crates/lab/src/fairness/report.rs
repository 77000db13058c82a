use super::row::FairnessRow;
use super::scenario::Fairness;
use super::summary::FairnessSummary;
use super::{plots, tables};
use crate::accuracy::report::{Content, Document, ReportError, html, make, terminal};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What an experiment on fairness came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FairnessReport {
    /// The document's kind and version.
    #[schemars(extend("const" = FairnessReport::SCHEMA))]
    pub schema: String,
    /// The scenario's name.
    pub experiment: String,
    /// The scenario's question.
    pub title: String,
    /// When the first run began: UTC, RFC 3339.
    #[schemars(extend("format" = "date-time"))]
    pub started: String,
    /// The version of kumade that ran it.
    pub version: String,
    /// The network, in words.
    pub setting: String,
    /// Whether it ran in virtual time, with the simulator's TCP; else over the kernel's.
    #[serde(rename = "virtual")]
    pub virtual_time: bool,
    /// How long connections ran before their shares were measured.
    pub warm_up_seconds: f64,
    /// How long they were measured.
    pub duration_seconds: f64,
    /// One for each run, in the order of running.
    pub rows: Vec<FairnessRow>,
    /// What the rows come to.
    pub summary: FairnessSummary,
}

impl FairnessReport {
    /// Names the document's kind and version.
    pub const SCHEMA: &str = "kumade.lab.fairness/1";

    /// Sums up what `scenario` came to. `started` is UTC in RFC 3339.
    pub fn new(scenario: &Fairness, started: String, rows: Vec<FairnessRow>) -> Self {
        FairnessReport {
            schema: FairnessReport::SCHEMA.to_owned(),
            experiment: scenario.name.clone(),
            title: scenario.title.clone(),
            started,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            setting: tables::setting(scenario),
            virtual_time: scenario.virtual_time,
            warm_up_seconds: scenario.warm_up.as_secs_f64(),
            duration_seconds: scenario.duration.as_secs_f64(),
            summary: FairnessSummary::of(&rows, &scenario.cases(), scenario.paper.as_ref()),
            rows,
        }
    }

    /// Reads a document that [`Document::to_json`] made.
    ///
    /// # Errors
    /// Where it is not one of this kind and version.
    pub fn from_json(text: &str) -> Result<Self, ReportError> {
        let report: FairnessReport = serde_json::from_str(text).map_err(|e| make("a comparison", &e))?;
        let known = report.schema == FairnessReport::SCHEMA;
        let other = || make("a comparison", &format!("it is {}, not {}", report.schema, FairnessReport::SCHEMA));
        if known { Ok(report) } else { Err(other()) }
    }

    fn content(&self) -> Content<'_> {
        let paper = self.summary.published.as_ref();
        Content {
            experiment: &self.experiment,
            title: &self.title,
            started: &self.started,
            version: &self.version,
            setting: self.setting.clone(),
            layer: "Goodput counts payload, utilisation IP packets.",
            paper: paper.map(|paper| {
                format!("{}, {}: {}. It found: {}", paper.system, paper.figure, paper.setting, paper.result)
            }),
            tables: tables::all(self),
            verdicts: tables::verdicts(self),
            notes: tables::notes(self),
        }
    }
}

impl Document for FairnessReport {
    fn to_json(&self) -> Result<String, ReportError> {
        serde_json::to_string_pretty(self).map_err(|e| make("the JSON document", &e))
    }

    fn to_csv(&self) -> Result<String, ReportError> {
        tables::csv(&self.rows).map_err(|e| make("the CSV file", &e))
    }

    fn to_text(&self) -> String {
        terminal::render(&self.content())
    }

    fn to_html(&self) -> Result<String, ReportError> {
        let plots = plots::all(self).map_err(|e| make("a plot", &e))?;
        html::render(&self.content(), &plots)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Overrides;
    use crate::fairness::run;
    use units::Span;

    /// A few points of an experiment in virtual time.
    fn made(name: &str, overrides: Overrides) -> FairnessReport {
        let overrides = Overrides { bottleneck: Some(crate::BottleneckKind::Virtual), ..overrides };
        let scenario = crate::load(name).unwrap().overridden(&overrides).unwrap().fairness().unwrap();
        let rows = run(&scenario, &mut |_| (), &|| false).unwrap();
        FairnessReport::new(&scenario, "2026-11-20T12:00:00Z".into(), rows)
    }

    fn wired() -> FairnessReport {
        made(
            "fair-wired",
            Overrides {
                runs: Some(2),
                delays: [2, 64].map(Span::from_millis).to_vec(),
                warm_up: Some(Span::from_secs(2)),
                duration: Some(Span::from_secs(4)),
                ..Overrides::default()
            },
        )
    }

    fn mix() -> FairnessReport {
        let duration = Some(Span::from_secs(4));
        made("fair-mix", Overrides { runs: Some(1), rows: vec![0, 6], duration, ..Overrides::default() })
    }

    /// What the disciplines make of CUBIC and Compound: a change of a queue or of a TCP model shows here.
    #[test]
    fn a_few_points_of_the_wired_experiment_read_like_this() {
        insta::assert_snapshot!(wired().to_text());
    }

    #[test]
    fn two_rows_of_the_mixes_read_like_this() {
        insta::assert_snapshot!(mix().to_text());
    }

    #[test]
    fn the_same_seeds_give_the_same_report() {
        assert_eq!(mix(), mix());
    }

    #[test]
    fn every_row_has_as_many_cells_as_there_are_columns_and_csv_a_line_for_each_group() {
        for report in [wired(), mix()] {
            for table in tables::all(&report) {
                assert!(table.rows.iter().all(|row| row.len() == table.columns.len()), "{}", table.caption);
            }
            let text = report.to_csv().unwrap();
            let lines: usize = report.rows.iter().map(|row| row.groups.len()).sum();
            assert_eq!(text.lines().count(), lines + 1);
        }
    }

    #[test]
    fn a_page_has_the_papers_kind_of_plots_and_needs_nothing_from_elsewhere() {
        let page = wired().to_html().unwrap();
        // Index, one of shares for each discipline, utilisation, waiting.
        assert_eq!(page.matches("<svg").count(), 1 + 4 + 2);
        assert_eq!(mix().to_html().unwrap().matches("<svg").count(), 3, "no shares where groups differ");
        for outside in ["src=", "@import", "url(", "<link", "<script"] {
            assert!(!page.contains(outside), "{outside}");
        }
    }

    /// Published for those who read the documents; generated from the types above and their comments.
    #[test]
    fn the_published_schema_is_that_of_the_documents() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schemas/kumade.lab.fairness.1.json");
        let schema = serde_json::to_value(schemars::schema_for!(FairnessReport)).unwrap();
        if std::env::var_os("WRITE_SCHEMAS").is_some() {
            std::fs::write(path, format!("{schema:#}\n")).unwrap();
        }
        let published: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        assert_eq!(published, schema, "write it anew: WRITE_SCHEMAS=1 cargo test -p lab schema");
        let validator = jsonschema::validator_for(&published).unwrap();
        for report in [wired(), mix()] {
            let json = report.to_json().unwrap();
            assert_eq!(FairnessReport::from_json(&json).unwrap(), report);
            let newer = json.replacen("fairness/1", "fairness/2", 1);
            assert!(FairnessReport::from_json(&newer).unwrap_err().to_string().contains("not kumade.lab.fairness/1"));
            let document = serde_json::from_str(&json).unwrap();
            assert!(validator.is_valid(&document), "{:?}", validator.iter_errors(&document).collect::<Vec<_>>());
        }
    }
}
