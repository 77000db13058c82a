//! Other programs at work between the gateways.

use super::peer_program::{FORWARDED_PORT, LEFT_GATEWAY, PeerProgram, find_program};
use crate::gateway_side::{GatewaySide, MEETING_TIMEOUT};
use anyhow::{Context, bail, ensure};
use kumade_net::clock;
use kumade_net::namespace::Namespace;
use kumade_netns_testbed::{Sites, run_ip};
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

/// The processes of both ends, until dropped.
pub(super) struct PeerProcesses {
    peer: PeerProgram,
    gateways: [Namespace; 2],
    children: Vec<Child>,
    directory: PathBuf,
}

/// The port at which either program waits for the other.
const PEER_PORT: u16 = 4431;
/// Where VTun's daemon writes its number, whatever it is told.
const VTUN_PID_FILE: &str = "/var/run/vtund.server.pid";
const TUNNEL_DEVICE: &str = "tun0";
const POLL_INTERVAL: Duration = Duration::from_millis(20);

impl PeerProcesses {
    /// Starts both ends, with files in `directory`; they have met when this returns.
    pub(super) fn start(peer: PeerProgram, sites: &Sites, directory: &Path) -> anyhow::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        for side in [GatewaySide::Left, GatewaySide::Right] {
            use_cubic(sites, side)?;
        }
        let mut processes = PeerProcesses {
            peer,
            gateways: [sites.left.clone(), sites.right.clone()],
            children: Vec::new(),
            directory: directory.to_owned(),
        };
        match peer {
            PeerProgram::SshForward => processes.start_ssh(sites, &forwarding_arguments())?,
            PeerProgram::SshTunnel => processes.start_ssh(sites, &["-w".into(), "0:0".into()])?,
            PeerProgram::OpenVpn => processes.start_openvpn(sites)?,
            PeerProgram::Vtun => processes.start_vtun(sites)?,
        }
        if peer == PeerProgram::SshForward {
            processes.wait("forward the port", || is_listening(&sites.left, FORWARDED_PORT))?;
        } else {
            // The others leave their devices down.
            let filter: &[&str] = if peer == PeerProgram::OpenVpn { &["up"] } else { &[] };
            processes
                .wait("open the tunnel", || has_device(&sites.left, filter) && has_device(&sites.right, filter))?;
            add_routes(sites, peer != PeerProgram::OpenVpn)?;
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
            "Port {PEER_PORT}\nListenAddress {}\nHostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\nPidFile none\n\
             PermitRootLogin yes\nPasswordAuthentication no\nPermitTunnel yes\n",
            Sites::gateway_address(0, 2),
            self.file("host"),
            self.file("user.pub"),
        );
        fs::write(self.directory.join("sshd.conf"), config)?;
        let (config, key) = (self.file("sshd.conf"), self.file("user"));
        self.spawn(&sites.right, "sshd", &["-D", "-f", &config])?;
        self.wait("wait for a connection", || is_listening(&sites.right, PEER_PORT))?;
        let (port, target) = (PEER_PORT.to_string(), format!("root@{}", Sites::gateway_address(0, 2)));
        let mut words = vec!["-N", "-F", "none", "-i", &key, "-p", &port, "-o", "StrictHostKeyChecking=no"];
        words.extend(["-o", "UserKnownHostsFile=/dev/null", "-o", "BatchMode=yes", "-o", "ExitOnForwardFailure=yes"]);
        words.extend(more.iter().map(String::as_str));
        words.push(&target);
        self.spawn(&sites.left, "ssh", &words)
    }

    fn start_openvpn(&mut self, sites: &Sites) -> anyhow::Result<()> {
        let (key, port) = (self.file("key"), PEER_PORT.to_string());
        let made = self.command("openvpn")?.args(["--genkey", "secret", &key]).stdout(Stdio::null()).status()?;
        ensure!(made.success(), "`openvpn --genkey` failed");
        // Newer versions want to be told that a shared key will do, which older ones do not know.
        let common = format!(
            "setenv opt allow-deprecated-insecure-static-crypto\ndev {TUNNEL_DEVICE}\ndev-type tun\nsecret {key}\n\
             cipher AES-256-CBC\nverb 0\n"
        );
        let (near, far, listener) =
            (tunnel_address(GatewaySide::Left), tunnel_address(GatewaySide::Right), Sites::gateway_address(0, 2));
        let server = format!("proto tcp-server\nlocal {listener}\nlport {port}\nifconfig {far} {near}\n");
        let client = format!("proto tcp-client\nremote {listener} {port}\nnobind\nifconfig {near} {far}\n");
        for (name, inside, own) in [("server", &sites.right, server), ("client", &sites.left, client)] {
            fs::write(self.directory.join(name), format!("{common}{own}"))?;
            let config = self.file(name);
            self.spawn(inside, "openvpn", &["--config", &config])?;
            self.wait("wait for a connection", || is_listening(&sites.right, PEER_PORT))?;
        }
        Ok(())
    }

    fn start_vtun(&mut self, sites: &Sites) -> anyhow::Result<()> {
        let ends = [(GatewaySide::Right, &sites.right, "server"), (GatewaySide::Left, &sites.left, "client")];
        for (side, inside, name) in ends {
            let text = format!(
                "options {{ port {PEER_PORT}; }}\nlab {{ passwd lab; type tun; proto tcp; device {TUNNEL_DEVICE}; compress no; encrypt no; \
                 keepalive no; persist no; }}\n"
            );
            fs::write(self.directory.join(name), text)?;
            let (config, address) = (self.file(name), Sites::gateway_address(0, 2).to_string());
            match side {
                GatewaySide::Right => {
                    self.spawn(inside, "vtund", &["-s", "-n", "-f", &config, "-L", &address])?;
                    self.wait("wait for a connection", || is_listening(inside, PEER_PORT))?;
                }
                GatewaySide::Left => self.spawn(inside, "vtund", &["-n", "-f", &config, "lab", &address])?,
            }
        }
        Ok(())
    }

    fn command(&self, name: &str) -> anyhow::Result<Command> {
        Ok(Command::new(find_program(name).with_context(|| format!("`{name}` is not installed"))?))
    }

    fn spawn(&mut self, inside: &Namespace, name: &str, words: &[&str]) -> anyhow::Result<()> {
        let path = find_program(name).with_context(|| format!("`{name}` is not installed"))?;
        let log = self.directory.join(format!("{name}.log"));
        let log = fs::OpenOptions::new().create(true).append(true).open(log)?;
        let mut command = inside.command(path);
        command.args(words).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        self.children.push(command.spawn().with_context(|| format!("start `{name}`"))?);
        Ok(())
    }

    fn wait(&mut self, doing: &str, is_done: impl Fn() -> bool) -> anyhow::Result<()> {
        let end = clock::monotonic() + MEETING_TIMEOUT;
        while !is_done() {
            let ended = self.children.iter_mut().any(|child| !matches!(child.try_wait(), Ok(None)));
            if ended || clock::monotonic() > end {
                bail!("the programs did not {doing}: {}", self.log_ends());
            }
            thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// The ends of their logs.
    fn log_ends(&self) -> String {
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
        if self.peer == PeerProgram::Vtun {
            let _ = fs::remove_file(VTUN_PID_FILE);
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// The programs have no option for it, and a namespace's default cannot be set to what the system's is not.
fn use_cubic(sites: &Sites, side: GatewaySide) -> anyhow::Result<()> {
    let own = Sites::gateway_address(0, side.address_number());
    let [a, b, c, _] = own.octets();
    let (network, own, device) = (format!("{a}.{b}.{c}.0/24"), own.to_string(), Sites::path_interface(0));
    let route = ["route", "replace", &network, "dev", &device, "proto", "kernel", "scope", "link", "src", &own];
    run_ip(side.gateway_namespace(sites), &[&route[..], &["congctl", PeerProgram::CONGESTION_CONTROL]].concat())?;
    Ok(())
}

fn forwarding_arguments() -> [String; 2] {
    ["-L".into(), format!("{LEFT_GATEWAY}:{FORWARDED_PORT}:10.2.0.2:{FORWARDED_PORT}")]
}

fn tunnel_address(side: GatewaySide) -> String {
    format!("10.88.0.{}", side.address_number())
}

/// Sends what is for the far site through the tunnels' devices, which are given addresses where they have none.
fn add_routes(sites: &Sites, needs_addresses: bool) -> anyhow::Result<()> {
    for side in [GatewaySide::Left, GatewaySide::Right] {
        let (gateway, far) = (side.gateway_namespace(sites), tunnel_address(side.other_side()));
        if needs_addresses {
            run_ip(gateway, &["address", "add", &tunnel_address(side), "peer", &far, "dev", TUNNEL_DEVICE])?;
            run_ip(gateway, &["link", "set", TUNNEL_DEVICE, "up"])?;
        }
        let network = format!("10.{}.0.0/24", side.other_side().address_number());
        run_ip(gateway, &["route", "replace", &network, "dev", TUNNEL_DEVICE])?;
    }
    Ok(())
}

fn has_device(inside: &Namespace, filter: &[&str]) -> bool {
    run_ip(inside, &[&["link", "show", "dev", TUNNEL_DEVICE], filter].concat()).is_ok_and(|shown| !shown.is_empty())
}

/// Whether a TCP socket waits at that port.
fn is_listening(inside: &Namespace, port: u16) -> bool {
    let read = inside.run(|| fs::read_to_string("/proc/thread-self/net/tcp"));
    let text = read.ok().and_then(Result::ok).unwrap_or_default();
    let wanted = format!(":{port:04X}");
    let waits = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        words.len() > 3 && words[1].ends_with(&wanted) && words[3] == "0A"
    };
    text.lines().any(waits)
}
