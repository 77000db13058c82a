//! A coordinator and agents, each a program on a host of its own.
#![allow(dead_code, reason = "each test program uses its own part")]

use kumade_net::namespace::Namespace;
use kumade_netns_testbed::run_ip;
use kumade_noise_session::PrivateKey;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::SystemTime;

/// Hosts on one switch: host `n` has the address 10.80.0.`n`.
pub struct Mesh {
    _switch: Namespace,
    pub hosts: Vec<Namespace>,
    pub directory: PathBuf,
}

pub const COORDINATOR: usize = 1;
/// Three agents, and one whose key the coordinator does not know.
pub const AGENTS: [(usize, &str); 3] = [(2, "berlin"), (3, "paris"), (4, "rome")];
pub const STRANGER: usize = 5;

pub fn identity(number: usize) -> PrivateKey {
    PrivateKey::from_bytes([number as u8; 32])
}

impl Mesh {
    pub fn new(test: &str) -> Self {
        let switch = Namespace::new().unwrap();
        run_ip(&switch, &["link", "add", "bridge", "type", "bridge"]).unwrap();
        run_ip(&switch, &["link", "set", "bridge", "up"]).unwrap();
        let directory = std::env::temp_dir().join(format!("kumade-{test}-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let host = |number: usize| {
            let host = Namespace::new().unwrap();
            let port = format!("port{number}");
            let arguments = ["link", "add", &port, "type", "veth", "peer", "name", "host", "netns", &host.path()];
            run_ip(&switch, &arguments).unwrap();
            run_ip(&switch, &["link", "set", &port, "master", "bridge", "up"]).unwrap();
            run_ip(&host, &["addr", "add", &format!("10.80.0.{number}/24"), "dev", "host"]).unwrap();
            run_ip(&host, &["link", "set", "host", "up"]).unwrap();
            run_ip(&host, &["link", "set", "lo", "up"]).unwrap();
            host
        };
        let hosts = (COORDINATOR..=STRANGER).map(host).collect();
        let mesh = Mesh { _switch: switch, hosts, directory };
        for number in COORDINATOR..=STRANGER {
            mesh.write(&format!("{number}.key"), &identity(number).to_hex());
            let (archive, key) = (mesh.directory.join(format!("archive{number}")), mesh.file(&format!("{number}.key")));
            let coordinator = identity(COORDINATOR).public_key();
            let text = format!(
                "[monitor]\nrole = \"agent\"\nkey = {key:?}\narchive = {archive:?}\nstamp-port = 8620\n[coordinator]\naddress = \"10.80.0.{COORDINATOR}\"\npublic-key = \"{coordinator}\"\n"
            );
            mesh.write(&format!("{number}.toml"), &text);
        }
        let agents = AGENTS.map(|(number, id)| agent(number, id, &format!("address = \"10.80.0.{number}\"\n")));
        mesh.write_coordinator(&agents.concat());
        mesh
    }

    /// The coordinator's file, with these agents.
    pub fn write_coordinator(&self, agents: &str) {
        let (key, archive) = (self.file("1.key"), self.directory.join("archive1"));
        let text = format!(
            "[monitor]\nrole = \"coordinator\"\nkey = {key:?}\narchive = {archive:?}\n[mesh]\ninterval = \"100ms\"\nmeasure = \"70s\"\n"
        );
        self.write("1.toml", &(text + agents));
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Keys are for their user's eyes alone.
    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.file(name), text).unwrap();
        fs::set_permissions(self.file(name), fs::Permissions::from_mode(0o600)).unwrap();
    }

    pub fn kumade(&self, host: usize, arguments: &[&str]) -> Command {
        let mut command = self.hosts[host - 1].command(assert_cmd::cargo::cargo_bin("kumade"));
        let runtime = self.directory.join(format!("run{host}"));
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
        let log = File::options().create(true).append(true).open(self.file(&format!("{host}.log"))).unwrap();
        let file = self.file(file);
        self.kumade(host, &["monitor", "--config", file.to_str().unwrap()]).stderr(log).spawn().unwrap()
    }

    pub fn log(&self, host: usize) -> String {
        fs::read_to_string(self.file(&format!("{host}.log"))).unwrap_or_default()
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
            let mut stream = self.hosts[host - 1].run(|| TcpStream::connect("127.0.0.1:7280")).unwrap().ok()?;
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

    /// Files of what an agent has not delivered.
    pub fn spooled(&self, host: usize) -> usize {
        fs::read_dir(self.file(&format!("archive{host}/spool"))).map_or(0, Iterator::count)
    }

    pub fn runs(&self) -> Vec<Value> {
        let file = self.file("1.toml");
        let arguments = ["monitor", "export", file.to_str().unwrap(), "--json"];
        let output = self.kumade(COORDINATOR, &arguments).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Drop for Mesh {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// A section of the coordinator's file.
pub fn agent(number: usize, id: &str, more: &str) -> String {
    let key = identity(number).public_key();
    format!("[[agent]]\nid = \"{id}\"\npublic-key = \"{key}\"\nstamp-port = 8620\n{more}")
}

pub fn now_seconds() -> f64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64()
}

pub fn end_with(child: &mut Child, signal: Signal) {
    kill(Pid::from_raw(child.id() as i32), signal).unwrap();
    let status = child.wait().unwrap();
    assert!(signal == Signal::SIGKILL || status.success(), "{status}");
}
