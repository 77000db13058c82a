//! Two programs that measure at one host wait for each other, or are told who measures.

use kumade_net::HostClaim;
use kumade_net::namespace::Namespace;
use kumade_netns_testbed::{VethHosts, eventually, in_namespaces, run_ip};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};

const SERVER: &str = "10.79.0.2";

/// A client (left), and a server (right) that is killed when this is dropped.
struct Site {
    hosts: VethHosts,
    server: Child,
}

impl Site {
    fn new() -> Self {
        let hosts = VethHosts::new(1500).unwrap();
        run_ip(&hosts.middle, &["link", "add", "bridge", "type", "bridge"]).unwrap();
        for port in VethHosts::MIDDLE_INTERFACES {
            run_ip(&hosts.middle, &["link", "set", port, "master", "bridge"]).unwrap();
        }
        run_ip(&hosts.middle, &["link", "set", "bridge", "up"]).unwrap();
        let mut server = kumade(&hosts.right, &["serve"]).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(server.stderr.take().unwrap()).lines().map_while(Result::ok);
        assert!(lines.any(|line| line.starts_with("listening on ")), "it ended");
        // It must not be stopped by a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Site { hosts, server }
    }

    /// One short train up.
    fn measure(&self, options: &[&str]) -> Command {
        let words = ["measure", SERVER, "--direction", "up", "--no-capacity", "--method", "linear-scan"];
        kumade(&self.hosts.left, &[&words, options].concat())
    }

    fn measured(&self, options: &[&str]) -> Output {
        self.measure(options).output().unwrap()
    }

    fn holder(&self) -> Option<String> {
        self.hosts.left.run(|| HostClaim::current_holder().unwrap().map(|holder| holder.to_string())).unwrap()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn kumade(inside: &Namespace, words: &[&str]) -> Command {
    let mut command = inside.command(assert_cmd::cargo::cargo_bin("kumade"));
    command.args(words).stdout(Stdio::null());
    command
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn who_measures_by_hand_waits_for_others_or_is_told_who_measures() {
    in_namespaces("who_measures_by_hand_waits_for_others_or_is_told_who_measures", || {
        let site = Site::new();
        let own = format!("(process {})", std::process::id());
        let claim = site.hosts.left.run(HostClaim::try_new).unwrap().unwrap();
        let refused = site.measure(&["--wait", "300ms"]).output().unwrap();
        assert_eq!(refused.status.code(), Some(1));
        let said = stderr(&refused);
        assert!(said.contains("waiting for `") && said.matches(&own).count() == 2, "{said}");
        assert!(said.contains("or wait longer with --wait"), "{said}");

        // Another host's measurements, and those over the loopback interface, have nothing to do with it.
        let elsewhere = kumade(&site.hosts.right, &["measure", "127.0.0.1", "--wait", "300ms", "--deadline", "30s"]);
        let on_loopback = kumade(&site.hosts.left, &["measure", "127.0.0.1", "--wait", "300ms"]);
        for mut other in [elsewhere, on_loopback] {
            let said = stderr(&other.output().unwrap());
            assert!(!said.contains("waiting for") && !said.contains("beside"), "{said}");
        }

        let mut waiting = site.measure(&["--json-stream"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(waiting.stdout.take().unwrap()).lines();
        let mut next = || lines.next().map(|line| serde_json::from_str::<serde_json::Value>(&line.unwrap()).unwrap());
        let told = next().unwrap();
        assert_eq!(told["event"], "host-in-use");
        assert!(told["holder"].as_str().unwrap().contains(&own), "{told}");
        drop(claim);
        assert_eq!(next().unwrap()["event"], "connected");
        assert!(std::iter::from_fn(next).any(|line| line["event"] == "report"));
        waiting.wait().unwrap();
        assert_eq!(site.holder(), None);
    });
}

#[test]
fn the_claim_of_a_killed_program_is_free() {
    in_namespaces("the_claim_of_a_killed_program_is_free", || {
        let site = Site::new();
        site.measured(&[]);
        // It does not end by itself meanwhile.
        let mut long = site.measure(&["--load", "25s"]).stderr(Stdio::null()).spawn().unwrap();
        assert!(eventually(|| site.holder().is_some()));
        let said = stderr(&site.measured(&["--wait", "10ms"]));
        let expected = format!("beside `kumade measure {SERVER}` (process {})", long.id());
        assert!(said.contains(&expected), "{said}");
        long.kill().unwrap();
        long.wait().unwrap();
        assert_eq!(site.holder(), None);
        let said = stderr(&site.measured(&[]));
        assert!(!said.contains("measures at this host"), "{said}");
    });
}
