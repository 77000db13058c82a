use super::document::MultipathReport;
use super::{blocks, conclusions, plots, tables};
use crate::paper::Paper;
use crate::report::plot::{Plot, PlotResult};
use crate::report::{CsvResult, ReportParts, Table, Values};

const EXTRA_FILES: [&str; 3] = ["blocks.csv", "spectrum.csv", "trace.csv"];
const BLOCK_COLUMNS: &str =
    "*blocks case contender run blocks.block_bytes blocks.no_delay blocks.goodput_bits_per_second";
const TRACE_COLUMNS: &str = "*trace case contender run trace.layer trace.connection trace.seconds trace.sequence_bytes \
                             trace.payload_bytes trace.is_repeat";

const SPECTRUM_COLUMNS: &str = "case contender run first_bytes last_bytes period_bytes power";

impl ReportParts for MultipathReport {
    const RATE_DEFINITION: &'static str = "Goodput counts payload, the paths' rates IP packets.";
    const COLUMNS: &'static str = "\
        case contender run goodput_bits_per_second share_of_sum_ratio framing_ratio share_of_framing_ratio \
        retransmitted_segments received_packets=order.packets order.reordered_packets order.median_extent_packets \
        order.p95_extent_packets order.max_extent_packets lost_packets longest_gap_seconds \
        sparse_median_seconds=sparse_delay.median_seconds sparse_p99_seconds=sparse_delay.p99_seconds \
        sparse_added_p99_seconds echo_median_seconds=echo.round_trips.median_seconds \
        echo_p99_seconds=echo.round_trips.p99_seconds echo_unanswered_ratio=echo.unanswered_ratio \
        recovery_seconds congestion_control lower_congestion_control repeats disturbed lateness_p99_seconds";

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

    /// Goodput by the length of writes with its periods, and segments: where there are any.
    fn extra_files(&self) -> Vec<(&'static str, CsvResult)> {
        let files = EXTRA_FILES.iter().filter_map(|file| Some((*file, self.extra_values(file)?)));
        let files = files.filter(|(_, values)| !values.lines.is_empty());
        files.map(|(file, values)| (file, values.to_csv())).collect()
    }

    fn extra_values(&self, file: &str) -> Option<Values> {
        let values = match file {
            "blocks.csv" => Values::from_rows(&self.rows, BLOCK_COLUMNS),
            "spectrum.csv" => Values::from_rows(&blocks::spectra(self), SPECTRUM_COLUMNS),
            "trace.csv" => Values::from_rows(&self.rows, TRACE_COLUMNS),
            _ => return None,
        };
        values.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accuracy::BottleneckKind;
    use crate::delay_quantiles::{DelayQuantiles, EchoDelays};
    use crate::multipath::{
        BlockRate, MultipathExperiment, MultipathObservation, MultipathPoint, MultipathRow, Reordering, TcpLayer,
        TraceSegment,
    };
    use crate::report::{ReportDocument, StatementResult, schema};
    use crate::scenario::load;
    use crate::study::{Overrides, Study, run};
    use kumade_units::Span;

    /// A report in which all contenders did the same.
    fn made(name: &str) -> MultipathReport {
        made_with(name, &Overrides::default())
    }

    fn made_with(name: &str, overrides: &Overrides) -> MultipathReport {
        let experiment = load(name, overrides).unwrap().into_scenario::<MultipathExperiment>().unwrap();
        let seconds = Span::from_secs(10);
        let row = |point: &MultipathPoint<'_>| {
            let order = Reordering {
                packets: 9000,
                reordered_packets: 90,
                median_extent_packets: Some(3),
                p95_extent_packets: Some(20),
                max_extent_packets: Some(40),
            };
            let delays = DelayQuantiles { median_seconds: 0.03, p95_seconds: 0.031, p99_seconds: 0.04 };
            let observed = MultipathObservation {
                delivered_bytes: 17_500_000,
                duration: seconds,
                full_payload_bytes: 1448,
                full_packet_bytes: 1500,
                retransmitted_segments: Some(7),
                reordering: Some(order),
                arrival_order: vec![3, 5, 4],
                lost_packets: Some(11),
                longest_gap: Some(Span::from_millis(123)),
                sparse_delays: Some(delays),
                echo_delays: Some(EchoDelays { round_trips: delays, unanswered_ratio: 0.02 }),
                recovery_time: Some(Span::from_millis(300)),
                trace: if point.case.trace { trace() } else { Vec::new() },
                block_rates: blocks(&experiment),
                forwarded_by_path: vec![8000, 4000],
                lateness_p99: Some(Span::from_micros(90)),
            };
            MultipathRow::new(point, experiment.workload, observed)
        };
        let rows = experiment.points().iter().map(row).collect();
        MultipathReport::new(&experiment, "2026-11-22T12:00:00Z".into(), rows)
    }

    fn trace() -> Vec<TraceSegment> {
        let segment = |layer, sequence_bytes, is_repeat| TraceSegment {
            layer,
            connection: 0,
            seconds: 0.5,
            sequence_bytes,
            payload_bytes: 1448,
            is_repeat,
        };
        vec![
            segment(TcpLayer::Upper, 0, false),
            segment(TcpLayer::Lower, 1448, false),
            segment(TcpLayer::Lower, 0, true),
        ]
    }

