//! Whatever system call fails, is interrupted, is short or is late: a program ends with an error that says what failed, or does
//! without; nothing of it stays; and what earlier runs left is as it was.
//!
//! The tests make some calls fail. The whole sweep takes hours:
//! `cargo test -p kumade --test tests faults -- --ignored --nocapture`. Environment variables choose a part of it:
//!
//! - `KUMADE_FAULTS=link`: one program (`measure`, `serve`, `lab-virtual`, `lab`, `link`);
//! - `KUMADE_FAULTS_CALL=openat,read`: these calls;
//! - `KUMADE_FAULTS_KIND=refused`: one kind of fault (`refused`, `interrupted`, `short`, `late`);
//! - `KUMADE_FAULTS_DENSE=100000`: each of the first so many calls of a name. From the 16th on, ever fewer are tried otherwise;
//! - `KUMADE_FAULTS_EVERY=20`, `KUMADE_FAULTS_FROM=300`: of all that, every 20th, and none before the one of this number, where
//!   an earlier process was ended.
//!
//! Processes for different kinds or calls may run side by side.

use kumade_net::fault_injection::{CALLS, Fault, FaultPlan, FaultReport, FaultyProgram, unavailable_reason};
use kumade_net::interface;
use kumade_net::namespace::Namespace;
use kumade_net::offloads::{OffloadControl, Offloads};
use kumade_netns_testbed::{TEST_DEADLINE, in_namespaces, run_ip};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use server::Serving;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::server;

/// A program, and what it must leave as it was.
trait Subject {
    fn command(&self) -> Command;
    /// What is done with it once it has printed such a line to standard error.
    fn ready(&self) -> Option<&'static str>;
    /// Done with the one that runs.
    fn use_it(&self, _line: &str) {}
    /// What is left of it or harmed by it, and it has not said so.
    fn harm(&self, end: &End) -> Vec<String>;
}

/// How a program ended.
#[derive(Debug)]
struct End {
    /// Which call was to have a fault.
    call: &'static str,
    code: Option<i32>,
    stderr: String,
    stdout: String,
    seen: FaultReport,
    /// It and all processes that it has started.
    ended: bool,
}

/// Collects what is printed, and tells of the first line that contains this.
fn collect(from: impl Read + Send + 'static, awaited: Option<&'static str>) -> (JoinHandle<String>, Receiver<String>) {
    let (sender, lines) = channel();
    let collector = thread::spawn(move || {
        let mut text = String::new();
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            if awaited.is_some_and(|awaited| line.contains(awaited)) {
                let _ = sender.send(line.clone());
            }
            text += &line;
            text.push('\n');
        }
        text
    });
    (collector, lines)
}

/// Within which a program is ready on a busy machine.
const READY_TIME: Duration = Duration::from_secs(10);

/// Runs the program with this fault.
fn run(subject: &dyn Subject, plan: FaultPlan) -> End {
    let mut command = subject.command();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut faulty = FaultyProgram::start(command, plan.clone()).expect("the kernel asks about system calls");
    let (said, ready) = collect(faulty.child.stderr.take().unwrap(), subject.ready());
    let (printed, _) = collect(faulty.child.stdout.take().unwrap(), None);
    if subject.ready().is_some() {
        // The channel ends with the program. The line may itself be what cannot be written.
        if let Ok(line) = ready.recv_timeout(READY_TIME) {
            subject.use_it(&line);
        }
        let _ = kill(Pid::from_raw(faulty.child.id() as i32), Signal::SIGINT);
    }
    let ended = faulty.wait_until_ended(TEST_DEADLINE).unwrap();
    let code = faulty.child.try_wait().unwrap().and_then(|status| status.code());
    let seen = faulty.report();
    drop(faulty);
    // Whatever still holds the other ends of the pipes would keep this from ending, too.
    let text = |collector: JoinHandle<String>| if ended { collector.join().unwrap() } else { String::new() };
    End { call: plan.call, code, stderr: text(said), stdout: text(printed), seen, ended }
}

