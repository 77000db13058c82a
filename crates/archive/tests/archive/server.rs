//! A PostgreSQL server of its own: in a private directory, as an unprivileged user, since it refuses root.

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Gid, Pid, Uid, chown, geteuid};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// `nobody`, if this is root.
const UNPRIVILEGED: u32 = 65534;

/// How long anything may take on a machine with much other work.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Runs until it is dropped.
pub struct Server {
    directory: PathBuf,
    programs: PathBuf,
    process: Child,
}

impl Server {
    /// None where there is no PostgreSQL.
    pub fn start() -> Option<Self> {
        Self::start_prepared(|_| String::new())
    }

    /// The same with lines of its configuration, and files in its directory, by `prepare`.
    pub fn start_prepared(prepare: impl FnOnce(&Path) -> String) -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let programs = programs()?;
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        // Short: the name of a socket has 107 bytes at most.
        let directory = std::env::temp_dir().join(format!("kumade-postgres-{}-{number}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        give_to_server(&directory);
        let mut initdb = unprivileged(&programs.join("initdb"));
        initdb.args(["--auth=trust", "--username=kumade", "--no-sync", "--encoding=UTF8", "--locale=C", "-D"]);
        let output = initdb.arg(directory.join("data")).current_dir(&directory).output().ok()?;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let lines = format!("listen_addresses = ''\n{}", prepare(&directory));
        let mut file = File::options().append(true).open(directory.join("data/postgresql.conf")).unwrap();
        file.write_all(lines.as_bytes()).unwrap();
        let process = spawn(&programs, &directory);
        let mut server = Server { directory, programs, process };
        server.wait_until_ready();
        Some(server)
    }

    /// Where its socket is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Makes an empty database of a new name.
    pub fn create_database(&self) -> String {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("kumade_{}", COUNT.fetch_add(1, Ordering::Relaxed));
        assert!(self.client("createdb").arg(&name).status().unwrap().success());
        name
    }

    /// To be killed by.
    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.process.id() as i32)
    }

    /// Kills it, and waits until it is gone.
    pub fn kill(&mut self) {
        kill(self.pid(), Signal::SIGKILL).unwrap();
        self.process.wait().unwrap();
    }

    /// Starts it again after it was killed.
    pub fn restart_killed(&mut self) {
        // What kills it may do so a moment later.
        self.process.wait().unwrap();
        self.process = spawn(&self.programs, &self.directory);
        self.wait_until_ready();
    }

    fn wait_until_ready(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        while !self.client("pg_isready").stdout(Stdio::null()).status().unwrap().success() {
            assert!(Instant::now() < deadline, "the server does not answer");
            sleep(Duration::from_millis(50));
            // While processes of a killed one are left, a new one refuses and ends.
            if self.process.try_wait().unwrap().is_some() {
                self.process = spawn(&self.programs, &self.directory);
            }
        }
    }

    fn client(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command.arg("-h").arg(&self.directory).args(["-U", "kumade"]);
        command
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        _ = kill(self.pid(), Signal::SIGQUIT);
        _ = self.process.wait();
        _ = fs::remove_dir_all(&self.directory);
    }
}

fn spawn(programs: &Path, directory: &Path) -> Child {
    let mut postgres = unprivileged(&programs.join("postgres"));
    postgres.arg("-D").arg(directory.join("data")).arg("-k").arg(directory);
    // What a killed process leaves does not depend on it, and nobody waits for a disk.
    postgres.args(["-c", "fsync=off", "-c", "max_connections=20"]);
    postgres.current_dir(directory).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// The user by whom it runs owns it.
pub fn give_to_server(path: &Path) {
    if geteuid().is_root() {
        chown(path, Some(Uid::from_raw(UNPRIVILEGED)), Some(Gid::from_raw(UNPRIVILEGED))).unwrap();
    }
}

fn unprivileged(program: &Path) -> Command {
    if !geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command
        .args([format!("--reuid={UNPRIVILEGED}"), format!("--regid={UNPRIVILEGED}")])
        .arg("--clear-groups")
        .arg(program);
    command
}

fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<_> =
        versions.map(|version| version.path().join("bin")).filter(|bin| bin.join("initdb").exists()).collect();
    found.sort();
    let in_path = || {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).find(|place| place.join("initdb").exists() && place.join("postgres").exists())
    };
    let programs = found.pop().or_else(in_path);
    if programs.is_none() {
        println!("passed over: PostgreSQL is missing");
    }
    programs
}
