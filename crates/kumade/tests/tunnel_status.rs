//! `kumade tunnel status` and metrics, as people and Prometheus see them.

use crate::tunnel_ends;

use kumade_netns_testbed::{eventually, in_namespaces};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Output;
use tunnel_ends::{Keys, end_with, hosts, lines, program, wait_for};

fn status(keys: &Keys, arguments: &[&str]) -> Output {
    let directory = keys.file(1).parent().unwrap().to_owned();
    program().args(["tunnel", "status"]).args(arguments).env("XDG_RUNTIME_DIR", directory).output().unwrap()
}

fn document(keys: &Keys, name: &str) -> Value {
    serde_json::from_slice(&status(keys, &[name, "--json"]).stdout).unwrap_or_default()
}

/// The other end is killed, while the keys are valid for minutes.
#[test]
fn a_peer_that_is_gone_is_not_connected() {
    in_namespaces("a_peer_that_is_gone_is_not_connected", || {
        let (hosts, keys) = (hosts(), Keys::new("a_peer_that_is_gone_is_not_connected"));
        let mut far = keys.end(&hosts, 2, &["--address", "10.77.0.2/24", "--name", "far"]).spawn().unwrap();
        wait_for(&lines(&mut far), "Ctrl-C");
        let events = keys.file(1).with_file_name("events");
        let command = format!("echo $KUMADE_EVENT $KUMADE_PEER >> {}", events.display());
        let mut near = keys.end(&hosts, 1, &["--address", "10.77.0.1/24", "--on-event", &command]).spawn().unwrap();
        let said = lines(&mut near);
        assert!(wait_for(&said, ": connected").contains(" INFO "));
        let peer = keys.public(2)[..8].to_owned();
        let has_event = |kind: &str| {
            eventually(|| std::fs::read_to_string(&events).is_ok_and(|run| run.contains(&format!("{kind} {peer}\n"))))
        };
        assert!(has_event("peer-connected"));
        end_with(&mut far, Signal::SIGKILL);
        assert!(wait_for(&said, ": not connected").contains(" WARN "));
        let mut tunnel = Value::Null;
        let is_told = || {
            tunnel = document(&keys, "kumade0")["peers"][0]["packets"]["tunnel"].clone();
            // The status may still be of the time before it was connected.
            tunnel["connected"] == false && tunnel["losses"].as_u64() >= Some(1)
        };
        assert!(eventually(is_told) && has_event("peer-lost"));
        assert!(tunnel["last_heard_seconds"].is_number(), "{tunnel}");
        let mut far = keys.end(&hosts, 2, &["--address", "10.77.0.2/24", "--name", "far"]).spawn().unwrap();
        wait_for(&lines(&mut far), "Ctrl-C");
        wait_for(&said, ": connected");
        // The process that runs the command ends with the one that carries packets, also where that is killed.
        let is_helper = |entry: &std::fs::DirEntry| {
            let line = std::fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
            line.contains("run-on-events") && line.contains(&command)
        };
        let helpers = || std::fs::read_dir("/proc").unwrap().flatten().filter(is_helper).count();
        // A command that begins has the line of its helper until it is executed.
        assert!(eventually(|| helpers() == 1));
        end_with(&mut near, Signal::SIGKILL);
        assert!(eventually(|| helpers() == 0));
        [&mut far].into_iter().for_each(|child| assert!(end_with(child, Signal::SIGTERM)));
    });
}

#[test]
fn both_ends_tell_what_they_do() {
    in_namespaces("both_ends_tell_what_they_do", || {
        let (hosts, keys) = (hosts(), Keys::new("both_ends_tell_what_they_do"));
        let nobody = String::from_utf8(status(&keys, &[]).stderr).unwrap();
        assert!(nobody.contains("no tunnel called") && nobody.contains("kumade tunnel listen"), "{nobody}");

        let address = |number| ["--address", ["10.77.0.1/24", "10.77.0.2/24"][number], "--carrier", "tcp"];
        let mut far = keys.end(&hosts, 2, &[&address(1)[..], &["--name", "far"]].concat()).spawn().unwrap();
        let named = wait_for(&lines(&mut far), "Ctrl-C");
        assert!(named.starts_with("far: kumade0: waiting at"), "{named}");
        let mut near = keys.end(&hosts, 1, &[&address(0)[..], &["--prometheus", "9272"]].concat()).spawn().unwrap();
        wait_for(&lines(&mut near), ": connected");

        for (name, end) in [("far", "listens"), ("kumade0", "connects")] {
            let mut shown = Value::Null;
            let is_up = || {
                shown = document(&keys, name);
                shown["peers"][0]["packets"]["paths_up"] == 1 && shown["interval_seconds"].is_number()
            };
            assert!(eventually(is_up), "{name}");
            let schema = include_str!("../../../schemas/kumade.tunnel.1.json");
            let validator = jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap();
            assert!(validator.is_valid(&shown), "{shown}");
            let packets = &shown["peers"][0]["packets"];
            assert_eq!((&shown["end"], &packets["carrier"]), (&end.into(), &"tcp".into()));
            assert_eq!(packets["tunnel"]["connected"], true);
            assert!(packets["address"].as_str().unwrap().starts_with("10.79.0."), "{shown}");
            let text = String::from_utf8(status(&keys, &[name]).stdout).unwrap();
            assert!(text.contains("1 TCP connection "), "{text}");
        }
        let none = String::from_utf8(status(&keys, &["none"]).stderr).unwrap();
        assert!(["running: ", "far", "kumade0", "status NAME"].iter().all(|part| none.contains(part)), "{none}");
        // One of them was shown, whichever was called kumade0.
        let several = status(&keys, &[]);
        let choice = String::from_utf8(several.stderr).unwrap();
        assert!(choice.contains("more than one tunnel runs here: far, kumade0; choose one with"), "{choice}");
        assert!(several.stdout.is_empty());
        // A second tunnel needs a device of its own.
        let second = keys.end(&hosts, 1, &["--address", "10.78.0.1/24"]).output().unwrap();
        let refused = String::from_utf8(second.stderr).unwrap();
        assert!(refused.contains("make the TUN device kumade0") && refused.contains("--device"), "{refused}");
        // A name that was asked for is not changed.
        let taken = keys.end(&hosts, 1, &["--forward", "1001:127.0.0.1:9", "--name", "far"]).output().unwrap();
        assert!(String::from_utf8(taken.stderr).unwrap().contains("a tunnel called `far` runs already"));

        let mut metrics = hosts.left.run(|| TcpStream::connect("127.0.0.1:9272").unwrap()).unwrap();
        metrics.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut text = String::new();
        metrics.read_to_string(&mut text).unwrap();
        // Whole keys are not for every user of the host.
        let (key, peer) = (keys.public(2), &keys.public(2)[..8]);
        assert!(!text.contains(&key), "{text}");
        assert!(text.contains(&format!("kumade_tunnel_connected{{tunnel=\"kumade0\",peer=\"{peer}\"}} 1.0")), "{text}");
        [&mut near, &mut far].into_iter().for_each(|child| assert!(end_with(child, Signal::SIGTERM)));
    });
}
