//! `kumade lab run monitor-mesh`: the page is served, and nothing stays.

use assert_cmd::cargo::cargo_bin;
use kumade_daemon::PrivateDirectory;
use kumade_netns_testbed::eventually;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A lab that ends with its test, also where that fails.
struct Lab(Child);

impl Lab {
    fn start(directory: &Path) -> Self {
        let mut lab = Command::new(cargo_bin("kumade"));
        lab.args(["lab", "run", "monitor-mesh", "--serve=127.0.0.1:0"]).current_dir(directory);
        Lab(lab.env("TMPDIR", directory).stderr(Stdio::piped()).spawn().unwrap())
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn status(page: SocketAddr) -> Option<Value> {
    let mut stream = TcpStream::connect(page).ok()?;
    let request = format!("GET /api/v1/status HTTP/1.1\r\nHost: {page}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Processes whose arguments name this directory.
fn processes_with(directory: &str) -> usize {
    let numbers = fs::read_dir("/proc").unwrap().flatten();
    let lines = numbers.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(directory)).count()
}

#[test]
fn the_page_of_a_lab_mesh_is_served_on_this_host_and_nothing_stays() {
    let directory = PrivateDirectory::new("kumade-lab-mesh").unwrap();
    let mut lab = Lab::start(directory.path());
    let mut lines = BufReader::new(lab.0.stderr.take().unwrap()).lines();
    let address = lines.find_map(|line| line.unwrap().split_once("http://").map(|(_, rest)| rest.to_owned()));
    let page: SocketAddr = address.unwrap().split('/').next().unwrap().parse().unwrap();
    assert!(page.ip().is_loopback());

    // All agents are there, light probes are answered, and what was measured has a value or a reason.
    let is_known = |figure: &Value| figure["value"].is_number() || figure["reason"].is_string();
    let is_measured = || {
        let status = status(page).unwrap_or_default();
        list(&status["agents"]).len() == 4
            && list(&status["agents"]).iter().all(|agent| agent["is_connected"] == true)
            && list(&status["pairs"]).len() == 6
            && list(&status["pairs"]).iter().any(|pair| is_known(&pair["run"]["up"]))
    };
    assert!(eventually(is_measured), "{:?}", status(page));
    let name = directory.path().to_str().unwrap();
    assert!(processes_with(name) >= 5, "a coordinator and four agents");

    kill(Pid::from_raw(lab.0.id() as i32), Signal::SIGINT).unwrap();
    assert!(lab.0.wait().unwrap().success());
    assert!(eventually(|| processes_with(name) == 0));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "neither files nor a report");
    assert!(TcpStream::connect(page).is_err());
}

#[test]
fn of_a_lab_mesh_that_is_killed_nothing_stays() {
    let directory = PrivateDirectory::new("kumade-lab-killed").unwrap();
    let mut lab = Lab::start(directory.path());
    let mut lines = BufReader::new(lab.0.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("http://")));
    let name = directory.path().to_str().unwrap();
    assert!(processes_with(name) >= 5 && fs::read_dir(directory.path()).unwrap().count() > 0);
    // As a second Ctrl-C does.
    lab.0.kill().unwrap();
    lab.0.wait().unwrap();
    assert!(eventually(|| processes_with(name) == 0 && fs::read_dir(directory.path()).unwrap().count() == 0));
}

#[test]
fn a_page_that_cannot_be_served_is_refused_with_what_to_do() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    for (arguments, part) in [
        (["monitor-mesh".to_owned(), format!("--serve=127.0.0.1:{port}")], "choose another port"),
        (["monitor-mesh".to_owned(), "--serve=0.0.0.0:0".to_owned()], "this host alone"),
        (["rake-firewall".to_owned(), "--serve".to_owned()], "goes with a monitored mesh alone"),
    ] {
        let output = Command::new(cargo_bin("kumade")).args(["lab", "run"]).args(arguments).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && text.contains(part), "{text}");
    }
}
