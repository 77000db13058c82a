//! A mesh of real processes, each on a host of its own, of which any may be killed at any moment.

use super::server::{PATIENCE, Server};
use super::switch::{STAMP_PORT, Switch, agent_section};
use kumade_net::namespace::Namespace;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Their number is that of their host, which has the address 10.80.0.`n`.
pub const AGENTS: [(usize, &str); 4] = [(2, "berlin"), (3, "paris"), (4, "rome"), (5, "turku")];
const COORDINATOR: usize = 1;
/// Where another one may stand by.
const OTHER_COORDINATOR: usize = AGENTS.len() + 2;
/// Of the coordinator's page.
const PAGE: (&str, u16) = ("127.0.0.1", 7280);
/// What an agent says of a batch.
pub const ACKNOWLEDGED: &str = "a batch is acknowledged";
/// Between probes of a pair: many results are on their way at each moment.
const INTERVAL: &str = "50ms";

/// Hosts on one switch, and what runs on them. Host 1 is the coordinator's.
pub struct Mesh {
    switch: Switch,
    /// Makes a process of a configuration file.
    start: fn(&Namespace, &Path) -> Command,
    /// By host.
    processes: Vec<Option<Child>>,
    /// The server that has the archive, and the database's name; none where it is in a file.
    pub server: Option<(Server, String)>,
    /// Processes that have ended by themselves, such as a coordinator that finds no database.
    pub restarts: u32,
}

/// What may be killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Victim {
    /// The one on this host.
    Agent(usize),
    Coordinator,
    Database,
}

impl Mesh {
    /// Builds the network and the files, and starts all. `server` has the archive, if there is one.
    pub fn new(name: &str, start: fn(&Namespace, &Path) -> Command, server: Option<Server>) -> Self {
        let switch = Switch::new(&format!("kills-{name}"), OTHER_COORDINATOR);
        let server = server.map(|server| {
            let database = server.create_database();
            (server, database)
        });
        let processes = (COORDINATOR..=OTHER_COORDINATOR).map(|_| None).collect();
        let mut mesh = Mesh { switch, start, processes, server, restarts: 0 };
        mesh.write_files();
        for (agent, _) in AGENTS {
            mesh.count_probes(agent);
        }
        (COORDINATOR..OTHER_COORDINATOR).for_each(|host| mesh.run(host));
        mesh
    }

    fn write_files(&self) {
        let archive = match &self.server {
            Some((server, database)) => {
                let socket = server.directory().display().to_string().replace('/', "%2F");
                format!("postgresql://kumade@{socket}/{database}")
            }
            None => self.switch.directory.join("archive1").display().to_string(),
        };
        let mut coordinator = format!(
            "[monitor]\nrole = \"coordinator\"\nkey = {:?}\narchive = {archive:?}\n[mesh]\ninterval = \"{INTERVAL}\"\nmeasure = \"5min\"\n",
            self.file("1.key")
        );
        let coordinators = if self.server.is_some() { vec![COORDINATOR, OTHER_COORDINATOR] } else { vec![COORDINATOR] };
        for (number, id) in AGENTS {
            coordinator += &agent_section(number, id, &format!("address = \"10.80.0.{number}\"\n"));
            self.switch.write_agent(number, &coordinators);
        }
        self.switch.write("1.toml", &coordinator);
    }

    /// In the directory of the mesh.
    pub fn file(&self, name: &str) -> PathBuf {
        self.switch.file(name)
    }

    pub fn log(&self, host: usize) -> String {
        self.switch.log(host)
    }

    /// Has the kernel count the probes that a host sends: what was probed, whatever its process knows.
    fn count_probes(&self, agent: usize) {
        let rules = format!(
            "table ip probes {{ chain sent {{ type filter hook output priority 0; udp dport {STAMP_PORT} counter; }}; }}"
        );
        match self.switch.host(agent).command("nft").arg(rules).status() {
            Ok(status) => assert!(status.success(), "{status}"),
            Err(error) => println!("probes are not counted by the kernel: nft: {error}"),
        }
    }

    /// Probes that a host has sent; none where nobody counts them.
    pub fn probed(&self, agent: usize) -> Option<u64> {
        let listed = self.switch.host(agent).command("nft").args(["list", "table", "ip", "probes"]).output().ok()?;
        let text = String::from_utf8(listed.stdout).unwrap();
        let count = text.split_once("packets ").and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
        Some(count.unwrap_or_else(|| panic!("no counter in {text}")))
    }

