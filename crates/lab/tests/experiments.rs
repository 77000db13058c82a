//! The experiments run on the lab's network, and show what the paper showed. What figures come out is for the lab to
//! report, not for tests that share a machine with others.

use lab::accuracy::{self, Accuracy, RealTime, Report, Row};
use lab::fairness::{self, FairnessReport};
use lab::{Document, Experiment, Overrides, load};
use testnet::in_namespaces;

fn once(name: &str) -> Accuracy {
    load(name, &Overrides { runs: Some(1), ..Overrides::default() }).unwrap().accuracy().unwrap()
}

fn rows(experiment: &Accuracy) -> Vec<Row> {
    let mut testbed = RealTime::build(&experiment.scenarios[0]).unwrap();
    accuracy::run(experiment, &mut testbed, &mut |_| (), &|| false).unwrap()
}

#[test]
fn behind_a_firewall_udp_fails_and_the_rake_measures() {
    in_namespaces("behind_a_firewall_udp_fails_and_the_rake_measures", || {
        let experiment = once("rake-firewall");
        let rows = rows(&experiment);
        let of = |transport| rows.iter().find(|row| row.transport == transport).unwrap();
        assert_eq!(of("udp").available_bits_per_second, None);
        assert!(of("udp").reason.as_ref().unwrap().contains("UDP does not pass"), "{:?}", of("udp").reason);
        let rake = of("rake");
        assert!(rake.available_bits_per_second.is_some(), "{:?}", rake.reason);
        assert!(rake.connections > 1 && rake.bytes_sent > 0 && rake.trains > 0, "{rake:?}");
        // What was available is the bottleneck's 100 Mbit/s less the computed 30, a packet more or less.
        assert!((69_000_000..71_000_000).contains(&rake.truth_bits_per_second), "{rake:?}");
        let text = Report::new(&experiment, lab::now_utc(), rows).to_text();
        assert!(text.contains("udp with primed could not measure this path"), "{text}");
    });
}

#[test]
fn on_one_connection_the_window_holds_packets_back_for_a_round_trip() {
    in_namespaces("on_one_connection_the_window_holds_packets_back_for_a_round_trip", || {
        let experiment = once("rake-cwnd");
        let rows = rows(&experiment);
        let single = rows.iter().find(|row| row.transport == "single").unwrap();
        assert_eq!(single.available_bits_per_second, None, "{single:?}");
        // "TCP の応答(ACK)が返ってくるまで、次の推定パケットを送信できない" (PathRakeTCP, 3).
        let round_trip = experiment.stated.bottleneck.delay.as_secs_f64() * 2.0;
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
        let experiment = read.unwrap().fairness().unwrap();
        let rows = fairness::run(&experiment, &mut |_| (), &|| false).unwrap();
        let [row] = &rows[..] else { panic!("{} rows", rows.len()) };
        assert_eq!((row.flows.len(), &*row.groups[1].group), (2, "new-reno"));
        assert!(row.flows.iter().all(|flow| flow.goodput_bits_per_second > 0.0), "{row:?}");
        assert!(row.utilisation_ratio > 0.0 && row.utilisation_ratio < 1.1, "{row:?}");
        assert!(row.queueing.is_some() && row.drops.offered_packets > 0, "{row:?}");
        let text = FairnessReport::new(&experiment, lab::now_utc(), rows).to_text();
        assert!(text.contains("1 cubic against 1 new-reno behind 50 Mbit/s"), "{text}");
    });
}
