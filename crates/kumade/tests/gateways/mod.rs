//! What tests of `kumade gateway` have in common.

use kumade_net::interface;
use kumade_net::namespace::Namespace;
use kumade_netns_testbed::{TEST_DEADLINE, run_ip, wait_for_cables};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

/// A host with two uplinks and a network of hosts, and a directory for the files of its gateway.
pub struct Host {
    pub namespace: Namespace,
    pub directory: PathBuf,
}

impl Host {
    pub fn new(test: &str) -> Self {
        let host = Host { namespace: Namespace::new().unwrap(), directory: new_directory(test) };
        for (name, v4, v6) in [
            ("lan", "10.1.0.1/24", "fd01::1/64"),
            ("path1", "10.9.1.1/24", "fd09:1::1/64"),
            ("path2", "10.9.2.1/24", "fd09:2::1/64"),
        ] {
            let far = format!("far-{name}");
            host.ip(&["link", "add", name, "type", "veth", "peer", "name", &far]);
            host.namespace.run(|| [name, &far].map(|name| interface::set_up(name).unwrap())).unwrap();
            host.ip(&["addr", "add", v4, "dev", name]);
            host.ip(&["-6", "addr", "add", v6, "dev", name, "nodad"]);
        }
        wait_for_cables([&host.namespace]).unwrap();
        host.forward("1");
        host
    }

    pub fn forward(&self, value: &str) {
        for name in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
            self.namespace.run(|| fs::write(format!("/proc/sys/net/{name}"), value)).unwrap().unwrap();
        }
    }

    pub fn ip(&self, arguments: &[&str]) -> String {
        run_ip(&self.namespace, arguments).unwrap()
    }

    /// Rules and routes, but for those to this host's own addresses, which the kernel adds in its own time.
    pub fn routing(&self) -> String {
        let rules = ["-4", "-6"].map(|family| self.ip(&[family, "rule"])).concat();
        let routes = ["-4", "-6"].map(|family| self.ip(&[family, "route", "show", "table", "all"])).concat();
        let listed = rules + &routes;
        listed.split_inclusive('\n').filter(|line| !line.contains(" table local ")).collect()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Of this test and process.
pub fn new_directory(test: &str) -> PathBuf {
    let directory = std::env::temp_dir().join(format!("kumade-{test}-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    directory
}

pub fn program() -> Command {
    Command::new(assert_cmd::cargo::cargo_bin("kumade"))
}

/// `kumade gateway` in a namespace, with files in this directory.
pub fn gateway(inside: &Namespace, directory: &Path, arguments: &[&str]) -> Command {
    let mut command = inside.command(assert_cmd::cargo::cargo_bin("kumade"));
    command.arg("gateway").args(arguments).env("XDG_RUNTIME_DIR", directory).current_dir(directory);
    command
}

/// Makes a private key in this directory, and returns the public one.
pub fn make_key(directory: &Path) -> String {
    let file = directory.join("gateway.key");
    assert!(program().args(["key", "private", "--output"]).arg(&file).status().unwrap().success());
    let public = program().args(["key", "public"]).stdin(fs::File::open(file).unwrap()).output().unwrap();
    String::from_utf8(public.stdout).unwrap().trim().to_owned()
}

pub fn wait_until_connected(child: &mut Child) {
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().ends_with(": connected")), "it ended");
    // The rest is read, too, or the program would block or fail.
    std::thread::spawn(move || lines.for_each(drop));
}

/// As Prometheus fetches them from port 9273 there.
pub fn metrics(inside: &Namespace) -> String {
    let mut stream = inside.run(|| TcpStream::connect("127.0.0.1:9273").unwrap()).unwrap();
    stream.set_read_timeout(Some(TEST_DEADLINE)).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut metrics = String::new();
    stream.read_to_string(&mut metrics).unwrap();
    metrics
}
