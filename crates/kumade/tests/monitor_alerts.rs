//! Alerts of `kumade monitor` from end to end: a target that goes away, who is told, how often, over a restart.

use kumade_net::namespace::Namespace;
use kumade_netns_testbed::{VethHosts, eventually, in_namespaces, run_ip};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

const FAR_AND_NEAR: &str = r#"
[[target]]
host = "10.79.0.2"
name = "far"
interval = "100ms"
late-after = "300ms"
lost-after = "500ms"
[[target]]
host = "127.0.0.1"
name = "near"
interval = "100ms"
"#;
/// By both IP versions.
const FAR: &str = r#"
[[target]]
host = "10.79.0.2"
name = "far"
interval = "100ms"
late-after = "300ms"
lost-after = "500ms"
[[target]]
host = "fd79::2"
name = "far 6"
interval = "100ms"
late-after = "300ms"
lost-after = "500ms"
"#;

/// A busy machine may not let the monitor run for some of these short intervals.
const STALLS: &str = "[[alert]]\non = \"no-data\"\nenabled = false\n";

struct Site {
    hosts: VethHosts,
    directory: PathBuf,
}

impl Site {
    fn new(test: &str) -> Self {
        let hosts = VethHosts::new(1500).unwrap();
        run_ip(&hosts.middle, &["link", "add", "bridge", "type", "bridge"]).unwrap();
        for port in VethHosts::MIDDLE_INTERFACES {
            run_ip(&hosts.middle, &["link", "set", port, "master", "bridge"]).unwrap();
        }
        run_ip(&hosts.middle, &["link", "set", "bridge", "up"]).unwrap();
        run_ip(&hosts.left, &["link", "set", "lo", "up"]).unwrap();
        let directory = std::env::temp_dir().join(format!("kumade-{test}-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        Site { hosts, directory }
    }

    /// One target here and one there, a command that appends each message to a file, and what else there is.
    fn write_config(&self, more: &str) {
        self.write_targets(FAR_AND_NEAR, more);
    }

    fn write_targets(&self, targets: &str, more: &str) {
        let (archive, told) = (self.directory.join("archive"), self.told_file());
        fs::create_dir_all(&archive).unwrap();
        let script = format!("cat >> {} && echo >> {}", told.display(), told.display());
        let text = format!(
            "[monitor]\nname = \"here\"\narchive = {archive:?}\nprometheus = \"9274\"\n\
             {targets}\n{STALLS}[[notify]]\nname = \"file\"\ncommand = [\"/bin/sh\", \"-c\", {script:?}]\n{more}"
        );
        fs::write(self.config_file(), text).unwrap();
    }

    fn config_file(&self) -> PathBuf {
        self.directory.join("monitor.toml")
    }

    /// Where the monitor itself may not write.
    fn told_file(&self) -> PathBuf {
        self.directory.join("told")
    }

    fn kumade(&self, inside: &Namespace, arguments: &[&str]) -> Command {
        let mut command = inside.command(assert_cmd::cargo::cargo_bin("kumade"));
        command.args(arguments).env("XDG_RUNTIME_DIR", &self.directory).stderr(Stdio::null());
        command
    }

    fn monitor(&self) -> Child {
        let file = self.config_file();
        self.kumade(&self.hosts.left, &["monitor", "--config", file.to_str().unwrap()]).spawn().unwrap()
    }

    fn fetch(&self, port: u16, path: &str) -> Option<String> {
        let mut stream = self.hosts.left.run(|| TcpStream::connect(("127.0.0.1", port))).unwrap().ok()?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned())
    }

    fn status(&self) -> Value {
        self.fetch(7280, "/api/v1/status").and_then(|body| serde_json::from_str(&body).ok()).unwrap_or_default()
    }

    fn standing(&self) -> usize {
        self.status()["alerts"]["standing"].as_array().map_or(usize::MAX, Vec::len)
    }

    fn word(&self, id: &str) -> String {
        let status = self.status();
        let pairs = status["pairs"].as_array().cloned().unwrap_or_default();
        let pair = pairs.into_iter().find(|pair| pair["id"] == id).unwrap_or_default();
        pair["state"]["word"].as_str().unwrap_or_default().to_owned()
    }

    /// What the command was told.
    fn told(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.told_file()).unwrap_or_default();
        // The command writes the end of a line by itself.
        let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        whole.map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn set_far(&self, state: &str) {
        run_ip(&self.hosts.middle, &["link", "set", VethHosts::MIDDLE_INTERFACES[1], state]).unwrap();
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn end_with(child: &mut Child, signal: Signal) {
    kill(Pid::from_raw(child.id() as i32), signal).unwrap();
    let status = child.wait().unwrap();
    assert!(signal == Signal::SIGKILL || status.success(), "{status}");
}

/// What an alert is about, and what happened to it.
fn essence(messages: &[Value]) -> Vec<(String, String)> {
    let word = |message: &Value, key: &str| message[key].as_str().unwrap_or_default().to_owned();
    messages.iter().map(|message| (word(message, "condition"), word(message, "state"))).collect()
}

fn strings(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(one, other)| ((*one).to_owned(), (*other).to_owned())).collect()
}

/// A web server that answers this status as often as said, and takes all that comes later.
#[derive(Clone, Default)]
struct Hook {
    /// Bodies of requests, and whether they were taken.
    requests: Arc<Mutex<Vec<(bool, Value)>>>,
}

impl Hook {
    fn serve(&self, listener: TcpListener, refusals: usize) {
        let requests = self.requests.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let Some(body) = read_request(&stream) else { continue };
                let mut requests = requests.lock().unwrap();
                let is_taken = requests.len() >= refusals;
                requests.push((is_taken, body));
                let status = if is_taken { "204 No Content" } else { "503 Service Unavailable" };
                let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
                let _ = (&stream).write_all(answer.as_bytes());
            }
        });
    }

    fn taken(&self) -> Vec<Value> {
        let requests = self.requests.lock().unwrap();
        requests.iter().filter(|(is_taken, _)| *is_taken).map(|(_, body)| body.clone()).collect()
    }

    fn refused(&self) -> usize {
        self.requests.lock().unwrap().iter().filter(|(is_taken, _)| !is_taken).count()
    }
}

