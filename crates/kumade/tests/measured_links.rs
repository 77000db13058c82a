//! `kumade measure` over emulated links whose queues are known.

use crate::tunnel_ends;

use kumade_daemon::PrivateDirectory;
use kumade_net::namespace::Namespace;
use kumade_netns_testbed::{VethHosts, in_namespaces};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::process::{Child, Stdio};
use tunnel_ends::{end_with, lines, program, wait_for};

/// Ended when dropped.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // Both end of themselves then, and put back what they changed.
        end_with(&mut self.0, Signal::SIGTERM);
    }
}

fn program_in(host: &Namespace, runtime: &PrivateDirectory, arguments: &[&str]) -> Ended {
    let mut command = host.command(program().get_program());
    command.env("XDG_RUNTIME_DIR", runtime.path());
    Ended(command.args(arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap())
}

/// The report of a measurement with these options over a link with these settings.
fn measured(settings: &[&str], options: &[&str]) -> Value {
    let hosts = VethHosts::new(1500).unwrap();
    let [one, two] = VethHosts::MIDDLE_INTERFACES;
    // Tests have links of the same name at the same time.
    let runtime = PrivateDirectory::new("kumade-measured-links").unwrap();
    let mut link = program_in(&hosts.middle, &runtime, &[&["link", "start", one, two], settings].concat());
    wait_for(&lines(&mut link.0), "bridged");
    let mut server = program_in(&hosts.right, &runtime, &["serve"]);
    wait_for(&lines(&mut server.0), "listening on");
    let arguments = [&["measure", "10.79.0.2", "--json"], options].concat();
    let output = hosts.left.command(program().get_program()).args(arguments).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Milliseconds that a filled path added, at least and at most.
fn added(document: &Value, direction: &str) -> [f64; 2] {
    let load = &document[direction]["load"];
    assert!(load["goodput_bits_per_second"].as_u64().is_some_and(|goodput| goodput < 20_000_000), "{document}");
    let added = &load["added_delay_seconds"];
    ["low", "high"].map(|end| added[end].as_f64().unwrap_or_else(|| panic!("{document}")) * 1e3)
}

/// Filling the path, after the shortest measurement there is.
const LOAD: [&str; 5] = ["--load", "4s", "--method", "linear-scan", "--no-capacity"];

/// Reports in which a path was filled up, and down, which is done one after the other. On a busy machine the ends cannot fill it each
/// time, and say so.
fn filled(settings: &[&str]) -> [(&'static str, Value); 2] {
    let mut found = [None, None];
    for _ in 0..8 {
        let document = measured(settings, &LOAD);
        for (direction, found) in ["up", "down"].into_iter().zip(&mut found) {
            let reason = &document[direction]["load"]["reason"];
            println!("{direction}: {reason}");
            if found.is_none() && reason.is_null() {
                *found = Some((direction, document.clone()));
            }
        }
        if let [Some(_), Some(_)] = &found {
            break;
        }
    }
    found.map(|report| report.expect("it is filled at last"))
}

/// Bufferbloat is what this shows first: a queue of 300 ms, and the same link with queues for each flow.
#[test]
fn a_long_queue_has_a_bad_grade_and_fair_queueing_a_good_one() {
    in_namespaces("a_long_queue_has_a_bad_grade_and_fair_queueing_a_good_one", || {
        for (direction, bloated) in filled(&["--rate", "20mbit", "--delay", "5ms", "--limit", "750kb"]) {
            let [low, high] = added(&bloated, direction);
            // CUBIC lets the queue shrink to 70 % each time that it overflows.
            assert!(low > 60.0 && high < 800.0, "{bloated}");
            assert!(["C", "D", "F"].contains(&bloated[direction]["load"]["best_grade"].as_str().unwrap()), "{bloated}");
        }
        for (direction, fair) in filled(&["--rate", "20mbit", "--delay", "5ms", "--queue", "fq-codel"]) {
            let [low, _] = added(&fair, direction);
            assert!(low < 60.0, "{fair}");
        }
    });
}

/// The kernel's TCP sends again what a short queue drops. That came behind packets of the other connections, which seemed to overtake it, as
/// where flows have queues of their own.
#[test]
fn retransmissions_over_many_connections_do_not_look_like_queues_of_their_own() {
    in_namespaces("retransmissions_over_many_connections_do_not_look_like_queues_of_their_own", || {
        let link = ["--rate", "8mbit", "--delay", "5ms", "--limit", "30kb"];
        let document = measured(&link, &["--transport", "rake", "--direction", "up"]);
        let reason = document["up"]["reason"].as_str().unwrap_or_default();
        assert!(document["up"]["transport"] == "rake" && !reason.contains("overtake"), "{document}");
    });
}