    /// All lengths alike, but that multiples of four are a tenth better.
    fn blocks(experiment: &MultipathExperiment) -> Vec<BlockRate> {
        let rate = |(block_bytes, no_delay): (u32, bool)| {
            let goodput_bits_per_second = if block_bytes.is_multiple_of(4) { 55e6 } else { 50e6 };
            BlockRate { block_bytes, no_delay, goodput_bits_per_second }
        };
        experiment.blocks.block_settings().into_iter().map(rate).collect()
    }

    fn all() -> [MultipathReport; 8] {
        let lower = ["tunnel-rto", "block-size", "tunnel-trace"];
        let several = ["multipath-tcp", "multipath-unequal", "multipath-reorder", "multipath-udp", "multipath-auto"];
        let [a, b, c, d, e] = several.map(made);
        let [f, g, h] = lower.map(made);
        [a, b, c, d, e, f, g, h]
    }

    /// What the gateways' own code makes of two unequal paths: a change of the path choice, the resequencer or the TCP model
    /// shows here.
    #[test]
    fn unequal_paths_in_virtual_time_read_like_this() {
        let virtual_time = Some(BottleneckKind::Virtual);
        let overrides = Overrides { bottleneck: virtual_time, runs: Some(1), ..Overrides::default() };
        let experiment = load("multipath-unequal", &overrides).unwrap().into_scenario::<MultipathExperiment>().unwrap();
        let rows = run(&experiment, &mut |_| (), &|| false).unwrap().rows;
        let report = MultipathReport::new(&experiment, "2026-11-22T12:00:00Z".into(), rows);
        insta::assert_snapshot!(report.to_text());
    }

    #[test]
    fn every_row_has_as_many_cells_as_there_are_columns_and_csv_a_line_for_each_run() {
        for report in all() {
            for table in tables::report_tables(&report) {
                assert!(table.rows.iter().all(|row| row.len() == table.columns.len()), "{}", table.caption);
            }
            assert_eq!(report.to_csv().unwrap().lines().count(), report.rows.len() + 1);
        }
    }

    #[test]
    fn goodput_is_related_to_what_the_framing_leaves() {
        let report = made("multipath-unequal");
        let row = report.rows.iter().find(|row| row.case == "8/0 + 8/25 ms").unwrap();
        assert_eq!((row.goodput_bits_per_second, row.share_of_sum_ratio), (14e6, Some(14.0 / 16.0)));
        let share = row.share_of_framing_ratio.unwrap();
        assert!((share - 14.0 / 16.0 / (1448.0 / 1500.0)).abs() < 1e-12, "{share}");
        let text = report.to_text();
        assert!(
            text.contains("bonded gets 90.6 % of what its framing leaves, minimum 90.6 %; required 95 %: not met"),
            "{text}"
        );
        assert!(text.contains("Multipath TCP 14.00 Mbit/s (+0.0 %)"), "{text}");
    }

    #[test]
    fn what_the_paper_has_stands_beside() {
        let text = made("multipath-tcp").to_text();
        assert!(text.contains("direct 1:1 87.5 % of the sum, paper 92 %"), "{text}");
        let reordering = made_with(
            "multipath-reorder",
            &Overrides { bottleneck: Some(BottleneckKind::Virtual), ..Overrides::default() },
        );
        assert!(reordering.to_text().contains("in virtual time, only the greatest extent of reordering is known"));
        let text = made("multipath-udp").to_text();
        assert!(text.contains("paper 84.7 Mbit/s") && text.contains("100.0 % of that; required 85 %: met"), "{text}");
        assert!(made("multipath-reorder").to_text().contains("90 of 9000 packets (1.0 %) arrive out of order"));
    }

    #[test]
    fn what_is_found_without_help_stands_beside_fixed_ratios() {
        let text = made("multipath-auto").to_text();
        assert_eq!(text.matches("100.0 % of the best fixed ratio").count(), 10, "{text}");
        let verdict =
            "of the best fixed ratio 100.0 % on average, required 97 %: met; 100.0 % at least, required 92 %: met";
        assert!(text.contains(verdict) && text.contains("pair 10 of seed 67: "), "{text}");
        assert!(!made("multipath-unequal").to_text().contains("best fixed ratio"));
    }

    #[test]
    fn tunnels_are_compared_as_the_scenario_asks() {
        let text = made("tunnel-rto").to_text();
        let published =
            "goodput of tunnel-tcp, plain, RTO 1 s: 1.00 × that of tunnel-tcp, plain, RTO 3 s; published 1.57 ×";
        assert!(text.contains(&format!("old-style, 0.1 % loss: {published}")), "{text}");
        assert!(text.contains("echo p99 of tunnel-rake: 40.0 ms; required at most 35.0 ms: not met"), "{text}");
        let carried = text.lines().find(|line| line.contains("tunnel-rake") && line.contains("cubic")).unwrap();
        assert_eq!(carried.matches("cubic").count(), 2, "{carried}");
    }