/// What is wrong with how it ended, if anything.
fn fault_of(end: &End) -> Option<String> {
    let told = end.stderr.lines().chain(end.stdout.lines()).any(|line| {
        line.starts_with("kumade: ")
            || line.starts_with("error: ")
            // A document without a value says why there is none.
            || line.contains(r#""reason":""#)
            // Before the program's first line, the dynamic linker says it.
            || line.contains("error while loading shared libraries")
    });
    match end.code {
        _ if !end.ended => Some("it or one of its processes does not end".into()),
        _ if end.stderr.contains("panicked") => Some("it panics".into()),
        Some(0) => None,
        Some(1 | 127) if told => None,
        Some(1 | 127) => Some("it says nothing".into()),
        code => Some(format!("its status is {code:?}")),
    }
}

/// All faults that this call may have.
fn faults(call: &str) -> Vec<Fault> {
    let known = CALLS.iter().find(|known| known.name == call).unwrap();
    let short = matches!(call, "read" | "write" | "sendto" | "recvfrom").then_some(Fault::Short);
    let interrupted = known.is_interruptible.then_some(Fault::Interrupted);
    let late = Fault::Delayed(Duration::from_millis(300));
    [Some(Fault::Error), interrupted, short, Some(late)].into_iter().flatten().collect()
}

/// Runs the program with each of these faults. Fails with all that is wrong.
fn sweep(subject: &dyn Subject, plans: impl Iterator<Item = FaultPlan>) {
    let (mut tried, mut injected) = (0, 0);
    let mut wrong = Vec::new();
    for plan in plans {
        let began = Instant::now();
        let end = run(subject, plan.clone());
        let faults: Vec<_> = fault_of(&end).into_iter().chain(subject.harm(&end)).collect();
        let last = end
            .stderr
            .lines()
            .rfind(|line| line.starts_with("kumade: ") || line.starts_with("warning"))
            .unwrap_or_default();
        let FaultPlan { call, number, fault } = &plan;
        let line = format!(
            "{call} {number} {fault:?}: {:?} {} {last} {faults:?}",
            end.code,
            if end.seen.is_injected { "" } else { "(not made)" }
        );
        println!("{:.1} s {line}", began.elapsed().as_secs_f64());
        (tried, injected) = (tried + 1, injected + usize::from(end.seen.is_injected));
        if !faults.is_empty() {
            println!("{}\n{}", end.stderr, end.stdout);
            wrong.push(format!("{line}\n{}\n{}", end.stderr, end.stdout));
        }
    }
    // Threads and the network decide how many calls of a name a run makes.
    println!("{tried} runs, in {injected} of which the call was made and had its fault; {} wrong", wrong.len());
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// Of the program without a fault.
fn counts(subject: &dyn Subject) -> BTreeMap<&'static str, u64> {
    let end = run(subject, FaultPlan { call: "", number: 0, fault: Fault::Error });
    assert_eq!((end.code, subject.harm(&end)), (Some(0), Vec::new()), "{}", end.stderr);
    println!("{:?}", end.seen.counts);
    end.seen.counts
}

/// Every n-th call, of the first many each, then ever fewer.
fn thorough(counts: BTreeMap<&'static str, u64>) -> impl Iterator<Item = FaultPlan> {
    let number = |name, default| std::env::var(name).map_or(default, |value| value.parse().unwrap());
    let dense: u64 = number("KUMADE_FAULTS_DENSE", 16);
    let every = number("KUMADE_FAULTS_EVERY", 1) as usize;
    let from = number("KUMADE_FAULTS_FROM", 0) as usize;
    let wanted = std::env::var("KUMADE_FAULTS_CALL").ok();
    let is_wanted =
        move |call: &str| wanted.as_deref().is_none_or(|wanted| wanted.split(',').any(|wanted| wanted == call));
    let kind = std::env::var("KUMADE_FAULTS_KIND").ok();
    let is_of_kind = move |fault: Fault| kind.as_deref().is_none_or(|kind| kind == kind_of(fault));
    let plans = counts.into_iter().filter(move |(call, _)| is_wanted(call)).flat_map(move |(call, count)| {
        let numbers = std::iter::successors(Some(1), move |n: &u64| Some(n + 1 + n.saturating_sub(dense) / 16));
        let numbers = numbers.take_while(move |n| *n <= count);
        numbers.flat_map(move |number| faults(call).into_iter().map(move |fault| FaultPlan { call, number, fault }))
    });
    plans.filter(move |plan| is_of_kind(plan.fault)).skip(from).step_by(every)
}

fn kind_of(fault: Fault) -> &'static str {
    match fault {
        Fault::Error => "refused",
        Fault::Interrupted => "interrupted",
        Fault::Short => "short",
        Fault::Delayed(_) => "late",
    }
}

