//! The report of an experiment on fast links.

use super::row::FastLinkRow;
use super::scenario::FastLinksExperiment;
use super::summary::{FastLinksSummary, PathSummary, undisturbed_rows};
use crate::accuracy::BottleneckKind;
use crate::report::{Column, ReportParts, Table, describe_disturbances, format_number, format_part, report_document};
use kumade_units::Rate;

report_document! {
    /// The results of an experiment on links of gigabits per second.
    FastLinksReport, "kumade.lab.fast-links/1": |experiment: &FastLinksExperiment, given: Vec<FastLinkRow>|, FastLinkRow;
    /// What was built, in words.
    setting: String = describe_setting(experiment),
    /// One for each measurement.
    rows: Vec<FastLinkRow> = given,
    /// The rows summed up.
    summary: FastLinksSummary = FastLinksSummary::from_rows(&rows),
}

impl ReportParts for FastLinksReport {
    const RATE_DEFINITION: &'static str = "Rates count IP packets.";
    const COLUMNS: &'static str = "\
        bottleneck_bits_per_second mtu_bytes cross_bits_per_second transport run carried_bits_per_second \
        truth_bits_per_second available_bits_per_second=available_bits_per_second.value \
        available_low_bits_per_second=available_bits_per_second.low \
        available_high_bits_per_second=available_bits_per_second.high at_least_bits_per_second \
        at_most_bits_per_second limited_by error_ratio covers_truth bytes_sent duration_seconds repeats disturbed \
        reason";

    fn setting(&self) -> String {
        self.setting.clone()
    }

    fn tables(&self) -> Vec<Table> {
        vec![path_table(&self.summary.paths), refusal_table(&self.summary.paths)]
    }

    fn conclusions(&self) -> Vec<String> {
        conclusions(self)
    }

    fn notes(&self) -> Vec<String> {
        run_notes(&self.rows)
    }
}

fn describe_setting(experiment: &FastLinksExperiment) -> String {
    format!(
        "{} with a queue of {} between real hosts, whose devices carry what is sent at once as one packet of the kernel; {} runs \
         each; full measurements, upwards",
        if experiment.bottleneck == BottleneckKind::Htb { "the kernel's HTB" } else { "an emulated link" },
        experiment.queue,
        experiment.runs
    )
}

fn format_gigabits(rate: Rate) -> String {
    format!("{:.2}", rate.as_f64() / 1e9)
}

const PATH_COLUMNS: [Column<'_, PathSummary>; 4] = [
    ("Gbit/s", &|path| format_gigabits(path.bottleneck_bits_per_second)),
    ("MTU", &|path| path.mtu_bytes.to_string()),
    ("cross", &|path| format_gigabits(path.cross_bits_per_second)),
    ("transport", &|path| path.transport.clone()),
];
const FIGURE_COLUMNS: [Column<'_, PathSummary>; 10] = [
    ("runs", &|path| path.runs.to_string()),
    ("disturbed", &|path| path.disturbed.to_string()),
    ("values", &|path| path.values.to_string()),
    ("error", &|path| format_part(path.median_error_ratio, 2)),
    ("coverage", &|path| format_part(path.coverage_ratio, 0)),
    ("wrong", &|path| path.wrong.to_string()),
    ("at least", &|path| path.median_at_least_bits_per_second.map_or("–".into(), format_gigabits)),
    ("sender", &|path| path.limited_by_sender.to_string()),
    ("MB", &|path| format_number(path.mean_bytes, 1e6, 1)),
    ("s", &|path| format_number(path.mean_seconds, 1.0, 1)),
];

fn path_table(paths: &[PathSummary]) -> Table {
    let caption = "By path: how many runs were disturbed, as the emulated link was late, and are left out; how many gave a value; \
                   median of the errors and coverage of the intervals, in percent; statements that are \
                   wrong with confidence, by more than 5 %; median of the lower bounds in place of values; how often the sender was \
                   named as the limit; mean cost of a measurement";
    Table::from_items(caption, paths, &[&PATH_COLUMNS[..], &FIGURE_COLUMNS].concat())
}

fn refusal_table(paths: &[PathSummary]) -> Table {
    Table::of_counts("Measurements without a value, by cause", paths, &PATH_COLUMNS, ["runs", "cause"], |path| {
        &path.refusals
    })
}

fn conclusions(report: &FastLinksReport) -> Vec<String> {
    let FastLinksSummary { udp_median_error_ratio, wrong, .. } = &report.summary;
    let over_udp = || undisturbed_rows(&report.rows).filter(|row| row.transport == "udp");
    let values = over_udp().filter(|row| row.error_ratio.is_some()).count();
    let error = udp_median_error_ratio
        .map(|error| format!("udp: {values} of {} values, median error {:.2} %", over_udp().count(), error * 100.0));
    error
        .into_iter()
        .chain([format!(
            "{wrong} of {} measurements were wrong with confidence",
            undisturbed_rows(&report.rows).count()
        )])
        .collect()
}

