//! One flow over two paths between real gateways, each contender once. What figures come out is for the lab to report: a
//! machine that is busy with other programs may deliver little.

use kumade_lab::accuracy::BottleneckKind;
use kumade_lab::multipath::{MultipathExperiment, MultipathReport, MultipathRow};
use kumade_lab::{Experiment, Overrides, ReportDocument};
use kumade_netns_testbed::in_namespaces;

fn experiment(text: &str) -> MultipathExperiment {
    let no_table = |_: &str| unreachable!("it names none");
    Experiment::from_toml(text, "a test", &no_table, &Overrides::default())
        .unwrap()
        .into_scenario::<MultipathExperiment>()
        .unwrap()
}

fn run(experiment: &MultipathExperiment) -> Vec<MultipathRow> {
    kumade_lab::run(experiment, &mut |_| (), &|| false).unwrap().rows
}

fn of<'a>(rows: &'a [MultipathRow], contender: &str) -> &'a MultipathRow {
    rows.iter().find(|row| row.contender == contender).unwrap_or_else(|| panic!("no {contender}"))
}

#[test]
fn one_connection_is_carried_by_every_plane() {
    const FILE: &str = r#"
        name = "two-paths"
        title = "One connection over two paths"
        planes = ["single", "direct", "direct-nat", "bonded", "bonded-ratio"]
        ratios = ["2:1"]
        runs = 1
        warm_up = "1s"
        duration = "1s"
        [[cases]]
        label = "small"
        paths = [{ rate = "8mbit", delay = "1ms" }, { rate = "4mbit", delay = "5ms" }]
        sparse = true
        required = { bonded = "90%" }
    "#;
    in_namespaces("one_connection_is_carried_by_every_plane", || {
        let experiment = experiment(FILE);
        let rows = run(&experiment);
        assert_eq!(rows.len(), 5);
        for row in &rows {
            // How much it is in one second of a busy machine says nothing: shares are judged in virtual time.
            assert!(row.goodput_bits_per_second > 0.0 && row.share_of_sum_ratio.is_some(), "{row:?}");
            assert!(row.retransmitted_segments.is_some() && row.order.is_some(), "{row:?}");
            let delay = row.sparse_delay.unwrap();
            assert!(delay.median_seconds >= 0.001 && delay.p99_seconds >= delay.median_seconds, "{row:?}");
        }
        let framing = |contender: &str| of(&rows, contender).framing_ratio.unwrap();
        assert!((framing("single") - 1448.0 / 1500.0).abs() < 1e-9, "{}", framing("single"));
        assert!(framing("bonded") < framing("single") && framing("bonded") > 0.85, "{}", framing("bonded"));
        assert_eq!(of(&rows, "single").path_ratios[1], 0.0);
        for divided in ["direct 2:1", "direct-nat 2:1", "bonded", "bonded-ratio 2:1"] {
            assert!(of(&rows, divided).path_ratios.iter().all(|part| *part > 0.0), "{rows:?}");
        }
        let report = MultipathReport::new(&experiment, kumade_lab::now_utc(), rows);
        let text = report.to_text();
        assert!(text.contains("small") && text.contains("required 90 %"), "{text}");
        assert_eq!(MultipathReport::from_json(&report.to_json().unwrap()).unwrap(), report);
        assert!(report.to_html().unwrap().contains("<svg"));
    });
}

/// Another user may have made a directory of any name that is known beforehand, and own what is put into it.
#[test]
fn files_of_gateways_are_in_no_directory_that_somebody_could_have_made() {
    const FILE: &str = r#"
        name = "files"
        title = "Where gateways have their files"
        planes = ["single", "direct"]
        ratios = ["1:1"]
        runs = 1
        warm_up = "100ms"
        duration = "100ms"
        [[cases]]
        label = "files"
        paths = [{ rate = "8mbit", delay = "1ms" }, { rate = "8mbit", delay = "1ms" }]
    "#;
    in_namespaces("files_of_gateways_are_in_no_directory_that_somebody_could_have_made", || {
        let known = std::env::temp_dir().join(format!("kumade-lab-{}", std::process::id()));
        std::fs::create_dir(&known).unwrap();
        std::fs::write(known.join("file"), "").unwrap();
        run(&experiment(FILE));
        let found: Vec<_> = std::fs::read_dir(&known).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(found, ["file"]);
        std::fs::remove_dir_all(&known).unwrap();
    });
}

