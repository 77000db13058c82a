use super::document::NatSessionReport;
use super::{conclusions, plots, tables};
use crate::paper::Paper;
use crate::report::plot::{Plot, PlotResult};
use crate::report::{ReportParts, Table};

impl ReportParts for NatSessionReport {
    const RATE_DEFINITION: &'static str = "Packets are those of hosts.";
    const COLUMNS: &'static str = "\
        *flows *flows.sessions case run flows.flow flows.sessions.asked_seconds flows.sessions.granted_seconds \
        flows.sessions.opened_seconds flows.sessions.last_packet_seconds flows.sessions.left_seconds \
        flows.sessions.removed_seconds flows.sessions.forgotten_seconds flows.sessions.end \
        flows.sessions.idle_ratio flows.sessions.requests flows.sessions.divided_packets \
        flows.sessions.restored_packets flows.first_packet_wait_seconds flows.killed_seconds flows.sent_packets \
        flows.received_packets flows.altered_packets flows.lost_packets repeats disturbed lateness_p99_seconds";

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
    use crate::nat_session::{NatSessionExperiment, SessionEnd};
    use crate::report::{ReportDocument, schema};
    use crate::scenario::load;
    use crate::study::{Overrides, run};

    fn virtual_report() -> NatSessionReport {
        let virtual_time = Some(BottleneckKind::Virtual);
        let overrides = Overrides { bottleneck: virtual_time, runs: Some(1), ..Overrides::default() };
        let experiment = load("nat-session", &overrides).unwrap().into_scenario::<NatSessionExperiment>().unwrap();
        let rows = run(&experiment, &mut |_| (), &|| false).unwrap().rows;
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
