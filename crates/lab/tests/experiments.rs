//! The experiments run on the lab's network, and show what the paper showed, in kind. What figures come out is asserted in
//! virtual time and reported by the lab: a machine that is busy with other programs may leave a row without a value, or
//! the lab without a network that keeps time. It says so then.

use kumade_lab::accuracy::{AccuracyExperiment, BottleneckKind, Report, Row, Transport};
use kumade_lab::atlas::{PathAtlas, PathKind};
use kumade_lab::contention::ContentionExperiment;
use kumade_lab::fairness::FairnessExperiment;
use kumade_lab::fast_links::{FastLinkRow, FastLinksExperiment};
use kumade_lab::{Experiment, Outcome, Overrides, ReportDocument, RunError, Study, load};
use kumade_netns_testbed::in_namespaces;
use kumade_units::{Rate, Span};

/// At a tenth of the rate each packet has ten times as long, so that busy machines pass the lab's check more often.
const RATE: Rate = Rate::from_mbit(10);

fn once(name: &str, overrides: Overrides) -> AccuracyExperiment {
    load(name, &Overrides { runs: Some(1), ..overrides }).unwrap().into_scenario().unwrap()
}

fn run<S: Study>(experiment: &S) -> Result<Outcome<S::Row>, RunError> {
    kumade_lab::run(experiment, &mut |_| (), &|| false)
}

/// None where the lab refuses to measure, since its network is not as it was set to be.
fn run_in_real_time(experiment: &AccuracyExperiment) -> Option<Vec<Row>> {
    run(experiment).inspect_err(assert_network_differs).ok().map(|outcome| outcome.rows)
}

fn assert_network_differs(error: &RunError) {
    let text = error.to_string();
    assert!(
        text.contains("differs from its configuration") && text.contains("if other programs load this machine"),
        "{text}"
    );
}

fn of<'a>(rows: &'a [Row], transport: &str) -> &'a Row {
    rows.iter().find(|row| row.transport.word() == transport).unwrap()
}

fn assert_firewall(experiment: &AccuracyExperiment, rows: &[Row]) {
    let udp = of(rows, "udp");
    assert_eq!(udp.available_bits_per_second, None);
    assert!(udp.reason.as_ref().unwrap().contains("cannot measure over udp"), "{:?}", udp.reason);
    let rake = of(rows, "rake");
    assert!(rake.available_bits_per_second.is_some() || rake.reason.is_some(), "{rake:?}");
    assert!(rake.connections > 1 && rake.bytes_sent > 0, "{rake:?}");
    // What was available is the bottleneck's rate less the computed 30 %, a packet more or less.
    assert!((6_900_000..7_100_000).contains(&rake.truth_bits_per_second), "{rake:?}");
    let text = Report::new(experiment, kumade_lab::now_utc(), rows.to_vec()).to_text();
    assert!(text.contains("udp primed: no estimate in any of"), "{text}");
}

/// One path of each of these kinds: the rows by kind, and what was left out.
fn one_path_of_each(
    kinds: &[PathKind],
    transport: Transport,
    bottleneck: BottleneckKind,
) -> Outcome<<PathAtlas as Study>::Row> {
    let (runs, transports) = (Some(1), vec![transport]);
    let overrides =
        Overrides { runs, transports, bottleneck: Some(bottleneck), kinds: kinds.to_vec(), ..Overrides::default() };
    let experiment = load("path-atlas", &overrides).unwrap().into_scenario::<PathAtlas>().unwrap();
    run(&experiment).unwrap()
}

#[test]
fn a_path_of_the_atlas_that_cannot_be_measured_does_not_end_the_others() {
    in_namespaces("a_path_of_the_atlas_that_cannot_be_measured_does_not_end_the_others", || {
        let (runs, bottleneck) = (Some(1), Some(BottleneckKind::Emulated));
        let overrides = Overrides { runs, bottleneck, kinds: vec![PathKind::Fifo], ..Overrides::default() };
        let mut experiment = load("path-atlas", &overrides).unwrap().into_scenario::<PathAtlas>().unwrap();
        // A scenario file may not say so: the atlas has no paths for it.
        experiment.transports = vec![Transport::Udp, Transport::Single, Transport::Rake];
        let outcome = run(&experiment).unwrap();
        assert_eq!(outcome.rows.iter().map(|(row, _)| &*row.transport).collect::<Vec<_>>(), ["udp", "rake"]);
        let [left_out] = &outcome.excluded[..] else { panic!("{:?}", outcome.excluded) };
        assert!(left_out.kind.starts_with("fifo over single, seed "), "{left_out:?}");
        assert!(left_out.reason.contains("choose udp or rake"), "{left_out:?}");
        experiment.transports = vec![Transport::Single];
        assert!(run(&experiment).is_err());
    });
}

