//! Which packets a queue marks with CE, and from which queueing delay on, through the program as users run it.

use crate::path::serve;
use kumade_link::LinkConfig;
use kumade_link::queue::{DisciplineSettings, QueueConfig, QueueLimit};
use kumade_net::namespace::Namespace;
use kumade_netns_testbed::{Network, NetworkSpec, in_namespaces};
use kumade_units::{Rate, Span};
use serde_json::Value;

const MBIT: u64 = 30;

/// The report on the path to this address.
fn measure(host: &Namespace, address: &str) -> Value {
    let mut command = host.command(assert_cmd::cargo::cargo_bin("kumade"));
    command.args(["measure", address, "--path", "--load=2s", "--json"]);
    let output = command.output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(document["path"].is_object(), "{document} {}", String::from_utf8_lossy(&output.stderr));
    document
}

/// That a queue is of this kind, with this threshold in milliseconds for ECT(1), or that it is not sure.
fn assert_kind(report: &Value, direction: &str, kind: &str, threshold: Option<f64>) {
    let found = &report["path"][direction]["queue_marking"];
    let said = found["kind"].as_str().unwrap_or("not-known");
    println!("{direction}: {kind} {threshold:?}: {found}");
    // A busy machine holds packets up, or lets too few through in time.
    if ["not-sure", "no-queue", "not-known"].contains(&said) {
        return;
    }
    assert_eq!(said, kind, "{found}");
    let Some(threshold) = threshold else { return };
    let from = &found["codepoints"][0]["marked_from"];
    let low = from["low_seconds"].as_f64().unwrap() * 1e3;
    // What holds packets up adds to the delays that are measured.
    assert!(low <= threshold, "{found}");
}

/// That it marks packets that wait for long, or not, or that it is not sure.
fn assert_lasting(report: &Value, direction: &str, expected: &str) {
    let found = &report["path"][direction]["lasting_queue"];
    println!("{direction}: {expected}: {found}");
    let said = found["kind"].as_str().unwrap_or("not-known");
    assert!([expected, "not-sure", "not-known"].contains(&said), "{direction}: {report}");
}

/// What a queue is to be found to be: its settings, its kind, its threshold in milliseconds, whether it marks what waits for long.
type Queue = (&'static str, &'static str, Option<f64>, &'static str);

/// Measures a link with these queues up and down.
fn assert_told(test: &str, [up, down]: [Queue; 2]) {
    in_namespaces(test, || {
        let rate = Rate::from_mbit(MBIT);
        let queue = |text: &str| QueueConfig {
            limit: QueueLimit::Bytes(MBIT * 12_500),
            discipline: text.parse::<DisciplineSettings>().unwrap().discipline(Some(rate)),
        };
        let link = LinkConfig {
            rate: Some(rate),
            delay: Span::from_millis(5),
            queue_bytes: MBIT * 12_500,
            ..LinkConfig::default()
        };
        let spec = NetworkSpec {
            up_queue: Some(queue(up.0)),
            down_queue: Some(queue(down.0)),
            ..NetworkSpec::host_pair(link)
        };
        let network = Network::build(spec).unwrap();
        let (near, far) = (network.host("a").unwrap(), network.host("b").unwrap());
        let _server = serve(&far.namespace);
        let report = measure(&near.namespace, &far.v4.to_string());
        for (direction, (_, kind, threshold, lasting)) in [("up", up), ("down", down)] {
            assert_kind(&report, direction, kind, threshold);
            assert_lasting(&report, direction, lasting);
        }
    });
}

#[test]
fn a_queue_that_marks_l4s_is_told_from_one_that_does_not_mark() {
    let queues = [("dualpi2", "l4s", Some(1.0), "marked"), ("tail-drop", "none-seen", None, "not-marked")];
    assert_told("queue_marking::a_queue_that_marks_l4s_is_told_from_one_that_does_not_mark", queues);
}

#[test]
fn a_queue_that_marks_what_waits_for_long_is_told_from_one_with_a_low_threshold() {
    let shallow = ("ce-threshold:threshold=2ms", "shallow", Some(2.0), "marked");
    let test = "queue_marking::a_queue_that_marks_what_waits_for_long_is_told_from_one_with_a_low_threshold";
    assert_told(test, [("fq-codel", "none-seen", None, "marked"), shallow]);
}
