//! The metrics in Prometheus' format.

use kumade_emulator::prometheus::encode_metrics;
use kumade_emulator::report::{Document, ReportContext, ReportSpan};
use kumade_emulator::statistics::{Delays, DirectionStatistics, DropCause, Recorder};
use kumade_units::Span;
use std::collections::BTreeSet;

fn total(name: &str) -> Document {
    let mut recorder = Recorder::new();
    let [queueing, sojourn] = [3, 7].map(Span::from_millis);
    for _ in 0..20 {
        recorder.record_offered(1, 1000);
        recorder.record_delivered(1, 1000, Delays { queueing, sojourn, lateness: Span::from_micros(4) });
    }
    recorder.record_dropped(1, 1000, DropCause::EmulatedLoss);
    let (ports, duration) = (["a", "b"], Span::from_secs(2));
    let occasion = ReportContext {
        name,
        ports,
        settings: &Default::default(),
        covers: ReportSpan::Total,
        duration,
        fairness: [None, None],
    };
    Document::new(&occasion, &[recorder.snapshot(), DirectionStatistics::default()])
}

#[test]
fn metrics_are_openmetrics_text() {
    let body = encode_metrics(&[(total("one"), true), (total("two"), false)]);
    let up = r#"{link="one",direction="up",from="a",to="b""#;
    for line in [
        "# TYPE kumade_link_offered_packets counter".to_owned(),
        format!("kumade_link_offered_packets_total{up}}} 20"),
        format!("kumade_link_delivered_bytes_total{up}}} 20000"),
        format!("kumade_link_dropped_packets_total{up},cause=\"loss\"}} 1"),
        format!("kumade_link_flow_delivered_bytes_total{up},flow=\"\"}} 20000"),
        format!("kumade_link_fairness_index_ratio{up}}} 1.0"),
        format!("kumade_link_lateness_seconds_bucket{{le=\"0.000005\",{}}} 20", &up[1..]),
        format!("kumade_link_queueing_delay_seconds_bucket{{le=\"0.005\",{}}} 20", &up[1..]),
        format!("kumade_link_sojourn_seconds_count{up}}} 20"),
        "kumade_link_on_time{link=\"one\"} 1.0".to_owned(),
        "kumade_link_running{link=\"one\"} 1.0".to_owned(),
        "kumade_link_running{link=\"two\"} 0.0".to_owned(),
        format!("kumade_link_offered_packets_total{}}} 20", up.replace("one", "two")),
        "# EOF".to_owned(),
    ] {
        assert!(body.lines().any(|found| found == line), "`{line}` in\n{body}");
    }
    // Each metric is described once, whatever the number of links.
    let described: Vec<_> = body.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    assert_eq!(described.iter().collect::<BTreeSet<_>>().len(), described.len());
}
