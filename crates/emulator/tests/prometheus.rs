//! The metrics as a Prometheus server fetches them, and clients that are none.

use emulator::prometheus::Exporter;
use emulator::report::{Covers, Document, Occasion};
use emulator::settings::Settings;
use emulator::statistics::{DirectionStatistics, DropCause, Recorder};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use units::Span;

fn total() -> Document {
    let mut recorder = Recorder::new();
    for _ in 0..20 {
        recorder.offered(1, 1000);
        recorder.delivered(1, 1000, Span::from_millis(7), Span::from_micros(4));
    }
    recorder.dropped(1, 1000, DropCause::Loss);
    let settings: [Settings; 2] = Default::default();
    let (name, ports, duration) = ("one", ["a", "b"], Span::from_secs(2));
    let occasion =
        Occasion { name, ports, settings: &settings, covers: Covers::Total, duration, fairness: [None, None] };
    Document::new(&occasion, &[recorder.snapshot(), DirectionStatistics::default()])
}

fn start() -> Exporter {
    Exporter::start("127.0.0.1:0".parse().unwrap(), total).unwrap()
}

fn say(exporter: &Exporter, text: &[u8]) -> String {
    let mut stream = TcpStream::connect(exporter.address()).unwrap();
    let mut answer = String::new();
    // A server that does not want to hear more may reset the connection.
    let _ = stream.write_all(text).and_then(|()| stream.read_to_string(&mut answer));
    answer
}

#[test]
fn metrics_are_fetched_in_the_known_format() {
    let answer = say(&start(), b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK") && head.contains("openmetrics-text; version=1.0.0"), "{head}");
    let up = r#"{link="one",direction="up",from="a",to="b""#;
    for line in [
        "# TYPE kumade_link_offered_packets counter".to_owned(),
        format!("kumade_link_offered_packets_total{up}}} 20"),
        format!("kumade_link_delivered_bytes_total{up}}} 20000"),
        format!("kumade_link_dropped_packets_total{up},cause=\"loss\"}} 1"),
        format!("kumade_link_flow_delivered_bytes_total{up},flow=\"1\",flow_name=\"\"}} 20000"),
        format!("kumade_link_fairness_index_ratio{up}}} 1.0"),
        format!("kumade_link_lateness_seconds_bucket{{le=\"0.000005\",{}}} 20", &up[1..]),
        format!("kumade_link_sojourn_seconds_count{up}}} 20"),
        "kumade_link_on_time{link=\"one\"} 1.0".to_owned(),
        "# EOF".to_owned(),
    ] {
        assert!(body.lines().any(|found| found == line), "`{line}` in\n{body}");
    }
}

#[test]
fn other_requests_are_told_so() {
    let exporter = start();
    for (text, status) in [
        (&b"GET /secrets HTTP/1.1\r\n\r\n"[..], "404"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", "405"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "400"),
        (b"\x16\x03\x01\x02\x00\x01", "400"),
    ] {
        let answer = say(&exporter, text);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    }
    // Whatever becomes of the rest of this, the next one is served.
    say(&exporter, &vec![b'G'; 1 << 20]);
    assert!(say(&exporter, b"GET / HTTP/1.0\r\n\r\n").contains("kumade_link_offered"));
}

#[test]
fn a_client_that_says_nothing_is_not_waited_for() {
    let exporter = start();
    let _silent = TcpStream::connect(exporter.address()).unwrap();
    let began = Instant::now();
    assert!(say(&exporter, b"GET / HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 200"));
    assert!(began.elapsed() < Duration::from_secs(15));
}

#[test]
fn a_taken_port_is_refused_by_name() {
    let exporter = start();
    let text = Exporter::start(exporter.address(), total).unwrap_err().to_string();
    assert!(text.contains(&exporter.address().to_string()) && text.contains("choose another"), "{text}");
}