/// Not every kernel has it.
#[test]
fn multipath_tcp_survives_the_loss_of_a_path_or_is_said_to_be_missing() {
    const FILE: &str = r#"
        name = "cut"
        title = "A path fails"
        planes = ["mptcp", "bonded"]
        runs = 1
        warm_up = "1s"
        duration = "2s"
        [[cases]]
        label = "cut"
        paths = [{ rate = "8mbit", delay = "1ms" }, { rate = "8mbit", delay = "1ms" }]
        cut = { path = 1, after = "1s" }
    "#;
    in_namespaces("multipath_tcp_survives_the_loss_of_a_path_or_is_said_to_be_missing", || {
        let experiment = experiment(FILE);
        match kumade_lab::run(&experiment, &mut |_| (), &|| false) {
            Ok(outcome) => {
                assert!(outcome.rows.iter().all(|row| row.longest_gap_seconds.unwrap() < 3.0), "{outcome:?}")
            }
            Err(error) => assert!(error.to_string().contains("Multipath TCP"), "{error}"),
        }
    });
}

#[test]
fn numbered_packets_are_all_accounted_for() {
    const FILE: &str = r#"
        name = "numbered"
        title = "Numbered packets over two paths"
        workload = "numbered"
        planes = ["single", "direct", "bonded"]
        packets = 500
        load = "30%"
        runs = 1
        [[cases]]
        label = "unequal"
        paths = [{ rate = "8mbit", delay = "1ms" }, { rate = "8mbit", delay = "20ms" }]
    "#;
    in_namespaces("numbered_packets_are_all_accounted_for", || {
        let experiment = experiment(FILE);
        let rows = run(&experiment);
        for row in &rows {
            let order = row.order.unwrap();
            assert_eq!(order.packets + row.lost_packets.unwrap(), 500, "{row:?}");
            assert!(order.reordered_packets <= order.packets && row.arrival_order.len() <= 300, "{row:?}");
        }
        assert_eq!(of(&rows, "single").order.unwrap().reordered_packets, 0);
        let report = MultipathReport::new(&experiment, kumade_lab::now_utc(), rows);
        assert!(report.to_text().contains("arrive out of order"), "{}", report.to_text());
    });
}

/// The simulator's rounded intervals let one more be sent than were asked for, or one less: 50 001 of 50 000 arrived.
#[test]
fn numbered_packets_are_all_accounted_for_in_virtual_time() {
    let overrides = Overrides { bottleneck: Some(BottleneckKind::Virtual), ..Overrides::default() };
    let experiment =
        kumade_lab::load("multipath-reorder", &overrides).unwrap().into_scenario::<MultipathExperiment>().unwrap();
    for row in kumade_lab::run(&experiment, &mut |_| (), &|| false).unwrap().rows {
        let received = row.order.unwrap().packets;
        assert_eq!(received + row.lost_packets.unwrap(), 50_000, "{} {}", row.case, row.contender);
    }
}

#[test]
fn a_flood_passes_the_gateways() {
    const FILE: &str = r#"
        name = "flood"
        title = "As many packets as pass"
        workload = "flood"
        planes = ["single", "direct", "direct-nat"]
        runs = 1
        duration = "300ms"
        [[cases]]
        label = "1:1"
        paths = [{ rate = "1gbit", delay = "0ms" }, { rate = "1gbit", delay = "0ms" }]
    "#;
    in_namespaces("a_flood_passes_the_gateways", || {
        let experiment = experiment(FILE);
        let rows = run(&experiment);
        assert!(rows.iter().all(|row| row.goodput_bits_per_second > 0.0), "{rows:?}");
        let text = MultipathReport::new(&experiment, kumade_lab::now_utc(), rows).to_text();
        assert!(text.contains("the kernel forwards") && text.contains("translating their addresses"), "{text}");
    });
}
