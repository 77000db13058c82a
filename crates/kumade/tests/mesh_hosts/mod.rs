//! A coordinator and agents, each a program on a host of its own.

#[path = "../../../monitor/tests/kills/switch.rs"]
mod switch;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::ops::Deref;
use std::process::{Child, Command};
use std::time::SystemTime;
use switch::Switch;
#[allow(unused_imports, reason = "each test program uses its own part")]
pub use switch::{agent_section as agent, identity};

/// The hosts of a coordinator, agents, and a stranger.
pub struct Mesh {
    switch: Switch,
}

pub const COORDINATOR: usize = 1;
/// Three agents, and one whose key the coordinator does not know.
pub const AGENTS: [(usize, &str); 3] = [(2, "berlin"), (3, "paris"), (4, "rome")];
pub const STRANGER: usize = 5;

impl Mesh {
    pub fn new(test: &str) -> Self {
        let mesh = Mesh { switch: Switch::new(test, STRANGER) };
        (COORDINATOR..=STRANGER).for_each(|number| mesh.write_agent(number, &[COORDINATOR]));
        let agents = AGENTS.map(|(number, id)| agent(number, id, &format!("address = \"10.80.0.{number}\"\n")));
        mesh.write_coordinator(&agents.concat());
        mesh
    }

    /// The coordinator's file, with these agents.
    pub fn write_coordinator(&self, agents: &str) {
        let (key, archive) = (self.file("1.key"), self.file("archive1"));
        let text = format!(
            "[monitor]\nrole = \"coordinator\"\nkey = {key:?}\narchive = {archive:?}\n[mesh]\ninterval = \"100ms\"\nmeasure = \"70s\"\n"
        );
        self.write("1.toml", &(text + agents));
    }

    pub fn kumade(&self, host: usize, arguments: &[&str]) -> Command {
        let mut command = self.host(host).command(assert_cmd::cargo::cargo_bin("kumade"));
        let runtime = self.file(&format!("run{host}"));
        fs::create_dir_all(&runtime).unwrap();
        command.args(arguments).env("XDG_RUNTIME_DIR", runtime);
        command
    }

    /// The program of a host; what it says is at the end of its log.
    pub fn start(&self, host: usize) -> Child {
        self.start_with(host, &format!("{host}.toml"))
    }

    /// The same with another file.
    pub fn start_with(&self, host: usize, file: &str) -> Child {
        let log = self.open_log(host);
        let file = self.file(file);
        self.kumade(host, &["monitor", "--config", file.to_str().unwrap()]).stderr(log).spawn().unwrap()
    }

    pub fn logs(&self) -> String {
        (COORDINATOR..=STRANGER).map(|host| format!("--- {host}\n{}", self.log(host))).collect()
    }

    pub fn document(&self, path: &str) -> Value {
        self.document_at(COORDINATOR, path)
    }

    /// What the page of a host says.
    pub fn document_at(&self, host: usize, path: &str) -> Value {
        let fetch = || {
            let mut stream = self.host(host).run(|| TcpStream::connect("127.0.0.1:7280")).unwrap().ok()?;
            let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).ok()?;
            let mut text = String::new();
            stream.read_to_string(&mut text).ok()?;
            Some(text.split_once("\r\n\r\n")?.1.to_owned())
        };
        serde_json::from_str(&fetch().unwrap_or_default()).unwrap_or_default()
    }

    pub fn status(&self) -> Value {
        self.document("/api/v1/status")
    }

    pub fn pairs(&self) -> Vec<Value> {
        self.status()["pairs"].as_array().cloned().unwrap_or_default()
    }

    /// Probes of a pair that the archive has of a time, in seconds since 1970.
    pub fn archived(&self, id: &str, from: f64, to: f64) -> u64 {
        let id = id.replace(' ', "%20");
        let series = self.document(&format!("/api/v1/pairs/{id}/series?from={from}&to={to}"));
        let count = |bucket: &Value| bucket["sent"].as_u64().unwrap() + bucket["disturbed"].as_u64().unwrap();
        series["buckets"].as_array().map_or(0, |buckets| buckets.iter().map(count).sum())
    }

    pub fn runs(&self) -> Vec<Value> {
        let file = self.file("1.toml");
        let arguments = ["monitor", "export", file.to_str().unwrap(), "--json"];
        let output = self.kumade(COORDINATOR, &arguments).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Deref for Mesh {
    type Target = Switch;

    fn deref(&self) -> &Switch {
        &self.switch
    }
}

impl Drop for Mesh {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

pub fn now_seconds() -> f64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64()
}

pub fn end_with(child: &mut Child, signal: Signal) {
    kill(Pid::from_raw(child.id() as i32), signal).unwrap();
    let status = child.wait().unwrap();
    assert!(signal == Signal::SIGKILL || status.success(), "{status}");
}