fn directory(name: &str) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    directory
}

fn kumade(words: &[&str]) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("kumade"));
    command.args(words);
    command
}

fn name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap()
}

fn files(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.path().display().to_string()).collect()
}

/// A measurement of a server that has no faults.
struct Measure {
    server: Serving,
}

impl Subject for Measure {
    fn command(&self) -> Command {
        kumade(&["measure", "--json", &self.server.address])
    }
    fn ready(&self) -> Option<&'static str> {
        None
    }
    fn harm(&self, end: &End) -> Vec<String> {
        let is_document = serde_json::from_str::<serde_json::Value>(&end.stdout).is_ok();
        let harm = (end.code == Some(0) && !is_document).then(|| format!("no document: {}", end.stdout));
        harm.into_iter().collect()
    }
}

/// A server that is measured once by a client without faults, and ended.
struct Serve;

impl Subject for Serve {
    fn command(&self) -> Command {
        kumade(&["serve", "--listen", "127.0.0.1:0"])
    }
    fn ready(&self) -> Option<&'static str> {
        Some("listening on ")
    }
    fn use_it(&self, line: &str) {
        let address = line.split_once("listening on ").and_then(|(_, behind)| behind.split(' ').next()).unwrap();
        kumade(&["measure", "--direction", "up", "--deadline", "10s", address]).output().unwrap();
    }
    fn harm(&self, _end: &End) -> Vec<String> {
        Vec::new()
    }
}

/// A link between two interfaces.
struct Link {
    inside: Namespace,
    runtime: PathBuf,
    before: [Offloads; 2],
}

/// Its interfaces.
const ENDS: [&str; 2] = ["one", "two"];

impl Link {
    /// Calls without which something cannot be put back, or is not known to be this link's. Then it says so, and the next one puts
    /// it back.
    const PUT_BACK_BY: [&str; 4] = ["flock", "ioctl", "statx", "unlink"];

    /// The records of changes are of the whole directory.
    fn names_all_leftovers(left: &[String], said: &str) -> bool {
        let is_told =
            |left: &String| said.contains(left) || left.contains("journal") && said.contains("for leftovers in");
        left.iter().all(is_told)
    }

    fn new(directory_name: &str) -> Self {
        let inside = Namespace::new().unwrap();
        for name in ENDS {
            run_ip(&inside, &["link", "add", name, "type", "veth", "peer", "name", &format!("{name}-peer")]).unwrap();
            inside.run(|| interface::set_up(name)).unwrap().unwrap();
            // It is switched off as long as a link has the interface.
            let on = Offloads::from_entries([("gro", 1)]);
            inside.run(|| OffloadControl::open(name).unwrap().set(on)).unwrap().unwrap();
        }
        let before = Self::offloads(&inside);
        Link { inside, runtime: directory(directory_name), before }
    }