    #[test]
    fn a_period_is_looked_for_in_the_lengths_of_writes() {
        let text = made("block-size").to_text();
        assert!(text.contains("single: writes of a multiple of 4 bytes carry +10.0 %"), "{text}");
        assert!(
            text.contains("single: of lengths of 500 to 540 bytes, the strongest period is of 4 bytes, "),
            "{text}"
        );
        assert!(
            text.contains(
                "writes of 16 bytes: tunnel-rake carries 1.00 of what is carried directly; required 0.95: met"
            )
        );
    }

    /// A misspelt case or contender would leave a statement without a figure.
    #[test]
    fn every_statement_of_a_paper_finds_its_rows() {
        let options = Overrides { as_published: true, ..Overrides::default() };
        for name in ["block-size", "tunnel-rto", "tunnel-rto-both", "tunnel-trace", "multipath-tcp"] {
            let mut report = made_with(name, &options);
            report.compare_statements(load(name, &options).unwrap().statements(), &[]);
            assert!(!report.statements.is_empty(), "{name}");
            assert!(
                report.statements.iter().all(|statement| statement.holds.is_some()),
                "{name}: {:?}",
                report.statements
            );
        }
    }

    #[test]
    fn a_run_as_published_judges_what_the_paper_states() {
        let options = Overrides {
            bottleneck: Some(BottleneckKind::Virtual),
            duration: Some(Span::from_secs(3)),
            runs: Some(1),
            as_published: true,
            ..Overrides::default()
        };
        let experiment = load("tunnel-trace", &options).unwrap();
        let (report, runs) = experiment.run(&mut experiment.new_record(), &mut |_| (), &|| false).unwrap();
        assert_eq!(runs, 3);
        let read = MultipathReport::from_json(&report.to_json().unwrap()).unwrap();
        assert_eq!(read.statements.len(), 2);
        // A timeout of 3 s cannot show in 3 s.
        let is_judged = |statement: &StatementResult| statement.holds.is_some() || statement.value.is_none();
        assert!(!read.statements.iter().any(is_judged), "{:?}", read.statements);
        let reason = read.statements[0].reason.as_deref().unwrap();
        assert!(reason.ends_with("one with --duration 3 s"), "{reason}");
        // Segments of both layers are known in virtual time, too.
        assert!(read.rows.iter().all(|row| row.trace.iter().any(|s| s.layer == TcpLayer::Lower)));
        assert!(read.rows.iter().all(|row| row.trace.iter().any(|s| s.layer == TcpLayer::Upper)));
        let (text, page) = (report.to_text(), report.to_html().unwrap());
        assert!(
            text.contains("What the paper states, or leaves open\n- ")
                && text.contains("loss alone makes no lasting collapse"),
            "{text}"
        );
        assert!(page.contains("<h2>What the paper states, or leaves open</h2>"));
        let schema = schema::published_schema::<MultipathReport>("kumade.lab.multipath.1");
        assert!(schema.is_valid(&serde_json::from_str(&report.to_json().unwrap()).unwrap()));
    }

    #[test]
    fn many_settings_and_cases_have_a_map() {
        let titles =
            |name| plots::draw_plots(&made(name)).unwrap().into_iter().map(|plot| plot.title).collect::<Vec<_>>();
        assert!(titles("tunnel-rto-both").contains(&"tunnel-tcp by setting and case".to_owned()));
        assert!(!titles("tunnel-rto").iter().any(|title| title.ends_with("and case")));
    }

    #[test]
    fn what_does_not_fit_a_line_for_each_run_has_a_file_of_its_own() {
        let names = |name: &str| {
            let files = made(name).extra_files();
            files.into_iter().map(|(name, text)| (name, text.unwrap().lines().count())).collect::<Vec<_>>()
        };
        // Five contenders with three segments each.
        assert_eq!(names("tunnel-trace"), [("trace.csv", 16)]);
        assert_eq!(names("tunnel-rto"), []);
        let names = names("block-size");
        assert!(names[0].1 > 100, "{names:?}");
        // Periods of 3 to 16 bytes for each contender.
        assert_eq!(names[1], ("spectrum.csv", 1 + 5 * 14));
    }

    #[test]
    fn a_page_needs_nothing_from_elsewhere() {
        for (report, plots) in all().iter().zip([2, 2, 6, 1, 2, 4, 1, 9]) {
            let page = report.to_html().unwrap();
            assert_eq!(page.matches("<svg").count(), plots, "{}", report.experiment);
            for outside in ["src=", "@import", "url(", "<link", "<script"] {
                assert!(!page.contains(outside), "{outside}");
            }
        }
    }

    #[test]
    fn the_published_schema_is_that_of_the_documents() {
        let validator = schema::published_schema::<MultipathReport>("kumade.lab.multipath.1");
        for report in all() {
            let json = report.to_json().unwrap();
            assert_eq!(MultipathReport::from_json(&json).unwrap(), report);
            let document = serde_json::from_str(&json).unwrap();
            assert!(validator.is_valid(&document), "{:?}", validator.iter_errors(&document).collect::<Vec<_>>());
        }
    }
}
