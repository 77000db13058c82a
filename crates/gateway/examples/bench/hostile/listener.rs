//! The programs that are attacked, and what they take.

use super::attack::TARGET_PORTS;
use super::{HOSTILE_PEERS, wait_until};
use crate::lines::{Lines, PORT};
use crate::outcome::Outcome;
use kumade_net::namespace::Namespace;
use kumade_noise_session::PrivateKey;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

/// Inside of the tunnel.
pub const LISTENER_ADDRESS: &str = "10.80.0.254";
pub const HONEST_ADDRESS: &str = "10.80.0.1";

/// Keys, logs and control sockets, until dropped; and the program.
pub struct TestDirectory {
    path: PathBuf,
    program: PathBuf,
}

/// The key of a hostile peer. Its address in the tunnel is 10.80.1.N + 1.
pub fn hostile_key(number: usize) -> PrivateKey {
    PrivateKey::from_bytes([100 + number as u8; 32])
}

pub fn hostile_address(number: usize) -> [u8; 4] {
    [10, 80, 1, number as u8 + 1]
}

impl TestDirectory {
    pub fn new(program: &str) -> Outcome<Self> {
        let path = std::env::temp_dir().join(format!("kumade-bench-{}", std::process::id()));
        fs::create_dir(&path)?;
        let directory = TestDirectory { path, program: fs::canonicalize(program)? };
        for (name, key) in ["honest.key", "listener.key"].into_iter().zip(Lines::keys()) {
            let file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(directory.path.join(name));
            writeln!(file?, "{}", key.to_hex().as_str())?;
        }
        Ok(directory)
    }

    pub fn start_listener(&self, host: &Namespace) -> Outcome<Child> {
        let mut arguments = vec![format!("--peer={}={HONEST_ADDRESS}", Lines::keys()[0].public_key())];
        for number in 0..HOSTILE_PEERS {
            let [a, b, c, d] = hostile_address(number);
            arguments.push(format!("--peer={}={a}.{b}.{c}.{d}", hostile_key(number).public_key()));
        }
        arguments.extend(TARGET_PORTS.map(|port| format!("--allow=10.1.1.1:{port}")));
        arguments.push("--allow=names.example:80".into());
        arguments.push(format!("--address={LISTENER_ADDRESS}/16"));
        let listener = self.start(host, "listener", &["listen", &PORT.to_string()], &arguments)?;
        wait_until(|| is_listening(host), Duration::from_secs(10))?;
        Ok(listener)
    }

    /// And how long that took.
    pub fn connect_honest(&self, host: &Namespace, patience: Duration) -> Outcome<(Child, Duration)> {
        let arguments = [format!("--peer={}", Lines::keys()[1].public_key()), format!("--address={HONEST_ADDRESS}/16")];
        let honest = self.start(host, "honest", &["connect", &format!("10.1.1.2:{PORT}")], &arguments)?;
        let log = self.path.join("honest.log");
        let connected = wait_until(|| Ok(fs::read_to_string(&log)?.contains(": connected")), patience);
        let taken = connected.map_err(|error| {
            format!("the honest peer does not connect: {error}\n{}", fs::read_to_string(&log).unwrap_or_default())
        })?;
        Ok((honest, taken))
    }

    fn start(&self, host: &Namespace, name: &str, role: &[&str], arguments: &[String]) -> Outcome<Child> {
        let log = File::create(self.path.join(format!("{name}.log")))?;
        let mut command = host.command(&self.program);
        command.arg("tunnel").args(role).args(arguments);
        command.args(["--key".into(), self.path.join(format!("{name}.key"))]);
        command.env("XDG_RUNTIME_DIR", &self.path).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        Ok(command.spawn()?)
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn is_listening(host: &Namespace) -> Outcome<bool> {
    Ok(socket_lines(host)?.lines().any(|line| line.contains(&format!(":{PORT} "))))
}

/// What the listener has in memory that it shares with nobody, and what the kernel holds for the sockets of its host.
pub fn held_bytes(host: &Namespace, listener: &Child) -> Outcome<u64> {
    let sockets = socket_lines(host)?;
    let kernel: u64 = sockets.split("skmem:(").skip(1).map(socket_bytes).sum();
    let text = fs::read_to_string(format!("/proc/{}/smaps_rollup", listener.id()))?;
    let own = text.lines().find_map(|line| line.strip_prefix("Pss:")).ok_or("no Pss in smaps_rollup")?;
    Ok(own.trim().trim_end_matches(" kB").parse::<u64>()? * 1024 + kernel)
}

fn socket_lines(host: &Namespace) -> Outcome<String> {
    let output = host.command("ss").args(["-tuanmHO"]).stderr(Stdio::inherit()).output()?;
    Ok(String::from_utf8(output.stdout)?)
}

/// Of `r0,rb8388608,t0,tb8388608,f0,w0,o0,bl0,d0)`: what waits to be read, to be sent (`w` contains `t`, or that alone is there),
/// what is set aside for either, options, and the backlog.
fn socket_bytes(text: &str) -> u64 {
    let fields = text.split(')').next().unwrap_or_default();
    let value = |name: &str| {
        let values = fields.split(',').filter_map(|field| field.strip_prefix(name)?.parse::<u64>().ok());
        values.sum::<u64>()
    };
    value("r") + value("t").max(value("w")) + value("f") + value("o") + value("bl")
}
