//! A monitor that sends what it archives to a real Prometheus, also after both were down.

use kumade_netns_testbed::{VethHosts, in_namespaces, run_ip};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long anything may take on a machine with much other work: a minute has to pass.
const PATIENCE: Duration = Duration::from_secs(240);
const PAGE: u16 = 7280;
const PROMETHEUS: u16 = 9090;

/// Ends with the test, also where that fails.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

struct Site {
    hosts: VethHosts,
    directory: PathBuf,
}

impl Site {
    fn new(test: &str) -> Self {
        let hosts = VethHosts::new(1500).unwrap();
        run_ip(&hosts.left, &["link", "set", "lo", "up"]).unwrap();
        let directory = std::env::temp_dir().join(format!("kumade-{test}-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let text = format!(
            "[monitor]\nname = \"here\"\narchive = {:?}\n\
             [remote-write]\nurl = \"http://127.0.0.1:{PROMETHEUS}/api/v1/write\"\n\
             [[target]]\nhost = \"127.0.0.1\"\nname = \"one\"\ninterval = \"100ms\"\nlost-after = \"1s\"\n",
            directory.join("archive")
        );
        fs::write(directory.join("monitor.toml"), text).unwrap();
        fs::write(directory.join("prometheus.yml"), "").unwrap();
        Site { hosts, directory }
    }

    fn spawn(&self, mut command: Command) -> Option<Running> {
        command.env("XDG_RUNTIME_DIR", &self.directory).current_dir(&self.directory);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok().map(Running)
    }

    fn monitor(&self) -> Running {
        let mut command = self.hosts.left.command(assert_cmd::cargo::cargo_bin("kumade"));
        command.args(["monitor", "--config", "monitor.toml"]);
        self.spawn(command).unwrap()
    }

    /// None where there is none.
    fn prometheus(&self) -> Option<Running> {
        let Ok(output) = Command::new("prometheus").arg("--version").output() else {
            println!("passed over: prometheus is missing");
            return None;
        };
        assert!(output.status.success());
        let mut command = self.hosts.left.command("prometheus");
        command.args([
            "--config.file=prometheus.yml",
            "--storage.tsdb.path=data",
            "--web.enable-remote-write-receiver",
        ]);
        command.arg(format!("--web.listen-address=127.0.0.1:{PROMETHEUS}"));
        self.spawn(command)
    }

    fn document(&self, port: u16, path: &str) -> Value {
        let fetched = || {
            let mut stream = self.hosts.left.run(|| TcpStream::connect(("127.0.0.1", port))).unwrap().ok()?;
            let request = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n");
            stream.write_all(request.as_bytes()).ok()?;
            let mut text = String::new();
            stream.read_to_string(&mut text).ok()?;
            serde_json::from_str(text.split_once("\r\n\r\n")?.1).ok()
        };
        fetched().unwrap_or_default()
    }

    fn remote_write(&self) -> Value {
        self.document(PAGE, "/api/v1/status")["remote_write"].clone()
    }

    /// Probes that the archive has.
    fn archived(&self) -> u64 {
        let series = self.document(PAGE, "/api/v1/pairs/one/series");
        let buckets = series["buckets"].as_array().cloned().unwrap_or_default();
        buckets.iter().map(|bucket| bucket["sent"].as_u64().unwrap() + bucket["disturbed"].as_u64().unwrap()).sum()
    }

    /// Times of the minutes that Prometheus has, in seconds.
    fn minutes(&self) -> Vec<i64> {
        let query = "/api/v1/query?query=kumade_monitor_minute_sent%7Bpair=%22one%22,source=%22here%22%7D%5B1h%5D";
        let answer = self.document(PROMETHEUS, query);
        let values = answer["data"]["result"][0]["values"].as_array().cloned().unwrap_or_default();
        values.iter().map(|value| value[0].as_f64().unwrap() as i64).collect()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.directory);
    }
}

fn wait_for(what: &str, condition: impl Fn() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < PATIENCE, "{what}");
        sleep(Duration::from_millis(200));
    }
}

/// That no minute is sent twice after a restart is held by the tests of the monitor's crate, which need not wait for minutes to pass.
#[test]
fn a_minute_comes_to_prometheus_also_where_it_or_the_monitor_was_down() {
    in_namespaces("a_minute_comes_to_prometheus_also_where_it_or_the_monitor_was_down", || {
        let site = Site::new("monitor_remote_write");
        let mut monitor = site.monitor();
        wait_for("it is told of that nothing can be sent", || site.remote_write()["failure"].is_string());
        let Some(_prometheus) = site.prometheus() else { return };
        for _ in 0..2 {
            let before = site.archived();
            wait_for("there is a commit", || site.archived() > before);
        }
        kill(Pid::from_raw(monitor.0.id() as i32), Signal::SIGKILL).unwrap();
        monitor.0.wait().unwrap();
        let _monitor = site.monitor();
        wait_for("the first minute comes", || !site.minutes().is_empty());
        wait_for("nothing is told of any more", || site.remote_write()["failure"].is_null());
        wait_for("it is counted", || site.remote_write()["accepted"].as_u64() > Some(0));
        let minutes = site.minutes();
        assert!(minutes.windows(2).all(|pair| pair[1] - pair[0] == 60), "{minutes:?}");
        let told = site.remote_write();
        assert_eq!(told["refused"], 0, "{told}");
    });
}