fn read_request(stream: &TcpStream) -> Option<Value> {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        if let Some(text) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = text.trim().parse().ok()?;
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    serde_json::from_slice(&body).ok()
}

#[test]
fn a_target_that_goes_away_is_one_alert_and_one_resolution_over_a_restart() {
    in_namespaces("a_target_that_goes_away_is_one_alert_and_one_resolution_over_a_restart", || {
        let site = Site::new("monitor_alerts");
        let hook = Hook::default();
        let listener = site.hosts.left.run(|| TcpListener::bind(("127.0.0.1", 8099))).unwrap().unwrap();
        hook.serve(listener, 2);
        site.write_config("[[notify]]\nname = \"hook\"\nwebhook = \"http://127.0.0.1:8099/alerts\"\n");
        let mut monitor = site.monitor();
        assert!(eventually(|| site.word("far") == "up" && site.word("near") == "up"));
        assert_eq!((site.standing(), site.told()), (0, vec![]));

        site.set_far("down");
        assert!(eventually(|| !site.told().is_empty()), "{}", site.status());
        let raised = site.told();
        assert_eq!(essence(&raised), strings(&[("down", "raised")]));
        assert_eq!(raised[0]["schema"], "kumade.alert/1");
        assert_eq!((&raised[0]["pairs"], &raised[0]["monitor"]), (&serde_json::json!(["far"]), &"here".into()));
        assert_eq!(raised[0]["cause"], serde_json::json!({"kind": "path", "name": "far"}));
        // The receiver that refuses is tried again, and takes the same message once.
        assert!(eventually(|| hook.taken().len() == 1), "{}", site.status());
        assert_eq!((hook.refused(), &hook.taken()), (2, &raised));

        // What is seen of it.
        assert!(eventually(|| site.standing() == 1));
        let shown = site.kumade(&site.hosts.left, &["monitor", "show"]).output().unwrap();
        let shown = String::from_utf8(shown.stdout).unwrap();
        assert!(shown.contains("alert for") && shown.contains("far: no probe is answered"), "{shown}");
        let contains = |port, path, part: &str| {
            let mut found = None;
            let is_there = eventually(|| {
                found = site.fetch(port, path);
                found.as_ref().is_some_and(|text| text.contains(part))
            });
            assert!(is_there, "{part}: {found:?}");
        };
        contains(9274, "/metrics", "kumade_monitor_alerts{} 1");
        contains(7280, "/api/v1/events", "\"alert\"");

        // It still stands after an end in order, and after a kill: nobody is told again.
        for signal in [Signal::SIGTERM, Signal::SIGKILL] {
            end_with(&mut monitor, signal);
            monitor = site.monitor();
            assert!(eventually(|| site.word("far") == "down" && site.standing() == 1), "{}", site.status());
        }
        assert_eq!((site.told(), hook.taken()), (raised.clone(), raised.clone()));

        // It ends while the monitor does not run.
        end_with(&mut monitor, Signal::SIGTERM);
        site.set_far("up");
        let mut monitor = site.monitor();
        assert!(eventually(|| site.standing() == 0 && site.told().len() == 2 && hook.taken().len() == 2));
        assert_eq!(essence(&site.told()), strings(&[("down", "raised"), ("down", "resolved")]));
        assert_eq!((&site.told()[1]["alert"], hook.taken()), (&raised[0]["alert"], site.told()));
        end_with(&mut monitor, Signal::SIGTERM);
        assert_eq!(site.told().len(), 2);
    });
}

