//! A server behind a link, whose clients come, are killed and lose their line again and again: neither takes more memory,
//! descriptors or threads as time passes, and nothing of them is left when they end.
//!
//! `KUMADE_SOAK_SECONDS=600 cargo test -p kumade --test tests soak_serve_link -- --ignored --nocapture`

use kumade_net::interface;
use kumade_net::namespace::Namespace;
use kumade_netns_testbed::{eventually, in_namespaces, run_ip};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// What a process has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Held {
    resident_kilobytes: u64,
    descriptors: usize,
    threads: usize,
}

impl Held {
    fn of(process: &Child) -> Self {
        let proc = Path::new("/proc").join(process.id().to_string());
        let status = fs::read_to_string(proc.join("status")).unwrap();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        let count = |directory: &str| fs::read_dir(proc.join(directory)).unwrap().count();
        Held {
            resident_kilobytes: resident.trim().trim_end_matches(" kB").parse().unwrap(),
            descriptors: count("fd"),
            threads: count("task"),
        }
    }

    /// Whether it has the same threads as when it was idle, and at most so many descriptors more.
    fn is_idle(self, idle: Held, more_descriptors: usize) -> bool {
        self.threads == idle.threads && self.descriptors <= idle.descriptors + more_descriptors
    }
}

/// What the processes have once that does not change for some seconds.
fn settled(held: impl Fn() -> [Held; 2]) -> [Held; 2] {
    let counts = |all: [Held; 2]| all.map(|held| (held.descriptors, held.threads));
    let mut now = held();
    let is_settled = eventually(|| {
        thread::sleep(Duration::from_secs(3));
        let before = std::mem::replace(&mut now, held());
        counts(before) == counts(now)
    });
    assert!(is_settled, "{now:?}");
    now
}

/// Memory that a process may have taken since it was warm.
const MAX_GROWTH_KILOBYTES: u64 = 4 << 10;
/// Descriptors that link and server may open when they first need them. A link's thread waits for packets of both interfaces,
/// one, the other, or none: each a set of descriptors of its own, of which the first is there from the start.
const MAX_MORE_DESCRIPTORS: [usize; 2] = [3, 0];

/// ```text
/// client ══ veth ══ middle: one, two ══ veth ══ server
/// ```
fn join(middle: &Namespace, ends: [&Namespace; 2]) {
    for (host, (number, name)) in ends.into_iter().zip([(1, "one"), (2, "two")]) {
        run_ip(host, &["link", "add", "host", "type", "veth", "peer", "name", name, "netns", &middle.path()]).unwrap();
        run_ip(host, &["addr", "add", &format!("10.79.0.{number}/24"), "dev", "host"]).unwrap();
        for (inside, device) in [(host, "host"), (middle, name)] {
            inside.run(|| interface::set_up(device)).unwrap().unwrap();
        }
    }
}

fn kumade(inside: &Namespace, words: &[&str]) -> Command {
    let mut command = inside.command(assert_cmd::cargo::cargo_bin("kumade"));
    command.args(words).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// For what the programs note while they run.
fn runtime_directory() -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("soak-serve-link");
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    directory
}

/// What they have left there, and where all processes note what is to be undone.
fn left_by(processes: &[Child; 2], runtime: &Path) -> Vec<PathBuf> {
    let entries = |directory: &Path| fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let noted = entries(Path::new("/run/kumade")).filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        processes.iter().any(|process| name.contains(&format!("-{}-", process.id())))
    });
    noted.chain(entries(&runtime.join("kumade"))).collect()
}

/// One client: it ends by itself, is killed, or loses its line for a while.
fn use_once(client: &Namespace, round: u64) {
    let words = ["measure", "10.79.0.2", "--no-capacity", "--deadline", "10s"];
    let mut child = kumade(client, &words).spawn().unwrap();
    thread::sleep(Duration::from_millis(100 + round * 37 % 700));
    match round % 3 {
        0 => {}
        1 => child.kill().unwrap(),
        _ => {
            run_ip(client, &["link", "set", "host", "down"]).unwrap();
            thread::sleep(Duration::from_millis(round * 91 % 1500));
            run_ip(client, &["link", "set", "host", "up"]).unwrap();
        }
    }
    child.wait().unwrap();
}

#[test]
#[ignore = "takes as long as it is told to"]
fn a_server_and_a_link_take_no_more_as_time_passes() {
    let seconds = std::env::var("KUMADE_SOAK_SECONDS").map_or(600, |text| text.parse().unwrap());
    in_namespaces("a_server_and_a_link_take_no_more_as_time_passes", || {
        let [client, middle, server] = [(); 3].map(|()| Namespace::new().unwrap());
        join(&middle, [&client, &server]);
        let link = ["link", "start", "one", "two", "--rate", "50mbit", "--delay", "5ms", "--name", "soak"];
        let runtime = runtime_directory();
        let mut processes = [kumade(&middle, &link), kumade(&server, &["serve"])]
            .map(|mut command| command.env("XDG_RUNTIME_DIR", &runtime).spawn().unwrap());
        let held = |processes: &[Child; 2]| [0, 1].map(|index| Held::of(&processes[index]));
        // Once they have served a client that ends by itself, they have all that they open when they start.
        thread::sleep(Duration::from_secs(1));
        use_once(&client, 0);
        let idle = settled(|| held(&processes));
        let (began, mut warm) = (Instant::now(), None);
        for round in 1.. {
            let elapsed = began.elapsed();
            if elapsed > Duration::from_secs(seconds) {
                println!("{round} clients in {seconds} s");
                break;
            }
            use_once(&client, round);
            if round % 20 == 0 {
                println!("{:4} s: {:?}", elapsed.as_secs(), held(&processes));
            }
            if warm.is_none() && elapsed > Duration::from_secs(seconds / 5) {
                warm = Some(held(&processes));
            }
        }
        let warm = warm.unwrap();
        // Connections of clients that vanished are given up in time.
        let is_idle = eventually(|| {
            (0..2).all(|index| held(&processes)[index].is_idle(idle[index], MAX_MORE_DESCRIPTORS[index]))
        });
        let end = held(&processes);
        processes.iter_mut().for_each(|process| {
            kill(Pid::from_raw(process.id() as i32), Signal::SIGINT).unwrap();
            process.wait().unwrap();
        });
        let left = left_by(&processes, &runtime);
        assert!(left.is_empty(), "{left:?}");
        assert!(is_idle, "{idle:?} before, {end:?} in the end");
        for (warm, end) in warm.iter().zip(end) {
            assert!(end.resident_kilobytes < warm.resident_kilobytes + MAX_GROWTH_KILOBYTES, "{warm:?}, then {end:?}");
        }
    });
}