    fn offloads(inside: &Namespace) -> [Offloads; 2] {
        ENDS.map(|name| inside.run(|| OffloadControl::open(name).unwrap().read().unwrap()).unwrap())
    }
}

impl Subject for Link {
    fn command(&self) -> Command {
        let mut command = self.inside.command(assert_cmd::cargo::cargo_bin("kumade"));
        command.args(["link", "start", "one", "two", "--rate", "10mbit"]).env("XDG_RUNTIME_DIR", &self.runtime);
        command
    }
    fn ready(&self) -> Option<&'static str> {
        Some("are bridged")
    }
    fn harm(&self, end: &End) -> Vec<String> {
        let left = || {
            let files = files(&self.runtime.join("kumade"));
            let changed = (Self::offloads(&self.inside) != self.before).then(|| "offloads".to_owned());
            files.into_iter().chain(changed).collect::<Vec<_>>()
        };
        let first = left();
        if first.is_empty() {
            return first;
        }
        println!("left to the next one: {first:?}");
        if !Self::PUT_BACK_BY.contains(&end.call) || !Self::names_all_leftovers(&first, &end.stderr) {
            return first;
        }
        let next = run(self, FaultPlan { call: "", number: 0, fault: Fault::Error });
        [left(), fault_of(&next).into_iter().collect()].concat()
    }
}

/// An experiment whose report takes the place of an earlier one.
struct Lab {
    out: PathBuf,
    more: &'static [&'static str],
    earlier: BTreeMap<PathBuf, Vec<u8>>,
}

impl Lab {
    const RUN: [&str; 9] =
        ["lab", "run", "rake-accuracy", "--rate", "100mbit", "--cross", "20mbit", "--transport", "udp"];

    fn new(name: &str, more: &'static [&'static str]) -> Self {
        let out = directory(name);
        let made = kumade(&Self::RUN).args(["--virtual", "--runs", "2", "--out"]).arg(&out).output().unwrap();
        assert!(made.status.success(), "{made:?}");
        let earlier = Self::contents(&out);
        Lab { out, more, earlier }
    }

    fn contents(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
        let paths = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
        paths.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
    }

    fn is_whole(name: &Path, contents: &[u8]) -> bool {
        match name.extension().and_then(|extension| extension.to_str()) {
            Some("json") => serde_json::from_slice::<serde_json::Value>(contents).is_ok(),
            Some("html") => contents.trim_ascii_end().ends_with(b"</html>"),
            _ => contents.ends_with(b"\n"),
        }
    }
}

impl Subject for Lab {
    fn command(&self) -> Command {
        let mut command = kumade(&Self::RUN);
        command.args(["--runs", "1"]).args(self.more).arg("--out").arg(&self.out);
        command
    }
    fn ready(&self) -> Option<&'static str> {
        None
    }
    fn harm(&self, end: &End) -> Vec<String> {
        let found = Self::contents(&self.out);
        let is_said = |path: &Path| end.stderr.contains(&format!("cannot remove the temporary file {}", name(path)));
        let stray = found.keys().filter(|path| !self.earlier.contains_key(*path) && !is_said(path));
        let stray = stray.map(|path| format!("{} is left", path.display()));
        let harmed = self
            .earlier
            .iter()
            .filter(|(path, earlier)| found.get(*path).is_none_or(|now| now != *earlier && !Self::is_whole(path, now)));
        let harm = stray.chain(harmed.map(|(path, _)| format!("{} is not whole", path.display()))).collect();
        found.keys().for_each(|path| fs::remove_file(path).unwrap());
        self.earlier.iter().for_each(|(path, contents)| fs::write(path, contents).unwrap());
        harm
    }
}

