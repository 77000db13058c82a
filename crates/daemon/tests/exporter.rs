//! The exporter as a Prometheus server sees it, and clients that are none.

use kumade_daemon::Exporter;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

const METRICS: &str = "# TYPE seen counter\nseen_total 1\n# EOF\n";

fn start() -> Exporter {
    Exporter::start("127.0.0.1:0".parse().unwrap(), || METRICS.to_owned()).unwrap()
}

fn send_request(exporter: &Exporter, text: &[u8]) -> String {
    let mut stream = TcpStream::connect(exporter.address()).unwrap();
    let mut response = String::new();
    // A server that has read enough may reset the connection.
    let _ = stream.write_all(text).and_then(|()| stream.read_to_string(&mut response));
    response
}

#[test]
fn metrics_are_fetched_in_the_format_that_is_accepted() {
    let exporter = start();
    let text = (" text/plain; version=0.0.4;", "# TYPE seen_total counter\nseen_total 1\n");
    for (accept, (kind, expected)) in [
        ("", text),
        ("Accept: */*\r\n", text),
        ("accept: application/openmetrics-text\r\n", (" application/openmetrics-text; version=1.0.0;", METRICS)),
    ] {
        let ask = |method: &str, target: &str| {
            let response = send_request(
                &exporter,
                format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\n{accept}\r\n").as_bytes(),
            );
            let (head, body) = response.split_once("\r\n\r\n").unwrap();
            let length = format!("Content-Length: {}\r\n", expected.len());
            assert!(head.starts_with("HTTP/1.1 200 OK") && head.contains(kind) && head.contains(&length), "{head}");
            body.to_owned()
        };
        for target in ["/metrics", "/metrics?name=seen", "/?", "http://x:1/metrics?", "http://x"] {
            assert_eq!(ask("GET", target), expected);
            assert_eq!(ask("HEAD", target), "");
        }
    }
}

#[test]
fn other_requests_are_refused() {
    let exporter = start();
    for (text, status) in [
        (&b"GET /secrets HTTP/1.1\r\n\r\n"[..], "404"),
        (b"GET /metrics/ HTTP/1.1\r\n\r\n", "404"),
        (b"GET https://x/metrics HTTP/1.1\r\n\r\n", "404"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", "405"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "400"),
        (b"\x16\x03\x01\x02\x00\x01", "400"),
    ] {
        let response = send_request(&exporter, text);
        assert!(response.starts_with(&format!("HTTP/1.1 {status} ")), "{response}");
    }
    // Whatever becomes of the rest of this one, the next is served.
    send_request(&exporter, &vec![b'G'; 1 << 20]);
    assert!(send_request(&exporter, b"GET / HTTP/1.0\r\n\r\n").contains("seen_total 1"));
}

/// It once answered all names: the page of anybody whose name was made to lead here (DNS rebinding), opened by a browser of this host, read the metrics.
#[test]
fn metrics_are_told_under_no_name_but_their_own() {
    let start = || {
        Exporter::start_guarded(
            "[::]:0".parse().unwrap(),
            |name| name == "own.example",
            |_, _| true,
            || METRICS.to_owned(),
        )
    };
    let exporter = start().unwrap();
    let port = exporter.address().port();
    let ask = |to: &str, host: &str| {
        let mut stream = TcpStream::connect((to, port)).unwrap();
        stream.write_all(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes()).unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response
    };
    for host in ["localhost", "127.0.0.1:9273", "[::1]:9273", "own.example:9273"] {
        assert!(ask("127.0.0.1", host).contains("seen_total 1"), "{host}");
    }
    for host in ["rebound.example", "rebound.example:9273", "192.0.2.1", ""] {
        let response = ask("127.0.0.1", host);
        assert!(response.starts_with("HTTP/1.1 421 ") && !response.contains("seen"), "{host}: {response}");
    }
}

#[test]
fn a_silent_client_is_cut_off() {
    let exporter = start();
    let _silent = TcpStream::connect(exporter.address()).unwrap();
    let begun = Instant::now();
    assert!(send_request(&exporter, b"GET / HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 200"));
    assert!(begun.elapsed() < Duration::from_secs(30));
}

/// Twenty silent clients once delayed a scrape by 40 s, and 65 had it turned away.
#[test]
fn silent_clients_delay_no_other() {
    let exporter = start();
    let _silent: Vec<_> = (0..200).map(|_| TcpStream::connect(exporter.address()).unwrap()).collect();
    let begun = Instant::now();
    assert!(send_request(&exporter, b"GET / HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 200"));
    assert!(begun.elapsed() < Duration::from_secs(30));
}

/// On a busy host, 200 silent ones once had it turned away, since the threads of those that had given way had not ended yet.
#[test]
fn a_client_waits_for_those_that_end() {
    let (open, gate) = mpsc::channel::<()>();
    let metrics = move || {
        let _ = gate.recv();
        "up 1\n".to_owned()
    };
    let exporter = Exporter::start("127.0.0.1:0".parse().unwrap(), metrics).unwrap();
    let ask = || {
        let mut stream = TcpStream::connect(exporter.address()).unwrap();
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
        stream
    };
    // None of their threads can end before the gate opens, although all but 64 have given way.
    let _asking: Vec<_> = (0..150).map(|_| ask()).collect();
    let mut last = ask();
    thread::sleep(Duration::from_millis(300));
    drop(open);
    let mut answer = String::new();
    last.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[test]
fn a_taken_port_is_refused_by_name() {
    let exporter = start();
    let error = Exporter::start(exporter.address(), String::new).unwrap_err().to_string();
    assert!(error.contains(&exporter.address().to_string()) && error.contains("choose another"), "{error}");
}
