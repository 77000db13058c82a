//! Two monitors on one PostgreSQL: one leads, another takes over; the database is killed and started again.

#[path = "../../archive/tests/archive/server.rs"]
mod server;

use kumade_netns_testbed::{VethHosts, in_namespaces, run_ip};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use server::{PATIENCE, Server};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

struct Site {
    hosts: VethHosts,
    directory: PathBuf,
    server: Server,
    database: String,
}

impl Site {
    /// None where there is no PostgreSQL.
    fn new(test: &str) -> Option<Self> {
        let server = Server::start()?;
        let database = server.create_database();
        let hosts = VethHosts::new(1500).unwrap();
        run_ip(&hosts.left, &["link", "set", "lo", "up"]).unwrap();
        let directory = std::env::temp_dir().join(format!("kumade-{test}-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        Some(Site { hosts, directory, server, database })
    }

    /// One that is called so, with its page at this port.
    fn monitor(&self, name: &str, port: u16) -> Child {
        let socket = self.server.directory().display().to_string().replace('/', "%2F");
        let archive = format!("postgresql://kumade@{socket}/{}", self.database);
        let target = "[[target]]\nhost = \"127.0.0.1\"\nname = \"one\"\ninterval = \"50ms\"\n";
        let text = format!(
            "[monitor]\nname = {name:?}\narchive = {archive:?}\npage = \"{port}\"\nprometheus = \"{}\"\n{target}",
            port + 1000
        );
        let file = self.directory.join(format!("{name}.toml"));
        fs::write(&file, text).unwrap();
        let mut command = self.hosts.left.command(assert_cmd::cargo::cargo_bin("kumade"));
        command.args(["monitor", "--name", name, "--config"]).arg(file);
        let log = fs::OpenOptions::new().create(true).append(true).open(self.directory.join("log")).unwrap();
        command.env("XDG_RUNTIME_DIR", &self.directory).stderr(Stdio::from(log)).spawn().unwrap()
    }

    fn fetch(&self, port: u16, path: &str) -> Option<String> {
        let mut stream = self.hosts.left.run(|| TcpStream::connect(("127.0.0.1", port))).unwrap().ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned())
    }

    fn document(&self, port: u16, path: &str) -> Value {
        serde_json::from_str(&self.fetch(port, path).unwrap_or_default()).unwrap_or_default()
    }

    fn status(&self, port: u16) -> Value {
        self.document(port, "/api/v1/status")
    }

    /// Whether the one at this port says so.
    fn leads(&self, port: u16) -> bool {
        self.status(port)["leader"]["is_this"] == true
    }

    /// Probes that the archive has, as the page at this port shows it.
    fn archived(&self, port: u16) -> u64 {
        let series = self.document(port, "/api/v1/pairs/one/series");
        let buckets = series["buckets"].as_array().cloned().unwrap_or_default();
        buckets.iter().map(|bucket| bucket["sent"].as_u64().unwrap() + bucket["disturbed"].as_u64().unwrap()).sum()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("{}", fs::read_to_string(self.directory.join("log")).unwrap_or_default());
        }
        _ = fs::remove_dir_all(&self.directory);
    }
}

/// Ends with the test, also where that fails.
struct Running(Child);

impl Running {
    fn end_with(&mut self, signal: Signal) {
        kill(Pid::from_raw(self.0.id() as i32), signal).unwrap();
        let status = self.0.wait().unwrap();
        assert!(signal == Signal::SIGKILL || status.success(), "{status}");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// Waits for long, and returns how long it took.
fn wait_for(what: &str, condition: impl Fn() -> bool) -> Duration {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < PATIENCE, "{what}");
        sleep(Duration::from_millis(100));
    }
    begin.elapsed()
}

const ONE: u16 = 7281;
const OTHER: u16 = 7282;

