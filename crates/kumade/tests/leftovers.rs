//! However `kumade lab run` ends, nothing of it stays: no process, no network namespace, no interface.

use kumade_netns_testbed::{TEST_DEADLINE, eventually};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A long experiment, in the middle of a measurement.
struct Running {
    child: Child,
    /// The network namespaces that it has made.
    namespaces: BTreeSet<PathBuf>,
    interfaces: BTreeSet<PathBuf>,
}

impl Running {
    /// None where the lab has refused, since other programs load this machine so much that its network does not keep
    /// time. Then, too, nothing may be left.
    fn start(out: &Path) -> Option<Self> {
        let interfaces = entries("/sys/class/net");
        let mut child = Command::new(assert_cmd::cargo::cargo_bin("kumade"))
            .args(["lab", "run", "rake-firewall", "--runs", "1000", "--rate", "5mbit", "--out"])
            .arg(out)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let began = Instant::now();
        // The server has a thread called so for each client.
        while !threads(child.id()).iter().any(|task| name(task) == "session") {
            assert!(began.elapsed() < TEST_DEADLINE, "nothing is measured");
            thread::sleep(Duration::from_millis(5));
            if child.try_wait().unwrap().is_some() {
                let text = said(&mut child);
                assert!(
                    text.contains("differs from its configuration")
                        && text.contains("if other programs load this machine"),
                    "{text}"
                );
                Running { child, namespaces: BTreeSet::new(), interfaces }.assert_gone();
                return None;
            }
        }
        let own = fs::read_link("/proc/self/ns/net").unwrap();
        let namespaces: BTreeSet<_> =
            namespaces_of(child.id()).into_iter().filter(|namespace| *namespace != own).collect();
        assert!(namespaces.len() >= 4, "four hosts, one namespace each: {namespaces:?}");
        Some(Running { child, namespaces, interfaces })
    }

    fn send(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    fn wait(&mut self) -> ExitStatus {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(began.elapsed() < TEST_DEADLINE, "it does not end");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Nothing is left, or soon nothing: the kernel ends what a killed process has started a little later.
    fn assert_gone(&self) {
        let mut left = Vec::new();
        let is_gone = eventually(|| {
            left = self.left();
            left.is_empty()
        });
        assert!(is_gone, "{left:?}");
    }

    /// Its processes, those that hold its namespaces, and interfaces that were not there before.
    fn left(&self) -> Vec<String> {
        let processes = entries("/proc").into_iter().filter_map(|path| path.file_name()?.to_str()?.parse().ok());
        let holds = |process: &u32| {
            group_of(*process) == Some(self.child.id()) || !namespaces_of(*process).is_disjoint(&self.namespaces)
        };
        let processes = processes.filter(holds).map(|process| format!("process {process} ({})", name(&proc(process))));
        let now = entries("/sys/class/net");
        let interfaces = now.symmetric_difference(&self.interfaces).map(|path| path.display().to_string());
        processes.chain(interfaces).collect()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended, unless a test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn proc(process: u32) -> PathBuf {
    Path::new("/proc").join(process.to_string())
}

/// Nothing where there is no such directory (any more).
fn entries(directory: impl AsRef<Path>) -> BTreeSet<PathBuf> {
    fs::read_dir(directory).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())).collect()
}

fn threads(process: u32) -> BTreeSet<PathBuf> {
    entries(proc(process).join("task"))
}

fn name(task: &Path) -> String {
    fs::read_to_string(task.join("comm")).unwrap_or_default().trim().to_owned()
}

/// Those that the process's threads are in, and those that it holds open.
fn namespaces_of(process: u32) -> BTreeSet<PathBuf> {
    let inside = threads(process).into_iter().map(|task| task.join("ns/net"));
    let held = entries(proc(process).join("fd")).into_iter();
    let links = inside.chain(held).filter_map(|link| fs::read_link(link).ok());
    links.filter(|target| target.to_string_lossy().starts_with("net:[")).collect()
}

/// The fifth field of /proc/PID/stat: proc_pid_stat(5). The second, the name in parentheses, may hold anything.
fn group_of(process: u32) -> Option<u32> {
    let stat = fs::read_to_string(proc(process).join("stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(2)?.parse().ok()
}

fn said(child: &mut Child) -> String {
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    text
}

fn directory(name: &str) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&directory);
    directory
}

#[test]
fn nothing_is_left_of_a_killed_experiment() {
    let Some(mut running) = Running::start(&directory("lab-killed")) else { return };
    running.send(Signal::SIGKILL);
    assert_eq!(running.wait().code(), None);
    running.assert_gone();
}

/// The first one had no answer for minutes, and the second left a directory behind.
#[test]
fn the_first_ctrl_c_is_acknowledged_at_once_and_the_second_leaves_no_directory() {
    let (out, temporary) = (directory("lab-ended-at-once"), directory("lab-temporary"));
    fs::create_dir_all(&temporary).unwrap();
    let child = Command::new(assert_cmd::cargo::cargo_bin("kumade"))
        .args(["lab", "run", "multipath-tcp", "--plane", "direct", "--duration", "100s", "--out"])
        .arg(&out)
        .env("TMPDIR", &temporary)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    let mut running = Running { namespaces: BTreeSet::new(), interfaces: entries("/sys/class/net"), child };
    let began = Instant::now();
    while entries(&temporary).is_empty() {
        assert!(began.elapsed() < TEST_DEADLINE, "no directory is made");
        thread::sleep(Duration::from_millis(5));
        if running.child.try_wait().unwrap().is_some() {
            eprintln!("passed over: {}", said(&mut running.child));
            return;
        }
    }
    let mut lines = BufReader::new(running.child.stderr.take().unwrap()).lines().map(Result::unwrap);
    running.send(Signal::SIGINT);
    let acknowledged = lines.find(|line| line.contains("Ctrl-C again ends it at once")).unwrap();
    assert!(
        acknowledged.contains("multipath-tcp: ending after the run that has begun, which takes up to about 10"),
        "{acknowledged}"
    );
    running.send(Signal::SIGINT);
    assert_eq!(running.wait().code(), Some(1));
    running.assert_gone();
    assert!(entries(&temporary).is_empty(), "{:?}", entries(&temporary));
}

#[test]
fn ctrl_c_and_an_end_from_outside_leave_the_report_so_far_and_nothing_else() {
    for (signal, name) in [(Signal::SIGINT, "lab-interrupted"), (Signal::SIGTERM, "lab-ended")] {
        let out = directory(name);
        fs::create_dir_all(&out).unwrap();
        // Of an earlier run, which was whole.
        fs::write(out.join("report.json"), "whole").unwrap();
        let Some(mut running) = Running::start(&out) else { continue };
        running.send(signal);
        assert_eq!(running.wait().code(), Some(1));
        running.assert_gone();
        let text = said(&mut running.child);
        assert!(text.contains("kumade: stopped after "), "{text}");
        assert_eq!(fs::read_to_string(out.join("report.json")).unwrap(), "whole");
        let report: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(out.join("interrupted/report.json")).unwrap()).unwrap();
        assert!(report["interrupted"]["runs"].as_u64().unwrap() >= 1, "{report}");
        assert_eq!(report["interrupted"]["of_runs"], 2000, "two transports");
        let page = fs::read_to_string(out.join("interrupted/report.html")).unwrap();
        assert!(page.contains("of 2000 runs, interrupted"));
    }
}
