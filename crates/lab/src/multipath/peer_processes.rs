//! Other programs at work between the gateways.

use super::peer::{FORWARDED_PORT, LEFT_GATEWAY, Peer, program};
use crate::side::{MEETING, Side};
use anyhow::{Context, bail, ensure};
use kumade_net::clock;
use kumade_net::namespace::Namespace;
use kumade_netns_testbed::{Sites, ip};
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

/// The processes of both ends, until dropped.
pub(super) struct PeerProcesses {
    peer: Peer,
    gateways: [Namespace; 2],
    children: Vec<Child>,
    directory: PathBuf,
}

/// The port at which either program waits for the other.
const PORT: u16 = 4431;
/// Where VTun's daemon writes its number, whatever it is told.
const VTUN_PID: &str = "/var/run/vtund.server.pid";
const DEVICE: &str = "tun0";
const ROUND: Duration = Duration::from_millis(20);

impl PeerProcesses {
    /// Starts both ends, with files in `directory`; they have met when this returns.
    pub(super) fn start(peer: Peer, sites: &Sites, directory: &Path) -> anyhow::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        for side in [Side::Left, Side::Right] {
            use_cubic(sites, side)?;
        }
        let mut processes = PeerProcesses {
            peer,
            gateways: [sites.left.clone(), sites.right.clone()],
            children: Vec::new(),
            directory: directory.to_owned(),
        };
        match peer {
            Peer::SshForward => processes.start_ssh(sites, &forwarding())?,
            Peer::SshTunnel => processes.start_ssh(sites, &["-w".into(), "0:0".into()])?,
            Peer::OpenVpn => processes.start_openvpn(sites)?,
            Peer::Vtun => processes.start_vtun(sites)?,
        }
        if peer == Peer::SshForward {
            processes.wait("forward the port", || listens(&sites.left, FORWARDED_PORT))?;
        } else {
            // The others leave their devices down.
            let filter: &[&str] = if peer == Peer::OpenVpn { &["up"] } else { &[] };
            processes
                .wait("open the tunnel", || has_device(&sites.left, filter) && has_device(&sites.right, filter))?;
            route(sites, peer != Peer::OpenVpn)?;
        }
        Ok(processes)
    }

    fn start_ssh(&mut self, sites: &Sites, more: &[String]) -> anyhow::Result<()> {
        for key in ["host", "user"] {
            let file = self.directory.join(key);
            let mut command = self.command("ssh-keygen")?;
            let status = command.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(file).status()?;
            ensure!(status.success(), "`ssh-keygen` failed");
        }
        // The daemon refuses to start without the directory of its unprivileged part.
        fs::DirBuilder::new().recursive(true).mode(0o755).create("/run/sshd").context("create /run/sshd")?;
        let config = format!(
            "Port {PORT}\nListenAddress {}\nHostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\nPidFile none\n\
             PermitRootLogin yes\nPasswordAuthentication no\nPermitTunnel yes\n",
            Sites::gateway(0, 2),
            self.file("host"),
            self.file("user.pub"),
        );
        fs::write(self.directory.join("sshd.conf"), config)?;
        let (config, key) = (self.file("sshd.conf"), self.file("user"));
        self.spawn(&sites.right, "sshd", &["-D", "-f", &config])?;
        self.wait("wait for a connection", || listens(&sites.right, PORT))?;
        let (port, target) = (PORT.to_string(), format!("root@{}", Sites::gateway(0, 2)));
        let mut words = vec!["-N", "-F", "none", "-i", &key, "-p", &port, "-o", "StrictHostKeyChecking=no"];
        words.extend(["-o", "UserKnownHostsFile=/dev/null", "-o", "BatchMode=yes", "-o", "ExitOnForwardFailure=yes"]);
        words.extend(more.iter().map(String::as_str));
        words.push(&target);
        self.spawn(&sites.left, "ssh", &words)
    }

    fn start_openvpn(&mut self, sites: &Sites) -> anyhow::Result<()> {
        let (key, port) = (self.file("key"), PORT.to_string());
        let made = self.command("openvpn")?.args(["--genkey", "secret", &key]).stdout(Stdio::null()).status()?;
        ensure!(made.success(), "`openvpn --genkey` failed");
        // Newer versions want to be told that a shared key will do, which older ones do not know.
        let common = format!(
            "setenv opt allow-deprecated-insecure-static-crypto\ndev {DEVICE}\ndev-type tun\nsecret {key}\n\
             cipher AES-256-CBC\nverb 0\n"
        );
        let (near, far, listener) = (tunnel_address(Side::Left), tunnel_address(Side::Right), Sites::gateway(0, 2));
        let server = format!("proto tcp-server\nlocal {listener}\nlport {port}\nifconfig {far} {near}\n");
        let client = format!("proto tcp-client\nremote {listener} {port}\nnobind\nifconfig {near} {far}\n");
        for (name, inside, own) in [("server", &sites.right, server), ("client", &sites.left, client)] {
            fs::write(self.directory.join(name), format!("{common}{own}"))?;
            let config = self.file(name);
            self.spawn(inside, "openvpn", &["--config", &config])?;
            self.wait("wait for a connection", || listens(&sites.right, PORT))?;
        }
        Ok(())
    }

    fn start_vtun(&mut self, sites: &Sites) -> anyhow::Result<()> {
        let ends = [(Side::Right, &sites.right, "server"), (Side::Left, &sites.left, "client")];
        for (side, inside, name) in ends {
            let text = format!(
                "options {{ port {PORT}; }}\nlab {{ passwd lab; type tun; proto tcp; device {DEVICE}; compress no; encrypt no; \
                 keepalive no; persist no; }}\n"
            );
            fs::write(self.directory.join(name), text)?;
            let (config, address) = (self.file(name), Sites::gateway(0, 2).to_string());
            match side {
                Side::Right => {
                    self.spawn(inside, "vtund", &["-s", "-n", "-f", &config, "-L", &address])?;
                    self.wait("wait for a connection", || listens(inside, PORT))?;
                }
                Side::Left => self.spawn(inside, "vtund", &["-n", "-f", &config, "lab", &address])?,
            }
        }
        Ok(())
    }

    fn command(&self, name: &str) -> anyhow::Result<Command> {
        Ok(Command::new(program(name).with_context(|| format!("`{name}` is not installed"))?))
    }

    fn spawn(&mut self, inside: &Namespace, name: &str, words: &[&str]) -> anyhow::Result<()> {
        let path = program(name).with_context(|| format!("`{name}` is not installed"))?;
        let log = self.directory.join(format!("{name}.log"));
        let log = fs::OpenOptions::new().create(true).append(true).open(log)?;
        let mut command = inside.command(path);
        command.args(words).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        self.children.push(command.spawn().with_context(|| format!("start `{name}`"))?);
        Ok(())
    }

    fn wait(&mut self, doing: &str, is_done: impl Fn() -> bool) -> anyhow::Result<()> {
        let end = clock::monotonic() + MEETING;
        while !is_done() {
            let ended = self.children.iter_mut().any(|child| !matches!(child.try_wait(), Ok(None)));
            if ended || clock::monotonic() > end {
                bail!("the programs did not {doing}: {}", self.said());
            }
            thread::sleep(ROUND);
        }
        Ok(())
    }

    /// The ends of their logs.
    fn said(&self) -> String {
        let logs = fs::read_dir(&self.directory).into_iter().flatten().flatten().map(|entry| entry.path());
        let logs = logs.filter(|path| path.extension().is_some_and(|extension| extension == "log"));
        let text: Vec<_> = logs.filter_map(|path| fs::read_to_string(path).ok()).collect();
        text.join(" ").lines().rev().take(3).collect::<Vec<_>>().join("; ")
    }

    fn file(&self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }
}

