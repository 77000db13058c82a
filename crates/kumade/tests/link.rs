//! `kumade link` as people use it, between two hosts in network namespaces of their own.

use crate::privileges;

use kumade_net::interface;
use kumade_net::namespace::Namespace;
use kumade_net::offloads::{OffloadControl, Offloads};
use kumade_netns_testbed::{TEST_DEADLINE, eventually, in_namespaces};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// ```text
/// left ══ veth ══ middle: one, two ══ veth ══ right
/// ```
struct Network {
    left: Namespace,
    middle: Namespace,
    right: Namespace,
    /// Where the links of this test have their sockets.
    runtime: PathBuf,
}

impl Network {
    fn new(test: &str) -> Self {
        let host = || Namespace::new().unwrap();
        let runtime = std::env::temp_dir().join(format!("kumade-{test}-{}", std::process::id()));
        fs::create_dir_all(&runtime).unwrap();
        let network = Network { left: host(), middle: host(), right: host(), runtime };
        for (host, number, name) in [(&network.left, 1, "one"), (&network.right, 2, "two")] {
            let path = network.middle.path();
            ip(host, &["link", "add", "host", "type", "veth", "peer", "name", name, "netns", &path]);
            ip(host, &["addr", "add", &format!("10.79.0.{number}/24"), "dev", "host"]);
            for (inside, device) in [(host, "host"), (&network.middle, name)] {
                inside.run(|| interface::set_up(device)).unwrap().unwrap();
            }
        }
        // The kernel drops what is sent before it has seen that the other end of the cable is up.
        for host in [&network.left, &network.right] {
            assert!(eventually(|| ip(host, &["-o", "link", "show", "host"]).contains("state UP")));
        }
        network
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.middle.command(assert_cmd::cargo::cargo_bin("kumade"));
        command.arg("link").args(words).env("XDG_RUNTIME_DIR", &self.runtime);
        command
    }

    /// Waits for it to end by itself.
    fn call(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    fn start(&self, more: &[&str]) -> Running {
        let command = &mut self.command(&[&["start", "one", "two"], more].concat());
        Running::new(command)
    }

    /// How long a packet of the left host takes to the right one and back, where it passes.
    fn round_trip(&self) -> Duration {
        self.round_trip_within(TEST_DEADLINE).expect("no packet passes")
    }

    /// None where it does not come back in time.
    fn round_trip_within(&self, time: Duration) -> Option<Duration> {
        let bind = |host: &Namespace, address: &str| host.run(|| UdpSocket::bind(address).unwrap()).unwrap();
        let (here, there) = (bind(&self.left, "10.79.0.1:0"), bind(&self.right, "10.79.0.2:0"));
        for socket in [&here, &there] {
            socket.set_read_timeout(Some(time)).unwrap();
        }
        let begun = Instant::now();
        here.send_to(&[0; 100], there.local_addr().unwrap()).unwrap();
        let (count, from) = there.recv_from(&mut [0; 200]).ok()?;
        there.send_to(&[0; 200][..count], from).unwrap();
        here.recv(&mut [0; 200]).ok()?;
        Some(begun.elapsed())
    }

    fn show(&self) -> String {
        String::from_utf8(self.call(&["show"]).stdout).unwrap()
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.runtime);
    }
}

/// A link that passes packets.
struct Running {
    child: Child,
    said: BufReader<ChildStderr>,
}

impl Running {
    fn new(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("are bridged") {
            line.clear();
            assert!(said.read_line(&mut line).unwrap() > 0, "it ended: {:?}", child.wait());
            assert!(!line.starts_with("kumade:"), "{line}");
        }
        Running { child, said }
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    /// Its status, what it printed, and what it said.
    fn end(mut self) -> (Option<i32>, String, String) {
        let (mut printed, mut said) = (String::new(), String::new());
        self.child.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
        self.said.read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap().code(), printed, said)
    }

    fn interrupted(self) -> (Option<i32>, String, String) {
        self.signal(Signal::SIGINT);
        self.end()
    }
}

