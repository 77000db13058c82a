//! The default method on paths of many kinds: how far off, how often its interval holds the truth, and how often it is wrong
//! with confidence.
//!
//! The tables, one for each transport, are committed snapshots, of paths drawn from seeds that nothing was tuned with. `cargo
//! run -p kumade-sim --example atlas` shows the same of those that may tune.

use kumade_estimate::{MethodSettings, Reason};
use kumade_measurement::report::DirectionReport;
use kumade_probe_train::Transport;
use kumade_sim::atlas::{DrawnPath, KindResults, PathComparison, PathKind, PathResult, Seeds};
use std::fmt::Write;

const PATHS: u32 = 40;

#[test]
fn paths_of_all_kinds_over_udp_come_to_this() {
    insta::assert_snapshot!(table(Transport::Udp));
}

#[test]
fn paths_of_all_kinds_over_rake_come_to_this() {
    insta::assert_snapshot!(table(Transport::Rake));
}

/// On these paths, the posterior had five values that were wrong with confidence, of one queue where a second link was tight: what trains behind a
/// preload deviate from that queue by, and trains without one, went unseen.
#[test]
fn a_posterior_is_not_sure_of_one_queue_where_another_link_is_tight() {
    let compare = |kind, number| {
        let path = DrawnPath::new(kind, Seeds::Tuning.seed(number));
        let (measured, facts) = path.measure_with_facts(Transport::Udp, &MethodSettings::default()).unwrap();
        PathComparison::new(&measured, facts.evidence().as_ref(), path.sustained_rate).posterior
    };
    let wrong = (0..10).filter(|number| compare(PathKind::TightLink, *number).is_wrong).count();
    assert!(wrong <= 1, "{wrong} of 10");
    let plain: Vec<_> = (0..10).map(|number| compare(PathKind::Fifo, number)).collect();
    let (values, wrong) = (plain.iter().filter(|p| p.width_ratio.is_some()), plain.iter().filter(|p| p.is_wrong));
    assert!(values.count() >= 8 && wrong.count() == 0, "{plain:?}");
}

fn table(transport: Transport) -> String {
    let mut table = format!("{PATHS} paths of each kind; errors in percent of what the path carries\n\n");
    let columns = ["values", "coverage %", "error", "width %", "wrong", "MB", "seconds"];
    let titles: String = columns.iter().map(|title| format!("{title:>11}")).collect();
    writeln!(table, "{:<20}{titles}", "").unwrap();
    for kind in PathKind::ALL.into_iter().filter(|kind| kind.can_carry(transport)) {
        let summary = measure(kind, transport);
        assert_eq!(summary.runs_with_value + summary.refusals.values().sum::<usize>(), PATHS as usize);
        let cells = [
            format!("{}", summary.runs_with_value),
            format!("{:.1}", summary.coverage * 100.0),
            format!("{:.2}", summary.mean_absolute_error * 100.0),
            format!("{:.1}", summary.median_width * 100.0),
            format!("{}", summary.runs_with_fault),
            format!("{:.2}", summary.mean_bytes / 1e6),
            format!("{:.2}", summary.mean_seconds),
        ];
        let row: String = cells.iter().map(|cell| format!("{cell:>11}")).collect();
        writeln!(table, "{:<20}{row}", kind.to_string()).unwrap();
        if let Some(impact) = summary.impact {
            writeln!(table, "    {impact}").unwrap();
        }
        // A proxy is named where there is one only.
        assert!(
            summary.runs_reporting_proxy == 0 || kind == PathKind::Proxy,
            "{kind}: {}",
            summary.runs_reporting_proxy
        );
        if summary.runs_reporting_absent_bucket > 0 {
            writeln!(table, "    {} name a token bucket where there is none", summary.runs_reporting_absent_bucket)
                .unwrap();
        }
        if kind == PathKind::Proxy {
            writeln!(table, "    {} name a proxy", summary.runs_reporting_proxy).unwrap();
        }
        for (cause, count) in &summary.refusals {
            writeln!(table, "    {count} without a value: {cause}").unwrap();
        }
    }
    table
}

fn measure(kind: PathKind, transport: Transport) -> KindResults {
    let verdict = |number| {
        let path = DrawnPath::new(kind, Seeds::Evaluation.seed(number));
        let measured = path.measure(transport, &MethodSettings::default()).expect("it can be measured");
        let contradiction = contradiction(&measured.report);
        assert!(contradiction.is_none(), "{kind}, path {number}: {contradiction:?} in {:#?}", measured.report);
        PathResult::evaluate(&path, &measured)
    };
    KindResults::from_results(&(0..PATHS).map(verdict).collect::<Vec<_>>())
}

/// What a report must not say beside the rest of it, whatever the path is.
fn contradiction(report: &DirectionReport) -> Option<&'static str> {
    let available = report.available_bits_per_second;
    let fastest = report.fastest_arrival_bits_per_second;
    let is_faster = |rate| fastest.is_some_and(|fastest| rate > fastest);
    let has_flow_queueing = matches!(report.reason, Some(Reason::FairShareOfFlow | Reason::FairShareOfHost));
    let capacity = report.capacity.as_ref();
    let rules = [
        (available.is_some_and(|found| is_faster(found.high)), "the interval ends above the fastest arrival"),
        (report.at_most_bits_per_second.is_some_and(is_faster), "the upper bound lies above the fastest arrival"),
        (report.at_least_bits_per_second.is_some_and(is_faster), "the lower bound lies above the fastest arrival"),
        (
            available.zip(report.fair_share_bits_per_second).is_some_and(|(found, share)| found.value > share.value),
            "more is available than the fair share of a flow",
        ),
        (
            has_flow_queueing
                && capacity.is_some_and(|found| found.bottleneck_bits_per_second.is_some() || found.shaper.is_some()),
            "a capacity or a token bucket beside flows that have queues of their own",
        ),
        (available.is_some() && report.reason.is_some(), "a value, and why there is none"),
        (available.is_none() && report.reason.is_none(), "no value, and no reason"),
        (
            available.is_some_and(|found| found.low > found.value || found.value > found.high),
            "the value outside of its interval",
        ),
    ];
    rules.into_iter().find_map(|(is_broken, rule)| is_broken.then_some(rule))
}
