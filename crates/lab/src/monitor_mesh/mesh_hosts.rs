//! The hosts of the mesh, and the programs on them: a coordinator and an agent at each site.

use super::directory_watch::DirectoryWatch;
use super::scenario::{MeshSite, MonitorMeshExperiment};
use super::status::MeshStatus;
use anyhow::{Context, bail};
use kumade_daemon::PrivateDirectory;
use kumade_link::{CrossConfig, CrossKind, LinkConfig, Loss};
use kumade_netns_testbed::{Host, HostSpec, StarHostSpec, StarNetwork};
use kumade_noise_session::PrivateKey;
use kumade_units::{Rate, Span, Time};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

/// The mesh while it runs; dropping it ends everything in it.
pub(super) struct MeshHosts {
    // In this order they end: programs, their files, the network.
    programs: Vec<(String, Child)>,
    _watch: DirectoryWatch,
    directory: PrivateDirectory,
    pub(super) network: StarNetwork,
}

/// The host of the coordinator, whose name no site has.
const COORDINATOR: &str = "coordinator";
const COORDINATOR_LINK: (Rate, Span) = (Rate::from_mbit(1000), Span::from_millis(1));
/// What a site's queue holds, by the time that it takes to send that.
const QUEUE_TIME: Span = Span::from_millis(100);
/// Of cross traffic: full packets, as most bytes are carried by, at intervals that differ by up to a half.
const CROSS_PACKET_BYTES: u32 = 1500;
const CROSS_JITTER: f64 = 0.5;
/// Where the page is within the coordinator's host.
pub(super) const PAGE_ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 7280);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

impl MeshHosts {
    /// Builds the hosts, and starts `program` on them.
    ///
    /// # Errors
    /// The network cannot be built, or a program not be started.
    pub(super) fn start(experiment: &MonitorMeshExperiment, program: &Path) -> anyhow::Result<Self> {
        let sites = experiment.sites.iter().zip(2..).map(|(site, number)| site_host(site, number));
        let network = StarNetwork::build(std::iter::once(coordinator_host()).chain(sites).collect())?;
        let directory = PrivateDirectory::new("kumade-mesh")?;
        let watch = DirectoryWatch::start(directory.path());
        let mut mesh = MeshHosts { programs: Vec::new(), _watch: watch, directory, network };
        mesh.start_program(COORDINATOR, &mesh.coordinator_file(experiment)?, 0, program)?;
        for (site, number) in experiment.sites.iter().zip(1..) {
            mesh.start_program(&site.name, &mesh.agent_file(number)?, number, program)?;
        }
        Ok(mesh)
    }

    /// The host of the page.
    pub(super) fn coordinator(&self) -> anyhow::Result<&Host> {
        Ok(self.network.host(COORDINATOR)?)
    }

