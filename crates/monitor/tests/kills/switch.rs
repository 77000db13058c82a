//! Hosts on one switch, and a directory for the files of what runs on them: here, and in the tests of `kumade`.
#![allow(dead_code, reason = "each test program uses its own part")]

use kumade_net::namespace::Namespace;
use kumade_netns_testbed::run_ip;
use kumade_noise_session::PrivateKey;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// Host `n`, from 1 on, has the address 10.80.0.`n`.
pub struct Switch {
    _switch: Namespace,
    hosts: Vec<Namespace>,
    pub directory: PathBuf,
}

pub const STAMP_PORT: u16 = 8620;

/// That of a host.
pub fn identity(number: usize) -> PrivateKey {
    PrivateKey::from_bytes([number as u8; 32])
}

/// The section of an agent in the file of its coordinator.
pub fn agent_section(number: usize, id: &str, more: &str) -> String {
    let key = identity(number).public_key();
    format!("[[agent]]\nid = \"{id}\"\npublic-key = \"{key}\"\nstamp-port = {STAMP_PORT}\n{more}")
}

impl Switch {
    /// With so many hosts, each of which has a key.
    pub fn new(test: &str, hosts: usize) -> Self {
        let switch = Namespace::new().unwrap();
        run_ip(&switch, &["link", "add", "bridge", "type", "bridge"]).unwrap();
        run_ip(&switch, &["link", "set", "bridge", "up"]).unwrap();
        let directory = std::env::temp_dir().join(format!("kumade-{test}-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let numbers = 1..=hosts;
        let hosts = numbers.clone().map(|number| new_host(&switch, number)).collect();
        let switch = Switch { _switch: switch, hosts, directory };
        numbers.for_each(|number| switch.write(&format!("{number}.key"), &identity(number).to_hex()));
        switch
    }

    pub fn host(&self, number: usize) -> &Namespace {
        &self.hosts[number - 1]
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Keys are for their user's eyes alone.
    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.file(name), text).unwrap();
        fs::set_permissions(self.file(name), fs::Permissions::from_mode(0o600)).unwrap();
    }

    /// The file of an agent whose coordinator has the key of host 1, and is at one of these.
    pub fn write_agent(&self, number: usize, coordinators: &[usize]) {
        let (archive, key) = (self.file(&format!("archive{number}")), self.file(&format!("{number}.key")));
        let addresses: Vec<_> = coordinators.iter().map(|number| format!("10.80.0.{number}")).collect();
        let text = format!(
            "[monitor]\nrole = \"agent\"\nkey = {key:?}\narchive = {archive:?}\nstamp-port = {STAMP_PORT}\n\
             [coordinator]\naddress = {addresses:?}\npublic-key = \"{}\"\n",
            identity(1).public_key()
        );
        self.write(&format!("{number}.toml"), &text);
    }

    /// What a host's program says is at the end of it.
    pub fn open_log(&self, host: usize) -> File {
        File::options().create(true).append(true).open(self.file(&format!("{host}.log"))).unwrap()
    }

    pub fn log(&self, host: usize) -> String {
        // A line of a process that was killed may end anywhere.
        String::from_utf8_lossy(&fs::read(self.file(&format!("{host}.log"))).unwrap_or_default()).into_owned()
    }

    /// Files of what an agent has not delivered.
    pub fn spooled(&self, host: usize) -> usize {
        fs::read_dir(self.file(&format!("archive{host}/spool"))).map_or(0, Iterator::count)
    }
}

fn new_host(switch: &Namespace, number: usize) -> Namespace {
    let host = Namespace::new().unwrap();
    let port = format!("port{number}");
    run_ip(switch, &["link", "add", &port, "type", "veth", "peer", "name", "host", "netns", &host.path()]).unwrap();
    run_ip(switch, &["link", "set", &port, "master", "bridge", "up"]).unwrap();
    run_ip(&host, &["addr", "add", &format!("10.80.0.{number}/24"), "dev", "host"]).unwrap();
    run_ip(&host, &["link", "set", "host", "up"]).unwrap();
    run_ip(&host, &["link", "set", "lo", "up"]).unwrap();
    host
}