    /// Has another coordinator stand by, which has the same file.
    pub fn add_coordinator(&mut self) {
        fs::copy(self.file("1.toml"), self.file(&format!("{OTHER_COORDINATOR}.toml"))).unwrap();
        self.run(OTHER_COORDINATOR);
    }

    /// Whether the other coordinator serves its page, as it does while it stands by.
    pub fn is_other_ready(&self) -> bool {
        self.switch.host(OTHER_COORDINATOR).run(|| TcpStream::connect(PAGE).is_ok()).unwrap()
    }

    /// Whether the other coordinator has acknowledged results of each agent.
    pub fn does_other_acknowledge(&self) -> bool {
        let connected = format!("connected to the coordinator at 10.80.0.{OTHER_COORDINATOR}:");
        AGENTS.iter().all(|(agent, _)| {
            let log = self.log(*agent);
            log.rsplit_once(&connected).is_some_and(|(_, rest)| rest.contains(ACKNOWLEDGED))
        })
    }

    /// Whether results of each agent have been acknowledged.
    pub fn are_all_acknowledged(&self) -> bool {
        AGENTS.iter().all(|(agent, _)| self.log(*agent).contains(ACKNOWLEDGED))
    }

    fn run(&mut self, host: usize) {
        let log = self.switch.open_log(host);
        let mut command = (self.start)(self.switch.host(host), &self.file(&format!("{host}.toml")));
        self.processes[host - 1] = Some(command.stdout(Stdio::null()).stderr(log).spawn().unwrap());
    }

    /// Starts again what has ended by itself, as systemd does.
    pub fn tend(&mut self) {
        for host in COORDINATOR..=OTHER_COORDINATOR {
            let process = self.processes[host - 1].as_mut();
            if process.is_some_and(|process| process.try_wait().unwrap().is_some()) {
                self.restarts += 1;
                self.run(host);
            }
        }
    }

    /// Kills it, whatever it does at this moment.
    pub fn kill(&mut self, victim: Victim) {
        match victim {
            Victim::Agent(host) => self.end(host, Signal::SIGKILL),
            Victim::Coordinator => self.end(COORDINATOR, Signal::SIGKILL),
            Victim::Database => self.server.as_mut().into_iter().for_each(|(server, _)| server.kill()),
        }
    }

    /// Starts what was killed.
    pub fn restart(&mut self, victim: Victim) {
        match victim {
            Victim::Agent(host) => self.run(host),
            Victim::Coordinator => self.run(COORDINATOR),
            Victim::Database => self.server.as_mut().into_iter().for_each(|(server, _)| server.restart_killed()),
        }
    }

    fn end(&mut self, host: usize, signal: Signal) {
        let Some(mut process) = self.processes[host - 1].take() else { return };
        // It may have ended by itself.
        _ = kill(Pid::from_raw(process.id() as i32), signal);
        process.wait().unwrap();
    }

    /// Waits until agents have delivered what they had on their disks, then ends all, agents first.
    pub fn finish(&mut self) {
        let deadline = Instant::now() + PATIENCE * 2;
        let spooled = |mesh: &Mesh| AGENTS.iter().map(|(host, _)| mesh.switch.spooled(*host)).sum::<usize>();
        // Batches that are on their way come within a second.
        let mut empty = 0;
        while empty < 20 {
            assert!(Instant::now() < deadline, "agents do not deliver all; see {}", self.switch.directory.display());
            self.tend();
            sleep(Duration::from_millis(100));
            empty = if spooled(self) == 0 { empty + 1 } else { 0 };
        }
        (COORDINATOR..=OTHER_COORDINATOR).rev().for_each(|host| self.end(host, Signal::SIGTERM));
    }
}

impl Drop for Mesh {
    fn drop(&mut self) {
        (COORDINATOR..=OTHER_COORDINATOR).for_each(|host| self.end(host, Signal::SIGKILL));
        if std::thread::panicking() {
            println!("the logs are in {}", self.switch.directory.display());
        } else {
            _ = fs::remove_dir_all(&self.switch.directory);
        }
    }
}
