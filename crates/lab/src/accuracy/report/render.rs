use super::document::Report;
use super::{conclusions, csv, plots, setting, tables};
use crate::report::plot::Plot;
use crate::report::{DocumentParts, ReportContent};
use std::error::Error;

impl DocumentParts for Report {
    fn content(&self) -> ReportContent<'_> {
        let paper = self.summary.published.as_ref();
        ReportContent {
            experiment: &self.experiment,
            title: &self.title,
            started: &self.started,
            version: &self.version,
            setting: setting::describe_setting(self),
            rate_definition: "Rates count bits of IP packets.",
            paper: paper.map(|paper| format!("{}, {}: {}", paper.system, paper.figure, paper.setting)),
            tables: tables::report_tables(self),
            conclusions: conclusions::conclusions(self),
            notes: conclusions::run_notes(self),
        }
    }

    fn csv(&self) -> Result<String, Box<dyn Error>> {
        Ok(csv::rows_csv(&self.rows)?)
    }

    fn plots(&self) -> Result<Vec<Plot>, Box<dyn Error>> {
        plots::draw_plots(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accuracy::sample_reports;
    use crate::error::ReportError;
    use crate::report::{ReportDocument, prepare_directory, schema};
    use std::path::Path;

    fn all() -> [Report; 4] {
        [
            sample_reports::accuracy_report(),
            sample_reports::firewall_report(),
            sample_reports::cwnd_report(),
            sample_reports::full_report(),
        ]
    }

    #[test]
    fn a_document_reads_back_as_it_was() {
        for report in all() {
            let json = report.to_json().unwrap();
            assert_eq!(serde_json::from_str::<Report>(&json).unwrap(), report);
        }
    }

    #[test]
    fn the_published_schema_is_that_of_the_documents() {
        let validator = schema::published_schema::<Report>("kumade.lab.1");
        for report in all() {
            let document = serde_json::to_value(&report).unwrap();
            assert!(validator.is_valid(&document), "{:?}", validator.iter_errors(&document).collect::<Vec<_>>());
            let mut other = document.clone();
            other["schema"] = "kumade.lab/2".into();
            assert!(!validator.is_valid(&other));
            let mut incomplete = document;
            incomplete.as_object_mut().unwrap().remove("rows");
            assert!(!validator.is_valid(&incomplete));
        }
    }

    #[test]
    fn programs_find_the_errors_under_their_published_names() {
        let document: serde_json::Value =
            serde_json::from_str(&sample_reports::accuracy_report().to_json().unwrap()).unwrap();
        assert_eq!(document["schema"], "kumade.lab/1");
        let error = &document["summary"]["mean_absolute_error_bits_per_second"]["rake"]["primed"];
        assert!((error.as_f64().unwrap() - 200_000.0).abs() < 1.0, "{error}");
        assert_eq!(document["summary"]["published"]["mean_absolute_error_bits_per_second"]["udp"], 18.2e6);
    }

    #[test]
    fn all_three_files_are_written_and_replaced() {
        let directory = std::env::temp_dir().join(format!("kumade-report-{}", std::process::id()));
        prepare_directory(&directory).unwrap();
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
        for _ in 0..2 {
            let paths = sample_reports::firewall_report().write_files(&directory).unwrap();
            assert_eq!(paths.len(), 3);
            assert!(paths.iter().all(|path| path.metadata().unwrap().len() > 100));
        }
        std::fs::remove_dir_all(&directory).unwrap();
        assert!(matches!(prepare_directory(Path::new("/proc/nowhere")), Err(ReportError::Write(_))));
        let error = sample_reports::firewall_report().write_files(Path::new("/proc/nowhere")).unwrap_err().to_string();
        assert!(error.contains("/proc/nowhere") && error.contains("--out"), "{error}");
    }

    #[test]
    fn a_page_needs_nothing_from_elsewhere() {
        for report in all() {
            let page = report.to_html().unwrap();
            assert!(page.contains("<svg") && page.contains("<table"));
            for outside in ["src=", "@import", "url(", "<link", "<script"] {
                assert!(!page.contains(outside), "{outside}");
            }
        }
    }

    #[test]
    fn text_from_the_network_stays_text() {
        let mut report = sample_reports::firewall_report();
        report.rows[0].reason = Some("<script>alert(1)</script>".into());
        assert!(!report.to_html().unwrap().contains("<script>"));
    }

    #[test]
    fn the_firewall_experiment_reads_like_this() {
        insta::assert_snapshot!(sample_reports::firewall_report().to_text());
    }

    #[test]
    fn the_accuracy_experiment_reads_like_this() {
        insta::assert_snapshot!(sample_reports::accuracy_report().to_text());
    }

    #[test]
    fn the_window_experiment_reads_like_this() {
        insta::assert_snapshot!(sample_reports::cwnd_report().to_text());
    }

    #[test]
    fn an_experiment_with_full_measurements_reads_like_this() {
        insta::assert_snapshot!(sample_reports::full_report().to_text());
    }
}
