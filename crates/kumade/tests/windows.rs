//! The client for Windows, under Wine, against a server of Linux behind a link by the kernel's HTB: a stage of its own in `.ci/run`, which says where
//! the program is (`KUMADE_WINDOWS_PROGRAM`).

use crate::server::Serving;

use kumade_daemon::PrivateDirectory;
use kumade_link::{CrossConfig, CrossKind, SizeMix};
use kumade_middlebox::{FilterRule, MiddleboxConfig, PacketMatch, RefusalKind};
use kumade_net::namespace::Namespace;
use kumade_netns_testbed::{HtbNetwork, Traffic, in_namespaces};
use kumade_packet::protocol;
use kumade_units::{Rate, Time};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const WINE: &str = "/usr/lib/wine/wine64";
const RUN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/wine/run");

/// What takes longer hangs: a measurement takes seconds, and the first one makes Wine's directory before.
const MAX_RUN_SECONDS: &str = "300";

/// From this one on, `timeout` has ended it, or could not run it.
const TIMEOUT_STATUS: i32 = 124;

/// A measurement of a second or two.
const SHORT: [&str; 5] = ["--direction", "up", "--method", "linear-scan", "--no-capacity"];

/// Wine with a directory of its own.
struct Wine {
    program: OsString,
    directory: PrivateDirectory,
}

impl Wine {
    /// None, with a sentence on what is missing, where the test is to be passed over.
    fn find() -> Option<Self> {
        let program = env::var_os("KUMADE_WINDOWS_PROGRAM").filter(|_| Path::new(WINE).exists());
        if program.is_none() {
            println!("passed over: takes wine64, and KUMADE_WINDOWS_PROGRAM to name the program for Windows");
        }
        Some(Wine { program: program?, directory: PrivateDirectory::new("kumade-wine").unwrap() })
    }

    /// The program in this namespace, or in that of the caller.
    fn command(&self, host: Option<&Namespace>, arguments: &[&str]) -> Command {
        let mut command = host.map_or_else(|| Command::new("timeout"), |host| host.command("timeout"));
        command.args(["--kill-after=5", MAX_RUN_SECONDS, RUN]).env("WINEPREFIX", self.directory.path());
        command.arg(&self.program).args(arguments).current_dir(self.directory.path()).stdin(Stdio::null());
        command
    }

    fn run(&self, host: Option<&Namespace>, arguments: &[&str]) -> Output {
        self.command(host, arguments).output().unwrap()
    }

