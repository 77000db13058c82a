use super::*;
use crate::statistics::{Delays, Recorder};
use std::path::Path;

const SECOND: Span = Span::from_secs(1);

fn report_context(settings: &[String; 2]) -> ReportContext<'_> {
    let (name, ports) = ("test", ["veth1", "veth2"]);
    ReportContext { name, ports, settings, covers: ReportSpan::Interval, duration: SECOND, fairness: [None, None] }
}

/// Thirty flows, one of them three times as heavy as the others, of which each tenth packet is dropped.
fn busy(lateness: Span) -> DirectionStatistics {
    let mut recorder = Recorder::new();
    let delays = Delays { queueing: Span::from_millis(3), sojourn: Span::from_millis(5), lateness };
    for packet in 0..3200u64 {
        let flow = (packet % 32).min(29);
        if recorder.record_offered(flow, 1250) {
            let end = |host: u64| format!("10.0.0.{host}:80").parse().unwrap();
            recorder.set_flow_key(flow, FlowKey { protocol: 6, source: end(flow), destination: end(99) });
        }
        match packet % 10 {
            0 => recorder.record_dropped(flow, 1250, DropCause::Aqm),
            _ => recorder.record_delivered(flow, 1250, delays),
        }
    }
    recorder.snapshot()
}

fn document(lateness: Span) -> Document {
    let settings = ["rate 40mbit", "no impairments"].map(str::to_owned);
    Document::new(&report_context(&settings), &[busy(lateness), DirectionStatistics::default()])
}

#[test]
fn a_document_says_what_happened() {
    let document = document(Span::from_micros(10));
    let up = &document.up;
    assert_eq!((up.from.as_str(), up.to.as_str()), ("veth1", "veth2"));
    assert_eq!((up.offered.packets, up.offered.bits_per_second), (3200, 32e6));
    assert_eq!((up.dropped.aqm.packets, up.dropped.queue_full.packets), (320, 0));
    assert_eq!((up.flows.len(), up.active_flows), (20, 30));
    assert_eq!(up.flows[0].name.as_deref(), Some("tcp 10.0.0.29:80 > 10.0.0.99:80"));
    assert_eq!(up.flows[0].traffic.offered.packets, 300);
    let named: u64 = up.flows.iter().map(|flow| flow.traffic.offered.packets).sum();
    assert_eq!(named + up.other_flows.offered.packets, 3200);
    let in_buckets: u64 = up.lateness_histogram.iter().map(|bucket| bucket.packets).sum();
    assert_eq!(in_buckets, up.delivered.packets);
    assert!(up.fairness_index_ratio.unwrap() < 0.95);
    assert_eq!((document.down.sojourn, document.down.fairness_index_ratio), (None, None));
}

#[test]
fn the_verdict_says_whether_the_machine_kept_up() {
    let good = document(Span::from_micros(10)).verdict;
    assert!(good.on_time && good.message.contains("kept up"), "{good:?}");
    let late = document(Span::from_millis(2)).verdict;
    let mut recorder = Recorder::new();
    recorder.record_dropped(0, 0, DropCause::Overload);
    let both = [recorder.snapshot(), DirectionStatistics::default()];
    let full = Document::new(&report_context(&Default::default()), &both).verdict;
    assert!(!full.on_time && full.message.contains("faster than this program could read"), "{full:?}");
    assert!(!late.on_time && late.message.contains("too slow") && late.message.contains("lower the rate"), "{late:?}");
}

/// "This machine was too slow: 1 % of the packets …" stood below twenty packets, of which one was late.
#[test]
fn a_few_late_packets_do_not_make_a_slow_machine() {
    let verdict = |late, packets| {
        let mut recorder = Recorder::new();
        for packet in 0..packets {
            let lateness = if packet < late { Span::from_millis(7) } else { Span::from_micros(10) };
            recorder.record_offered(0, 100);
            recorder.record_delivered(0, 100, Delays { queueing: Span::ZERO, sojourn: Span::ZERO, lateness });
        }
        Document::new(&report_context(&Default::default()), &[recorder.snapshot(), DirectionStatistics::default()])
            .verdict
    };
    let few = verdict(1, 20);
    assert!(few.on_time && few.message.starts_with("a few packets were delivered 7"), "{few:?}");
    for (late, packets, on_time) in [(4, 20, true), (5, 20, false), (5, 400, false), (5, 1000, true), (20, 1000, false)]
    {
        assert_eq!(verdict(late, packets).on_time, on_time, "{late} of {packets}");
    }
}

#[test]
fn people_read_rates_causes_and_flows() {
    let text = document(Span::from_micros(10)).to_string();
    for part in [
        "veth1 > veth2: rate 40mbit\n",
        "offered 32 Mbit/s, delivered 28.8 Mbit/s",
        "320 by AQM",
        "median 5.01 ms",
        "of 30 active flow(s)",
        "tcp 10.0.0.29:80 > 10.0.0.99:80: delivered",
        "veth2 > veth1: no impairments\n",
    ] {
        assert!(text.contains(part), "`{part}` in {text}");
    }
    assert!(text.lines().count() < 30, "it fits a screen");
}

#[test]
fn flows_without_ports_are_named_without() {
    let end = "[2001:db8::1]:0".parse().unwrap();
    assert_eq!(flow_name(&FlowKey { protocol: 58, source: end, destination: end }), "icmp 2001:db8::1 > 2001:db8::1");
    assert_eq!(
        flow_name(&FlowKey { protocol: 47, source: end, destination: end }),
        "protocol 47 2001:db8::1 > 2001:db8::1"
    );
}

/// Set `UPDATE_SCHEMAS` to write the file anew after a deliberate change.
#[test]
fn the_published_schema_is_that_of_the_documents() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas/kumade.link.1.json");
    let generated = serde_json::to_string_pretty(&Document::json_schema()).unwrap() + "\n";
    if std::env::var_os("UPDATE_SCHEMAS").is_some() {
        std::fs::write(&path, &generated).unwrap();
    }
    let published = std::fs::read_to_string(path).unwrap();
    assert!(published == generated, "run the test again with UPDATE_SCHEMAS=1 if the document was meant to change");
    let validator = jsonschema::validator_for(&serde_json::from_str(&published).unwrap()).unwrap();
    let mut document = serde_json::to_value(document(Span::ZERO)).unwrap();
    assert!(validator.is_valid(&document), "{:?}", validator.iter_errors(&document).collect::<Vec<_>>());
    document["up"]["offered"]["packets"] = "many".into();
    assert!(!validator.is_valid(&document));
}
