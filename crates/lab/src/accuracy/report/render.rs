use super::document::Report;
use super::{conclusions, plots, setting, tables};
use crate::report::plot::{Plot, PlotResult};
use crate::report::{ReportParts, Table};

impl ReportParts for Report {
    const RATE_DEFINITION: &'static str = "Rates count bits of IP packets.";
    const COLUMNS: &'static str = "\
        bottleneck_bits_per_second burst_bytes peak_bits_per_second downstream_bits_per_second \
        downstream_cross_bits_per_second downstream_cross_kind cross_bits_per_second cross_kind transport method \
        direction run truth_bits_per_second available_bits_per_second=available_bits_per_second.value \
        available_low_bits_per_second=available_bits_per_second.low \
        available_high_bits_per_second=available_bits_per_second.high available_bits_per_second.confidence \
        error_bits_per_second spread_bits_per_second connections packets_sent bytes_sent duration_seconds \
        full_seconds capacity_bits_per_second=capacity_bits_per_second.value \
        capacity_low_bits_per_second=capacity_bits_per_second.low \
        capacity_high_bits_per_second=capacity_bits_per_second.high capacity_reason \
        shaped_rate_bits_per_second=shaper.rate_bits_per_second.value \
        shaped_rate_low_bits_per_second=shaper.rate_bits_per_second.low \
        shaped_rate_high_bits_per_second=shaper.rate_bits_per_second.high \
        shaped_burst_bytes=shaper.burst_bytes.value shaped_burst_low_bytes=shaper.burst_bytes.low \
        shaped_burst_high_bytes=shaper.burst_bytes.high \
        shaped_link_bits_per_second=shaper.link_bits_per_second.value \
        shaped_link_low_bits_per_second=shaper.link_bits_per_second.low \
        shaped_link_high_bits_per_second=shaper.link_bits_per_second.high \
        up_delay_truth_seconds=up_delay_seconds.truth up_delay_seconds=up_delay_seconds.value \
        up_delay_low_seconds=up_delay_seconds.low up_delay_high_seconds=up_delay_seconds.high \
        down_delay_truth_seconds=down_delay_seconds.truth down_delay_seconds=down_delay_seconds.value \
        down_delay_low_seconds=down_delay_seconds.low down_delay_high_seconds=down_delay_seconds.high trains \
        trains_rejected repeats disturbed max_lateness_seconds reason";

    fn setting(&self) -> String {
        setting::describe_setting(self)
    }

    fn paper(&self) -> Option<String> {
        let paper = self.summary.published.as_ref();
        paper.map(|paper| format!("{}, {}: {}", paper.system, paper.figure, paper.setting))
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
            assert_eq!(paths.len(), 3 + usize::from(cfg!(feature = "arrow")));
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

#[cfg(test)]
mod csv_tests {
    use crate::accuracy::sample_reports;
    use crate::report::ReportDocument;

    fn cell(text: &str, record: usize, column: &str) -> String {
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let place = reader.headers().unwrap().iter().position(|header| header == column).unwrap();
        reader.records().nth(record).unwrap().unwrap()[place].to_owned()
    }

    #[test]
    fn a_line_for_each_run_and_an_empty_cell_for_null() {
        let text = sample_reports::firewall_report().to_csv().unwrap();
        assert_eq!(text.lines().count(), 1 + 2);
        assert_eq!(cell(&text, 0, "available_bits_per_second"), "");
        assert_eq!(cell(&text, 1, "available_bits_per_second"), "69850000");
        assert_eq!(cell(&text, 1, "error_bits_per_second"), "-150000");
        assert!(cell(&text, 0, "reason").contains("UDP is rejected"));
    }

    #[test]
    fn full_measurements_have_their_columns() {
        let text = sample_reports::full_report().to_csv().unwrap();
        assert_eq!(cell(&text, 0, "capacity_bits_per_second"), "101000000");
        assert_eq!(cell(&text, 0, "capacity_low_bits_per_second"), "98980000");
        assert_eq!(cell(&text, 0, "up_delay_truth_seconds"), "0.005");
        assert_eq!(cell(&text, 2, "capacity_bits_per_second"), "");
        assert_eq!(cell(&text, 2, "capacity_reason"), "the path is too busy");
    }
}