#[test]
fn paths_of_the_atlas_are_measured_in_real_time_or_left_out_with_the_reason() {
    in_namespaces("paths_of_the_atlas_are_measured_in_real_time_or_left_out_with_the_reason", || {
        let kinds = [PathKind::Fifo, PathKind::TightLink, PathKind::Wifi];
        let emulated = one_path_of_each(&kinds, Transport::Udp, BottleneckKind::Emulated);
        let of_kernel = [PathKind::Policer, PathKind::Shaper, PathKind::Red];
        let kernels = one_path_of_each(&of_kernel, Transport::Udp, BottleneckKind::Htb);
        let of = |outcome: &Outcome<<PathAtlas as Study>::Row>| {
            outcome
                .rows
                .iter()
                .map(|(row, _)| row.kind.clone())
                .chain(outcome.excluded.iter().map(|left_out| left_out.kind.clone()))
                .collect::<Vec<_>>()
        };
        assert_eq!(of(&emulated), ["fifo", "tight-link", "wifi"]);
        assert!(of(&kernels).iter().all(|kind| ["policer", "shaper", "red"].contains(&&**kind)));
        assert_eq!(of(&kernels).len(), 3);
        for (row, _) in emulated.rows.iter().chain(&kernels.rows) {
            assert!(row.available_bits_per_second.is_some() || row.reason.is_some(), "{row:?}");
            assert!(row.truth_bits_per_second <= row.sustained_bits_per_second, "{row:?}");
        }
        for left_out in &kernels.excluded {
            assert!(left_out.reason.contains("the lab's own bottleneck does not"), "{left_out:?}");
        }
    });
}

fn fast_links_of(bottleneck: BottleneckKind) -> Result<Vec<FastLinkRow>, RunError> {
    let (runs, transports) = (Some(1), vec![Transport::Udp]);
    let (rate, bottleneck) = (Some(Rate::from_mbit(1000)), Some(bottleneck));
    let overrides = Overrides { runs, transports, rate, bottleneck, ..Overrides::default() };
    let experiment = load("fast-links", &overrides).unwrap().into_scenario::<FastLinksExperiment>().unwrap();
    run(&experiment).map(|outcome| outcome.rows)
}

#[test]
fn fast_links_are_measured_or_what_is_missing_is_said() {
    in_namespaces("fast_links_are_measured_or_what_is_missing_is_said", || {
        let mut rows = fast_links_of(BottleneckKind::Emulated).unwrap();
        match fast_links_of(BottleneckKind::Htb) {
            Ok(kernels) => rows.extend(kernels),
            Err(error) => assert!(error.to_string().contains("the lab's own bottleneck does not"), "{error}"),
        }
        let paths: Vec<_> = rows.iter().map(|row| (row.mtu_bytes, row.cross_bits_per_second)).collect();
        let crosses = [Rate::ZERO, Rate::from_mbit(300)];
        let expected = [(1500, crosses[0]), (1500, crosses[1]), (9000, crosses[0]), (9000, crosses[1])];
        assert!(paths.chunks(4).all(|paths| paths == expected), "{paths:?}");
        for row in &rows {
            assert!(row.available_bits_per_second.is_some() || row.reason.is_some(), "{row:?}");
            assert!(row.truth_bits_per_second <= row.bottleneck_bits_per_second && row.bytes_sent > 0, "{row:?}");
        }
    });
}

#[test]
fn a_path_of_the_atlas_through_a_proxy_is_measured_in_real_time() {
    in_namespaces("a_path_of_the_atlas_through_a_proxy_is_measured_in_real_time", || {
        let outcome = one_path_of_each(&[PathKind::Proxy], Transport::Rake, BottleneckKind::Emulated);
        let [(row, _)] = &outcome.rows[..] else { panic!("{outcome:?}") };
        let reason = row.reason.clone().unwrap_or_default();
        assert!(!reason.contains("cannot") && row.bytes_sent > 100_000, "{row:?}");
        assert!(row.truth_bits_per_second <= row.sustained_bits_per_second, "{row:?}");
        assert!(row.available_bits_per_second.is_some() || !reason.is_empty(), "{row:?}");
        assert_eq!(outcome.excluded, []);
    });
}

#[test]
fn behind_a_firewall_udp_fails_and_the_rake_measures() {
    let slow = Overrides { rate: Some(RATE), ..Overrides::default() };
    let overrides = Overrides { bottleneck: Some(BottleneckKind::Virtual), ..slow.clone() };
    let experiment = once("rake-firewall", overrides);
    let rows = run(&experiment).unwrap().rows;
    assert_firewall(&experiment, &rows);
    let error = of(&rows, "rake").error_bits_per_second.unwrap();
    assert!(error.abs() < 350_000, "more than five percent: {error}");
    in_namespaces("behind_a_firewall_udp_fails_and_the_rake_measures", || {
        let experiment = once("rake-firewall", slow);
        if let Some(rows) = run_in_real_time(&experiment) {
            assert_firewall(&experiment, &rows);
        }
    });
}