impl Drop for PeerProcesses {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
        // A daemon has processes of its own for each connection.
        self.gateways.iter().for_each(Namespace::kill_processes);
        if self.peer == Peer::Vtun {
            let _ = fs::remove_file(VTUN_PID);
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// The programs have no option for it, and a namespace's default cannot be set to what the system's is not.
fn use_cubic(sites: &Sites, side: Side) -> anyhow::Result<()> {
    let own = Sites::gateway(0, side.number());
    let [a, b, c, _] = own.octets();
    let (network, own, device) = (format!("{a}.{b}.{c}.0/24"), own.to_string(), Sites::path(0));
    let route = ["route", "replace", &network, "dev", &device, "proto", "kernel", "scope", "link", "src", &own];
    ip(side.gateway(sites), &[&route[..], &["congctl", Peer::CONTROL]].concat())?;
    Ok(())
}

fn forwarding() -> [String; 2] {
    ["-L".into(), format!("{LEFT_GATEWAY}:{FORWARDED_PORT}:10.2.0.2:{FORWARDED_PORT}")]
}

fn tunnel_address(side: Side) -> String {
    format!("10.88.0.{}", side.number())
}

/// Sends what is for the far site through the tunnels' devices, which are given addresses where they have none.
fn route(sites: &Sites, needs_addresses: bool) -> anyhow::Result<()> {
    for side in [Side::Left, Side::Right] {
        let (gateway, far) = (side.gateway(sites), tunnel_address(side.far()));
        if needs_addresses {
            ip(gateway, &["address", "add", &tunnel_address(side), "peer", &far, "dev", DEVICE])?;
            ip(gateway, &["link", "set", DEVICE, "up"])?;
        }
        let network = format!("10.{}.0.0/24", side.far().number());
        ip(gateway, &["route", "replace", &network, "dev", DEVICE])?;
    }
    Ok(())
}

fn has_device(inside: &Namespace, filter: &[&str]) -> bool {
    ip(inside, &[&["link", "show", "dev", DEVICE], filter].concat()).is_ok_and(|shown| !shown.is_empty())
}

/// Whether a TCP socket waits at that port.
fn listens(inside: &Namespace, port: u16) -> bool {
    let read = inside.run(|| fs::read_to_string("/proc/thread-self/net/tcp"));
    let text = read.ok().and_then(Result::ok).unwrap_or_default();
    let wanted = format!(":{port:04X}");
    let waits = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        words.len() > 3 && words[1].ends_with(&wanted) && words[3] == "0A"
    };
    text.lines().any(waits)
}