/// On which links this machine is the limit, and what disturbed runs.
fn run_notes(rows: &[FastLinkRow]) -> Vec<String> {
    let link = |row: &FastLinkRow| (row.bottleneck_bits_per_second, row.mtu_bytes);
    let links = rows.chunk_by(|a, b| link(a) == link(b)).filter_map(|rows| rows.first());
    links
        .filter(|row| row.is_beyond_machine())
        .map(|row| {
            format!(
                "this machine itself is the limit on the link of {} with an MTU of {}: it carries {}",
                row.bottleneck_bits_per_second, row.mtu_bytes, row.carried_bits_per_second
            )
        })
        .chain(describe_disturbances(rows.iter().map(|row| (row.repeats, row.disturbed))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fast_links::{FastLinkPath, FastLinkPoint};
    use crate::report::{ReportDocument, schema};
    use crate::scenario::load;
    use crate::study::Overrides;
    use kumade_estimate::{Outcome, Reason};
    use kumade_measurement::Cost;
    use kumade_measurement::report::DirectionReport;
    use kumade_probe_train::Estimate;
    use kumade_probe_train::Transport;

    /// Reports one after the other, each at 10 Gbit/s of which this machine carries 8: of a value, or of a lower bound.
    fn report_of(found: &[Result<u64, u64>]) -> FastLinksReport {
        let experiment =
            load("fast-links", &Overrides::default()).unwrap().into_scenario::<FastLinksExperiment>().unwrap();
        let (rate, carried) = (Rate::from_mbit(10_000), Rate::from_mbit(8000));
        let path = FastLinkPath { rate, mtu: 1500 };
        let row = |(found, run): (&Result<u64, u64>, u32)| {
            let point = FastLinkPoint { path, cross: Rate::ZERO, transport: crate::accuracy::Transport::Udp, run };
            let refused = Outcome::without_value(Reason::SenderLimited(Rate::from_mbit(7500)));
            let report = DirectionReport::new(Transport::Udp, 0, "primed", refused, None, &Cost::default());
            let of = |mbit| Estimate { value: mbit, low: mbit - 100, high: mbit + 100, confidence: 0.95 };
            let report = match *found {
                Ok(mbit) => DirectionReport {
                    available_bits_per_second: Some(of(mbit).map(Rate::from_mbit)),
                    reason: None,
                    ..report
                },
                Err(mbit) => DirectionReport {
                    at_least_bits_per_second: Some(Rate::from_mbit(mbit)),
                    limited_by: Some("sender".into()),
                    ..report
                },
            };
            FastLinkRow::new(&point, carried, rate, Ok(report))
        };
        let rows = found.iter().zip(1..).map(row).collect();
        FastLinksReport::new(&experiment, "2026-11-25T12:00:00Z".into(), rows)
    }

    #[test]
    fn a_table_in_which_nothing_is_counted_is_left_out() {
        let tables = |found: &[Result<u64, u64>]| report_of(found).to_text().contains("without a value, by cause");
        assert_eq!([tables(&[Err(7500)]), tables(&[Ok(9950)])], [true, false]);
    }

    #[test]
    fn what_disturbed_runs_cost_is_not_said() {
        let report = report_of(&[Ok(9950)]);
        let rows = report.rows.iter().map(|row| FastLinkRow { disturbed: true, ..row.clone() }).collect::<Vec<_>>();
        let [path] = &FastLinksSummary::from_rows(&rows).paths[..] else { panic!("{rows:?}") };
        let cells: Vec<_> = FIGURE_COLUMNS.iter().map(|(_, cell)| cell(path)).collect();
        assert_eq!(cells, ["1", "1", "0", "–", "–", "0", "–", "0", "–", "–"]);
    }

    #[test]
    fn values_bounds_and_what_is_wrong_with_confidence_are_counted() {
        let report = report_of(&[Ok(9950), Ok(9000), Err(7500), Err(11_000)]);
        let [path] = &report.summary.paths[..] else { panic!("{report:?}") };
        assert_eq!((path.runs, path.values, path.wrong, path.limited_by_sender), (4, 2, 2, 2));
        assert_eq!(
            (path.coverage_ratio, path.median_at_least_bits_per_second),
            (Some(0.5), Some(Rate::from_mbit(9250)))
        );
        assert!((path.median_error_ratio.unwrap() - 0.0525).abs() < 1e-9, "{path:?}");
        assert_eq!(
            path.refusals,
            [("sender-limited: the path carried the highest rate that could be sent, …".to_owned(), 2)].into()
        );
        let text = report.to_text();
        assert!(text.contains("udp: 2 of 4 values, median error 5.25 %"), "{text}");
        assert!(text.contains("2 of 4 measurements were wrong with confidence"), "{text}");
        assert!(text.contains(
            "this machine itself is the limit on the link of 10 Gbit/s with an MTU of 1500: it carries 8 Gbit/s"
        ));
    }

    #[test]
    fn the_document_has_the_published_schema_and_reads_back() {
        let report = report_of(&[Ok(9950), Err(7500)]);
        let validator = schema::published_schema::<FastLinksReport>("kumade.lab.fast-links.1");
        let json = report.to_json().unwrap();
        let document: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert!(validator.is_valid(&document), "{:?}", validator.iter_errors(&document).collect::<Vec<_>>());
        assert_eq!(FastLinksReport::from_json(&json).unwrap(), report);
        assert_eq!(report.to_csv().unwrap().lines().count(), 3);
        assert!(report.to_html().unwrap().contains("fast-links"));
    }
}