#[test]
fn nobody_is_told_of_a_silent_alert_and_a_receiver_can_be_tried() {
    in_namespaces("nobody_is_told_of_a_silent_alert_and_a_receiver_can_be_tried", || {
        let site = Site::new("monitor_silent");
        let silence = "[[silence]]\ntargets = [\"far\"]\nfrom = \"2020-01-01\"\nto = \"2120-01-01\"\n";
        site.write_config(&format!("{silence}[[notify]]\ncommand = [\"/nowhere/none\"]\n"));
        let file = site.config_file();
        let check = |more: &[&str]| {
            let arguments = [&["monitor", "check", file.to_str().unwrap()], more].concat();
            let output = site.kumade(&site.hosts.left, &arguments).output().unwrap();
            (output.status.code(), String::from_utf8(output.stdout).unwrap())
        };
        let (status, text) = check(&[]);
        assert!(status == Some(0) && text.contains("alerts go to file, /nowhere/none"), "{text}");
        assert!(text.contains("alert down: 6 probes in a row without an answer, of all targets"), "{text}");
        assert_eq!(site.told(), Vec::<Value>::new(), "a check tells nobody");
        let (status, text) = check(&["--notify"]);
        assert_eq!(status, Some(1), "one of them cannot be told: {text}");
        assert!(text.contains("file: has taken a test alert") && text.contains("cannot run /nowhere/none"), "{text}");
        assert_eq!(essence(&site.told()), strings(&[("test", "test")]));

        let mut monitor = site.monitor();
        assert!(eventually(|| site.word("far") == "up" && site.word("near") == "up"));
        site.set_far("down");
        assert!(eventually(|| site.standing() == 1));
        assert_eq!(site.status()["alerts"]["standing"][0]["is_silent"], true);
        site.set_far("up");
        assert!(eventually(|| site.standing() == 0));
        end_with(&mut monitor, Signal::SIGTERM);
        assert_eq!(site.told().len(), 1);
    });
}

/// Here, those by IPv4 are lost, and those by IPv6 cannot be sent.
#[test]
fn an_uplink_that_fails_is_one_alert_on_all_paths() {
    in_namespaces("an_uplink_that_fails_is_one_alert_on_all_paths", || {
        let site = Site::new("monitor_uplink");
        site.write_targets(FAR, "");
        let mut monitor = site.monitor();
        assert!(eventually(|| site.word("far") == "up" && site.word("far 6") == "up"));
        let uplink = VethHosts::MIDDLE_INTERFACES[0];
        run_ip(&site.hosts.middle, &["link", "set", uplink, "down"]).unwrap();
        assert!(eventually(|| !site.told().is_empty()), "{}", site.status());
        let raised = site.told();
        assert_eq!(raised[0]["cause"], serde_json::json!({"kind": "host", "name": "here"}), "{raised:?}");
        assert_eq!(raised[0]["pairs"], serde_json::json!(["far", "far 6"]));
        run_ip(&site.hosts.middle, &["link", "set", uplink, "up"]).unwrap();
        assert!(eventually(|| site.told().len() == 2 && site.standing() == 0), "{:?}", site.told());
        assert_eq!(site.told()[1]["state"], "resolved");
        end_with(&mut monitor, Signal::SIGTERM);
        assert_eq!(site.told().len(), 2);
    });
}