/// Each of these calls, with each of these faults.
fn sample<const N: usize>(calls: [(&'static str, u64, Fault); N]) -> impl Iterator<Item = FaultPlan> {
    calls.into_iter().map(|(call, number, fault)| FaultPlan { call, number, fault })
}

/// Whether programs can have faults here; says so where they cannot, as in containers whose supervisor has taken the place.
fn can_inject() -> bool {
    let obstacle = unavailable_reason();
    if let Some(error) = &obstacle {
        eprintln!("SKIPPED: no system call can be made to fail here: {error}");
    }
    obstacle.is_none()
}

const LATE: Fault = Fault::Delayed(Duration::from_millis(300));

#[test]
fn a_measurement_of_which_a_call_fails_ends() {
    if !can_inject() {
        return;
    }
    let plans = sample([
        ("socket", 1, Fault::Error),
        ("sendto", 2, Fault::Short),
        ("recvfrom", 1, Fault::Interrupted),
        ("ppoll", 5, Fault::Error),
        ("recvmsg", 100, LATE),
        ("recvmmsg", 10, LATE),
        ("sendto", 300, Fault::Error),
        ("write", 1, Fault::Error),
    ]);
    sweep(&Measure { server: Serving::start(&[]) }, plans);
}

#[test]
fn a_server_of_which_a_call_fails_ends() {
    if !can_inject() {
        return;
    }
    let plans = sample([
        ("bind", 2, Fault::Error),
        ("accept4", 1, Fault::Error),
        ("clone3", 1, Fault::Error),
        ("recvmsg", 20, Fault::Error),
        ("recvmmsg", 5, Fault::Error),
    ]);
    sweep(&Serve, plans);
}

#[test]
fn a_link_of_which_a_call_fails_leaves_nothing() {
    if !can_inject() {
        return;
    }
    in_namespaces("a_link_of_which_a_call_fails_leaves_nothing", || {
        let plans = sample([
            ("flock", 3, Fault::Error),
            ("ftruncate", 1, Fault::Error),
            ("ioctl", 18, Fault::Error),
            ("listen", 3, Fault::Error),
            ("socket", 16, Fault::Error),
            ("unlink", 3, Fault::Error),
            ("write", 3, Fault::Error),
            ("write", 3, Fault::Short),
            ("clone3", 2, Fault::Error),
        ]);
        sweep(&Link::new("faults-link-sample"), plans);
    });
}

#[test]
fn an_experiment_of_which_a_call_fails_harms_no_earlier_report() {
    if !can_inject() {
        return;
    }
    let plans = sample([
        ("openat", 11, Fault::Error),
        ("write", 6, Fault::Error),
        ("write", 6, Fault::Short),
        ("fsync", 3, Fault::Error),
        ("renameat", 2, Fault::Error),
        ("unlinkat", 1, Fault::Error),
    ]);
    sweep(&Lab::new("faults-lab-sample", &["--virtual"]), plans);
}

#[test]
#[ignore = "takes hours"]
fn every_call_of_every_program_fails() {
    if !can_inject() {
        return;
    }
    let wanted = std::env::var("KUMADE_FAULTS").ok();
    let is_wanted = |name: &str| wanted.as_deref().is_none_or(|wanted| wanted == name);
    let own = |name: &str| format!("{name}-{}", std::process::id());
    in_namespaces("every_call_of_every_program_fails", || {
        if is_wanted("measure") {
            let subject = Measure { server: Serving::start(&[]) };
            sweep(&subject, thorough(counts(&subject)));
        }
        if is_wanted("serve") {
            sweep(&Serve, thorough(counts(&Serve)));
        }
        if is_wanted("lab-virtual") {
            let lab = Lab::new(&own("faults-lab-virtual"), &["--virtual"]);
            sweep(&lab, thorough(counts(&lab)));
        }
        if is_wanted("lab") {
            let lab = Lab::new(&own("faults-lab"), &[]);
            sweep(&lab, thorough(counts(&lab)));
        }
        if is_wanted("link") {
            let link = Link::new(&own("faults-link"));
            sweep(&link, thorough(counts(&link)));
        }
    });
}
