//! `kumade measure --check`, as systems that run plugins use it.

use crate::server;

use assert_cmd::Command;
use kumade_netns_testbed::TEST_DEADLINE;
use server::Serving;

/// The exit status, and the line.
fn check(arguments: &[&str]) -> (i32, String) {
    let mut command = Command::cargo_bin("kumade").unwrap();
    let output = command.arg("measure").args(arguments).timeout(TEST_DEADLINE).output().unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
}

const WORDS: [&str; 4] = ["OK", "WARNING", "CRITICAL", "UNKNOWN"];

/// One line, whose word is that of the exit status.
fn assert_plugin_output((status, text): &(i32, String)) {
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.starts_with(&format!("KUMADE {}: ", WORDS[*status as usize])), "{status}: {text}");
    assert!(text.matches('|').count() <= 1, "{text}");
}

#[test]
fn a_reflector_is_judged_by_its_loss_and_delay() {
    let server = Serving::with_reflector();
    let target = server.reflector.clone().unwrap();
    // No loss is above 100 %, and no round trip takes an hour, or no time.
    for (checks, status) in [
        (&["--check", "loss=100%,100%", "--check", "round-trip=1h,2h"][..], 0),
        (&["--check", "loss=,100%", "--check", "round-trip=~:0,1h"], 1),
        (&["--check", "loss", "--check", "round-trip=,~:0"], 2),
        (&["--check", "available"], 3),
    ] {
        let found = check(&[&["--stamp", &target], checks].concat());
        assert_plugin_output(&found);
        assert_eq!(found.0, status, "{}", found.1);
    }
    let (_, line) = check(&["--stamp", &target, "--check", "round-trip=50ms,0.2s"]);
    let (_, data) = line.split_once('|').unwrap();
    let value = data.split_whitespace().find_map(|item| item.strip_prefix("'round_trip'=")).unwrap();
    let (value, rest) = value.split_once("s;").unwrap();
    assert!(value.parse::<f64>().is_ok() && rest == "0.05;0.2;0;", "{line}");
}

#[test]
fn available_bandwidth_is_judged_or_not_known() {
    let server = Serving::start(&[]);
    let scan = ["--direction", "up", "--no-capacity", "--method", "linear-scan"];
    // No path is as fast; on a busy machine nothing may be known.
    let found = check(&[&[&server.address, "--check", "available=,9000000gbit:"], &scan[..]].concat());
    assert_plugin_output(&found);
    assert!(matches!(found.0, 2 | 3), "{}", found.1);
    assert!(found.1.contains("'available_up'="), "{}", found.1);
}

#[test]
fn what_cannot_be_measured_is_unknown() {
    for arguments in [
        &["127.0.0.1:1", "--check", "available=20mbit:"][..],
        &["127.0.0.1:1", "--check", "loss", "--key", "/nonexistent"],
        &["127.0.0.1:1", "--check", "loss-down", "--direction", "up"],
        &["127.0.0.1:1", "--check", "loss", "--budget-bytes", "1"],
    ] {
        let found = check(arguments);
        assert_plugin_output(&found);
        assert_eq!(found.0, 3, "{}", found.1);
    }
    for invalid in [&["127.0.0.1:1", "--check", "jitter"][..], &["127.0.0.1:1", "--check=loss", "--json"]] {
        assert_eq!(check(invalid).0, 3, "{invalid:?}");
    }
    assert_eq!(check(&["--help", "--check", "loss"]).0, 0);
}