#[test]
fn another_monitor_takes_over_and_what_was_archived_stays() {
    in_namespaces("another_monitor_takes_over_and_what_was_archived_stays", || {
        let Some(site) = Site::new("monitor_takes_over") else { return };
        let mut one = Running(site.monitor("one", ONE));
        wait_for("the first one leads", || site.leads(ONE));
        let mut other = Running(site.monitor("other", OTHER));
        wait_for("the other one says who leads", || site.status(OTHER)["leader"]["name"] == "one");
        // It shows what the leader sees and what is archived, and measures nothing.
        wait_for("the other one shows the paths", || site.status(OTHER)["pairs"][0]["state"]["word"] == "up");
        wait_for("the other one shows the archive", || site.archived(OTHER) > 20);
        assert!(!site.leads(OTHER));
        let metrics = site.fetch(OTHER + 1000, "/metrics").unwrap();
        assert!(metrics.contains("kumade_monitor_leading{} 0") && !metrics.contains("path_up"), "{metrics}");
        let show = |name: &str| {
            let mut command = Command::new(assert_cmd::cargo::cargo_bin("kumade"));
            let output =
                command.args(["monitor", "show", name]).env("XDG_RUNTIME_DIR", &site.directory).output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        assert!(show("other").contains("stands by, one leads"), "{}", show("other"));

        let before = site.archived(OTHER);
        one.end_with(Signal::SIGKILL);
        let took = wait_for("the other one takes over", || site.leads(OTHER));
        println!("taken over after {:.1} s", took.as_secs_f64());
        wait_for("the other one archives", || site.archived(OTHER) > before + 20);
        let gaps = site.document(OTHER, "/api/v1/pairs/one/series")["gaps"].clone();
        assert!(gaps.as_array().unwrap().iter().any(|gap| gap["cause"] == "the monitor did not run"), "{gaps}");

        // One that comes back stands by. A leader that ends lets it lead at once.
        let mut one = Running(site.monitor("one", ONE));
        wait_for("the first one stands by", || site.status(ONE)["leader"]["name"] == "other");
        let before = site.archived(ONE);
        other.end_with(Signal::SIGTERM);
        let took = wait_for("the first one leads again", || site.leads(ONE));
        println!("handed over after {:.1} s", took.as_secs_f64());
        // The page knows a path again once its address is known.
        wait_for("the archive is as it was", || site.archived(ONE) >= before);
        one.end_with(Signal::SIGTERM);
    });
}

/// A stopped process believes that it leads when it goes on.
#[test]
fn one_that_was_stopped_and_replaced_stands_by() {
    in_namespaces("one_that_was_stopped_and_replaced_stands_by", || {
        let Some(site) = Site::new("monitor_stopped") else { return };
        let one = Running(site.monitor("one", ONE));
        wait_for("the first one leads", || site.leads(ONE) && site.archived(ONE) > 0);
        let other = Running(site.monitor("other", OTHER));
        wait_for("the other one says who leads", || site.status(OTHER)["leader"]["name"] == "one");
        let pid = Pid::from_raw(one.0.id() as i32);
        kill(pid, Signal::SIGSTOP).unwrap();
        let took = wait_for("the other one takes over", || site.leads(OTHER));
        println!("taken over from a stopped one after {:.1} s", took.as_secs_f64());
        kill(pid, Signal::SIGCONT).unwrap();
        wait_for("the first one stands by", || site.status(ONE)["leader"]["name"] == "other");
        wait_for("the other one leads", || site.leads(OTHER));
        drop((one, other));
    });
}

#[test]
fn a_database_that_is_killed_and_started_again_is_written_on() {
    in_namespaces("a_database_that_is_killed_and_started_again_is_written_on", || {
        let Some(mut site) = Site::new("monitor_database") else { return };
        let mut one = Running(site.monitor("one", ONE));
        let mut other = Running(site.monitor("other", OTHER));
        wait_for("one leads", || site.leads(ONE) || site.leads(OTHER));
        let (leader, follower) = if site.leads(ONE) { (ONE, OTHER) } else { (OTHER, ONE) };
        for _ in 0..3 {
            wait_for("it archives", || site.archived(leader) > 20);
            let before = site.archived(leader);
            site.server.kill();
            for port in [leader, follower] {
                wait_for("the page says so", || site.status(port)["archive_failure"].is_string());
            }
            // Of this time, nothing is lost either: the leader keeps it.
            sleep(Duration::from_secs(2));
            site.server.restart_killed();
            for port in [leader, follower] {
                let is_told = |port| site.status(port)["archive_failure"].clone();
                println!("{}: {}, {}: {}", leader, is_told(leader), follower, is_told(follower));
                wait_for("the page says no more", || is_told(port).is_null());
            }
            // Twenty a second.
            wait_for("what waited is archived", || site.archived(leader) > before + 40);
            wait_for("the other one shows it", || site.archived(follower) >= before);
        }
        let gaps = site.document(leader, "/api/v1/pairs/one/series")["gaps"].clone();
        assert_eq!(gaps.as_array().unwrap().len(), 0, "{gaps}");
        one.end_with(Signal::SIGTERM);
        other.end_with(Signal::SIGTERM);
    });
}
