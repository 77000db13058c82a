use super::document::NatSessionReport;
use super::{conclusions, csv, plots, tables};
use crate::paper::Paper;
use crate::report::plot::Plot;
use crate::report::{DocumentParts, ReportContent};
use std::error::Error;

impl DocumentParts for NatSessionReport {
    fn content(&self) -> ReportContent<'_> {
        ReportContent {
            experiment: &self.experiment,
            title: &self.title,
            started: &self.started,
            version: &self.version,
            setting: self.setting.clone(),
            rate_definition: "Packets are those of hosts.",
            paper: self.summary.published.as_ref().map(Paper::in_words),
            tables: tables::report_tables(self),
            conclusions: conclusions::conclusions(self),
            notes: conclusions::run_notes(self),
        }
    }

    fn csv(&self) -> Result<String, Box<dyn Error>> {
        csv::rows_csv(&self.rows)
    }

    fn plots(&self) -> Result<Vec<Plot>, Box<dyn Error>> {
        plots::draw_plots(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accuracy::BottleneckKind;
    use crate::nat_session::{SessionEnd, run};
    use crate::report::{ReportDocument, schema};
    use crate::scenario::{Overrides, load};

    fn virtual_report() -> NatSessionReport {
        let virtual_time = Some(BottleneckKind::Virtual);
        let overrides = Overrides { bottleneck: virtual_time, runs: Some(1), ..Overrides::default() };
        let experiment = load("nat-session", &overrides).unwrap().into_nat_session().unwrap();
        let rows = run(&experiment, &mut |_| (), &|| false).unwrap();
        NatSessionReport::new(&experiment, "2026-11-22T12:00:00Z".into(), rows)
    }

    /// What the gateways' own protocol makes of each case: a change of its timers or messages shows here.
    #[test]
    fn the_sessions_in_virtual_time_read_like_this() {
        insta::assert_snapshot!(virtual_report().to_text());
    }

    /// The paper's Fig. 3, and what must hold whatever is lost or killed.
    #[test]
    fn every_flow_is_divided_while_it_sends_and_left_when_it_is_idle() {
        let report = virtual_report();
        for row in &report.rows {
            for flow in &row.flows {
                let last = flow.sessions.last().unwrap();
                assert_eq!(last.end, SessionEnd::Idle, "{}: {flow:?}", row.case);
                let ratio = last.idle_ratio.unwrap();
                assert!((1.0..1.1).contains(&ratio), "{}: {ratio}", row.case);
                assert!(last.removed_seconds.is_some() && last.forgotten_seconds.is_some(), "{}: {flow:?}", row.case);
                assert_eq!(flow.lost_packets, 0, "{}: {flow:?}", row.case);
                let is_killed = flow.sessions.iter().any(|session| session.end == SessionEnd::Lost);
                assert!(flow.altered_packets == 0 || is_killed, "{}: {flow:?}", row.case);
                for session in &flow.sessions {
                    let order = [
                        Some(session.asked_seconds),
                        session.granted_seconds,
                        session.opened_seconds,
                        session.left_seconds,
                    ];
                    assert!(order.windows(2).all(|pair| pair[0] <= pair[1]), "{}: {session:?}", row.case);
                }
            }
        }
    }

    #[test]
    fn every_row_has_as_many_cells_as_there_are_columns_and_csv_a_line_for_each_session() {
        let report = virtual_report();
        for table in tables::report_tables(&report) {
            assert!(table.rows.iter().all(|row| row.len() == table.columns.len()), "{}", table.caption);
        }
        let sessions: usize = report.rows.iter().map(|row| row.sessions().count()).sum();
        assert_eq!(report.to_csv().unwrap().lines().count(), sessions + 1);
    }

    #[test]
    fn a_page_needs_nothing_from_elsewhere() {
        let report = virtual_report();
        let page = report.to_html().unwrap();
        assert_eq!(page.matches("<svg").count(), report.rows.len());
        for outside in ["src=", "@import", "url(", "<link", "<script"] {
            assert!(!page.contains(outside), "{outside}");
        }
    }

    #[test]
    fn the_published_schema_is_that_of_the_documents() {
        let validator = schema::published_schema::<NatSessionReport>("kumade.lab.nat-session.1");
        let report = virtual_report();
        let json = report.to_json().unwrap();
        assert_eq!(NatSessionReport::from_json(&json).unwrap(), report);
        let document = serde_json::from_str(&json).unwrap();
        assert!(validator.is_valid(&document), "{:?}", validator.iter_errors(&document).collect::<Vec<_>>());
    }
}
