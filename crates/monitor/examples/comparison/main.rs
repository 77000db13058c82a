//! What `kumade monitor` takes beside other programs that send light probes all day, to the same targets:
//!
//! `cargo run --release -p kumade-monitor --example comparison -- [probers|smokeping] [--program target/release/kumade] [--seconds N]`
//!
//! as root or in a user namespace. `probers` has it probe 1, 100 and 1000 targets, a probe a second to each, and so smokeping_prober
//! (Debian's package `prometheus-smokeping-prober`), one after the other. `smokeping` has it and SmokePing (`smokeping`, `fping`) monitor the
//! same 200 targets at the same time, each as it is by default: a probe a second, and 20 in 300 s. That takes eleven minutes: N is rounded up to
//! whole steps.
//!
//! The targets are addresses of the loopback interface of a network namespace, which the kernel answers itself: what that takes is in the
//! figures of whoever sends. Probes are counted by that kernel, and processor time includes that of all children, such as fping. Beside other
//! work, `nice -n -20 chrt -f 10` keeps a processor for what is measured.

mod delays;
mod kumade;
mod row;
mod smokeping;
mod smokeping_prober;
mod under_test;
mod usage;

use kumade::Kumade;
use kumade_daemon::signals::DaemonSignals;
use kumade_net::namespace::{self, Namespace};
use kumade_netns_testbed::run_ip;
use row::{HEAD, Row};
use smokeping::{STEP, SmokePing};
use smokeping_prober::SmokepingProber;
use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};
use under_test::{Program, Running};
use usage::Usage;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Of targets.
const PROBER_TARGETS: [usize; 3] = [1, 100, 1000];
const SMOKEPING_TARGETS: usize = 200;
/// So long after its start a program does what it does all day.
const SETTLING: Duration = Duration::from_secs(15);
const POLL_INTERVAL: Duration = Duration::from_millis(100);

fn main() -> Outcome<()> {
    namespace::enter_user_namespace_if_needed()?;
    let signals = DaemonSignals::register(false)?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let option = |name: &str| {
        let place = arguments.iter().position(|argument| argument == name)?;
        arguments.get(place + 1)
    };
    let wanted = |name: &str| {
        let named = |name: &str| arguments.iter().any(|argument| argument == name);
        named(name) || !(named("probers") || named("smokeping"))
    };
    let seconds = option("--seconds").map_or(Ok(60), |text| text.parse())?;
    let program = PathBuf::from(option("--program").map_or("target/release/kumade", String::as_str));
    let kumade =
        Kumade { program: fs::canonicalize(&program).map_err(|error| format!("{}: {error}", program.display()))? };
    let directory = Directory::new()?;
    let wait = |duration: Duration| wait(duration, &signals);
    if wanted("probers") {
        println!("a probe a second to each target, {seconds} s\n{HEAD}");
        for program in [&kumade as &dyn Program, &SmokepingProber] {
            for targets in PROBER_TARGETS {
                measure(&[program], targets, Duration::from_secs(seconds), &directory, &wait)?;
            }
        }
    }
    if wanted("smokeping") {
        let steps = seconds.div_ceil(STEP.as_secs()).max(2);
        println!("{steps} steps of SmokePing, at the same time\n{HEAD}");
        measure(&[&kumade, &SmokePing], SMOKEPING_TARGETS, STEP * steps as u32, &directory, &wait)?;
    }
    Ok(())
}

/// Has programs run at the same time, each in a namespace of its own, and prints a line for each.
fn measure(
    programs: &[&dyn Program],
    targets: usize,
    duration: Duration,
    directory: &Directory,
    wait: &dyn Fn(Duration) -> Outcome<()>,
) -> Outcome<()> {
    let hosts: Vec<_> = (0..targets).map(|host| format!("127.1.{}.{}", host / 250, host % 250 + 1)).collect();
    let mut running: Vec<(&dyn Program, String, Running)> = Vec::new();
    for program in programs {
        let Some(version) = program.version() else {
            println!("{}: absent", program.name());
            continue;
        };
        let place = directory.0.join(format!("{}-{targets}", program.name()));
        fs::create_dir_all(&place)?;
        let command = |host: &Namespace| program.command(host, &place, &hosts);
        running.push((*program, version, Running::start(new_host()?, place.clone(), command)?));
    }
    wait(SETTLING)?;
    let before = running.iter().map(|(_, _, running)| running.usage()).collect::<Outcome<Vec<Usage>>>()?;
    let begin = Instant::now();
    wait(duration)?;
    for ((program, version, running), before) in running.iter().zip(before) {
        let used = running.usage()?.since(&before, begin.elapsed());
        let delays = program.delays(running)?;
        let disk_bytes = program.disk_bytes(running)?;
        println!("{}", Row { name: program.name(), version: version.clone(), targets, used, delays, disk_bytes });
    }
    Ok(())
}

/// With many addresses that answer, and ping sockets for everybody, as systemd has them allowed.
fn new_host() -> Outcome<Namespace> {
    let host = Namespace::new()?;
    run_ip(&host, &["link", "set", "lo", "up"])?;
    host.run(|| fs::write("/proc/sys/net/ipv4/ping_group_range", "0 2147483647"))??;
    Ok(host)
}

fn wait(duration: Duration, signals: &DaemonSignals) -> Outcome<()> {
    let begin = Instant::now();
    while begin.elapsed() < duration {
        if signals.is_end_requested() {
            return Err("ended by a signal".into());
        }
        sleep(POLL_INTERVAL);
    }
    Ok(())
}

/// Where each program has its files.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Outcome<Self> {
        let path = std::env::temp_dir().join(format!("kumade-comparison-{}", std::process::id()));
        fs::create_dir(&path)?;
        Ok(Directory(path))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}
