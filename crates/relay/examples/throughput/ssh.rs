//! OpenSSH's forwarding of a port (`ssh -L`) over loopback, as what others use.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Both ends; they end with this.
pub struct Forwarding {
    processes: Vec<Child>,
    directory: PathBuf,
    /// Where connections are taken.
    pub address: SocketAddr,
}

const START_TIMEOUT: Duration = Duration::from_secs(10);

impl Forwarding {
    /// Leads to a target.
    ///
    /// # Errors
    /// The programs are not installed, or do not start.
    pub fn start(target: SocketAddr) -> Result<Self, Box<dyn std::error::Error>> {
        let directory = std::env::temp_dir().join(format!("kumade-relay-{}", std::process::id()));
        fs::create_dir(&directory)?;
        let (server, address) = (free_port()?, free_port()?);
        let mut forwarding = Forwarding { processes: Vec::new(), directory, address };
        let (host, user) = (forwarding.key("host")?, forwarding.key("user")?);
        let port = server.port().to_string();
        let options = [
            format!("HostKey={host}"),
            format!("AuthorizedKeysFile={user}.pub"),
            "StrictModes=no".into(),
            "UsePAM=no".into(),
            "PidFile=none".into(),
            "PermitRootLogin=yes".into(),
        ];
        // The daemon refuses to start without the directory of its unprivileged part. Whom that is refused, it runs without.
        let _ = fs::DirBuilder::new().recursive(true).mode(0o755).create("/run/sshd");
        let mut sshd = Command::new("/usr/sbin/sshd");
        sshd.args(["-D", "-f", "/dev/null", "-p", &port]);
        for option in &options {
            sshd.args(["-o", option]);
        }
        forwarding.spawn(sshd)?;
        forwarding.wait_for(server)?;
        let mut ssh = Command::new("ssh");
        ssh.args(["-N", "-F", "none", "-i", &user, "-p", &port, "-L", &format!("{address}:{target}")]);
        for option in ["StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "BatchMode=yes"] {
            ssh.args(["-o", option]);
        }
        ssh.arg("127.0.0.1");
        forwarding.spawn(ssh)?;
        forwarding.wait_for(address)?;
        Ok(forwarding)
    }

    fn key(&self, name: &str) -> Result<String, Box<dyn std::error::Error>> {
        let file = self.directory.join(name).display().to_string();
        let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f", &file]).status()?;
        if made.success() { Ok(file) } else { Err("ssh-keygen failed".into()) }
    }

    fn spawn(&mut self, mut command: Command) -> std::io::Result<()> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.processes.push(command.spawn()?);
        Ok(())
    }

    /// Until something listens there. A connection to find out would go on to the target.
    fn wait_for(&self, address: SocketAddr) -> Result<(), Box<dyn std::error::Error>> {
        let end = Instant::now() + START_TIMEOUT;
        let listens = format!(":{:04X} 00000000:0000 0A", address.port());
        while !fs::read_to_string("/proc/net/tcp")?.contains(&listens) {
            if Instant::now() > end {
                return Err(format!("nothing listens at {address} after {START_TIMEOUT:?}").into());
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}

impl Drop for Forwarding {
    fn drop(&mut self) {
        for process in &mut self.processes {
            // It may have ended by itself.
            let _ = process.kill();
            let _ = process.wait();
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn free_port() -> std::io::Result<SocketAddr> {
    TcpListener::bind("127.0.0.1:0")?.local_addr()
}