/// Runs `ip` with these arguments in a namespace; returns what it prints.
fn ip(inside: &Namespace, arguments: &[&str]) -> String {
    let output = inside.command("ip").args(arguments).output().expect("iproute2 is installed");
    assert!(output.status.success(), "ip {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Fails unless it is a document of the published schema.
fn check(document: &str) -> Value {
    let schema = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../schemas/kumade.link.1.json")).unwrap();
    let validator = jsonschema::validator_for(&serde_json::from_str(&schema).unwrap()).unwrap();
    let document: Value = serde_json::from_str(document).unwrap();
    assert!(validator.is_valid(&document), "{:?}", validator.iter_errors(&document).collect::<Vec<_>>());
    document
}

#[test]
fn a_link_is_started_changed_shown_and_ended() {
    in_namespaces("a_link_is_started_changed_shown_and_ended", || {
        let network = Network::new("whole");
        let running = network.start(&["--delay", "20ms", "--up", "delay 40ms", "--json-stream", "--every", "100ms"]);
        // Of the first one, the hosts look for each other.
        network.round_trip();
        assert!(network.round_trip() >= Duration::from_millis(60));
        let set = network.call(&["set", "--down", "delay 80ms rate 10mbit"]);
        assert_eq!((set.status.code(), stderr(&set)), (Some(0), String::new()));
        assert_eq!(String::from_utf8_lossy(&set.stdout), "up: delay 40ms\ndown: rate 10mbit delay 80ms\n");
        // The packet thread does what it is asked in order: with this answer, the change is made.
        network.show();
        assert!(network.round_trip() >= Duration::from_millis(120));
        let text = network.show();
        assert!(
            text.contains("one > two: delay 40ms\n") && text.contains("two > one: rate 10mbit delay 80ms"),
            "{text}"
        );
        assert!(text.contains("udp 10.79.0.1:"), "{text}");
        let document = check(&String::from_utf8(network.call(&["show", "--json"]).stdout).unwrap());
        assert!(document["up"]["delivered"]["packets"].as_u64().unwrap() >= 3);
        assert!(document["up"]["sojourn"]["p50_seconds"].as_f64().unwrap() >= 0.039);
        network.call(&["set", "--loss", "100%"]);
        network.show();
        assert_eq!(network.round_trip_within(Duration::from_secs(1)), None);
        let (status, printed, said) = running.interrupted();
        assert_eq!((status, said.as_str()), (Some(0), ""));
        let documents: Vec<_> = printed.lines().map(check).collect();
        let (last, intervals) = documents.split_last().unwrap();
        assert!(last["covers"] == "total" && intervals.iter().all(|document| document["covers"] == "interval"));
        let packets = |document: &Value| document["up"]["offered"]["packets"].as_u64().unwrap();
        assert!(intervals.len() >= 2 && intervals.iter().map(packets).sum::<u64>() <= packets(last));
        assert!(last["up"]["dropped"]["loss"]["packets"].as_u64().unwrap() >= 1);
        assert_eq!(fs::read_dir(network.runtime.join("kumade")).unwrap().count(), 0, "nothing is left");
    });
}

#[test]
fn a_link_is_listed_and_stopped() {
    in_namespaces("a_link_is_listed_and_stopped", || {
        let network = Network::new("listed");
        assert!(network.call(&["list"]).stdout.is_empty());
        let running = network.start(&["--delay", "20ms", "--down", "rate 10mbit"]);
        let listed = String::from_utf8(network.call(&["list"]).stdout).unwrap();
        assert_eq!(listed, "link  one two  up: delay 20ms; down: rate 10mbit delay 20ms\n");
        let stopped = network.call(&["stop"]);
        assert_eq!((stopped.status.code(), stderr(&stopped)), (Some(0), String::new()));
        assert!(network.call(&["list"]).stdout.is_empty());
        assert_eq!(running.end().0, Some(0));
        assert!(stderr(&network.call(&["stop"])).contains("no link called `link` runs here"));
    });
}

#[test]
fn links_of_a_file_share_a_process_and_end_each_by_itself() {
    in_namespaces("links_of_a_file_share_a_process_and_end_each_by_itself", || {
        let network = Network::new("several");
        let file = network.runtime.join("links.toml");
        let first = "[[link]]\nname = 'main'\ninterfaces = ['one', 'two']\nsettings = 'delay 20ms up delay 40ms'\n";
        let second = "[[link]]\ntun = ['tun-a', 'tun-b']\nschedule = 'steps'\n";
        fs::write(&file, [first, second].concat()).unwrap();
        fs::write(network.runtime.join("steps"), "0s rate 5mbit\n").unwrap();
        let start = ["start", "--config", file.to_str().unwrap(), "--name", "lab", "--json", "--prometheus", "0"];
        let refused = network.call(&[&start[..], &["--rate", "1mbit"]].concat());
        assert!(refused.status.code() == Some(2) && stderr(&refused).contains("stand in its section"), "{refused:?}");

        let running = Running::new(&mut network.command(&start));
        let list = || String::from_utf8(network.call(&["list"]).stdout).unwrap();
        let both = "lab-2  tun-a tun-b  rate 5mbit\nmain  one two  up: delay 40ms; down: delay 20ms\n";
        assert!(eventually(|| list() == both), "{}", list());
        network.round_trip();
        assert!(network.round_trip() >= Duration::from_millis(60));
        assert_eq!(network.call(&["set", "--name", "lab-2", "--loss", "1%"]).status.code(), Some(0));
        assert_eq!(network.call(&["stop", "--name", "main"]).status.code(), Some(0));
        assert_eq!(list(), "lab-2  tun-a tun-b  rate 5mbit loss 1%\n");
        assert_eq!(network.call(&["stop", "--name", "lab-2"]).status.code(), Some(0));

        let (status, printed, said) = running.end();
        assert!(status == Some(0) && said.contains("the link main has ended; the others go on"), "{said}");
        let names: Vec<_> = printed.lines().map(|line| check(line)["name"].as_str().unwrap().to_owned()).collect();
        assert_eq!(names, ["main", "lab-2"]);
    });
}

#[test]
fn a_link_of_a_file_whose_interface_vanishes_leaves_the_others_running_and_is_told_at_the_end() {
    const TEST: &str = "a_link_of_a_file_whose_interface_vanishes_leaves_the_others_running_and_is_told_at_the_end";
    in_namespaces(TEST, || {
        let network = Network::new("vanishing");
        let file = network.runtime.join("links.toml");
        let links = "[[link]]\ninterfaces = ['one', 'two']\n[[link]]\nname = 'other'\ntun = ['a', 'b']\n";
        fs::write(&file, links).unwrap();
        // Nobody reads the lines before the end: there are few.
        let start = ["start", "--config", file.to_str().unwrap(), "--every", "1s"];
        let running = Running::new(&mut network.command(&start));
        ip(&network.right, &["link", "del", "host"]);
        let list = || String::from_utf8(network.call(&["list"]).stdout).unwrap();
        assert!(eventually(|| list() == "other  a b  no impairments\n"), "{}", list());
        let begun = Instant::now();
        assert!(eventually(|| begun.elapsed() > Duration::from_millis(1100)));
        let (status, printed, said) = running.interrupted();
        assert_eq!(status, Some(1), "{said}");
        assert!(said.contains("link-1: the link has ended: its interface two has vanished"), "{said}");
        assert!(printed.lines().any(|line| line.starts_with("other  up: delivered ")), "{printed}");
        assert!(printed.contains("link-1:\none > two: ") && printed.contains("other:\na > b: "), "{printed}");
    });
}

#[test]
fn a_link_runs_with_what_it_needs_alone() {
    in_namespaces("a_link_runs_with_what_it_needs_alone", || {
        let network = Network::new("confined");
        let running = network.start(&["--prometheus", "0"]);
        assert_eq!(privileges::of(running.child.id()), privileges::confined());
        network.round_trip();
        let (status, _, said) = running.interrupted();
        assert_eq!((status, said.as_str()), (Some(0), ""));
        let keeping = network.start(&["--keep-privileges"]);
        assert!(privileges::are_kept(keeping.child.id()));
        assert_eq!(keeping.interrupted().0, Some(0));
    });
}

/// Finding 6 of the review by a new user: `--every` had no effect in a pipe while standard error was a terminal.
#[test]
fn a_pipe_gets_a_line_for_each_interval() {
    in_namespaces("a_pipe_gets_a_line_for_each_interval", || {
        let network = Network::new("lines");
        let running = network.start(&["--every", "100ms"]);
        let mut shown = network.command(&["show", "--live"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(shown.stdout.take().unwrap()).lines();
        for _ in 0..2 {
            let line = lines.next().unwrap().unwrap();
            assert!(line.starts_with("up: delivered ") && line.contains("; down: delivered "), "{line}");
        }
        kill(Pid::from_raw(shown.id() as i32), Signal::SIGINT).unwrap();
        assert_eq!(shown.wait().unwrap().code(), Some(0));
        let (status, printed, _) = running.interrupted();
        assert_eq!(status, Some(0));
        assert!(printed.lines().filter(|line| line.starts_with("up: delivered ")).count() >= 2, "{printed}");
        assert!(printed.contains("one > two: "), "{printed}");
    });
}

/// Seen by `script`, which gives a command a terminal of its own.
#[test]
fn a_terminal_shows_intervals_until_ctrl_c_and_is_left_as_it_was() {
    in_namespaces("a_terminal_shows_intervals_until_ctrl_c_and_is_left_as_it_was", || {
        let network = Network::new("terminal");
        let program = assert_cmd::cargo::cargo_bin("kumade");
        let on_a_terminal = |words: &str| {
            let mut command = network.middle.command("script");
            let line = format!("stty rows 40 columns 120; {} link {words}", program.display());
            command.args(["--quiet", "--return", "--command", &line, "/dev/null"]).env("TERM", "xterm");
            command.env("XDG_RUNTIME_DIR", &network.runtime).stdin(Stdio::piped()).stdout(Stdio::piped());
            command.spawn().unwrap()
        };
        let mut link = on_a_terminal("start one two --every 100ms");
        // What is blank is passed over, not written.
        read_until(&mut link, "lateness");
        let mut shown = on_a_terminal("show --live");
        read_until(&mut shown, "ends");
        for (child, key, left) in [(&mut shown, b"q", ""), (&mut link, b"\x03", "one > two: ")] {
            child.stdin.as_mut().unwrap().write_all(key).unwrap();
            let rest = read_until(child, "");
            // The other screen is left before the totals are printed.
            let (_, after) = rest.rsplit_once("\x1b[?1049l").expect("the screen is left");
            assert!(after.contains(left), "{rest:?}");
            assert_eq!(child.wait().unwrap().code(), Some(0));
        }
    });
}

/// Reads from a child's standard output until there is this text, or to its end where that is empty.
fn read_until(child: &mut Child, text: &str) -> String {
    let output = child.stdout.as_mut().unwrap();
    let (mut seen, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let count = output.read(&mut buffer).unwrap();
        seen.extend_from_slice(&buffer[..count]);
        let found = String::from_utf8_lossy(&seen);
        if count == 0 || (!text.is_empty() && found.contains(text)) {
            assert!(found.contains(text), "{found:?}");
            return found.into_owned();
        }
    }
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_touched() {
    let kumade = |words: &[&str]| assert_cmd::Command::cargo_bin("kumade").unwrap().arg("link").args(words).assert();
    for (words, reason) in [
        (&["start", "a"][..], "Usage"),
        (&["start", "a", "b", "--rate", "0"], "lets nothing pass"),
        (&["start", "a", "b", "--loss", "150%"], "more than the whole"),
        (&["start", "a", "b", "--rate", "1gbit", "--delay", "60s"], "more than the limit of bytes in flight"),
        (&["start", "a", "b", "--delay", "-5ms"], "cannot set delay"),
        (&["start", "a", "b", "--up", "speed 5"], "there is no setting `speed`"),
        (&["start", "a", "b", "--target", "5ms"], "the queue discipline tail-drop has no parameter"),
        (&["start", "a", "b", "--every", "0s"], "must be at least 10ms"),
        (&["start", "a", "b", "--json", "--json-stream"], "cannot be used with"),
        (&["start", "a", "b", "--prometheus", "here"], "write it like 9272 or [::1]:9272"),
        (&["start", "a", "a"], "to itself"),
        (&["start", "a", "b", "--name", "a/b"], "cannot be a name"),
        (&["start", "a", "b", "--rate", "5mbit", "--wireless", "3-9"], "cannot be used with"),
        (&["start", "a", "b", "--burst", "9kb"], "a burst needs a rate"),
        (&["set"], "no setting given"),
        (&["set", "--up", "rate"], "`rate` needs a value"),
        (&["frobnicate"], "unrecognized subcommand"),
    ] {
        let assert = kumade(words).code(2);
        let said = stderr(assert.get_output());
        assert!(said.contains(reason), "{words:?}: {said}");
    }
    let said = stderr(kumade(&["start", "a", "b", "--schedule", "/no/such/file"]).code(1).get_output());
    assert!(said.contains("cannot read the schedule /no/such/file"), "{said}");
    let said = stderr(kumade(&["start", "a", "b", "--schedule", "/dev/zero"]).code(1).get_output());
    assert!(said.contains("it is longer than 64mb"), "{said}");
    let hostile = std::env::temp_dir().join(format!("kumade-hostile-{}", std::process::id()));
    fs::write(&hostile, "1s ra\u{1b}[2Jte 5mbit\n").unwrap();
    let said = stderr(kumade(&["start", "a", "b", "--schedule", hostile.to_str().unwrap()]).get_output());
    assert!(said.contains("te") && !said.contains('\u{1b}'), "{said}");
    fs::remove_file(hostile).unwrap();
    let said = stderr(kumade(&["set", "--name", "nobody", "--rate", "5mbit"]).code(1).get_output());
    assert!(said.contains("no link called `nobody` runs here"), "{said}");
}

#[test]
fn a_name_is_for_one_link_and_refusals_change_nothing() {
    in_namespaces("a_name_is_for_one_link_and_refusals_change_nothing", || {
        let network = Network::new("names");
        let running = network.start(&["--rate", "5mbit", "--json"]);
        let second = network.call(&["start", "one", "two"]);
        assert_eq!(second.status.code(), Some(1));
        let taken = format!("a link called `link` runs already (process {})", running.child.id());
        assert!(stderr(&second).contains(&taken), "{}", stderr(&second));
        let refused = network.call(&["set", "--rate", "1mbit", "--min", "5kb"]);
        assert_eq!(refused.status.code(), Some(2));
        assert!(stderr(&refused).contains("the queue discipline tail-drop has no parameter"), "{}", stderr(&refused));
        let refused = network.call(&["set", "--rate", "1mbit", "--seed", "7"]);
        assert_eq!(refused.status.code(), Some(2));
        assert!(stderr(&refused).contains("when the link starts"), "{}", stderr(&refused));
        assert!(network.show().contains("one > two: rate 5mbit\n"));
        let (status, printed, _) = running.interrupted();
        assert_eq!((status, &check(&printed)["covers"]), (Some(0), &"total".into()));
    });
}

#[test]
fn a_killed_link_hinders_no_other() {
    in_namespaces("a_killed_link_hinders_no_other", || {
        let network = Network::new("killed");
        let killed = network.start(&["--json"]);
        killed.signal(Signal::SIGKILL);
        assert_eq!(killed.end().0, None);
        assert_eq!(network.call(&["show"]).status.code(), Some(1));
        let running = network.start(&["--json"]);
        network.round_trip();
        assert_eq!(running.interrupted().0, Some(0));
    });
}

/// Whether an interface merges packets as they arrive.
fn merges(inside: &Namespace, name: &str) -> bool {
    let offloads = inside.run(|| OffloadControl::open(name).unwrap().read().unwrap()).unwrap();
    offloads.entries().any(|entry| entry == ("gro", 1))
}

#[test]
fn an_interface_has_one_link_and_is_restored_whatever_the_runtime_directory_is() {
    in_namespaces("an_interface_has_one_link_and_is_restored_whatever_the_runtime_directory_is", || {
        let network = Network::new("elsewhere");
        let elsewhere = network.runtime.join("other");
        fs::create_dir(&elsewhere).unwrap();
        let there = |words: &[&str]| {
            let mut command = network.command(words);
            command.env("XDG_RUNTIME_DIR", &elsewhere);
            command
        };
        let merging = Offloads::from_entries([("gro", 1)]);
        network.middle.run(|| OffloadControl::open("one").unwrap().set(merging).unwrap()).unwrap();
        assert!(merges(&network.middle, "one"));
        let running = network.start(&["--json"]);
        assert!(!merges(&network.middle, "one"));
        let second = there(&["start", "one", "two"]).output().unwrap();
        let taken = format!("the link of process {} has it", running.child.id());
        assert!(second.status.code() == Some(1) && stderr(&second).contains(&taken), "{}", stderr(&second));
        running.signal(Signal::SIGKILL);
        running.end();
        assert!(!merges(&network.middle, "one"), "nobody could restore it");
        let next = Running::new(&mut there(&["start", "one", "two", "--json"]));
        assert_eq!(next.interrupted().0, Some(0));
        assert!(merges(&network.middle, "one"));
    });
}

#[test]
fn a_schedule_is_followed_and_its_faults_are_named() {
    in_namespaces("a_schedule_is_followed_and_its_faults_are_named", || {
        let network = Network::new("schedule");
        let file = network.runtime.join("schedule");
        let path = file.to_str().unwrap();
        fs::write(&file, "100ms rate 5mbit # soon\n200ms up rate 1mbit\n").unwrap();
        let running = network.start(&["--schedule", path, "--json"]);
        assert!(eventually(|| network.show().contains("one > two: rate 1mbit\n")), "{}", network.show());
        assert!(network.show().contains("two > one: rate 5mbit\n"));
        assert_eq!(running.interrupted().0, Some(0));
        fs::write(&file, "1s rate 5mbit\n2s loss 150%\n").unwrap();
        let refused = network.call(&["start", "one", "two", "--schedule", path]);
        assert_eq!(refused.status.code(), Some(2));
        assert!(stderr(&refused).contains("line 2: cannot set loss"), "{}", stderr(&refused));
    });
}

#[test]
fn metrics_are_offered_where_asked() {
    in_namespaces("metrics_are_offered_where_asked", || {
        let network = Network::new("metrics");
        let running = network.start(&["--prometheus", "9272", "--json"]);
        network.round_trip();
        let mut metrics = String::new();
        let mut stream = network.middle.run(|| TcpStream::connect("127.0.0.1:9272").unwrap()).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        stream.read_to_string(&mut metrics).unwrap();
        assert!(metrics.contains("kumade_link_delivered_packets_total{link=\"link\",direction=\"up\""), "{metrics}");
        assert_eq!(running.interrupted().0, Some(0));
    });
}

#[test]
fn two_tun_devices_are_made_and_gone_with_the_link() {
    in_namespaces("two_tun_devices_are_made_and_gone_with_the_link", || {
        let network = Network::new("tun");
        let running = Running::new(&mut network.command(&["start", "--tun", "near", "far", "--json"]));
        let exist = || ["near", "far"].map(|name| network.middle.run(|| interface::exists(name)).unwrap());
        assert_eq!(exist(), [true, true]);
        assert_eq!(running.interrupted().0, Some(0));
        assert_eq!(exist(), [false, false]);
        let named_by_the_kernel = network.call(&["start", "--tun", "tun%d", "far"]);
        assert!(stderr(&named_by_the_kernel).contains("without `/`, `:`, `%`"), "{}", stderr(&named_by_the_kernel));
    });
}

#[test]
fn a_link_ends_with_its_terminal_unless_told_otherwise() {
    in_namespaces("a_link_ends_with_its_terminal_unless_told_otherwise", || {
        let network = Network::new("hangup");
        // Whatever these tests were themselves started to do with the signal.
        let start = |signal: &str| {
            let mut command = network.middle.command("env");
            command
                .arg(signal)
                .arg(assert_cmd::cargo::cargo_bin("kumade"))
                .args(["link", "start", "one", "two", "--json"]);
            Running::new(command.env("XDG_RUNTIME_DIR", &network.runtime))
        };
        let running = start("--default-signal=HUP");
        running.signal(Signal::SIGHUP);
        assert_eq!(running.end().0, Some(0));
        let running = start("--ignore-signal=HUP");
        running.signal(Signal::SIGHUP);
        network.round_trip();
        assert_eq!(running.interrupted().0, Some(0));
    });
}

#[test]
fn an_interface_that_vanishes_ends_the_link_with_the_reason() {
    in_namespaces("an_interface_that_vanishes_ends_the_link_with_the_reason", || {
        let network = Network::new("vanish");
        let running = network.start(&["--json"]);
        ip(&network.right, &["link", "del", "host"]);
        let (status, printed, said) = running.end();
        assert_eq!((status, &check(&printed)["covers"]), (Some(1), &"total".into()));
        assert!(said.contains("kumade: the link has ended: its interface two has vanished"), "{said}");
        let missing = network.call(&["start", "one", "two"]);
        assert_eq!(missing.status.code(), Some(1));
        assert!(stderr(&missing).contains("two"), "{}", stderr(&missing));
    });
}