    /// What the coordinator sees; none as long as it does not answer.
    pub(super) fn status(&self) -> Option<MeshStatus> {
        let connect = || TcpStream::connect_timeout(&PAGE_ADDRESS, ANSWER_TIMEOUT);
        let mut stream = self.coordinator().ok()?.namespace.run(connect).ok()?.ok()?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT)).ok()?;
        stream.write_all(b"GET /api/v1/status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()
    }

    /// Whether all programs still run.
    ///
    /// # Errors
    /// One has ended; with the end of what it said.
    pub(super) fn check(&mut self) -> anyhow::Result<()> {
        for (host, child) in &mut self.programs {
            if let Some(status) = child.try_wait().context("cannot wait for a program")? {
                let log = fs::read_to_string(self.directory.path().join(format!("{host}.log"))).unwrap_or_default();
                let lines: Vec<_> = log.lines().collect();
                bail!(
                    "the program at {host} has ended ({status}): {}",
                    lines[lines.len().saturating_sub(3)..].join("; ")
                );
            }
        }
        Ok(())
    }

    fn start_program(&mut self, host: &str, file: &str, number: u8, program: &Path) -> anyhow::Result<()> {
        let directory = self.directory.path();
        let runtime = directory.join(format!("run{number}"));
        fs::create_dir(&runtime).with_context(|| format!("cannot make {}", runtime.display()))?;
        let log = File::create(directory.join(format!("{host}.log"))).context("cannot make a log")?;
        let mut command = self.network.host(host)?.namespace.command(program);
        command.args(["monitor", "--config", file]).env("XDG_RUNTIME_DIR", runtime).stdin(Stdio::null());
        let child = command.stdout(Stdio::null()).stderr(log).spawn();
        let child = child.with_context(|| format!("cannot start {}", program.display()))?;
        self.programs.push((host.to_owned(), child));
        Ok(())
    }

    fn coordinator_file(&self, experiment: &MonitorMeshExperiment) -> anyhow::Result<String> {
        let key = self.write("0.key", &identity(0).to_hex())?;
        let archive = self.directory.path().join("archive0");
        let (interval, period) = (toml_span(experiment.interval), toml_span(experiment.period));
        let mut text = format!(
            "[monitor]\nname = \"lab\"\nrole = \"coordinator\"\nkey = {key:?}\narchive = {archive:?}\nstretch = true\n\
             [mesh]\ninterval = {interval:?}\nmeasure = {period:?}\n"
        );
        for (site, number) in experiment.sites.iter().zip(1..) {
            let (name, address, key) = (&site.name, self.network.host(&site.name)?.v4, identity(number).public_key());
            // Writing to a string cannot fail.
            let _ = write!(text, "[[agent]]\nid = {name:?}\naddress = \"{address}\"\npublic-key = \"{key}\"\n");
        }
        self.write("0.toml", &text)
    }

    fn agent_file(&self, number: u8) -> anyhow::Result<String> {
        let key = self.write(&format!("{number}.key"), &identity(number).to_hex())?;
        let archive = self.directory.path().join(format!("archive{number}"));
        let (address, coordinator) = (self.coordinator()?.v4, identity(0).public_key());
        let text = format!(
            "[monitor]\nrole = \"agent\"\nkey = {key:?}\narchive = {archive:?}\n\
             [coordinator]\naddress = \"{address}\"\npublic-key = \"{coordinator}\"\n"
        );
        self.write(&format!("{number}.toml"), &text)
    }

    /// Keys are for their user's eyes alone. Returns the path.
    fn write(&self, name: &str, text: &str) -> anyhow::Result<String> {
        let path = self.directory.path().join(name);
        let written =
            fs::write(&path, text).and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o600)));
        written.with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path.display().to_string())
    }
}

impl Drop for MeshHosts {
    fn drop(&mut self) {
        for (_, child) in &mut self.programs {
            // One that has ended has ended; what it kept is removed.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// They are no secrets: nobody outside reaches these hosts.
fn identity(number: u8) -> PrivateKey {
    PrivateKey::from_bytes([number + 1; 32])
}

fn toml_span(span: Span) -> String {
    format!("{}ms", span.as_nanos() / 1_000_000)
}

fn coordinator_host() -> StarHostSpec {
    let (rate, delay) = COORDINATOR_LINK;
    let link = LinkConfig { rate: Some(rate), delay, ..LinkConfig::default() };
    let host = HostSpec::with_number(COORDINATOR, 1);
    StarHostSpec { host, up: link.clone(), down: link, up_cross: None, down_cross: None }
}

fn site_host(site: &MeshSite, number: u8) -> StarHostSpec {
    let link = |seed| LinkConfig {
        rate: Some(site.rate),
        delay: site.delay,
        queue_bytes: site.rate.bytes_in(QUEUE_TIME),
        loss: if site.loss > 0.0 { Loss::Independent(site.loss) } else { Loss::None },
        seed,
        ..LinkConfig::default()
    };
    let seed = u64::from(number);
    let kind = CrossKind::Jittered { rate: site.cross, size: CROSS_PACKET_BYTES, jitter: CROSS_JITTER };
    let cross = CrossConfig { kind, start: Time::ZERO, phase: 0.0, seed };
    StarHostSpec {
        host: HostSpec::with_number(&site.name, number),
        up: link(2 * seed),
        down: link(2 * seed + 1),
        up_cross: (site.cross > Rate::ZERO).then_some(cross),
        down_cross: None,
    }
}
