use super::document::FairnessReport;
use super::{conclusions, plots, tables};
use crate::paper::Paper;
use crate::report::plot::{Plot, PlotResult};
use crate::report::{ReportParts, Table};

impl ReportParts for FairnessReport {
    const RATE_DEFINITION: &'static str = "Goodput counts payload, utilisation IP packets.";
    const COLUMNS: &'static str = "\
        *groups case added_delay_seconds discipline run jain_index utilisation_ratio goodput_bits_per_second \
        groups.group groups.connections groups.mean_goodput_bits_per_second \
        group_queueing_mean_seconds=groups.queueing_mean_seconds group_queueing_p99_seconds=groups.queueing_p99_seconds \
        queueing_median_seconds=queueing.median_seconds queueing_p95_seconds=queueing.p95_seconds \
        queueing_p99_seconds=queueing.p99_seconds drops.offered_packets drops.queue_full_packets \
        drops.managed_packets drops.marked_packets repeats disturbed lateness_p99_seconds";

    fn setting(&self) -> String {
        self.setting.clone()
    }

    fn paper(&self) -> Option<String> {
        self.summary.published.as_ref().map(Paper::in_words)
    }

    fn tables(&self) -> Vec<Table> {
        tables::report_tables(self)
    }

    fn conclusions(&self) -> Vec<String> {
        conclusions::conclusions(self)
    }

    fn notes(&self) -> Vec<String> {
        conclusions::run_notes(self)
    }

    fn plots(&self) -> PlotResult<Vec<Plot>> {
        plots::draw_plots(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accuracy::BottleneckKind;
    use crate::fairness::FairnessExperiment;
    use crate::report::{ReportDocument, schema};
    use crate::scenario::load;
    use crate::study::{Overrides, run};
    use kumade_units::Span;

    /// A few points of an experiment in virtual time.
    fn made(name: &str, overrides: Overrides) -> FairnessReport {
        let overrides = Overrides { bottleneck: Some(BottleneckKind::Virtual), ..overrides };
        let experiment = load(name, &overrides).unwrap().into_scenario::<FairnessExperiment>().unwrap();
        let rows = run(&experiment, &mut |_| (), &|| false).unwrap().rows;
        FairnessReport::new(&experiment, "2026-11-20T12:00:00Z".into(), rows)
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
            for table in tables::report_tables(&report) {
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

    #[test]
    fn the_published_schema_is_that_of_the_documents() {
        let validator = schema::published_schema::<FairnessReport>("kumade.lab.fairness.1");
        for report in [wired(), mix()] {
            let json = report.to_json().unwrap();
            assert_eq!(FairnessReport::from_json(&json).unwrap(), report);
            let newer = json.replacen("fairness/1", "fairness/2", 1);
            assert!(
                FairnessReport::from_json(&newer)
                    .unwrap_err()
                    .to_string()
                    .contains("its schema is kumade.lab.fairness/2")
            );
            let document = serde_json::from_str(&json).unwrap();
            assert!(validator.is_valid(&document), "{:?}", validator.iter_errors(&document).collect::<Vec<_>>());
        }
    }
}