#[test]
fn on_one_connection_the_window_holds_packets_back_for_a_round_trip() {
    in_namespaces("on_one_connection_the_window_holds_packets_back_for_a_round_trip", || {
        // At its own rate: a slower train takes many round trips, and the window is never used up.
        let experiment = once("rake-cwnd", Overrides::default());
        let Some(rows) = run_in_real_time(&experiment) else { return };
        let single = of(&rows, "single");
        assert_eq!(single.available_bits_per_second, None, "{single:?}");
        // "TCP の応答(ACK)が返ってくるまで、次の推定パケットを送信できない" (PathRakeTCP, 3).
        let round_trip = experiment.base_scenario.bottleneck.delay.as_secs_f64() * 2.0;
        let held_back = |row: &Row| {
            let late = row.timeline.iter().filter_map(|p| p.sent_seconds.map(|sent| sent - p.planned_seconds));
            late.fold(0.0, f64::max)
        };
        assert_eq!(single.timeline.len(), 120);
        assert!(held_back(single) > round_trip * 0.5, "{}", held_back(single));
    });
}

/// NewReno and CUBIC are in every kernel. What shares come out is for the lab to report.
#[test]
fn connections_of_the_kernels_tcp_compete_at_the_bottleneck() {
    const FILE: &str = r#"
        name = "two-kinds"
        title = "One connection each, one of them behind a hop"
        disciplines = ["codel"]
        delays = ["4ms"]
        runs = 1
        warm_up = "500ms"
        duration = "1s"
        [bottleneck]
        rate = "20mbit"
        delay = "1ms"
        queue = "1rtt"
        [[groups]]
        connections = 1
        control = "cubic"
        [[groups]]
        connections = 1
        control = "new-reno"
        [[groups.hops]]
        rate = "50mbit"
        delay = "1ms"
        queue = "64kb"
        background = "10mbit"
    "#;
    in_namespaces("connections_of_the_kernels_tcp_compete_at_the_bottleneck", || {
        let no_table = |_: &str| unreachable!("it names none");
        let read = Experiment::from_toml(FILE, "a test", &no_table, &Overrides::default());
        let experiment = read.unwrap().into_scenario::<FairnessExperiment>().unwrap();
        let Ok(outcome) = run(&experiment).inspect_err(assert_network_differs) else { return };
        let [row] = &outcome.rows[..] else { panic!("{} rows", outcome.rows.len()) };
        assert_eq!((row.flows.len(), &*row.groups[1].group), (2, "new-reno"));
        assert!(row.flows.iter().all(|flow| flow.goodput_bits_per_second > 0.0), "{row:?}");
        assert!(row.utilisation_ratio > 0.0 && row.utilisation_ratio < 1.1, "{row:?}");
        assert!(row.queueing.is_some() && row.drops.offered_packets > 0, "{row:?}");
        let text = experiment.report(kumade_lab::now_utc(), outcome).to_text();
        assert!(text.contains("1 cubic against 1 new-reno behind 50 Mbit/s"), "{text}");
    });
}

#[test]
fn pulses_and_sparse_packets_compete_with_the_kernels_tcp() {
    let name = "pulses_and_sparse_packets_compete_with_the_kernels_tcp";
    in_namespaces(name, || {
        let overrides = Overrides {
            rate: Some(RATE),
            rows: vec![6],
            disciplines: vec!["fair-share".parse().unwrap()],
            warm_up: Some(Span::from_millis(500)),
            duration: Some(Span::from_secs(2)),
            ..Overrides::default()
        };
        let experiment = load("fair-attack", &overrides).unwrap().into_scenario::<ContentionExperiment>().unwrap();
        assert!(!experiment.virtual_time);
        let outcome = run(&experiment).unwrap();
        let [row] = &outcome.rows[..] else { panic!("{} rows", outcome.rows.len()) };
        let (attack, probes) = (row.attack.as_ref().unwrap(), row.probes.unwrap());
        assert!(attack.offered_bits_per_second > 0.0 && attack.goodput_bits_per_second > 0.0, "{attack:?}");
        assert!(row.flows.len() == 4 && row.flows.iter().any(|flow| flow.goodput_bits_per_second > 0.0), "{row:?}");
        assert!(probes.packets > 0 && row.lateness_p99_seconds.is_some(), "{row:?}");
        let text = experiment.report(kumade_lab::now_utc(), outcome).to_text();
        assert!(text.contains("real time, the kernel's TCP"), "{text}");
        println!("{text}");
    });
}
