//! Two keys, two hosts, and the ends of a tunnel at each.

use kumade_net::namespace::Namespace;
use kumade_netns_testbed::{TEST_DEADLINE, VethHosts, run_ip};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;

/// A directory with the keys of both ends.
pub struct Keys(PathBuf);

impl Keys {
    pub fn new(test: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("kumade-{test}-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let keys = Keys(directory);
        for end in [1, 2] {
            let made = program().args(["key", "private", "--output"]).arg(keys.file(end)).status();
            assert!(made.unwrap().success());
        }
        keys
    }

    pub fn file(&self, end: u8) -> PathBuf {
        self.0.join(format!("{end}.key"))
    }

    pub fn public(&self, end: u8) -> String {
        let input = fs::File::open(self.file(end)).unwrap();
        let output = program().args(["key", "public"]).stdin(input).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// One end, in the namespace of its host: the right one (2) listens.
    pub fn end(&self, hosts: &VethHosts, number: u8, more: &[&str]) -> Command {
        let far = self.public(3 - number);
        let (inside, role, peer) = match number {
            1 => (&hosts.left, ["connect", "10.79.0.2:443"], far),
            _ => (&hosts.right, ["listen", "443"], format!("{far}=10.77.0.1")),
        };
        self.command(inside, number, &[&role, &["--peer", peer.as_str()], more].concat())
    }

    /// `kumade tunnel` with this end's key.
    pub fn command(&self, inside: &Namespace, number: u8, arguments: &[&str]) -> Command {
        let mut command = self.plain_command(inside, arguments);
        command.arg("--key").arg(self.file(number)).stderr(Stdio::piped());
        command
    }

    /// `kumade tunnel` without a key.
    pub fn plain_command(&self, inside: &Namespace, arguments: &[&str]) -> Command {
        let mut command = inside.command(assert_cmd::cargo::cargo_bin("kumade"));
        command.arg("tunnel").args(arguments).env("XDG_RUNTIME_DIR", &self.0);
        command
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub fn program() -> Command {
    Command::new(assert_cmd::cargo::cargo_bin("kumade"))
}

/// Two hosts side by side.
pub fn hosts() -> VethHosts {
    let hosts = VethHosts::new(1500).unwrap();
    let [one, two] = VethHosts::MIDDLE_INTERFACES;
    run_ip(&hosts.middle, &["link", "add", "bridge", "type", "bridge"]).unwrap();
    for port in [one, two] {
        run_ip(&hosts.middle, &["link", "set", port, "master", "bridge"]).unwrap();
    }
    run_ip(&hosts.middle, &["link", "set", "bridge", "up"]).unwrap();
    hosts
}

/// What a child says from now on.
pub fn lines(child: &mut Child) -> Receiver<String> {
    let (sender, lines) = mpsc::channel();
    let stderr = BufReader::new(child.stderr.take().unwrap());
    // To its end, or the program would block.
    thread::spawn(move || stderr.lines().map_while(Result::ok).for_each(|line| drop(sender.send(line))));
    lines
}

pub fn wait_for(lines: &Receiver<String>, part: &str) -> String {
    let mut said = Vec::new();
    loop {
        let line = lines.recv_timeout(TEST_DEADLINE).unwrap_or_else(|_| panic!("not `{part}`, but {said:?}"));
        if line.contains(part) {
            return line;
        }
        said.push(line);
    }
}

pub fn end_with(child: &mut Child, signal: Signal) -> bool {
    // The child has not been waited for, so its number is its own.
    kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
    child.wait().unwrap().success()
}

pub fn has_device(inside: &Namespace) -> bool {
    run_ip(inside, &["-o", "link"]).unwrap().contains("kumade0")
}
