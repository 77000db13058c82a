//! A program that is compared, and a process of it.

use crate::Outcome;
use crate::delays::Delays;
use crate::usage::{Usage, usage_of};
use kumade_net::namespace::Namespace;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// What a program is like.
pub trait Program {
    fn name(&self) -> &'static str;

    /// None where it is not installed.
    fn version(&self) -> Option<String>;

    /// Writes its configuration into a directory; returns what starts it in the foreground.
    fn command(&self, host: &Namespace, directory: &Path, targets: &[String]) -> Outcome<Command>;

    /// Round trips as it tells them.
    fn delays(&self, running: &Running) -> Outcome<Delays>;

    /// What it has on the disk after a year; none where it keeps nothing.
    fn disk_bytes(&self, running: &Running) -> Outcome<Option<u64>>;
}

/// Ends with all its children when it is dropped.
pub struct Running {
    host: Namespace,
    pub directory: PathBuf,
    process: Child,
}

const FETCH_TIMEOUT: Duration = Duration::from_secs(10);

impl Running {
    pub fn start(
        host: Namespace,
        directory: PathBuf,
        command: impl FnOnce(&Namespace) -> Outcome<Command>,
    ) -> Outcome<Self> {
        let log = File::create(directory.join("log"))?;
        let mut command = command(&host)?;
        let process = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()?;
        Ok(Running { host, directory, process })
    }

    /// Since its start.
    pub fn usage(&self) -> Outcome<Usage> {
        let read = || fs::read_to_string("/proc/thread-self/net/snmp");
        let echoes = echo_requests(&self.host.run(read)??).ok_or("the kernel does not count echo requests")?;
        let usage = usage_of(self.process.id(), echoes);
        usage.map_err(|error| {
            let log = fs::read_to_string(self.directory.join("log")).unwrap_or_default();
            format!("{error}; it said: {log}").into()
        })
    }

    /// What it exports at a port.
    pub fn fetch_metrics(&self, port: u16) -> Outcome<String> {
        let fetch = || {
            let mut stream = TcpStream::connect(("127.0.0.1", port))?;
            stream.set_read_timeout(Some(FETCH_TIMEOUT))?;
            stream.write_all(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).map(|_| answer)
        };
        Ok(self.host.run(fetch)??)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
        self.host.kill_processes();
    }
}

/// Echo requests that a host has received, by its /proc/net/snmp: names and values are lines of their own.
fn echo_requests(text: &str) -> Option<u64> {
    let mut lines = text.lines().filter(|line| line.starts_with("Icmp:"));
    let place = lines.next()?.split_whitespace().position(|name| name == "InEchos")?;
    lines.next()?.split_whitespace().nth(place)?.parse().ok()
}

/// What a command prints, where it is installed.
pub fn output_of(program: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    // Some print their version as if it were an error.
    let [out, error] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).trim().to_owned());
    Some(if out.is_empty() { error } else { out })
}
