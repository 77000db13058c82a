//! Databases that take remote write.

use kumade_monitor::remote_write::{RemoteWriteClient, RemoteWriteConfig};
use kumade_units::{Span, Time};
use serde_json::Value;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long anything may take on a machine with much other work.
const PATIENCE: Duration = Duration::from_secs(120);

/// One that runs until it is dropped.
pub(crate) struct Receiver {
    port: u16,
    directory: PathBuf,
    process: Child,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Prometheus,
    VictoriaMetrics,
}

/// None where it is missing.
pub(crate) fn prometheus(more_configuration: &str) -> Option<Receiver> {
    Receiver::start(Kind::Prometheus, more_configuration)
}

/// None where it is missing.
pub(crate) fn victoria_metrics() -> Option<Receiver> {
    Receiver::start(Kind::VictoriaMetrics, "")
}

impl Receiver {
    fn start(kind: Kind, configuration: &str) -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("kumade-receiver-{}-{number}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("prometheus.yml"), configuration).unwrap();
        let Some((port, process)) = spawn_at_free_port(kind, &directory) else {
            fs::remove_dir_all(&directory).unwrap();
            return None;
        };
        let mut receiver = Receiver { port, directory, process, kind };
        receiver.wait_until_ready();
        Some(receiver)
    }

    pub(crate) fn client(&self) -> RemoteWriteClient {
        let url = self.url("/api/v1/write");
        let config = RemoteWriteConfig {
            url,
            headers: Vec::new(),
            token: None,
            authorities: None,
            max_age: Span::from_secs(3600),
        };
        RemoteWriteClient::new(config).unwrap()
    }

    /// All samples of one series, in milliseconds since 1970.
    pub(crate) fn samples(&self, selector: &str) -> Vec<(i64, f64)> {
        match self.kind {
            Kind::Prometheus => {
                let found = self.query(&format!("{selector}[2h]"), None);
                let [series] = &found[..] else { return Vec::new() };
                let point = |point: &Value| ((point[0].as_f64().unwrap() * 1e3).round() as i64, number(&point[1]));
                series["values"].as_array().unwrap().iter().map(point).collect()
            }
            Kind::VictoriaMetrics => {
                self.get("/internal/force_flush", &[]);
                // What is stored, repeats included.
                let text = self.get("/api/v1/export", &[("match[]", selector)]);
                let mut lines = text.lines();
                let Some(line) = lines.next() else { return Vec::new() };
                assert_eq!(lines.next(), None, "several series");
                let series: Value = serde_json::from_str(line).unwrap();
                let times = series["timestamps"].as_array().unwrap().iter().map(|time| time.as_i64().unwrap());
                times.zip(series["values"].as_array().unwrap().iter().map(|value| value.as_f64().unwrap())).collect()
            }
        }
    }

    /// The answer to an instant query; none if it is empty.
    pub(crate) fn instant(&self, query: &str, time: Time) -> Option<f64> {
        if self.kind == Kind::VictoriaMetrics {
            self.get("/internal/force_flush", &[]);
        }
        let found = self.query(query, Some(time));
        found.first().map(|series| number(&series["value"][1]))
    }

    fn query(&self, query: &str, time: Option<Time>) -> Vec<Value> {
        let time = time.map(|time| format!("{:.3}", time.as_secs_f64()));
        let time = time.iter().map(|time| ("time", time.as_str()));
        let parameters: Vec<_> = [("query", query), ("nocache", "1")].into_iter().chain(time).collect();
        let answer: Value = serde_json::from_str(&self.get("/api/v1/query", &parameters)).unwrap();
        assert_eq!(answer["status"], "success", "{answer}");
        answer["data"]["result"].as_array().unwrap().clone()
    }

    fn get(&self, path: &str, parameters: &[(&str, &str)]) -> String {
        let request = ureq::get(self.url(path)).query_pairs(parameters.iter().copied());
        request.call().unwrap().body_mut().read_to_string().unwrap()
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    fn wait_until_ready(&mut self) {
        let path = if self.kind == Kind::Prometheus { "/-/ready" } else { "/health" };
        let deadline = Instant::now() + PATIENCE;
        while ureq::get(self.url(path)).call().is_err() {
            assert!(Instant::now() < deadline, "the receiver does not answer");
            sleep(Duration::from_millis(50));
            // Where something else took its port first, it has ended.
            if self.process.try_wait().unwrap().is_some() {
                (self.port, self.process) = spawn_at_free_port(self.kind, &self.directory).unwrap();
            }
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
        _ = fs::remove_dir_all(&self.directory);
    }
}

/// At a port that was free a moment ago.
fn spawn_at_free_port(kind: Kind, directory: &Path) -> Option<(u16, Child)> {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    spawn(kind, directory, port).map(|process| (port, process))
}

fn spawn(kind: Kind, directory: &Path, port: u16) -> Option<Child> {
    let (program, arguments) = match kind {
        Kind::Prometheus => (
            "prometheus",
            vec![
                format!("--config.file={}", directory.join("prometheus.yml").display()),
                format!("--storage.tsdb.path={}", directory.join("data").display()),
                format!("--web.listen-address=127.0.0.1:{port}"),
                "--web.enable-remote-write-receiver".to_owned(),
            ],
        ),
        Kind::VictoriaMetrics => (
            "victoria-metrics",
            vec![
                format!("-storageDataPath={}", directory.join("data").display()),
                format!("-httpListenAddr=127.0.0.1:{port}"),
                "-memory.allowedBytes=100000000".to_owned(),
            ],
        ),
    };
    let mut command = Command::new(program);
    command.args(arguments).current_dir(directory).stdout(Stdio::null()).stderr(Stdio::null());
    match command.spawn() {
        Ok(process) => Some(process),
        Err(_) => {
            println!("passed over: {program} is missing");
            None
        }
    }
}

fn number(value: &Value) -> f64 {
    value.as_str().unwrap().parse().unwrap()
}