    fn measure(&self, host: &Namespace, arguments: &[&str]) -> Value {
        let output = self.run(Some(host), &[&["measure", "--json"], arguments].concat());
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
    }
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// A value or a refusal with its reason, over this transport, in both directions, by trains that were sent.
fn check_report(report: &Value, transport: &str) {
    assert_eq!(report["schema"], "kumade.measure/1", "{report}");
    for way in ["up", "down"] {
        let direction = &report[way];
        assert_eq!(direction["transport"], transport, "{report}");
        let available = &direction["available_bits_per_second"];
        assert!(available["value"].as_u64().is_some() != direction["reason"].is_string(), "{report}");
        assert!(direction["packets_sent"].as_u64() > Some(20) && direction["trains"].as_u64() > Some(0), "{report}");
        // Whatever else runs, more than the link carries is wrong.
        assert!(available["low"].as_f64().is_none_or(|low| low < 21e6), "{report}");
    }
}

/// UDP, and many connections where a firewall passes only TCP.
#[test]
#[ignore = "takes wine64 and minutes: KUMADE_TEST_WINDOWS=1 .ci/run"]
fn it_measures_from_windows_with_and_without_udp() {
    in_namespaces("it_measures_from_windows_with_and_without_udp", || {
        let Some(wine) = Wine::find() else { return };
        let mut network = match HtbNetwork::build(Rate::from_mbit(20), 250_000) {
            Ok(network) => network,
            Err(error) => return println!("passed over: {error}"),
        };
        let mut serve = network.host("b").unwrap().namespace.command(assert_cmd::cargo::cargo_bin("kumade"));
        let mut server = serve.arg("serve").stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(server.stderr.take().unwrap()).lines().map_while(Result::ok);
        assert!(lines.any(|line| line.contains("listening on")));
        std::thread::spawn(move || lines.for_each(drop));
        let kind = CrossKind::Poisson { rate: Rate::from_mbit(8), sizes: SizeMix::fixed(1500) };
        let pattern = CrossConfig { kind, start: Time::ZERO, phase: 0.0, seed: 1 };
        let traffic = Traffic::udp(network.host("c").unwrap(), network.host("d").unwrap(), &pattern).unwrap();
        let address = network.host("b").unwrap().v4.to_string();
        check_report(&wine.measure(&network.host("a").unwrap().namespace, &[&address]), "udp");
        let matching = PacketMatch { protocol: Some(protocol::UDP), destination_port: None };
        let rules = vec![FilterRule::Refuse { matching, refusal: RefusalKind::Drop }];
        network.set_middlebox(Some(MiddleboxConfig { rules, ..Default::default() })).unwrap();
        let host = &network.host("a").unwrap().namespace;
        let filled = wine.measure(host, &[&address, "--load", "2s"]);
        check_report(&filled, "rake");
        for way in ["up", "down"] {
            let load = &filled[way]["load"];
            assert!(load["goodput_bits_per_second"].as_u64().is_some() || load["reason"].is_string(), "{filled}");
        }
        drop(traffic);
        server.kill().unwrap();
        server.wait().unwrap();
    });
}

/// Each output once, on loopback, where client and server have a key.
#[test]
#[ignore = "takes wine64 and minutes: KUMADE_TEST_WINDOWS=1 .ci/run"]
fn it_prints_from_windows_what_it_prints_from_linux() {
    let Some(wine) = Wine::find() else { return };
    let here = PrivateDirectory::new("kumade-wine-key").unwrap();
    let [key, other] = ["key", "other"].map(|name| here.path().join(name).to_str().unwrap().to_owned());
    for path in [&key, &other] {
        let made = wine.run(None, &["key", "preshared", "--output", path]);
        assert!(made.status.success(), "{made:?}");
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    }
    let serving = Serving::start(&["--key", &key, "--stamp", "0"]);
    let short = [&SHORT[..], &["--key", &key]].concat();
    let csv = wine.run(None, &[&["measure", &serving.address, "--csv"], &short[..]].concat());
    assert!(text(&csv).contains("available_bits_per_second"), "{csv:?}");
    let people = wine.run(None, &[&["measure", &serving.address, "--color", "always"], &short[..]].concat());
    assert!(text(&people).contains("\u{1b}["), "{people:?}");
    let reflector = serving.reflector.clone().unwrap();
    let metrics = here.path().join("metrics.prom");
    let written = ["--json-stream", "--prometheus", metrics.to_str().unwrap()];
    let stream = wine.run(None, &[&["measure", &serving.address], &written[..], &short[..]].concat());
    let lines: Vec<Value> = text(&stream).lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    assert!(lines.len() > 2, "{stream:?}");
    assert!(fs::read_to_string(&metrics).unwrap().contains("kumade_"), "{stream:?}");
    let check = ["--check", "available=,9000000gbit:"];
    let checked = wine.run(None, &[&["measure", &serving.address], &check[..], &short[..]].concat());
    assert!(matches!(checked.status.code(), Some(2 | 3)) && text(&checked).contains("'available_up'="), "{checked:?}");
    let refused = wine.run(None, &["measure", &serving.address, "--key", &other]);
    assert!(!refused.status.success() && text(&refused).contains(&serving.address), "{refused:?}");
    let stamp = wine.run(None, &["measure", "--stamp", &reflector, "--json", "--key", &key]);
    let stamp: Value = serde_json::from_slice(&stamp.stdout).unwrap();
    assert!(stamp["delay"]["round_trip"].is_object(), "{stamp}");
    let closed = wine.run(None, &["measure", crate::server::CLOSED]);
    assert!(!closed.status.success() && text(&closed).contains("127.0.0.1:1"), "{closed:?}");
    let absent = wine.run(None, &["serve", "--listen", "127.0.0.1:0"]);
    assert!(absent.status.code() == Some(2) && text(&absent).contains("`kumade serve` takes Linux"), "{absent:?}");
    let token = wine.run(None, &["key", "token", "someone"]);
    assert!(token.status.code() == Some(2) && text(&token).contains("`kumade key token` takes Linux"), "{token:?}");
    let marked = wine.run(None, &["measure", "--stamp", &reflector, "--dscp", "ef"]);
    assert!(!marked.status.success() && text(&marked).contains("no program mark packets"), "{marked:?}");
}

/// A line for each measurement, as it ends, until Ctrl-C; the host and the server are free for the next one then.
#[test]
#[ignore = "takes wine64 and minutes: KUMADE_TEST_WINDOWS=1 .ci/run"]
fn it_watches_from_windows_until_ctrl_c() {
    let Some(wine) = Wine::find() else { return };
    let serving = Serving::start(&[]);
    let measure = [&["measure", &serving.address, "--csv"], &SHORT[..]].concat();
    let mut watching = wine.command(None, &[&measure[..], &["--watch", "1s"]].concat());
    let mut watching = watching.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(watching.stdout.take().unwrap()).lines().map_while(Result::ok);
    let rows: Vec<String> = lines.take(3).collect();
    assert!(rows.len() == 3 && rows[0].starts_with("started,"), "{rows:?}");
    assert!(rows[1..].iter().all(|row| row.contains(&serving.address)) && rows[1] != rows[2], "{rows:?}");
    // Wine makes Ctrl-C of this signal.
    let program = find_process_below(watching.id(), "kumade.exe").unwrap();
    kill(Pid::from_raw(program as i32), Signal::SIGINT).unwrap();
    let status = watching.wait().unwrap();
    assert!(status.code().is_some_and(|code| code < TIMEOUT_STATUS), "{status}");
    let next = wine.run(None, &measure);
    assert!(next.status.success() && text(&next).lines().count() >= 2, "{next:?}");
}

/// By the name that it has now.
fn find_process_below(parent: u32, name: &str) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).ok()?;
    children.split_whitespace().filter_map(|child| child.parse().ok()).find_map(|child| {
        let is_called = fs::read_to_string(format!("/proc/{child}/comm")).is_ok_and(|called| called.trim() == name);
        if is_called { Some(child) } else { find_process_below(child, name) }
    })
}

#[test]
#[ignore = "takes wine64 and minutes: KUMADE_TEST_WINDOWS=1 .ci/run"]
fn virtual_time_is_the_same_on_windows_to_the_last_digit() {
    let Some(wine) = Wine::find() else { return };
    let run = ["lab", "run", "fair-mix", "--virtual", "--runs", "1", "--row", "1", "--json"];
    let here = PrivateDirectory::new("kumade-virtual").unwrap();
    let linux =
        Command::new(assert_cmd::cargo::cargo_bin("kumade")).args(run).current_dir(here.path()).output().unwrap();
    assert!(linux.status.success(), "{linux:?}");
    assert_eq!(String::from_utf8_lossy(&wine.run(None, &run).stdout), String::from_utf8_lossy(&linux.stdout));
}
