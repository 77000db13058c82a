//! The program as people and scripts use it: output, exit status, and what happens when things go wrong.

use crate::server;

use assert_cmd::Command;
use kumade_net::namespace::Namespace;
use kumade_netns_testbed::{TEST_DEADLINE, eventually, in_namespaces, run_ip};
use server::{CLOSED, Serving};
use std::fs::{OpenOptions, Permissions};
use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{self, Stdio};
use std::thread;
use std::time::{Duration, Instant};

fn kumade(args: &[&str]) -> assert_cmd::assert::Assert {
    Command::cargo_bin("kumade").unwrap().args(args).timeout(TEST_DEADLINE).assert()
}

fn stderr(assert: &assert_cmd::assert::Assert) -> String {
    String::from_utf8_lossy(&assert.get_output().stderr).into_owned()
}

/// The papers' scan is one train in each direction.
const SCAN: [&str; 2] = ["--method", "linear-scan"];

/// What a measurement by a scan prints. A busy machine may spoil its only train, and the status and what is printed then say so.
fn scan(address: &str, more: &[&str]) -> String {
    let assert = kumade(&[&["measure", address], &SCAN[..], more].concat());
    let output = assert.get_output();
    assert!(matches!(output.status.code(), Some(0 | 1)), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn a_measurement_prints_a_verdict_a_document_or_lines() {
    let server = Serving::start(&[]);
    let run = |more: &[&str]| scan(&server.address, more);
    let verdict = run(&[]);
    let heads: Vec<&str> = verdict.lines().map(|line| line.split("  ").next().unwrap()).collect();
    assert_eq!(heads[..6], ["", "available", "capacity", "shaping", "RTT → loaded", "loss"], "{verdict}");
    // One-way delays are shown where they are known well enough, which depends on how busy the machine is.
    let is_verdict = |line: &&str| line.starts_with("Available: ") || line.starts_with("The available bandwidth");
    assert_eq!(verdict.lines().filter(is_verdict).count(), 1, "{verdict}");
    assert!(!run(&["--no-capacity"]).lines().any(|line| line.starts_with("capacity")));
    assert_eq!(run(&["-v"]).matches("bottleneck capacity").count(), 2);
    let document: serde_json::Value = serde_json::from_str(&run(&["--json", "--direction", "down"])).unwrap();
    assert_eq!((&document["schema"], &document["up"]), (&"kumade.measure/1".into(), &serde_json::Value::Null));
    let text = run(&["--json-stream", "--transport", "rake"]);
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut events: Vec<_> = lines.iter().map(|line| line["event"].as_str().unwrap()).collect();
    // A train that a busy machine spoilt is sent again, and the server may not have noticed yet that the last client has gone.
    events.dedup();
    events.retain(|event| *event != "waiting");
    assert_eq!(events, ["connected", "opened", "capacity", "train", "done", "capacity", "train", "done", "report"]);
    assert!(lines.iter().all(|line| line["schema"] == "kumade.measure-stream/1"));
    assert_eq!(lines.last().unwrap()["report"]["schema"], "kumade.measure/1");
}

/// Finding 2 of the review by a new user: that a path is faster than this host can send was a failure without a value.
#[test]
fn a_bound_is_a_result() {
    let server = Serving::start(&[]);
    for method in ["primed", "linear-scan"] {
        let assert = kumade(&["measure", &server.address, "--json", "--direction", "up", "--method", method]);
        let document: serde_json::Value = serde_json::from_slice(&assert.get_output().stdout).unwrap();
        let up = &document["up"];
        let results = ["at_least_bits_per_second", "at_most_bits_per_second", "available_bits_per_second"];
        let has_result = results.iter().any(|name| !up[name].is_null());
        // A busy machine may spoil the trains, and the reason then says so.
        assert!(has_result || up["reason"].is_string(), "{up}");
        assert_eq!(assert.get_output().status.code(), Some(if has_result { 0 } else { 1 }), "{up}");
        let is_bound = !up["at_least_bits_per_second"].is_null() || !up["at_most_bits_per_second"].is_null();
        assert_eq!(is_bound, up["limited_by"].is_string(), "{up}");
    }
}

/// Finding 5 of the review by a new user: the round-trip time was null where trains are sent.
#[test]
fn a_measurement_with_trains_has_the_round_trip_time() {
    let server = Serving::start(&[]);
    let document: serde_json::Value = serde_json::from_str(&scan(&server.address, &["--json"])).unwrap();
    let delay = &document["delay"];
    for times in ["round_trip", "up_loaded_round_trip", "down_loaded_round_trip"] {
        assert!(delay[times]["median_seconds"]["value"].is_f64(), "{times}: {delay}");
    }
}

#[test]
fn a_server_runs_without_privileges() {
    let server = Serving::start(&[]);
    let fields = |process: u32| {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap();
            line.trim().to_owned()
        };
        (field("CapEff"), field("CapPrm"), field("NoNewPrivs"), field("Seccomp"))
    };
    let none = || format!("{:016x}", 0);
    assert!(eventually(|| fields(server.process()) == (none(), none(), "1".into(), "2".into())));
    assert!(scan(&server.address, &[]).contains("available"));
    let keeping = Serving::start(&["--keep-privileges"]);
    assert!(scan(&keeping.address, &[]).contains("available"));
    let kept = fields(keeping.process());
    assert_eq!((kept.2.as_str(), kept.3.as_str()), ("0", "0"));
}

/// With too little memory, threads can't be started, nor files mapped: that is an error, and nothing to panic for.
#[test]
fn a_program_that_gets_no_memory_says_so() {
    let server = Serving::start(&[]);
    let port = server.address.rsplit_once(':').unwrap().1;
    let (host, mut said) = (format!("localhost:{port}"), String::new());
    let measure = |kilobytes: u32| {
        let script = format!("ulimit -v {kilobytes} && exec \"$0\" \"$@\"");
        let mut command = Command::new("sh");
        command.args(["-c", &script]).arg(assert_cmd::cargo::cargo_bin("kumade"));
        command.args(["measure", &host, "--no-capacity", "--direction", "up"]).args(SCAN);
        // Where memory ends in the middle of a backtrace, the standard library waits for itself.
        command.env("RUST_BACKTRACE", "0");
        command.timeout(TEST_DEADLINE).output().unwrap()
    };
    // From what the program itself takes to what suffices: the steps are a quarter of a thread's stack.
    let starts = (1..).map(|step| step * 8192).find(|&kilobytes| measure(kilobytes).status.code().is_some()).unwrap();
    // A little more than what suffices to say so may be too little again: where a thread starts, and takes the last of it.
    for step in 0..64 {
        let output = measure(starts - 2 * 8192 + step * 512);
        said += &String::from_utf8_lossy(&output.stderr);
        if output.status.success() {
            break;
        }
    }
    // The standard library itself panics in a thread that it has started and that gets no second stack for its signal handler.
    let is_own = |line: &str| line.contains("panicked") && !line.contains("/library/std/src/sys/");
    assert!(!said.lines().any(is_own), "{said}");
    assert!(said.contains("cannot start a thread"), "{said}");
}

/// As where `head` has seen enough.
#[test]
fn a_closed_output_is_no_failure() {
    let server = Serving::start(&[]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut client = process::Command::new(assert_cmd::cargo::cargo_bin("kumade"));
    client.args(["measure", &server.address, "--direction", "up", "--no-capacity"]).args(SCAN).stdout(writer);
    let output = client.stderr(Stdio::piped()).output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
}

/// Finding 4 of the review by a new user: these ended in a panic.
#[test]
fn a_full_or_closed_output_is_no_panic() {
    let measure: &[&str] = &["measure", CLOSED];
    let reports = concat!(env!("CARGO_TARGET_TMPDIR"), "/full-output");
    let lab = &["lab", "run", "rake-accuracy", "--virtual", "--runs", "1", "--cross", "0mbit", "--out", reports][..];
    for arguments in [
        measure,
        lab,
        &["completions", "bash"],
        &["man"],
        &["--help"],
        &["-c", "h"],
        &["lab", "list"],
        &["key", "private"],
    ] {
        for (stdout, stderr) in [(full(), full()), (closed(), closed()), (Stdio::null(), full()), (closed(), full())] {
            let mut command = process::Command::new(assert_cmd::cargo::cargo_bin("kumade"));
            let status = command.args(arguments).stdin(Stdio::null()).stdout(stdout).stderr(stderr).status().unwrap();
            assert!(matches!(status.code(), Some(0..=2)), "{arguments:?}: {status}");
        }
    }
}

fn full() -> Stdio {
    OpenOptions::new().write(true).open("/dev/full").unwrap().into()
}

/// A pipe that nobody reads.
fn closed() -> Stdio {
    std::io::pipe().unwrap().1.into()
}

#[test]
fn a_stamp_reflector_is_served_and_measured() {
    let server = Serving::with_reflector();
    let target = server.reflector.clone().unwrap();
    let port = target.rsplit_once(':').unwrap().1;
    let text = |more: &[&str]| {
        let output = kumade(&[&["measure", "--stamp", &target], more].concat()).success().get_output().clone();
        String::from_utf8(output.stdout).unwrap()
    };
    let verdict = text(&[]);
    let heads: Vec<&str> = verdict.lines().map(|line| line.split("  ").next().unwrap()).collect();
    assert_eq!(heads[1..5], ["minimum", "median", "p99", "loss"], "{verdict}");
    assert!(!verdict.contains("class of service"), "{verdict}");
    let asked = text(&["--dscp", "ef", "--ecn", "ect1"]);
    for way in ["up", "down"] {
        let line = format!("class of service {way}: DSCP 46, ECT(1) → DSCP 46, ECT(1) (");
        assert!(asked.contains(&line) && !asked.contains("seen by the reflector"), "{asked}");
    }
    let all = text(&["--extensions"]);
    for line in
        ["class of service up: DSCP 0, Not-ECT", "seen by the reflector: from 127.0.0.1", "counted by the ends:"]
    {
        assert!(all.contains(line), "{all}");
    }
    let verbose = text(&["--extensions", "-v"]);
    assert_eq!(verbose.matches("seen by the reflector").count(), 1, "{verbose}");
    let document: serde_json::Value = serde_json::from_str(&text(&["--json", "--ecn", "ect0"])).unwrap();
    let arrived = &document["delay"]["extensions"]["class_of_service"]["up"][0]["arrived_ecn"];
    assert_eq!(arrived, "ect0", "{document}");
    assert_eq!((&document["up"], &document["down"]), (&serde_json::Value::Null, &serde_json::Value::Null));
    // On a busy machine answers may come so late that they count as lost.
    let packets = |what: &str| document["delay"]["round_trip_packets"][what].as_u64().unwrap();
    assert_eq!(packets("sent"), packets("arrived") + packets("late") + packets("lost"), "{document}");
    assert!(packets("lost") < packets("sent"), "{document}");
    let taken = kumade(&["serve", "--listen", "127.0.0.1:0", "--stamp", port]).code(1);
    assert!(stderr(&taken).contains("choose another port with --stamp PORT"), "{}", stderr(&taken));
    kumade(&["measure", &target, "--stamp", &target]).code(2);
}

#[test]
fn keys_must_be_the_same_on_both_sides() {
    let directory = std::env::temp_dir().join(format!("kumade-keys-{}", process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let file = |name: &str, contents: String| {
        let path = directory.join(name);
        std::fs::write(&path, contents).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (ours, other) = (file("ours", "5a".repeat(32) + "\n"), file("other", "a5".repeat(32)));
    let no_key = file("no-key", "secret".into());
    let server = Serving::start(&["--key", &ours]);
    let with = |key: &str| kumade(&[&["measure", &server.address, "--key", key], &SCAN[..]].concat());
    assert!(scan(&server.address, &["--key", &ours]).contains("available"));
    assert!(stderr(&with(&other).code(1)).contains("keys of client and server differ"));
    let refused = stderr(&with(&no_key).code(1));
    assert!(refused.contains("64 hexadecimal digits") && refused.contains("`kumade key preshared"), "{refused}");
    assert!(stderr(&with("/no/such/file").code(1)).contains("cannot read the key file /no/such/file"));
    assert!(stderr(&kumade(&["measure", &server.address]).code(1)).contains("requires a key"));
    // A secret that others can read is none; and what an unauthenticated server says is no reason to do without.
    for mode in [0o604, 0o620] {
        std::fs::set_permissions(&other, Permissions::from_mode(mode)).unwrap();
        assert!(
            stderr(&with(&other).code(1)).contains("the key file")
                && stderr(&with(&other).code(1)).contains("run chmod 600")
        );
    }
    std::fs::set_permissions(&ours, Permissions::from_mode(0o440)).unwrap();
    assert!(scan(&server.address, &["--key", &ours]).contains("available"));
    let open = Serving::start(&[]);
    let advice = stderr(&kumade(&["measure", &open.address, "--key", &ours]).code(1));
    assert!(advice.contains("not authenticated") && !advice.contains("omit"), "{advice}");
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn nonsense_is_refused_as_usage() {
    for args in [
        &[][..],
        &["measure"],
        &["measure", "host:99999"],
        &["measure", ""],
        &["measure", "h", "--direction", "sideways"],
        &["measure", "h", "--transport", "pigeon"],
        &["measure", "h", "--connections", "0"],
        &["measure", "h", "--connections", "-5"],
        &["measure", "h", "--budget-bytes", "lots"],
        &["measure", "h", "--budget-bytes", "1"],
        &["measure", "h", "--budget-time", "10"],
        &["measure", "h", "--budget-time", "0s"],
        &["measure", "h", "--method", "dice"],
        &["measure", "h", "--method", "linear-scan:packets=0"],
        &["measure", "h", "--method", "linear-scan", "--budget-time", "1s"],
        &["measure", "h", "--method", "pathload:packets=10"],
        &["measure", "--stamp", "h", "--method", "primed"],
        &["measure", "h", "--dscp", "ef"],
        &["measure", "h", "--ecn", "ect1"],
        &["measure", "h", "--extensions"],
        &["measure", "--stamp", "h", "--dscp", "64"],
        &["measure", "h", "--json", "--json-stream"],
        &["measure", "h", "-4", "-6"],
        &["serve", "--listen", "nowhere"],
        &["serve", "--max-clients", "0"],
        &["serve", "--max-time", "soon"],
        &["completions", "abacus"],
    ] {
        let assert = kumade(args);
        assert_eq!(assert.get_output().status.code(), Some(2), "{args:?}: {}", stderr(&assert));
    }
}

#[test]
fn a_taken_port_fails_at_once() {
    let server = Serving::start(&[]);
    let began = Instant::now();
    let text = stderr(&kumade(&["serve", "--listen", &server.address]).code(1));
    assert!(text.contains(&server.address) && text.contains("another program"), "{text}");
    assert!(began.elapsed() < TEST_DEADLINE);
}

#[test]
fn a_failure_is_one_line_that_says_what_and_what_to_try() {
    let text = stderr(&kumade(&["measure", CLOSED]).code(1));
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.starts_with("kumade: cannot connect to ") && text.contains("check the port"), "{text}");
    let output = kumade(&["measure", CLOSED, "--json-stream"]).code(1).get_output().clone();
    let line: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(line["event"], "error");
}

/// Finding 9 of the review by a new user: there was no more than "Invalid argument".
#[test]
fn a_route_that_discards_packets_is_named() {
    in_namespaces("a_route_that_discards_packets_is_named", || {
        let host = Namespace::new().unwrap();
        for (kind, address) in [("blackhole", "192.0.2.1"), ("prohibit", "198.51.100.1")] {
            run_ip(&host, &["route", "add", kind, address]).unwrap();
            for way in [&["measure"][..], &["measure", "--stamp"]] {
                let mut client = host.command(assert_cmd::cargo::cargo_bin("kumade"));
                let output = client.args(way).arg(address).output().unwrap();
                let text = String::from_utf8_lossy(&output.stderr);
                assert_eq!(output.status.code(), Some(1), "{text}");
                assert!(text.contains(address) && text.contains(&format!("`{kind}`")), "{way:?}: {text}");
            }
        }
    });
}

/// Finding 6 of the review by a new user: nothing was coloured. `script` gives a command a terminal of its own.
#[test]
fn colour_is_for_terminals_and_those_who_ask() {
    let server = Serving::start(&[]);
    let is_coloured = |text: &str| text.contains("\x1b[");
    assert!(!is_coloured(&scan(&server.address, &[])));
    assert!(is_coloured(&scan(&server.address, &["--color", "always"])));
    let program = assert_cmd::cargo::cargo_bin("kumade");
    let measure =
        format!("{} measure {} --no-capacity {} 2>/dev/null", program.display(), server.address, SCAN.join(" "));
    for (options, variables, expected) in [
        ("", &[("NO_COLOR", "")][..], true),
        ("", &[("NO_COLOR", "1")], false),
        ("", &[("TERM", "dumb")], false),
        ("--color never", &[], false),
        ("--color always", &[("NO_COLOR", "1")], true),
    ] {
        let mut command = process::Command::new("script");
        command.args(["--quiet", "--command", &format!("{measure} {options}"), "/dev/null"]).env("TERM", "xterm");
        let output = command.envs(variables.iter().copied()).stdin(Stdio::null()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(is_coloured(&text), expected, "{options} {variables:?}: {text:?}");
    }
}

/// Finding 7 of the review by a new user: standard output was empty, and a script had nothing to read.
#[test]
fn a_failure_is_a_document_too() {
    let file = concat!(env!("CARGO_TARGET_TMPDIR"), "/kumade.prom");
    let output = kumade(&["measure", CLOSED, "--json", "--prometheus", file]).code(1).get_output().clone();
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let schema = include_str!("../../../schemas/kumade.measure.1.json");
    let validator = jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap();
    assert!(validator.is_valid(&document), "{document}");
    let error = &document["error"];
    assert_eq!((&error["kind"], &document["up"]), (&"connect".into(), &serde_json::Value::Null));
    assert!(error["message"].as_str().unwrap().contains(CLOSED), "{document}");
    assert!(error["hint"].as_str().unwrap().contains("kumade serve"), "{document}");
    let metrics = std::fs::read_to_string(file).unwrap();
    assert!(metrics.contains(&format!("kumade_measure_success{{target=\"{CLOSED}\"}} 0")), "{metrics}");
    let output = kumade(&["measure", CLOSED, "--csv"]).code(1).get_output().clone();
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.starts_with("started,target,direction,"), "{table}");
    let mut lines = table.lines().map(|line| line.split(','));
    let [names, values] = [(); 2].map(|()| lines.next().unwrap());
    assert!(names.zip(values).any(|column| column == ("error", "connect")), "{table}");
}

#[test]
fn a_measurement_is_a_table_and_metrics() {
    let server = Serving::start(&[]);
    let file = concat!(env!("CARGO_TARGET_TMPDIR"), "/measured.prom");
    let measure = ["measure", &server.address, "--csv", "--prometheus", file, "--no-capacity"];
    let output = kumade(&[&measure, &SCAN[..]].concat()).get_output().clone();
    let table = String::from_utf8(output.stdout).unwrap();
    let directions: Vec<_> = table.lines().skip(1).map(|line| line.split(',').nth(2).unwrap().to_owned()).collect();
    assert_eq!(directions, ["up", "down"], "{table}");
    let metrics = std::fs::read_to_string(file).unwrap();
    let is_metric = |line: &str| line.starts_with("# ") || line.starts_with("kumade_measure_");
    assert!(metrics.lines().all(is_metric) && metrics.contains("kumade_measure_success{"), "{metrics}");
}

/// The file was tried once all was measured, and the result was gone with it.
#[test]
fn metrics_that_cannot_be_written_are_found_out_before_measuring() {
    let server = Serving::start(&[]);
    let output = kumade(&["measure", &server.address, "--prometheus", "/proc/nowhere/kumade.prom"]).code(1);
    let text = String::from_utf8_lossy(&output.get_output().stderr).into_owned();
    assert!(text.contains("cannot write metrics to /proc/nowhere/kumade.prom"), "{text}");
    assert!(output.get_output().stdout.is_empty() && !text.contains("Available"), "{text}");
}

/// It was advised to choose another source address.
#[test]
fn an_address_of_the_other_ip_version_is_told_as_such() {
    for (option, address) in [("-6", "192.0.2.1"), ("-4", "2001:db8::1")] {
        let output = kumade(&["measure", option, address]).code(1);
        let text = String::from_utf8_lossy(&output.get_output().stderr).into_owned();
        assert!(text.contains("it is an address of the other IP version: omit -4 or -6"), "{text}");
    }
}

/// A server that does not answer was only told of with -v.
#[test]
fn a_clock_server_without_an_answer_is_told_of() {
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let server = Serving::start(&[]);
    let measure = ["measure", &server.address, "--ntp", &address, "--no-capacity"];
    let output = kumade(&[&measure, &SCAN[..]].concat());
    let text = String::from_utf8_lossy(&output.get_output().stdout).into_owned();
    assert!(text.contains("the NTP server 127.0.0.1 could not be used: no answer"), "{text}");
    drop(silent);
}

/// The peer dies, without goodbye, while a train of half a minute is under way.
#[test]
fn a_server_that_is_killed_in_mid_run_is_noticed() {
    let mut server = Serving::start(&[]);
    let mut client = process::Command::new(assert_cmd::cargo::cargo_bin("kumade"))
        .args(["measure", &server.address, "--json-stream", "--transport", "rake"])
        .args(["--method", "linear-scan:interval=280ms:packets=100"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(client.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("\"event\":\"opened\"")));
    // For the train to begin; nothing tells that it has.
    thread::sleep(Duration::from_millis(300));
    server.kill();
    let killed = Instant::now();
    let last = lines.last().unwrap();
    assert!(last.contains("\"event\":\"error\"") && last.contains("lost "), "{last}");
    assert_eq!(client.wait().unwrap().code(), Some(1));
    assert!(killed.elapsed() < Duration::from_secs(25), "before the train ends: {:?}", killed.elapsed());
}

#[test]
fn a_server_ends_cleanly_on_sigterm() {
    let mut server = Serving::start(&[]);
    let idle = TcpStream::connect(&server.address).unwrap();
    assert_eq!(server.terminate().code(), Some(0));
    drop(idle);
    // Connections of other tests may have the port for a while.
    assert!(eventually(|| TcpListener::bind(&server.address).is_ok()));
}

#[test]
fn the_manual_and_the_completions_name_the_commands() {
    let pages = concat!(env!("CARGO_TARGET_TMPDIR"), "/man1");
    kumade(&["man", "--output", pages]).success();
    let page = std::fs::read_to_string(format!("{pages}/kumade-link-start.1")).unwrap();
    assert!(page.contains("Exit status") && page.contains("kumade link start eth1 eth2"), "{page}");
    let bash = String::from_utf8(kumade(&["completions", "bash"]).success().get_output().stdout.clone()).unwrap();
    for name in ["fq-codel", "pathload", "rake-firewall"] {
        assert!(bash.contains(name), "{name}");
    }
    for args in [&["man"][..], &["completions", "bash"]] {
        let output = kumade(args).success().get_output().stdout.clone();
        assert!(String::from_utf8_lossy(&output).contains("measure"));
    }
}

/// What the units may do, as `systemd-analyze security` judges it (0 to 100).
#[test]
fn services_are_confined() {
    const MAX_EXPOSURE: &str = "22";
    let units = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/systemd");
    for unit in std::fs::read_dir(units).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()) {
        let mut analyse = process::Command::new("systemd-analyze");
        analyse.args(["security", "--offline=true", "--no-pager", "--threshold", MAX_EXPOSURE]);
        match analyse.arg(format!("{units}/{unit}")).output() {
            Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout)),
            Err(error) => println!("not tested: systemd-analyze can't be run: {error}"),
        }
    }
}
