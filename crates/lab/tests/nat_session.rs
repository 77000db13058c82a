//! Sessions between real gateways, in each way in which they may begin and end. When that is is for the lab to report: a machine
//! that is busy with other programs may be late with all of it.

use kumade_lab::nat_session::{NatSessionExperiment, NatSessionReport, NatSessionRow, SessionEnd};
use kumade_lab::{Experiment, Overrides, ReportDocument};
use kumade_netns_testbed::in_namespaces;

const HEAD: &str = r#"
    name = "sessions"
    title = "Sessions of real gateways"
    runs = 1
    idle = "3s"
    interval = "50ms"
    paths = [{ rate = "8mbit", delay = "1ms" }, { rate = "8mbit", delay = "5ms" }]
"#;

fn experiment(cases: &str) -> NatSessionExperiment {
    let no_table = |_: &str| unreachable!("it names none");
    let text = format!("{HEAD}{cases}");
    Experiment::from_toml(&text, "a test", &no_table, &Overrides::default()).unwrap().into_scenario().unwrap()
}

/// What holds on any machine: everything is accounted for, in the order in which the paper has it.
fn assert_order(row: &NatSessionRow) {
    for flow in &row.flows {
        let arrived = flow.received_packets + flow.altered_packets;
        assert_eq!(arrived + flow.lost_packets, flow.sent_packets, "{flow:?}");
        for session in &flow.sessions {
            let rule = session.granted_seconds.into_iter().chain(session.opened_seconds);
            assert!(rule.clone().all(|at| at >= session.asked_seconds), "{session:?}");
            assert!(rule.is_sorted(), "divided before the rule was there: {session:?}");
            if session.end == SessionEnd::Idle {
                assert!(session.idle_ratio.unwrap() >= 0.9, "{session:?}");
            }
        }
    }
}

#[test]
fn flows_of_several_hosts_get_sessions_and_these_end_when_idle() {
    in_namespaces("flows_of_several_hosts_get_sessions_and_these_end_when_idle", || {
        let experiment = experiment("[[cases]]\nlabel = \"two\"\nhosts = 2\nflows = 2\nactivity = [\"1500ms\"]\n");
        let rows = kumade_lab::run(&experiment, &mut |_| (), &|| false).unwrap().rows;
        let [row] = &rows[..] else { panic!("{} rows", rows.len()) };
        assert_order(row);
        assert_eq!(row.flows.len(), 4);
        assert!(row.flows.iter().all(|flow| flow.altered_packets == 0 && flow.sent_packets == 30), "{row:?}");
        let report = NatSessionReport::new(&experiment, kumade_lab::now_utc(), rows);
        assert_eq!(NatSessionReport::from_json(&report.to_json().unwrap()).unwrap(), report);
        assert!(report.to_text().contains("Fig. 3") && report.to_html().unwrap().contains("<svg"));
    });
}

#[test]
fn sessions_survive_lost_messages_and_a_killed_gateway() {
    const CASES: &str = r#"
        [[cases]]
        label = "lost"
        activity = ["1s"]
        lost = { from = "receiving", after = "0s", for = "600ms" }
        [[cases]]
        label = "killed"
        activity = ["2s"]
        restart = { gateway = "sending", after = "1s", down = "100ms" }
    "#;
    in_namespaces("sessions_survive_lost_messages_and_a_killed_gateway", || {
        let rows = kumade_lab::run(&experiment(CASES), &mut |_| (), &|| false).unwrap().rows;
        rows.iter().for_each(assert_order);
        // The sending gateway translates nothing while it is gone.
        assert!(rows.iter().all(|row| row.flows[0].altered_packets == 0), "{rows:?}");
    });
}
