//! However `kumade lab run` ends, nothing of it stays: no process, no network namespace, no interface.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// For whatever is waited for; a quiet machine needs a tenth of it.
const PATIENCE: Duration = Duration::from_secs(20);

/// A long experiment, in the middle of a measurement.
struct Running {
    child: Child,
    /// The network namespaces that it has made.
    namespaces: BTreeSet<PathBuf>,
    interfaces: BTreeSet<PathBuf>,
}

impl Running {
    fn start(out: &Path) -> Self {
        let interfaces = entries("/sys/class/net");
        let mut child = Command::new(assert_cmd::cargo::cargo_bin("kumade"))
            .args(["lab", "run", "rake-firewall", "--runs", "1000", "--out"])
            .arg(out)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let began = Instant::now();
        // The server has a thread called so for each client.
        while !threads(child.id()).iter().any(|task| name(task) == "session") {
            assert!(child.try_wait().unwrap().is_none(), "{}", said(&mut child));
            assert!(began.elapsed() < PATIENCE, "nothing is measured");
            thread::sleep(Duration::from_millis(5));
        }
        let own = fs::read_link("/proc/self/ns/net").unwrap();
        let namespaces: BTreeSet<_> =
            namespaces_of(child.id()).into_iter().filter(|namespace| *namespace != own).collect();
        assert!(namespaces.len() >= 4, "four hosts, one namespace each: {namespaces:?}");
        Running { child, namespaces, interfaces }
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
            assert!(began.elapsed() < PATIENCE, "it does not end");
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn assert_gone(&self) {
        let group = self.child.id();
        let processes = entries("/proc").into_iter().filter_map(|path| path.file_name()?.to_str()?.parse().ok());
        for process in processes {
            assert!(group_of(process) != Some(group), "process {process} is left: {}", name(&proc(process)));
            let left: Vec<_> = namespaces_of(process).intersection(&self.namespaces).cloned().collect();
            assert!(left.is_empty(), "process {process} ({}) holds {left:?}", name(&proc(process)));
        }
        assert_eq!(entries("/sys/class/net"), self.interfaces);
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
    let mut running = Running::start(&directory("lab-killed"));
    running.send(Signal::SIGKILL);
    assert_eq!(running.wait().code(), None);
    running.assert_gone();
}

#[test]
fn ctrl_c_and_an_end_from_outside_leave_the_report_so_far_and_nothing_else() {
    for (signal, name) in [(Signal::SIGINT, "lab-interrupted"), (Signal::SIGTERM, "lab-ended")] {
        let out = directory(name);
        let mut running = Running::start(&out);
        running.send(signal);
        assert_eq!(running.wait().code(), Some(1));
        running.assert_gone();
        let text = said(&mut running.child);
        assert!(text.contains("kumade: stopped after "), "{text}");
        assert!(out.join("report.json").exists());
    }
}
