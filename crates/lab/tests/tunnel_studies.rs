//! Tunnels over TCP in the lab, for real but small. What figures come out is for the lab to report: a machine that is busy
//! with other programs may deliver little.

use kumade_lab::multipath::{MultipathExperiment, MultipathReport, MultipathRow, TcpLayer};
use kumade_lab::{Experiment, Overrides, ReportDocument};
use kumade_netns_testbed::in_namespaces;

fn run(text: &str) -> (MultipathExperiment, Vec<MultipathRow>) {
    let no_table = |_: &str| unreachable!("it names none");
    let experiment = Experiment::from_toml(text, "a test", &no_table, &Overrides::default());
    let experiment = experiment.unwrap().into_scenario::<MultipathExperiment>().unwrap();
    let rows = kumade_lab::run(&experiment, &mut |_| (), &|| false).unwrap().rows;
    (experiment, rows)
}

#[test]
fn tunnels_are_tuned_and_an_outage_and_an_echo_are_observed() {
    const FILE: &str = r#"
        name = "tunings"
        title = "A tunnel with and without what adapts it, on an old-style stack, through an outage"
        planes = ["single", "tunnel-tcp"]
        runs = 1
        warm_up = "500ms"
        duration = "4s"
        [[tunings]]
        name = "RTO 1 s"
        planes = ["tunnel-tcp"]
        min_rto = "1s"
        max_rto = "1s"
        without = ["open-bound", "aqm", "sparse-copies"]
        [[cases]]
        label = "outage"
        paths = [{ rate = "8mbit", delay = "5ms" }]
        cut = { path = 1, after = "500ms", for = "200ms" }
        echo = true
        stack = "old-style"
        [[comparisons]]
        contender = "tunnel-tcp"
        with = "single"
        figure = "recovery"
        max = 1000000.0
    "#;
    in_namespaces("tunnels_are_tuned_and_an_outage_and_an_echo_are_observed", || {
        let (experiment, rows) = run(FILE);
        let contenders: Vec<_> = rows.iter().map(|row| &*row.contender).collect();
        assert_eq!(contenders, ["single", "tunnel-tcp", "tunnel-tcp, RTO 1 s"]);
        for row in &rows {
            assert_eq!(row.congestion_control.as_deref(), Some("cubic"));
            assert_eq!(row.lower_congestion_control.is_some(), row.contender != "single");
            let echo = row.echo.unwrap();
            assert!(echo.round_trips.median_seconds >= 0.01 && echo.unanswered_ratio < 1.0, "{row:?}");
            // What passes the path after the outage takes at least the path's delay.
            assert!(row.recovery_seconds.is_none_or(|time| time >= 0.005), "{row:?}");
        }
        let report = MultipathReport::new(&experiment, kumade_lab::now_utc(), rows);
        let text = report.to_text();
        assert!(text.contains("recovery of tunnel-tcp") && text.contains("echo p99"), "{text}");
        assert_eq!(MultipathReport::from_json(&report.to_json().unwrap()).unwrap(), report);
    });
}

#[test]
fn blocks_pass_directly_through_a_tunnel_and_through_others_programs_or_these_are_skipped() {
    const FILE: &str = r#"
        name = "blocks"
        title = "Writes of some lengths"
        workload = "blocks"
        planes = ["single", "tunnel-rake", "ssh-forward"]
        runs = 1
        warm_up = "300ms"
        duration = "200ms"
        [blocks]
        sizes = [16, 1448]
        consecutive = [99, 101]
        [[cases]]
        label = "small"
        paths = [{ rate = "8mbit", delay = "1ms" }]
    "#;
    in_namespaces("blocks_pass_directly_through_a_tunnel_and_through_others_programs_or_these_are_skipped", || {
        let (experiment, rows) = run(FILE);
        let report = MultipathReport::new(&experiment, kumade_lab::now_utc(), rows.clone());
        assert_eq!(rows.len() + report.skipped.len(), 3, "{:?}", report.skipped);
        for row in &rows {
            let lengths: Vec<_> = row.blocks.iter().map(|rate| (rate.block_bytes, rate.no_delay)).collect();
            let both = [(16, false), (16, true), (1448, false), (1448, true)];
            assert_eq!(lengths, [&both[..], &[(99, false), (100, false), (101, false)]].concat());
        }
        let text = report.to_text();
        assert!(text.contains("tunnel-rake, no delay"), "{text}");
        report.skipped.iter().for_each(|skipped| assert!(text.contains(&format!("skipped {skipped}")), "{text}"));
    });
}

#[test]
fn both_layers_are_traced() {
    const FILE: &str = r#"
        name = "trace"
        title = "Sequence numbers of both layers"
        planes = ["single", "tunnel-tcp"]
        runs = 1
        duration = "1s"
        [[cases]]
        label = "small"
        paths = [{ rate = "8mbit", delay = "5ms", loss = "1%" }]
        trace = true
    "#;
    in_namespaces("both_layers_are_traced", || {
        let (experiment, rows) = run(FILE);
        for row in &rows {
            let of = |layer| row.trace.iter().filter(move |segment| segment.layer == layer);
            let upper: Vec<_> = of(TcpLayer::Upper).collect();
            assert!(!upper.is_empty() && upper.iter().all(|segment| segment.connection == 0), "{row:?}");
            assert_eq!(of(TcpLayer::Lower).next().is_some(), row.contender == "tunnel-tcp");
            let new: Vec<_> = upper.iter().filter(|segment| !segment.is_repeat).collect();
            assert!(new.windows(2).all(|pair| pair[0].sequence_bytes < pair[1].sequence_bytes), "{row:?}");
        }
        let report = MultipathReport::new(&experiment, kumade_lab::now_utc(), rows);
        assert!(report.to_html().unwrap().contains("sequence number"));
        let directory = std::env::temp_dir().join(format!("kumade-lab-trace-{}", std::process::id()));
        let files = report.write_files(&directory).unwrap();
        std::fs::remove_dir_all(&directory).unwrap();
        assert!(files.iter().any(|file| file.ends_with("trace.csv")), "{files:?}");
    });
}
